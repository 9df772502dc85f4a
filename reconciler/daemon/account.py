"""How previews of one repository stand, as other threads and the log hear of it.

Belongs here: what is told, and telling a problem once. Does not belong here: what causes it (`previews`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import Lock
from typing import Final

from reconciler.daemon.report import Previews, Problem
from reconciler.errors import ReconcilerError
from reconciler.ports import Clock

_LOG: Final = logging.getLogger(__name__)


class Account:
    """Of the repository `name`. For any thread."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._lock = Lock()
        self._report = Previews()

    @property
    def report(self) -> Previews:
        """How it is now."""
        with self._lock:
            return self._report

    def looked(self, open_: int, shown: int, waiting: int, problems: Mapping[int, str]) -> None:
        """A look went through; the numbers are those of pull requests, `problems` what keeps single ones back."""
        told = tuple(f"pull request {number}: {text}" for number, text in sorted(problems.items()))
        fresh = Previews(self._clock.now(), open_, shown, waiting, problems=told)
        with self._lock:
            before, self._report = self._report.problem, fresh
        if before:
            _LOG.info("previews recovered", extra={"repository": self._name, "from": before.message})

    def failed(self, error: ReconcilerError) -> None:
        """A look did not go through."""
        with self._lock:
            before = self._report.problem
            same = before is not None and before.message == error.message
            since = before.since if before and same else self._clock.now()
            problem = Problem(error.reason, error.message, error.hint, since)
            self._report = self._report.troubled(problem)
        if not same:
            fields = {"repository": self._name, "reason": error.reason, "hint": error.hint}
            _LOG.warning("previews: %s", error.message, extra=fields)
