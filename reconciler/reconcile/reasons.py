"""Reasons for a cell, found only when there is something to explain: most cells of most commits are as they were.

Belongs here: which versions to compare, and fetching what the comparison reads. Does not belong here: the words
(`core.explain`), and the decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reconciler.core import explain
from reconciler.core.model import Arch, Base
from reconciler.core.plan import Reason
from reconciler.core.pool import Pool
from reconciler.errors import ReconcilerError
from reconciler.reconcile.history import History, Subject


class Reasons:
    """Explains cells over one repository's history."""

    def __init__(self, history: History) -> None:
        self._history = history

    def to_build(
        self, old: Subject | None, new: Subject, before: Iterable[Base] = (), now: Iterable[Base] = ()
    ) -> tuple[Reason, ...]:
        """Why an image is built; `before` and `now` are the bases of the recorded image and today's."""
        source = new.pool.source(new.inputs.analysis.arch)
        definition = new.pool.definition
        place = (source.path, source.line) if source else (definition.path, definition.line)
        if old is None:
            return (Reason("image", "missing", "no image is recorded for it", *place),)
        found = (*self._changes(old, new), *explain.moved_bases(before, now))
        return found or (Reason("image", "missing", "its recorded image is gone or not believed", *place),)

    def to_reuse(
        self, old: Subject | None, new: Subject, architectures: Iterable[Arch]
    ) -> tuple[Reason, ...]:
        """Why an image is not built, where the definition's files changed; nothing to say where they did not."""
        if old is None:
            return ()
        if old.pool.fingerprint == new.pool.fingerprint and old.inputs.configs == new.inputs.configs:
            return ()
        if old.inputs.definition != new.inputs.definition:
            again = Reason("image", "unchanged", "the same inputs were built before")
            return (again, *(replace(reason, change="unchanged") for reason in self._changes(old, new)))
        before, after = (
            self._history.version(old.pool, old.inputs),
            self._history.version(new.pool, new.inputs),
        )
        others = tuple(architectures)
        return explain.skipped(before, after, self._users(new.pool, others), self._affected(old, new, others))

    def _changes(self, old: Subject, new: Subject) -> tuple[Reason, ...]:
        if old.inputs.definition == new.inputs.definition:
            return ()
        return explain.changes(
            self._history.version(old.pool, old.inputs), self._history.version(new.pool, new.inputs)
        )

    def _affected(self, old: Subject, new: Subject, architectures: Iterable[Arch]) -> set[Arch]:
        """The architectures that share the new text, and whose inputs changed from the old pool to the new."""
        source = new.pool.source(new.inputs.analysis.arch)
        found = set()
        for arch in architectures:
            try:
                before = self._history.inputs(old.pool, arch, old.inputs.epoch)
                after = self._history.inputs(new.pool, arch, new.inputs.epoch)
            except ReconcilerError:
                continue
            if new.pool.source(arch) == source and before.definition != after.definition:
                found.add(arch)
        return found

    def _users(self, pool: Pool, architectures: Iterable[Arch]) -> dict[str, set[Arch]]:
        """Which architectures of a pool copy each context file."""
        users: dict[str, set[Arch]] = {}
        for arch in architectures:
            try:
                recipe = self._history.recipe(pool, arch)
            except ReconcilerError:
                continue  # this architecture cannot be built, and says so in its own cell
            for entry in recipe.context:
                users.setdefault(entry.path, set()).add(arch)
        return users
