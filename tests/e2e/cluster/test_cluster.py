"""From a commit to the MachineConfigPool: real scheduler, Jobs that really run buildah, registry, Git."""

from __future__ import annotations

import pytest

from reconciler.core.model import Arch
from tests.e2e.cluster.conftest import Site
from tests.e2e.test_run import edit, reconciled
from tests.e2e.test_run_faults import at_rest
from tests.servers.daemon import DaemonProcess, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.tools]


def arches(site: Site) -> list[str]:
    """Those that the status names."""
    return [entry.arch.value for entry in site.stage.record("worker").architectures]


def test_four_jobs_on_nodes_of_their_own_then_only_what_changed(site: Site) -> None:
    stage = site.stage
    first = stage.tip()
    with DaemonProcess(stage) as daemon:
        reconciled(stage, first)
        at_rest(daemon)
        pods = site.objects("pods", "api/v1")
        nodes = {
            pod["metadata"]["labels"]["reconciler.machineos.dev/arch"]: pod["spec"]["nodeName"]
            for pod in pods
        }
        assert nodes == {arch.value: site.workers.names[arch] for arch in Arch}
        assert arches(site) == [arch.value for arch in Arch]
        record = stage.record("worker")
        wait_for(
            "the annotation", lambda: site.annotations.get("newestImageEquivalentConfig") == record.image
        )
        assert site.annotations["source-commit"] == first
        assert site.annotations["build-state"] == "Succeeded"
        assert site.annotations["architectures"] == "amd64,arm64,ppc64le,s390x"
        (work,) = site.works
        assert (work["status"]["state"], work["status"]["progress"]) == ("Succeeded", "4/4")
        assert work["status"]["image"] == record.image
        jobs = site.jobs
        assert len(jobs) == 4

        # One architecture changes: one Job, and the others' images stay.
        second = edit(stage)
        reconciled(stage, second)
        at_rest(daemon)
        (new,) = set(site.jobs) - set(jobs)
        assert new.startswith("build-worker-arm64-")
        after = stage.record("worker")
        same = [e.image for e in after.architectures if e.arch is not Arch.ARM64]
        assert same == [e.image for e in record.architectures if e.arch is not Arch.ARM64]
        wait_for("the annotation", lambda: site.annotations["newestImageEquivalentConfig"] == after.image)

        # A comment: none.
        jobs, tip = site.jobs, stage.tip()
        file = stage.work / "pools/worker/Containerfile"
        file.write_text(f"# why\n{file.read_text()}")
        third = stage.commit("Say why")
        daemon.wait_for_event("planned", 3)
        daemon.polled()
        at_rest(daemon)
        assert site.jobs == jobs
        assert stage.git("rev-parse", f"{third}~1") == tip
        assert stage.tip() == third
        assert daemon.stop() == 0


def test_a_new_architecture_builds_alone_and_one_that_leaves_keeps_its_image(site: Site) -> None:
    stage = site.stage
    for arch in (Arch.ARM64, Arch.PPC64LE, Arch.S390X):
        site.leave(arch)
    with DaemonProcess(stage) as daemon:
        reconciled(stage, stage.tip())
        at_rest(daemon)
        assert arches(site) == ["amd64"]
        assert [name.rsplit("-", 3)[1] for name in site.jobs] == ["amd64"], "one Job for a pool of one kind"
        site.join(Arch.S390X)
        wait_for("the new architecture", lambda: arches(site) == ["amd64", "s390x"])
        at_rest(daemon)
        assert len(site.jobs) == 2
        wait_for("its annotation", lambda: site.annotations["architectures"] == "amd64,s390x")
        listed = site.plane.api.get(
            f"/api/v1/namespaces/{site.namespace}/configmaps/machine-os-architectures"
        )
        assert listed["data"] == {"worker": "amd64,s390x"}

        site.leave(Arch.S390X)
        wait_for("its annotation", lambda: site.annotations["architectures"] == "amd64")
        old = stage.record("worker").architectures[1]
        file = stage.work / "pools/worker/Containerfile"
        file.write_text(f"{file.read_text()}LABEL x=y\n")
        commit = stage.commit("Change all")
        reconciled(stage, commit)
        assert stage.record("worker").architectures[1] == old
        assert stage.record("worker").architectures[0].source_commit == commit
        assert len(site.jobs) == 3
        said = stage.reconciler("status", "--config", str(stage.config))
        assert "stale" in said.out
        site.join(Arch.S390X)
        wait_for("it to be built", lambda: stage.record("worker").architectures[1].source_commit == commit)
        at_rest(daemon)
        assert len(site.jobs) == 4
        assert daemon.stop() == 0


def test_a_failure_reaches_people(site: Site) -> None:
    stage = site.stage
    for arch in (Arch.ARM64, Arch.PPC64LE, Arch.S390X):
        site.leave(arch)
    file = stage.work / "pools/worker/Containerfile"
    good = file.read_text()
    file.write_text(f'{good}RUN ["/no/such/program"]\n')
    stage.commit("Break it")
    with DaemonProcess(stage) as daemon:
        wait_for("the failure", lambda: site.annotations.get("build-state") == "Failed")
        said = stage.reconciler("status", "--config", str(stage.config))
        assert said.status == 1
        assert "failed" in said.out
        assert "/no/such/program" in said.out
        assert f"kubectl -n {site.namespace} logs job/" in said.err
        told = [e["message"] for e in site.objects("events", "api/v1") if e["reason"] == "BuildFailed"]
        assert len(told) == 1
        assert "/no/such/program" in told[0]
        (work,) = site.works
        assert "/no/such/program" in work["status"]["architectures"][0]["message"]
        jobs = site.jobs
        daemon.polled(3)
        assert site.jobs == jobs, "it is tried once"
        # Another daemon, and no Job any more: the MultiArchBuild remembers.
        assert daemon.stop() == 0
        for name in jobs:
            site.plane.api.delete(f"/apis/batch/v1/namespaces/{site.namespace}/jobs/{name}")
        wait_for("no Job", lambda: not site.jobs)
    with DaemonProcess(stage) as daemon:
        wait_for("the failure", lambda: daemon.events("build failed"))
        daemon.polled(3)
        assert site.jobs == []
        file.write_text(good)
        commit = stage.commit("Mend it")
        reconciled(stage, commit)
        at_rest(daemon)
        assert site.annotations["build-state"] == "Succeeded"
        assert daemon.stop() == 0


def test_images_are_built_to_staging_and_published_where_the_pool_says(site: Site) -> None:
    stage = site.stage
    for arch in (Arch.ARM64, Arch.PPC64LE, Arch.S390X):
        site.leave(arch)
    site.configure(job=f", staging: {stage.host}/staging/os")
    said = stage.once()
    assert said.status == 0, said
    assert "1 built, 0 reused" in said.out
    record = stage.record("worker")
    assert record.architectures[0].image.startswith(f"{stage.host}/os/worker@sha256:")
    pushed = stage.pushed_images()
    assert [tag for tag in pushed if tag.startswith("worker-amd64-")], "a build pushes there"
    assert site.jobs[0].startswith("build-worker-amd64-")
    again = stage.once()
    assert (again.status, len(site.jobs)) == (0, 1)
    assert "0 built, 1 reused" in again.out
