"""Looks up the heads of one remote repository, for everything that is watched in it.

Belongs here: one look-up for all, and telling each what it came to. Does not belong here: when (`schedule`), and what
follows from it (`watch`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from reconciler.daemon.backoff import Backoff
from reconciler.daemon.inbox import LONGEST_SLEEP, Inbox, Trigger
from reconciler.daemon.leash import Leash
from reconciler.daemon.watch import Watch, defect
from reconciler.errors import Interrupted, ReconcilerError

_LOG: Final = logging.getLogger(__name__)
_LATE: Final = 1.5
"""Intervals after which a poll is made unasked: the scheduler goes by the time of day, and that may jump."""


class Remote(Protocol):
    """What can be asked for heads: a part of `ports.Repository`."""

    def heads(self, revisions: tuple[str, ...]) -> Mapping[str, str]:
        """As `Repository.heads`."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One watch with the revisions that matter to it."""

    watch: Watch
    revisions: tuple[str, ...]


class Poller:
    """`run` is the body of its thread; all else is for any thread."""

    def __init__(
        self, remote: Remote, watched: Sequence[Watched], leash: Leash, inbox: Inbox | None = None
    ) -> None:
        self.interval = min(one.watch.timing.interval for one in watched)
        self.leash = leash
        self._remote = remote
        self._watched = tuple(watched)
        self._revisions = tuple(sorted({revision for one in watched for revision in one.revisions}))
        self._inbox = inbox or Inbox()
        self._backoff = Backoff()

    @property
    def name(self) -> str:
        """Whose heads it looks up: one of the repositories, which have their remote in common."""
        return self._watched[0].watch.name

    def look(self, trigger: Trigger = Trigger.POLL) -> None:
        """Look soon. Asked often, it looks once."""
        self._inbox.put(trigger)

    def end(self) -> None:
        """End after the look-up that is under way."""
        self.leash.end()
        self._inbox.close()

    def run(self) -> None:
        """Look whenever asked, until `end`; and also when nobody asks for too long."""
        late = self.leash.monotonic() + self.interval * _LATE
        while not self.leash.ended:
            due = self._inbox.take(min(late - self.leash.monotonic(), LONGEST_SLEEP))
            self.leash.progress()
            if (due or self.leash.monotonic() >= late) and not self._is_over():
                wait = self._poll()
                # From now on: looks that last longer than the interval must not follow each other without a pause.
                late = self.leash.monotonic() + wait

    def _is_over(self) -> bool:
        return self.leash.ended

    def _poll(self) -> float:
        """One look-up; returns after how many seconds the next one is due by itself."""
        try:
            heads = self._remote.heads(self._revisions)
        except Interrupted:
            return self.interval
        except ReconcilerError as error:
            problem = error
        except Exception as error:  # a bug of ours must not end the loop
            _LOG.exception("looking up heads failed")
            problem = defect(error)
        else:
            self._backoff.succeeded()
            for one in self._watched:
                self._tell(one, heads)
            return self.interval * _LATE
        for one in self._watched:
            one.watch.unseen(problem)
        return self._backoff.failed(self.interval)

    def _tell(self, one: Watched, heads: Mapping[str, str]) -> None:
        try:
            one.watch.seen({name: heads[name] for name in one.revisions if name in heads})
        except Exception as error:  # what goes wrong in one must not keep the news from the others
            _LOG.exception("taking in heads failed", extra={"repository": one.watch.name})
            one.watch.unseen(defect(error))
