"""Builds as OpenShift's Build objects: how each is made, read and ended.

Belongs here: what OpenShift leaves to whoever creates a Build. Does not belong here: when that happens (the builder of
`job`), what a Build looks like (`manifests`) or says (`reading`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reconciler.adapters.builders.job.form import Owners, Unready
from reconciler.adapters.builders.job.manifests import Sources, deadline
from reconciler.adapters.builders.job.names import CONFIG_MAP, OVERDUE, REPOSITORIES, items, mapping, metadata
from reconciler.adapters.builders.job.options import JobOptions
from reconciler.adapters.builders.job.pods import AGAIN, Outcome, Pods
from reconciler.adapters.builders.openshift import manifests, reading
from reconciler.ports import Build, BuildRequest, Phase
from reconciler.ports.cluster import Api, Json, Kind

SECRET: Final = Kind("", "v1", "secrets", "Secret")


class Builds:
    """Builds as Builds of the Custom strategy. A `job.form.Form`."""

    kind: Final = manifests.BUILD
    tolerations: Final = "spec.buildOverrides.tolerations of builds.config.openshift.io/cluster"
    container: Final = manifests.CONTAINER

    @property
    def files(self) -> Mapping[str, bytes]:
        """What runs before the script that Jobs run at once."""
        return {manifests.START.name: manifests.START.read_bytes()}

    def pods(self, options: JobOptions) -> str:  # noqa: ARG002
        """Those of all Builds in the namespace: they bear nothing of ours."""
        return manifests.PODS

    def look(self, api: Api, options: JobOptions, request: BuildRequest) -> frozenset[str]:
        """Which of the ConfigMaps and Secrets are there: a Build cannot say that one is optional.

        Reading a Secret tells us nothing that we could not know: who creates Builds in a namespace can mount its
        Secrets. Raises Unready when one that the definition names is not there, ClusterUnavailable, ClusterError.
        """
        for name in filter(None, (request.push_secret, request.pull_secret)):
            if api.get(SECRET, name, options.namespace) is None:
                raise Unready(f"the Secret {name} is missing in namespace {options.namespace}", hint=AGAIN)
        wanted = [(SECRET, name) for name in manifests.optional_secrets(request).values()]
        wanted += [(CONFIG_MAP, name) for name in (REPOSITORIES, options.job.trust_bundle) if name]
        return frozenset(name for kind, name in wanted if api.get(kind, name, options.namespace) is not None)

    def body(
        self,
        request: BuildRequest,
        options: JobOptions,
        sources: Sources,
        owners: Owners,
        present: frozenset[str],
    ) -> Json:
        """A Build."""
        return manifests.build(request, options, sources, owners, present)

    def config_maps(self, found: Json) -> tuple[str, ...]:
        """Those of its source."""
        own = f"{metadata(found)['name']}-"
        sources = items(found, "spec", "source", "configMaps")
        named = [str(mapping(source, "configMap").get("name", "")) for source in sources]
        return tuple(name for name in named if name.startswith(own))

    def end(self, found: Json) -> Phase | None:
        """As its phase says, or we do."""
        return reading.end(found)

    def build(self, found: Json, pods: Pods, outcome: Outcome | None, log: str) -> Build | None:
        """As `reading` has it."""
        return reading.build(found, pods, outcome, log)

    def outcome(self, found: Json, pods: Pods, log: str, step: str) -> Outcome:
        """As `reading` has it."""
        return reading.outcome(found, pods, log, step)

    def log(self, namespace: str, name: str) -> str:
        """By the subresource builds/log."""
        return f"oc -n {namespace} logs build/{name}"

    def overdue(self, found: Json, options: JobOptions, now: float, step: str) -> Json | None:  # noqa: ARG002
        """A Job's deadline counts from its creation, a Build's only once its pod is on a node. What has not ended some
        time after both is cancelled, and says of itself why."""
        begun, limit = reading.created(found), reading.deadline(found)
        if reading.end(found) is not None or "deletionTimestamp" in metadata(found) or not (begun and limit):
            return None
        if now < begun + limit + _GRACE:
            return None
        return {"metadata": {"annotations": {OVERDUE: step}}, "status": {"cancelled": True}}

    def is_outdated(self, found: Json, options: JobOptions, now: float) -> bool:
        """Nobody else deletes a Build that has no BuildConfig."""
        if reading.end(found) is None or "deletionTimestamp" in metadata(found):
            return False
        ended = reading.finished(found) or reading.created(found) + deadline(options)
        return now > ended + options.job.ttl


_GRACE: Final = 60.0
"""Seconds for the node to end a pod by itself, which keeps its log."""

BUILDS: Final = Builds()
