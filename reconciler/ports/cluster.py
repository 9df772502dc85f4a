"""What is asked of a Kubernetes cluster, as Protocols, and the values that cross these borders.

Belongs here: the API in raw JSON, which the adapters of a cluster share; what a pass wants to know of a cluster; and
what it reports to it. Does not belong here: any implementation, or a type of an outside library.

Objects are JSON as the API server gives it, never typed models: a model of another version drops what it does not know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from reconciler.core.model import Arch

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object. `group` is '' for the core API; `plural` is its name in paths."""

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As an object's `apiVersion` says it."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Api(Protocol):
    """A Kubernetes API server. `namespace` is ignored for kinds that have none, and '' means all in a list.

    Every call has a timeout and raises ClusterUnavailable (the server could not be reached, is too busy, or failed),
    ClusterError (it refused), and only what else its docstring names.
    """

    def get(self, kind: Kind, name: str, namespace: str = "") -> Json | None:
        """One object; None when there is none, or when the server does not know the kind."""

    def list(self, kind: Kind, namespace: str = "", labels: str = "") -> Iterator[Json]:
        """All objects that a label selector takes, page by page; none when the server does not know the kind."""

    def create(self, kind: Kind, body: Json, namespace: str = "") -> Json | None:
        """Create an object; None when one of its name exists."""

    def patch(
        self, kind: Kind, name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> Json | None:
        """Change an object by a JSON merge patch; None when it is gone. A `resourceVersion` or a `uid` in its
        metadata makes it conditional. Raises Conflict."""

    def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str = "") -> None:
        """Delete an object, and in the background what it owns; with `uid` only that one. None there is fine."""

    def log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """The last lines that a pod's container wrote; '' when there are none any more."""


@dataclass(frozen=True, slots=True)
class PoolNodes:
    """One pool as a cluster sees it: the architectures of its nodes, and what is asked of the reconciler there.

    `requested` is the value of `reconciler.machineos.dev/requestedAt`.
    """

    architectures: tuple[Arch, ...] = ()
    suspended: bool = False
    requested: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """A cluster at one moment. `pools` are its MachineConfigPools by name; `takes_jobs` are the architectures that have
    a node which a build could run on; `warnings` are for people."""

    pools: Mapping[str, PoolNodes] = field(default_factory=dict)
    takes_jobs: frozenset[Arch] = frozenset()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleaseImages:
    """What the nodes of a cluster's release run when nobody says otherwise; '' where it does not tell."""

    os_image: str = ""
    extensions_image: str = ""


class Cluster(Protocol):
    """The cluster whose nodes run the images."""

    def observe(self) -> Observation:
        """How it is now. Raises ClusterUnavailable, ClusterError."""

    def release_images(self) -> ReleaseImages:
        """Those of the cluster. Raises ClusterUnavailable, ClusterError."""

    def record(self, observation: Observation) -> None:
        """Write the architectures of each pool where jobs and people can read them, if they are not there yet.
        Raises ClusterUnavailable, ClusterError."""


class BuildState(StrEnum):
    """How a pool's builds stand, in MachineOSBuild's words."""

    PREPARED = "Prepared"
    BUILDING = "Building"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INTERRUPTED = "Interrupted"


@dataclass(frozen=True, slots=True)
class ArchReport:
    """One image of a pool. `image` is a pullspec by digest, '' while there is none; `build` the name of its latest
    build, '' where none was needed; `message` says more where that helps. Times in epoch seconds, 0 for none."""

    arch: Arch
    state: BuildState
    input: str = ""
    image: str = ""
    build: str = ""
    cause: str = ""
    message: str = ""
    started: float = 0.0
    finished: float = 0.0


@dataclass(frozen=True, slots=True)
class PoolReport:
    """Where a pool stands. `work` names its builds: the same images wanted give the same name. `image` is the index by
    digest that the tip's status names, '' before the first, and `source_commit` the commit it was made from; `commit`
    is the one that is worked on. `state` is that of all images together. `believed` says whether the images themselves
    say that they are this pool's; whoever can edit the status could name any, and what is not believed is delivered to
    nobody."""

    pool: str
    work: str
    commit: str
    plan: str
    architectures: tuple[ArchReport, ...] = ()
    image: str = ""
    source_commit: str = ""
    state: BuildState | None = None
    believed: bool = True


class Reporter(Protocol):
    """Somewhere in the cluster that shows where a pool stands. Looks, and writes only what differs."""

    def report(self, pool: PoolReport) -> None:
        """Make what is shown there true. Raises ClusterUnavailable, ClusterError, Conflict."""

    def keep_only(self, pools: Collection[str]) -> None:
        """There are no pools but these any more: nothing is built for the others. Raises as `report`."""


class Delivery(Reporter, Protocol):
    """A reporter that lets nodes, or who looks after them, have a pool's image."""

    def differences(self, pool: PoolReport) -> tuple[str, ...]:
        """What is shown there otherwise than it should be, one sentence each; changes nothing. Raises as `report`."""


@dataclass(frozen=True, slots=True)
class NodeImage:
    """What one node says of its image. `current` is what it runs and `desired` what it was told to run, as pullspecs,
    '' where nobody says it; `state` is Working, Done, Degraded, …, '' for none, and `reason` its error."""

    name: str
    current: str = ""
    desired: str = ""
    state: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PoolRollout:
    """How far the nodes of a pool have come. `paused`: the operator holds its rollouts; `settled`: it says that no node
    waits for anything, or says nothing."""

    nodes: tuple[NodeImage, ...] = ()
    paused: bool = False
    settled: bool = True


class Rollouts(Protocol):
    """What nodes run. It is looked at and never changed: that is the Machine Config Operator's."""

    def look(self, pools: Collection[str]) -> Mapping[str, PoolRollout]:
        """The pools of these that the cluster has. Raises ClusterUnavailable, ClusterError."""
