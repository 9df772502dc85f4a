from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.adapters.git.mirror import Mirror
from reconciler.errors import GitError, GitUnavailable
from reconciler.ports import PushOutcome
from tests.adapters.git.support import (
    bare,
    children,
    commit,
    descriptors,
    git,
    hook,
    remote_with,
)
from tests.servers.git_http import basic, git_http


def publish(author: Path, branch: str = "main") -> None:
    git(author, "push", "--quiet", "--force", "origin", f"HEAD:refs/heads/{branch}")


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_head_and_fetch(tmp_path: Path, form: str) -> None:
    server, author = remote_with(tmp_path, {"a": b"1"})
    mirror = Mirror(form.format(server), tmp_path / "cache")
    first = git(author, "rev-parse", "HEAD")
    assert mirror.head("main") == first
    assert not mirror.has(first)
    assert mirror.fetch("main") == first
    assert mirror.has(first)
    assert [e.path for e in mirror.tree(first)] == ["a"]
    second = commit(author, {"b": b"2"})
    publish(author)
    assert mirror.fetch("main") == second
    assert mirror.is_ancestor(first, second)
    assert mirror.resolve(second) == second


def test_a_fetch_of_what_is_here_asks_for_nothing(tmp_path: Path) -> None:
    server, _ = remote_with(tmp_path, {"a": b"1"})
    with git_http(tmp_path) as web:
        mirror = Mirror(f"{web.url}/{server.name}", tmp_path / "cache")
        head = mirror.head("main")
        one_look = len(web.requests)
        mirror.fetch("main")
        web.requests.clear()
        assert mirror.fetch("main") == head
        assert len(web.requests) == one_look
        git(server, "config", "http.receivepack", "true")
        made = mirror.commit(head, {"s": b"1"}, "Record", 1)
        assert mirror.push("main", made).outcome is PushOutcome.DONE
        web.requests.clear()
        assert mirror.fetch("main") == made
        assert len(web.requests) == one_look


def test_only_the_branch_asked_for_is_meant(tmp_path: Path) -> None:
    server, author = remote_with(tmp_path, {"a": b"1"})
    other = commit(author, {"a": b"2"})
    for ref in ("refs/heads/x/main", "refs/heads/refs/heads/odd", "refs/tags/main", "refs/heads/a/b/c"):
        git(author, "push", "--quiet", "origin", f"{other}:{ref}")
    mirror = Mirror(str(server), tmp_path / "cache")
    assert mirror.head("main") != other
    assert mirror.fetch("a/b/c") == other
    for branch in ("odd", "b/c", "nope"):
        for ask in (mirror.head, mirror.fetch):
            with pytest.raises(GitError, match="has no branch") as caught:
                ask(branch)
            assert not isinstance(caught.value, GitUnavailable)
            assert repr(branch) in caught.value.message


@pytest.mark.parametrize(
    "branch",
    [
        "", "-x", "--upload-pack=x", "a..b", "a b", "a*", "a?", "a[", "a:b", "a^", "a~1", "a\\b", "a\n", "@", "@{u}",
        ".a", "a/.b", "a.lock", "a.lock/b", "/a", "a/", "a//b", "a.", "\x7f",
    ],
)  # fmt: skip
def test_names_that_no_branch_has(tmp_path: Path, branch: str) -> None:
    server, author = remote_with(tmp_path, {"a": b"1"})
    mirror = Mirror(str(server), tmp_path / "cache")
    head = git(author, "rev-parse", "HEAD")
    for ask in (mirror.head, mirror.fetch, lambda name: mirror.push(name, head)):
        with pytest.raises(GitError, match="not a valid name"):
            ask(branch)


@pytest.mark.parametrize(
    "branch", ["release-4.20", "bot/worker", "ä", "a@b", "a.b/c-d", "HEAD", "refs/heads/x", "a%b"]
)
def test_names_that_branches_have(tmp_path: Path, branch: str) -> None:
    server, _ = remote_with(tmp_path, {"a": b"1"})
    mirror = Mirror(str(server), tmp_path / "cache")
    made = mirror.commit(mirror.fetch("main"), {"b": b"1"}, "Write", 1)
    assert mirror.push(branch, made).outcome is PushOutcome.DONE
    assert mirror.fetch(branch) == made
    assert git(server, "rev-parse", f"refs/heads/{branch}") == made


