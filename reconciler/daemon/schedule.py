"""Timers, by APScheduler. They only put triggers into inboxes: nothing is ever done in a scheduler's thread.

Belongs here: intervals and their jitter. Does not belong here: what a trigger leads to.

The scheduler goes by the time of day, and an interval stands still while that is set back (its own threads then wait
for a time that has been already). So nothing relies on it alone: pollers look, and watches make passes, by themselves
when they were left alone for too long, and all waits are measured by the monotonic clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

_JITTER: Final = 0.1
"""Of the interval, to either side, so that many daemons do not ask one server at one moment."""


class Timers:
    """Calls functions in intervals of so many seconds. They must return at once."""

    def __init__(self, calls: Iterable[tuple[float, Callable[[], None]]]) -> None:
        # Late calls count: an interval that was missed is a look that was missed.
        defaults = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(1)}, job_defaults=defaults, timezone="UTC"
        )
        for seconds, call in calls:
            self._scheduler.add_job(call, Every(seconds))

    def start(self) -> None:
        """Begin; the first calls come after one interval."""
        self._scheduler.start()

    def stop(self) -> None:
        """No more calls."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)


class Every(BaseTrigger):  # type: ignore[misc]  # the library has no types
    """Every so many seconds, a tenth more or less.

    The library's own interval counts from the time that was due: when the clock is set forward, from where a machine
    without a battery starts to today, it would go through all times between, and remember each.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def get_next_fire_time(self, _: datetime | None, now: datetime) -> datetime:
        """The first time after `now`, which is a time with a zone."""
        return now + timedelta(seconds=self._seconds * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311
