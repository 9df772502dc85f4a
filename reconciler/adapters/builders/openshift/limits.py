"""What a Build cannot be told, and OpenShift's own word on it.

Belongs here: settings that have no effect on Builds, and the cluster's configuration of them. Does not belong here:
what a Build is told (`manifests`).

Facts: openshift/api 2a3d739, config/v1/types_build.go (BuildOverrides) and build/v1/types.go (CommonSpec).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from reconciler.adapters.builders.job.names import items, mapping
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


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the cluster imposes on all Builds. They tolerate these taints and no others; their pods' `nodeSelector` gets
    these labels, whatever it says."""

    tolerations: tuple[Toleration, ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()


def overrides(api: Api) -> Overrides:
    """As the cluster has them. Raises ClusterUnavailable, ClusterError."""
    found = api.get(_CONFIG, "cluster") or {}
    selector = mapping(found, "spec", "buildOverrides", "nodeSelector")
    tolerated = tuple(
        Toleration(
            key=str(each.get("key") or ""),
            operator=str(each.get("operator") or "Equal"),
            value=str(each.get("value") or ""),
            effect=str(each.get("effect") or ""),
        )
        for each in items(found, "spec", "buildOverrides", "tolerations")
    )
    return Overrides(tolerated, tuple(sorted((str(key), str(value)) for key, value in selector.items())))
