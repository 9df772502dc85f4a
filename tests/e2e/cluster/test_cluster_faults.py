"""A cluster that fails, and daemons that fail on it: rows 1, 11 to 14, 16, 18 and 23 of the fault matrix, and a Job
whose image is gone, on the real API server.

Row 15, an evicted pod, is in `tests/adapters/builders/job/test_cluster.py`. Events that come late, twice or not at all
are in `tests/adapters/cluster/test_watching.py`, against a server that can be told to.
"""

from __future__ import annotations

import signal
import time
from collections import Counter

import httpx
import pytest

from reconciler.core.model import Arch
from tests.e2e.cluster.conftest import POOLS, Site
from tests.e2e.test_run import edit, reconciled
from tests.e2e.test_run_faults import at_rest, complaints
from tests.servers.daemon import DaemonProcess, wait_for
from tests.servers.faults import HALF_OPEN, RESET, Action, Answer, DropReply, Fault, Refuse

pytestmark = [pytest.mark.cluster, pytest.mark.tools]

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture
def small(site: Site) -> Site:
    """One architecture only."""
    for arch in (Arch.ARM64, Arch.PPC64LE, Arch.S390X):
        site.leave(arch)
    return site


def pushes(site: Site) -> Counter[str]:
    """How often each tag of an architecture's image was pushed."""
    return Counter(tag for tag in site.stage.pushed_images() if tag.startswith("worker-"))


def delivered(site: Site, commit: str) -> None:
    """Wait until the pool says what the status of a commit says."""
    reconciled(site.stage, commit)
    wait_for(
        "the annotation",
        lambda: (
            site.annotations.get("newestImageEquivalentConfig") == site.stage.record("worker").image
            and site.annotations.get("build-state") == "Succeeded"
        ),
    )


# -- row 1


@pytest.mark.timeout(900)
def test_killed_at_every_change_of_the_cluster_the_next_daemon_goes_on(small: Site) -> None:
    stage, number, killed = small.stage, 0, True
    while killed:
        commit = edit(stage, "amd64", f"round={number}\n")
        jobs = len(small.jobs)
        with DaemonProcess(stage, module=("tests.e2e.failing_daemon", "kill-at-api", str(number))) as daemon:

            def ended(daemon: DaemonProcess = daemon, commit: str = commit) -> str:
                if daemon.poll() is not None:
                    return "killed"
                try:
                    record = stage.record("worker")
                except RuntimeError:
                    return ""
                done = record.architectures[0].source_commit == commit
                shown = small.annotations.get("newestImageEquivalentConfig") == record.image
                return "done" if done and shown and small.works[-1]["status"]["state"] == "Succeeded" else ""

            killed = wait_for("the kill, or the end", ended) == "killed"
        with DaemonProcess(stage):
            delivered(small, commit)
        assert len(small.jobs) == jobs + 1, f"killed at change {number}: {small.jobs}"
        assert max(pushes(small).values()) == 1, f"killed at change {number}"
        number += 1
    assert number > 10, "MultiArchBuild, ConfigMap, Job, statuses, annotations: each before and after"


# -- row 12


def test_two_controllers_make_one_job_for_each_image(site: Site) -> None:
    stage = site.stage
    with DaemonProcess(stage) as one, DaemonProcess(stage.elsewhere()) as two:
        delivered(site, stage.tip())
        for number in range(3):
            one.signal(signal.SIGSTOP)
            commit = edit(stage, "arm64", f"{number}\n")
            delivered(site, commit)
            one.signal(signal.SIGCONT)
            later = edit(stage, "s390x", f"{number}\n")
            delivered(site, later)
        at_rest(one)
        at_rest(two)
        assert (one.poll(), two.poll()) == (None, None)
    inputs = Counter(
        job["metadata"]["annotations"]["reconciler.machineos.dev/input"] for job in site.objects("jobs")
    )
    assert len(inputs) == 4 + 6
    assert set(inputs.values()) == {1}
    assert set(pushes(site).values()) == {1}
    # A daemon that slept may have shown what was true when it fell asleep: that did not last.
    assert site.annotations["newestImageEquivalentConfig"] == stage.record("worker").image


