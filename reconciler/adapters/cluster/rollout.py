"""What the nodes of a pool run, and were told to run: what `reconciler status` shows of a rollout.

Belongs here: reading it. Does not belong here: changing it, which is the Machine Config Operator's, and whether it is
as it should be.

Source: openshift/machine-config-operator, pkg/daemon/constants/constants.go. `currentImage` and `desiredImage` are
there only where the operator built an image itself. An image that came by a MachineConfig is the `osImageURL` of the
rendered MachineConfigs that `currentConfig` and `desiredConfig` name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from sys import intern
from typing import Final

from reconciler.adapters.cluster import nodes, pools
from reconciler.adapters.cluster.kinds import MACHINE_CONFIG_POOLS, MACHINE_CONFIGS, NODES
from reconciler.adapters.cluster.nodes import Node
from reconciler.adapters.cluster.parts import mapping, name_of, sequence
from reconciler.adapters.cluster.problems import printable
from reconciler.ports.cluster import Api, Json, NodeImage, PoolRollout

_PREFIX: Final = "machineconfiguration.openshift.io/"
_CURRENT: Final = ("currentImage", "currentConfig")
_DESIRED: Final = ("desiredImage", "desiredConfig")
_KEPT: Final = (*_CURRENT, *_DESIRED, "state", "reason")
_MOST_CONFIGS: Final = 100
"""Rendered MachineConfigs that one look reads; each may be a megabyte, and a pool has one or two in use."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """A node, and what the operator and its daemon wrote on it."""

    node: Node
    said: Mapping[str, str]


class RolloutReader:
    """Implements `ports.cluster.Rollouts`. Reads the cluster anew at each look."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def look(self, pools_wanted: Collection[str]) -> Mapping[str, PoolRollout]:
        """The pools of these that the cluster has. Raises ClusterUnavailable, ClusterError."""
        machines = {name_of(found): _machine(found) for found in self._api.list(NODES)}
        groups = {name_of(found): found for found in self._api.list(MACHINE_CONFIG_POOLS)}
        everybody = [machines[name].node for name in sorted(machines)]
        read = [pools.read(found) for found in groups.values()]
        found = pools.members(read, everybody) if groups else pools.members_by_role(everybody)
        images = _Images(self._api)
        return {
            name: _rollout(groups.get(name, {}), [machines[node.name] for node in members], images)
            for name, members in found.nodes.items()
            if name in pools_wanted
        }


class _Images:
    """The images that rendered MachineConfigs name, each read once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, str] = {}

    def of(self, machine: _Machine, image: str, config: str) -> str:
        """The image by either annotation; '' when nothing says it."""
        said = machine.said
        return said.get(image) or (self._rendered(said[config]) if config in said else "")

    def _rendered(self, name: str) -> str:
        if name not in self._known and len(self._known) < _MOST_CONFIGS:
            found = self._api.get(MACHINE_CONFIGS, name)
            self._known[name] = _text(mapping(found, "spec").get("osImageURL"))
        return self._known.get(name, "")


def _rollout(group: Json, members: Collection[_Machine], images: _Images) -> PoolRollout:
    conditions = map(mapping, sequence(mapping(group, "status").get("conditions")))
    return PoolRollout(
        nodes=tuple(
            NodeImage(
                name=machine.node.name,
                current=images.of(machine, *_CURRENT),
                desired=images.of(machine, *_DESIRED),
                state=machine.said.get("state", ""),
                reason=machine.said.get("reason", ""),
            )
            for machine in members
        ),
        paused=mapping(group, "spec").get("paused") is True,
        settled=not any(one.get("type") == "Updated" and one.get("status") == "False" for one in conditions),
    )


def _machine(found: Json) -> _Machine:
    annotations = mapping(found, "metadata", "annotations")
    said = {key: _text(annotations.get(_PREFIX + key)) for key in _KEPT}
    return _Machine(nodes.read(found), {key: text for key, text in said.items() if text})


def _text(found: object) -> str:
    """Somebody else's text, fit to be shown on one line."""
    return intern(printable(found)) if isinstance(found, str) else ""
