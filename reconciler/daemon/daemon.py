"""The daemon as a whole: its threads, and whether they get on.

Belongs here: starting and ending everything in order, and the answers to "alive?" and "ready?".
Does not belong here: signals, files and the web: those who run it bring them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event, Thread
from types import MappingProxyType
from typing import Final

from reconciler.daemon.inbox import Trigger
from reconciler.daemon.leash import Leash
from reconciler.daemon.poller import Poller
from reconciler.daemon.previews import Previewer
from reconciler.daemon.report import Report
from reconciler.daemon.schedule import Timers
from reconciler.daemon.watch import Watch
from reconciler.ports import Builder

_LOG: Final = logging.getLogger(__name__)
_SLACK: Final = 300.0
"""Seconds that a single call may take beyond a pass's deadline before its thread counts as stuck: no call of ours may
take so long without a sign of life, except copying an image."""


@dataclass(frozen=True, slots=True)
class Member:
    """One thread, as the daemon sees it."""

    name: str
    run: Callable[[], None]
    end: Callable[[], None]
    leash: Leash
    limit: float


class Daemon:
    """Watches repositories until it is stopped.

    `previewers` show on pull requests what `watches` would do. They are helpers: whether they get on has no part in
    whether the daemon is alive and ready, and nobody waits for them.
    """

    def __init__(
        self,
        watches: Sequence[tuple[Watch, Builder]],
        pollers: Sequence[Poller],
        previewers: Mapping[Watch, Previewer] = MappingProxyType({}),
    ) -> None:
        self._watches = tuple(watch for watch, _ in watches)
        self._builders = tuple(watches)
        self._pollers = tuple(pollers)
        self._previewers = dict(previewers)
        self._stopping = Event()
        self._members = [
            Member(f"watch {w.name}", w.run, w.end, w.leash, w.timing.deadline + _SLACK)
            for w in self._watches
        ]
        self._members += [
            Member(f"poller of {p.name}", p.run, p.end, p.leash, 2 * p.interval + _SLACK)
            for p in self._pollers
        ]
        self._threads: list[Thread] = []
        self._timers = Timers(
            [(poller.interval, poller.look) for poller in self._pollers]
            + [(watch.timing.resync, _put(watch, Trigger.RESYNC)) for watch in self._watches]
        )

    @property
    def reports(self) -> tuple[Report, ...]:
        """What is known of each repository."""
        return tuple(map(self._report, self._watches))

    def _report(self, watch: Watch) -> Report:
        previewer = self._previewers.get(watch)
        return replace(watch.report, previews=previewer.report) if previewer else watch.report

    def start(self) -> None:
        """Begin; returns at once."""
        bodies = [(member.name, member.run) for member in self._members]
        bodies += [(f"builds of {w.name}", _listener(w, b, self._stopping)) for w, b in self._builders]
        for name, body in bodies:
            thread = Thread(target=body, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)  # only now: somebody may ask already whether all are alive
        for previewer in self._previewers.values():
            Thread(target=previewer.run, name=f"previews of {previewer.name}", daemon=True).start()
        self._timers.start()

    def look(self, trigger: Trigger = Trigger.WEBHOOK) -> None:
        """Look at all heads soon. A hint: nothing happens when none has moved."""
        for poller in self._pollers:
            poller.look(trigger)
        self.look_at_pulls(trigger)

    def look_at_pulls(self, trigger: Trigger = Trigger.WEBHOOK) -> None:
        """Look at what pull requests there are soon. A hint, too."""
        for previewer in self._previewers.values():
            previewer.look(trigger)

    def ask(self) -> None:
        """A person wants everything to be looked at now, and what failed to be tried again."""
        for watch in self._watches:
            watch.put(Trigger.ASKED)
        self.look_at_pulls(Trigger.ASKED)

    def stop(self, seconds: float) -> bool:
        """End all threads between two steps; says whether they ended within `seconds`."""
        self._stopping.set()
        self._timers.stop()
        for member in self._members:
            member.end()
        for previewer in self._previewers.values():
            previewer.end()
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        left = [thread.name for thread in self._threads if thread.is_alive()]
        if left:
            _LOG.warning("still at work when the time to stop was over", extra={"threads": left})
        return not left

    def live(self) -> str:
        """'' while every thread gets on, else what is wrong."""
        for member in self._members:
            idle = member.leash.idle
            if idle > member.limit:
                return f"{member.name} has made no progress for {idle:.0f} s"
        dead = [t.name for t in self._threads if not t.is_alive()]
        if dead and not self._stopping.is_set():
            return f"{dead[0]} has ended"
        return ""

    def ready(self) -> str:
        """'' once a pass over every repository went through, else what is waited for."""
        if self._stopping.is_set():
            return "stopping"
        for report in self.reports:
            if not report.ready:
                problem = f": {report.trouble.message}" if report.trouble else ""
                return f"no pass over {report.name} has gone through yet{problem}"
        return ""


def _put(watch: Watch, trigger: Trigger) -> Callable[[], None]:
    return lambda: watch.put(trigger)


def _listener(watch: Watch, builder: Builder, stopping: Event) -> Callable[[], None]:
    """Turns ends of builds into triggers."""

    def listen() -> None:
        while not stopping.is_set():
            if builder.wait(1.0):
                watch.put(Trigger.BUILD)

    return listen
