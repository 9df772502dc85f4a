"""Holds a pass to its deadline and ends it on request, at every call that it makes to the world.

Belongs here: one thread's time, and whether it gets on. Does not belong here: what the thread does.

A thread cannot be ended from outside. But a pass speaks to the world all the time, every call has a limit of its own,
and any pass may be broken off between two calls: so each call first asks here whether there is to be another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from reconciler.errors import Interrupted
from reconciler.ports import Clock

_PIECE: Final = 0.5
"""Seconds that a wait goes on after the thread was told to end."""


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

    def clock(self, clock: Clock) -> Clock:
        """A clock whose waits end when the thread must not go on."""
        return _Clock(clock, self.check)

    def hold(self, adapter: Any) -> Any:
        """An adapter whose every method first asks here. It has the adapter's own type, as far as anybody can see."""
        return _Held(adapter, self.check)


class _Clock:
    """Implements `ports.Clock`: sleeps in short pieces, and asks between them."""

    def __init__(self, clock: Clock, check: Callable[[], None]) -> None:
        self._clock = clock
        self._check = check

    def now(self) -> float:
        """The time of day."""
        return self._clock.now()

    def sleep(self, seconds: float) -> None:
        """Wait. Raises Interrupted."""
        while seconds > 0:
            self._check()
            piece = min(seconds, _PIECE)
            self._clock.sleep(piece)
            seconds -= piece


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
