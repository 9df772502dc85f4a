"""What a thread of the daemon wakes up for.

Belongs here: the kinds of triggers, and handing them from any thread to one. Does not belong here: acting on them.
"""

from __future__ import annotations

from enum import StrEnum
from threading import Condition
from typing import Final

LONGEST_SLEEP: Final = 15.0
"""Seconds after which an idle reader shows that it is alive."""


class Trigger(StrEnum):
    """Why somebody should look. Each is sufficient alone; none says what is to be done."""

    START = "start"
    POLL = "poll"
    """It is time to look at the head; or, for a repository, the head moved."""
    WEBHOOK = "webhook"
    ASKED = "asked"
    """A person asks for it."""
    BUILD = "build"
    """A build has ended."""
    REFRESH = "refresh"
    """The schedule has come to another slot."""
    RESYNC = "resync"
    """It is time to look at the world whole: bases, images, tags."""
    RETRY = "retry"
    CLUSTER = "cluster"
    """Nodes or pools are not what they were."""


class Inbox:
    """A set of triggers: what comes twice before it is taken counts once, so nothing can pile up."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._pending: set[Trigger] = set()
        self._closed = False

    def put(self, trigger: Trigger) -> None:
        """Wake the reader. For any thread."""
        with self._changed:
            self._pending.add(trigger)
            self._changed.notify_all()

    def take(self, seconds: float) -> frozenset[Trigger]:
        """Everything that is pending, as soon as there is something, after `seconds` at the latest (then nothing)."""
        with self._changed:
            # A condition waits on the monotonic clock: no change of the time of day delays anybody.
            self._changed.wait_for(lambda: self._pending or self._closed, timeout=max(0.0, seconds))
            found = frozenset(self._pending)
            self._pending.clear()
            return found

    def close(self) -> None:
        """Nobody waits here any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
