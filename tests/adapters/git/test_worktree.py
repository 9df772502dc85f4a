from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.adapters.git.worktree import UNCOMMITTED, open_folder
from reconciler.core.model import TreeEntry
from reconciler.errors import GitError, InvalidInput
from reconciler.ports import Objects
from tests.adapters.git.support import clone_of, commit, descriptors, git, hook


def paths(objects: Objects, under: str = "") -> list[str]:
    return [entry.path for entry in objects.tree(objects.resolve("HEAD"), under)]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return clone_of(tmp_path / "work")


def test_what_an_author_has_is_what_git_would_commit(work: Path) -> None:
    commit(work, {"kept": b"1", "deleted": b"1", "changed": b"1", ".gitignore": b"*.log\n", "sub/x": b"1"})
    (work / "deleted").unlink()
    (work / "changed").write_bytes(b"22")
    (work / "new").write_bytes(b"333")
    (work / "noise.log").write_bytes(b"")
    (work / "staged").write_bytes(b"s")
    git(work, "add", "staged")
    objects = open_folder(work)
    assert objects.resolve("whatever") == UNCOMMITTED
    entries = objects.tree(UNCOMMITTED)
    assert [e.path for e in entries] == [".gitignore", "changed", "kept", "new", "staged", "sub/x"]
    content = dict(objects.blobs(e.oid for e in entries))
    assert {e.path: content[e.oid] for e in entries if e.path in ("changed", "new")} == {
        "changed": b"22",
        "new": b"333",
    }


