"""Two engines that canonicalise differently, over one repository, registry and builder: upgrading rebuilds nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.core.containerfile import Recipe
from reconciler.core.engine import Engine
from reconciler.core.model import Arch
from reconciler.core.plan import Action
from reconciler.core.pool import Blobs, Pool
from tests.fakes import FakeRegistry
from tests.unit.reconcile.bench import FILES, Bench, actions


class OtherEngine(Engine):
    """Says the same things in other words."""

    def recipe(self, pool: Pool, arch: Arch, blobs: Blobs) -> Recipe:
        """As the engine does, with other canonical bytes."""
        found = super().recipe(pool, arch, blobs)
        return replace(found, canonical=["in other words", found.canonical])


OLD, NEW = Engine("1"), OtherEngine("2")


@pytest.fixture
def bench() -> Bench:
    return Bench()


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


class Listed(FakeRegistry):
    """Counts how often tags are listed."""

    lists = 0

    def tags(self, repository: str) -> tuple[str, ...]:
        self.lists += 1
        return super().tags(repository)


def test_the_tags_of_a_pool_are_listed_once_in_a_pass(bench: Bench) -> None:
    listed = bench.registry = Listed(bench.registry.manifests, bench.registry.stored)
    result = bench.run()
    assert len(result.work) == 2
    assert listed.lists == 1
    bench.run()
    assert listed.lists == 2, "another pass looks anew"
