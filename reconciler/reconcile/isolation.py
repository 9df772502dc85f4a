"""Keeping what goes wrong with one pool from the others.

Belongs here: what counts as one pool's own trouble. Does not belong here: what follows from it.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final

from reconciler.errors import Defect, Interrupted, ReconcilerError

_LOG: Final = logging.getLogger(__name__)
_LONGEST: Final = 1000


class Isolated:
    """`with Isolated(pool, problems):` puts what is raised inside into `problems`, a bug of ours too, and goes on.

    Interrupted goes through: it is about everything.
    """

    def __init__(self, pool: str, problems: list[ReconcilerError]) -> None:
        self._pool = pool
        self._problems = problems

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, ReconcilerError):
            self._problems.append(error)
        elif isinstance(error, Exception) and not isinstance(error, Interrupted):
            # One pool that we cannot cope with must never stop the others.
            self._problems.append(defect(self._pool, error))
        else:
            return False
        return True


def defect(pool: str, error: Exception) -> Defect:
    """A bug that was met while a pool was worked on, whose traceback is logged."""
    _LOG.error("pool %s met a bug", pool, exc_info=error)
    return Defect(
        f"pool {pool} met a bug of the reconciler: {type(error).__name__}: {error}"[:_LONGEST],
        hint="please report it, with the traceback from the log; the other pools go on",
    )
