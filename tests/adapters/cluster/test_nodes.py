"""What is read of a node, and which builds its scheduler would let in."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.adapters.cluster.nodes import Node, Placement, Taint, read
from reconciler.core.model import Arch
from reconciler.settings import JobSettings, Toleration

GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
ARCH_TAINT = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoExecute"}


def node(**more: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux", **more.get("labels", {})}
    return {
        "metadata": {
            "name": "n",
            "labels": {k: v for k, v in labels.items() if v is not None},
            "annotations": {"big": "x"},
        },
        "spec": more.get("spec", {}),
        "status": {
            "nodeInfo": {"architecture": more.get("arch", "arm64"), "kernelVersion": "6"},
            "conditions": [{"type": "Ready", "status": more.get("ready", "True")}],
            "images": [{"names": ["a"], "sizeBytes": 1}] * 50,
        },
    }


def test_what_matters_is_kept() -> None:
    found = read(node(spec={"taints": [GPU], "unschedulable": True}, ready="Unknown"))
    assert found == Node(
        "n",
        "arm64",
        {"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux"},
        (Taint("gpu", "yes", "NoSchedule"),),
        schedulable=False,
        ready=False,
    )
    assert found.arch is Arch.ARM64


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"metadata": None, "spec": None, "status": None},
        {"metadata": [], "spec": {"taints": "x"}, "status": {"nodeInfo": 3, "conditions": [None, 4]}},
        {
            "metadata": {"labels": ["a"]},
            "spec": {"taints": [None]},
            "status": {"nodeInfo": {"architecture": None}},
        },
    ],
)
def test_an_odd_node_says_less_and_breaks_nothing(found: dict[str, Any]) -> None:
    made = read(found)
    assert made.arch is None
    assert not made.ready
    assert made.takes_jobs(Placement()) is None


@pytest.mark.parametrize(
    ("written", "arch"), [("x86_64", Arch.AMD64), ("aarch64", Arch.ARM64), ("riscv64", None)]
)
def test_every_spelling_of_an_architecture_is_known(written: str, arch: Arch | None) -> None:
    assert read(node(arch=written)).arch is arch


@pytest.mark.parametrize(
    ("more", "takes"),
    [
        ({}, True),
        ({"ready": "False"}, False),
        ({"ready": "Unknown"}, False),
        ({"spec": {"unschedulable": True}}, False),
        ({"labels": {"kubernetes.io/arch": None}}, False),
        ({"labels": {"kubernetes.io/arch": "amd64"}}, False),
        ({"labels": {"kubernetes.io/os": None}}, False),
        ({"labels": {"kubernetes.io/os": "windows"}}, False),
        ({"arch": "riscv64", "labels": {"kubernetes.io/arch": "riscv64"}}, False),
        ({"spec": {"taints": [GPU]}}, False),
        ({"spec": {"taints": [{**GPU, "effect": "NoExecute"}]}}, False),
        ({"spec": {"taints": [{**GPU, "effect": "PreferNoSchedule"}]}}, True),
        ({"spec": {"taints": [ARCH_TAINT]}}, True),
        ({"spec": {"taints": [ARCH_TAINT, GPU]}}, False),
    ],
)
def test_a_build_runs_where_the_scheduler_would_put_it(more: dict[str, Any], takes: bool) -> None:
    assert read(node(**more)).takes_jobs(Placement.of_jobs(JobSettings())) is (Arch.ARM64 if takes else None)


@pytest.mark.parametrize(
    ("toleration", "takes"),
    [
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Equal", value="yes"), True),
        (Toleration(key="gpu", value="yes"), True),
        (Toleration(key="gpu", value="no"), False),
        (Toleration(key="gpu"), False),
        (Toleration(key="tpu", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(value="yes"), False),
    ],
)
def test_a_taint_is_tolerated_as_kubernetes_does(toleration: Toleration, takes: bool) -> None:
    found = read(node(spec={"taints": [GPU]}))
    assert found.takes_jobs(Placement((toleration,))) is (Arch.ARM64 if takes else None)


def test_a_configured_selector_counts() -> None:
    found = read(node(labels={"disk": "fast"}))
    assert found.takes_jobs(Placement(selector=(("disk", "fast"),))) is Arch.ARM64
    assert found.takes_jobs(Placement(selector=(("disk", "slow"),))) is None


@pytest.mark.parametrize(
    ("placement", "takes"),
    [
        (Placement(), False),
        (Placement((Toleration(key="kubernetes.io/arch", operator="Exists"),)), True),
        (Placement((Toleration(key="gpu", operator="Exists"),)), False),
    ],
)
def test_builds_that_tolerate_nothing_of_their_own_stay_away_from_a_taint(
    placement: Placement, takes: bool
) -> None:
    assert read(node(spec={"taints": [ARCH_TAINT]})).takes_jobs(placement) is (Arch.ARM64 if takes else None)


def test_what_is_imposed_outdoes_the_architecture_itself() -> None:
    found = read(node(labels={"disk": "fast"}))
    wish = (("disk", "slow"),)
    assert found.takes_jobs(Placement(selector=wish, imposed=(("disk", "fast"),))) is Arch.ARM64
    assert found.takes_jobs(Placement(imposed=(("kubernetes.io/arch", "amd64"),))) is None
