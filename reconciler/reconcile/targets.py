"""What a commit asks for: for each pool its architectures, epoch and inputs, or why they cannot be known.

Belongs here: everything that the preview and the daemon must see alike, before the world comes in.
Does not belong here: bases, images, nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from reconciler.core.catalogue import Catalogue
from reconciler.core.containerfile import ASSUMED
from reconciler.core.documents import RepositoryConfig
from reconciler.core.epoch import next_epoch
from reconciler.core.inputs import Inputs, canonical_json, digest_of
from reconciler.core.model import Arch, ImageRef
from reconciler.core.plan import Reason, Target
from reconciler.core.pool import Pool
from reconciler.core.status import PoolRecord
from reconciler.errors import Fault, Interrupted, InvalidInput, ReconcilerError
from reconciler.ports.cluster import PoolNodes
from reconciler.reconcile.history import History
from reconciler.reconcile.isolation import defect


@dataclass(frozen=True, slots=True)
class PoolTargets:
    """One pool's targets. `pool` is None when its definition cannot be read; then every target is an obstacle."""

    name: str
    path: str
    pool: Pool | None
    record: PoolRecord | None
    targets: tuple[Target, ...]
    warnings: tuple[Fault, ...] = ()
    errors: tuple[Fault, ...] = ()
    config: RepositoryConfig | None = None
    uses_configs: bool = False
    """Whether any of them is built with the stage `configs`, or may be."""
    asks_cluster: bool = False
    """Whether the images of that stage are not all named in Git."""

    def same_as(self, pool: Pool, catalogue: Catalogue) -> bool:
        """Whether a pool of another commit, read with that commit's configuration, has these very targets."""
        return (
            self.pool is not None
            and self.pool.fingerprint == pool.fingerprint
            and self.config == catalogue.config
            and not self.uses_configs  # what those are depends on files anywhere
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """Which part of a commit is looked at: `architectures` overrides all definitions; `fallback` is used where
    nothing else names any; no `pools` means all. `nodes` is what a cluster says of its pools; with `keep` an
    architecture whose last node is gone is still the pool's. `os_image` and `extensions_image` are the cluster's own,
    '' where none tells."""

    architectures: tuple[Arch, ...] = ()
    fallback: tuple[Arch, ...] = ()
    pools: frozenset[str] = field(default_factory=frozenset)
    nodes: Mapping[str, PoolNodes] = field(default_factory=dict)
    keep: bool = True
    os_image: str = ""
    extensions_image: str = ""

    def present(self, pool: str) -> tuple[Arch, ...]:
        """The architectures of a pool's nodes; empty when it has none, or when no cluster tells."""
        return self.nodes[pool].architectures if pool in self.nodes else ()

    def suspends(self, pool: str) -> bool:
        """Whether the cluster's pool is marked as suspended."""
        return pool in self.nodes and self.nodes[pool].suspended

    @property
    def cluster(self) -> str:
        """All that a cluster says, and what follows from it, as one text; '' when none tells anything."""
        if not (self.nodes or self.os_image or self.extensions_image):
            return ""
        pools = [[name, [*of.architectures], of.suspended] for name, of in sorted(self.nodes.items())]
        told = [pools, self.keep, self.os_image, self.extensions_image]
        return digest_of(canonical_json(told))

    def covers(self, pool: str) -> bool:
        """Whether a pool is looked at."""
        return not self.pools or pool in self.pools


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epoch that each pool had last, by name, and the slot of the repository's schedule ('' offline: schedules
    are the world's)."""

    last: Mapping[str, str]
    slot: str = ""

    def of(self, pool: Pool) -> str:
        """The epoch that a pool's definition asks for."""
        return next_epoch(self.last.get(pool.name, ""), pool.definition.refresh, self.slot)


def find(
    history: History,
    catalogue: Catalogue,
    records: Mapping[str, PoolRecord],
    scope: Scope,
    epochs: Epochs,
    before: Mapping[str, PoolTargets] = MappingProxyType({}),
) -> list[PoolTargets]:
    """The targets of every pool in scope, by name.

    `before` are the targets of the commit that is compared with, found with the same records. A pool whose files are
    as they were then has the same targets; and as long as a file cannot be read, it may be the one that defines a pool
    that was there.
    """
    found = []
    sound = {pool.name: pool for pool in catalogue.pools}
    names = sound.keys() | catalogue.broken.keys()
    if catalogue.doubts:
        names |= records.keys() | before.keys()
    for name in sorted(filter(scope.covers, names)):
        record = records.get(name)
        doubts = catalogue.doubts_about(name)
        pool = sound.get(name)
        if pool is None or doubts:
            faults = catalogue.broken.get(name, ()) + doubts
            found.append(_obstructed(name, pool, record, faults, catalogue, scope))
        elif name in before and before[name].same_as(pool, catalogue):
            found.append(before[name])
        else:
            try:
                found.append(_targets(history, pool, record, catalogue, scope, epochs.of(pool)))
            except (ReconcilerError, Interrupted):
                raise
            except Exception as error:  # one pool that we cannot cope with must never stop the others
                bug = defect(name, error)
                fault = Fault(pool.definition.path, pool.definition.line, bug.message, bug.hint)
                obstructed = _obstructed(name, pool, record, (fault,), catalogue, scope)
                found.append(replace(obstructed, errors=(fault,)))
    return found


def architectures(
    pool: Pool | None, record: PoolRecord | None, catalogue: Catalogue, scope: Scope
) -> tuple[Arch, ...]:
    """The architectures of a pool, in the enum's order: the override, else the definition's own, else those of its
    nodes, else the repository's, else the daemon's, else those recorded. Empty when nobody says."""
    recorded = tuple(entry.arch for entry in record.architectures) if record else ()
    own = pool.definition.architectures if pool else None
    present = scope.present(pool.name) if pool else ()
    if present and scope.keep:
        present += recorded
    chosen = (
        scope.architectures or own or present or catalogue.config.architectures or scope.fallback or recorded
    )
    return tuple(arch for arch in Arch if arch in chosen)


def _targets(
    history: History,
    pool: Pool,
    record: PoolRecord | None,
    catalogue: Catalogue,
    scope: Scope,
    epoch: str,
) -> PoolTargets:
    place = pool.definition.path, pool.definition.line
    if pool.definition.suspended or scope.suspends(pool.name):
        where = "" if pool.definition.suspended else " by its MachineConfigPool"
        notice = Fault(*place, f"pool {pool.name} is suspended{where}: nothing is built or published for it")
        return PoolTargets(pool.name, place[0], pool, record, (), warnings=(notice,))
    wanted = architectures(pool, record, catalogue, scope)
    if not wanted:
        fault = Fault(
            *place,
            f"nothing says which architectures pool {pool.name} has",
            "name them in reconciler.yaml (architectures: [amd64, arm64]), in the annotation "
            "reconciler.machineos.dev/architectures, or with --arch",
        )
        return PoolTargets(pool.name, place[0], pool, record, (), errors=(fault,))
    found = [_target(history, pool, arch, epoch, scope) for arch in wanted]
    known = [one.target.inputs for one in found if one.target.inputs]
    return PoolTargets(
        pool.name,
        place[0],
        pool,
        record,
        tuple(one.target for one in found),
        tuple(sorted({fault for inputs in known for fault in inputs.warnings})),
        tuple(sorted({fault for one in found for fault in one.faults})),
        catalogue.config,
        any(one.uses_configs for one in found),
        any(one.asks_cluster for one in found),
    )


@dataclass(frozen=True, slots=True)
class _One:
    """One target and the faults that keep it from being known; the rest is as in `PoolTargets`."""

    target: Target
    faults: tuple[Fault, ...] = ()
    uses_configs: bool = False
    asks_cluster: bool = False


def _target(history: History, pool: Pool, arch: Arch, epoch: str, scope: Scope) -> _One:
    try:
        inputs = history.inputs(pool, arch, epoch)
    except InvalidInput as error:
        blocked = Target(pool.name, arch, None, obstacles=obstacles(error.faults))
        return _One(blocked, error.faults, history.uses_configs(pool, arch))
    content = inputs.configs
    if content is None:
        return _One(Target(pool.name, arch, inputs))
    asks = content.base is None or (content.wants_extensions and content.extensions_image is None)
    found = supplied(Target(pool.name, arch, inputs), scope.os_image, scope.extensions_image)
    faults = (*not_supplied(pool, found), *standing_for_programs(inputs))
    if faults:
        ingredient = tuple(replace(one, ingredient="machineConfig") for one in obstacles(faults))
        found = Target(pool.name, arch, None, obstacles=ingredient)
    return _One(found, faults, True, asks)


def supplied(target: Target, os_image: str, extensions_image: str) -> Target:
    """The target with the images of its stage `configs`: those that Git names, else these."""
    assert target.inputs is not None
    content = target.inputs.configs
    if content is None:
        return target
    own = extensions_image if content.wants_extensions else ""
    return replace(
        target,
        os_image=_name(content.base) or os_image,
        extensions_image=_name(content.extensions_image) or own,
    )


def _name(image: ImageRef | None) -> str:
    """As builders find it: a digest says all that a tag beside it could."""
    if image is None:
        return ""
    return f"{image.repository}@{image.digest}" if image.digest else str(image)


def not_supplied(pool: Pool, target: Target) -> tuple[Fault, ...]:
    """The fault of a target whose stage `configs` has no image to be made from."""
    if target.os_image or target.inputs is None or target.inputs.configs is None:
        return ()
    problem = "FROM configs: nothing says which base OS image to start from"
    hint = (
        "set osImageURL in a MachineConfig of this pool, or baseImage in reconciler.yaml; a daemon with access to a "
        "cluster also takes that of its ConfigMap machine-config-osimageurl"
    )
    return (Fault(*_place(pool, target.arch), problem, hint),)


def standing_for_programs(inputs: Inputs) -> tuple[Fault, ...]:
    """Faults of MachineConfigs that change how a RUN is read, if any was looked into."""
    if inputs.configs is None or not set(ASSUMED) <= set(inputs.analysis.assumes):
        return ()
    return tuple(inputs.configs.replaced())


def _place(pool: Pool, arch: Arch) -> tuple[str, int]:
    source = pool.source(arch)
    return (source.path, source.line) if source else (pool.definition.path, pool.definition.line)


def _obstructed(
    name: str,
    pool: Pool | None,
    record: PoolRecord | None,
    faults: tuple[Fault, ...],
    catalogue: Catalogue,
    scope: Scope,
) -> PoolTargets:
    reasons = obstacles(faults)
    return PoolTargets(
        name,
        pool.definition.path if pool else faults[0].path,
        None,
        record,
        tuple(
            Target(name, arch, None, obstacles=reasons)
            for arch in architectures(pool, record, catalogue, scope)
        ),
    )


def obstacles(faults: Iterable[Fault]) -> tuple[Reason, ...]:
    """Faults as reasons for not building."""
    return tuple(
        Reason("definition", "invalid", f.message + (f" ({f.hint})" if f.hint else ""), f.path, f.line)
        for f in faults
    )
