"""What the daemon tells of itself while it runs, as a Protocol; metrics listen.

Belongs here: the moments worth counting. Does not belong here: counting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import wraps
from typing import Any, Final, Protocol

_LOG: Final = logging.getLogger(__name__)


class Outcome(StrEnum):
    """How a pass ended."""

    SETTLED = "settled"
    WORKING = "working"
    """Builds are in flight, or something is tried again."""
    FAILED = "failed"
    UNVERIFIED = "unverified"


class Observer(Protocol):
    """Is told of everything from any thread; must be quick. `repository` is the name of a watched one."""

    def polled(self, repository: str) -> None:
        """The head was looked up."""

    def passed(self, repository: str, seconds: float, outcome: str) -> None:
        """A pass has ended."""

    def succeeded(self, repository: str, at: float) -> None:
        """A pass went through without a problem; `at` is in seconds since the epoch."""

    def built(self, pool: str, arch: str, seconds: float, outcome: str) -> None:
        """A build has ended: `succeeded`, or why it failed (`definition`, `infrastructure`)."""

    def avoided(self, pool: str, arch: str) -> None:
        """A commit came for which this image was not built."""

    def state(
        self, repository: str, images: Mapping[tuple[str, str], str], queued: int, running: int
    ) -> None:
        """Where every image stands, by pool and architecture, and how many builds wait and run."""

    def nodes(self, repository: str, counts: Mapping[tuple[str, str], int]) -> None:
        """How many nodes are `done`, `pending` or `failed` with the image of their pool, by pool and that word."""


class Nobody:
    """The observer that does not look."""

    def polled(self, repository: str) -> None:
        """Nothing."""

    def passed(self, repository: str, seconds: float, outcome: str) -> None:
        """Nothing."""

    def succeeded(self, repository: str, at: float) -> None:
        """Nothing."""

    def built(self, pool: str, arch: str, seconds: float, outcome: str) -> None:
        """Nothing."""

    def avoided(self, pool: str, arch: str) -> None:
        """Nothing."""

    def state(
        self, repository: str, images: Mapping[tuple[str, str], str], queued: int, running: int
    ) -> None:
        """Nothing."""

    def nodes(self, repository: str, counts: Mapping[tuple[str, str], int]) -> None:
        """Nothing."""


NOBODY: Final = Nobody()


def harmless(observer: Observer) -> Observer:
    """The same observer, whose errors go to the log: what is told of the work must not stop it."""
    found: Any = _Harmless(observer)
    checked: Observer = found
    return checked


def all_of(*observers: Observer) -> Observer:
    """An observer that tells several; errors of one do not keep anything from the others."""
    found: Any = _All([harmless(observer) for observer in observers])
    checked: Observer = found
    return checked


class _All:
    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def __getattr__(self, name: str) -> Callable[..., None]:
        methods = [getattr(observer, name) for observer in self._observers]

        def tell(*arguments: Any) -> None:
            for method in methods:
                method(*arguments)

        return tell


class _Harmless:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._failed: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., None]:
        method = getattr(self._observer, name)

        @wraps(method)
        def tell(*arguments: Any) -> None:
            try:
                method(*arguments)
            except Exception:
                if name not in self._failed:  # once is enough: it is told again and again
                    _LOG.exception("an observer failed", extra={"method": name})
                self._failed.add(name)

        return tell
