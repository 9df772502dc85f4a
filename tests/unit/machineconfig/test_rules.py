"""Rules of selection, of what counts as an input, and of hostile input; the trees are in `golden`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.documents import MachineConfigPolicy
from reconciler.core.machineconfig import (
    EXTENSIONS,
    KERNELS,
    Entry,
    KernelType,
    Kind,
    Layer,
    content,
    packages_of,
    render,
    select,
)
from reconciler.core.machineconfig.documents import API_VERSION
from reconciler.core.machineconfig.tree import MAX_BYTES, MAX_ENTRIES
from reconciler.core.machineconfig.values import Content, FileNode, Ignition
from reconciler.core.model import Arch, ImageRef
from reconciler.errors import Fault, InvalidInput
from reconciler.process import run
from tests.unit.machineconfig.encodings import document, written
from tests.unit.machineconfig.hostile import HOSTILE, HostileCase
from tests.unit.machineconfig.listing import layer_of, read

ROOT = Path(__file__).parents[3]
IMAGE, UPSTREAM = MachineConfigPolicy.IMAGE, MachineConfigPolicy.UPSTREAM

FULL = Layer(
    entries=(Entry("/etc/x", Kind.FILE, 0o644, content=b"x"), Entry("/etc/y", Kind.SYMLINK, target="x")),
    removals=("/etc/old",),
    unmasked=("/etc/systemd/system/u.service",),
    enabled=("e.service",),
    disabled=("d.service",),
    kernel_arguments=("a", "b"),
    extensions=("usbguard",),
    kernel_type=KernelType.REALTIME,
    os_image=ImageRef("quay.io/os", "1"),
    extensions_image=ImageRef("quay.io/extensions", "1"),
    fips=True,
    warnings=(Fault("a.yaml", 1, "x"),),
)
CHANGES: dict[str, tuple[dict[str, Any], bool, bool]] = {
    # what changes, and whether it counts by `image` and by `upstream`
    "content": ({"entries": (replace(FULL.entries[0], content=b"y"), FULL.entries[1])}, True, False),
    "mode": ({"entries": (replace(FULL.entries[0], mode=0o600), FULL.entries[1])}, True, False),
    "user": ({"entries": (replace(FULL.entries[0], user="core"), FULL.entries[1])}, True, False),
    "group": ({"entries": (replace(FULL.entries[0], group="core"), FULL.entries[1])}, True, False),
    "target": ({"entries": (FULL.entries[0], replace(FULL.entries[1], target="z"))}, True, False),
    "kind": ({"entries": (FULL.entries[0], replace(FULL.entries[1], kind=Kind.HARDLINK))}, True, False),
    "removals": ({"removals": ()}, True, False),
    "unmasked": ({"unmasked": ()}, True, False),
    "enabled": ({"enabled": ()}, True, False),
    "disabled": ({"disabled": ()}, True, False),
    "kernel arguments": ({"kernel_arguments": ("b", "a")}, True, True),
    "extensions": ({"extensions": ()}, True, True),
    "kernel type": ({"kernel_type": KernelType.DEFAULT}, True, True),
    "image": ({"os_image": ImageRef("quay.io/os", "2")}, True, True),
    "extensions image": ({"extensions_image": ImageRef("quay.io/extensions", "2")}, True, False),
    "fips": ({"fips": False}, False, False),
    "warnings": ({"warnings": ()}, False, False),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_counts_by_which_policy(what: str) -> None:
    change, image, upstream = CHANGES[what]
    other = replace(FULL, **change)
    assert other != FULL
    assert (other.canonical(IMAGE) != FULL.canonical(IMAGE)) is image
    assert (other.canonical(UPSTREAM) != FULL.canonical(UPSTREAM)) is upstream


def test_the_extensions_image_counts_only_where_packages_come_from_it() -> None:
    one = Layer(extensions_image=ImageRef("quay.io/extensions", "1"))
    other = Layer(extensions_image=ImageRef("quay.io/extensions", "2"))
    assert one.canonical(IMAGE) == other.canonical(IMAGE) == Layer().canonical(IMAGE)


def test_nothing_at_all_is_a_layer_too() -> None:
    assert render((), Arch.S390X) == Layer()
    bare = {"apiVersion": API_VERSION, "kind": "MachineConfig", "metadata": {"name": "a"}}
    specs: tuple[dict[str, Any] | None, ...] = (None, {}, {"config": {}}, {"config": None})
    assert read(written([bare]))[0][0].ignition == Ignition()
    for spec in specs:
        configs, _ = read(written([{**bare, "spec": spec}]))
        assert render(configs, Arch.AMD64) == Layer()


def chosen(pool: str, *documents: dict[str, Any], arch: Arch = Arch.AMD64) -> list[str]:
    configs, pools = read(written(list(documents)))
    return [config.name for config in select(pool, arch, configs, pools)]


def test_roles_of_built_in_and_custom_pools() -> None:
    documents = [
        document(f"{role}-config", [], role=role) for role in ("master", "worker", "arbiter", "infra")
    ]
    assert chosen("worker", *documents) == ["worker-config"]
    assert chosen("master", *documents) == ["master-config"]
    assert chosen("arbiter", *documents) == ["arbiter-config"]
    assert chosen("infra", *documents) == ["worker-config", "infra-config"]
    assert chosen("other", *documents) == ["worker-config"]


def test_a_pool_document_decides_alone() -> None:
    documents = [document("10-w", []), document("20-i", [], role="infra")]
    pool: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "MachineConfigPool",
        "metadata": {"name": "infra"},
    }
    assert chosen("infra", *documents, pool | {"spec": {"paused": True}}) == []
    only = {"matchLabels": {"machineconfiguration.openshift.io/role": "infra"}}
    assert chosen("infra", *documents, pool | {"spec": {"machineConfigSelector": only}}) == ["20-i"]
    assert chosen("worker", *documents, pool | {"spec": {"machineConfigSelector": only}}) == ["10-w"]
    key = "machineconfiguration.openshift.io/role"
    for operator, values, found in (
        ("In", ["infra", "x"], ["20-i"]),
        ("NotIn", ["infra"], ["10-w"]),
        ("Exists", None, ["10-w", "20-i"]),
        ("DoesNotExist", None, []),
    ):
        expression = {"key": key, "operator": operator, "values": values}
        selector = {"machineConfigSelector": {"matchExpressions": [expression]}}
        assert chosen("infra", *documents, pool | {"spec": selector}) == found


def test_two_documents_of_one_pool_are_a_fault() -> None:
    pool = {"apiVersion": API_VERSION, "kind": "MachineConfigPool", "metadata": {"name": "infra"}, "spec": {}}
    with pytest.raises(InvalidInput, match="is a second MachineConfigPool infra"):
        chosen("infra", pool, pool)
    assert chosen("worker", pool, pool) == []


def test_one_name_for_each_architecture_is_no_fault() -> None:
    documents = [document("a", []), document("a", [])]
    for found, arch in zip(documents, ("x86_64", "arm64"), strict=True):
        found["metadata"]["labels"]["reconciler.machineos.dev/arch"] = arch
    assert chosen("worker", *documents) == ["a"]
    assert chosen("worker", *documents, arch=Arch.S390X) == []
    with pytest.raises(InvalidInput, match="second MachineConfig a"):
        chosen("worker", documents[0], documents[0])


def test_no_secret_is_kept() -> None:
    found = document("a", [])
    user: dict[str, Any] = {
        "name": "core",
        "passwordHash": "$6$secret",
        "sshAuthorizedKeys": ["ssh-ed25519 secret"],
    }
    found["spec"]["config"]["passwd"] = {"users": [user]}
    configs, _ = read(written([found]))
    assert "secret" not in repr((configs, render(configs, Arch.AMD64)))
    user["passwordHash"] = 5
    with pytest.raises(InvalidInput) as caught:
        read(written([found]))
    assert "secret" not in str(caught.value)


def test_packages() -> None:
    assert packages_of(["usbguard", "kerberos", "usbguard"]) == ("krb5-workstation", "libkadm5", "usbguard")
    assert packages_of(EXTENSIONS)
    assert set(KERNELS) == set(KernelType)


def test_a_layer_has_a_ceiling() -> None:
    each = 1 << 20
    count = MAX_BYTES // each + 1
    nodes = [{"path": f"/etc/x{i}", "contents": {"source": "data:,x"}} for i in range(count)]
    configs, _ = read(written([document(f"{i}-config", [node]) for i, node in enumerate(nodes)]))
    grown = []
    for config in configs:
        (node,) = config.ignition.nodes
        assert isinstance(node, FileNode)
        large = replace(node, contents=Content(bytes(each)))
        grown.append(replace(config, ignition=replace(config.ignition, nodes=(large,))))
    assert len(render(grown[:-1], Arch.AMD64).entries) == count - 1
    with pytest.raises(InvalidInput, match="is more than a layer takes"):
        render(grown, Arch.AMD64)
    assert count < MAX_ENTRIES


@pytest.mark.parametrize(
    ("source", "data"),
    [
        ("data:,", b""),
        ("data:,a+b%2B", b"a+b+"),
        ("data:,a,b;c", b"a,b;c"),
        ("data:;base64,", b""),
        ("data:text/,x", b"x"),
        ("data:x-own/thing,x", b"x"),
        ('data:text/plain;a="b,;\\"c";base64,YQ==', b"a"),
    ],
)
def test_data_urls_that_upstream_reads(source: str, data: bytes) -> None:
    assert content.decoded(source, compressed=False, room=100) == data


@pytest.mark.parametrize(
    "source",
    [
        "data:", "DATA:,x", "data:plain,x", "data:font/woff,x", "data:text/plain;charset,x", "data:;base64;a=b,YQ==",
        "data:;BASE64,YQ==", "data:;base64,YQ", "data:;base64,YQ==\n", "data:;base64,Y-_=", "data:;base64,YQ%3D%3D",
        "data:,a\n", "data:,ä", "data:,%4", "data:,%zz", "data:,a#b", "data:,[a]", "data:;a=,x", "http://x/y", "x",
    ],
)  # fmt: skip
def test_data_urls_that_upstream_refuses(source: str) -> None:
    with pytest.raises(content.Unreadable):
        content.decoded(source, compressed=False, room=100)


def test_room_is_shared_by_all_files_of_a_document() -> None:
    assert content.decoded("data:,abc", compressed=False, room=3) == b"abc"
    with pytest.raises(content.Unreadable, match="takes the files of this MachineConfig over"):
        content.decoded("data:,abc", compressed=False, room=2)


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.name)
def test_hostile_input_has_a_fault(case: HostileCase) -> None:
    files = [("a.yaml", case.text().encode())]
    if not case.message:
        assert layer_of(files).canonical(IMAGE)
        return
    with pytest.raises(InvalidInput) as caught:
        layer_of(files)
    first = caught.value.faults[0]
    assert case.message in first.message
    assert len(caught.value.faults) <= 101
    assert first.line
    assert len(str(first)) < 500


def test_hostile_input_costs_little_and_leaves_the_process_alive() -> None:
    """In a process of its own with 400 MiB and a minute of CPU."""
    argv = [sys.executable, "-m", "tests.unit.machineconfig.hostile"]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    finished = run(argv, env=env, timeout=240, cwd=ROOT)
    assert (finished.status, finished.stderr) == (0, b"")
    assert finished.stdout.decode().split() == [str(len(HOSTILE))]
