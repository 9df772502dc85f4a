"""How builds run in a cluster, as the composition says it.

Belongs here: values. Does not belong here: what is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.settings import JobSettings, StorageDriver


@dataclass(frozen=True, slots=True)
class JobOptions:
    """How to build in a cluster.

    `namespace` holds the Jobs, and the Secrets that definitions name; `instance` tells our objects from those of
    another daemon there. `timeout` is how many seconds a Job may take, with all its attempts. `insecure` are registry
    hosts that may be reached over plain HTTP. `proxies` are environment variables for the pods; those that the cluster
    itself names win. `poll` is how many seconds pass between two looks at the Jobs when nobody wakes the builder.
    """

    namespace: str
    instance: str = "default"
    job: JobSettings = field(default_factory=JobSettings)
    timeout: float = 7200.0
    storage_driver: StorageDriver = StorageDriver.VFS
    insecure: frozenset[str] = frozenset()
    proxies: Mapping[str, str] = field(default_factory=dict)
    poll: float = 15.0
