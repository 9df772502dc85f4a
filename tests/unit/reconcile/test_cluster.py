"""What a cluster's nodes and pools have to do with a pass, and what the cluster is told of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import pytest

from reconciler.core.model import Arch
from reconciler.core.names import work_name
from reconciler.core.plan import Action
from reconciler.errors import ClusterUnavailable, ReconcilerError
from reconciler.ports import Cause
from reconciler.ports.cluster import BuildState, Observation, PoolNodes, PoolReport, ReleaseImages
from reconciler.reconcile.history import History
from reconciler.reconcile.planning import Place, World
from reconciler.reconcile.reconciler import Reconciler, Result
from reconciler.reconcile.state import State
from reconciler.reconcile.targets import Scope
from tests.unit.definitions import mosc
from tests.unit.reconcile.bench import ENGINE, FILES, REPOSITORY, Bench

AMD64, ARM64, S390X = Arch.AMD64, Arch.ARM64, Arch.S390X
STAGING = "registry.local/staging"
UNNAMED = {
    **FILES,
    "reconciler.yaml": "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\n",
}


@dataclass
class FakeCluster:
    """Implements `ports.cluster.Cluster`."""

    pools: dict[str, PoolNodes] = field(default_factory=dict)
    error: ReconcilerError | None = None
    recorded: list[Observation] = field(default_factory=list)
    images: ReleaseImages = ReleaseImages()  # noqa: RUF009  (frozen)
    asked: int = 0
    refusal: ReconcilerError | None = None

    def release_images(self) -> ReleaseImages:
        self.asked += 1
        if isinstance(self.refusal, ReconcilerError):
            raise self.refusal
        return self.images

    def observe(self) -> Observation:
        if self.error:
            raise self.error
        return Observation(dict(self.pools), frozenset(Arch), ("odd",))

    def record(self, observation: Observation) -> None:
        self.recorded.append(observation)


@dataclass
class FakeReporter:
    """Implements `ports.cluster.Reporter`."""

    told: list[PoolReport] = field(default_factory=list)
    kept: list[frozenset[str]] = field(default_factory=list)
    broken: str = ""

    def report(self, pool: PoolReport) -> None:
        if pool.pool == self.broken:
            raise ClusterUnavailable("away")
        self.told.append(pool)

    def keep_only(self, pools: Collection[str]) -> None:
        self.kept.append(frozenset(pools))


class Site(Bench):
    """A bench with a cluster, over one daemon's life."""

    def __init__(self, *present: Arch, keep: bool = True, staging: str = "") -> None:
        super().__init__()
        self.commit(UNNAMED)
        self.cluster = FakeCluster()
        self.reporter = FakeReporter()
        self.nodes(*present)
        history = History(self.repository, engine=ENGINE)
        self.daemon = Reconciler(
            World(
                repository=self.repository,
                registry=self.registry,
                builder=self.builder,
                clock=self.clock,
                history=history,
                place=Place("main", "main"),
                scope=Scope(fallback=(AMD64, ARM64), keep=keep),
                cluster=self.cluster,
                reporters=(self.reporter,),
                staging=staging,
            )
        )

    def nodes(self, *present: Arch, pool: str = "worker") -> None:
        """Let a pool have nodes of these architectures."""
        self.cluster.pools[pool] = PoolNodes(present)

    def passes(self) -> Result:
        """Passes of the daemon until nothing is in flight."""
        while (result := self.daemon.run_pass(thorough=False)).in_flight:
            self.end_builds()
        return result


def cells(result: Result) -> dict[str, str]:
    """Each architecture's action."""
    return {cell.arch.value: cell.action.value for pool in result.plan.pools for cell in pool.cells}


# -- whose architectures


def test_nodes_say_which_architectures_a_pool_has() -> None:
    site = Site(S390X)
    site.push_base("all")  # has no s390x
    assert cells(site.daemon.run_pass()) == {"s390x": "blocked"}
    site.nodes(ARM64)
    site.passes()
    assert list(site.images()) == ["arm64"]
    assert site.started == 1


