"""What a pass wants to know of the cluster, from its nodes and pools.

Belongs here: making an observation, and saying when it would be another one. Does not belong here: following changes
(`watching`), who is in which pool (`pools`), and writing (`recording`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Final

from reconciler.adapters.cluster import nodes, pools
from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.cluster.kinds import CONFIG_MAPS, MACHINE_CONFIG_POOLS, NODES
from reconciler.adapters.cluster.listing import Snapshot, snapshot
from reconciler.adapters.cluster.nodes import ARCH_LABEL, Node, Placement
from reconciler.adapters.cluster.parts import mapping
from reconciler.adapters.cluster.pools import Pool
from reconciler.adapters.cluster.problems import printable
from reconciler.adapters.cluster.recording import Recorder
from reconciler.adapters.cluster.watching import USUAL, Timing, Watch
from reconciler.core.model import Arch, ImageRef
from reconciler.ports import Clock
from reconciler.ports.cluster import Observation, PoolNodes, ReleaseImages
from reconciler.settings import JobSettings

_ANYWHERE: Final = JobSettings()
RELEASE_IMAGES: Final = "machine-config-osimageurl"
"""The ConfigMap that a release's operator reads its images from; `pkg/operator/sync.go`, getOsImageURLs."""
OPERATOR_NAMESPACE: Final = "openshift-machine-config-operator"
_MOST_NAMES: Final = 5
"""Nodes that one warning names."""


class ClusterObserver:
    """Implements `ports.cluster.Cluster`. `job` says where builds may run; `namespace` is where the ConfigMap is;
    `on_observe` is called whenever somebody looks, which is how a pass begins; `placement` says where builds may run
    when it is not the Jobs that decide, and raises as `observe`.

    Correct without `start`, which only makes it quicker and lets it call. For any thread.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        clock: Clock,
        job: JobSettings = _ANYWHERE,
        timing: Timing = USUAL,
        on_observe: Callable[[], None] = lambda: None,
        placement: Callable[[], Placement] | None = None,
    ) -> None:
        self._api = api
        usual = Placement.of_jobs(job)
        self._ask_placement = placement or (lambda: usual)
        self._on_observe = on_observe
        self._recorder = Recorder(api, namespace, clock)
        self._on_change: Callable[[], None] = lambda: None
        self._nodes = Watch(api, NODES, nodes.read, self._changed, timing)
        self._pools = Watch(api, MACHINE_CONFIG_POOLS, pools.read, self._changed, timing)
        self._lock = Lock()
        self._last: Observation | None = None
        self._images = ReleaseImages()
        self._placement = None if placement else usual

    def start(self, on_change: Callable[[], None]) -> None:
        """Watch from now on; `on_change` is called, by another thread, when `observe` would say something else than
        it last did. It must be quick."""
        self._on_change = on_change
        self._nodes.start()
        self._pools.start()

    def close(self) -> None:
        """End the watches, within seconds. Safe to repeat, and without `start`."""
        for watch in (self._nodes, self._pools):
            watch.end()
        for watch in (self._nodes, self._pools):
            watch.close()

    def observe(self) -> Observation:
        """How it is now. Raises ClusterUnavailable, ClusterError."""
        self._on_observe()
        placement = self._ask_placement()
        machines = self._nodes.snapshot() or snapshot(self._api, NODES, nodes.read)
        groups = self._pools.snapshot() or snapshot(self._api, MACHINE_CONFIG_POOLS, pools.read)
        observation = observed(machines, groups, placement)
        with self._lock:
            self._last, self._placement = observation, placement
        return observation

    def glance(self) -> Observation | None:
        """As observed last, without asking anybody; None when nobody has observed yet."""
        with self._lock:
            return self._last

    def release_images(self) -> ReleaseImages:
        """What the Machine Config Operator's ConfigMap says; what is no image there counts as nothing. Raises
        ClusterUnavailable, ClusterError."""
        data = mapping(self._api.get(CONFIG_MAPS, RELEASE_IMAGES, OPERATOR_NAMESPACE), "data")
        found = ReleaseImages(
            _image(data.get("baseOSContainerImage")), _image(data.get("baseOSExtensionsContainerImage"))
        )
        with self._lock:
            self._images = found
        return found

    @property
    def images(self) -> ReleaseImages:
        """The cluster's own images as they were asked for last, by whoever needed them."""
        with self._lock:
            return self._images

    def takes_jobs(self) -> frozenset[Arch]:
        """The architectures that have a node which a build could run on, as observed last; asks only if nobody has
        observed yet. Raises ClusterUnavailable, ClusterError."""
        with self._lock:
            last = self._last
        return (last or self.observe()).takes_jobs

    def record(self, observation: Observation) -> None:
        """Write the architectures of each pool where jobs and people can read them, if they are not there yet.
        Raises ClusterUnavailable, ClusterError, Conflict."""
        self._recorder.record(observation)

    def _changed(self) -> None:
        """Something that is watched changed; tell only when it makes a difference."""
        machines, groups = self._nodes.snapshot(), self._pools.snapshot()
        with self._lock:
            placement = self._placement
        if machines is None or groups is None:
            return
        if placement is None:  # nobody has looked yet, to whom this could be another thing
            self._on_change()
            return
        observation = observed(machines, groups, placement)
        with self._lock:
            if observation == self._last:
                return
            self._last = observation
        self._on_change()


