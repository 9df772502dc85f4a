"""One repository's previews: when to look at the forge, which pull requests are due, and what becomes of each.

Belongs here: the loop, and what is remembered between two looks. Does not belong here: how a preview is made
(`reconcile.previewing`), who may cause one (`gate`), and keeping notes on disk (`promises`).

It has a thread of its own and asks nothing of the watch: whatever the forge does, passes go on. What is remembered
only saves work, and tells after a merge what was promised; without it everything is found out again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from reconciler.core.comment import noted
from reconciler.core.plan import Plan
from reconciler.daemon.account import Account
from reconciler.daemon.backoff import Backoff
from reconciler.daemon.durations import Durations
from reconciler.daemon.gate import Rules
from reconciler.daemon.inbox import LONGEST_SLEEP, Inbox, Trigger
from reconciler.daemon.known import Deeds, Known
from reconciler.daemon.leash import Leash
from reconciler.daemon.promises import Notebook
from reconciler.daemon.report import Previews
from reconciler.daemon.watch import defect
from reconciler.errors import (
    Disposition,
    ForgeError,
    ForgeUnavailable,
    Interrupted,
    MergeConflict,
    ReconcilerError,
    Timeout,
)
from reconciler.ports import Clock, Kept
from reconciler.ports.forge import Pull
from reconciler.reconcile import remarks
from reconciler.reconcile.posting import Posted
from reconciler.reconcile.previewing import Desk
from reconciler.reconcile.remarks import Minutes, Promise

_LOG: Final = logging.getLogger(__name__)
_MOST: Final = 200
"""Open pull requests that are looked at, the newest."""
_SOON: Final = (2.0, 4.0, 8.0)
"""Seconds until another look when the forge seems to lag behind what it told us of."""
_REST: Final = 1.0
"""Seconds between two looks, however many webhooks come: strangers cause them, and forges count our requests."""
_PATIENCE: Final = 5
"""Intervals that are waited at most after failures."""
FAILED: Final = "failed"

Tell = Callable[[str, float, str], None]
"""Is told of the repository, how many seconds a preview took, and what became of it: a `Posted` or `failed`."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """What the thread works with; it is opened and closed there."""

    desk: Desk
    kept: Kept


class Previewer:
    """`run` is the body of its thread; all else is for any thread."""

    def __init__(
        self,
        name: str,
        open_workplace: Callable[[], AbstractContextManager[Workplace]],
        rules: Rules,
        clock: Clock,
        leash: Leash,
        durations: Durations,
        tell: Tell = lambda *_: None,
        inbox: Inbox | None = None,
    ) -> None:
        self.name = name
        self.leash = leash
        self._open_workplace = open_workplace
        self._rules = rules
        self._clock = clock
        self.durations = durations
        self._tell = tell
        self._inbox = inbox or Inbox()
        self._now = leash.monotonic
        self._backoff = Backoff()
        self._known: dict[int, Known] = {}
        self._open: frozenset[int] = frozenset()
        self._waiting: set[int] = set()
        self._problems: dict[int, str] = {}
        self._again = False
        self._tries = 0
        self._deeds = Deeds()
        self._account = Account(name, clock)

    @property
    def report(self) -> Previews:
        """How previews stand now."""
        return self._account.report

    def look(self, trigger: Trigger = Trigger.POLL) -> None:
        """Look soon. Asked often, it looks once."""
        self._inbox.put(trigger)

    def planned(self, plan: Plan) -> None:
        """The daemon acts on a plan. One of another commit means that the target moved."""
        if self._deeds.add(plan):
            self._inbox.put(Trigger.POLL)

    def end(self) -> None:
        """End after the step that is under way."""
        self.leash.end()
        self._inbox.close()

    def run(self) -> None:
        """Look whenever asked and every interval, until `end`."""
        while not self.leash.ended:
            try:
                with self._open_workplace() as workplace:
                    self._serve(workplace)
            except Interrupted:
                pass
            except Exception as error:
                self._account.failed(_known_error(error))
                self._inbox.take(self._backoff.failed(self._rules.interval))

    def _serve(self, workplace: Workplace) -> None:
        notebook = Notebook(workplace.kept, self.name)
        promises, seconds = notebook.read()
        self.durations.remember(seconds)
        for number, promise in promises.items():
            self._known.setdefault(number, Known(promise))
        due_at = rested_at = self._now()
        hooked = False
        while not self.leash.ended:
            due = self._inbox.take(min(due_at - self._now(), LONGEST_SLEEP))
            self.leash.progress()
            hooked |= Trigger.WEBHOOK in due
            if due:
                due_at = min(due_at, max(rested_at, self._now()))
            if self._now() >= due_at and not self._is_over():
                due_at = self._now() + self._round(workplace.desk, hooked)
                rested_at, hooked = self._now() + _REST, False
                shown = {number: known.promise for number, known in self._known.items() if known.promise}
                notebook.write(shown, self.durations.seconds())

    def _is_over(self) -> bool:
        return self.leash.ended

    def _round(self, desk: Desk, hooked: bool) -> float:
        """One look at everything; returns after how many seconds the next one is due by itself."""
        self._again = False
        self.leash.begin(self._rules.deadline)
        try:
            busy = self._look(desk)
        except Interrupted as error:
            if self.leash.ended:
                return self._rules.interval
            self._account.failed(Timeout(str(error), hint="what is left is done in the next look"))
        except Exception as error:
            self._account.failed(_known_error(error))
            return self._backoff.failed(_PATIENCE * self._rules.interval)
        else:
            self._backoff.succeeded()
            self._again |= not busy and (hooked or self._tries > 0)
        finally:
            self.leash.done()
            desk.history.settle()
        self._tries = self._tries + 1 if self._again else 0
        if 0 < self._tries <= len(_SOON):
            return _SOON[self._tries - 1]
        self._tries = 0
        waits = (known.retry_at - self._now() for n, known in self._known.items() if n in self._open)
        return min([self._rules.interval, *(wait for wait in waits if wait > 0)])

    def _look(self, desk: Desk) -> bool:
        """Look at what is open, and do what is due; says whether anything was."""
        pulls = list(islice(desk.forge.pulls(desk.target), _MOST))
        base = desk.base()
        self._gone(desk, {pull.number for pull in pulls})
        admitted = [pull for pull in pulls if self._rules.gate.admits(pull)]
        self._open = frozenset(pull.number for pull in admitted)
        self._waiting &= self._open
        self._problems = {n: text for n, text in self._problems.items() if n in self._open}
        # What somebody waits for comes before what only has another base now.
        admitted.sort(
            key=lambda pull: pull.number in self._known and self._known[pull.number].head == pull.head
        )
        busy = False
        for pull in admitted:
            known = self._known.setdefault(pull.number, Known())
            if self._is_due(desk, known, pull, base):
                busy = True
                self._one(desk, pull, base, known)
        self._note(desk, admitted)
        self._close(desk)
        shown = sum(bool(self._known[number].gist) for number in self._open)
        self._account.looked(len(self._open), shown, len(self._waiting), self._problems)
        return busy

    def _is_due(self, desk: Desk, known: Known, pull: Pull, base: str) -> bool:
        head, before = known.seen
        if head == pull.head and desk.alike(before, base):
            known.seen = (head, base)
            return False
        return known.tried != pull.head or self._now() >= known.retry_at

    def _one(self, desk: Desk, pull: Pull, base: str, known: Known) -> None:
        """One pull request, whatever comes of it. Raises ForgeUnavailable: then nothing can be posted anywhere."""
        fresh = known.head != pull.head
        if fresh and known.paid != pull.head:
            if not self._rules.allowance.take(pull.author, self._now()):
                if pull.number not in self._waiting:
                    _LOG.warning("its author has had enough previews this hour", extra=self._fields(pull))
                self._waiting.add(pull.number)
                return
            known.paid = pull.head
        self._waiting.discard(pull.number)
        begun, outcome = self._now(), FAILED
        try:
            outcome = self._preview(desk, pull, base, known, fresh=fresh)
        except (Interrupted, ForgeUnavailable):
            raise
        except Exception as error:
            self._unplanned(desk, pull, base, known, _known_error(error))
        else:
            self._problems.pop(pull.number, None)
            if known.refused:
                self._problems[pull.number] = known.refused
            known.tried, known.retry_at = "", 0.0
            known.backoff.succeeded()
        finally:
            if not self.leash.ended:
                self._tell(self.name, self._now() - begun, outcome)

    def _preview(self, desk: Desk, pull: Pull, base: str, known: Known, *, fresh: bool) -> str:
        desk.fetch(pull)
        if desk.is_own(pull, base):
            known.seen = (pull.head, base)
            return Posted.UNCHANGED
        posting = desk.posting(pull)
        if fresh:
            posting.start()
            known.minutes.clear()
        made = desk.make(pull, base, lambda plan: self._minutes(known, plan))
        expected = remarks.expected(made.plan, known.minutes)
        notes = self._notes(desk, pull.number, made.promise, expected)
        outcome = Posted.UNCHANGED
        if fresh or known.fault or known.gist != made.gist:
            result = posting.finish(noted(made.text, notes), made.plan)
            self._refused(pull, known, posting.refused)
            outcome, known.notes = result.posted, notes
            if outcome is Posted.SUPERSEDED:
                self._again = True
                return outcome
            _LOG.info(
                "previewed",
                extra=self._fields(pull)
                | {"plan": made.plan.digest, "comment": outcome.value, "url": result.url},
            )
        known.promise, known.gist, known.expected = made.promise, made.gist, expected
        known.fault, known.seen = "", (pull.head, base)
        return outcome

    def _minutes(self, known: Known, plan: Plan) -> Minutes:
        """What to expect, once said, stays said for as long as nobody pushes: it is not worth an edit."""
        for image, minutes in self.durations.minutes(plan).items():
            known.minutes.setdefault(image, minutes)
        return known.minutes

    def _unplanned(self, desk: Desk, pull: Pull, base: str, known: Known, error: ReconcilerError) -> None:
        """There is no preview of this head, now or at all."""
        self._problems[pull.number] = error.message
        if error.disposition is Disposition.RETRY:
            known.tried = pull.head
            known.retry_at = self._now() + known.backoff.failed(_PATIENCE * self._rules.interval)
            _LOG.info("a preview is tried again: %s", error.message, extra=self._fields(pull))
            return
        known.seen, known.gist = (pull.head, base), ""
        # What other errors say is for those who run the daemon: anybody may read the pull request.
        said = error.message if isinstance(error, MergeConflict) else error.reason
        if known.fault == said.replace(base[:12], ""):
            return
        _LOG.warning("no preview: %s", error.message, extra=self._fields(pull) | {"hint": error.hint})
        if isinstance(error, ForgeError):
            return
        try:
            posting = desk.posting(pull)
            posting.fail(f"no plan could be made: {said}")
            self._refused(pull, known, posting.refused)
            posting.amend(partial(_with, (remarks.unplanned(pull.head, said),)))
            known.fault = said.replace(base[:12], "")
        except ForgeUnavailable:
            raise
        except ForgeError as refused:
            self._problems[pull.number] = refused.message

    def _refused(self, pull: Pull, known: Known, error: ForgeError | None) -> None:
        """Remember why the forge does not take all statuses of a head, None when it does; it is told once."""
        before, known.refused = known.refused, error.message if error else ""
        if error and error.message != before:
            fields = self._fields(pull) | {"hint": error.hint}
            _LOG.warning("not all statuses are taken: %s", error.message, extra=fields)

    def _notes(self, desk: Desk, number: int, promise: Promise, expected: str) -> tuple[str, ...]:
        others = {
            other: known.promise.touched.keys() & promise.touched.keys()
            for other, known in self._known.items()
            if other != number and other in self._open and known.promise
        }
        beside = remarks.neighbours({other: pools for other, pools in others.items() if pools}, desk.sign)
        return tuple(filter(None, (expected, beside)))

    def _note(self, desk: Desk, pulls: Iterable[Pull]) -> None:
        """Bring up to date what comments say of each other."""
        for pull in pulls:
            known = self._known[pull.number]
            if known.promise is None or known.fault or not known.gist or known.head != pull.head:
                continue
            notes = self._notes(desk, pull.number, known.promise, known.expected)
            if notes != known.notes:
                with self._each(pull):
                    desk.posting(pull).amend(partial(_with, notes))
                known.notes = notes

    def _gone(self, desk: Desk, listed: set[int]) -> None:
        """See what became of those that are not open any more."""
        for number in sorted(self._known.keys() - listed):
            known = self._known[number]
            if known.merged:
                continue
            if known.promise is None:
                del self._known[number]
                continue
            try:
                pull = desk.forge.pull(number)
            except ForgeUnavailable:
                raise
            except ForgeError:
                pull = None  # deleted
            if pull and pull.is_open and pull.target == desk.target:
                continue  # there are more than we look at
            if pull and pull.merged and pull.target == desk.target:
                known.merged = pull
            else:
                del self._known[number]

    def _close(self, desk: Desk) -> None:
        """Say on those that were merged whether the daemon planned them as previewed, as soon as it has planned."""
        for number, known in list(self._known.items()):
            if known.merged is None or known.promise is None or not desk.repository.has(known.merged.merged):
                continue
            merge = desk.merge(known.merged)
            done = next((one for one in self._deeds.all() if desk.contains(one.commit, merge)), None)
            if done is None:
                continue
            said = remarks.outcome(known.promise, merge, done)
            with self._each(known.merged):
                desk.posting(known.merged).amend(partial(_with, (said,)))
            fields = {"plan": done.digest, "asPreviewed": done.digest == known.promise.digest}
            _LOG.info("closed out", extra=self._fields(known.merged) | fields)
            del self._known[number]

    @contextmanager
    def _each(self, pull: Pull) -> Iterator[None]:
        """What a forge refuses on one pull request is a problem of that one."""
        try:
            yield
        except ForgeUnavailable:
            raise
        except ForgeError as error:
            self._problems[pull.number] = error.message

    def _fields(self, pull: Pull) -> dict[str, object]:
        return {"repository": self.name, "pull": pull.number, "head": pull.head}


def _known_error(error: Exception) -> ReconcilerError:
    """An error as one of ours; a bug's traceback goes to the log."""
    if isinstance(error, ReconcilerError):
        return error
    _LOG.error("previews met a bug", exc_info=error)
    return defect(error)


def _with(notes: Sequence[str], text: str) -> str:
    return noted(text, notes)
