"""Fixtures of this adapter's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.cluster.server import ApiServer
from tests.controlplane.fixtures import (  # noqa: F401
    namespace,
    nodes,
    plane,
    pytest_collection_finish,
    upstream_crds,
)
from tests.servers.proxy import FaultProxy


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer().running() as running:
        yield running


@pytest.fixture
def proxy(server: ApiServer) -> Iterator[FaultProxy]:
    """Before the server, for exchanges."""
    with FaultProxy(server.host, http=True) as proxy:
        yield proxy


@pytest.fixture
def link(server: ApiServer) -> Iterator[FaultProxy]:
    """Before the server, for connections."""
    with FaultProxy(server.host) as proxy:
        yield proxy
