"""A cluster in memory for most tests, and a real control plane with nodes that run pods for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.cluster.connect import connect
from reconciler.ports import BuildRequest
from reconciler.redaction import Redactor
from reconciler.settings import ClusterMode, ClusterSettings
from tests.adapters.builders.job.support import WORK, Cluster, request
from tests.controlplane import ControlPlane
from tests.controlplane.fixtures import (  # noqa: F401
    namespace,
    nodes,
    plane,
    pytest_collection_finish,
    upstream_crds,
)
from tests.nodes.fixtures import workers  # noqa: F401


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def asked(cluster: Cluster) -> BuildRequest:
    """A build as part of a MultiArchBuild, which need not exist."""
    return request(cluster.tree, work=WORK)


Login = Callable[[Path], KubernetesApi]


@pytest.fixture
def login() -> Iterator[Login]:
    """Our own client with a kubeconfig's login."""
    with ExitStack() as stack:

        def client(kubeconfig: Path) -> KubernetesApi:
            settings = ClusterSettings(mode=ClusterMode.KUBECONFIG, kubeconfig=str(kubeconfig))
            redactor = Redactor()
            connection = connect(settings, {}, redactor)
            stack.callback(connection.close)
            return KubernetesApi(connection, SystemClock(), redactor)

        yield client


@pytest.fixture
def kube(plane: ControlPlane, login: Login) -> KubernetesApi:  # noqa: F811
    """Our own client, as admin."""
    return login(plane.kubeconfig())
