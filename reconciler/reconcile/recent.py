"""Remembering what is still in use.

Belongs here: a memory that forgets by use, for whatever lives as long as a daemon. Does not belong here: what is
remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A mapping that drops at every `settle` what was neither set nor asked for since the one before.

    So it holds no more than what two stretches between calls use, however long it lives.
    """

    def __init__(self) -> None:
        self._used: dict[K, V] = {}
        self._idle: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._used) + len(self._idle)

    def __setitem__(self, key: K, value: V) -> None:
        self._idle.pop(key, None)
        self._used[key] = value

    def get(self, key: K) -> V | None:
        """What is remembered, which is used by that; None when it is not."""
        if key in self._idle:
            self._used[key] = self._idle.pop(key)
        return self._used.get(key)

    def values(self) -> Iterator[V]:
        """All that is remembered, which uses none of it."""
        return chain(self._used.values(), self._idle.values())

    def missing(self, keys: Iterable[K]) -> list[K]:
        """Those of `keys` that are not remembered, in their order."""
        return [key for key in keys if key not in self._used and key not in self._idle]

    def settle(self) -> None:
        """Drop what was not used since the last call."""
        self._idle, self._used = self._used, {}
