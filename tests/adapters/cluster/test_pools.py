"""Which nodes are in which pool: the Machine Config Operator's rule."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.adapters.cluster import pools
from reconciler.adapters.cluster.nodes import Node
from reconciler.adapters.cluster.pools import Members, members, members_by_role, read


def pool(name: str, selector: Any = None) -> pools.Pool:
    usual = {"matchLabels": {f"node-role.kubernetes.io/{name}": ""}}
    return read(
        {"metadata": {"name": name}, "spec": {"nodeSelector": usual if selector is None else selector}}
    )


def node(name: str, *roles: str, **labels: str) -> Node:
    return Node(name, "amd64", {f"node-role.kubernetes.io/{role}": "" for role in roles} | labels)


def names(found: Members) -> dict[str, list[str]]:
    return {pool: [node.name for node in nodes] for pool, nodes in found.nodes.items()}


ALL = [pool("worker"), pool("infra"), pool("master"), pool("gpu")]


@pytest.mark.parametrize(
    ("roles", "owner"),
    [
        (["worker"], "worker"),
        (["infra"], "infra"),
        (["worker", "infra"], "infra"),
        (["master"], "master"),
        (["master", "worker"], "master"),
        (["master", "infra"], "master"),
        (["master", "infra", "worker"], "master"),
        (["worker", "infra", "gpu"], ""),
        (["infra", "gpu"], ""),
        (["master", "infra", "gpu"], ""),
        (["else"], ""),
        ([], ""),
    ],
)
def test_a_node_is_in_one_pool_at_most(roles: list[str], owner: str) -> None:
    found = names(members(ALL, [node("n", *roles)]))
    assert set(found) == {"worker", "infra", "master", "gpu"}
    assert {pool for pool, nodes in found.items() if nodes} == ({owner} if owner else set())


def test_a_node_of_several_pools_is_reported() -> None:
    assert members(ALL, [node("n", "gpu", "infra", "worker")]).disputed == {"n": ["gpu", "infra"]}
    assert members(ALL, [node("n", "infra", "worker")]).disputed == {}


def test_a_windows_node_is_in_no_pool() -> None:
    assert names(members([pool("worker")], [node("n", "worker", **{"kubernetes.io/os": "windows"})])) == {
        "worker": []
    }
    assert names(members_by_role([node("n", "worker", **{"kubernetes.io/os": "windows"})])) == {}


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {}}])
def test_a_pool_without_a_selector_has_no_nodes(selector: Any) -> None:
    assert names(members([pool("worker", selector)], [node("n", "worker")])) == {"worker": []}


def test_a_selector_that_is_wrong_takes_nothing_and_is_said() -> None:
    found = pool("worker", {"matchExpressions": [{"key": "a", "operator": "Like"}]})
    assert "unknown operator 'Like'" in found.fault
    assert names(members([found], [node("n", "worker")])) == {"worker": []}


def test_what_is_asked_of_us_is_read() -> None:
    annotations = {
        "reconciler.machineos.dev/suspend": "true",
        "reconciler.machineos.dev/requestedAt": "2026-01-01",
    }
    found = read({"metadata": {"name": "worker", "annotations": annotations}})
    assert (found.suspended, found.requested) == (True, "2026-01-01")


@pytest.mark.parametrize("value", ["false", "True", "", None, "yes"])
def test_only_the_exact_word_suspends(value: Any) -> None:
    assert not read({"metadata": {"annotations": {"reconciler.machineos.dev/suspend": value}}}).suspended


@pytest.mark.parametrize(
    "found", [{}, {"metadata": None, "spec": None}, {"metadata": {"annotations": 3}, "spec": []}]
)
def test_an_odd_pool_breaks_nothing(found: dict[str, Any]) -> None:
    assert not members([read(found)], [node("n", "worker")]).nodes[""]


def test_without_pools_the_roles_are_they() -> None:
    everybody = [
        node("a", "worker"),
        node("b", "worker", "infra"),
        node("c", "control-plane", "master"),
        node("d"),
        node("e", ""),
    ]
    assert names(members_by_role(everybody)) == {
        "control-plane": ["c"],
        "infra": ["b"],
        "master": ["c"],
        "worker": ["a"],
    }
