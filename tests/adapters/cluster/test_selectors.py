"""Label selectors as Kubernetes reads them."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.adapters.cluster.selectors import Selector

LABELS = {"role": "worker", "zone": "b", "empty": ""}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
        ]
    }


@pytest.mark.parametrize(
    ("found", "takes"),
    [
        ({"matchLabels": {"role": "worker"}}, True),
        ({"matchLabels": {"role": "worker", "zone": "b"}}, True),
        ({"matchLabels": {"role": "worker", "zone": "c"}}, False),
        ({"matchLabels": {"empty": ""}}, True),
        ({"matchLabels": {"missing": ""}}, False),
        (expression("zone", "In", "a", "b"), True),
        (expression("zone", "In", "a"), False),
        (expression("missing", "In", "a"), False),
        (expression("zone", "NotIn", "a"), True),
        (expression("zone", "NotIn", "a", "b"), False),
        (expression("missing", "NotIn", "a"), True),
        (expression("empty", "Exists"), True),
        (expression("missing", "Exists"), False),
        (expression("missing", "DoesNotExist"), True),
        (expression("empty", "DoesNotExist"), False),
        ({"matchLabels": {"role": "worker"}, **expression("zone", "In", "c")}, False),
        ({"matchLabels": {"role": "worker"}, **expression("zone", "In", "b")}, True),
        ({"matchLabels": None, "matchExpressions": None}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_selector_takes_what_meets_all_it_requires(found: Any, takes: bool) -> None:
    assert Selector.parse(found).takes(LABELS) is takes


@pytest.mark.parametrize(
    "found",
    [
        [],
        "role=worker",
        {"matchLabels": ["role"]},
        {"matchExpressions": {"key": "a"}},
        {"matchExpressions": ["a"]},
        {"matchExpressions": [{"operator": "Exists"}]},
        expression("a", "In"),
        expression("a", "NotIn"),
        expression("a", "Exists", "b"),
        expression("a", "DoesNotExist", "b"),
        expression("a", "Gt", "1"),
        expression("a", "in", "b"),
        {"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]},
    ],
)
def test_what_is_no_selector_is_said(found: Any) -> None:
    with pytest.raises(ValueError, match=r"^(is|has) "):
        Selector.parse(found)
