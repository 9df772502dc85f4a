"""Strategies: the same files said in every way that Ignition takes, as MachineConfig documents."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

UNRESERVED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!~*'()")
VERSIONS = ("3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0")
MEDIA = (
    "",
    "text/plain",
    "text/plain;charset=utf-8",
    'text/plain;a="b,c"',
    "application/octet-stream",
    ";x=y",
)
ROLE = "machineconfiguration.openshift.io/role"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that is to be: what it is, not how it is said. `owner` is a number or a name."""

    path: str
    data: bytes
    mode: int = 0o644
    user: int | str = 0
    group: int | str = 0


names = st.text("abc.-_", min_size=1, max_size=6).filter(lambda name: name not in (".", ".."))
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/etc/d/" + "/".join(parts))
owners = st.one_of(st.just(0), st.integers(1, 70_000), st.sampled_from(["core", "chrony"]))
wanted = st.builds(Wanted, paths, st.binary(max_size=60), st.integers(0, 0o777), owners, owners)


def apart(files: list[Wanted]) -> bool:
    """Whether none is twice, or below another one."""
    found = sorted(file.path for file in files)
    return all(b != a and not b.startswith(f"{a}/") for a in found for b in found if a is not b)


file_sets = st.lists(wanted, min_size=1, max_size=6).filter(apart)


@st.composite
def resource(draw: st.DrawFn, data: bytes) -> dict[str, Any]:
    """A resource that holds these bytes."""
    if not data and draw(st.booleans()):
        return draw(st.sampled_from([{}, {"source": ""}, {"source": "data:,", "compression": None}]))
    found: dict[str, Any] = {}
    body = data
    if draw(st.booleans()):
        level, cut = draw(st.integers(0, 9)), draw(st.integers(0, len(data)))
        members = [data[:cut], data[cut:]] if draw(st.booleans()) else [data]
        body = b"".join(gzip.compress(member, level, mtime=draw(st.integers(0, 9))) for member in members)
        found["compression"] = "gzip"
    elif draw(st.booleans()):
        found["compression"] = draw(st.sampled_from(["", None]))
    found["source"] = f"data:{draw(st.sampled_from(MEDIA))}{draw(_body(body))}"
    if draw(st.booleans()):
        kind = draw(st.sampled_from(["sha256", "sha512"]))
        found["verification"] = {"hash": f"{kind}-{hashlib.new(kind, data).hexdigest()}"}
    elif draw(st.booleans()):
        found["verification"] = draw(st.sampled_from([{}, None]))
    return found


@st.composite
def _body(draw: st.DrawFn, body: bytes) -> str:
    if draw(st.booleans()):
        return f";base64,{base64.b64encode(body).decode()}"
    escape = draw(st.sampled_from(["%{:02X}", "%{:02x}"]))
    needless = draw(st.sets(st.sampled_from(sorted(UNRESERVED)), max_size=5))
    plain = UNRESERVED - needless
    return "," + "".join(chr(byte) if byte in plain else escape.format(byte) for byte in body)


@st.composite
def _owner(draw: st.DrawFn, owner: int | str) -> dict[str, Any] | None:
    if isinstance(owner, str):
        return {"name": owner}
    if owner:
        return {"id": owner, "name": draw(st.sampled_from(["", None]))}
    return draw(st.sampled_from([None, {}, {"id": 0}, {"name": "root"}, {"name": ""}]))


@st.composite
def said(draw: st.DrawFn, file: Wanted) -> dict[str, Any]:
    """One of `storage.files` that makes this file."""
    node: dict[str, Any] = {"path": file.path}
    if contents := draw(resource(file.data)):
        node["contents"] = contents
    if file.mode != 0o644 or draw(st.booleans()):
        node["mode"] = draw(st.sampled_from([file.mode, f"0{file.mode:o}"])) if file.mode else 0
    for key, owner in (("user", file.user), ("group", file.group)):
        if owner or draw(st.booleans()):
            node[key] = draw(_owner(owner))
    if contents.get("source") is not None and draw(st.booleans()):
        node["overwrite"] = draw(st.sampled_from([True, False, None]))
    return node


def document(
    name: str, nodes: list[dict[str, Any]], version: str = "3.2.0", role: str = "worker"
) -> dict[str, Any]:
    return {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {ROLE: role}},
        "spec": {"config": {"ignition": {"version": version}, "storage": {"files": nodes}}},
    }


@st.composite
def shuffled(draw: st.DrawFn, value: Any) -> Any:
    """The same value with the keys of every mapping in another order."""
    if isinstance(value, dict):
        keys = draw(st.permutations(sorted(value)))
        return {key: draw(shuffled(value[key])) for key in keys}
    if isinstance(value, list):
        return [draw(shuffled(item)) for item in value]
    return value


def written(documents: list[dict[str, Any]]) -> list[tuple[str, bytes]]:
    """Each document as a file; JSON is YAML."""
    return [
        (f"{i}.yaml", json.dumps(found, ensure_ascii=False).encode()) for i, found in enumerate(documents)
    ]


@st.composite
def repositories(draw: st.DrawFn, files: list[Wanted]) -> list[tuple[str, bytes]]:
    """MachineConfigs that together make these files, in any order, split and spelled in any way."""
    order = draw(st.permutations(files))
    cuts = sorted(draw(st.lists(st.integers(0, len(files)), max_size=2)))
    parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(files)], strict=True)]
    numbers = draw(st.permutations(range(len(parts))))
    documents = [
        document(f"{number}-part", [draw(said(file)) for file in part], draw(st.sampled_from(VERSIONS)))
        for number, part in zip(numbers, parts, strict=True)
    ]
    return written([draw(shuffled(found)) for found in documents])
