"""The `MultiArchBuild`s of a pool against a cluster in memory: shown, superseded, told of, and collected."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.adapters.builders.job import MultiArchBuilds
from reconciler.core.model import Arch
from reconciler.errors import ClusterError, Conflict
from reconciler.ports.cluster import ArchReport, BuildState, Kind, PoolReport
from tests.adapters.builders.job.support import INPUT, NAMESPACE, WORK, Cluster, request

IMAGE = "r.example.com/os/worker@sha256:" + "a" * 64
COMMIT = "c" * 40
NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
DAY = 86400.0
POOL = Kind(
    "machineconfiguration.openshift.io", "v1", "machineconfigpools", "MachineConfigPool", namespaced=False
)
JOB_NAME = "build-worker-arm64-1111111111-1"
AMD64 = ArchReport(Arch.AMD64, BuildState.SUCCEEDED, INPUT, IMAGE)
ARM64 = ArchReport(Arch.ARM64, BuildState.PREPARED, INPUT)
BUILDING = replace(ARM64, state=BuildState.BUILDING, build=JOB_NAME, started=NOW)
DONE = replace(BUILDING, state=BuildState.SUCCEEDED, image=IMAGE, finished=NOW + 60)
FAILED = replace(
    BUILDING,
    state=BuildState.FAILED,
    cause="definition",
    message="STEP 2/2: RUN false failed\nboom",
    finished=NOW + 60,
)


def report(arm64: ArchReport = ARM64, state: BuildState | None = None, **fields: Any) -> PoolReport:
    values: dict[str, Any] = {
        "pool": "worker",
        "work": WORK,
        "commit": COMMIT,
        "plan": INPUT,
        "architectures": (AMD64, arm64),
        "state": state or arm64.state,
    }
    return PoolReport(**values | fields)


@pytest.fixture
def reporter(cluster: Cluster) -> MultiArchBuilds:
    cluster.clock.time = NOW
    return MultiArchBuilds(cluster.api, cluster.clock, NAMESPACE)


def events(cluster: Cluster) -> list[tuple[str, str, str]]:
    return [
        (found["type"], found["reason"], found["message"])
        for (plural, *_), found in cluster.api.objects.items()
        if plural == "events"
    ]


def true(work: dict[str, Any]) -> list[str]:
    return [each["type"] for each in work["status"]["conditions"] if each["status"] == "True"]


def written(cluster: Cluster) -> list[tuple[str, str]]:
    return [(verb, plural) for verb, plural, _ in cluster.api.asked if verb not in ("get", "list")]


def test_a_new_work_is_shown_whole(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    cluster.api.create(POOL, {"metadata": {"name": "worker"}})
    reporter.report(report())
    work = cluster.api.one("multiarchbuilds")
    assert work["spec"] == {
        "pool": "worker",
        "sourceCommit": COMMIT,
        "plan": INPUT,
        "architectures": [{"arch": "amd64", "input": INPUT}, {"arch": "arm64", "input": INPUT}],
    }
    (owner,) = work["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["blockOwnerDeletion"]) == (
        "MachineConfigPool",
        "worker",
        False,
    )
    conditions = work["status"].pop("conditions")
    assert work["status"] == {
        "state": "Prepared",
        "progress": "1/2",
        "observedGeneration": 1,
        "architectures": [
            {"arch": "amd64", "phase": "Succeeded", "image": IMAGE, "input": INPUT},
            {"arch": "arm64", "phase": "Prepared", "input": INPUT},
        ],
    }
    assert [(each["type"], each["status"], each["reason"]) for each in conditions] == [
        ("Prepared", "True", "Prepared"),
        ("Building", "False", "Building"),
        ("Failed", "False", "Failed"),
        ("Interrupted", "False", "Interrupted"),
        ("Succeeded", "False", "Ready"),
        ("Ready", "False", "Prepared"),
    ]
    assert {each["lastTransitionTime"] for each in conditions} == {"2026-01-01T00:00:00Z"}


def test_what_is_right_is_left_alone(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    reporter.report(report(BUILDING))
    cluster.api.asked.clear()
    cluster.clock.time += 3600
    reporter.report(report(BUILDING))
    MultiArchBuilds(cluster.api, cluster.clock, NAMESPACE).report(report(BUILDING, commit="d" * 40))
    assert written(cluster) == []


def test_what_others_changed_is_put_right(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    reporter.report(report(BUILDING))
    work = cluster.api.one("multiarchbuilds")
    before = dict(work["status"])
    work["status"] |= {"state": "Succeeded", "image": "forged", "failures": [{"job": "x"}]}
    reporter.report(report(BUILDING))
    assert work["status"] == before | {"failures": [{"job": "x"}]}


def test_a_build_goes_its_way(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    reporter.report(report())
    work = cluster.api.one("multiarchbuilds")
    cluster.clock.time += 10
    reporter.report(report(BUILDING))
    assert true(work) == ["Building"]
    since = {each["type"]: each["lastTransitionTime"] for each in work["status"]["conditions"]}
    assert since["Building"] == since["Prepared"] == "2026-01-01T00:00:10Z"
    assert since["Failed"] == "2026-01-01T00:00:00Z"
    # All images are there, but the commit that says so is not yet: the pool still builds.
    reporter.report(report(DONE, BuildState.BUILDING, image="r.example.com/os/worker@sha256:old"))
    assert (work["status"]["progress"], "image" in work["status"]) == ("2/2", False)
    reporter.report(report(DONE, image=IMAGE))
    assert true(work) == ["Succeeded", "Ready"]
    assert work["status"]["image"] == IMAGE
    assert (work["status"]["startTime"], work["status"]["completionTime"]) == (
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:01:00Z",
    )
    assert events(cluster) == [
        ("Normal", "BuildStarted", f"arm64: {JOB_NAME} builds"),
        ("Normal", "BuildSucceeded", f"arm64: {JOB_NAME} built {IMAGE}"),
    ]


def test_a_failure_is_told_with_its_log(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    reporter.report(report(BUILDING))
    reporter.report(report(FAILED))
    work = cluster.api.one("multiarchbuilds")
    assert true(work) == ["Failed", "Stalled"]
    ready = next(each for each in work["status"]["conditions"] if each["type"] == "Ready")
    assert ready["message"] == "Build Failed: arm64: STEP 2/2: RUN false failed"
    assert work["status"]["architectures"][1]["message"] == FAILED.message
    assert events(cluster)[-1] == (
        "Warning",
        "BuildFailed",
        f"arm64: {JOB_NAME} failed: STEP 2/2: RUN false failed\nboom",
    )
    reporter.report(report(replace(BUILDING, build=JOB_NAME[:-1] + "2")))
    assert true(work) == ["Building"]
    assert events(cluster)[-1][1] == "BuildStarted"


BLOCKED = replace(
    ARM64,
    build=JOB_NAME,
    cause="missing",
    message="the Secret push is missing in namespace builds (create it)",
    finished=NOW + 60,
)


@pytest.mark.parametrize("blocked", [BLOCKED, replace(ARM64, message="no node of arm64 can take a build")])
def test_what_must_be_supplied_is_told_until_it_is(
    cluster: Cluster, reporter: MultiArchBuilds, blocked: ArchReport
) -> None:
    reporter.report(report(blocked))
    work = cluster.api.one("multiarchbuilds")
    assert work["status"]["state"] == "Blocked"
    assert true(work) == ["Prepared", "Stalled"]
    told = f"Build Prepared and Pending: arm64: {blocked.message}"
    ready = next(each for each in work["status"]["conditions"] if each["type"] == "Ready")
    assert (ready["reason"], ready["message"]) == ("Blocked", told)
    event = ("Warning", "BuildBlocked", f"arm64: {blocked.message}")
    assert events(cluster) == [event]
    # It was looked for again, in vain.
    reporter.report(report(replace(ARM64, build=JOB_NAME[:-1] + "2")))
    assert (work["status"]["state"], true(work)) == ("Prepared", ["Prepared"])
    reporter.report(report(replace(blocked, build=JOB_NAME[:-1] + "2")))
    assert events(cluster) == [event]
    reporter.report(report(DONE, image=IMAGE))
    assert true(work) == ["Succeeded", "Ready"]


def test_what_waits_for_another_attempt_is_not_blocked(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    waiting = replace(BLOCKED, cause="infrastructure", message="cannot push")
    reporter.report(report(waiting))
    assert cluster.api.one("multiarchbuilds")["status"]["state"] == "Prepared"
    assert events(cluster) == []


def test_a_long_log_fits_an_event_and_keeps_its_end(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    long = replace(FAILED, message="RUN make failed\n" + "x" * 20_000 + "the end")
    reporter.report(report(long))
    ((_, _, message),) = events(cluster)
    assert len(message) == 1024
    assert message.startswith(f"arm64: {JOB_NAME} failed: RUN make failed\n…x")
    assert message.endswith("the end")
    held = cluster.api.one("multiarchbuilds")["status"]["architectures"][1]["message"]
    assert (len(held), held[-7:]) == (8192, "the end")


def test_what_was_told_before_a_crash_is_not_told_again(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    class Killed(BaseException):
        pass

    def strike(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("patch", "multiarchbuilds"):
            raise Killed(name)

    reporter.report(report())
    cluster.api.before = strike
    with pytest.raises(Killed):
        reporter.report(report(BUILDING))
    cluster.api.before = lambda *_: None
    cluster.clock.time += 100
    reporter.report(report(BUILDING))
    assert len(events(cluster)) == 1


def test_other_wishes_interrupt_what_is_unfinished(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    reporter.report(report(BUILDING))
    reporter.report(report(work="worker-2"))
    old, new = cluster.api.one("multiarchbuilds", WORK), cluster.api.one("multiarchbuilds", "worker-2")
    assert (true(old), true(new)) == (["Interrupted"], ["Prepared"])
    assert old["status"]["architectures"][1]["phase"] == "Interrupted"
    assert ("Normal", "BuildInterrupted", "Superseded by worker-2") in events(cluster)
    # Somebody takes the change back.
    reporter.report(report(BUILDING))
    assert (true(old), true(new)) == (["Building"], ["Interrupted"])


def test_what_has_ended_is_not_interrupted(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    reporter.report(report(FAILED))
    reporter.report(report(work="worker-2"))
    assert true(cluster.api.one("multiarchbuilds", WORK)) == ["Failed", "Stalled"]


def test_another_pools_work_is_left_alone(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    reporter.report(report(BUILDING))
    reporter.report(report(BUILDING, pool="infra", work="infra-1"))
    assert true(cluster.api.one("multiarchbuilds", WORK)) == ["Building"]


@pytest.mark.parametrize(
    "quiet",
    [report(work=""), report(DONE, image=IMAGE), report(architectures=(), state=BuildState.SUCCEEDED)],
)
def test_where_nothing_is_built_nothing_is_shown(
    cluster: Cluster, reporter: MultiArchBuilds, quiet: PoolReport
) -> None:
    reporter.report(quiet)
    assert written(cluster) == []


def test_somebody_elses_is_not_touched(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    cluster.work()["metadata"]["labels"]["reconciler.machineos.dev/instance"] = "west"
    before = str(cluster.api.objects)
    with pytest.raises(ClusterError, match=f"{NAMESPACE}/{WORK} is not pool worker's"):
        reporter.report(report())
    assert str(cluster.api.objects) == before


def test_a_conflict_is_told_so_that_the_next_pass_looks_again(
    cluster: Cluster, reporter: MultiArchBuilds
) -> None:
    reporter.report(report())

    def somebody(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("patch", "multiarchbuilds"):
            cluster.api.one(plural, name)["metadata"]["resourceVersion"] = "another"

    cluster.api.before = somebody
    with pytest.raises(Conflict):
        reporter.report(report(BUILDING))
    cluster.api.before = lambda *_: None
    reporter.report(report(BUILDING))
    assert true(cluster.api.one("multiarchbuilds")) == ["Building"]


def test_pools_that_are_gone_are_retired(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    reporter.report(report(BUILDING))
    reporter.report(report(BUILDING, pool="infra", work="infra-1"))
    reporter.keep_only(["worker"])
    assert true(cluster.api.one("multiarchbuilds", WORK)) == ["Building"]
    gone = cluster.api.one("multiarchbuilds", "infra-1")
    assert true(gone) == ["Interrupted"]
    cluster.api.asked.clear()
    reporter.keep_only(["worker"])
    assert written(cluster) == []


# Collecting


def aged(cluster: Cluster, count: int, days: float) -> list[dict[str, Any]]:
    """Works that ended, the oldest first, an hour between two, the newest so many days ago."""
    made = []
    for number in range(count):
        cluster.api.time = datetime.fromtimestamp(NOW - days * DAY - (count - number) * 3600, UTC).isoformat()
        work = cluster.work(f"old-{number}")
        work["status"] = {"state": "Failed"}
        made.append(work)
    cluster.api.time = datetime.fromtimestamp(NOW, UTC).isoformat()
    return made


def test_old_ones_go_but_for_the_newest_five(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    aged(cluster, 7, days=8)
    reporter.report(report())
    assert cluster.api.names("multiarchbuilds") == ("old-3", "old-4", "old-5", "old-6", WORK)


def test_young_ones_stay_however_many(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    aged(cluster, 9, days=6)
    reporter.report(report())
    assert len(cluster.api.names("multiarchbuilds")) == 10


def test_failures_that_count_and_unfinished_jobs_keep_the_old(
    cluster: Cluster, reporter: MultiArchBuilds
) -> None:
    failed, busy, *_ = aged(cluster, 8, days=30)
    failed["status"]["failures"] = [{"job": "x"}]
    cluster.builder().ensure(request(cluster.tree, work=busy["metadata"]["name"]))
    reporter.report(report())
    assert cluster.api.names("multiarchbuilds") == (
        "old-0",
        "old-1",
        "old-4",
        "old-5",
        "old-6",
        "old-7",
        WORK,
    )
    failed["status"]["failures"] = []
    cluster.succeed(JOB_NAME)
    reporter.report(report())
    assert cluster.api.names("multiarchbuilds") == ("old-4", "old-5", "old-6", "old-7", WORK)
    assert cluster.api.names("jobs") == ()


def test_the_current_one_stays_however_old(cluster: Cluster, reporter: MultiArchBuilds) -> None:
    cluster.api.time = datetime.fromtimestamp(NOW - 100 * DAY, UTC).isoformat()
    reporter.report(report())
    aged(cluster, 6, days=20)
    reporter.report(report())
    assert WORK in cluster.api.names("multiarchbuilds")