def test_a_rewritten_branch_is_followed_and_the_old_commits_stay(tmp_path: Path) -> None:
    server, author = remote_with(tmp_path, {"a": b"1"})
    mirror = Mirror(str(server), tmp_path / "cache")
    old = mirror.fetch("main")
    git(author, "checkout", "--quiet", "--orphan", "again")
    new = commit(author, {"a": b"2"})
    publish(author)
    git(server, "reflog", "expire", "--expire=now", "--all")
    git(server, "gc", "--quiet", "--prune=now")
    assert mirror.fetch("main") == new
    assert mirror.has(old)
    assert [e.size for e in mirror.tree(old)] == [1]
    assert not mirror.is_ancestor(old, new)


def test_a_branch_that_turns_into_a_folder_of_branches(tmp_path: Path) -> None:
    server, author = remote_with(tmp_path, {"a": b"1"})
    mirror = Mirror(str(server), tmp_path / "cache")
    publish(author, "topic")
    mirror.fetch("topic")
    git(author, "push", "--quiet", "origin", ":topic")
    head = commit(author, {"a": b"2"})
    publish(author, "topic/one")
    assert mirror.fetch("topic/one") == head


def test_an_empty_remote_has_no_branch(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="has no branch 'main'") as caught:
        Mirror(str(bare(tmp_path / "server.git")), tmp_path / "cache").head("main")
    assert "first commit" in caught.value.hint


def test_a_remote_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="does not appear to be a git repository") as caught:
        Mirror(str(tmp_path / "absent"), tmp_path / "cache").head("main")
    assert not isinstance(caught.value, GitUnavailable)
    assert str(tmp_path / "absent") in caught.value.message
    assert caught.value.hint


def test_a_remote_of_another_account_can_be_read_and_pushed_to(tmp_path: Path) -> None:
    server, _ = remote_with(tmp_path, {"a": b"1"})
    for path in (server, *server.rglob("*")):
        os.chown(path, 12345, 12345)
    mirror = Mirror(str(server), tmp_path / "cache")
    made = mirror.commit(mirror.fetch("main"), {"b": b"1"}, "Write", 1)
    assert mirror.push("main", made).outcome is PushOutcome.DONE


def test_two_remotes_share_a_cache_folder_but_no_objects(tmp_path: Path) -> None:
    one, _ = remote_with(tmp_path / "1", {"a": b"1"})
    two, _ = remote_with(tmp_path / "2", {"a": b"2"})
    first, second = (Mirror(str(url), tmp_path / "cache") for url in (one, two))
    head = first.fetch("main")
    second.fetch("main")
    assert not second.has(head)


def test_old_histories_with_harmless_faults_are_accepted(tmp_path: Path) -> None:
    server, author = remote_with(tmp_path, {"a": b"1"})
    tree = git(author, "rev-parse", "HEAD^{tree}")
    raw = f"tree {tree}\nauthor A<a@b> 1 +051800\ncommitter A <a@b> 01 +0000\n\nold\n".encode()
    old = git(author, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw)
    blob = git(author, "rev-parse", "HEAD:a")
    padded = b"0100644 a\0" + bytes.fromhex(blob)
    tree = git(author, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=padded)
    head = git(author, "commit-tree", tree, "-p", old, "-m", "padded")
    git(author, "push", "--quiet", "origin", f"{head}:refs/heads/old")
    mirror = Mirror(str(server), tmp_path / "cache")
    assert mirror.fetch("old") == head
    assert [(e.path, e.mode) for e in mirror.tree(head)] == [("a", "100644")]


def test_malformed_objects_are_not_let_in(tmp_path: Path) -> None:
    server, author = remote_with(tmp_path, {"a": b"1"})
    blob = git(author, "rev-parse", "HEAD:a")
    inner = git(author, "mktree", stdin=f"100644 blob {blob}\tf\n".encode())
    tree = git(author, "mktree", stdin=f"040000 tree {inner}\t..\n".encode())
    head = git(author, "commit-tree", tree, "-m", "hostile")
    git(author, "push", "--quiet", "origin", f"{head}:refs/heads/hostile")
    mirror = Mirror(str(server), tmp_path / "cache")
    with pytest.raises(GitError, match="hasDotdot") as caught:
        mirror.fetch("hostile")
    assert "malformed" in caught.value.hint
    mirror.fetch("main")


def test_hooks_of_the_remote_do_not_run_on_reading_and_none_are_in_the_mirror(tmp_path: Path) -> None:
    server, _ = remote_with(tmp_path, {"a": b"1"})
    for name in ("pre-receive", "post-receive", "update", "post-update", "reference-transaction"):
        hook(server, name, f"touch {tmp_path}/ran")
    mirror = Mirror(str(server), tmp_path / "cache")
    mirror.fetch("main")
    assert not (tmp_path / "ran").exists()
    assert not list((tmp_path / "cache").rglob("hooks"))


