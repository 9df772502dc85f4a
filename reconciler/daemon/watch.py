"""One repository's loop: when a pass is due, and what its outcome means for the next one.

Belongs here: the decision to pass, waves of builds, retries. Does not belong here: what a pass does
(`reconcile`), looking up heads (`poller`), and timers (`schedule`).

Passes of one repository never overlap: they are made by one thread. They never wait for a build: the end of a build is
a trigger like any other. What a pass needs to know it finds out itself, so any trigger may be lost or come twice.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol

from reconciler.core.documents import Schedule
from reconciler.core.epoch import slot
from reconciler.core.plan import Action, Plan
from reconciler.daemon.backoff import Backoff
from reconciler.daemon.endings import Endings
from reconciler.daemon.inbox import LONGEST_SLEEP, Inbox, Trigger
from reconciler.daemon.leash import Leash
from reconciler.daemon.observer import NOBODY, Observer, Outcome, harmless
from reconciler.daemon.report import Report, changes
from reconciler.errors import (
    Defect,
    Disposition,
    GitUnavailable,
    Interrupted,
    ReconcilerError,
    Timeout,
    UnverifiedCommit,
)
from reconciler.ports import Build, Builder, Clock, Phase
from reconciler.reconcile.reconciler import Result
from reconciler.reconcile.work import Standing

_LOG: Final = logging.getLogger(__name__)
_PROMPT_TRIES: Final = 5
"""How often a pass is repeated at once because the branch moved under it."""
_LATE: Final = 1.5
"""Of `resync`, after which a pass is made unasked: the timers go by the time of day, and that may jump."""
_AT_ONCE: Final = 100
"""Builds that are ended in one step."""
_ASIDE: Final = 20
"""Builds that are forgotten in one step, when there is nothing else to do."""
_PATIENCE: Final = 5
"""Intervals that are waited at most for what only a person can mend, unless something new is seen before."""
_TIMED: Final = frozenset({Standing.WAITING, Standing.BLOCKED})
"""Work that is taken up again at its time."""
_QUICK: Final = frozenset({Trigger.POLL, Trigger.BUILD, Trigger.REFRESH, Trigger.CLUSTER})
"""Triggers that say nothing of what is in the registry."""
_HINDERED: Final = "hindered"
"""The cause of waits after a pass that went through, and could not do all that it wanted."""
_LONGEST_TEXT: Final = 1000


class Engine(Protocol):
    """What makes the passes."""

    def run_pass(
        self,
        announce: Callable[[Plan], None] = ...,
        *,
        one_commit: bool = ...,
        insist: bool = ...,
        thorough: bool = ...,
    ) -> Result:
        """As `Reconciler.run_pass`."""


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds. `interval`, `resync` and `deadline` are the configuration's; after the end of a build others are
    waited for until `wave` seconds were quiet, `longest_wave` at most, so that they share a commit."""

    interval: float = 60.0
    resync: float = 600.0
    deadline: float = 1800.0
    wave: float = 1.0
    longest_wave: float = 10.0


