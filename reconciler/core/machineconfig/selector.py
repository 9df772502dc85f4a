"""Which MachineConfigs belong to a pool, and in which order they are merged.

Belongs here: labels, roles and order. Does not belong here: what the MachineConfigs say (`merge`).
Sources: the Machine Config Operator's `pkg/controller/render/render_controller.go` (getMachineConfigsForPool: a pool
without a selector, or with an empty one, takes nothing), `pkg/controller/common/helpers.go` (IsCustomPool, and the
order in MergeMachineConfigs: what has the role `worker` first, then the rest, each by name, so that a custom pool's
own configuration wins); k8s.io/apimachinery `pkg/labels/selector.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import PlainValidator, model_validator

from reconciler.core.documents.shape import Strict, one_of, rule
from reconciler.core.machineconfig.values import ROLE, MachineConfig, Place
from reconciler.core.model import Arch
from reconciler.errors import Fault, InvalidInput

_WORKER: Final = "worker"
_BUILT_IN: Final = frozenset({"master", _WORKER, "arbiter"})


class Operator(StrEnum):
    """How a requirement looks at a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(Strict):
    """One of `matchExpressions`."""

    key: str
    operator: Annotated[Operator, PlainValidator(one_of(Operator))]
    values: list[str] | None = None

    @model_validator(mode="after")
    def _values_fit(self) -> Requirement:
        if bool(self.values) != (self.operator in (Operator.IN, Operator.NOT_IN)):
            need = "needs" if not self.values else "takes no"
            raise rule(f"has operator {self.operator}, which {need} values")
        return self

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels meets it."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in (self.values or ())
            case Operator.NOT_IN:
                return labels.get(self.key) not in (self.values or ())
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


class Selector(Strict):
    """Kubernetes' LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None

    @property
    def requirements(self) -> int:
        """How many there are; none means that everything matches."""
        return len(self.match_labels or ()) + len(self.match_expressions or ())

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels meets all of them."""
        wanted = (self.match_labels or {}).items()
        return all(labels.get(key) == value for key, value in wanted) and all(
            requirement.matches(labels) for requirement in self.match_expressions or ()
        )


@dataclass(frozen=True, slots=True)
class Pool:
    """What a MachineConfigPool document says of its MachineConfigs; without a selector it takes none."""

    name: str
    at: Place
    selector: Selector | None


def select(
    pool: str, arch: Arch, configs: Iterable[MachineConfig], pools: Iterable[Pool] = ()
) -> tuple[MachineConfig, ...]:
    """The pool's MachineConfigs for an architecture, in the order in which they are merged: later ones win.

    Raises InvalidInput when two of them, or two documents of the pool, have the same name.
    """
    documents = [found for found in pools if found.name == pool]
    faults = _namesakes(((found.name, found.at) for found in documents), "MachineConfigPool")
    chosen = [
        config
        for config in configs
        if not config.output and config.arch in (None, arch) and takes(pool, config.labels, documents)
    ]
    faults += _namesakes(((config.name, config.at) for config in chosen), "MachineConfig")
    if faults:
        raise InvalidInput(faults)
    return tuple(sorted(chosen, key=lambda config: (config.role != _WORKER, config.name)))


def takes(pool: str, labels: Mapping[str, str], documents: Sequence[Pool]) -> bool:
    """Whether a pool takes a MachineConfig with these labels. `documents` are the pool's own; the first counts."""
    if documents:
        selector = documents[0].selector
        return selector is not None and selector.matches(labels)
    return labels.get(ROLE, "") in _roles(pool)


def _roles(pool: str) -> frozenset[str]:
    return frozenset({pool}) if pool in _BUILT_IN else frozenset({pool, _WORKER})


def _namesakes(named: Iterable[tuple[str, Place]], kind: str) -> list[Fault]:
    seen: dict[str, Place] = {}
    faults = []
    for name, at in sorted(named, key=lambda item: (item[1], item[0])):
        if name in seen:
            first = seen[name]
            message = f"is a second {kind} {name} (the first is {first.path}:{first.line})"
            faults.append(at.fault(message, "give each its own name; a cluster has one of each"))
        seen.setdefault(name, at)
    return faults
