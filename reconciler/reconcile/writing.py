"""The writing half of a pass: indexes, one commit, and tags, in the order of DESIGN §7.

Belongs here: what is written where, and stopping when the branch moved. Does not belong here: deciding what to build.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.core.plan import Action, Cell
from reconciler.core.pool import Pool
from reconciler.core.status import PoolRecord
from reconciler.errors import GitError, ReconcilerError
from reconciler.ports import PushOutcome
from reconciler.ports.forge import Proposals
from reconciler.reconcile import record as recording
from reconciler.reconcile.isolation import Isolated
from reconciler.reconcile.manifests import differing
from reconciler.reconcile.planning import Planning, World
from reconciler.reconcile.proposing import Proposed, Proposing
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

    `overtaken` says that the branch moved meanwhile, so that nothing was written. `proposed` is what became of a pull
    request, where one is opened instead of committing.
    """

    commit: str = ""
    records: tuple[PoolRecord, ...] = ()
    tagged: tuple[str, ...] = ()
    overtaken: bool = False
    proposed: Proposed = field(default_factory=Proposed)


class Writing:
    """Writes what a plan has ready. `problems` are what could not be written; each pool has its own."""

    def __init__(self, world: World, planning: Planning) -> None:
        self._world = world
        self._planning = planning
        self.problems: list[ReconcilerError] = []

    def publish(self) -> list[Ready]:
        """The index of every pool that has all its images. All or nothing for each pool."""
        pools = self._planning.pools
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
        if self._world.forge is not None and place.proposal:
            return self._propose(self._world.forge, ready, changed)
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
                hint = (
                    "let the reconciler push to this branch, set writeBack.pullRequest to have it open a pull request,"
                    " or set writeBack.branch to a branch that it may push to"
                )
                self.problems.append(GitError(problem, hint=hint))
                ready = [one for one in ready if one.new == one.old]
                commit, changed = "", []
        return Written(commit, tuple(one.new for one in changed), tuple(self._move_tags(ready)))

    def _propose(self, forge: Proposals, ready: list[Ready], changed: list[Ready]) -> Written:
        """Have a pull request say what changed. Tags follow what is merged, and go on doing so while a pool's next
        image is built or waits."""
        proposed = Proposed()
        with Isolated("pull request", self.problems):
            settled = {one.pool.name for one in ready}
            proposed = Proposing(self._world, self._planning, forge).bring(
                [one.new for one in changed], settled
            )
        if proposed.overtaken:
            return Written(overtaken=True)
        return Written(proposed=proposed, tagged=tuple(self._move_tags(self._merged(ready))))

    def _merged(self, ready: list[Ready]) -> Iterator[Ready]:
        """What is recorded, of pools whose tag can name that."""
        planning, known = self._planning, {one.pool.name: one for one in ready if one.new == one.old}
        planned = {pool.name for pool in planning.plan.pools if pool.cells}
        for name, pool in planning.pools.items():
            record = planning.records.pools.get(name)
            if name in known:
                yield known[name]
            elif record and name in planned and record.instance == self._world.place.instance:
                found = None
                with Isolated(name, self.problems):
                    found = planning.believed(record)
                if found and found.image.partition("@")[0] == pool.definition.push.repository:
                    yield Ready(pool, record, found)

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
        if old and old.engine != new.engine and recording.same_images(old, new) and self._as_written(old):
            new = old  # believed as it is; a new engine alone is no reason to write
        return Ready(pool, old, new)

    def _source(self, pool: Pool, index: str, old: PoolRecord | None) -> str:
        """The commit that led to an index. What a record says of that is believed when its history was looked at."""
        planning, known = self._planning, self._world.seen.records
        if old is not None and old.image == index and known.get(old):
            return old.source_commit
        pending = planning.pending.records.get(pool.name)
        if pending is not None and pending.image == index and self._led_here(pending.source_commit):
            return pending.source_commit
        earlier = self._world.history.earlier(planning.tip, planning.status_path, pool.name)
        began = recording.first_of(index, earlier)
        source = began.source_commit if began else planning.source
        if old is not None and (old.image, old.source_commit) == (index, source):
            known[old] = began is None or old.engine in (began.engine, planning.images.engine)
        return source

    def _as_written(self, old: PoolRecord) -> bool:
        """Whether nobody has edited what a record of another engine says of its commit and engine."""
        planning, known = self._planning, self._world.seen.records
        if known.get(old):
            return True
        earlier = self._world.history.earlier(planning.tip, planning.status_path, old.pool)
        began = recording.first_of(old.image, earlier)
        if began and (old.source_commit, old.engine) != (began.source_commit, began.engine):
            return False
        known[old] = True
        return True

    def _led_here(self, commit: str) -> bool:
        """Whether a commit, which a pull request names, is one that the images may follow."""
        history, objects = self._planning.source, self._world.repository
        return objects.has(commit) and objects.is_ancestor(commit, history)

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
