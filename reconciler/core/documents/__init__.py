"""Documents of the watched repository, one module per kind: strict reading into frozen values.

Does not belong here: what several documents mean together (`catalogue`).
"""

from reconciler.core.documents.machineosconfig import (
    BasePolicy,
    InlineText,
    MachineOSConfig,
    read_machine_os_config,
)
from reconciler.core.documents.repositoryconfig import (
    MachineConfigPolicy,
    Probes,
    RepositoryConfig,
    read_repository_config,
)
from reconciler.core.documents.schedule import Age, Cron, Schedule

__all__ = [
    "Age",
    "BasePolicy",
    "Cron",
    "InlineText",
    "MachineConfigPolicy",
    "MachineOSConfig",
    "Probes",
    "RepositoryConfig",
    "Schedule",
    "read_machine_os_config",
    "read_repository_config",
]
