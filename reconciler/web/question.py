"""Calls that may take long or never end, made where they hold up nobody.

Belongs here: making them, and giving up on them. Does not belong here: what is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Generic, TypeVar

from reconciler.errors import Disposition, ReconcilerError

T = TypeVar("T")


class NoAnswer(ReconcilerError):
    """A call did not end in time, or could not even be made."""

    reason = "NoAnswer"
    disposition = Disposition.RETRY


class Question(Generic[T]):
    """One call that many may want the result of, in one event loop. It is made in a thread of its own, for all who ask
    while it lasts: however many ask, and even if it hangs, there is one thread, and nobody is turned away for others.

    The thread ends with the process: one of an executor's would be waited for at the exit, for ever if it hangs.
    """

    def __init__(self, call: Callable[[], T], seconds: float) -> None:
        self._call = call
        self._seconds = seconds
        self._answer: asyncio.Future[T] | None = None

    async def ask(self) -> T:
        """What the call returns or raises. Raises NoAnswer when that takes longer than `seconds`."""
        if self._answer is None or self._answer.done():
            self._answer = self._begin()
        done, _ = await asyncio.wait([self._answer], timeout=self._seconds)
        if not done:
            raise NoAnswer(f"no answer within {self._seconds:g} s")
        return done.pop().result()

    def _begin(self) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        # Everybody may have given up before an error comes, and asyncio complains of errors that nobody took.
        answer.add_done_callback(lambda given: given.exception())

        def work() -> None:
            try:
                result = self._call()
            except Exception as error:
                settle(answer.set_exception, error)
            else:
                settle(answer.set_result, result)

        def settle(give: Callable[..., None], value: object) -> None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(give, value)

        try:
            Thread(target=work, name="web-call", daemon=True).start()
        except RuntimeError as error:
            raise NoAnswer("no thread can be started") from error
        return answer