def test_a_definition_that_names_them_counts_more() -> None:
    site = Site(AMD64)
    named = mosc("worker", annotations='reconciler.machineos.dev/architectures: "arm64"')
    site.commit({**UNNAMED, "p/os.yaml": named})
    site.passes()
    assert list(site.images()) == ["arm64"]


def test_a_pool_without_nodes_is_built_for_what_the_configuration_says() -> None:
    site = Site()
    site.passes()
    assert list(site.images()) == ["amd64", "arm64"]


def test_an_architecture_that_appears_builds_alone() -> None:
    site = Site(AMD64)
    site.passes()
    before = site.images()
    site.nodes(AMD64, ARM64)
    site.passes()
    assert site.started == 2
    assert site.images()["amd64"] == before["amd64"]


def test_one_that_vanishes_keeps_its_image_and_holds_up_nobody() -> None:
    site = Site(AMD64, ARM64)
    site.passes()
    before = site.images()
    site.nodes(AMD64)
    site.commit({**UNNAMED, "p/files/amd64/x": "y", "p/files/arm64/x": "y"})
    result = site.passes()
    assert site.started == 3
    assert site.images()["arm64"] == before["arm64"]
    assert site.images()["amd64"] != before["amd64"]
    assert {image.arch: image.state for image in result.images} == {
        AMD64: State.CURRENT,
        ARM64: State.STALE,
    }
    assert result.sound
    site.nodes(AMD64, ARM64)
    site.passes()
    assert site.started == 4
    assert site.images()["arm64"] != before["arm64"]


def test_one_that_vanishes_is_dropped_where_the_policy_says_so() -> None:
    site = Site(AMD64, ARM64, keep=False)
    site.passes()
    site.nodes(AMD64)
    result = site.passes()
    assert cells(result) == {"amd64": "reuse", "arm64": "drop"}
    assert list(site.images()) == ["amd64"]
    assert site.started == 2


def test_one_that_vanished_with_its_image_is_built_for_nobody() -> None:
    site = Site(AMD64, ARM64)
    site.passes()
    digest = site.images()["arm64"].partition("@")[2]
    for key, manifest in list(site.registry.manifests.items()):
        if manifest.digest == digest:
            del site.registry.manifests[key]
    site.nodes(AMD64)
    result = site.daemon.run_pass()
    assert cells(result)["arm64"] == "drop"
    assert site.started == 2


def test_a_pool_that_is_suspended_on_the_cluster_is_left_alone() -> None:
    site = Site(AMD64)
    site.cluster.pools["worker"] = PoolNodes((AMD64,), suspended=True)
    result = site.daemon.run_pass()
    assert cells(result) == {}
    assert "suspended by its MachineConfigPool" in result.plan.pools[0].warnings[0].message


def test_asking_on_the_pool_has_a_failed_build_tried_again_once() -> None:
    site = Site(AMD64)
    site.daemon.run_pass()
    (first,) = site.builder.known
    site.builder.end(first, cause=Cause.DEFINITION)
    for _ in range(3):
        site.daemon.run_pass()
    assert site.started == 1
    site.cluster.pools["worker"] = PoolNodes((AMD64,), requested="now")
    for _ in range(3):
        site.daemon.run_pass()
    assert site.started == 2


def test_without_the_cluster_nothing_is_concluded() -> None:
    site = Site(AMD64)
    site.cluster.error = ClusterUnavailable("away")
    with pytest.raises(ClusterUnavailable):
        site.daemon.run_pass()
    assert site.started == 0


def test_what_is_odd_there_is_told() -> None:
    assert any(fault.message == "odd" for fault in Site(AMD64).daemon.run_pass().warnings)


# -- reports


