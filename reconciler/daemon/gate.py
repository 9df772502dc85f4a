"""Which pull requests get a preview, and how often somebody may cause one.

Belongs here: the two questions. Does not belong here: what a preview is.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from reconciler.ports.forge import Pull

_HOUR: Final = 3600.0
_MOST_AUTHORS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Gate:
    """With `forks` also pull requests from other repositories, with a `label` only those that have it."""

    forks: bool = False
    label: str = ""

    def admits(self, pull: Pull) -> bool:
        """Whether it gets a preview at all."""
        return (self.forks or not pull.is_fork) and (not self.label or self.label in pull.labels)


class Allowance:
    """So many pushes of each author in an hour. Time is in seconds that no clock change disturbs."""

    def __init__(self, per_author: int) -> None:
        self._per_author = per_author
        self._spent: OrderedDict[str, deque[float]] = OrderedDict()

    def take(self, author: str, now: float) -> bool:
        """Whether another one is allowed, which then is spent."""
        spent = self._spent.setdefault(author, deque())
        self._spent.move_to_end(author)
        while spent and now - spent[0] >= _HOUR:
            spent.popleft()
        if len(spent) >= self._per_author:
            return False
        spent.append(now)
        while len(self._spent) > _MOST_AUTHORS:
            self._spent.popitem(last=False)
        return True


@dataclass(frozen=True, slots=True)
class Rules:
    """Who gets previews and how often. In seconds: `interval` between two looks, `deadline` for one."""

    gate: Gate
    allowance: Allowance
    interval: float = 60.0
    deadline: float = 600.0
