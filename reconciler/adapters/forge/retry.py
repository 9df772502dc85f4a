"""Trying again: when, how often, how long to wait in between, and what is said at the end.

Belongs here: the one place where a failed try becomes another try or a `ForgeError`.
Does not belong here: knowing what a try does.

Waits follow full jitter (a random time up to a bound that doubles). A forge that names a time gets it; one that names
a time beyond our budget is left alone at once, for asking sooner would be rude and may get us banned.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, TypeVar

from reconciler.adapters.forge.problems import Refusal, Transient
from reconciler.errors import ForgeError, ForgeUnavailable
from reconciler.ports import Clock

TRIES: Final = 4
BUDGET: Final = 300.0
"""Seconds from the first try after which no further one starts."""
_FIRST_BOUND: Final = 1.0
_LAST_BOUND: Final = 20.0

Result = TypeVar("Result")


class Retry:
    """Runs single tries until one succeeds, is refused, or patience ends."""

    def __init__(self, clock: Clock, jitter: random.Random) -> None:
        self._clock = clock
        self._jitter = jitter

    def run(self, subject: str, operation: Callable[[], Result]) -> Result:
        """The result of the first try that succeeds. `subject` starts every message.

        Raises ForgeError when a try is refused, ForgeUnavailable when tries or time run out.
        """
        started = self._clock.now()
        for number in range(1, TRIES + 1):
            try:
                return operation()
            except Refusal as problem:
                raise ForgeError(f"{subject}: {problem.message}", hint=problem.hint) from problem
            except Transient as problem:
                bound: float = min(_LAST_BOUND, _FIRST_BOUND * 2 ** (number - 1))
                wait = max(self._jitter.uniform(0.0, bound), problem.wait or 0.0)
                # A clock set back must not lengthen the budget.
                spent = max(0.0, self._clock.now() - started)
                if number == TRIES or spent + wait > BUDGET:
                    raise _exhausted(subject, problem, number) from problem
            self._clock.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def once(
        self, subject: str, operation: Callable[[], Result], find: Callable[[], Result | None]
    ) -> Result:
        """As `run`, for what must not be done twice: when an answer may have got lost, `find` looks for what came of it
        before it is asked for again, and before giving up."""
        ambiguous = False

        def attempt() -> Result:
            nonlocal ambiguous
            found = find() if ambiguous else None
            if found is not None:
                return found
            try:
                return operation()
            except Transient as problem:
                ambiguous = ambiguous or problem.ambiguous
                raise

        try:
            return self.run(subject, attempt)
        except ForgeUnavailable:
            found = _quietly(find) if ambiguous else None
            if found is None:
                raise
            return found


def _quietly(find: Callable[[], Result | None]) -> Result | None:
    try:
        return find()
    except (Refusal, Transient):
        return None


def _exhausted(subject: str, problem: Transient, tries: int) -> ForgeUnavailable:
    asked = f", and asks to wait {problem.wait:.0f} s" if problem.wait else ""
    times = "once" if tries == 1 else f"{tries} times"
    return ForgeUnavailable(f"{subject}: {problem.message}{asked} (tried {times})", hint=problem.hint)