def test_a_report_comes_before_its_builds_and_names_them() -> None:
    site = Site(AMD64, ARM64)
    known: list[int] = []
    inner = site.reporter.report

    def report(pool: PoolReport) -> None:
        known.append(site.started)
        inner(pool)

    site.reporter.report = report  # type: ignore[method-assign]
    result = site.daemon.run_pass()
    assert known[0] == 0
    first = site.reporter.told[0]
    assert [image.state for image in first.architectures] == [BuildState.PREPARED] * 2
    assert {request.work for request in site.builder.requests.values()} == {first.work}
    inputs = {cell.arch: cell.input or "" for cell in result.plan.pools[0].cells}
    assert first.work == work_name("worker", inputs)


def test_reports_follow_the_builds_to_the_end() -> None:
    site = Site(AMD64, ARM64)
    site.passes()
    states = [report.state for report in site.reporter.told]
    assert states[0] is BuildState.PREPARED
    assert states[-1] is BuildState.SUCCEEDED
    last = site.reporter.told[-1]
    assert last.image.startswith(f"{REPOSITORY}@sha256:")
    assert all(image.build for image in last.architectures)
    assert last.source_commit == last.commit


def test_the_same_is_not_told_twice_unless_everything_is_looked_at_again() -> None:
    site = Site(AMD64)
    site.passes()
    told = len(site.reporter.told)
    for _ in range(3):
        site.daemon.run_pass(thorough=False)
    assert len(site.reporter.told) == told
    assert len(site.reporter.kept) == 1
    site.daemon.run_pass()
    assert len(site.reporter.told) == told + 1
    assert site.reporter.kept == [frozenset({"worker"})] * 2


def test_a_report_that_fails_stops_no_other_pool_and_is_made_again() -> None:
    site = Site(AMD64)
    other = {path.replace("p/", "q/"): text for path, text in UNNAMED.items() if path.startswith("p/")}
    site.commit({**UNNAMED, **other, "q/os.yaml": mosc("infra")})
    site.nodes(AMD64, pool="infra")
    site.reporter.broken = "infra"
    result = site.passes()
    assert any(isinstance(problem, ClusterUnavailable) for problem in result.problems)
    assert {report.pool for report in site.reporter.told} == {"worker"}
    assert result.written.records == () or site.images()
    site.reporter.broken = ""
    site.daemon.run_pass(thorough=False)
    assert site.reporter.told[-1].pool == "infra"


def test_a_failure_and_a_blocked_image_are_told_with_their_reasons() -> None:
    site = Site(AMD64, S390X)
    site.daemon.run_pass()
    (name,) = site.builder.known
    site.builder.end(name, cause=Cause.DEFINITION)
    site.builder.known[name] = replace(site.builder.known[name], message="no such file")
    site.daemon.run_pass()
    amd64, s390x = site.reporter.told[-1].architectures
    assert (amd64.state, amd64.cause, amd64.message) == (BuildState.FAILED, "definition", "no such file")
    assert s390x.state is BuildState.PREPARED
    assert "files/s390x" in s390x.message


def test_another_instances_record_is_not_delivered() -> None:
    site = Site(AMD64)
    site.passes()
    mine = site.repository.commits[-1]["status/worker.yaml"]
    assert isinstance(mine, bytes)
    site.repository.add(
        {**site.repository.commits[-1], "status/worker.yaml": mine.replace(b"default", b"theirs")}
    )
    result = site.daemon.run_pass()
    assert result.plan.summary[Action.BLOCKED] == 1
    assert site.reporter.told[-1].image == ""


# -- staging


def test_images_are_built_to_staging_and_published_in_the_pools_repository() -> None:
    site = Site(AMD64, ARM64, staging=STAGING)
    site.passes()
    assert {request.image.partition(":")[0] for request in site.builder.requests.values()} == {STAGING}
    assert {image.partition("@")[0] for image in site.images().values()} == {REPOSITORY}
    for image in site.images().values():
        assert (REPOSITORY, image.partition("@")[2]) in site.registry.manifests
    started = site.started
    assert site.daemon.run_pass().sound
    assert site.started == started
