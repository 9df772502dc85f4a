"""How far the nodes of each pool have come with its recorded image.

Belongs here: what a node's own words mean. Does not belong here: reading them (an adapter), and what is a drift
(`drift`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.core.status import PoolRecord
from reconciler.ports.cluster import NodeImage, PoolRollout

_STUCK: Final = ("Degraded", "Unreconcilable")
"""The Machine Config Daemon's words for what it will not get out of by itself."""
_TOLD: Final = 10
"""Nodes of one pool that are told of by name."""


class Progress(StrEnum):
    """How far a node has come."""

    DONE = "done"
    PENDING = "pending"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Nodes:
    """How many of a pool's nodes have come how far, and what is wrong with the first few that failed."""

    pool: str
    counts: Mapping[Progress, int]
    failed: tuple[str, ...] = ()


def progress(node: NodeImage, image: str) -> Progress:
    """How far a node has come with an image."""
    if node.state in _STUCK:
        return Progress.FAILED
    done = bool(image) and node.current == image and node.state in ("", "Done")
    return Progress.DONE if done else Progress.PENDING


def nodes(rollouts: Mapping[str, PoolRollout], records: Mapping[str, PoolRecord]) -> Iterator[Nodes]:
    """Of each pool that has an image and nodes."""
    for pool, rollout in sorted(rollouts.items()):
        record = records.get(pool)
        if record is None or not rollout.nodes:
            continue
        found = {node.name: (node, progress(node, record.image)) for node in rollout.nodes}
        failed = [node for node, how in found.values() if how is Progress.FAILED]
        yield Nodes(
            pool,
            Counter(how for _, how in found.values()),
            tuple(_told(node) for node in failed[:_TOLD]),
        )


def _told(node: NodeImage) -> str:
    return f"node {node.name} is {node.state}" + (f": {node.reason}" if node.reason else "")
