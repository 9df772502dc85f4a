"""What is kept of a node, and whether a build could run there.

Belongs here: reading a Node's JSON, its architecture, and the part of the scheduler that matters for it.
Does not belong here: which pool a node is in (`pools`).

Whatever is odd in one node's JSON makes that node say less; it never fails a list of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Any, Final

from reconciler.adapters.cluster.parts import mapping, name_of, sequence
from reconciler.core.model import Arch
from reconciler.ports.cluster import Json
from reconciler.settings import JobSettings, Toleration

ARCH_LABEL: Final = "kubernetes.io/arch"
OS_LABEL: Final = "kubernetes.io/os"
_REPELLING: Final = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """A reason for pods to stay away. `value` may be ''."""

    key: str
    value: str
    effect: str

    def tolerated_by(self, toleration: Toleration) -> bool:
        """As `core/v1` says it: an empty key, effect or operator means all keys, all effects, and Equal."""
        if toleration.effect not in ("", self.effect) or toleration.key not in ("", self.key):
            return False
        if toleration.operator == "Exists":
            return True
        return (
            bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == self.value
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """Where builds may run: the taints that their pods tolerate, and the labels that nodes must have besides the two
    that pin a build to its architecture. What is `imposed` on all of them outdoes even these two."""

    tolerations: tuple[Toleration, ...] = ()
    selector: tuple[tuple[str, str], ...] = ()
    imposed: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_jobs(cls, job: JobSettings) -> Placement:
        """That of Jobs: they tolerate what they are told to, and a taint of their architecture."""
        return cls((Toleration(key=ARCH_LABEL, operator="Exists"), *job.tolerations), job.node_selector)


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `architecture` is what its kubelet found, as written; `labels` are all of them."""

    name: str
    architecture: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    schedulable: bool = True
    ready: bool = True

    @property
    def arch(self) -> Arch | None:
        """The architecture, None for one that is unknown here."""
        try:
            return Arch.parse(self.architecture)
        except ValueError:
            return None

    @property
    def is_linux(self) -> bool:
        """Whether its label does not say otherwise."""
        return self.labels.get(OS_LABEL, "linux") == "linux"

    @property
    def mislabelled(self) -> bool:
        """Whether its label names an architecture that is not its own."""
        label = self.labels.get(ARCH_LABEL)
        return label is not None and self.arch is not None and label != self.arch.value

    def takes_jobs(self, placement: Placement) -> Arch | None:
        """The architecture of builds that the scheduler would put here; None for none.

        A build's pod is pinned by the two labels that every kubelet sets.
        """
        arch = self.arch
        if arch is None or not self.ready or not self.schedulable:
            return None
        pinned = {**dict(placement.selector), ARCH_LABEL: arch.value, OS_LABEL: "linux"}
        pinned |= dict(placement.imposed)
        if any(self.labels.get(key) != value for key, value in pinned.items()):
            return None
        # Taints that only slow down repel nobody.
        repelling = (taint for taint in self.taints if taint.effect in _REPELLING)
        tolerated = all(any(map(taint.tolerated_by, placement.tolerations)) for taint in repelling)
        return arch if tolerated else None


def read(found: Json) -> Node:
    """What matters of a Node's JSON."""
    spec, status = mapping(found, "spec"), mapping(found, "status")
    labels = {intern(str(k)): intern(str(v)) for k, v in mapping(found, "metadata", "labels").items()}
    conditions = map(mapping, sequence(status.get("conditions")))
    return Node(
        name=name_of(found),
        architecture=intern(str(mapping(status, "nodeInfo").get("architecture") or "")),
        labels=labels,
        taints=tuple(sorted(_taint(mapping(taint)) for taint in sequence(spec.get("taints")))),
        schedulable=spec.get("unschedulable") is not True,
        ready=any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions),
    )


def _taint(found: Mapping[str, Any]) -> Taint:
    key, value, effect = (str(found.get(part) or "") for part in ("key", "value", "effect"))
    return Taint(key, value, effect)
