"""What is remembered for previews between two looks: of each pull request, and of what the daemon did.

Belongs here: the memory. Does not belong here: what follows from it (`previews`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from reconciler.core.model import Arch
from reconciler.core.plan import Plan
from reconciler.daemon.backoff import Backoff
from reconciler.ports.forge import Pull
from reconciler.reconcile.remarks import Deed, Promise, deed

_MOST: Final = 50


@dataclass(slots=True)
class Known:
    """`seen` are the head and the base that were dealt with; `gist` is what was posted of them, '' when that is not
    known. `paid` is the head that its author's allowance went for, `fault` why there is no plan, as it was said;
    `refused` why the forge does not take all statuses, '' when it does. `expected`, `notes` and `minutes` are what the
    comment says beside the plan; `merged` is the pull request in the end. `tried` is a head that is to be tried again,
    from `retry_at` on."""

    promise: Promise | None = None
    seen: tuple[str, str] = ("", "")
    paid: str = ""
    gist: str = ""
    fault: str = ""
    refused: str = ""
    expected: str = ""
    notes: tuple[str, ...] = ()
    minutes: dict[tuple[str, Arch], int] = field(default_factory=dict)
    merged: Pull | None = None
    tried: str = ""
    retry_at: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def head(self) -> str:
        """The head that was shown last."""
        return self.promise.head if self.promise else ""


class Deeds:
    """The daemon's latest plans, oldest first, of each commit the first. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._deeds: deque[Deed] = deque(maxlen=_MOST)

    def add(self, plan: Plan) -> bool:
        """Remember a plan; says whether it is the first of its commit."""
        with self._lock:
            if any(done.commit == plan.head for done in self._deeds):
                return False
            self._deeds.append(deed(plan))
            return True

    def all(self) -> tuple[Deed, ...]:
        """All of them."""
        with self._lock:
            return tuple(self._deeds)
