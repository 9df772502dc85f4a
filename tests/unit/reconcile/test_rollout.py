"""How far nodes have come: what a thorough pass says of them."""

from __future__ import annotations

import pytest

from reconciler.ports.cluster import NodeImage, PoolRollout
from reconciler.reconcile.rollout import Progress, progress
from tests.unit.reconcile.test_drift import EVIL, Site


@pytest.mark.parametrize(
    ("current", "state", "expected"),
    [
        ("new", "Done", Progress.DONE),
        ("new", "", Progress.DONE),
        ("new", "Working", Progress.PENDING),
        ("old", "Done", Progress.PENDING),
        ("", "", Progress.PENDING),
        ("old", "Degraded", Progress.FAILED),
        ("new", "Unreconcilable", Progress.FAILED),
    ],
)
def test_a_node_is_where_its_own_words_say(current: str, state: str, expected: Progress) -> None:
    assert progress(NodeImage("a", current, "new", state), "new") is expected


def test_without_an_image_no_node_is_done() -> None:
    assert progress(NodeImage("a", "", "", "Done"), "") is Progress.PENDING


def test_a_thorough_pass_counts_nodes_and_another_asks_nobody() -> None:
    site = Site()
    assert site.passes().nodes == ()
    image = site.record.image
    told = [
        NodeImage("a", image, image, "Done"),
        NodeImage("b", EVIL, image, "Working"),
        NodeImage("c", EVIL, image, "Degraded", "no space left"),
        NodeImage("d", EVIL, image, "Unreconcilable"),
    ]
    site.rollouts.pools = {"worker": PoolRollout(tuple(told), paused=False, settled=True)}
    (found,) = site.passes().nodes or ()
    assert found.pool == "worker"
    assert found.counts == {Progress.DONE: 1, Progress.PENDING: 1, Progress.FAILED: 2}
    assert found.failed == ("node c is Degraded: no space left", "node d is Unreconcilable")
    assert site.daemon.run_pass(thorough=False).nodes is None
