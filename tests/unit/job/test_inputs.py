"""What travels to a build's pod: one archive per context, ConfigMaps that fit, an image when they do not."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.adapters.builders.job import archive, inputs
from reconciler.adapters.builders.script import UnusableRequest
from reconciler.core.model import Arch
from tests.adapters.builders.job.support import request
from tests.adapters.builders.world import File, Tree

ONE_MIB = 1 << 20
"""What the API server takes in one ConfigMap."""


def packed(files: Mapping[str, File], beside: Mapping[str, bytes] | None = None) -> bytes:
    tree = Tree()
    target = io.BytesIO()
    archive.write(tree.add(files), tree, beside or {}, target)
    return target.getvalue()


def unpacked(content: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(
        fileobj=io.BytesIO(content), mode="r:gz", encoding="utf-8", errors="surrogateescape"
    ) as found:
        return {member.name: member for member in found}


NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40
).filter(lambda name: name not in (".", ".."))
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.tuples(st.sampled_from(["100644", "100755"]), st.binary(max_size=50)),
    max_size=6,
).filter(lambda tree: not any(one != other and other.startswith(f"{one}/") for one in tree for other in tree))


@given(TREES)
def test_the_same_files_give_the_same_bytes_in_whatever_order(tree: dict[str, File]) -> None:
    backwards = dict(reversed(tree.items()))
    content = packed(tree)
    assert content == packed(backwards)
    assert content[4:8] == bytes(4)  # gzip's own time
    found = unpacked(content)
    assert {name.removeprefix("context/") for name, m in found.items() if m.isreg()} == set(tree)
    assert {(m.uid, m.gid, m.mtime, m.uname, m.gname) for m in found.values()} == {(0, 0, 0, "", "")}


def test_modes_folders_and_links_are_kept() -> None:
    found = unpacked(
        packed({"a/b": ("100755", b"x"), "a/link": ("120000", b"b"), "c": b""}, {"ignore": b"*"})
    )
    assert {name: (member.mode, member.linkname) for name, member in found.items()} == {
        "ignore": (0o644, ""),
        "context": (0o755, ""),
        "context/a": (0o755, ""),
        "context/a/b": (0o755, ""),
        "context/a/link": (0o777, "b"),
        "context/c": (0o644, ""),
    }


def test_names_need_not_be_text_nor_short() -> None:
    long = "/".join(["d" * 200] * 3)
    assert {"context/\udcff", f"context/{long}/x"} <= unpacked(
        packed({"\udcff": b"", f"{long}/x": b""})
    ).keys()


def test_what_cannot_be_in_a_context_is_refused_before_anything_is_written() -> None:
    tree, target = Tree(), io.BytesIO()
    with pytest.raises(UnusableRequest, match="symlinks lead out of the build context: out"):
        archive.write(tree.add({"out": ("120000", b"/etc/passwd")}), tree, {}, target)
    assert target.getvalue() == b""


def test_an_image_around_an_archive_holds_together() -> None:
    content, layer = packed({"etc/motd": b"hello\n"}), io.BytesIO()
    made = archive.wrap(io.BytesIO(content), layer, Arch.S390X)
    digest = "sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.loads(made.config)
    manifest = json.loads(made.manifest.content)
    assert (config["architecture"], config["os"]) == ("s390x", "linux")
    assert config["rootfs"]["diff_ids"] == [digest]
    assert [(each["digest"], each["size"]) for each in manifest["layers"]] == [
        (digest, len(layer.getvalue()))
    ]
    assert manifest["config"]["digest"] == "sha256:" + hashlib.sha256(made.config).hexdigest()
    assert made.manifest.digest == "sha256:" + hashlib.sha256(made.manifest.content).hexdigest()
    assert made.tag == f"context-{made.manifest.digest[7:23]}"
    with tarfile.open(fileobj=io.BytesIO(layer.getvalue())) as found:
        (member,) = found.getmembers()
        held = found.extractfile(member)
        assert held is not None
        assert (member.name, held.read()) == ("context.tar.gz", content)


def config_map(files: Mapping[str, bytes]) -> dict[str, object]:
    return dict(inputs.config_map(request(Tree()), files, "default", "builds", []))


def test_a_config_map_is_named_by_its_content_and_never_changes() -> None:
    one, other = config_map({"a": b"1"}), config_map({"a": b"2"})
    assert one == config_map({"a": b"1"})
    assert one["metadata"] != other["metadata"]
    assert one["immutable"] is True
    assert "ownerReferences" in str(one["metadata"])


def test_files_that_are_no_text_keep_their_bytes() -> None:
    assert config_map({"Containerfile": b"# \xff", "ignore": "é\n".encode()}) | {"metadata": None} == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": None,
        "immutable": True,
        "data": {"ignore": "é\n"},
        "binaryData": {"Containerfile": base64.b64encode(b"# \xff").decode()},
    }


@given(size=st.integers(0, 2 * inputs.LIMIT), text=st.integers(0, 2 * inputs.LIMIT))
def test_what_fits_is_taken_by_the_api_server(size: int, text: int) -> None:
    asked = request(Tree(), containerfile="#" * text)
    given = inputs.texts(asked, frozenset())
    if inputs.fits(given, size):
        assert given.size + size + len("context.tar.gz") < ONE_MIB
    else:
        # Then the long texts travel with the context, and what is left always fits.
        assert inputs.size_of(given.small) < inputs.LIMIT


def test_the_pods_scripts_are_the_ones_that_we_have() -> None:
    texts = inputs.texts(request(Tree(), ignorefile="*\n"), frozenset({"r.example.com:5000"}))
    assert set(texts.small) == {"annotations", "bases", "build.sh", "job.sh", "registries.conf"}
    assert set(texts.large) == {"Containerfile", "ignore"}
    assert texts.small["job.sh"] == inputs.JOB_SCRIPT.read_bytes()