def test_only_some_files_and_a_single_state(work: Path) -> None:
    for name in ("a/b/c", "a/bb", "e"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_bytes(b"")
    objects = open_folder(work)
    assert [e.path for e in objects.tree(UNCOMMITTED, "", ["a/b/", "e"])] == ["a/b/c", "e"]
    assert [e.path for e in objects.tree(UNCOMMITTED, "a", ["bb"])] == ["bb"]
    assert [e.path for e in objects.tree(UNCOMMITTED, "a", [""])] == ["b/c", "bb"]
    assert objects.tree(UNCOMMITTED, "", []) == ()
    assert objects.changes(UNCOMMITTED, UNCOMMITTED) == frozenset()
    for commits in (("1" * 40, UNCOMMITTED), (UNCOMMITTED, "1" * 40)):
        with pytest.raises(GitError):
            objects.changes(*commits)


def test_ids_modes_and_sizes_are_those_of_git(work: Path) -> None:
    (work / "run").write_bytes(b"#!/bin/sh\n")
    (work / "run").chmod(0o755)
    (work / "empty").write_bytes(b"")
    (work / "big").write_bytes(os.urandom(3_000_001))
    (work / "link").symlink_to("../outside")
    (work / "sub").mkdir()
    (work / "sub" / "\udcff\n").write_bytes(b"odd")
    before = open_folder(work).tree(UNCOMMITTED)
    commit(work, {})
    listed = git(work, "ls-tree", "-r", "-z", "-l", "HEAD").split("\0")[:-1]
    assert sorted((f"{e.mode} blob {e.oid}", e.path, e.size) for e in before) == sorted(
        (" ".join(line.split()[:3]), line.split("\t", 1)[1], int(line.split()[3])) for line in listed
    )
    assert before == open_folder(work).tree(UNCOMMITTED)


def test_a_folder_below_the_top_is_a_root_of_its_own(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(work, {"top": b"1", "clusters/a/pools/x": b"1", "clusters/a/y": b"2"})
    monkeypatch.chdir(work / "clusters")
    for objects in (open_folder(work / "clusters" / "a"), open_folder(Path("a"))):
        assert paths(objects) == ["pools/x", "y"]
        assert paths(objects, "pools") == ["x"]
        assert paths(objects, "./pools/") == ["x"]
        assert paths(objects, "pool") == []
        with pytest.raises(GitError, match="inside the repository"):
            paths(objects, "..")


def test_outside_a_repository_every_file_counts(tmp_path: Path) -> None:
    for name in ("a", "d/b", "d/.git/config", ".hidden", "d/.gitignore"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"*")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "empty").mkdir()
    objects = open_folder(tmp_path)
    assert paths(objects) == [".hidden", "a", "d/.gitignore", "d/b", "loop"]
    assert [e.path for e in objects.tree(UNCOMMITTED) if e.is_symlink] == ["loop"]


def test_a_folder_that_is_ignored_can_still_be_asked_about(work: Path) -> None:
    commit(work, {".gitignore": b"build/\n"})
    (work / "build" / "sub").mkdir(parents=True)
    (work / "build" / "sub" / "x").write_bytes(b"1")
    assert paths(open_folder(work / "build")) == ["sub/x"]


def test_links_are_not_followed(work: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "f").write_bytes(b"secret")
    commit(work, {"dir/f": b"1"})
    (work / "dir" / "f").unlink()
    (work / "dir").rmdir()
    (work / "dir").symlink_to(tmp_path / "secret")
    (work / "file").symlink_to(tmp_path / "secret" / "f")
    objects = open_folder(work)
    entries = objects.tree(UNCOMMITTED)
    assert [(e.path, e.mode) for e in entries] == [("dir", "120000"), ("file", "120000")]
    assert all(b"/secret" in content for _, content in objects.blobs(e.oid for e in entries))


def test_listing_runs_nothing_that_the_repository_names(work: Path, tmp_path: Path) -> None:
    commit(work, {"f": b"1", ".gitattributes": b"* filter=x\n"})
    trap = tmp_path / "trapped"
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\ntouch {trap}\n")
    script.chmod(0o755)
    hook(work / ".git", "post-index-change", str(script))
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.process"):
        git(work, "config", key, str(script))
    index = (work / ".git" / "index").read_bytes()
    (work / "f").write_bytes(b"2")
    os.utime(work / "f", (1, 1))
    assert paths(open_folder(work)) == [".gitattributes", "f"]
    assert not trap.exists()
    assert (work / ".git" / "index").read_bytes() == index


def test_submodules_and_repositories_inside(work: Path) -> None:
    inner = clone_of(work / "inner")
    commit(inner, {"x": b"1"})
    head = git(inner, "rev-parse", "HEAD")
    commit(work, {"a": b"1"})
    assert git(work, "ls-files", "-s", "inner").startswith(f"160000 {head}")
    commit(clone_of(work / "untracked"), {"y": b"1"})
    modules = [e for e in open_folder(work).tree(UNCOMMITTED) if e.is_submodule]
    assert [(e.path, e.size) for e in modules] == [("inner", 0), ("untracked", 0)]
    with pytest.raises(GitError):
        list(open_folder(work).blobs(e.oid for e in modules))


def test_a_file_named_in_conflict_is_listed_once(work: Path) -> None:
    commit(work, {"f": b"0"})
    git(work, "checkout", "--quiet", "-b", "side")
    commit(work, {"f": b"1"})
    git(work, "checkout", "--quiet", "main")
    commit(work, {"f": b"2"})
    git(work, "merge-file", "-p", "f", "f", "f")
    base, one, two = (git(work, "rev-parse", f"{r}:f") for r in ("main~1", "main", "side"))
    lines = f"0 {'0' * 40}\tf\n100644 {base} 1\tf\n100644 {one} 2\tf\n100644 {two} 3\tf\n"
    git(work, "update-index", "--index-info", stdin=lines.encode())
    assert paths(open_folder(work)) == ["f"]


def test_what_is_neither_file_nor_link_is_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "f").write_bytes(b"1")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert paths(open_folder(tmp_path)) == ["f"]


def test_a_work_tree_without_commits_or_of_another_account(work: Path) -> None:
    (work / "new").write_bytes(b"1")
    assert paths(open_folder(work)) == ["new"]
    for path in (work, *work.rglob("*")):
        os.chown(path, 12345, 12345)
    assert paths(open_folder(work)) == ["new"]


