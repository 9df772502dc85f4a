"""Label selectors, as Kubernetes reads them (`metav1.LabelSelector`).

Belongs here: what a selector takes. Does not belong here: whose selector it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT: Final = ("Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label. `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it. A label that is not there is in no set of values, and so NotIn each."""
        match self.operator:
            case "Exists":
                return self.key in labels
            case "DoesNotExist":
                return self.key not in labels
            case "In":
                return labels.get(self.key) in self.values
        return labels.get(self.key) not in self.values


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector. One without requirements takes nothing here: a MachineConfigPool's does not, whatever it does
    elsewhere in Kubernetes."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Read a LabelSelector's JSON; None is one without requirements. Raises ValueError."""
        if found is None:
            return cls()
        if not isinstance(found, Mapping):
            raise ValueError("is no mapping")
        labels = found.get("matchLabels") or {}
        if not isinstance(labels, Mapping):
            raise ValueError("has matchLabels that are no mapping")
        required = [Requirement(str(key), "In", frozenset({str(value)})) for key, value in labels.items()]
        expressions = found.get("matchExpressions") or []
        if not isinstance(expressions, list):
            raise ValueError("has matchExpressions that are no list")
        return cls((*required, *map(_requirement, expressions)))

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is one of its."""
        return bool(self.requirements) and all(each.takes(labels) for each in self.requirements)


def _requirement(found: Any) -> Requirement:
    if not isinstance(found, Mapping) or not isinstance(found.get("key"), str) or not found["key"]:
        raise ValueError("has an expression without a key")
    operator, values = found.get("operator"), found.get("values") or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("has an expression whose values are no texts")
    if operator in _WITH_VALUES and not values:
        raise ValueError(f"has an expression with {operator} and no values")
    if operator in _WITHOUT and values:
        raise ValueError(f"has an expression with {operator} and values")
    if operator not in (*_WITH_VALUES, *_WITHOUT):
        raise ValueError(f"has an expression with the unknown operator {operator!r}")
    return Requirement(found["key"], str(operator), frozenset(values))
