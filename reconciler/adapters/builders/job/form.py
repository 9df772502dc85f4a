"""The form that builds have in a cluster: which kind of object each is, and how it is made and read.

Belongs here: what the builder asks of a form, and Jobs as one. Does not belong here: when things are made, read or
given up (`builder`), what a Job looks like (`manifests`), or any other form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from reconciler.adapters.builders.job import manifests, reading
from reconciler.adapters.builders.job.manifests import Sources
from reconciler.adapters.builders.job.names import CONTAINER, JOB, metadata, selector
from reconciler.adapters.builders.job.options import JobOptions
from reconciler.adapters.builders.job.pods import Outcome, Pods
from reconciler.errors import ReconcilerError
from reconciler.ports import Build, BuildRequest, Phase
from reconciler.ports.cluster import Api, Json, Kind

Owners = Sequence[Mapping[str, Any]]


class Unready(ReconcilerError):
    """The cluster lacks something that a build needs: this build fails, another may find it there."""

    reason = "Unready"


class Form(Protocol):
    """One kind of object that a build is. It knows nothing between two calls."""

    @property
    def kind(self) -> Kind:
        """Of the objects."""

    @property
    def tolerations(self) -> str:
        """Where it says which taints builds tolerate."""

    @property
    def container(self) -> str:
        """The name of the container that builds, in the pods that these objects are given."""

    @property
    def files(self) -> Mapping[str, bytes]:
        """What the pod is given beside the small files of every build."""

    def pods(self, options: JobOptions) -> str:
        """The label selector of the pods."""

    def look(self, api: Api, options: JobOptions, request: BuildRequest) -> frozenset[str]:
        """What there is for a build in its namespace, as far as `body` must know. Raises Unready when what it cannot do
        without is not there, ClusterUnavailable, ClusterError."""

    def body(
        self,
        request: BuildRequest,
        options: JobOptions,
        sources: Sources,
        owners: Owners,
        present: frozenset[str],
    ) -> Json:
        """The object that builds and pushes one image. `present` is what `look` saw."""

    def config_maps(self, found: Json) -> tuple[str, ...]:
        """The ConfigMaps that were made for an object: those that its pod mounts and that bear its name."""

    def end(self, found: Json) -> Phase | None:
        """SUCCEEDED or FAILED for a build that has ended, None for any other."""

    def build(self, found: Json, pods: Pods, outcome: Outcome | None, log: str) -> Build | None:
        """An object as a build; None for one that is not a build of ours. `outcome` is that of one that failed; `log`
        says where its log is to be read."""

    def outcome(self, found: Json, pods: Pods, log: str, step: str) -> Outcome:
        """How a build failed. `step` is what it was last seen doing."""

    def log(self, namespace: str, name: str) -> str:
        """How people read a build's log."""

    def overdue(self, found: Json, options: JobOptions, now: float, step: str) -> Json | None:
        """The patch that ends a build which takes too long; None for one that need not be ended, or that the cluster
        ends by itself."""

    def is_outdated(self, found: Json, options: JobOptions, now: float) -> bool:
        """Whether an object that has ended should go, and the cluster will not see to it."""


class Jobs:
    """Builds as Kubernetes Jobs, which know their deadline and their time to live."""

    kind: Final = JOB
    tolerations: Final = "builder.job.tolerations"
    container: Final = CONTAINER
    files: Final[Mapping[str, bytes]] = {}

    def pods(self, options: JobOptions) -> str:
        """They bear the labels of their Job."""
        return selector(options.instance)

    def look(self, api: Api, options: JobOptions, request: BuildRequest) -> frozenset[str]:  # noqa: ARG002
        """Nothing: a Job's volumes may be optional, and its script says what it misses."""
        return frozenset()

    def body(
        self,
        request: BuildRequest,
        options: JobOptions,
        sources: Sources,
        owners: Owners,
        present: frozenset[str],  # noqa: ARG002
    ) -> Json:
        """A Job."""
        return manifests.job(request, options, sources, owners)

    def config_maps(self, found: Json) -> tuple[str, ...]:
        """Those of its pod's volumes."""
        own = f"{metadata(found)['name']}-"
        pod = found.get("spec", {}).get("template", {}).get("spec", {})
        named = [volume.get("configMap", {}).get("name", "") for volume in pod.get("volumes", ())]
        return tuple(name for name in named if name.startswith(own))

    def end(self, found: Json) -> Phase | None:
        """As a Job's conditions say."""
        return reading.end(found)

    def build(self, found: Json, pods: Pods, outcome: Outcome | None, log: str) -> Build | None:
        """As `reading` has it."""
        return reading.build(found, pods, outcome, log)

    def outcome(self, found: Json, pods: Pods, log: str, step: str) -> Outcome:
        """As `reading` has it."""
        return reading.outcome(found, pods, log, step)

    def log(self, namespace: str, name: str) -> str:
        """All pods of the Job."""
        return f"kubectl -n {namespace} logs job/{name}"

    def overdue(self, found: Json, options: JobOptions, now: float, step: str) -> Json | None:  # noqa: ARG002
        """Never: `activeDeadlineSeconds`."""
        return None

    def is_outdated(self, found: Json, options: JobOptions, now: float) -> bool:  # noqa: ARG002
        """Never: `ttlSecondsAfterFinished`."""
        return False


JOBS: Final = Jobs()
