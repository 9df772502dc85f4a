"""The machine's clock."""

from __future__ import annotations

import time


class SystemClock:
    """Implements `ports.Clock`."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
