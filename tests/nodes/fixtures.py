"""Nodes that run what is bound to them, as a fixture. A folder's conftest.py imports it beside the control plane's:

    from tests.nodes.fixtures import workers  # noqa: F401

Belongs here: when tests get nodes, and what they leave behind. Does not belong here: what a node does (`agent`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.core.model import Arch
from tests.controlplane import ControlPlane
from tests.nodes.agent import NodeAgent
from tests.nodes.world import IMAGES


@dataclass(frozen=True, slots=True)
class Workers:
    """One node per architecture, by name, and the agent that serves them all."""

    agent: NodeAgent
    names: dict[Arch, str]


@pytest.fixture
def workers(plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Workers]:
    """Nodes of four architectures that run the images of `tests.nodes.world`; gone after the test, with their pods."""
    names = {arch: f"{namespace}-{arch}" for arch in Arch}
    with NodeAgent(plane.api, tmp_path / "nodes", IMAGES) as agent:
        for arch, name in names.items():
            plane.add_node(name, arch, kubelet_port=agent.port)
        agent.serve(*names.values())
        yield Workers(agent, names)
        plane.revive()
    for name in names.values():
        plane.remove_node(name)