class Watch:
    """Keeps one repository's images up to date. `run` is the body of its thread; all else is for any thread."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        builder: Builder,
        clock: Clock,
        timing: Timing,
        leash: Leash,
        observer: Observer = NOBODY,
        inbox: Inbox | None = None,
    ) -> None:
        self.name = name
        self.timing = timing
        self.leash = leash
        self._engine = engine
        self._builder = builder
        self._clock = clock
        self._observer = harmless(observer)
        self._inbox = inbox or Inbox()
        self._now = leash.monotonic
        self._endings = Endings(name, self._observer)
        self._backoffs: dict[str, Backoff] = {}  # by cause: one must not make another one's waits longer
        self._tries = 0
        self._insist = False
        self._quick_until = 0.0
        self._announced = ""
        self._useless: tuple[
            str, ...
        ] = ()  # builds that have ended, to be forgotten when nothing else is due
        self._retry_at: float | None = None
        self._resync_at = leash.monotonic() + timing.resync * _LATE
        self._lock = Lock()  # guards what other threads look at: everything below
        self._polled: Mapping[str, str] = {}
        self._passed: Mapping[str, str] = {}
        self._cut_off = False
        self._schedule: Schedule | None = None
        self._slot = self._slot_polled = ""
        self._report = Report(name)

    @property
    def report(self) -> Report:
        """What is known of the repository now."""
        with self._lock:
            report = self._report
        return report.with_builds(self._builder.glance())

    def put(self, trigger: Trigger) -> None:
        """Something happened that may matter here."""
        self._inbox.put(trigger)

    def seen(self, heads: Mapping[str, str]) -> None:
        """These are the heads now, by revision. A pass is due when one is not what the last pass rested on, when that
        one could not reach the remote, or when the refresh schedule has come to another slot."""
        with self._lock:
            self._polled = dict(heads)
            moved, retry = self._polled != self._passed, self._cut_off
            schedule = self._schedule
            known, self._report = self._report.unreachable, self._report.reached()
        if moved:
            self._inbox.put(Trigger.POLL)
        if retry:
            self._inbox.put(Trigger.RETRY)
        if known:
            _LOG.info("recovered", extra={"repository": self.name, "from": known.message})
        self._observer.polled(self.name)
        now = slot(schedule, self._clock.now())
        with self._lock:
            self._slot_polled = now
            refresh = now != self._slot
        if refresh:
            self._inbox.put(Trigger.REFRESH)

    def unseen(self, error: ReconcilerError) -> None:
        """The heads could not be looked up."""
        with self._lock:
            known = self._report
            self._report = known.cut_off(error, self._clock.now())
        self._say(error, known)

    def end(self) -> None:
        """End after the step that is under way."""
        self.leash.end()
        self._inbox.close()

    def run(self) -> None:
        """Make passes until `end`."""
        self._inbox.put(Trigger.START)
        while not self.leash.ended:
            try:
                self._step()
            except Exception as error:
                # A bug of ours must not end the loop: the next commit may be free of it.
                _LOG.exception("met a bug", extra={"repository": self.name})
                self._failed(defect(error), self.timing.interval * _PATIENCE)

    def _step(self) -> None:
        """Wait for something to do, and do it."""
        due = self._inbox.take(0.0 if self._useless else self._sleep()) | self._overdue()
        self.leash.progress()
        if Trigger.BUILD in due:
            due |= self._gather()
        if self.leash.ended:
            return
        if self._is_due(due):
            self._pass(due)
        elif self._useless:
            self._forget_some()
        elif (report := self.report).builds:
            self._show(report)

    def _is_due(self, due: frozenset[Trigger]) -> bool:
        """Whether a pass would find anything new: a head that moved while a pass was made may be in it already."""
        if due == {Trigger.POLL}:
            with self._lock:
                return self._polled != self._passed
        return bool(due)

    def _sleep(self) -> float:
        until = self._resync_at if self._retry_at is None else min(self._retry_at, self._resync_at)
        return min(until - self._now(), LONGEST_SLEEP)

    def _overdue(self) -> frozenset[Trigger]:
        """What it is time for by itself."""
        now = self._now()
        found = set()
        if self._retry_at is not None and now >= self._retry_at:
            found.add(Trigger.RETRY)
        if now >= self._resync_at:
            found.add(Trigger.RESYNC)
        return frozenset(found)

    def _gather(self) -> frozenset[Trigger]:
        """Let a wave of builds come in: they end together more often than not."""
        until = self._now() + self.timing.longest_wave
        gathered: set[Trigger] = set()
        while self._now() < until and not self.leash.ended:
            self.leash.progress()
            found = self._inbox.take(self.timing.wave)
            if not found:
                break
            gathered |= found
        return frozenset(gathered)

    def _pass(self, due: frozenset[Trigger]) -> None:
        """One pass, whatever comes of it."""
        begun, now = self._now(), self._clock.now()
        self._retry_at, self._resync_at = None, begun + self.timing.resync * _LATE
        self._insist |= Trigger.ASKED in due  # until a pass goes through
        with self._lock:
            # Until a pass goes through, only other heads or another slot are reasons to try before it is time.
            self._passed = self._polled
            self._slot = self._slot_polled
            self._cut_off = False
        outcome = Outcome.FAILED
        self.leash.begin(self.timing.deadline)
        try:
            outcome = self._try(now, thorough=not due <= _QUICK or begun >= self._quick_until)
        finally:
            self.leash.done()
            if not self.leash.ended:
                self._observer.passed(self.name, self._now() - begun, outcome)

    def _try(self, now: float, *, thorough: bool) -> Outcome:
        """A pass that begins `now`, and what is to be done about its end."""
        interval = self.timing.interval
        quick_until = self._now() + self.timing.resync if thorough else self._quick_until
        self._quick_until = 0.0  # after whatever goes wrong the next pass looks at everything
        try:
            result = self._engine.run_pass(self._announce, insist=self._insist, thorough=thorough)
            self._insist = False
            if not result.problems:
                self._quick_until = quick_until
            return self._conclude(result, now)
        except Interrupted as error:
            if not self.leash.ended:
                self._failed(Timeout(str(error), hint="source.deadline sets it"), interval)
        except UnverifiedCommit as error:
            self._failed(error, self.timing.resync)
            return Outcome.UNVERIFIED
        except ReconcilerError as error:
            with self._lock:
                self._cut_off = isinstance(error, GitUnavailable)
            patient = error.disposition is Disposition.WAIT
            self._failed(error, interval * (_PATIENCE if patient else 1))
        return Outcome.FAILED

    def _announce(self, plan: Plan) -> None:
        """Tell of a plan before it is acted on, and count what a commit did not cause."""
        with self._lock:
            report = self._report
        # One that is tried again was told of, and a commit of ours is no author's.
        if plan.head in (report.head, report.written, self._announced):
            return
        self._announced = plan.head
        _LOG.info(
            "planned",
            extra={"repository": self.name, "commit": plan.head, "plan": plan.digest}
            | {action.value: count for action, count in plan.summary.items() if count},
        )
        if not report.head:  # after a start nobody knows whether it is a new commit
            return
        for pool in plan.pools:
            for cell in pool.cells:
                if cell.action is Action.REUSE:
                    self._observer.avoided(pool.name, cell.arch.value)

    def _conclude(self, result: Result, begun: float) -> Outcome:
        """What a pass that went through means for the next one."""
        builds = self._give_up(result.unwanted)
        with self._lock:
            before = self._report
            # What it did not rest on, as a branch that cannot be fetched, is no reason for another one.
            self._passed = {**self._passed, **result.heads}
            self._schedule = result.schedule
            # As of its beginning: a slot that began meanwhile may not be in it.
            self._slot = slot(result.schedule, begun)
            self._report = report = before.after(result, self._clock.now())
        for level, message, fields in changes(before, report, result):
            _LOG.log(level, message, extra={"repository": self.name, **fields})
        self._show(report.with_builds(builds))
        return self._plan_next(result)

    def _give_up(self, unwanted: Collection[str]) -> tuple[Build, ...]:
        """End the builds that nobody needs any more, and note which of those have ended; returns the others."""
        builds, gone = self._builder.builds(), frozenset(unwanted)
        self._endings.tell(builds)
        self._useless = tuple(build.name for build in builds if build.ended and build.name in gone)
        busy = [build.name for build in builds if not build.ended and build.name in gone]
        if busy:
            _LOG.info("superseded", extra={"repository": self.name, "builds": busy})
        # Each may take the builder a request: who waits for our end must not wait for all of them.
        for start in range(0, len(busy), _AT_ONCE):
            if self.leash.ended:
                break
            self.leash.progress()
            self._builder.discard(busy[start : start + _AT_ONCE])
        return tuple(build for build in builds if build.name not in gone)

    def _forget_some(self) -> None:
        """Have the builder forget some of the builds that are of no use: there may be thousands after a commit, and the
        next commit shall not wait for that. What is left then is noted again by the next pass."""
        some, self._useless = self._useless[:_ASIDE], self._useless[_ASIDE:]
        try:
            self._builder.discard(some)
        except ReconcilerError as error:
            self._useless = ()
            _LOG.warning(
                "cannot put away builds that have ended: %s",
                error.message,
                extra={"repository": self.name, "reason": error.reason, "hint": error.hint},
            )
        else:
            self._endings.forget(some)

    def _show(self, report: Report) -> None:
        """Let the observer see how everything stands."""
        states = {(image.pool, image.arch.value): image.state.value for image in report.images}
        queued = sum(build.phase is Phase.PENDING for build in report.builds)
        running = sum(build.phase is Phase.RUNNING for build in report.builds)
        self._observer.state(self.name, states, queued, running)
        counts = {(of.pool, how.value): n for of in report.nodes for how, n in of.counts.items()}
        self._observer.nodes(self.name, counts)

    def _plan_next(self, result: Result) -> Outcome:
        """When the next pass is due without a trigger, and how this one ended."""
        now = self._clock.now()
        waits = [work.until - now for work in result.work.values() if work.standing in _TIMED]
        if result.written.overtaken:
            self._tries += 1
            prompt = self._tries <= _PROMPT_TRIES
            waits.append(random.uniform(0.0, 0.1 * self._tries) if prompt else self.timing.interval)  # noqa: S311
            self._retry_in(min(waits))
            return Outcome.WORKING
        self._tries = 0
        self._backoffs = {_HINDERED: self._backoffs.get(_HINDERED, Backoff())} if result.hindered else {}
        if result.hindered:
            waits.append(self._back_off(_HINDERED, min(self.timing.resync, _PATIENCE * self.timing.interval)))
        if waits:
            self._retry_in(max(0.1, min(waits)))
        if result.sound:
            self._observer.succeeded(self.name, now)
        if result.problems or result.hindered:
            return Outcome.FAILED
        return Outcome.WORKING if result.in_flight else Outcome.SETTLED

    def _failed(self, error: ReconcilerError, cap: float) -> None:
        with self._lock:
            known = self._report
            self._report = known.troubled(error, self._clock.now())
        self._say(error, known)
        self._retry_in(self._back_off(error.reason, cap))

    def _back_off(self, cause: str, cap: float) -> float:
        return self._backoffs.setdefault(cause, Backoff()).failed(cap)

    def _retry_in(self, seconds: float) -> None:
        self._retry_at = self._now() + seconds

    def _say(self, error: ReconcilerError, known: Report) -> None:
        """Tell the log what is wrong, once for as long as it is the same, whoever runs into it."""
        told = {problem.message for problem in (known.problem, known.unreachable) if problem}
        if error.message not in told:
            fields = {"repository": self.name, "reason": error.reason, "hint": error.hint}
            _LOG.warning("%s", error.message, extra=fields)


def defect(error: Exception) -> Defect:
    """A bug of ours as an error: its traceback is in the log."""
    return Defect(
        f"met a bug of the reconciler: {type(error).__name__}: {error}"[:_LONGEST_TEXT],
        hint="please report it, with the traceback from the log; it goes on with the next commit",
    )
