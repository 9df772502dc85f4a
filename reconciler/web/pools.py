"""Which pools may have time series of their own, so that no repository can make endlessly many.

Belongs here: admitting pools to labels, and telling when they are gone. Does not belong here: any metric.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

OTHER: Final = "other"
"""The label of everything that has none of its own."""


class Pools:
    """The pools of all repositories. A pool is admitted when it is first named, while there are fewer than `most`, and
    is gone once no repository has it. One lock of the caller's must hold every call."""

    def __init__(self, repositories: Collection[str], most: int) -> None:
        self._repositories = frozenset(repositories)
        self._most = most
        self._have: dict[str, frozenset[str]] = {}
        self._admitted: dict[str, set[str]] = {}
        """Each with the repositories that have not said since whether it is theirs: a build may end before the pass
        that names its pool."""

    def label(self, pool: str) -> str:
        """What a pool's series are labelled with."""
        if pool not in self._admitted:
            if len(self._admitted) >= self._most:
                return OTHER
            self._admitted[pool] = set(self._repositories)
        return pool

    def settle(self, repository: str, pools: Collection[str]) -> list[str]:
        """Take note of all pools that a repository has; return the admitted ones that are gone."""
        self._have[repository] = frozenset(pools)
        for pool, open_at in self._admitted.items():
            if pool in self._have[repository]:
                open_at.clear()
            else:
                open_at.discard(repository)
        wanted = frozenset().union(*self._have.values())
        gone = sorted(pool for pool, open_at in self._admitted.items() if not open_at and pool not in wanted)
        for pool in gone:
            del self._admitted[pool]
        return gone
