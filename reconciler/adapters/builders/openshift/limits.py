"""What a Build cannot be told, and OpenShift's own word on it.

Belongs here: settings that have no effect on Builds, and the cluster's configuration of them. Does not belong here:
what a Build is told (`manifests`).

Facts: openshift/api 2a3d739, config/v1/types_build.go (BuildOverrides) and build/v1/types.go (CommonSpec).
"""

from __future__ import annotations

from typing import Final

from reconciler.adapters.builders.job.names import items
from reconciler.ports.cluster import Api, Kind
from reconciler.settings import JobSettings, Toleration

_CONFIG: Final = Kind("config.openshift.io", "v1", "builds", "Build", namespaced=False)


def inapplicable(job: JobSettings) -> tuple[str, ...]:
    """The keys below `builder.job` that are set, and that no Build has a place for."""
    usual = JobSettings()
    keys = {
        "tolerations": job.tolerations != usual.tolerations,
        "runtimeClass": job.runtime_class != usual.runtime_class,
        "priorityClass": job.priority_class != usual.priority_class,
        "attempts": job.attempts not in (1, usual.attempts),
    }
    return tuple(key for key, wanted in keys.items() if wanted)


def tolerations(api: Api) -> tuple[Toleration, ...]:
    """The taints that all Builds of the cluster tolerate: there are no others. Raises ClusterUnavailable,
    ClusterError."""
    found = api.get(_CONFIG, "cluster") or {}
    return tuple(
        Toleration(
            key=str(each.get("key") or ""),
            operator=str(each.get("operator") or "Equal"),
            value=str(each.get("value") or ""),
            effect=str(each.get("effect") or ""),
        )
        for each in items(found, "spec", "buildOverrides", "tolerations")
    )
