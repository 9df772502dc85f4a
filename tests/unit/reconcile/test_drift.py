"""Four ways in which the world can differ from the record: each is told in one line, and put right where it is ours.
And what nobody but the images themselves can have delivered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import yaml

from reconciler.core.delivery import machine_config
from reconciler.core.model import Arch
from reconciler.core.status import PoolRecord, read_status, write_status
from reconciler.ports.cluster import NodeImage, PoolNodes, PoolReport, PoolRollout
from reconciler.reconcile.history import History
from reconciler.reconcile.planning import Place, World
from reconciler.reconcile.reconciler import Reconciler, Result, Survey
from reconciler.reconcile.state import State, Where
from reconciler.reconcile.targets import Scope
from tests.unit.reconcile.bench import ENGINE, FILES, REPOSITORY, Bench
from tests.unit.reconcile.test_cluster import FakeCluster, FakeReporter

STATUS = "status/worker.yaml"
MANIFEST = "status/manifests/worker.yaml"
EVIL = f"{REPOSITORY}@sha256:{'e' * 64}"


@dataclass
class FakeDelivery(FakeReporter):
    """Implements `ports.cluster.Delivery`: it holds an image per pool, as a cluster does."""

    held: dict[str, str] = field(default_factory=dict)

    def report(self, pool: PoolReport) -> None:
        super().report(pool)
        if pool.image and pool.believed:
            self.held[pool.pool] = pool.image

    def differences(self, pool: PoolReport) -> tuple[str, ...]:
        held = self.held.get(pool.pool)
        return () if held == pool.image else (f"it holds {held}",)


@dataclass
class FakeRollouts:
    """Implements `ports.cluster.Rollouts`."""

    pools: dict[str, PoolRollout] = field(default_factory=dict)

    def look(self, pools: Collection[str]) -> Mapping[str, PoolRollout]:
        return {name: self.pools[name] for name in pools if name in self.pools}


class Site(Bench):
    """A bench whose images reach a cluster with nodes of two architectures, by a daemon."""

    def __init__(self, manifests: str = "manifests", rolls_out: bool = True) -> None:
        super().__init__()
        self.delivery = FakeDelivery()
        self.rollouts = FakeRollouts()
        self.world = World(
            repository=self.repository,
            registry=self.registry,
            builder=self.builder,
            clock=self.clock,
            history=History(self.repository, engine=ENGINE),
            place=Place("main", "main", manifests=manifests),
            scope=Scope(),
            cluster=FakeCluster({"worker": PoolNodes((Arch.AMD64, Arch.ARM64))}),
            reporters=(self.delivery,),
            deliveries=(self.delivery,),
            rollouts=self.rollouts,
            rolls_out=rolls_out,
        )
        self.daemon = Reconciler(self.world)

    def passes(self) -> Result:
        """Passes until nothing is in flight."""
        while (result := self.daemon.run_pass()).in_flight:
            self.end_builds()
        return result

    def look(self) -> Survey:
        """As `reconciler status` does."""
        return Reconciler(replace(self.world, history=History(self.repository, engine=ENGINE))).look()

    def told(self) -> list[tuple[str, str]]:
        """All drifts."""
        return [(drift.where.value, drift.message) for drift in self.look().drifts]

    def file(self, path: str = STATUS) -> bytes:
        """A file at the tip."""
        content = self.repository.commits[-1][path]
        assert isinstance(content, bytes)
        return content

    @property
    def record(self) -> PoolRecord:
        """The status at the tip."""
        return read_status(self.file(), STATUS)

    def write(self, path: str, content: bytes | None) -> None:
        """Somebody commits a file, or that it is gone."""
        files = {**self.repository.commits[-1], path: content or b""}
        if content is None:
            del files[path]
        self.repository.add(files)


@pytest.fixture
def site() -> Site:
    site = Site()
    site.passes()
    assert site.told() == []
    return site


# -- Git


def entries(record: PoolRecord, image: str, **fields: Any) -> PoolRecord:
    first, *others = record.architectures
    return replace(record, architectures=(replace(first, image=image or first.image, **fields), *others))


EDITS: dict[str, Callable[[PoolRecord], PoolRecord]] = {
    "an image": lambda record: entries(record, EVIL),
    "an image of another repository": lambda record: entries(record, EVIL.replace("worker", "evil")),
    "the index": lambda record: replace(record, image=EVIL),
    "one image for another": lambda record: entries(record, record.architectures[1].image),
    "an image left out": lambda record: replace(record, architectures=record.architectures[:1]),
    "the commit": lambda record: replace(record, source_commit="d" * 40),
    "the engine": lambda record: replace(record, engine="another"),
    "the engine and the commit": lambda record: replace(record, engine="another", source_commit="d" * 40),
    "the commit of an image": lambda record: entries(record, "", source_commit="d" * 40),
    "the inputs of an image": lambda record: entries(record, "", input="sha256:" + "e" * 64),
    "the definition of an image": lambda record: entries(record, "", definition="sha256:" + "e" * 64),
    "the bases of an image": lambda record: entries(record, "", bases=()),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_status_that_somebody_edits_is_told_put_right_and_never_delivered(site: Site, edit: str) -> None:
    good, held = site.record, dict(site.delivery.held)
    site.write(STATUS, write_status(EDITS[edit](good)))
    told = site.told()
    assert told
    assert any(where == "git" or "gone" in text for where, text in told)
    site.delivery.told.clear()
    site.passes()
    assert site.record == good
    assert site.delivery.held == held
    assert {report.image for report in site.delivery.told if report.believed} == {good.image}
    assert site.told() == []


def test_without_a_cluster_the_same_is_told() -> None:
    bench = Bench()
    bench.settle()
    good = bench.repository.commits[-1][STATUS]
    assert isinstance(good, bytes)
    edited = replace(read_status(good, STATUS), image=EVIL)
    bench.repository.add({**bench.repository.commits[-1], STATUS: write_status(edited)})
    survey = bench.reconciler(History(bench.repository, engine=ENGINE)).look()
    assert {drift.where for drift in survey.drifts} == {Where.GIT, Where.REGISTRY}
    assert not any("does not hold" in fault.message for fault in survey.warnings), "it is told once"
    bench.settle()
    assert bench.repository.commits[-1][STATUS] == good


def test_what_a_status_names_is_not_delivered_either_while_nothing_can_be_put_right(site: Site) -> None:
    held = dict(site.delivery.held)
    edited = replace(site.record, image=EVIL)
    site.write(STATUS, write_status(edited))
    site.commit({**FILES, "p/files/arm64/x": "to be built"})
    result = site.daemon.run_pass()
    assert result.in_flight
    assert site.record.image == EVIL
    assert site.delivery.held == held
    site.delivery.held["worker"] = "another"
    assert ("cluster", "it holds another") in site.told()
    site.daemon.run_pass()
    assert site.delivery.held == held, "the last version that is believed is what counts"
    assert any("does not hold these images" in fault.message for fault in result.warnings)


def test_a_status_of_which_no_version_is_believed_is_not_delivered() -> None:
    site = Site()
    site.passes()
    edited = write_status(replace(site.record, image=EVIL))
    site.repository.commits[:] = [
        {**files, STATUS: edited} if STATUS in files else files for files in site.repository.commits
    ]
    site.delivery.held.clear()
    site.commit({**FILES, "p/files/arm64/x": "to be built"})
    site.world = replace(site.world, history=History(site.repository, engine=ENGINE))
    assert Reconciler(site.world).run_pass().in_flight
    assert site.delivery.held == {}
    assert not any(report.believed for report in site.delivery.told[-1:])


def test_a_record_of_a_definition_that_cannot_be_read_is_not_delivered_anew(site: Site) -> None:
    site.delivery.held.clear()
    site.commit({**FILES, "p/os.yaml": "kind: MachineOSConfig\nmetadata: {name: worker}\n"})
    site.passes()
    assert site.delivery.held == {}


@pytest.mark.parametrize("content", [None, b"no: status\n"])
def test_a_status_that_is_gone_or_unreadable_is_told_and_restored(site: Site, content: bytes | None) -> None:
    good = site.record
    site.write(STATUS, content)
    (told,) = site.told()
    assert told[0] == "git"
    assert told[1].startswith(
        f"{STATUS} {'cannot be read' if content else 'is gone; it named ' + good.image}"
    )
    started = site.started
    site.passes()
    assert (site.record, site.started) == (good, started)
    assert site.told() == []


@pytest.mark.parametrize("content", [None, b"apiVersion: v1\n"])
def test_a_manifest_that_somebody_changes_is_told_and_put_right(site: Site, content: bytes | None) -> None:
    good = site.file(MANIFEST)
    site.write(MANIFEST, content)
    assert site.told() == [("git", f"{MANIFEST} is not there as it was written")]
    before = len(site.repository.commits)
    site.passes()
    assert site.file(MANIFEST) == good
    assert len(site.repository.commits) == before + 1


def test_the_manifest_names_the_index_and_is_committed_with_the_status(site: Site) -> None:
    record = site.record
    assert yaml.safe_load(site.file(MANIFEST)) == machine_config(
        "worker", record.image, record.source_commit, "default"
    )
    before = site.repository.commits[-2]
    assert STATUS not in before
    assert MANIFEST not in before


def test_after_writing_manifests_there_is_nothing_to_plan(site: Site) -> None:
    commits, started, told = len(site.repository.commits), site.started, list(site.delivery.told)
    result = site.passes()
    assert {cell.action.value for pool in result.plan.pools for cell in pool.cells} == {"reuse"}
    assert (len(site.repository.commits), site.started) == (commits, started)
    assert site.delivery.told[-1] == told[-1]


def test_a_build_context_of_the_whole_tree_has_no_manifests_in_it() -> None:
    site = Site()
    root = {
        path.removeprefix("p/"): text.replace("COPY files/${TARGETARCH}/ /", "COPY . /")
        for path, text in FILES.items()
        if isinstance(text, str)
    }
    site.repository.add(root)
    site.passes()
    assert site.file(MANIFEST)
    assert site.started == 2
    site.write(MANIFEST, b"edited: true\n")
    site.passes()
    assert site.started == 2


def test_without_a_folder_for_them_there_are_none() -> None:
    site = Site(manifests="")
    site.passes()
    assert [path for path in site.repository.commits[-1] if path.startswith("status/")] == [STATUS]


# -- the registry


def test_a_tag_that_somebody_moves_is_told_and_moved_back(site: Site) -> None:
    digest = site.record.image.partition("@")[2]
    site.registry.manifests[REPOSITORY, "latest"] = site.registry.manifests[
        REPOSITORY, site.record.architectures[0].image.partition("@")[2]
    ]
    ((where, text),) = site.told()
    assert where == "registry"
    assert text.startswith(f"{REPOSITORY}:latest names sha256:")
    assert text.endswith(f"not {digest}")
    assert {image.state for image in site.look().images} == {State.DRIFTED}
    site.passes()
    assert site.told() == []


def test_an_index_that_is_gone_is_told_and_put_there_again(site: Site) -> None:
    image = site.record.image
    digest = image.partition("@")[2]
    for key, manifest in list(site.registry.manifests.items()):
        if manifest.digest == digest:
            del site.registry.manifests[key]
    assert ("registry", f"the index {image} is gone") in site.told()
    site.passes()
    assert site.record.image == image
    assert site.told() == []


# -- the cluster


def test_an_object_that_somebody_changes_is_told_and_put_right(site: Site) -> None:
    site.delivery.held["worker"] = "another"
    survey = site.look()
    assert [(d.where, d.message) for d in survey.drifts] == [(Where.CLUSTER, "it holds another")]
    assert {image.state for image in survey.images} == {State.CURRENT}, "the images themselves are fine"
    assert site.delivery.held["worker"] == "another", "looking changes nothing"
    site.passes()
    assert site.told() == []


# -- nodes


def nodes(*found: tuple[str, str], **pool: bool) -> PoolRollout:
    return PoolRollout(
        tuple(NodeImage(f"n{n}", now, then, "Done") for n, (now, then) in enumerate(found)), **pool
    )


OLD = f"{REPOSITORY}@sha256:{'0' * 64}"


def test_nodes_that_run_another_image_are_told_and_left_alone(site: Site) -> None:
    new = site.record.image
    site.rollouts.pools["worker"] = nodes((new, new), (OLD, OLD), *[(EVIL, EVIL)] * 5)
    told = site.told()
    assert told == [
        ("nodes", f"n1 runs {OLD}, not {new}"),
        ("nodes", f"n2, n3, n4 and 2 more run {EVIL}, not {new}"),
    ]
    survey = site.look()
    assert {image.state for image in survey.images} == {State.CURRENT}
    assert survey.rollouts == site.rollouts.pools
    commits = len(site.repository.commits)
    site.passes()
    assert site.told() == told
    assert len(site.repository.commits) == commits


@pytest.mark.parametrize("case", ["on its way", "waits for its turn", "paused", "says nothing"])
def test_a_rollout_is_no_drift(site: Site, case: str) -> None:
    new = site.record.image
    site.rollouts.pools["worker"] = {
        "on its way": nodes((OLD, new)),
        "waits for its turn": nodes((OLD, OLD), settled=False),
        "paused": nodes((OLD, OLD), paused=True),
        "says nothing": nodes(("", "")),
    }[case]
    assert site.told() == []


def test_where_nothing_rolls_our_images_out_nodes_run_what_they_run() -> None:
    site = Site(manifests="", rolls_out=False)
    site.passes()
    site.rollouts.pools["worker"] = nodes((OLD, OLD))
    survey = site.look()
    assert survey.drifts == ()
    assert survey.rollouts == site.rollouts.pools