# -- row 13


def test_an_api_server_that_fails_is_waited_for(small: Site) -> None:
    stage = small.stage
    with small.plane.proxy() as proxy:
        small.configure(server=f"https://{proxy.host}")
        with DaemonProcess(stage) as daemon:
            delivered(small, stage.tip())
            at_rest(daemon)
            faults: tuple[Fault | Answer, ...] = (Refuse(), Answer(500), Answer(429), RESET, HALF_OPEN)
            for number, fault in enumerate(faults):
                jobs, count, begun = len(small.jobs), len(proxy.requests()), time.monotonic()
                if isinstance(fault, Answer):
                    proxy.on(fault, times=None)
                else:
                    proxy.fault = fault
                commit = edit(stage, "amd64", f"{number}\n")
                wait_for("a complaint", lambda: complaints(daemon), 120)
                assert daemon.get("/healthz") == "ok", fault
                seconds = time.monotonic() - begun
                assert len(proxy.requests()) - count <= 60 + 20 * seconds, fault
                assert len(small.jobs) == jobs
                proxy.heal()
                delivered(small, commit)
                assert len(small.jobs) == jobs + 1, fault
            assert not daemon.events("met a bug")
            assert daemon.stop() == 0


# -- row 11


def test_an_answer_that_is_lost_leads_to_no_second_job(small: Site) -> None:
    stage = small.stage
    with small.plane.proxy() as proxy:
        small.configure(server=f"https://{proxy.host}")
        for path in ("/jobs", "/multiarchbuilds", "/configmaps"):
            proxy.on(DropReply(), "POST", path)
        with DaemonProcess(stage) as daemon:
            delivered(small, stage.tip())
            assert len(small.jobs) == 1
            assert small.jobs[0].endswith("-1")
            assert len(small.works) == 1
            assert sum(pushes(small).values()) == 1
            assert daemon.stop() == 0


# -- row 14


@pytest.mark.parametrize("fault", [Answer(410), HALF_OPEN], ids=["410", "half-open"])
def test_watches_that_fail_cost_time_and_nothing_else(small: Site, fault: Action) -> None:
    stage = small.stage
    with small.plane.proxy() as proxy:
        small.configure(server=f"https://{proxy.host}")
        proxy.on(fault, "GET", "watch=true", times=None)
        with DaemonProcess(stage) as daemon:
            delivered(small, stage.tip())
            small.join(Arch.S390X)
            wait_for("the new architecture", lambda: len(stage.record("worker").architectures) == 2, 150)
            assert len(small.jobs) == 2
            assert daemon.stop() == 0


# -- row 18


@pytest.mark.parametrize("message", ["sha256:" + "0" * 64, "x" * 4000, ""], ids=["forged", "long", "empty"])
def test_what_a_pod_says_of_its_image_decides_nothing(small: Site, message: str) -> None:
    stage = small.stage
    with DaemonProcess(stage) as daemon:
        (job,) = wait_for("the Job", lambda: small.jobs)
        daemon.signal(signal.SIGSTOP)
        wait_for(
            "its end", lambda: _is_complete(small, f"/apis/batch/v1/namespaces/{small.namespace}/jobs/{job}")
        )
        (pod,) = small.objects("pods", "api/v1")
        state = pod["status"]["containerStatuses"]
        state[0]["state"]["terminated"]["message"] = message
        path = f"/api/v1/namespaces/{small.namespace}/pods/{pod['metadata']['name']}/status"
        small.plane.api.patch(path, {"status": {"containerStatuses": state}})
        daemon.signal(signal.SIGCONT)
        delivered(small, stage.tip())
        digest = stage.record("worker").architectures[0].image.partition("@")[2]
        (tag,) = pushes(small)
        own = f"http://{stage.registry.host}/v2/os/worker/manifests/{tag}"
        answer = httpx.head(own, headers={"Accept": MANIFEST}).raise_for_status()
        assert digest == answer.headers["Docker-Content-Digest"] != message
        assert len(small.jobs) == 1
        assert daemon.stop() == 0


