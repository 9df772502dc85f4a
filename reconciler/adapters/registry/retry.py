"""Trying again: when, how often, how long to wait in between, and what is said at the end.

Belongs here: the one place where a failed try becomes another try or a `RegistryError`.
Does not belong here: knowing what a try does.

Waits follow full jitter (a random time up to a bound that doubles), so that many clients of one struggling
registry spread out. A registry that names a time (`Retry-After`) gets it; one that names a time beyond our
budget is left alone at once, because asking sooner would be rude and waiting longer would stop everything
else. One that has just failed every try of one request gets a single try of each further one for a while: a pass over
a thousand pools would wait a thousand times for nothing, and the next pass asks again anyhow.
"""

from __future__ import annotations

import email.utils
import random
import re
from collections.abc import Callable
from typing import Final, TypeVar

from reconciler.adapters.registry.problems import Refusal, Transient
from reconciler.errors import RegistryError, RegistryUnavailable
from reconciler.ports import Clock

TRIES: Final = 4
BUDGET: Final = 120.0
"""Seconds from the first try after which no further one starts."""
AWAY: Final = 15.0
"""Seconds for which a server that failed every try gets only one of each request."""
_FIRST_BOUND: Final = 1.0
_LAST_BOUND: Final = 20.0

Result = TypeVar("Result")


def retry_after(value: str, now: float) -> float | None:
    """The wait a `Retry-After` header asks for, in seconds: a count or an HTTP date. None when it says
    neither."""
    text = value.strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


class Retry:
    """Runs single tries until one succeeds, is refused, or patience ends."""

    def __init__(self, clock: Clock, jitter: random.Random) -> None:
        self._clock = clock
        self._jitter = jitter
        self._failed: dict[str, float] = {}
        """When each server (`host[:port]`) last failed every try, while it has answered nothing since."""

    def run(
        self, server: str, subject: str, operation: Callable[[], Result], *, budget: float = BUDGET
    ) -> Result:
        """The result of the first try of `server` (`host[:port]`) that succeeds. `subject` starts every message.

        Raises RegistryError when a try is refused, RegistryUnavailable when tries or `budget` (seconds) run
        out.
        """
        started = self._clock.now()
        tries = 1 if 0.0 <= started - self._failed.get(server, -AWAY) < AWAY else TRIES
        for number in range(1, tries + 1):
            try:
                result = operation()
                self._failed.pop(server, None)
                return result
            except Refusal as problem:
                raise RegistryError(f"{subject}: {problem.message}", hint=problem.hint) from problem
            except Transient as problem:
                wait = self._wait(number, problem)
                # A clock set back must not lengthen the budget.
                spent = max(0.0, self._clock.now() - started)
                if number == tries or spent + wait > budget:
                    if tries == TRIES:
                        self._failed[server] = started + spent
                    raise _exhausted(subject, problem, number) from problem
            self._clock.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def ensure(
        self,
        server: str,
        subject: str,
        operation: Callable[[], object],
        settled: Callable[[], bool],
        *,
        budget: float = BUDGET,
    ) -> None:
        """As `run`, for a write whose answer may get lost: before it is repeated, and before giving up,
        `settled` looks whether it had its effect after all."""
        ambiguous = False

        def attempt() -> None:
            nonlocal ambiguous
            if ambiguous and settled():
                return
            try:
                operation()
            except Transient as problem:
                ambiguous = ambiguous or problem.ambiguous
                raise

        try:
            self.run(server, subject, attempt, budget=budget)
        except RegistryUnavailable:
            if not (ambiguous and _quietly(settled)):
                raise

    def _wait(self, number: int, problem: Transient) -> float:
        bound: float = min(_LAST_BOUND, _FIRST_BOUND * 2 ** (number - 1))
        return max(self._jitter.uniform(0.0, bound), problem.retry_after or 0.0)


def _quietly(settled: Callable[[], bool]) -> bool:
    try:
        return settled()
    except (Refusal, Transient):
        return False


def _exhausted(subject: str, problem: Transient, tries: int) -> RegistryUnavailable:
    asked = f", and asks to wait {problem.retry_after:.0f} s" if problem.retry_after else ""
    times = "once" if tries == 1 else f"{tries} times"
    return RegistryUnavailable(f"{subject}: {problem.message}{asked} (tried {times})", hint=problem.hint)
