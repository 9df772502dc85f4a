from __future__ import annotations

import os
import shutil
from itertools import islice
from pathlib import Path

import pytest

from reconciler.adapters.git.objects import LocalObjects
from reconciler.core.model import TreeEntry
from reconciler.errors import GitError
from tests.adapters.git.support import bare, children, clone_of, commit, git


def tree_of(where: Path, lines: bytes) -> str:
    """A commit whose root tree has exactly these `mktree -z` lines."""
    tree = git(where, "mktree", "-z", "--missing", stdin=lines)
    return git(where, "commit-tree", tree, "-m", "made by hand")


def blob_of(where: Path, content: bytes) -> str:
    return git(where, "hash-object", "-w", "--stdin", stdin=content)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return clone_of(tmp_path / "work")


def test_opened_from_anywhere_in_a_work_tree(work: Path) -> None:
    head = commit(work, {"clusters/a/x.yaml": b"1"})
    for folder, prefix in (
        (work, ""),
        (work / "clusters", "clusters"),
        (work / "clusters" / "a", "clusters/a"),
    ):
        objects = LocalObjects.open(folder)
        assert (objects.resolve("HEAD"), objects.prefix) == (head, prefix)


def test_opened_by_a_relative_path(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = commit(work, {"sub/x": b"1"})
    monkeypatch.chdir(work / "sub")
    assert LocalObjects.open(Path(".")).resolve("HEAD") == head
    assert LocalObjects.open(Path("..")).prefix == ""


def test_opened_from_a_bare_repository_a_git_folder_and_a_linked_work_tree(
    work: Path, tmp_path: Path
) -> None:
    head = commit(work, {"x": b"1"})
    git(work, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"))
    side = commit(tmp_path / "linked", {"y": b"2"})
    git(tmp_path, "clone", "--quiet", "--bare", str(work), "bare.git")
    assert LocalObjects.open(tmp_path / "bare.git").resolve("HEAD") == head
    assert LocalObjects.open(work / ".git").resolve("HEAD") == head
    linked = LocalObjects.open(tmp_path / "linked")
    assert linked.resolve("HEAD") == side
    assert [e.path for e in linked.tree(side)] == ["x", "y"]


def test_a_bare_repository_inside_a_work_tree_counts_only_when_named(work: Path) -> None:
    commit(work, {"x": b"1"})
    inner = bare(work / "inner.git")
    blob = blob_of(inner, b"2")
    head = tree_of(inner, f"100644 blob {blob}\ty\0".encode())
    git(inner, "update-ref", "refs/heads/main", head)
    assert LocalObjects.open(inner).resolve("HEAD") == head
    with pytest.raises(GitError):
        LocalObjects.open(inner / "refs")


def test_a_repository_of_another_account(work: Path) -> None:
    head = commit(work, {"sub/x": b"1"})
    for path in (work, *work.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    objects = LocalObjects.open(work / "sub")
    assert objects.resolve("HEAD") == head
    assert [e.path for e in objects.tree(head, objects.prefix)] == ["x"]


def test_places_that_are_no_repository(tmp_path: Path, work: Path) -> None:
    (tmp_path / "plain").mkdir()
    commit(work, {"file": b"1"})
    for path, message in (
        (tmp_path / "plain", "is not in a Git repository"),
        (tmp_path / "absent", "there is no folder"),
        (work / "file", "is not a folder"),
    ):
        with pytest.raises(GitError, match=message) as caught:
            LocalObjects.open(path)
        assert caught.value.hint
        assert str(path) in caught.value.message


def test_a_repository_with_other_object_ids_says_so(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--object-format=sha256", "modern")
    with pytest.raises(GitError, match="sha256 object ids"):
        LocalObjects.open(tmp_path / "modern")


def test_a_repository_without_commits_says_so(work: Path) -> None:
    with pytest.raises(GitError, match="has no commits yet") as caught:
        LocalObjects.open(work).resolve("HEAD")
    assert caught.value.hint


def test_revisions_as_people_write_them(work: Path) -> None:
    first = commit(work, {"a": b"1"})
    second = commit(work, {"a": b"2"})
    git(work, "tag", "-a", "v1", "-m", "v1", first)
    objects = LocalObjects.open(work)
    for revision, wanted in (
        ("HEAD", second),
        ("main", second),
        ("HEAD~1", first),
        ("v1", first),
        (first[:10], first),
        (first, first),
    ):
        assert objects.resolve(revision) == wanted


@pytest.mark.parametrize(
    "revision", ["nope", "", "HEAD~5", "HEAD:a", "1" * 40, "HEAD..HEAD", "HEAD HEAD", "^HEAD"]
)
def test_a_revision_that_names_no_commit(work: Path, revision: str) -> None:
    commit(work, {"a": b"1"})
    with pytest.raises(GitError, match="there is no commit") as caught:
        LocalObjects.open(work).resolve(revision)
    assert repr(revision) in caught.value.message
    assert "spelling" in caught.value.hint


def test_a_shallow_clone_is_named_as_the_cause(work: Path, tmp_path: Path) -> None:
    first = commit(work, {"a": b"1"})
    second = commit(work, {"a": b"2"})
    git(tmp_path, "clone", "--quiet", "--depth=1", work.as_uri(), "shallow")
    objects = LocalObjects.open(tmp_path / "shallow")
    with pytest.raises(GitError) as caught:
        objects.resolve("HEAD~1")
    assert "--unshallow" in caught.value.hint
    assert objects.has(second)
    assert not objects.has(first)
    assert not objects.is_ancestor(first, second)


def test_the_tree_of_a_commit_and_of_a_folder_in_it(work: Path) -> None:
    head = commit(work, {"a": b"1", "pools/worker/x": b"22", "pools/z": b"333", "pools.txt": b""})
    objects = LocalObjects.open(work)
    blob = git(work, "rev-parse", "HEAD:pools/worker/x")
    assert [(e.path, e.size) for e in objects.tree(head)] == [
        ("a", 1),
        ("pools.txt", 0),
        ("pools/worker/x", 2),
        ("pools/z", 3),
    ]
    assert objects.tree(head, "pools/worker") == (TreeEntry("x", "100644", blob, 2),)
    for under in ("pools/", "/pools", "./pools/."):
        assert [e.path for e in objects.tree(head, under)] == ["worker/x", "z"]
    for under in ("nope", "pools/nope", "a", "a/b", "pool", "pools*", ":(top)pools", "pools^{tree}"):
        assert objects.tree(head, under) == ()
    with pytest.raises(GitError, match="inside the repository"):
        objects.tree(head, "../pools")


def test_only_some_files_and_folders_of_a_tree(work: Path) -> None:
    names = ["a/b/c", "a/bb", "a/b.x", "a/d", "e", "*"]
    head = commit(work, {name: name.encode() for name in names})
    objects = LocalObjects.open(work)

    def listed(*only: str, under: str = "") -> list[str]:
        return [e.path for e in objects.tree(head, under, only)]

    assert listed("a/b", "e") == ["a/b/c", "e"]
    assert listed("a/b/", "./a/d", "a/b/c") == ["a/b/c", "a/d"]
    assert listed("b", under="a") == ["b/c"]
    assert listed("*") == ["*"]
    assert listed("nope", "e/x", ":(top)a", "a*") == []
    assert listed() == []
    assert listed("", "a/b") == sorted(names)
    with pytest.raises(GitError, match="inside the repository"):
        listed("../a")


def test_changes_are_all_paths_that_differ(work: Path) -> None:
    first = commit(work, {"a/x": b"1", "a/gone": b"2", "a/moved": b"same" * 99, "b": b"3", "kind/x": b"4"})
    (work / "kind" / "x").unlink()
    (work / "kind").rmdir()
    (work / "kind").write_bytes(b"now a file")
    (work / "b").chmod(0o755)
    git(work, "mv", "a/moved", "a/here")
    second = commit(work, {"a/x": b"2", "a/gone": None, "a/new": b""})
    git(work, "config", "diff.renames", "copies")
    objects = LocalObjects.open(work)
    wanted = {"a/x", "a/gone", "a/moved", "a/here", "a/new", "b", "kind", "kind/x"}
    assert objects.changes(first, second) == objects.changes(second, first) == wanted
    assert objects.changes(first, second, "a") == {"x", "gone", "moved", "here", "new"}
    assert objects.changes(first, first) == frozenset()


def test_a_submodule_that_moved_is_a_change_whatever_is_configured(work: Path) -> None:
    (work / ".gitmodules").write_text('[submodule "m"]\npath = m\nurl = ./m\nignore = all\n')
    git(work, "add", ".gitmodules")
    commits = []
    for digit in "12":
        git(work, "update-index", "--add", "--cacheinfo", f"160000,{digit * 40},m")
        git(work, "commit", "--quiet", "-m", digit)
        commits.append(git(work, "rev-parse", "HEAD"))
    git(work, "config", "submodule.m.ignore", "all")
    git(work, "config", "diff.ignoreSubmodules", "all")
    assert LocalObjects.open(work).changes(*commits) == {"m"}


def test_changes_that_cannot_be_told(work: Path) -> None:
    head = commit(work, {"a": b"1"})
    other = commit(work, {"dir/b": b"1"})
    objects = LocalObjects.open(work)
    for old, new, under in (
        (head, "1" * 40, ""),
        ("1" * 40, head, ""),
        (head, other, "dir"),
        (other, head, "dir"),
        ("HEAD", head, ""),
        (head, "--stdin", ""),
    ):
        with pytest.raises(GitError):
            objects.changes(old, new, under)


def test_changes_have_the_names_that_the_tree_has(work: Path) -> None:
    blob = blob_of(work, b"x")
    names = [b"new\nline", b"tab\there", b"\xff\xfe", b"-n"]
    head = tree_of(work, b"".join(b"100644 blob %s\t%s\0" % (blob.encode(), name) for name in names))
    empty = tree_of(work, b"")
    objects = LocalObjects.open(work)
    assert objects.changes(empty, head) == {e.path for e in objects.tree(head)}
    with pytest.raises(GitError, match="no folder could hold"):
        objects.changes(head, tree_of(work, f"100644 blob {blob}\t..\0".encode()))


def test_modes_links_and_submodules(work: Path) -> None:
    (work / "link").symlink_to("../outside")
    (work / "run").write_bytes(b"#!")
    (work / "run").chmod(0o755)
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{'2' * 40},module")
    git(work, "add", "link", "run")
    git(work, "commit", "--quiet", "-m", "kinds")
    objects = LocalObjects.open(work)
    link, module, run = objects.tree(objects.resolve("HEAD"))
    assert link.is_symlink
    assert (run.mode, run.is_file) == ("100755", True)
    assert (module.path, module.oid, module.size, module.is_submodule) == ("module", "2" * 40, 0, True)
    assert dict(objects.blobs([link.oid])) == {link.oid: b"../outside"}


def test_odd_names_are_kept_as_they_are(work: Path) -> None:
    blob = blob_of(work, b"x")
    names = [
        b"new\nline",
        b"tab\there",
        b'quo"te',
        b"back\\slash",
        b" ",
        b"\xff\xfe",
        "ä".encode(),
        b"-n",
        b"*",
    ]
    head = tree_of(work, b"".join(b"100644 blob %s\t%s\0" % (blob.encode(), name) for name in names))
    git(work, "update-ref", "refs/heads/main", head)
    found = [entry.path for entry in LocalObjects.open(work).tree(head)]
    assert sorted(os.fsencode(path) for path in found) == sorted(names)
    assert found == sorted(found)


def test_a_folder_with_an_odd_name(work: Path) -> None:
    blob = blob_of(work, b"x")
    inner = git(work, "mktree", "-z", stdin=f"100644 blob {blob}\tf\0".encode())
    head = tree_of(work, b"040000 tree %s\t\xff*\n-x\0" % inner.encode())
    objects = LocalObjects.open(work)
    assert [e.path for e in objects.tree(head, os.fsdecode(b"\xff*\n-x"))] == ["f"]
    assert objects.history(head, os.fsdecode(b"\xff*\n-x/f")) == (head,)


@pytest.mark.parametrize("name", ["..", ".", ".git", ".GIT"])
def test_a_tree_that_no_folder_could_hold_is_refused(work: Path, name: str) -> None:
    blob = blob_of(work, b"x")
    inner = git(work, "mktree", "-z", stdin=f"100644 blob {blob}\tf\0".encode())
    objects = LocalObjects.open(work)
    with pytest.raises(GitError, match="no folder could hold"):
        objects.tree(tree_of(work, f"040000 tree {inner}\t{name}\0".encode()))


def test_a_tree_that_names_a_path_twice_is_refused(work: Path) -> None:
    one, two = blob_of(work, b"1"), blob_of(work, b"2")
    raw = b"".join(b"100644 Containerfile\0" + bytes.fromhex(oid) for oid in (one, two))
    tree = git(work, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw)
    head = git(work, "commit-tree", tree, "-m", "twice")
    with pytest.raises(GitError, match="Containerfile"):
        LocalObjects.open(work).tree(head)


def test_a_folder_that_is_named_twice_is_refused(work: Path) -> None:
    trees = [
        git(work, "mktree", "-z", stdin=f"100644 blob {blob_of(work, text)}\tf\0".encode())
        for text in (b"1", b"2")
    ]
    raw = b"".join(b"40000 pool\0" + bytes.fromhex(oid) for oid in trees)
    tree = git(work, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw)
    head = git(work, "commit-tree", tree, "-m", "twice")
    objects = LocalObjects.open(work)
    for read in (
        lambda: objects.tree(head, "pool"),
        lambda: objects.tree(head, "", ["pool"]),
        lambda: objects.changes(head, head, "pool"),
    ):
        with pytest.raises(GitError, match="no folder could hold"):
            read()


def test_a_tree_bomb_ends_with_an_error(work: Path) -> None:
    blob = blob_of(work, b"x")
    line = b"100644 blob " + blob.encode()
    for _ in range(9):
        names = [b"%d" % n + b"x" * 250 for n in range(10)]
        tree = git(work, "mktree", "-z", stdin=b"".join(b"%s\t%s\0" % (line, name) for name in names))
        line = b"040000 tree " + tree.encode()
    head = git(work, "commit-tree", tree, "-m", "bomb")
    with pytest.raises(GitError, match="larger than 64 MiB"):
        LocalObjects.open(work).tree(head)


def test_a_large_tree_in_one_child(work: Path) -> None:
    blobs = [b"%d" % n for n in range(5000)]
    stream = b"".join(
        b"blob\nmark :%d\ndata %d\n%s\n" % (n + 1, len(content), content) for n, content in enumerate(blobs)
    )
    stream += b"commit refs/heads/main\ncommitter A <a@b> 1 +0000\ndata 1\nm\n"
    stream += b"".join(b"M 100644 :%d d%d/f%d\n" % (n + 1, n % 50, n) for n in range(5000))
    git(work, "fast-import", "--quiet", stdin=stream)
    objects = LocalObjects.open(work)
    entries = objects.tree(objects.resolve("main"))
    content = dict(objects.blobs(entry.oid for entry in entries))
    assert len(entries) == 5000
    assert {entry.path: content[entry.oid] for entry in entries} == {
        f"d{n % 50}/f{n}": blobs[n] for n in range(5000)
    }


def test_blobs_are_distinct_in_order_and_whole(work: Path) -> None:
    contents = [b"", b"\n", b"no end", b"\0binary\xff", b"x" * 1_000_000, b"ends with a line\n", b"y" * 65536]
    oids = [blob_of(work, content) for content in contents]
    objects = LocalObjects.open(work)
    assert list(objects.blobs([*oids, *reversed(oids)])) == list(zip(oids, contents, strict=True))
    assert list(objects.blobs([])) == []


def test_blobs_not_asked_for_are_not_waited_for(work: Path) -> None:
    oids = [blob_of(work, bytes([n]) * 300_000) for n in range(10)]
    before = children()
    some = LocalObjects.open(work).blobs(oids)
    assert [oid for oid, _ in islice(some, 2)] == oids[:2]
    some.close()  # type: ignore[attr-defined]
    assert children() == before


def test_what_is_no_blob(work: Path) -> None:
    head = commit(work, {"a": b"1"})
    objects = LocalObjects.open(work)
    for oid, message in (
        ("1" * 40, "is missing"),
        (head, "is a commit"),
        ("HEAD:a", "not the id"),
        (f"{head}\n{head}", "not the id"),
    ):
        with pytest.raises(GitError, match=message):
            list(objects.blobs([oid]))


def test_dates_presence_and_ancestors(work: Path) -> None:
    first = commit(work, {"a": b"1"}, date=1_600_000_000)
    second = commit(work, {"a": b"2"}, date=1_650_000_000)
    git(work, "checkout", "--quiet", "--orphan", "other")
    apart = commit(work, {"a": b"3"})
    objects = LocalObjects.open(work)
    assert (objects.committed_at(first), objects.committed_at(second)) == (1_600_000_000, 1_650_000_000)
    assert objects.has(second)
    assert not objects.has("1" * 40)
    assert not objects.has(git(work, "rev-parse", "HEAD:a"))
    assert not objects.has("HEAD")
    assert objects.is_ancestor(first, second)
    assert objects.is_ancestor(first, first)
    assert not objects.is_ancestor(second, first)
    assert not objects.is_ancestor(apart, second)
    assert not objects.is_ancestor("1" * 40, second)
    for older, newer in ((first, "1" * 40), ("1" * 40, "2" * 40)):
        with pytest.raises(GitError):
            objects.is_ancestor(older, newer)
    for call in (objects.committed_at, objects.tree):
        with pytest.raises(GitError):
            call("1" * 40)


def test_history_is_newest_first_and_only_of_the_path(work: Path) -> None:
    one = commit(work, {"status/w.yaml": b"1", "a": b"1"}, date=1_600_000_001)
    commit(work, {"a": b"2"}, date=1_600_000_002)
    two = commit(work, {"status/w.yaml": b"2"}, date=1_600_000_003)
    gone = commit(work, {"status/w.yaml": None}, date=1_600_000_004)
    objects = LocalObjects.open(work)
    assert objects.history(gone, "status/w.yaml") == (gone, two, one)
    assert objects.history(two, "status/w.yaml") == (two, one)
    assert objects.history(gone, "status/*") == ()
    with pytest.raises(GitError):
        objects.history("1" * 40, "a")


def test_history_keeps_versions_that_a_merge_threw_away(work: Path) -> None:
    base = commit(work, {"s": b"0"}, date=1_600_000_000)
    git(work, "checkout", "--quiet", "-b", "side")
    side = commit(work, {"other": b"1"}, date=1_600_000_001)
    git(work, "checkout", "--quiet", "main")
    lost = commit(work, {"s": b"1"}, date=1_600_000_002)
    # The merge takes the side branch's content, so git's default would follow that side alone.
    git(work, "merge", "--quiet", "--no-commit", "-s", "ours", "side")
    git(work, "checkout", side, "--", "s", "other")
    git(work, "commit", "--quiet", "-m", "merge", date=1_600_000_003)
    merge = git(work, "rev-parse", "HEAD")
    assert LocalObjects.open(work).history(merge, "s") == (merge, lost, base)


def test_history_stops_at_two_hundred(work: Path) -> None:
    stream = b"".join(
        b"commit refs/heads/main\ncommitter A <a@b> %d +0000\ndata 1\nm\nM 100644 inline s\ndata %d\n%s\n"
        % (1_600_000_000 + n, len(b"%d" % n), b"%d" % n)
        for n in range(205)
    )
    git(work, "fast-import", "--quiet", stdin=stream)
    objects = LocalObjects.open(work)
    history = objects.history(objects.resolve("main"), "s")
    assert len(history) == 200
    assert [objects.committed_at(c) for c in history[:2]] == [1_600_000_204, 1_600_000_203]


def test_a_partial_clone_is_named_as_the_cause(work: Path, tmp_path: Path) -> None:
    commit(work, {"a": b"1"})
    git(work, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--bare", "--filter=blob:none", work.as_uri(), "partial.git")
    shutil.rmtree(work)
    objects = LocalObjects.open(tmp_path / "partial.git")
    with pytest.raises(GitError):
        objects.tree(objects.resolve("HEAD"))
