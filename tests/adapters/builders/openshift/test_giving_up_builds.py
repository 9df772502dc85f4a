"""Builds as OpenShift's, against a cluster in memory: what takes too long, ended long ago, or is not wanted; and what
OpenShift says of taints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.adapters.builders.job import MultiArchBuilds
from reconciler.adapters.builders.openshift import BUILDS, overrides
from reconciler.adapters.builders.openshift.limits import Overrides
from reconciler.core.model import Arch, Needs
from reconciler.ports import BuildRequest, Cause, Phase
from reconciler.ports.cluster import ArchReport, BuildState, Kind, PoolReport
from reconciler.settings import Toleration
from tests.adapters.builders.job.support import INPUT, NAME, NAMESPACE, WORK
from tests.adapters.builders.openshift.support import (
    CREATED,
    OpenShift,
    only,
)

OVERDUE = "reconciler.machineos.dev/overdue"
DISCARDED = "reconciler.machineos.dev/discarded"
DAY = 86400.0


def test_a_deadline_of_the_pod_is_told(cluster: OpenShift, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    cluster.pod(NAME, "Failed", reason="DeadlineExceeded", message="Pod was active too long")
    cluster.told(NAME, "Failed", reason="GenericBuildFailed", logSnippet="STEP 3/9: RUN make")
    assert only(cluster).message == (
        "the build took longer than 7200 s, at: STEP 3/9: RUN make\nSTEP 3/9: RUN make"
    )


def test_a_build_that_waits_too_long_is_cancelled_and_says_why(
    cluster: OpenShift, asked: BuildRequest
) -> None:
    """Its own deadline does not run while it has no node."""
    work = cluster.work()
    builder = cluster.builder()
    builder.ensure(asked)
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/4 nodes are available: 4 had untolerated taints.",
    }
    cluster.told(NAME, "Pending")
    cluster.pod(NAME, "Pending", conditions=[unschedulable])
    cluster.clock.time = CREATED + 7200
    assert [b.phase for b in builder.builds()] == [Phase.PENDING]
    assert "cancelled" not in cluster.api.one("builds")["status"]
    cluster.clock.time = CREATED + 7200 + 61
    builder.builds()
    assert cluster.api.one("builds")["status"]["cancelled"] is True
    build = only(cluster)  # whether or not there is a controller to obey
    assert (build.phase, build.cause, build.finished) == (Phase.FAILED, Cause.INFRASTRUCTURE, CREATED + 7200)
    assert build.message == (
        "the build took longer than 7200 s, at: waiting for a node: "
        "0/4 nodes are available: 4 had untolerated taints."
    )
    cluster.told(NAME, "Cancelled", cancelled=True, reason="CancelledBuild")
    assert only(cluster).message == build.message
    assert dict(build.annotations) == asked.annotations
    assert [entry["cause"] for entry in work["status"]["failures"]] == ["infrastructure"]


def test_what_ended_long_ago_is_deleted_and_its_failure_kept(cluster: OpenShift, asked: BuildRequest) -> None:
    cluster.work()
    builder = cluster.builder()
    builder.ensure(asked)
    cluster.fail(NAME)
    cluster.clock.time = CREATED + 600 + 2 * DAY - 1
    builder.builds()
    builder.builds()
    assert cluster.api.names("builds") == (NAME,)
    cluster.clock.time += 10
    (build,) = builder.builds()
    assert cluster.api.names("builds") == ()
    assert only(cluster) == replace(build, log="")


def test_a_failure_that_is_not_written_down_keeps_its_build(cluster: OpenShift, asked: BuildRequest) -> None:
    cluster.work()
    cluster.builder().ensure(asked)
    cluster.fail(NAME)
    cluster.clock.time = CREATED + 9 * DAY

    def somebody(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("patch", "multiarchbuilds"):
            cluster.api.one(plural, name)["metadata"]["resourceVersion"] = "another"

    cluster.api.before = somebody
    cluster.builder().builds()
    assert cluster.api.names("builds") == (NAME,)
    cluster.api.before = lambda *_: None
    cluster.builder().builds()
    cluster.builder().builds()
    assert cluster.api.names("builds") == ()


@pytest.mark.parametrize("how", ["succeed", "fail"])
def test_without_a_multiarchbuild_it_just_goes(cluster: OpenShift, asked: BuildRequest, how: str) -> None:
    cluster.builder().ensure(asked)
    getattr(cluster, how)(NAME)
    cluster.clock.time = CREATED + 9 * DAY
    cluster.builder().builds()
    assert cluster.api.names("builds") == ()


def test_a_discarded_build_that_runs_is_deleted_with_its_inputs(
    cluster: OpenShift, asked: BuildRequest
) -> None:
    cluster.work()
    builder = cluster.builder()
    builder.ensure(asked)
    builder.discard([NAME])
    assert cluster.api.names("builds") == cluster.api.names("configmaps") == ()


@pytest.mark.parametrize("how", ["succeed", "fail"])
def test_a_discarded_build_that_ended_is_marked_and_may_be_wanted_again(
    cluster: OpenShift, asked: BuildRequest, how: str
) -> None:
    cluster.work()
    builder = cluster.builder()
    builder.ensure(asked)
    getattr(cluster, how)(NAME)
    before = only(cluster)
    builder.discard([NAME])
    assert DISCARDED in cluster.api.one("builds")["metadata"]["annotations"]
    assert builder.builds() == ()
    builder.ensure(asked)
    assert only(cluster) == before


def test_waiting_ends_with_a_build_and_tells_of_it_once(cluster: OpenShift, asked: BuildRequest) -> None:
    builder = cluster.builder()
    builder.ensure(asked)
    assert not builder.wait(0)
    assert [build.name for build in builder.glance()] == [NAME]
    cluster.succeed(NAME)
    assert builder.wait(10)
    assert not builder.wait(0.05)
    builder.close()
    assert cluster.api.names("builds") == (NAME,)


def test_pods_of_others_builds_are_nobodys(cluster: OpenShift, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    cluster.told(NAME, "Pending")
    cluster.pod(NAME, "Pending")
    stranger = cluster.pod(NAME, "Running", "another-build")
    stranger["metadata"]["ownerReferences"][0]["uid"] = "another"
    assert only(cluster).phase is Phase.PENDING


def test_a_multiarchbuild_stays_while_a_build_of_its_runs(cluster: OpenShift, asked: BuildRequest) -> None:
    old = cluster.work()
    cluster.builder().ensure(asked)
    for number in range(6):
        cluster.work(f"worker-{number}")["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    cluster.clock.time = CREATED + 90 * DAY
    reporter = MultiArchBuilds(cluster.api, cluster.clock, NAMESPACE, form=BUILDS)
    pool = PoolReport("worker", "worker-0", "c" * 40, INPUT, (ArchReport(Arch.ARM64, BuildState.BUILDING),))
    reporter.report(pool)
    assert old["metadata"]["name"] in cluster.api.names("multiarchbuilds")
    cluster.succeed(NAME)
    reporter.report(pool)
    assert WORK not in cluster.api.names("multiarchbuilds")


def test_a_refusal_says_where_taints_are_tolerated(cluster: OpenShift) -> None:
    cluster.takes_jobs = frozenset({Arch.AMD64})
    refusal = cluster.builder().refusal(Arch.ARM64, Needs())
    assert refusal is not None
    assert "buildOverrides.tolerations of builds.config.openshift.io/cluster" in refusal.hint
    assert cluster.builder().refusal(Arch.AMD64, Needs()) is None


def test_the_clusters_word_on_where_builds_run(cluster: OpenShift) -> None:
    assert overrides(cluster.api) == Overrides()
    kind = Kind("config.openshift.io", "v1", "builds", "Build", namespaced=False)
    told = [
        {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ]
    spec = {"buildOverrides": {"tolerations": told, "nodeSelector": {"builds": "yes"}}}
    cluster.api.objects.clear()
    cluster.api.create(kind, {"metadata": {"name": "cluster"}, "spec": spec})
    assert overrides(cluster.api) == Overrides(
        (Toleration("kubernetes.io/arch", "Equal", "arm64", "NoSchedule"), Toleration("", "Exists", "", "")),
        (("builds", "yes"),),
    )


def test_an_overdue_mark_is_not_part_of_the_request(cluster: OpenShift, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    cluster.api.one("builds")["metadata"]["annotations"][OVERDUE] = ""
    assert dict(only(cluster).annotations) == asked.annotations
