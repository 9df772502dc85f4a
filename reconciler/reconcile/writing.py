"""The writing half of a pass: indexes, one commit, and tags, in the order of DESIGN §7.

Belongs here: what is written where, and stopping when the branch moved. Does not belong here: deciding what to build.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.core.plan import Action, Cell
from reconciler.core.pool import Pool
from reconciler.core.status import PoolRecord
from reconciler.errors import GitError, ReconcilerError
from reconciler.ports import PushOutcome
from reconciler.reconcile import record as recording
from reconciler.reconcile.isolation import Isolated
from reconciler.reconcile.manifests import differing
from reconciler.reconcile.planning import Planning, World
from reconciler.reconcile.publish import move_tag, publish


@dataclass(frozen=True, slots=True)
class Ready:
    """One pool that has all its images, with its index published: the record as it is and as it should be."""

    pool: Pool
    old: PoolRecord | None
    new: PoolRecord


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: the commit ('' for none), the records in it, and the pools whose tag was moved.

    `overtaken` says that the branch moved meanwhile, so that nothing was written.
    """

    commit: str = ""
    records: tuple[PoolRecord, ...] = ()
    tagged: tuple[str, ...] = ()
    overtaken: bool = False


class Writing:
    """Writes what a plan has ready. `problems` are what could not be written; each pool has its own."""

    def __init__(self, world: World, planning: Planning) -> None:
        self._world = world
        self._planning = planning
        self.problems: list[ReconcilerError] = []

    def publish(self) -> list[Ready]:
        """The index of every pool that has all its images. All or nothing for each pool."""
        pools = self._planning.pools()
        found = []
        for planned in self._planning.plan.pools:
            live = [cell for cell in planned.cells if cell.action is not Action.DROP]
            if planned.name in pools and live and all(cell.action is Action.REUSE for cell in live):
                with Isolated(planned.name, self.problems):
                    found.append(self._publish(pools[planned.name], live))
        return found

    def record(self, ready: list[Ready]) -> Written:
        """Commit what changed; then move tags to what the branch's tip says now.

        Raises GitUnavailable. A branch that takes no commit is a problem, and the tags of what it did not take stay.
        """
        place, repository = self._world.place, self._world.repository
        manifests = differing(self._world, self._planning, (one.new for one in ready))
        changed = [one for one in ready if one.new != one.old or one.pool.name in manifests]
        commit = ""
        if changed:
            if repository.head(place.source) != self._planning.head:
                return Written(overtaken=True)
            commit = self._commit(changed, dict(manifests.values()))
            result = repository.push(place.write_branch, commit)
            if result.outcome is PushOutcome.MOVED:
                return Written(overtaken=True)
            if result.outcome is PushOutcome.REFUSED:
                problem = f"{place.write_branch} does not take the status commit: {result.message}"
                hint = "let the reconciler push to this branch, or set writeBack.branch to one it may push to"
                self.problems.append(GitError(problem, hint=hint))
                ready = [one for one in ready if one.new == one.old]
                commit, changed = "", []
        return Written(commit, tuple(one.new for one in changed), tuple(self._move_tags(ready)))

    def _publish(self, pool: Pool, cells: list[Cell]) -> Ready:
        planning = self._planning
        chosen = {cell.arch: planning.chosen[pool.name, cell.arch] for cell in cells}
        repository = pool.definition.push.repository
        wanted = ((arch, image.image) for arch, image in chosen.items())
        index = publish(self._world.registry, repository, wanted, self._world.seen)
        old = planning.records.pools.get(pool.name)
        source = self._source(pool, index, old)
        instance = self._world.place.instance
        new = recording.compose(pool.name, instance, index, source, chosen, planning.images)
        if old and old.engine != new.engine and recording.same_images(old, new):
            new = old  # believed as it is; a new engine alone is no reason to write
        return Ready(pool, old, new)

    def _source(self, pool: Pool, index: str, old: PoolRecord | None) -> str:
        """The commit that led to an index. What a record says of that is believed when its history was looked at."""
        planning, known = self._planning, self._world.seen.records
        if old is not None and old.image == index and known.get(old):
            return old.source_commit
        earlier = self._world.history.earlier(planning.tip, planning.status_path, pool.name)
        source = recording.commit_that_led_to(index, earlier, planning.source)
        if old is not None and (old.image, old.source_commit) == (index, source):
            known[old] = True
        return source

    def _commit(self, changed: list[Ready], manifests: Mapping[str, bytes]) -> str:
        planning, place, repository = self._planning, self._world.place, self._world.repository
        paths = {one.pool.name: planning.record_path(one.pool.name) for one in changed}
        return repository.commit(
            planning.tip,
            {**recording.files(paths, (one.new for one in changed)), **manifests},
            recording.message(
                [(one.old, one.new) for one in changed], planning.source, place.instance, place.message
            ),
            repository.committed_at(planning.source),
        )

    def _move_tags(self, ready: Iterable[Ready]) -> Iterable[str]:
        for one in ready:
            push, moved = one.pool.definition.push, False
            with Isolated(one.pool.name, self.problems):
                moved = move_tag(self._world.registry, push.repository, push.tag, one.new.image)
            if moved:
                yield one.pool.name
