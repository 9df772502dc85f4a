"""The kinds, labels and annotations of the objects that builds consist of.

Belongs here: spellings. Does not belong here: whole objects (`manifests`, `inputs`, `rendering`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reconciler.core.model import GROUP, Arch
from reconciler.core.names import shortened
from reconciler.ports.cluster import Json, Kind

JOB: Final = Kind("batch", "v1", "jobs", "Job")
POD: Final = Kind("", "v1", "pods", "Pod")
CONFIG_MAP: Final = Kind("", "v1", "configmaps", "ConfigMap")
EVENT: Final = Kind("", "v1", "events", "Event")
MULTI_ARCH_BUILD: Final = Kind(GROUP, "v1alpha1", "multiarchbuilds", "MultiArchBuild")
POOL: Final = Kind(
    "machineconfiguration.openshift.io", "v1", "machineconfigpools", "MachineConfigPool", namespaced=False
)
CONTROLLER_CONFIG: Final = Kind(
    "machineconfiguration.openshift.io", "v1", "controllerconfigs", "ControllerConfig", namespaced=False
)

MANAGER: Final = "machine-os-reconciler"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OUTPUT: Final = f"{GROUP}/output"
INSTANCE: Final = f"{GROUP}/instance"
POOL_LABEL: Final = f"{GROUP}/pool"
ARCH_LABEL: Final = f"{GROUP}/arch"
EPHEMERAL: Final = f"{GROUP}/ephemeral"
"""Marks what goes when its build has succeeded."""

INPUT: Final = f"{GROUP}/input"
"""The whole digest of the inputs, which an object's name has only the start of."""
WORK: Final = f"{GROUP}/work"
IMAGE: Final = f"{GROUP}/image"
POOL_NAME: Final = f"{GROUP}/pool-name"
"""The whole name, which a label may have no room for."""
DISCARDED: Final = f"{GROUP}/discarded"
"""On a build that has ended and that nobody wants any more. It waits for its TTL."""
OVERDUE: Final = f"{GROUP}/overdue"
"""On a build that was ended because it took too long: what it was last seen doing."""
OWN_ANNOTATIONS: Final = frozenset({WORK, IMAGE, POOL_NAME, DISCARDED, OVERDUE})
"""Those of a build's object that are not its request's."""

ENTITLEMENT: Final = "etc-pki-entitlement-{pool}"
GPG: Final = "etc-pki-rpm-gpg"
REPOSITORIES: Final = "etc-yum-repos-d"
"""What the Machine Config Operator calls a pool's entitlement, the keys and the repositories that builds may use."""

CONTAINER: Final = "build"
SECRET_MISSING: Final = 24
"""The exit status that only `job.sh` has: a Secret with credentials is not there, or has none. No other pod would find
it."""
_LABEL_LIMIT: Final = 63


def label(text: str) -> str:
    """A name as a label's value."""
    return shortened(text, _LABEL_LIMIT)


def pool_labels(instance: str, pool: str) -> dict[str, str]:
    """The labels of everything that is made for a pool."""
    return {
        MANAGED_BY: MANAGER,
        OUTPUT: "build",
        INSTANCE: label(instance),
        POOL_LABEL: label(pool),
    }


def build_labels(instance: str, pool: str, arch: Arch) -> dict[str, str]:
    """The labels of everything that is made for one image."""
    return {**pool_labels(instance, pool), ARCH_LABEL: arch.value}


def selector(instance: str, pool: str = "") -> str:
    """Selects what an instance has made, for one pool or for all."""
    labels = {MANAGED_BY: MANAGER, OUTPUT: "build", INSTANCE: label(instance)}
    if pool:
        labels[POOL_LABEL] = label(pool)
    return ",".join(f"{key}={value}" for key, value in labels.items())


def metadata(found: Json) -> Mapping[str, Any]:
    """An object's metadata."""
    return mapping(found, "metadata")


def annotations_of(found: Json) -> Mapping[str, str]:
    """An object's annotations."""
    return mapping(metadata(found), "annotations")


def mapping(found: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """What lies at a path in an object, when it is an object; else an empty one. Values may be null."""
    value: Any = found
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def items(found: Mapping[str, Any], *path: str) -> list[Mapping[str, Any]]:
    """The objects in the list at a path; none when there is no such list."""
    value = mapping(found, *path[:-1]).get(path[-1])
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def owner(kind: Kind, found: Json, *, controller: bool = False) -> dict[str, Any]:
    """A reference to an object that owns another. It never holds up the owner's deletion."""
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": metadata(found)["name"],
        "uid": metadata(found)["uid"],
    }
    return {**reference, "controller": controller, "blockOwnerDeletion": False}
