"""The plan of one commit against another, or against what is recorded: offline, from Git objects alone.

Belongs here: what `reconciler plan` shows. Does not belong here: anything that needs a cluster, a secret or (unless
bases are resolved on request) the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from reconciler.core.catalogue import Catalogue
from reconciler.core.documents import BasePolicy
from reconciler.core.epoch import epoch_number
from reconciler.core.model import Arch
from reconciler.core.plan import Action, Cell, Image, Plan, PoolPlan, Reason, Target, decide
from reconciler.core.pool import Pool
from reconciler.core.status import ArchRecord, PoolRecord
from reconciler.errors import GitError
from reconciler.reconcile import baseline, cycles
from reconciler.reconcile.baseline import Baseline, Standing
from reconciler.reconcile.bases import Bases
from reconciler.reconcile.history import History, Records, Subject
from reconciler.reconcile.reasons import Reasons
from reconciler.reconcile.targets import Epochs, PoolTargets, Scope, find


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The plan of a commit, the targets of the old one, and whether an image of either uses the stage `configs`."""

    plan: Plan
    before: dict[str, PoolTargets]
    uses_configs: bool


def latest_epoch(record: PoolRecord | None) -> str:
    """The newest epoch among a pool's images."""
    return (
        max((entry.epoch for entry in record.architectures), key=epoch_number, default="") if record else ""
    )


