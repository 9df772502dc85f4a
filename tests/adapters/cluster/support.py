"""What the tests of this adapter share: clients, nodes and pools, and waiting.

Belongs here: making things. Does not belong here: the API server (`server`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubernetes.client import Configuration

from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.cluster.connect import Connection
from reconciler.adapters.cluster.login import Login
from reconciler.adapters.cluster.pace import Pace
from reconciler.adapters.cluster.watching import Timing
from reconciler.adapters.cluster.wire import Limits
from reconciler.ports import Request
from reconciler.redaction import Redactor
from tests.adapters.cluster.server import NODES, POOLS, ApiServer

TOKEN = "a-token-that-nobody-may-see"
HASTY = Timing(
    relist=(1000.0, 1000.0), stretch=(500.0, 500.0), silence=100.0, first=0.02, last=0.1, fresh=1000.0
)
"""Lists only when it must, and does not wait long after a failure."""
PATIENCE = 30.0


class Sleeper:
    """Implements `ports.Clock`: real time, in which sleeping is skipped and noted."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._skipped = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self._skipped

    def sleep(self, seconds: float) -> None:
        """Note it."""
        self.slept.append(seconds)
        self._skipped += seconds


def connection(url: str, redactor: Redactor | None = None) -> Connection:
    """To a server that speaks plain HTTP."""

    def log_in() -> Login:
        return Login(Configuration(host=url, api_key={"BearerToken": f"Bearer {TOKEN}"}))

    return Connection(log_in, redactor or Redactor())


QUICK = Limits(read=0.4, whole=1.5)
"""Does not wait long for a server that says nothing."""


def client(
    url: str, clock: Sleeper | None = None, told: list[Request] | None = None, limits: Limits = QUICK
) -> KubernetesApi:
    """A client of a server that speaks plain HTTP; `told` gets what is reported of each call."""
    return KubernetesApi(
        connection(url),
        clock or Sleeper(),
        Redactor(),
        on_request=(told if told is not None else []).append,
        pace=Pace(lambda _: None),
        limits=limits,
    )


def add_node(
    server: ApiServer,
    name: str,
    arch: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    ready: str = "True",
    unschedulable: bool = False,
) -> dict[str, Any]:
    """A worker as a kubelet registers it; `labels` come on top, and None takes one away."""
    usual = {"kubernetes.io/arch": arch, "kubernetes.io/os": "linux", "node-role.kubernetes.io/worker": ""}
    spec: dict[str, Any] = {"taints": list(taints)} if taints else {}
    if unschedulable:
        spec["unschedulable"] = True
    status = {
        "nodeInfo": {"architecture": arch},
        "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}],
    }
    return server.put(NODES, name, metadata={"labels": usual | dict(labels or {})}, spec=spec, status=status)


def add_pool(
    server: ApiServer, name: str, *, annotations: Mapping[str, str] | None = None, selector: Any = None
) -> dict[str, Any]:
    """A MachineConfigPool that selects by its own role, unless told otherwise."""
    usual = {"matchLabels": {f"node-role.kubernetes.io/{name}": ""}}
    about = {"annotations": dict(annotations)} if annotations else {}
    return server.put(POOLS, name, metadata=about, spec={"nodeSelector": selector or usual})


def eventually(look: Callable[[], object], what: str) -> None:
    """Wait until something is so."""
    until = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < until, f"{what}: not within {PATIENCE:g} s"
        time.sleep(0.01)
