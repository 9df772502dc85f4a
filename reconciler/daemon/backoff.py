"""How long to wait after failures.

Belongs here: the growth of a delay. Does not belong here: what failed, and waiting.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

_SPREAD: Final = 0.2
"""Of a delay, by which it may be shorter, so that many do not come back at one moment."""


@dataclass(slots=True)
class Backoff:
    """Delays in seconds that double from `first` up to a cap, each up to a fifth shorter than that, by chance."""

    first: float = 1.0
    failures: int = 0
    _random: random.Random = field(default_factory=random.Random)

    def failed(self, cap: float) -> float:
        """Count a failure; returns how long to wait now, never longer than `cap`."""
        delay = min(self.first * 2.0 ** min(self.failures, 30), cap)
        self.failures += 1
        return delay * self._random.uniform(1 - _SPREAD, 1)

    def succeeded(self) -> None:
        """Begin anew."""
        self.failures = 0
