"""The ends of builds, as the log and the metrics hear of them.

Belongs here: telling of each end once. Does not belong here: what an end leads to.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from reconciler.daemon.observer import Observer
from reconciler.ports import Build

_LOG: Final = logging.getLogger(__name__)


class Endings:
    """Of one repository's builds. Remembers those that it told of, for as long as the builder knows them."""

    def __init__(self, repository: str, observer: Observer) -> None:
        self._repository = repository
        self._observer = observer
        self._told: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self._told)

    def tell(self, builds: Collection[Build]) -> None:
        """These are all builds that there are."""
        ended = [build for build in builds if build.ended]
        for build in ended:
            if build.name not in self._told:
                self._tell(build)
        self._told = frozenset(build.name for build in ended)

    def forget(self, names: Collection[str]) -> None:
        """Nobody knows of these builds any more. They may come again under their old names, and end again."""
        self._told = self._told.difference(names)

    def _tell(self, build: Build) -> None:
        seconds = max(0.0, build.finished - build.started) if build.started else 0.0
        outcome = build.cause.value if build.cause else "succeeded"
        self._observer.built(build.pool, build.arch.value, seconds, outcome)
        fields = {
            "repository": self._repository,
            "pool": build.pool,
            "arch": build.arch.value,
            "build": build.name,
            "seconds": round(seconds, 1),
        }
        if build.cause:
            _LOG.warning(
                "build failed: %s", build.message, extra={**fields, "cause": outcome, "file": build.log}
            )
        else:
            _LOG.info("built", extra=fields)
