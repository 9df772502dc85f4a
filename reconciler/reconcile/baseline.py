"""The plan of one commit against itself, and which pools of other commits it still holds for.

Belongs here: telling, from paths alone, the pools that a change may concern from those that it cannot. Does not belong
here: planning those it may, and keeping the baseline (`keeping`).

Why this is sound: a pool's part of a plan depends on reconciler.yaml, on the files of its folder, on its status file
(or, without one, on the past of the status folder), and on there being no clash with another definition or any file in
doubt. So it is as before when none of these paths differ and all definitions are the same ones: every file that may
hold documents and differs is read. Where that cannot be told, everything is.

A pool whose images use the stage `configs` depends on every MachineConfig of the tree as well, and on what those pools
are built from that push its base. So everything is read when one of them (`configured`) is touched, or another becomes
one, and, as long as there are any, when a file differs that holds such a document, here (`machines`) or at one of the
two commits. Whoever lets a pool depend on anything else has to say so in `touched`, in `defines`, or beside them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.core.catalogue import CONFIG_PATH, Catalogue, may_hold_documents
from reconciler.core.plan import PoolPlan
from reconciler.core.pool import Pool

LIMIT: Final = 50
"""Pools and single documents. Where a change may concern more, the baseline is too far away, and reading everything
gives a better one."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One pool as it stood: `plan` has a cell `reuse` for every architecture, and is None when that is not to be told
    without looking (it is blocked, or its epoch comes from the past of a status file that is gone)."""

    name: str
    folder: str
    push: str
    recorded: bool
    plan: PoolPlan | None


@dataclass(frozen=True, slots=True)
class Touched:
    """The pools that a change may concern, by name: those of `folders`, all of them. `documents` are files elsewhere
    that may define one."""

    pools: frozenset[str]
    folders: frozenset[str]
    documents: frozenset[str] = frozenset()

    @property
    def paths(self) -> tuple[str, ...]:
        """What has to be read to plan them."""
        return CONFIG_PATH, *sorted(self.folders | self.documents)


@dataclass(frozen=True, slots=True)
class Baseline:
    """All pools of a commit that was read without any fault, in the order of their names. `configured` are those with
    an image that uses the stage `configs`, and those that push what one is built on; `machines` are the files with what
    the stage is made from."""

    commit: str
    status_path: str
    pools: tuple[Standing, ...]
    configured: frozenset[str] = frozenset()
    machines: frozenset[str] = frozenset()

    @property
    def all_recorded(self) -> bool:
        """Whether every pool has a status file that can be read."""
        return all(pool.recorded for pool in self.pools)

    @property
    def is_useful(self) -> bool:
        """Whether there is a plan to take over for all but a few."""
        return sum(pool.plan is None for pool in self.pools) <= LIMIT

    def touched(self, base: Collection[str], head: Collection[str], *, past: bool) -> Touched | None:
        """Which pools may differ from here in a plan of one commit against another; None when anything might.

        `base` and `head` are the paths at which these commits differ from the baseline's; `past` says whether a status
        file was ever committed before the head.
        """
        status = f"{self.status_path}/"
        files = {path for path in (*base, *head) if path != self.status_path and not path.startswith(status)}
        recorded = {
            path.removeprefix(status).removesuffix(".yaml") for path in head if path.startswith(status)
        }
        known = {pool.folder for pool in self.pools}
        folders = {
            pool.folder
            for pool in self.pools
            if pool.plan is None or pool.name in recorded or (past and not pool.recorded)
        }
        documents = set()
        for path in files:
            around = known.intersection(_folders_above(path))
            folders |= around
            if not around and may_hold_documents(path):
                documents.add(path)
        names = {pool.name for pool in self.pools if not folders.isdisjoint(_with_above(pool.folder))}
        if CONFIG_PATH in files or "" in folders or len(names) + len(documents) > LIMIT:
            return None
        if self.configured and not (self.machines.isdisjoint(files) and self.configured.isdisjoint(names)):
            return None
        return Touched(frozenset(names), frozenset(folders), frozenset(documents))

    def defines(self, touched: Touched, part: Catalogue) -> bool:
        """Whether a commit, of which only what is touched was read, has the very definitions of this one."""
        then = {(p.name, p.folder, p.push) for p in self.pools if p.name in touched.pools}
        return part.clean and {(*place(pool),) for pool in part.pools} == then

    def others(self, touched: Touched) -> Iterator[PoolPlan]:
        """The plans of all pools that are not touched."""
        for pool in self.pools:
            if pool.name not in touched.pools:
                assert pool.plan is not None  # else it is touched
                yield pool.plan


def place(pool: Pool) -> tuple[str, str, str]:
    """What two definitions could clash in: the pool's name, its folder, and where it pushes to."""
    return pool.name, pool.folder, str(pool.definition.push)


def _folders_above(path: str) -> Iterator[str]:
    while path:
        path = posixpath.dirname(path)
        yield path


def _with_above(folder: str) -> Iterator[str]:
    yield folder
    yield from _folders_above(folder)