def test_a_bare_repository_shows_its_head(work: Path, tmp_path: Path) -> None:
    head = commit(work, {"a": b"1"})
    git(tmp_path, "clone", "--quiet", "--bare", str(work), "bare.git")
    objects = open_folder(tmp_path / "bare.git")
    assert objects.resolve("HEAD") == head
    assert paths(objects) == ["a"]


def test_places_that_are_no_folder(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    for path in (tmp_path / "f", tmp_path / "absent"):
        with pytest.raises(GitError, match=str(path)):
            open_folder(path)


@contextmanager
def nested(root: Path, name: str, depth: int) -> Iterator[None]:
    """Folders in folders with a file in the last, taken away by a program that does not recurse."""
    where = os.open(root, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=where)
        where, above = os.open(name, os.O_RDONLY, dir_fd=where), where
        os.close(above)
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=where))
    os.close(where)
    yield
    subprocess.run(["rm", "-rf", str(root / name)], check=True, timeout=60)


def test_every_folder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    # A path may not be longer than 4096 bytes, but a tree may be deeper than that.
    long = "d" * 250
    with nested(tmp_path, long, 18), pytest.raises(InvalidInput, match="read: File name too long") as caught:
        open_folder(tmp_path)
    assert caught.value.faults[0].path.startswith(long)
    assert caught.value.faults[0].hint


def test_a_tree_deeper_than_the_stack(tmp_path: Path) -> None:
    with nested(tmp_path, "d", 1500):
        assert paths(open_folder(tmp_path)) == ["d/" * 1500 + "f"]


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    for change in ("append", "replace", "remove", "link", "pipe"):
        path = tmp_path / change / "f"
        path.parent.mkdir()
        path.write_bytes(b"1")
        (tmp_path / "other").write_bytes(b"1")
        objects = open_folder(path.parent)
        oids = [e.oid for e in objects.tree(UNCOMMITTED)]
        assert dict(objects.blobs(oids)) == {oids[0]: b"1"}
        if change == "append":
            path.write_bytes(b"12" * 10_000)
        elif change == "replace":
            path.write_bytes(b"2")
        else:
            path.unlink()
        if change == "link":
            path.symlink_to(tmp_path / "other")
        if change == "pipe":
            os.mkfifo(path)
        with pytest.raises(GitError, match="'f'") as caught:
            list(objects.blobs(oids))
        assert "try again" in caught.value.hint


def test_a_folder_has_one_state_and_no_past(work: Path) -> None:
    head = commit(work, {"a": b"1"})
    objects = open_folder(work)
    assert objects.has(UNCOMMITTED)
    assert not objects.has(head)
    assert objects.history(UNCOMMITTED, "a") == ()
    assert objects.committed_at(UNCOMMITTED) == 0
    assert objects.is_ancestor(UNCOMMITTED, UNCOMMITTED)
    assert not objects.is_ancestor(head, UNCOMMITTED)
    for call in (
        lambda: objects.tree(head),
        lambda: objects.committed_at(head),
        lambda: objects.history(head, "a"),
        lambda: objects.is_ancestor(head, head),
        lambda: list(objects.blobs(["1" * 40])),
    ):
        with pytest.raises(GitError):
            call()


def test_equal_files_are_read_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"same")
    objects = open_folder(tmp_path)
    one, two = objects.tree(UNCOMMITTED)
    assert one == TreeEntry("a", "100644", two.oid, 4)
    assert list(objects.blobs([one.oid, two.oid])) == [(one.oid, b"same")]


def test_nothing_stays_open(work: Path) -> None:
    commit(work, {f"f{n}": b"%d" % n for n in range(20)})
    open_folder(work)
    before = descriptors()
    for _ in range(10):
        objects = open_folder(work)
        next(objects.blobs(e.oid for e in objects.tree(UNCOMMITTED)))
    assert descriptors() == before
