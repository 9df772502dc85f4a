"""Where the world is not as recorded: Git, the registry, the cluster's objects, and what nodes run.

Belongs here: comparing each of the four with the status at the branch's tip. Does not belong here: putting anything
right, which every pass does; only nodes are the Machine Config Operator's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reconciler.core.pool import Pool
from reconciler.core.status import PoolRecord
from reconciler.errors import ReconcilerError
from reconciler.ports import Registry
from reconciler.ports.cluster import NodeImage, PoolReport, PoolRollout
from reconciler.reconcile.isolation import Isolated
from reconciler.reconcile.manifests import differing
from reconciler.reconcile.planning import Planning, World
from reconciler.reconcile.record import first_of
from reconciler.reconcile.state import Drift, Where

_MOST_NAMES = 3
"""Nodes that one line names."""


def find(
    world: World,
    planning: Planning,
    reports: Iterable[PoolReport],
    rollouts: Mapping[str, PoolRollout],
    problems: list[ReconcilerError],
) -> tuple[Drift, ...]:
    """All drifts. `reports` say what is to be delivered. What cannot be asked is added to `problems`."""
    found: list[Drift] = []
    with Isolated("Git", problems):
        found += in_git(world, planning, problems)
    for name, pool in planning.pools.items():
        record = planning.records.pools.get(name)
        if record:
            with Isolated(name, problems):
                found += in_registry(world.registry, pool, record)
    for report in reports:
        for delivery in world.deliveries if report.believed and report.image else ():
            with Isolated(report.pool, problems):
                found += (Drift(report.pool, None, m, Where.CLUSTER) for m in delivery.differences(report))
        if world.rolls_out and report.believed and report.image and report.pool in rollouts:
            found += on_nodes(report.pool, report.image, rollouts[report.pool])
    return tuple(found)


def in_git(world: World, planning: Planning, problems: list[ReconcilerError]) -> Iterator[Drift]:
    """What stands below the status path, and is not what we wrote there. Raises GitError."""
    records = planning.records
    for name in planning.pools:
        path = planning.record_path(name)
        if name in records.broken:
            yield Drift(name, None, f"{path} cannot be read", Where.GIT)
        elif name in records.pools:
            with Isolated(name, problems):
                changes = tuple(edited(world, planning, records.pools[name], path))
                yield from (Drift(name, None, text, Where.GIT) for text in changes)
        else:
            earlier = next(world.history.earlier(planning.tip, planning.status_path, name), None)
            if earlier:
                yield Drift(name, None, f"{path} is gone; it named {earlier.image}", Where.GIT)
    believed = []
    for name, record in records.pools.items():
        with Isolated(name, problems):
            found = planning.believed(record)
            believed += [found] if found else []
    for doubt in planning.images.doubts:
        if not doubt.gone:
            message = f"{doubt.fault.path}: {doubt.fault.message}"
            yield Drift(doubt.pool, doubt.arch, message, Where.GIT)
    for pool, (path, _) in sorted(differing(world, planning, believed).items()):
        yield Drift(pool, None, f"{path} is not there as it was written", Where.GIT)


def edited(world: World, planning: Planning, record: PoolRecord, path: str) -> Iterator[str]:
    """What somebody changed of what a record says of its index, by the history of its file. Raises GitError."""
    if record.instance != world.place.instance:
        return
    began = first_of(record.image, world.history.earlier(planning.tip, planning.status_path, record.pool))
    if began is None:
        return
    if record.source_commit != began.source_commit:
        yield f"{path} says sourceCommit {record.source_commit}, not {began.source_commit}"
    if record.engine not in (began.engine, world.history.engine.version):
        yield f"{path} says engine {record.engine!r}, not {began.engine!r}"


def in_registry(registry: Registry, pool: Pool, record: PoolRecord) -> Iterator[Drift]:
    """Where the registry is not as a pool's record says. Raises RegistryUnavailable, RegistryError."""
    if _is_gone(registry, record.image):
        yield Drift(pool.name, None, f"the index {record.image} is gone")
    for entry in record.architectures:
        if _is_gone(registry, entry.image):
            yield Drift(pool.name, entry.arch, f"the image {entry.image} is gone")
    push, digest = pool.definition.push, record.image.partition("@")[2]
    tagged = registry.digest(push.repository, push.tag)
    if tagged != digest:
        yield Drift(pool.name, None, f"{push} names {tagged or 'nothing'}, not {digest}")


def on_nodes(pool: str, image: str, rollout: PoolRollout) -> Iterator[Drift]:
    """Nodes that run another image, and were not told to run this one, though no rollout is under way."""
    adrift = [node for node in rollout.nodes if node.current and image not in (node.current, node.desired)]
    if not adrift or rollout.paused or not rollout.settled:
        return
    by_image: dict[str, list[NodeImage]] = {}
    for node in adrift:
        by_image.setdefault(node.current, []).append(node)
    for other, nodes in sorted(by_image.items()):
        names = ", ".join(node.name for node in nodes[:_MOST_NAMES])
        more = f" and {len(nodes) - _MOST_NAMES} more" if len(nodes) > _MOST_NAMES else ""
        verb = "runs" if len(nodes) == 1 else "run"
        yield Drift(pool, None, f"{names}{more} {verb} {other}, not {image}", Where.NODES)


def _is_gone(registry: Registry, image: str) -> bool:
    repository, _, digest = image.partition("@")
    return registry.digest(repository, digest) is None
