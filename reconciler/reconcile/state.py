"""Where every image stands: one word per pool and architecture, for people and for metrics.

Belongs here: choosing that word from a plan, the records, and the builds. Does not belong here: showing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from reconciler.core import render
from reconciler.core.model import Arch
from reconciler.core.plan import Action, Cell, Plan
from reconciler.core.status import PoolRecord
from reconciler.ports import Build, Phase
from reconciler.reconcile.pending import Ask
from reconciler.reconcile.preview import arch_record
from reconciler.reconcile.work import Standing, Work


class Where(StrEnum):
    """What is not as recorded, or was recorded by somebody else."""

    GIT = "git"
    REGISTRY = "registry"
    CLUSTER = "cluster"
    """The objects that say which image nodes are to run."""
    NODES = "nodes"
    """What nodes run: it is shown, and never changed by us."""


_OF_IMAGES = (Where.GIT, Where.REGISTRY)


class State(StrEnum):
    """Where one image stands."""

    CURRENT = "current"
    STALE = "stale"
    """The pool has no node of the architecture any more; the image that it had stays."""
    TO_BUILD = "to build"
    QUEUED = "queued"
    BUILDING = "building"
    RETRYING = "retrying"
    FAILED = "failed"
    BLOCKED = "blocked"
    TO_PUBLISH = "to publish"
    TO_MERGE = "to merge"
    """It is built, and in a pull request that people have to merge before it counts."""
    TO_DROP = "to drop"
    DRIFTED = "drifted"


@dataclass(frozen=True, slots=True)
class Drift:
    """Something in the world that is not as recorded; `arch` is None where it concerns the whole pool."""

    pool: str
    arch: Arch | None
    message: str
    where: Where = Where.REGISTRY


@dataclass(frozen=True, slots=True)
class Image:
    """One image's standing. `recorded` is the pullspec in the status file, '' for none; `why` says more where the state
    is not `current`; `build` is the latest attempt to build it."""

    pool: str
    arch: Arch
    state: State
    recorded: str = ""
    why: str = ""
    build: Build | None = None


def images(
    plan: Plan,
    records: Mapping[str, PoolRecord],
    work: Mapping[tuple[str, Arch], Work] = MappingProxyType({}),
    drifts: Iterable[Drift] = (),
    ask: Ask | None = None,
) -> tuple[Image, ...]:
    """Every image of a plan, in its order. `ask` is a pull request that people have to do something about."""
    drifted = {(drift.pool, drift.arch) for drift in drifts if drift.where in _OF_IMAGES}
    found = []
    for pool in plan.pools:
        for cell in pool.cells:
            entry = arch_record(records.get(pool.name), cell.arch)
            recorded = entry.image if entry else ""
            key = (pool.name, cell.arch)
            adrift = drifted & {key, (pool.name, None)}
            state = State.DRIFTED if adrift else _state(cell, recorded, work.get(key))
            build = work[key].build if key in work else None
            if ask and pool.name in ask.pools and state in (State.TO_PUBLISH, State.TO_DROP):
                state = State.TO_MERGE
            waits = ask.why if ask and state is State.TO_MERGE else ""
            why = "" if state is State.CURRENT else waits or _why(state, cell, build)
            found.append(Image(pool.name, cell.arch, state, recorded, why, build))
    return tuple(found)


def of_build(build: Build | None, standing: Standing) -> State:
    """The state of an image that is to be built. A build that is not known yet waits for its turn."""
    match standing:
        case Standing.FAILED:
            return State.FAILED
        case Standing.WAITING:
            return State.RETRYING
        case Standing.BLOCKED:
            return State.BLOCKED
    return State.BUILDING if build and build.phase is Phase.RUNNING else State.QUEUED


def _state(cell: Cell, recorded: str, work: Work | None) -> State:
    match cell.action:
        case Action.BLOCKED:
            return State.BLOCKED
        case Action.DROP:
            return State.TO_DROP
        case Action.BUILD:
            return of_build(work.build, work.standing) if work else State.TO_BUILD
    if not recorded or recorded != cell.image:
        return State.TO_PUBLISH
    stale = any(reason.ingredient == "architectures" for reason in cell.reasons)
    return State.STALE if stale else State.CURRENT


def _why(state: State, cell: Cell, build: Build | None) -> str:
    if build and state in (State.FAILED, State.RETRYING, State.BLOCKED):
        return build.message
    return render.why(cell)