@dataclass
class Preview:
    """Makes a plan. `bases` is None for an offline plan.

    A plan of one commit against another takes over from an earlier plan the pools that neither commit has changed since
    (`baseline`). With fewer pools than `worth`, reading them all is as quick.
    """

    history: History
    scope: Scope
    bases: Bases | None = None
    worth: int = 50
    _past: dict[tuple[str, str], bool] = field(default_factory=dict)

    def plan(self, head: str, base: str | None = None) -> Plan:
        """What `head` causes, compared with `base`, or with the status recorded at `head`.

        Raises GitError when a commit is not here.
        """
        whole = self.bases is None and not self.scope.pools
        if base is not None and whole and (plan := self._beside_baseline(head, base)):
            return plan
        catalogue = self.history.catalogue(head)
        records = self.history.records(head, catalogue.config.status_path)
        old = self.history.catalogue(base) if base is not None else None
        made = self._compare(catalogue, old, records)
        if base is not None and whole and catalogue.clean and len(catalogue.pools) >= self.worth:
            self._keep_baseline(catalogue, records, made.before)
        return made.plan

    def _beside_baseline(self, head: str, base: str) -> Plan | None:
        """The plan, of which only the pools are worked out that the last baseline does not hold for. None when there is
        no baseline, or when it cannot be told which those are."""
        last = self.history.baseline(self.scope.architectures, self.scope.fallback, self.scope.cluster)
        if last is None:
            return None
        try:
            before, after = self.history.changes(last.commit, base), self.history.changes(last.commit, head)
            past = not last.all_recorded and self._has_past(head, last.status_path)
            touched = last.touched(before, after, past=past)
            if touched is None:
                return None
            new, old = self.history.part(head, touched.paths), self.history.part(base, touched.paths)
            if not (last.defines(touched, new) and last.defines(touched, old)):
                return None
            if last.configured and (before | after) & (
                new.supply.documents.paths | old.supply.documents.paths
            ):
                return None
            records = self.history.records(head, last.status_path, touched.pools)
        except GitError:
            return None  # reading everything says what is wrong
        part = self._compare(new, old, records)
        if part.uses_configs:
            return None  # what they are made from was not all read
        pools = (*part.plan.pools, *last.others(touched))
        return replace(part.plan, pools=tuple(sorted(pools, key=lambda pool: pool.name)))

    def _keep_baseline(self, catalogue: Catalogue, records: Records, before: dict[str, PoolTargets]) -> None:
        """Keep the plan of a commit against itself. Its epochs are those that only its own tokens start."""
        epochs = Epochs(self._epochs(catalogue, records))
        found = self._found(catalogue, records, epochs, before)
        standings = tuple(
            self._standing(pool, its, catalogue) for pool, its in zip(catalogue.pools, found, strict=True)
        )
        made = Baseline(
            catalogue.commit,
            catalogue.config.status_path,
            standings,
            cycles.configured(found),
            catalogue.supply.documents.paths,
        )
        if made.is_useful:
            scope = self.scope
            self.history.keep_baseline(made, scope.architectures, scope.fallback, scope.cluster)

    def _standing(self, pool: Pool, found: PoolTargets, catalogue: Catalogue) -> Standing:
        recorded = found.record is not None
        plan = None
        if not found.errors and (
            recorded or not self._has_past(catalogue.commit, catalogue.config.status_path)
        ):
            cells = tuple(self._unchanged(found, target) for target in found.targets)
            plan = PoolPlan(found.name, found.path, cells, found.warnings)
        return Standing(*baseline.place(pool), recorded, plan)

    def _compare(self, catalogue: Catalogue, old: Catalogue | None, records: Records) -> _Comparison:
        epochs = self._epochs(catalogue, records)
        before: dict[str, PoolTargets] = {}
        if old is not None:
            before = {t.name: t for t in self._found(old, records, Epochs(epochs))}
            for name, was in before.items():
                if was.pool:
                    epochs[name] = Epochs(epochs).of(was.pool)
        after = self._found(catalogue, records, Epochs(epochs), before)
        known = {t.name for t in after}
        recorded = records.pools.keys() if old is None else before.keys()
        gone = tuple(sorted(filter(self.scope.covers, recorded - known))) if catalogue.clean else ()
        base = old.commit if old else None
        plan = Plan(
            base=base,
            head=catalogue.commit,
            pools=tuple(self._pool(catalogue, t, before.get(t.name), base) for t in after),
            removed=gone,
            errors=tuple(sorted({*catalogue.faults, *(f for t in after for f in t.errors)})),
        )
        return _Comparison(plan, before, any(t.uses_configs for t in (*after, *before.values())))

    def _found(
        self,
        catalogue: Catalogue,
        records: Records,
        epochs: Epochs,
        before: Mapping[str, PoolTargets] = MappingProxyType({}),
    ) -> list[PoolTargets]:
        """The targets of a commit."""
        return cycles.refused(find(self.history, catalogue, records.pools, self.scope, epochs, before))

    def _epochs(self, catalogue: Catalogue, records: Records) -> dict[str, str]:
        """The epoch that each pool had last."""
        names = {pool.name for pool in catalogue.pools} | records.pools.keys()
        return {name: latest_epoch(self._last(catalogue, name, records)) for name in names}

    def _last(self, catalogue: Catalogue, name: str, records: Records) -> PoolRecord | None:
        """A pool's record, or the last one it had."""
        head, status_path = catalogue.commit, catalogue.config.status_path
        if name in records.pools or not self._has_past(head, status_path):
            return records.pools.get(name)
        return next(self.history.earlier(head, status_path, name), None)

    def _has_past(self, head: str, status_path: str) -> bool:
        """Whether any status file was ever committed: before the first there is nothing to ask about each pool."""
        folder = self.history.path(status_path)
        if (head, folder) not in self._past:
            self._past[head, folder] = bool(self.history.objects.history(head, folder))
        return self._past[head, folder]

    def _pool(
        self, catalogue: Catalogue, after: PoolTargets, before: PoolTargets | None, base: str | None
    ) -> PoolPlan:
        cells = [self._cell(catalogue, after, target, before, base) for target in after.targets]
        wanted = {target.arch for target in after.targets}
        former = before.targets if base is not None and before else ()
        leaving = {t.arch for t in former} if base is not None else set()
        if base is None and after.record:
            leaving = {entry.arch for entry in after.record.architectures}
        cells += [
            Cell(arch, Action.DROP, (Reason("architectures", "removed", "the pool no longer has it"),))
            for arch in sorted(leaving - wanted)
            if wanted
        ]
        return PoolPlan(after.name, after.path, tuple(cells), after.warnings)

    def _cell(
        self,
        catalogue: Catalogue,
        after: PoolTargets,
        target: Target,
        before: PoolTargets | None,
        base: str | None,
    ) -> Cell:
        if after is before and target.inputs and self.bases is None:
            return self._unchanged(after, target)
        old = self._version_before(after, before, target.arch, base)
        target = self._resolved(target)
        locked = after.pool is not None and after.pool.definition.bases is BasePolicy.LOCKED
        action, image = decide(target, self._images(catalogue, after, target.arch, old, base), locked=locked)
        return Cell(
            target.arch,
            action,
            self._reasons(after, target, action, old),
            target.definition,
            old.inputs.definition if old else None,
            target.input,
            (image.image or None) if image else None,
        )

    def _unchanged(self, after: PoolTargets, target: Target) -> Cell:
        """A cell of a pool in which this change touches nothing: most of them, so it takes the short way."""
        recorded, definition = arch_record(after.record, target.arch), target.definition
        image = recorded.image if recorded and recorded.definition == definition else None
        return Cell(target.arch, Action.REUSE, (), definition, definition, None, image)

    def _resolved(self, target: Target) -> Target:
        if self.bases is None or target.inputs is None:
            return target
        return self.bases.resolve(target)

    def _version_before(
        self, after: PoolTargets, before: PoolTargets | None, arch: Arch, base: str | None
    ) -> Subject | None:
        """The version that this one is compared with."""
        if base is not None:
            was = next((t for t in before.targets if t.arch == arch), None) if before else None
            return Subject(before.pool, was.inputs) if before and before.pool and was and was.inputs else None
        entry = arch_record(after.record, arch)
        return self._read_again(entry, after.name) if entry else None

    def _images(
        self, catalogue: Catalogue, after: PoolTargets, arch: Arch, old: Subject | None, base: str | None
    ) -> Iterator[Image]:
        recorded = arch_record(after.record, arch)
        if base is not None and old is not None:
            # What the base asks for is built, or is being built: this change does not cause it.
            image = recorded.image if recorded and recorded.definition == old.inputs.definition else ""
            resolved = recorded.bases if recorded and image else None
            yield Image(
                image,
                old.inputs.definition,
                old.inputs.input(resolved) if resolved is not None else None,
                "base",
            )
        elif recorded and after.record:
            yield from self._image(after.record, recorded, "status")
        try:
            for record in self.history.earlier(catalogue.commit, catalogue.config.status_path, after.name):
                entry = arch_record(record, arch)
                if entry:
                    yield from self._image(record, entry, "history")
        except GitError:
            return  # a shallow clone has no history to reuse from

    def _image(self, record: PoolRecord, entry: ArchRecord, origin: str) -> Iterator[Image]:
        if record.engine == self.history.engine.version:
            yield Image(entry.image, entry.definition, entry.input, origin)
            return
        found = self._read_again(entry, record.pool)
        if found:
            yield Image(entry.image, found.inputs.definition, found.inputs.input(entry.bases), origin)

    def _read_again(self, entry: ArchRecord, name: str) -> Subject | None:
        return self.history.read_again(name, entry.arch, entry.source_commit, entry.epoch)

    def _reasons(
        self,
        after: PoolTargets,
        target: Target,
        action: Action,
        old: Subject | None,
    ) -> tuple[Reason, ...]:
        if action is Action.BLOCKED or target.inputs is None or after.pool is None:
            return target.obstacles
        new, reasons = Subject(after.pool, target.inputs), Reasons(self.history)
        if action is Action.REUSE:
            return reasons.to_reuse(old, new, (t.arch for t in after.targets))
        entry = arch_record(after.record, target.arch)
        return reasons.to_build(old, new, entry.bases if entry else (), target.bases or ())


def arch_record(record: PoolRecord | None, arch: Arch) -> ArchRecord | None:
    """A record's entry for one architecture."""
    return next((e for e in record.architectures if e.arch == arch), None) if record else None
