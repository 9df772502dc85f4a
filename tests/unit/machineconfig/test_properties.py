"""Laws of MachineConfigs as inputs: what is the same is equal however it is said, what differs is not, and the order of
merging matters where it does upstream and nowhere else."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.documents import MachineConfigPolicy
from reconciler.core.inputs import canonical_json
from reconciler.core.machineconfig import Kind, Layer
from reconciler.core.machineconfig import kargs as kernel
from reconciler.errors import Fault, InvalidInput
from tests.unit.machineconfig.encodings import (
    ROLE,
    Wanted,
    document,
    file_sets,
    repositories,
    said,
    shuffled,
    wanted,
    written,
)
from tests.unit.machineconfig.listing import layer_of

IMAGE = MachineConfigPolicy.IMAGE


def bytes_of(layer: Layer) -> bytes:
    return canonical_json(layer.canonical(IMAGE))


@settings(max_examples=80, deadline=None)
@given(st.data(), file_sets)
def test_the_same_files_are_equal_however_they_are_said(data: st.DataObject, files: list[Wanted]) -> None:
    one = layer_of(data.draw(repositories(files)))
    other = layer_of(data.draw(repositories(files)))
    assert bytes_of(one) == bytes_of(other)
    assert {(e.path, e.mode, e.user, e.group, e.content) for e in one.entries} == {
        (file.path, file.mode, str(file.user), str(file.group), file.data) for file in files
    }


@settings(max_examples=60, deadline=None)
@given(st.data(), file_sets, st.sampled_from(["path", "data", "mode", "user", "group"]))
def test_other_files_are_not_equal(data: st.DataObject, files: list[Wanted], what: str) -> None:
    first = files[0]
    changed = {
        "path": replace(first, path="/etc/other"),
        "data": replace(first, data=first.data + b"x"),
        "mode": replace(first, mode=first.mode ^ 0o100),
        "user": replace(first, user="someone"),
        "group": replace(first, group=99_999),
    }[what]
    one = layer_of(data.draw(repositories(files)))
    other = layer_of(data.draw(repositories([changed, *files[1:]])))
    assert bytes_of(one) != bytes_of(other)


@settings(max_examples=100, deadline=None)
@given(
    st.data(),
    st.lists(
        st.tuples(
            st.sampled_from(["worker", "infra"]), st.lists(wanted, max_size=3, unique_by=lambda f: f.path)
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_later_ones_win_by_role_and_name_and_by_nothing_else(
    data: st.DataObject, configs: list[tuple[str, list[Wanted]]]
) -> None:
    """A model of upstream: of one path the last writer counts, the pool's own after `worker`, each by name."""
    flat = [
        (role, [replace(file, path=f"/etc/p{file.path[-1]}") for file in files]) for role, files in configs
    ]
    flat = [(role, list({file.path: file for file in files}.values())) for role, files in flat]
    names = data.draw(st.permutations([f"{i}0-config" for i in range(len(flat))]))
    model: dict[str, Wanted] = {}
    for _, _, files in sorted(
        (role != "worker", name, files) for name, (role, files) in zip(names, flat, strict=True)
    ):
        model |= {file.path: file for file in files}
    documents = []
    for name, (role, files) in zip(names, flat, strict=True):
        # Everything is given, so that nothing of an earlier file is left.
        nodes: list[dict[str, Any]] = [
            {
                "path": file.path,
                "mode": file.mode,
                "user": {"id": 1},
                "group": {"id": 2},
                "contents": data.draw(said(Wanted("/x", file.data + b"!"))).get("contents"),
            }
            for file in files
        ]
        for node in nodes:
            node["contents"].pop("verification", None)
        documents.append(data.draw(shuffled(document(name, nodes, role=role))))
    layer = layer_of(written(data.draw(st.permutations(documents))), "infra")
    assert {entry.path: (entry.mode, entry.content) for entry in layer.entries} == {
        path: (file.mode, file.data + b"!") for path, file in model.items()
    }


@given(st.permutations([0, 1, 2]))
def test_what_is_a_list_keeps_its_order_and_what_is_a_set_has_none(order: list[int]) -> None:
    parts = ["one", "two", "three"]
    documents = [
        document(f"{place}0-config", [{"path": "/etc/x", "append": [{"source": f"data:,{parts[i]}"}]}])
        for place, i in enumerate(order)
    ]
    documents[0]["spec"]["config"]["storage"]["files"][0]["contents"] = {"source": "data:,"}
    for found, i in zip(documents, order, strict=True):
        found["spec"] |= {"kernelArguments": [parts[i]], "extensions": [["ipsec", "usbguard", "sysstat"][i]]}
    layer = layer_of(written(documents))
    wanted_order = [parts[i] for i in order]
    assert layer.kernel_arguments == tuple(wanted_order)
    assert [e.content for e in layer.entries if e.path == "/etc/x"] == ["".join(wanted_order).encode()]
    assert layer.extensions == ("ipsec", "sysstat", "usbguard")


