"""The MachineConfig that rolls a pool's image out: the same document in a cluster and in a file of Git.

Belongs here: its name, labels and content, and its one spelling in bytes. Does not belong here: writing it anywhere.

Sources: openshift/machine-config-operator, pkg/controller/common/helpers.go, MergeMachineConfigs (of all MachineConfigs
that a pool takes, sorted by name, the last one with an `osImageURL` counts); the documentation of off-cluster image
mode (a MachineConfig needs nothing but an `osImageURL`, which should be a digest).
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from reconciler.core.model import GROUP
from reconciler.core.names import shortened

UPSTREAM: Final = "machineconfiguration.openshift.io"
ROLE: Final = f"{UPSTREAM}/role"
LAYERING: Final = f"{UPSTREAM}/layering-enabled"
OUTPUT: Final = f"{GROUP}/output"
"""The label of all that we write; what has it is never read as somebody's configuration."""
INSTANCE: Final = f"{GROUP}/instance"
POOL: Final = f"{GROUP}/pool"
SOURCE: Final = f"{GROUP}/source-commit"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "machine-os-reconciler"
KIND: Final = "MachineConfig"
_VALUE: Final = "machine-config"
_INHERITED: Final = "worker"
_LABEL_LIMIT: Final = 63
_ENDLESS: Final = 100_000


def machine_config_name(pool: str) -> str:
    """`99-<pool>-reconciler-osimageurl`. A custom pool takes the MachineConfigs of `worker` as well, and the last by
    name counts: so that one begins with 98, whatever the others are called."""
    return f"{98 if pool == _INHERITED else 99}-{pool}-reconciler-osimageurl"


def machine_config(pool: str, image: str, source_commit: str, instance: str) -> dict[str, Any]:
    """The MachineConfig of a pool whose nodes are to run `image` (`repository@sha256:…`)."""
    return {
        "apiVersion": f"{UPSTREAM}/v1",
        "kind": KIND,
        "metadata": {
            "name": machine_config_name(pool),
            "labels": {
                MANAGED_BY: MANAGER,
                INSTANCE: shortened(instance, _LABEL_LIMIT),
                OUTPUT: _VALUE,
                POOL: shortened(pool, _LABEL_LIMIT),
                ROLE: pool,
            },
            "annotations": {SOURCE: source_commit},
        },
        "spec": {"osImageURL": image},
    }


def manifest(pool: str, image: str, source_commit: str, instance: str) -> bytes:
    """The MachineConfig as a file: the same bytes for the same pool, image and commit."""
    document = machine_config(pool, image, source_commit, instance)
    text: str = yaml.safe_dump(document, sort_keys=False, width=_ENDLESS)
    return f"# Written by the reconciler: what is edited here is put right.\n{text}".encode()
