"""How long builds took, so that a preview can say how long others will.

Belongs here: the last few of each image, and what to expect by them. Does not belong here: keeping them on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from statistics import median
from threading import Lock
from typing import Final

from reconciler.core.model import Arch
from reconciler.core.plan import Plan
from reconciler.daemon.observer import Nobody

_LAST: Final = 5
_MOST: Final = 20_000
"""Images that are remembered; of more, those that were built longest ago are forgotten."""
_SUCCEEDED: Final = "succeeded"

Seconds = Mapping[str, Sequence[float]]
"""By `pool/architecture`, the latest last."""


class Durations(Nobody):
    """An observer of one repository's builds. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[str, deque[float]] = {}

    def built(self, pool: str, arch: str, seconds: float, outcome: str) -> None:
        """A build that failed says nothing of how long a good one takes."""
        if outcome == _SUCCEEDED and seconds > 0:
            with self._lock:
                self._add(f"{pool}/{arch}", (seconds,))

    def minutes(self, plan: Plan) -> dict[tuple[str, Arch], int]:
        """What to expect of the images of a plan: the median, one minute at least. Those never built are absent."""
        with self._lock:
            return {
                (pool.name, cell.arch): max(1, round(median(known) / 60))
                for pool in plan.pools
                for cell in pool.cells
                if (known := self._known.get(f"{pool.name}/{cell.arch.value}"))
            }

    def seconds(self) -> dict[str, list[float]]:
        """All of them."""
        with self._lock:
            return {image: [round(one, 1) for one in known] for image, known in self._known.items()}

    def remember(self, seconds: Seconds) -> None:
        """Take in what an earlier process knew; what was seen since counts as later."""
        with self._lock:
            since, self._known = self._known, {}
            for image, known in (*seconds.items(), *since.items()):
                self._add(image, known)

    def _add(self, image: str, seconds: Sequence[float] | deque[float]) -> None:
        known = self._known.pop(image, deque(maxlen=_LAST))
        known.extend(seconds)
        self._known[image] = known  # at the end: it is the latest
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
