"""Holds a pass to its deadline and ends it on request, at every call that it makes to the world.

Belongs here: one thread's time, and whether it gets on. Does not belong here: what the thread does.

A thread cannot be ended from outside. But a pass speaks to the world all the time, every call has a limit of its own,
and any pass may be broken off between two calls: so each call first asks here whether there is to be another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from reconciler.errors import Interrupted


class Leash:
    """Of one thread; others may look at it and end it. `monotonic` gives seconds that no clock change disturbs."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._until: float | None = None
        self._ended = False
        self._progress = monotonic()

    def begin(self, seconds: float) -> None:
        """A pass begins that may take so long."""
        self.progress()
        self._until = self.monotonic() + seconds

    def done(self) -> None:
        """It is over."""
        self.progress()
        self._until = None

    def progress(self) -> None:
        """The thread gets on."""
        self._progress = self.monotonic()

    def check(self) -> None:
        """The thread is about to do something. Raises Interrupted when it must not."""
        self.progress()
        if self._ended:
            raise Interrupted("the daemon is being stopped")
        if self._until is not None and self.monotonic() > self._until:
            raise Interrupted("the pass has taken longer than its deadline")

    def end(self) -> None:
        """The thread shall do nothing any more. For any thread."""
        self._ended = True

    @property
    def ended(self) -> bool:
        """Whether the thread shall end."""
        return self._ended

    @property
    def idle(self) -> float:
        """Seconds since the thread last got on. For any thread."""
        return self.monotonic() - self._progress

    def hold(self, adapter: Any) -> Any:
        """An adapter whose every method first asks here. It has the adapter's own type, as far as anybody can see."""
        return _Held(adapter, self.check)


class _Held:
    """Passes everything on to an adapter."""

    def __init__(self, adapter: Any, check: Callable[[], None]) -> None:
        self._adapter = adapter
        self._check = check

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._adapter, name)
        if not callable(found):
            return found

        @wraps(found)
        def held(*arguments: Any, **options: Any) -> Any:
            self._check()
            return found(*arguments, **options)

        return held
