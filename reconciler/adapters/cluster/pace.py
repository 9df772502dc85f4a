"""How fast we ask: when a call may go out, when a failed one goes out again, and when that ends.

Belongs here: the limit of requests per second, and the one place where a failed read becomes another try.
Does not belong here: knowing what a try does.
"""

from __future__ import annotations

import email.utils
import random
import re
import time
from collections.abc import Callable
from threading import Lock
from typing import Final, TypeVar

from reconciler.adapters.cluster.problems import Transient
from reconciler.ports import Clock

TRIES: Final = 4
BUDGET: Final = 30.0
"""Seconds from the first try after which no further one starts."""
_FIRST_BOUND: Final = 0.5
_LAST_BOUND: Final = 8.0

Result = TypeVar("Result")


class Pace:
    """Lets `burst` calls through at once and `rate` a second after that, whoever asks: no fault makes us a flood."""

    def __init__(
        self,
        sleep: Callable[[float], None],
        *,
        rate: float = 20.0,
        burst: int = 40,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sleep = sleep
        self._interval = 1.0 / rate
        self._ahead = burst * self._interval
        self._monotonic = monotonic
        self._lock = Lock()
        self._next = monotonic() - self._ahead

    def wait(self) -> None:
        """Block until it is our turn."""
        with self._lock:
            now = self._monotonic()
            turn = max(self._next, now - self._ahead)
            self._next = turn + self._interval
        if turn > now:
            self._sleep(turn - now)


class Retry:
    """Repeats reads, with full jitter: a random wait up to a bound that doubles, so that many clients of one struggling
    server spread out. A server that names a time gets it; one that names a time beyond our budget is left alone."""

    def __init__(self, clock: Clock, jitter: random.Random) -> None:
        self._clock = clock
        self._jitter = jitter

    def run(self, operation: Callable[[], Result]) -> Result:
        """The result of the first try that does not fail for a passing reason. Raises Problem."""
        started = self._clock.now()
        for number in range(1, TRIES + 1):
            try:
                return operation()
            except Transient as problem:
                wait = self._wait(number, problem)
                # A clock set back must not lengthen the budget.
                if number == TRIES or max(0.0, self._clock.now() - started) + wait > BUDGET:
                    times = "once" if number == 1 else f"{number} times"
                    raise Transient(
                        f"{problem.message} (tried {times})",
                        hint=problem.hint,
                        retry_after=problem.retry_after,
                        untrusted=problem.untrusted,
                    ) from problem
            self._clock.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _wait(self, number: int, problem: Transient) -> float:
        bound: float = min(_LAST_BOUND, _FIRST_BOUND * 2 ** (number - 1))
        return max(self._jitter.uniform(0.0, bound), problem.retry_after or 0.0)


def retry_after(value: str, now: float) -> float | None:
    """The wait that a `Retry-After` header asks for, in seconds: a count or an HTTP date. None when it says neither."""
    text = value.strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None
