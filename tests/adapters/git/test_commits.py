from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.adapters.git.mirror import Mirror
from reconciler.errors import GitError
from tests.adapters.git.support import git, remote_with

DATE = 1_700_000_123


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    server, _ = remote_with(tmp_path, {"a": b"1", "dir/b": b"2", "dir/sub/c": b"3", "deep/er/d": b"4"})
    return Mirror(str(server), tmp_path / "cache")


@pytest.fixture
def head(mirror: Mirror) -> str:
    return mirror.fetch("main")


def files(mirror: Mirror, commit: str) -> dict[str, bytes]:
    entries = mirror.tree(commit)
    content = dict(mirror.blobs(entry.oid for entry in entries))
    return {entry.path: content[entry.oid] for entry in entries}


def test_files_are_added_replaced_and_removed_in_one_commit(mirror: Mirror, head: str) -> None:
    changes = {
        "status/worker.yaml": b"new\n",
        "dir/b": b"",
        "deep/er/d": None,
        "nope/x": None,
        "top": b"\0\xff\n",
    }
    made = mirror.commit(head, changes, "Record images", DATE)
    assert files(mirror, made) == {
        "a": b"1",
        "dir/b": b"",
        "dir/sub/c": b"3",
        "status/worker.yaml": b"new\n",
        "top": b"\0\xff\n",
    }
    assert mirror.is_ancestor(head, made)
    assert mirror.committed_at(made) == DATE
    assert mirror.history(made, "status/worker.yaml") == (made,)


def test_the_same_call_makes_the_same_commit_anywhere(mirror: Mirror, head: str, tmp_path: Path) -> None:
    changes = {"status/b": b"2", "status/a": b"1"}
    made = mirror.commit(head, changes, "Record", DATE)
    other = Mirror(str(tmp_path / "server.git"), tmp_path / "elsewhere")
    assert other.fetch("main") == head
    assert other.commit(head, dict(reversed(changes.items())), "Record\n\n", DATE) == made
    assert mirror.commit(head, changes, "Record", DATE + 1) != made
    assert mirror.commit(head, changes, "record", DATE) != made


def test_what_a_commit_says(mirror: Mirror, head: str, tmp_path: Path) -> None:
    made = mirror.commit(head, {"x": b"1"}, "Subject\n\nBöedy\nTrailer: 1", 5)
    mirror.push("main", made)
    tree = git(tmp_path / "server.git", "rev-parse", f"{made}^{{tree}}")
    assert git(tmp_path / "server.git", "cat-file", "commit", made) == (
        f"tree {tree}\nparent {head}\n"
        "author reconciler <reconciler@machineos.dev> 5 +0000\n"
        "committer reconciler <reconciler@machineos.dev> 5 +0000\n\n"
        "Subject\n\nBöedy\nTrailer: 1"
    )
    assert git(tmp_path / "server.git", "fsck", "--strict") == ""


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"a": b"1"},
        {"nope": None},
        {"dir/nope": None, "nope/nope/nope": None},
        {"dir/b": b"2", "dir/x": None},
    ],
)
def test_no_change_makes_no_commit(mirror: Mirror, head: str, changes: Mapping[str, bytes | None]) -> None:
    assert mirror.commit(head, changes, "Record", DATE) == head


def test_folders_go_with_their_last_file(mirror: Mirror, head: str) -> None:
    made = mirror.commit(
        head, {"dir/b": None, "dir/sub/c": None, "deep/er/d": None, "a": None}, "Empty", DATE
    )
    assert files(mirror, made) == {}
    again = mirror.commit(made, {"dir/sub/c": b"3"}, "Back", DATE)
    assert files(mirror, again) == {"dir/sub/c": b"3"}


def test_modes_stay_and_other_kinds_of_entry_are_kept(tmp_path: Path) -> None:
    server, author = remote_with(tmp_path, {"dir/run": b"#!"})
    (author / "dir" / "run").chmod(0o755)
    (author / "dir" / "link").symlink_to("run")
    git(author, "update-index", "--add", "--cacheinfo", f"160000,{'2' * 40},dir/module")
    git(author, "add", "dir/run", "dir/link")
    git(author, "commit", "--quiet", "-m", "kinds")
    git(author, "push", "--quiet", "origin", "main")
    mirror = Mirror(str(server), tmp_path / "cache")
    head = mirror.fetch("main")
    made = mirror.commit(head, {"dir/run": b"#!/bin/sh", "dir/new": b""}, "Change", DATE)
    assert {entry.path: entry.mode for entry in mirror.tree(made)} == {
        "dir/link": "120000",
        "dir/module": "160000",
        "dir/new": "100644",
        "dir/run": "100755",
    }
    for path in ("dir/link", "dir/module", "dir/link/x", "dir/module/x"):
        for content in (b"x", None):
            with pytest.raises(GitError, match="cannot write"):
                mirror.commit(head, {path: content}, "Replace", DATE)


@pytest.mark.parametrize(
    "changes",
    [
        {"dir": b"x"},
        {"dir": None},
        {"dir/sub": b"x"},
        {"a/x": b"x"},
        {"a": None, "a/x": b"x"},
        {"new": b"x", "new/x": b"y"},
    ],
)
def test_a_file_never_takes_the_place_of_a_folder_nor_the_reverse(
    mirror: Mirror, head: str, changes: Mapping[str, bytes | None]
) -> None:
    with pytest.raises(GitError, match="cannot write") as caught:
        mirror.commit(head, changes, "Replace", DATE)
    assert caught.value.hint


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", ".git/config", "a/.GIT/hooks/x", "a\0b"]
)
def test_paths_that_are_none(mirror: Mirror, head: str, path: str) -> None:
    with pytest.raises(GitError, match="is not the path of a file"):
        mirror.commit(head, {path: b"x"}, "Write", DATE)


def test_odd_names_beside_a_change_are_untouched(tmp_path: Path) -> None:
    server, author = remote_with(tmp_path, {"status/w": b"1"})
    names = (b"new\nline", b"\xff\xfe", b"tab\t")
    for name in names:
        (author / "status" / name.decode("utf-8", "surrogateescape")).write_bytes(b"odd")
    git(author, "add", "--all")
    git(author, "commit", "--quiet", "-m", "odd")
    git(author, "push", "--quiet", "origin", "main")
    mirror = Mirror(str(server), tmp_path / "cache")
    made = mirror.commit(
        mirror.fetch("main"), {"status/w": b"2", "status/\udcff\udcfe": None}, "Change", DATE
    )
    assert [e.path for e in mirror.tree(made, "status")] == ["new\nline", "tab\t", "w"]


def test_a_very_deep_path(mirror: Mirror, head: str) -> None:
    path = "/".join(["d"] * 300) + "/f"
    made = mirror.commit(head, {path: b"deep"}, "Deep", DATE)
    assert files(mirror, made)[path] == b"deep"


def test_an_unknown_parent_is_an_error(mirror: Mirror, head: str) -> None:
    for parent in ("1" * 40, "main", head[:10], ""):
        with pytest.raises(GitError):
            mirror.commit(parent, {"a": b"2"}, "Write", DATE)
