"""Exporting a build context: exact files, and nothing outside the folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from reconciler import process
from reconciler.adapters.builders import context
from reconciler.adapters.builders.script import UnusableRequest
from reconciler.core.model import TreeEntry
from tests.adapters.builders.conftest import ENV
from tests.adapters.builders.world import File, Tree


def export(root: Path, files: dict[str, File]) -> Path:
    tree = Tree()
    context.export(tree.add(files), tree, root / "context")
    return root / "context"


def test_files_modes_links_and_times_are_exact_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        root = export(
            tmp_path,
            {
                "a": b"same",
                "b/c/d": ("100755", b"same"),
                "b/new\nline \udcff": b"\0\r\n",
                "b/up": ("120000", b"../a"),
                "b/loop": ("120000", b"loop"),
            },
        )
    finally:
        os.umask(before)
    found = {}
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        assert status.st_mtime == 0, path
        kind = "" if path.is_symlink() else oct(stat.S_IMODE(status.st_mode))
        found[str(path.relative_to(root))] = kind
    assert found == {
        ".": "0o755",
        "a": "0o644",
        "b": "0o755",
        "b/c": "0o755",
        "b/c/d": "0o755",
        "b/new\nline \udcff": "0o644",
        "b/up": "",
        "b/loop": "",
    }
    assert (root / "b/c/d").read_bytes() == b"same"
    assert (root / "b/new\nline \udcff").read_bytes() == b"\0\r\n"
    assert os.readlink(root / "b/up") == "../a"


def test_an_empty_context_is_an_empty_folder(tmp_path: Path) -> None:
    assert list(export(tmp_path, {}).iterdir()) == []


@pytest.mark.parametrize(
    ("links", "leaving"),
    [
        ({"l": "/etc/passwd"}, "l"),
        ({"l": ".."}, "l"),
        ({"a/l": "../.."}, "a/l"),
        ({"a/l": "b/../../../x"}, "a/l"),
        # Through another link: what looks like `a/x` is `../x`.
        ({"a/d": "..", "l": "a/d/../x"}, "l"),
        ({"a/d": "/", "l": "a/d/x"}, "a/d, l"),
    ],
)
def test_links_that_leave_are_refused_by_name(tmp_path: Path, links: dict[str, str], leaving: str) -> None:
    with pytest.raises(UnusableRequest, match="symlinks lead out") as refused:
        export(tmp_path, {path: ("120000", target.encode()) for path, target in links.items()})
    assert refused.value.message.endswith(f": {leaving}")
    assert not (tmp_path / "context").exists()


@pytest.mark.parametrize("target", ["x", "./a//b/../..", "a/../a", "deep/../../l", "x" * 4095])
def test_links_that_stay_are_kept(tmp_path: Path, target: str) -> None:
    root = export(tmp_path, {"a/l": ("120000", target.encode())})
    assert os.readlink(root / "a/l") == target


def test_long_chains_of_links_end(tmp_path: Path) -> None:
    links: dict[str, File] = {f"l{at}": ("120000", f"l{at + 1}/l{at + 1}".encode()) for at in range(60)}
    assert len(list(export(tmp_path, links).iterdir())) == 60


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["../x"], "'../x'"),
        (["/etc/x"], "'/etc/x'"),
        (["a//b"], "'a//b'"),
        (["a/./b"], "'a/./b'"),
        ([""], "''"),
        (["a\0"], r"'a\\x00'"),
        (["a", "a/b"], "a is both a file and a folder"),
        (["a", "a-b", "a/b/c"], "a is both a file and a folder"),
    ],
)
def test_trees_that_git_cannot_hold_are_refused(tmp_path: Path, paths: list[str], said: str) -> None:
    with pytest.raises(UnusableRequest, match=said):
        export(tmp_path, {path: ("120000", b"/etc") if path == "a" else b"" for path in paths})
    assert not (tmp_path / "context").exists()


@pytest.mark.parametrize(
    ("mode", "size", "said"),
    [
        ("160000", 0, "x is a submodule"),
        ("040000", 0, "x has the unknown mode 040000"),
        ("120000", 4096, "x is a symlink with a target of 4096 bytes"),
    ],
)
def test_what_is_no_file_is_refused_by_name(tmp_path: Path, mode: str, size: int, said: str) -> None:
    with pytest.raises(UnusableRequest, match=said):
        context.export([TreeEntry("x", mode, "0" * 40, size)], Tree(), tmp_path / "context")


@pytest.mark.parametrize("mode", ["100644", "120000"])
def test_content_that_is_missing_is_named(tmp_path: Path, mode: str) -> None:
    entries = [TreeEntry(f"x/{name}", mode, "0" * 40, 1) for name in "ab"]
    with pytest.raises(FileNotFoundError, match="lacks the content of x/a, x/b"):
        context.export(entries, Tree(), tmp_path / "context")


def test_very_deep_trees_need_no_deep_stack(tmp_path: Path) -> None:
    path = "/".join("d" * 1500)
    try:
        assert (export(tmp_path, {path: b"x"}) / path).read_bytes() == b"x"
    finally:  # pytest's own clean-up is recursive
        process.run(["rm", "-rf", str(tmp_path / "context")], env=ENV, timeout=60)