def _image(text: object) -> str:
    try:
        return str(ImageRef.parse(text)) if isinstance(text, str) else ""
    except ValueError:
        return ""


def observed(machines: Snapshot[Node], groups: Snapshot[Pool], placement: Placement) -> Observation:
    """What these nodes and pools come to."""
    everybody = [machines.items[name] for name in sorted(machines.items)]
    of_pools = groups.items.values()
    found = pools.members(of_pools, everybody) if groups.known else pools.members_by_role(everybody)
    taking = (node.takes_jobs(placement) for node in everybody)
    warnings = [
        *_about_pools(of_pools, found.disputed),
        *_about_nodes(node for members in found.nodes.values() for node in members),
        *_about_labels(everybody),
    ]
    return Observation(
        pools={name: _pool(members, groups.items.get(name)) for name, members in found.nodes.items()},
        takes_jobs=frozenset(arch for arch in taking if arch is not None),
        warnings=tuple(warnings),
    )


def _pool(members: Sequence[Node], pool: Pool | None) -> PoolNodes:
    present = {node.arch for node in members}
    architectures = tuple(arch for arch in Arch if arch in present)
    if pool is None:
        return PoolNodes(architectures)
    return PoolNodes(architectures, pool.suspended, pool.requested)


def _about_pools(found: Iterable[Pool], disputed: Mapping[str, Sequence[str]]) -> list[str]:
    faults = [
        f"the nodeSelector of MachineConfigPool {pool.name} {pool.fault}, so it takes no node"
        for pool in sorted(found, key=lambda pool: pool.name)
        if pool.fault
    ]
    claims: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for node, names in disputed.items():
        claims[tuple(names)].append(node)
    return faults + [
        f"{_named(claims[names])} claimed by several MachineConfigPools ({', '.join(names)}), and so in none"
        for names in sorted(claims)
    ]


def _about_nodes(members: Iterable[Node]) -> list[str]:
    unknown: dict[str, set[str]] = defaultdict(set)
    for node in members:
        if node.arch is None:
            unknown[node.architecture].add(node.name)
    return [
        f"{_named(sorted(unknown[written]))} of the architecture {printable(written)!r}, which is not known here"
        if written
        else f"{_named(sorted(unknown[written]))} in a pool, and do not say yet of which architecture"
        for written in sorted(unknown)
    ]


def _about_labels(everybody: Iterable[Node]) -> list[str]:
    wrong: dict[tuple[str, str], list[str]] = defaultdict(list)
    for node in everybody:
        if node.mislabelled:
            wrong[node.labels[ARCH_LABEL], str(node.arch)].append(node.name)
    return [
        f"{_named(wrong[label, arch])} labelled {ARCH_LABEL}={label}, but are {arch}: no build is sent there"
        for label, arch in sorted(wrong)
    ]


def _named(names: Sequence[str]) -> str:
    """The subject of a sentence about nodes, with its verb's plural."""
    shown = ", ".join(names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"nodes {shown}{more} are"
