"""A cluster in memory for most tests; for the others a real control plane with OpenShift's kind Build, a stand-in for
its controller, and nodes that run pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.core.model import Arch
from reconciler.ports import BuildRequest
from tests.adapters.builders.job.conftest import kube, login  # noqa: F401
from tests.adapters.builders.job.support import WORK, request
from tests.adapters.builders.openshift.crd import CRD
from tests.adapters.builders.openshift.support import OpenShift
from tests.adapters.builders.world import until
from tests.controlplane import ControlPlane
from tests.controlplane.fixtures import namespace, plane, pytest_collection_finish  # noqa: F401
from tests.nodes.agent import NodeAgent
from tests.nodes.resolve import BUILDAH
from tests.nodes.world import BUILDER

IDLE = "r.example.com/tools/idle:1"
"""An image whose command does nothing with what it is told."""
_IMAGES = {
    BUILDER: replace(BUILDAH, command=("/bin/bash",)),
    IDLE: replace(BUILDAH, command=("/bin/sh", "-c", "true")),
}


@pytest.fixture
def cluster() -> OpenShift:
    return OpenShift()


@pytest.fixture
def asked(cluster: OpenShift) -> BuildRequest:
    """A build as part of a MultiArchBuild, which need not exist."""
    return request(cluster.tree, work=WORK)


@pytest.fixture
def openshift(plane: ControlPlane) -> ControlPlane:  # noqa: F811
    """The control plane, with OpenShift's kind Build."""
    plane.api.apply(json.dumps(CRD))
    until(lambda: plane.api.find("/apis/build.openshift.io/v1/builds") is not None, "the kind Build")
    return plane


@pytest.fixture
def workers(openshift: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[NodeAgent]:  # noqa: F811
    """Nodes of four architectures whose images have commands; gone after the test, with their pods."""
    names = {arch: f"{namespace}-{arch}" for arch in Arch}
    with NodeAgent(openshift.api, tmp_path / "nodes", _IMAGES) as agent:
        for arch, name in names.items():
            openshift.add_node(name, arch, kubelet_port=agent.port)
        agent.serve(*names.values())
        yield agent
        openshift.revive()
    for name in names.values():
        openshift.remove_node(name)
