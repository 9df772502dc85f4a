"""Two engines that canonicalise differently, over one repository, registry and builder: upgrading rebuilds nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reconciler.core.containerfile import Recipe
from reconciler.core.engine import Engine
from reconciler.core.model import Arch
from reconciler.core.plan import Action
from reconciler.core.pool import Blobs, Pool
from reconciler.ports import OCI_MANIFEST
from reconciler.reconcile.history import History
from reconciler.reconcile.planning import Place, World
from reconciler.reconcile.reconciler import Reconciler, Result
from reconciler.reconcile.targets import Scope
from tests.fakes import FakeBuilder, FakeClock, FakeRegistry, FakeRepository, Files
from tests.unit.definitions import config, mosc

BASE = "quay.io/os/base"
REPOSITORY = "registry.example.com/os/worker"
FILES: dict[str, bytes | str] = {
    "reconciler.yaml": config(),
    "p/os.yaml": mosc("worker"),
    "p/Containerfile": f"FROM {BASE}:1\nARG TARGETARCH\nCOPY files/${{TARGETARCH}}/ /\n",
    "p/files/amd64/x": "x",
    "p/files/arm64/x": "x",
}


class OtherEngine(Engine):
    """Says the same things in other words."""

    def recipe(self, pool: Pool, arch: Arch, blobs: Blobs) -> Recipe:
        """As the engine does, with other canonical bytes."""
        found = super().recipe(pool, arch, blobs)
        return replace(found, canonical=["in other words", found.canonical])


OLD, NEW = Engine("1"), OtherEngine("2")


class Bench:
    """One repository, registry and builder, which daemons with different engines work on."""

    def __init__(self) -> None:
        self.repository = FakeRepository()
        self.registry = FakeRegistry()
        self.builder = FakeBuilder()
        self.commit(FILES)
        for arch in ("amd64", "arm64"):
            self.push_image(BASE, arch, arch, {})
        manifests = [
            {
                "digest": self.registry.manifests[BASE, a].digest,
                "platform": {"architecture": a, "os": "linux"},
            }
            for a in ("amd64", "arm64")
        ]
        index = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": manifests,
        }
        self.registry.add(BASE, "1", index["mediaType"], json.dumps(index).encode())  # type: ignore[arg-type]

    def commit(self, files: Files) -> None:
        """What an author does: the status files stay."""
        kept = self.repository.commits[-1] if self.repository.commits else {}
        status = {path: text for path, text in kept.items() if path.startswith("status/")}
        self.repository.add({**files, **status})

    def push_image(self, repository: str, reference: str, arch: str, annotations: dict[str, str]) -> None:
        """A single image, as buildah pushes it."""
        blob = self.registry.add_blob(
            repository, json.dumps({"architecture": arch, "os": "linux", "n": reference}).encode()
        )
        manifest = {"mediaType": OCI_MANIFEST, "config": {"digest": blob}, "annotations": annotations}
        self.registry.add(repository, reference, OCI_MANIFEST, json.dumps(manifest).encode())

    def run(self, engine: Engine) -> Result:
        """One pass of a daemon that has just started."""
        world = World(
            repository=self.repository,
            registry=self.registry,
            builder=self.builder,
            clock=FakeClock(),
            history=History(self.repository, engine=engine),
            place=Place("main", "main"),
            scope=Scope(),
        )
        return Reconciler(world).run_pass()

    def end_builds(self) -> None:
        """Every build that runs ends well, and has pushed its image."""
        for name, build in self.builder.known.items():
            if not build.ended:
                request = self.builder.requests[name]
                repository, _, tag = request.image.rpartition(":")
                self.push_image(repository, tag, request.arch.value, dict(request.annotations))
                self.builder.end(name)

    def settle(self, engine: Engine) -> Result:
        """Passes until nothing is in flight."""
        while (result := self.run(engine)).in_flight:
            self.end_builds()
        return result

    @property
    def started(self) -> int:
        """How many builds were ever begun."""
        return len(self.builder.requests)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def actions(result: Result) -> set[Action]:
    return {cell.action for pool in result.plan.pools for cell in pool.cells}


def test_the_engines_differ(bench: Bench) -> None:
    old, new = bench.run(OLD).plan, bench.run(NEW).plan
    assert old.digest != new.digest


def test_found_by_status_nothing_is_built_and_nothing_written(bench: Bench) -> None:
    bench.settle(OLD)
    head, started = bench.repository.head("main"), bench.started
    assert started == 2
    result = bench.settle(NEW)
    assert actions(result) == {Action.REUSE}
    assert (bench.repository.head("main"), bench.started) == (head, started)


def test_found_by_history_after_a_revert(bench: Bench) -> None:
    bench.settle(OLD)
    bench.commit(FILES | {"p/files/amd64/x": "changed"})
    bench.settle(OLD)
    assert bench.started == 3
    bench.commit(FILES)
    result = bench.settle(NEW)
    assert actions(result) == {Action.REUSE}
    assert bench.started == 3
    assert result.written.records[0].engine == "2"
    assert not bench.settle(NEW).written.commit
    assert not bench.settle(NEW).warnings


def test_found_by_tag_when_every_record_is_lost(bench: Bench) -> None:
    bench.settle(OLD)
    source = {"p/Containerfile", "p/os.yaml", "p/files/amd64/x", "p/files/arm64/x", "reconciler.yaml"}
    bench.repository.commits[1:] = [{p: t for p, t in bench.repository.commits[-1].items() if p in source}]
    result = bench.settle(NEW)
    assert actions(result) == {Action.REUSE}
    assert bench.started == 2


def test_builds_in_flight_are_waited_for_and_not_doubled(bench: Bench) -> None:
    assert bench.run(OLD).in_flight
    assert bench.started == 2
    assert bench.run(NEW).in_flight
    assert bench.started == 2
    bench.end_builds()
    result = bench.settle(NEW)
    assert actions(result) == {Action.REUSE}
    assert bench.started == 2
    assert result.sound


def test_one_changed_file_after_the_upgrade_builds_one_image(bench: Bench) -> None:
    bench.settle(OLD)
    bench.commit(FILES | {"p/files/arm64/x": "changed"})
    result = bench.settle(NEW)
    assert bench.started == 3
    (record,) = result.written.records
    assert record.engine == "2"
    again = bench.settle(NEW)
    assert not again.written.commit
    assert not again.warnings, "what another engine built is believed by its source commit"


def test_without_the_source_commit_an_image_of_another_engine_is_built_again(bench: Bench) -> None:
    bench.settle(OLD)
    lost = dict(bench.repository.commits[-1])
    bench.repository.commits[0] = {"reconciler.yaml": "a: ["}
    bench.repository.commits[1:] = [lost]
    bench.settle(NEW)
    assert bench.started == 4


def test_going_back_to_the_old_engine_rebuilds_nothing_either(bench: Bench) -> None:
    bench.settle(OLD)
    bench.commit(FILES | {"p/files/arm64/x": "changed"})
    bench.settle(NEW)
    head, started = bench.repository.head("main"), bench.started
    assert actions(bench.settle(OLD)) == {Action.REUSE}
    assert (bench.repository.head("main"), bench.started) == (head, started)


def test_writing_back_is_no_change(bench: Bench) -> None:
    """plan(writeback(plan(x))) is empty."""
    bench.settle(OLD)
    plan = bench.settle(OLD).plan
    assert plan.summary == {Action.BUILD: 0, Action.REUSE: 2, Action.BLOCKED: 0, Action.DROP: 0}
