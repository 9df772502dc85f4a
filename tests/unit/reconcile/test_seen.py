"""What a pass asks a registry that an earlier one asked already, and what it never takes for granted."""

from __future__ import annotations

import pytest

from reconciler.core.names import keep_tag
from reconciler.reconcile.history import History
from reconciler.reconcile.reconciler import Reconciler
from tests.unit.reconcile.bench import ENGINE, FILES, REPOSITORY, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def daemon(bench: Bench) -> Reconciler:
    """One that has built everything."""
    bench.settle()
    daemon = bench.reconciler(History(bench.repository, engine=ENGINE))
    assert daemon.run_pass().sound
    return daemon


def requests(bench: Bench, daemon: Reconciler, *, thorough: bool) -> int:
    """How many a pass makes."""
    before = bench.registry.requests
    assert daemon.run_pass(thorough=thorough).sound
    return bench.registry.requests - before


def test_a_quick_pass_asks_for_bases_and_tags_only(bench: Bench, daemon: Reconciler) -> None:
    whole = requests(bench, daemon, thorough=True)
    quick = [requests(bench, daemon, thorough=False) for _ in range(3)]
    # The base's index for each architecture, its two images and their configs, and what `latest` names.
    assert quick == [7] * 3
    assert whole > 14


def test_a_quick_pass_moves_a_tag_back(bench: Bench, daemon: Reconciler) -> None:
    right = bench.registry.manifests[REPOSITORY, "latest"]
    bench.registry.manifests[REPOSITORY, "latest"] = bench.registry.manifests["quay.io/os/base", "1"]
    assert daemon.run_pass(thorough=False).written.tagged == ("worker",)
    assert bench.registry.manifests[REPOSITORY, "latest"] == right


def test_a_quick_pass_builds_what_a_commit_changed(bench: Bench, daemon: Reconciler) -> None:
    bench.commit({**FILES, "p/files/arm64/x": "y"})
    started = bench.started
    while daemon.run_pass(thorough=False).in_flight:
        bench.end_builds()
    assert bench.started == started + 1
    assert bench.images()["arm64"].partition("@")[2] in {d for _, d in bench.registry.manifests}


@pytest.mark.parametrize("lost", ["child", "tag"])
def test_a_thorough_pass_finds_what_is_gone(bench: Bench, daemon: Reconciler, lost: str) -> None:
    digest = bench.images()["arm64"].partition("@")[2]
    gone = {digest, keep_tag(digest)} if lost == "child" else {keep_tag(digest)}
    for key, manifest in list(bench.registry.manifests.items()):
        if key[1] in gone or (lost == "child" and manifest.digest == digest):
            del bench.registry.manifests[key]
    assert daemon.run_pass(thorough=False).sound
    started = bench.started
    while daemon.run_pass().in_flight:
        bench.end_builds()
        bench.clock.time += 60  # a build that left no image is tried again after a while
    assert bench.started == started + (lost == "child")
    assert (REPOSITORY, keep_tag(bench.images()["arm64"].partition("@")[2])) in bench.registry.manifests


def test_nothing_is_remembered_of_images_that_are_not_wanted_any_more(
    bench: Bench, daemon: Reconciler
) -> None:
    sizes = []
    for number in range(6):
        bench.commit({**FILES, "p/files/arm64/x": f"{number}"})
        while daemon.run_pass(thorough=False).in_flight:
            bench.end_builds()
        seen = daemon._world.seen
        sizes.append(len(seen.children) + len(seen.provenances) + len(seen.indexes))
    assert sizes[-1] == sizes[2]
