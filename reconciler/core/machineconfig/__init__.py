"""MachineConfigs as values: read, selected for a pool, merged as upstream merges them, and laid out as an image layer.

    configs = [read_machine_config(document), …]; pools = [read_machine_config_pool(document), …]
    layer = render(select("worker", Arch.ARM64, configs, pools), Arch.ARM64)
    layer.canonical(MachineConfigPolicy.IMAGE)

Belongs here: everything about MachineConfigs that needs no file, no network and no clock. Does not belong here: finding
documents (`catalogue`), and building the layer (an adapter).
"""

from reconciler.core.machineconfig.commit import Broken, Documents
from reconciler.core.machineconfig.documents import (
    API_VERSION,
    KIND,
    POOL_KIND,
    read_machine_config,
    read_machine_config_pool,
)
from reconciler.core.machineconfig.layer import Entry, Kind, Layer
from reconciler.core.machineconfig.packages import EXTENSIONS, KERNELS, packages_of
from reconciler.core.machineconfig.render import render
from reconciler.core.machineconfig.selector import Pool, select
from reconciler.core.machineconfig.supply import NOTHING, Content, Supply
from reconciler.core.machineconfig.values import KernelType, MachineConfig

__all__ = [
    "API_VERSION",
    "EXTENSIONS",
    "KERNELS",
    "KIND",
    "NOTHING",
    "POOL_KIND",
    "Broken",
    "Content",
    "Documents",
    "Entry",
    "KernelType",
    "Kind",
    "Layer",
    "MachineConfig",
    "Pool",
    "Supply",
    "packages_of",
    "read_machine_config",
    "read_machine_config_pool",
    "render",
    "select",
]
