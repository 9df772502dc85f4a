"""The read-only half of a pass: what a commit asks for, what exists, and the plan that follows.

Belongs here: one view of the world, taken once. Does not belong here: anything that changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice

from reconciler.core.documents import BasePolicy
from reconciler.core.epoch import slot
from reconciler.core.model import Arch
from reconciler.core.plan import Action, Cell, Image, Plan, PoolPlan, Reason, Target, decide
from reconciler.core.pool import Pool
from reconciler.core.status import PoolRecord
from reconciler.errors import (
    ClusterError,
    ClusterUnavailable,
    Disposition,
    Fault,
    GitError,
    ReconcilerError,
)
from reconciler.ports import Builder, Clock, Registry, Repository
from reconciler.ports.cluster import Cluster, Delivery, Observation, Reporter, Rollouts
from reconciler.ports.forge import Proposals
from reconciler.reconcile import cycles, pending
from reconciler.reconcile.bases import Bases
from reconciler.reconcile.history import History, Subject
from reconciler.reconcile.images import Images, Origin
from reconciler.reconcile.isolation import Isolated
from reconciler.reconcile.pending import Pending
from reconciler.reconcile.preview import arch_record, latest_epoch
from reconciler.reconcile.reasons import Reasons
from reconciler.reconcile.seen import Seen
from reconciler.reconcile.targets import Epochs, PoolTargets, Scope, find
from reconciler.reconcile.trust import Trust


@dataclass(frozen=True, slots=True)
class Place:
    """Which revision and folder are reconciled, and the branch that the status goes to."""

    source: str
    write_branch: str
    folder: str = ""
    instance: str = "default"
    message: str = ""
    """The subject of commits, as a template; '' for the usual one."""
    manifests: str = ""
    """The folder below the status path that manifests for another GitOps tool go to; '' for none."""
    proposal: str = ""
    """The branch that pull requests into the write-back branch come from; '' for committing to that itself."""


@dataclass(frozen=True, slots=True)
class World:
    """What a pass works with: the ports, the repository's history, and where to look in it."""

    repository: Repository
    registry: Registry
    builder: Builder
    clock: Clock
    history: History
    place: Place
    scope: Scope
    trust: Trust | None = None
    seen: Seen = field(default_factory=Seen)
    cluster: Cluster | None = None
    reporters: tuple[Reporter, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    """Those of the reporters that can say what is shown otherwise."""
    rollouts: Rollouts | None = None
    rolls_out: bool = False
    """Whether nodes are to run what is delivered: by a MachineConfig of ours, or by another GitOps tool's."""
    staging: str = ""
    """Where single images are built to, '' for each pool's own repository."""
    forge: Proposals | None = None
    """Where pull requests are opened, for a place that has a branch for them."""


_MOST_VERSIONS = 10
"""Versions of a status file that are looked through for one that is believed."""
_STALE = Reason(
    "architectures",
    "missing",
    "the pool has no node of it any more: its image stays as it is, and is built when there is one again",
)
_LOST = Reason(
    "architectures", "removed", "the pool has no node of it any more, and the image that it had is gone"
)


class Planning:
    """The plan of one pass, and what it rests on.

    `head` is the commit planned for, `source` the last one up to it that was not ours, `tip` the one whose status files
    count; `pending` is what waits to be merged into that. `targets` and `chosen` hold each cell's target and, where one
    is reused, its image; `pools` are those that can be read, by name. `problems` are what could not be asked; `heads`
    are the commits that it rests on, by revision; `observation` is the cluster.
    """

    def __init__(self, world: World, head: str) -> None:
        """Raises what concerns the repository as a whole: GitUnavailable and its kin, UnverifiedCommit,
        ClusterUnavailable and its kin."""
        self._world = world
        self.head = head
        self.catalogue = world.history.catalogue(head)
        status_folder = world.history.path(self.status_path)
        self.source = world.history.authored(head, status_folder)
        if world.trust:
            world.trust.check(self.source, status_folder, world.place.folder)
        self.heads = {world.place.source: head}
        self.tip = self._write_tip()
        self.records = world.history.records(self.tip, self.status_path)
        self.problems: list[ReconcilerError] = []
        self._refused: tuple[Fault, ...] = ()
        self.pending = self._pending()
        self.images = Images(world.registry, world.history, world.seen, world.staging)
        self.observation = world.cluster.observe() if world.cluster else Observation()
        self._scope = replace(world.scope, nodes=self.observation.pools)
        self.targets: dict[tuple[str, Arch], Target] = {}
        self.chosen: dict[tuple[str, Arch], Image] = {}
        self._bases = Bases(world.registry)
        self._reasons = Reasons(world.history)
        self._origin = Origin(self.tip, self.status_path, head)
        self.wanted = self._find()
        self.pools = {wanted.name: wanted.pool for wanted in self.wanted if wanted.pool}
        self.plan = self._plan()

    @property
    def status_path(self) -> str:
        """Where status files lie, below the source folder."""
        return self.catalogue.config.status_path

    def record_path(self, pool: str) -> str:
        """A pool's status file, as the whole repository names it."""
        return self._world.history.path(self.status_path, f"{pool}.yaml")

    def believed(self, record: PoolRecord) -> PoolRecord | None:
        """What may be delivered of a record: itself, if its index holds the images that it names and each says that it
        is this pool's; else the latest version of it of which that is true. None when there is none, or the pool is not
        sound. Raises RegistryUnavailable, RegistryError."""
        pool = self.pools.get(record.pool)
        if pool is None:
            return None
        if self.images.believed(pool, record, self._origin):
            return record
        versions = self._world.history.earlier(self.tip, self.status_path, pool.name)
        return next(
            (
                one
                for one in islice(versions, _MOST_VERSIONS)
                if one.instance == record.instance
                and self.images.believed(pool, one, self._origin, quiet=True)
            ),
            None,
        )

    def warnings(self) -> tuple[Fault, ...]:
        """Status files that cannot be read, records that were not believed, and what is odd in the cluster."""
        covers = self._world.scope.covers
        broken = [f for name, faults in self.records.broken.items() if covers(name) for f in faults]
        cluster = (Fault("cluster", 0, text) for text in self.observation.warnings)
        return tuple(dict.fromkeys((*broken, *self.images.warnings, *cluster, *self._refused)))

    def _write_tip(self) -> str:
        """The commit whose status files count. A write-back branch that is not there yet starts at the head."""
        place = self._world.place
        if place.write_branch == place.source:
            return self.head
        try:
            tip = self._world.repository.fetch(place.write_branch)
        except GitError as error:
            if error.disposition is Disposition.RETRY:
                raise
            return self.head
        self.heads[place.write_branch] = tip
        return tip

    def _pending(self) -> Pending:
        """What waits for people to merge it. When the forge cannot say that, everything else goes on."""
        place, forge = self._world.place, self._world.forge
        found = Pending(known=False)
        if forge is None or not place.proposal:
            return found
        with Isolated("pull request", self.problems):
            branches, status = (place.proposal, place.write_branch), (self.tip, self.status_path)
            found = pending.find(forge, self._world.repository, self._world.history, branches, status)
        if found.tip:
            self.heads[place.proposal] = found.tip
        return found

    def _find(self) -> list[PoolTargets]:
        """The targets of all pools. The cluster is asked for its own images only where Git does not name them all."""
        history, records, epochs = self._world.history, self.records.pools, self._epochs()
        found = find(history, self.catalogue, records, self._scope, epochs)
        if self._world.cluster and any(pool.asks_cluster for pool in found):
            try:
                images = self._world.cluster.release_images()
            except ClusterUnavailable:
                raise
            except ClusterError as error:
                self._refused = (
                    Fault("cluster", 0, f"its base OS image is not known: {error.message}", error.hint),
                )
            else:
                self._scope = replace(
                    self._scope, os_image=images.os_image, extensions_image=images.extensions_image
                )
                found = find(history, self.catalogue, records, self._scope, epochs)
        return cycles.refused(found)

    def _epochs(self) -> Epochs:
        """The epoch each pool had last: of what waits for a merge, else of its record, else of the last record it had;
        and the schedule's slot."""
        now = slot(self.catalogue.config.refresh, self._world.clock.now())
        epochs = {}
        for pool in self.catalogue.pools:
            record = self.pending.records.get(pool.name) or self.records.pools.get(pool.name)
            if record is None and (pool.definition.refresh or now):
                earlier = self._world.history.earlier(self.tip, self.status_path, pool.name)
                record = next(earlier, None)
            epochs[pool.name] = latest_epoch(record)
        return Epochs(epochs, now)

    def _plan(self) -> Plan:
        pools = []
        for wanted in self.wanted:
            with Isolated(wanted.name, self.problems):
                pools.append(self._pool(wanted))
                continue
            pools.append(_unknown(wanted, self.problems[-1]))
        gone = self.records.pools.keys() - {t.name for t in self.wanted} if self.catalogue.clean else set()
        ours = {n for n in gone if self.records.pools[n].instance == self._world.place.instance}
        return Plan(
            base=None,
            head=self.head,
            pools=tuple(pools),
            removed=tuple(sorted(filter(self._world.scope.covers, ours))),
            errors=tuple(sorted({*self.catalogue.faults, *(f for t in self.wanted for f in t.errors)})),
        )

    def _pool(self, wanted: PoolTargets) -> PoolPlan:
        cells = []
        for target in wanted.targets:
            observed = self._observed(target, wanted.pool, wanted.record) if wanted.pool else target
            self.targets[wanted.name, target.arch] = observed
            cells.append(self._cell(wanted, observed))
        asked = {target.arch for target in wanted.targets}
        recorded = {entry.arch for entry in wanted.record.architectures} if wanted.record else set()
        if wanted.pool and asked:
            gone = Reason("architectures", "removed", "the pool no longer has it")
            cells += [Cell(arch, Action.DROP, (gone,)) for arch in sorted(recorded - asked)]
        return PoolPlan(wanted.name, wanted.path, tuple(cells), wanted.warnings)

    def _observed(self, target: Target, pool: Pool, record: PoolRecord | None) -> Target:
        """A target with its bases, or with what stands in the way."""
        if target.inputs is None:
            return target
        instance = self._world.place.instance
        if record and record.instance != instance:
            problem = f"its status file belongs to instance {record.instance}, and this is {instance}"
            reason = Reason("definition", "invalid", problem, self.record_path(pool.name))
            return replace(target, obstacles=(*target.obstacles, reason))
        entry = arch_record(self.pending.records.get(pool.name) or record, target.arch)
        locked = pool.definition.bases is BasePolicy.LOCKED
        keep = entry.bases if locked and entry and entry.epoch == target.inputs.epoch else ()
        return self._bases.resolve(target, keep)

    def _cell(self, wanted: PoolTargets, target: Target) -> Cell:
        pool = wanted.pool
        if pool is None or target.inputs is None:
            return Cell(target.arch, Action.BLOCKED, target.obstacles)
        locked = pool.definition.bases is BasePolicy.LOCKED
        known = target.bases is not None
        records = [one for one in (wanted.record, self.pending.records.get(wanted.name)) if one]
        candidates = self.images.candidates(pool, target, records, self._origin) if known else ()
        action, image = decide(target, candidates, locked=locked)
        old, new = self._recorded(wanted, target.arch), Subject(pool, target.inputs)
        reasons = target.obstacles
        if action is Action.REUSE:
            reasons = self._reasons.to_reuse(old, new, (t.arch for t in wanted.targets))
        elif action is Action.BUILD:
            action, reasons = self._to_build(wanted, target, old, new)
        if action is not Action.REUSE and self._has_vanished(pool, target.arch, action):
            image = self.images.recorded(pool, wanted.record, target.arch, self._origin)
            if image:
                action, reasons = Action.REUSE, (_STALE,)
            elif target.arch not in (pool.definition.architectures or ()):
                action, reasons = Action.DROP, (_LOST,)
        if image is not None:
            self.chosen[wanted.name, target.arch] = image
        return Cell(
            target.arch,
            action,
            reasons,
            target.definition,
            old.inputs.definition if old else None,
            target.input,
            image.image if image else None,
        )

    def _to_build(
        self, wanted: PoolTargets, target: Target, old: Subject | None, new: Subject
    ) -> tuple[Action, tuple[Reason, ...]]:
        """Whether the builder can, and why it is to."""
        refusal = self._world.builder.refusal(target.arch, new.inputs.needs)
        if refusal:
            hint = f" ({refusal.hint})" if refusal.hint else ""
            source = new.pool.source(target.arch)
            place = (source.path, source.line) if source else ("", 0)
            return Action.BLOCKED, (Reason("builder", "missing", refusal.message + hint, *place),)
        entry = arch_record(wanted.record, target.arch)
        before = entry.bases if entry else ()
        return Action.BUILD, self._reasons.to_build(old, new, before, target.bases or ())

    def _has_vanished(self, pool: Pool, arch: Arch, action: Action) -> bool:
        """Whether a pool has no node of an architecture any more, so that its image waits for one; unless somebody asks
        for it by name, and it can be built elsewhere."""
        present = self._scope.present(pool.name)
        named = arch in (pool.definition.architectures or ())
        return bool(present) and arch not in present and not (named and action is Action.BUILD)

    def _recorded(self, wanted: PoolTargets, arch: Arch) -> Subject | None:
        """What the recorded image was built from, read by today's engine."""
        entry = arch_record(wanted.record, arch)
        if entry is None:
            return None
        return self._world.history.read_again(wanted.name, arch, entry.source_commit, entry.epoch)


def _unknown(wanted: PoolTargets, error: ReconcilerError) -> PoolPlan:
    """A pool whose planning itself failed: nothing is concluded from what could not be asked."""
    hint = f" ({error.hint})" if error.hint else ""
    reason = Reason("image", "missing", error.message + hint)
    cells = tuple(
        Cell(t.arch, Action.BLOCKED, t.obstacles or (reason,), t.definition) for t in wanted.targets
    )
    return PoolPlan(wanted.name, wanted.path, cells, wanted.warnings)
