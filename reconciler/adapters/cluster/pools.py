"""What is kept of a MachineConfigPool, and which nodes are in which pool.

Belongs here: the rule by which the Machine Config Operator gives each node to one pool. Does not belong here: what is
written on pools (`recording`).

Source of the rule: openshift/machine-config-operator, pkg/helpers/helpers.go, GetPoolsForNode and ListPools. A node of
several pools besides `master` and `worker` is nobody's. Else it is `master`'s, or the other pool's, or `worker`'s, in
this order. A Windows node is nobody's, and a selector without requirements takes no node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reconciler.adapters.cluster.nodes import Node
from reconciler.adapters.cluster.parts import mapping, name_of
from reconciler.adapters.cluster.selectors import Selector
from reconciler.core.model import GROUP
from reconciler.ports.cluster import Json

SUSPEND: Final = f"{GROUP}/suspend"
REQUESTED: Final = f"{GROUP}/requestedAt"
_MASTER: Final = "master"
_WORKER: Final = "worker"
_ROLE: Final = "node-role.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool. `fault` says what is wrong with its selector, '' for nothing."""

    name: str
    selector: Selector
    suspended: bool = False
    requested: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Members:
    """The nodes of each pool, and for each node that several pools claim the names of these."""

    nodes: Mapping[str, Sequence[Node]]
    disputed: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read(found: Json) -> Pool:
    """What matters of a MachineConfigPool's JSON."""
    annotations = mapping(found, "metadata", "annotations")
    selector, fault = Selector(), ""
    try:
        selector = Selector.parse(mapping(found, "spec").get("nodeSelector"))
    except ValueError as error:
        fault = str(error)
    return Pool(
        name=name_of(found),
        selector=selector,
        suspended=annotations.get(SUSPEND) == "true",
        requested=str(annotations.get(REQUESTED) or ""),
        fault=fault,
    )


def members(pools: Iterable[Pool], nodes: Iterable[Node]) -> Members:
    """Who is in which pool."""
    selectors = {pool.name: pool.selector for pool in pools}
    found: dict[str, list[Node]] = {name: [] for name in sorted(selectors)}
    disputed: dict[str, Sequence[str]] = {}
    for node in nodes:
        if not node.is_linux:
            continue
        claims = sorted(name for name, selector in selectors.items() if selector.takes(node.labels))
        custom = [name for name in claims if name not in (_MASTER, _WORKER)]
        if len(custom) > 1:
            disputed[node.name] = custom
        elif claims:
            found[_MASTER if _MASTER in claims else (custom or claims)[0]].append(node)
    return Members(found, disputed)


def members_by_role(nodes: Iterable[Node]) -> Members:
    """Who is in which pool where there are no MachineConfigPools: the label `node-role.kubernetes.io/<pool>` says it. A
    node with several roles is in each of these pools, only not in `worker`."""
    found: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        roles = {label.removeprefix(_ROLE) for label in node.labels if label.startswith(_ROLE)} - {""}
        if node.is_linux:
            for role in roles - {_WORKER} or roles:
                found[role].append(node)
    return Members(dict(sorted(found.items())))
