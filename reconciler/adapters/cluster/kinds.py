"""The kinds of objects that are looked at here.

Belongs here: their names. Does not belong here: what is read of them.
"""

from __future__ import annotations

from typing import Final

from reconciler.ports.cluster import Kind

NODES: Final = Kind("", "v1", "nodes", "Node", namespaced=False)
CONFIG_MAPS: Final = Kind("", "v1", "configmaps", "ConfigMap")
PODS: Final = Kind("", "v1", "pods", "Pod")
MACHINE_CONFIG_POOLS: Final = Kind(
    "machineconfiguration.openshift.io", "v1", "machineconfigpools", "MachineConfigPool", namespaced=False
)
MACHINE_CONFIGS: Final = Kind(
    "machineconfiguration.openshift.io", "v1", "machineconfigs", "MachineConfig", namespaced=False
)