# -- row 16


def test_a_job_that_is_gone_before_its_end_was_seen_costs_no_build(small: Site) -> None:
    stage = small.stage
    with DaemonProcess(stage) as daemon:
        (job,) = wait_for("the Job", lambda: small.jobs)
        daemon.signal(signal.SIGSTOP)
        path = f"/apis/batch/v1/namespaces/{small.namespace}/jobs"
        wait_for("its end", lambda: _is_complete(small, f"{path}/{job}"))
        small.plane.api.delete(f"{path}/{job}")
        wait_for("it to be gone", lambda: not small.jobs)
        daemon.signal(signal.SIGCONT)
        delivered(small, stage.tip())
        assert small.jobs == []
        assert sum(pushes(small).values()) == 1
        assert daemon.stop() == 0


def _is_complete(site: Site, path: str) -> bool:
    conditions = site.plane.api.get(path)["status"].get("conditions", [])
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


def test_a_finished_job_whose_image_is_gone_leads_to_a_new_attempt(small: Site) -> None:
    stage = small.stage
    with DaemonProcess(stage) as daemon:
        delivered(small, stage.tip())
        (first,) = small.jobs
        image = stage.record("worker").architectures[0].image
        tip = stage.tip()
        own = f"http://{stage.registry.host}/v2/os/worker/manifests"
        httpx.delete(f"{own}/{image.partition('@')[2]}").raise_for_status()
        wait_for("another attempt", lambda: len(small.jobs) == 2)
        assert small.jobs == [first, f"{first.rpartition('-')[0]}-2"]
        wait_for(
            "the image",
            lambda: httpx.head(f"{own}/{image.partition('@')[2]}", headers={"Accept": MANIFEST}).is_success,
        )
        at_rest(daemon)
        assert stage.tip() == tip, "the same inputs give the same image"
        assert daemon.stop() == 0


# -- row 23


def test_what_somebody_writes_over_the_annotations_is_put_right_without_a_commit(small: Site) -> None:
    stage = small.stage
    with DaemonProcess(stage) as daemon:
        delivered(small, stage.tip())
        at_rest(daemon)
        tip, right = stage.tip(), small.annotations
        wrong = {
            "machineconfiguration.openshift.io/newestImageEquivalentConfig": "quay.io/else/where@sha256:"
            + "0" * 64,
            "reconciler.machineos.dev/source-commit": None,
            "reconciler.machineos.dev/architectures": "s390x",
        }
        for number in range(20):  # somebody else changes the object all the time, too
            small.plane.api.patch(
                f"{POOLS}/worker", {"metadata": {"annotations": {**wrong, "example.com/n": f"{number}"}}}
            )
        wait_for("the annotations", lambda: {k: v for k, v in small.annotations.items() if k != "n"} == right)
        assert stage.tip() == tip
        assert len(small.jobs) == 1
        assert daemon.stop() == 0


def test_a_suspended_pool_is_left_alone_and_one_that_is_asked_for_tries_again(small: Site) -> None:
    stage = small.stage
    mark = "reconciler.machineos.dev/suspend"
    small.plane.api.patch(f"{POOLS}/worker", {"metadata": {"annotations": {mark: "true"}}})
    file = stage.work / "pools/worker/Containerfile"
    file.write_text(f'{file.read_text()}RUN ["/no/such/program"]\n')
    stage.commit("Break it")
    with DaemonProcess(stage) as daemon:
        daemon.wait_for_event("planned")
        daemon.polled(3)
        assert small.jobs == []
        small.plane.api.patch(f"{POOLS}/worker", {"metadata": {"annotations": {mark: None}}})
        wait_for("the failure", lambda: small.annotations.get("build-state") == "Failed")
        assert len(small.jobs) == 1
        asked = {"metadata": {"annotations": {"reconciler.machineos.dev/requestedAt": "now"}}}
        small.plane.api.patch(f"{POOLS}/worker", asked)
        wait_for("another attempt", lambda: len(small.jobs) == 2)
        assert daemon.stop() == 0
