"""Keeps whoever can reach the server from filling the log.

Belongs here: which messages are held back. Does not belong here: what is logged, and how it looks.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final

_REMEMBERED: Final = 256


class Sparing(logging.Filter):
    """Lets the same warning or error through at most once in `seconds`. What carries a traceback always passes: it
    tells of a fault in our own code, and no two are alike."""

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._clock = clock
        self._lock = Lock()
        self._said: OrderedDict[str, float] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record may pass."""
        if record.levelno < logging.WARNING or record.exc_info:
            return True
        message, now = record.getMessage(), self._clock()
        with self._lock:
            said = self._said.get(message)
            if said is not None and now - said < self._seconds:
                return False
            self._said[message] = now
            self._said.move_to_end(message)
            while len(self._said) > _REMEMBERED:
                self._said.popitem(last=False)
            return True
