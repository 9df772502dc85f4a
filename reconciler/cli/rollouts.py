"""How far nodes have come, as `reconciler status` shows it.

Belongs here: rows of a table, and the part of the JSON document. Does not belong here: finding it out
(`adapters.cluster.rollout`), and what is a drift (`reconcile.drift`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from reconciler.core import render
from reconciler.core.status import PoolRecord
from reconciler.ports.cluster import PoolRollout
from reconciler.reconcile.rollout import Progress, progress

HEADER: Final = ("POOL", "NODE", "RUNS", "TOLD TO RUN", "STATE", "REASON")
MOST_NODES: Final = 25
"""Nodes of one pool that the table lists; the JSON has all."""


def rows(
    rollouts: Mapping[str, PoolRollout], records: Mapping[str, PoolRecord]
) -> Iterator[tuple[str, str, str, str, str, str]]:
    """One row per pool that says how many nodes run its recorded image, and one per node; of a large pool only those
    that have something to tell."""
    for name, rollout in sorted(rollouts.items()):
        image = _image(records.get(name))
        if not rollout.nodes or not image:
            continue
        done = sum(node.current == image for node in rollout.nodes)
        whole = done == len(rollout.nodes)
        state = "done" if whole else "paused" if rollout.paused else "not done"
        held = "the Machine Config Operator holds its rollout" if state == "paused" else ""
        yield name, f"{done}/{len(rollout.nodes)}", render.short(image), "", state, held
        few = len(rollout.nodes) <= MOST_NODES
        shown = [node for node in rollout.nodes if few or progress(node, image) is not Progress.DONE]
        for node in shown[:MOST_NODES]:
            yield "", node.name, _said(node.current), _said(node.desired), node.state, node.reason
        if len(shown) > MOST_NODES:
            yield "", f"and {len(shown) - MOST_NODES} more", "", "", "", ""


def stuck(rollouts: Iterable[PoolRollout]) -> bool:
    """Whether a node has an error of its own."""
    return any(progress(node, "") is Progress.FAILED for rollout in rollouts for node in rollout.nodes)


def document(rollout: PoolRollout | None, record: PoolRecord | None) -> dict[str, Any] | None:
    """One pool's, as schemas/status.json has it; None for none."""
    if rollout is None:
        return None
    image = _image(record)
    return {
        "nodes": len(rollout.nodes),
        "onImage": sum(bool(image) and node.current == image for node in rollout.nodes),
        "paused": rollout.paused,
        "byNode": [
            {
                "name": node.name,
                "currentImage": node.current or None,
                "desiredImage": node.desired or None,
                "state": node.state,
                "reason": node.reason,
            }
            for node in rollout.nodes
        ],
    }


def _image(record: PoolRecord | None) -> str:
    return record.image if record else ""


def _said(image: str) -> str:
    return render.short(image) if image else "unknown"