def test_over_http_with_credentials(tmp_path: Path) -> None:
    server, _ = remote_with(tmp_path, {"a": b"1"})
    git(server, "config", "http.receivepack", "true")
    with git_http(tmp_path) as web:
        web.writers = {basic("bot", "hunter2")}
        place = web.url.removeprefix("http://")
        mirror = Mirror(f"http://bot:hunter2@{place}/{server.name}", tmp_path / "cache")
        head = mirror.fetch("main")
        made = mirror.commit(head, {"b": b"1"}, "Write", 1)
        assert mirror.push("main", made).outcome is PushOutcome.DONE
        assert {asked.authorization for asked in web.requests} == web.writers
        assert git(server, "rev-parse", "main") == made
        wrong = Mirror(f"http://bot:hunter3@{place}/{server.name}", tmp_path / "other")
        for ask in (wrong.head, wrong.fetch):
            with pytest.raises(GitError) as caught:
                ask("main")
            assert "credentials" in caught.value.hint
            assert "hunter" not in caught.value.message
            assert not isinstance(caught.value, GitUnavailable)
    written = [path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not [content for content in written if b"hunter2" in content]


@pytest.mark.parametrize(
    ("status", "transient", "hint"),
    [
        (503, True, "tried again"),
        (429, True, "tried again"),
        (500, True, "tried again"),
        (403, False, "credentials"),
        (404, False, "address"),
        (301, False, "redirects"),
    ],
)
def test_what_http_servers_answer(tmp_path: Path, status: int, transient: bool, hint: str) -> None:
    server, _ = remote_with(tmp_path, {"a": b"1"})
    with git_http(tmp_path) as web:
        web.status = status
        with pytest.raises(GitError) as caught:
            Mirror(f"{web.url}/{server.name}", tmp_path / "cache").head("main")
    assert isinstance(caught.value, GitUnavailable) == transient
    assert hint in caught.value.hint


def test_a_refused_connection_is_passing(tmp_path: Path) -> None:
    mirror = Mirror("http://127.0.0.1:9/os.git", tmp_path / "cache")
    with pytest.raises(GitUnavailable) as caught:
        mirror.head("main")
    assert "http://127.0.0.1:9/os.git" in caught.value.message


def test_nothing_is_left_open_or_running(tmp_path: Path) -> None:
    server, author = remote_with(tmp_path, {"a": b"1", "b": b"22"})
    mirror = Mirror(str(server), tmp_path / "cache")
    mirror.fetch("main")
    files, running = descriptors(), children()
    for turn in range(50):
        head = mirror.fetch("main")
        entries = mirror.tree(head)
        next(mirror.blobs(entry.oid for entry in entries))
        mirror.history(head, "a")
        if turn % 10 == 0:
            commit(author, {"a": b"%d" % turn})
            publish(author)
            made = mirror.commit(mirror.fetch("main"), {"s": b"%d" % turn}, "Record", turn)
            assert mirror.push("main", made).outcome is PushOutcome.DONE
            git(author, "pull", "--quiet", "--ff-only", "origin", "main")
            with pytest.raises(GitError):
                mirror.tree("1" * 40)
    assert (descriptors(), children()) == (files, running)


def test_small_packs_are_merged_and_nothing_is_lost(tmp_path: Path) -> None:
    server, _ = remote_with(tmp_path, {"a": b"1"})
    mirror = Mirror(str(server), tmp_path / "cache")
    first = mirror.fetch("main")
    unpushed = mirror.commit(first, {"s": b"1"}, "Never pushed", 1)
    stream = b"".join(
        b"commit refs/heads/next\ncommitter A <a@b> %d +0000\ndata 1\nm\nM 100644 inline a\ndata 2\n%02d\n"
        % (n, n)
        for n in range(10, 62)
    )
    git(server, "fast-import", "--quiet", stdin=stream)
    heads = git(server, "rev-list", "--reverse", "next").split()
    for head in heads:
        git(server, "update-ref", "refs/heads/main", head)
        assert mirror.fetch("main") == head
    assert len(list((tmp_path / "cache").rglob("*.pack"))) < 10
    for head in (first, unpushed, *heads[::10]):
        assert len(mirror.tree(head)) in (1, 2)