@given(
    st.lists(
        st.lists(st.sampled_from(["a", 'b="c  d"', "e=ü\\", "f", 'g="\t"', "h=,"]), max_size=4), max_size=4
    )
)
def test_kernel_arguments_come_back_from_the_file(groups: list[list[str]]) -> None:
    flat = [text for group in groups for text in group]
    for items in (flat, ["  ".join(group) for group in groups], [f" {text}\n" for text in flat]):
        found = kernel.arguments(items)
        assert tomllib.loads(kernel.toml(found).decode()) == {"kargs": flat}


def outcome(files: list[tuple[str, bytes]]) -> bytes | tuple[Fault, ...]:
    try:
        return bytes_of(layer_of(files))
    except InvalidInput as error:
        return error.faults


KEYS = [
    "path", "contents", "source", "compression", "mode", "user", "group", "id", "name", "files", "links",
    "directories", "target", "hard", "overwrite", "append", "units", "enabled", "mask", "dropins", "users",
    "sshAuthorizedKeys", "passwordHash", "verification", "hash", "shouldExist", "version",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 1 << 40),
    st.sampled_from([
        "", "/etc/x", "/etc/x/y", "/var/x", "x.service", "x@a.timer", "x.conf", "core", "3.2.0", "data:,x",
        "data:;base64,YQ==", "gzip", "0644", "../x", "[Install]\nWantedBy=a.target\nAlso=x.service", "sha256-0",
    ]),
    st.text(max_size=5),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
NODES = st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), max_size=3)


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("files", "directories", "links"), NODES)),
    NODES,
    NODES,
    VALUES,
)
def test_anything_is_a_layer_or_has_faults(storage: Any, units: Any, users: Any, other: Any) -> None:
    found = document("a", [])
    config = found["spec"]["config"]
    config |= {"storage": storage, "systemd": {"units": units}, "passwd": {"users": users}}
    found["spec"]["kernelArguments"] = other
    files = [("a.yaml", json.dumps(found).encode())]
    first, second = outcome(files), outcome(files)
    assert first == second
    assert isinstance(first, bytes) or (
        first and all(fault.path == "a.yaml" and fault.line for fault in first)
    )


NAMES = st.sampled_from(["a", "b", "c"])
SOUND = st.one_of(
    st.fixed_dictionaries({"path": NAMES.map("/etc/{}".format), "contents": st.just({"source": "data:,x"})}),
    st.fixed_dictionaries(
        {"path": st.tuples(NAMES, NAMES).map(lambda pair: f"/etc/{pair[0]}/{pair[1]}"), "target": NAMES}
    ),
    st.fixed_dictionaries(
        {"path": NAMES.map("/etc/{}".format), "target": NAMES.map("/etc/{}".format), "hard": st.booleans()}
    ),
    st.fixed_dictionaries({"path": NAMES.map("/etc/{}".format), "mode": st.integers(0, 0o7777)}),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(SOUND, max_size=5))
def test_a_layer_can_be_laid_out(nodes: list[dict[str, Any]]) -> None:
    """No entry lies below anything but a folder, no hard link leads to anything but a file, and each place is one."""
    found = document("a", [node for node in nodes if "contents" in node])
    found["spec"]["config"]["storage"] |= {
        "links": [node for node in nodes if "target" in node],
        "directories": [node for node in nodes if "contents" not in node and "target" not in node],
    }
    try:
        layer = layer_of(written([found]))
    except InvalidInput:
        return
    kinds = {entry.path: entry.kind for entry in layer.entries}
    assert len(kinds) == len(layer.entries) == len(nodes)
    assert list(kinds) == sorted(kinds)
    for entry in layer.entries:
        assert kinds.get(entry.path.rpartition("/")[0], Kind.DIRECTORY) is Kind.DIRECTORY
        assert entry.kind is not Kind.HARDLINK or kinds[entry.target] is Kind.FILE


@pytest.mark.parametrize("label", [ROLE, "reconciler.machineos.dev/output"])
def test_what_no_pool_takes(label: str) -> None:
    found = document("a", [{"path": "/etc/x"}])
    found["metadata"]["labels"][label] = "master"
    assert layer_of(written([found])) == Layer()
