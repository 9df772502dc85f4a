from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.adapters.git.mirror import Mirror
from reconciler.adapters.git.objects import LocalObjects
from reconciler.adapters.git.worktree import UNCOMMITTED, open_folder
from reconciler.errors import GitError, GitUnavailable
from reconciler.ports import PushOutcome, Request
from tests.adapters.git.support import clone_of, commit, git, remote_with
from tests.servers.git_http import git_http

LOOK = Request("git", "ls-remote", "ok")
FETCH = Request("git", "fetch", "ok")


class Watched:
    """A remote with an author, and a mirror whose calls are noted."""

    def __init__(self, root: Path) -> None:
        self.server, self.author = remote_with(root, {"a": b"1"})
        self.calls: list[Request] = []
        self.mirror = Mirror(str(self.server), root / "cache", on_request=self.calls.append)
        self.first = git(self.author, "rev-parse", "HEAD")

    def commit(self, content: bytes) -> str:
        """A new commit on main."""
        made = commit(self.author, {"a": content})
        self.publish("HEAD:refs/heads/main")
        return made

    def tag(self, name: str, target: str, *, annotated: bool = True) -> None:
        """Make or move a tag, there too."""
        words = ["-a", "-m", "release"] if annotated else []
        git(self.author, "tag", "--force", *words, name, target)
        self.publish(f"refs/tags/{name}")

    def publish(self, spec: str) -> None:
        git(self.author, "push", "--quiet", "--force", "origin", spec)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_many_revisions_cost_one_look(watched: Watched) -> None:
    second = watched.commit(b"2")
    watched.publish("HEAD:refs/heads/release/4.20")
    watched.tag("v1", watched.first)
    watched.tag("light", watched.first, annotated=False)
    watched.tag("v2", "refs/tags/v1")
    wanted = [
        "main",
        "release/4.20",
        "refs/tags/v1",
        "refs/tags/v2",
        "refs/tags/light",
        "gone",
        "refs/tags/gone",
    ]
    assert watched.mirror.heads([*wanted, "1" * 40]) == {
        "main": second,
        "release/4.20": second,
        "refs/tags/v1": watched.first,
        "refs/tags/v2": watched.first,
        "refs/tags/light": watched.first,
        "1" * 40: "1" * 40,
    }
    assert watched.calls == [LOOK]
    assert not watched.mirror.has(second)


def test_more_revisions_than_git_is_told(watched: Watched) -> None:
    branches = [f"b{number}" for number in range(300)]
    git(watched.author, "push", "--quiet", "origin", *(f"HEAD:refs/heads/{branch}" for branch in branches))
    assert watched.mirror.heads(branches) == dict.fromkeys(branches, watched.first)
    assert watched.calls == [LOOK]
    assert watched.mirror.heads([f"{number:050}" for number in range(60_000)]) == {}


def test_commits_stand_for_themselves_and_nobody_is_asked(watched: Watched) -> None:
    assert watched.mirror.heads([]) == {}
    assert watched.mirror.heads([watched.first, "1" * 40]) == {
        watched.first: watched.first,
        "1" * 40: "1" * 40,
    }
    assert watched.mirror.head("1" * 40) == "1" * 40
    assert watched.calls == []


def test_a_name_is_one_kind_of_thing(watched: Watched) -> None:
    other = commit(watched.author, {"a": b"2"})
    for ref in ("refs/tags/main", "refs/heads/refs/tags/v1", "refs/heads/x/main", f"refs/heads/{'1' * 40}"):
        git(watched.server, "fetch", "--quiet", str(watched.author), f"{other}:{ref}")
    assert watched.mirror.heads(["main", "refs/tags/main", "refs/tags/v1", "1" * 40]) == {
        "main": watched.first,
        "refs/tags/main": other,
        "1" * 40: "1" * 40,
    }


@pytest.mark.parametrize(
    "name", ["refs/tags/", "refs/tags/-x", "refs/tags/a..b", "refs/tags/a^{}", "refs/tags/a b"]
)
def test_names_that_no_tag_has(watched: Watched, name: str) -> None:
    for ask in (watched.mirror.head, watched.mirror.fetch, lambda n: watched.mirror.heads(["main", n])):
        with pytest.raises(GitError, match="not a valid name for a tag"):
            ask(name)


def test_a_tag_that_is_not_there(watched: Watched) -> None:
    for ask in (watched.mirror.head, watched.mirror.fetch):
        with pytest.raises(GitError, match="has no tag 'v9'"):
            ask("refs/tags/v9")


@pytest.mark.parametrize("annotated", [True, False])
def test_a_tag_is_fetched_and_followed(watched: Watched, annotated: bool) -> None:
    watched.tag("v1", watched.first, annotated=annotated)
    assert watched.mirror.fetch("refs/tags/v1") == watched.first
    assert [entry.path for entry in watched.mirror.tree(watched.first)] == ["a"]
    second = watched.commit(b"2")
    watched.tag("v1", second, annotated=annotated)
    assert watched.mirror.fetch("refs/tags/v1") == second
    assert watched.mirror.has(second)
    watched.tag("v1", second, annotated=not annotated)
    watched.calls.clear()
    assert watched.mirror.fetch("refs/tags/v1") == second
    assert watched.calls == [LOOK]


def test_a_tag_moved_back_is_followed_too(watched: Watched) -> None:
    second = watched.commit(b"2")
    watched.tag("v1", second)
    assert watched.mirror.fetch("refs/tags/v1") == second
    watched.tag("v1", watched.first)
    assert watched.mirror.fetch("refs/tags/v1") == watched.first


def test_a_tag_of_something_else_is_no_revision(watched: Watched) -> None:
    watched.tag("blob", f"{watched.first}:a")
    for _ in range(2):
        with pytest.raises(GitError, match=r"'refs/tags/blob' on .* does not stand for a commit"):
            watched.mirror.fetch("refs/tags/blob")
    assert watched.mirror.fetch("main") == watched.first


def test_a_commit_that_is_no_tip_is_fetched_once(watched: Watched, tmp_path: Path) -> None:
    watched.commit(b"2")
    assert watched.mirror.fetch(watched.first) == watched.first
    assert [entry.size for entry in watched.mirror.tree(watched.first)] == [1]
    assert watched.calls == [FETCH]
    watched.calls.clear()
    again = Mirror(str(watched.server), tmp_path / "cache", on_request=watched.calls.append)
    for mirror in (watched.mirror, again):
        assert mirror.fetch(watched.first) == watched.first
    assert watched.calls == []


def test_a_commit_that_came_with_a_branch_is_not_asked_for(watched: Watched) -> None:
    watched.commit(b"2")
    watched.mirror.fetch("main")
    watched.calls.clear()
    watched.server.rename(watched.server.with_name("away"))
    for _ in range(2):
        assert watched.mirror.fetch(watched.first) == watched.first
    assert watched.calls == []


def test_a_commit_that_we_pushed_is_not_asked_for(watched: Watched) -> None:
    made = watched.mirror.commit(watched.mirror.fetch("main"), {"s": b"1"}, "Record", 1)
    assert watched.mirror.push("bot", made).outcome is PushOutcome.DONE
    watched.calls.clear()
    assert watched.mirror.fetch("bot") == made
    assert watched.calls == [LOOK]


def test_a_commit_that_we_wrote_is_here(watched: Watched) -> None:
    made = watched.mirror.commit(watched.mirror.fetch("main"), {"s": b"1"}, "Record", 1)
    watched.server.rename(watched.server.with_name("away"))
    assert watched.mirror.fetch(made) == made


def test_a_commit_that_is_not_there(watched: Watched) -> None:
    watched.mirror.fetch("main")
    with pytest.raises(GitError, match=f"does not give out the commit {'1' * 40}") as caught:
        watched.mirror.fetch("1" * 40)
    assert "allowReachableSHA1InWant" in caught.value.hint
    assert not isinstance(caught.value, GitUnavailable)
    assert watched.calls[-1] == Request("git", "fetch", "refused")
    assert watched.mirror.has(watched.first)


def test_a_server_that_gives_out_no_commits(watched: Watched, tmp_path: Path) -> None:
    second = watched.commit(b"2")
    with git_http(tmp_path) as web:
        web.version_2 = False
        mirror = Mirror(f"{web.url}/{watched.server.name}", tmp_path / "other")
        with pytest.raises(GitError, match=f"does not give out the commit {watched.first}") as caught:
            mirror.fetch(watched.first)
        assert "branches and tags" in caught.value.hint
        assert mirror.fetch(second) == second
        assert mirror.fetch(watched.first) == watched.first


def test_the_id_of_a_tag_is_no_commit(watched: Watched) -> None:
    watched.tag("v1", watched.first)
    with pytest.raises(GitError, match="does not stand for a commit"):
        watched.mirror.fetch(git(watched.author, "rev-parse", "refs/tags/v1"))


@pytest.mark.parametrize("target", ["refs/tags/v1", "1" * 40])
def test_only_branches_are_pushed_to(watched: Watched, target: str) -> None:
    head = watched.mirror.fetch("main")
    with pytest.raises(GitError, match="is not a branch"):
        watched.mirror.push(target, head)
    assert git(watched.server, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_what_is_told_of_calls_that_fail(watched: Watched, tmp_path: Path) -> None:
    calls: list[Request] = []
    with git_http(tmp_path) as web:
        mirror = Mirror(f"{web.url}/{watched.server.name}", tmp_path / "other", on_request=calls.append)
        made = mirror.commit(mirror.fetch("main"), {"s": b"1"}, "Record", 1)
        web.readers = {"nobody"}
        with pytest.raises(GitError):
            mirror.push("main", made)
        web.status = 503
        with pytest.raises(GitUnavailable):
            mirror.head("main")
    assert calls == [
        LOOK,
        FETCH,
        Request("git", "push", "refused"),
        Request("git", "ls-remote", "refused"),
        Request("git", "ls-remote", "unavailable"),
    ]


def test_parents_are_in_order_and_a_first_commit_has_none(tmp_path: Path) -> None:
    work = clone_of(tmp_path / "work")
    first = commit(work, {"a": b"1"})
    git(work, "checkout", "--quiet", "-b", "side")
    side = commit(work, {"b": b"1"})
    git(work, "checkout", "--quiet", "main")
    second = commit(work, {"a": b"2"})
    git(work, "merge", "--quiet", "--no-ff", "-m", "Merge", "side")
    objects = LocalObjects.open(work)
    assert objects.parents(first) == ()
    assert objects.parents(second) == (first,)
    assert objects.parents(git(work, "rev-parse", "HEAD")) == (second, side)
    with pytest.raises(GitError, match="there is no commit"):
        objects.parents("1" * 40)
    git(work, "clone", "--quiet", "--depth=1", f"file://{work}", str(tmp_path / "shallow"))
    assert LocalObjects.open(tmp_path / "shallow").parents(git(work, "rev-parse", "HEAD")) == (second, side)


def test_what_only_looks_like_a_parent(tmp_path: Path) -> None:
    work = clone_of(tmp_path / "work")
    first = commit(work, {"a": b"1"})
    raw = git(work, "cat-file", "commit", first).encode()
    odd = raw.replace(b"\n\n", f"\nparent {'1' * 40}\n\nparent {'2' * 40}\n".encode(), 1)
    made = git(work, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=odd)
    assert LocalObjects.open(work).parents(made) == ()
    assert git(work, "rev-list", "--parents", "--max-count=1", made) == made


def test_the_uncommitted_has_no_parents(tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    assert folder.parents(UNCOMMITTED) == ()
    with pytest.raises(GitError):
        folder.parents("1" * 40)


def test_parents_of_a_damaged_mirror(watched: Watched, tmp_path: Path) -> None:
    second = watched.commit(b"2")
    watched.mirror.fetch("main")
    for pack in (tmp_path / "cache").rglob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"")
    assert watched.mirror.parents(second) == (watched.first,)
    assert watched.mirror.changes(watched.first, second) == {"a"}


def test_a_mirror_made_anew_holds_tags_and_commits_again(watched: Watched, tmp_path: Path) -> None:
    watched.tag("v1", watched.first)
    second = watched.commit(b"2")
    third = watched.commit(b"3")
    watched.mirror.fetch("refs/tags/v1")
    watched.mirror.fetch(second)
    for pack in (tmp_path / "cache").rglob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"")
    assert watched.mirror.tree(second)
    watched.server.rename(watched.server.with_name("away"))
    assert watched.mirror.fetch(second) == second
    assert watched.mirror.fetch(watched.first) == watched.first
    assert not watched.mirror.has(third)


def test_a_branch_that_cannot_be_fetched_costs_no_mirror(watched: Watched) -> None:
    watched.mirror.fetch("main")
    unpushed = watched.mirror.commit(watched.first, {"s": b"1"}, "Record", 1)
    blob = git(watched.author, "rev-parse", "HEAD:a")
    inner = git(watched.author, "mktree", stdin=f"100644 blob {blob}\tf\n".encode())
    tree = git(watched.author, "mktree", stdin=f"040000 tree {inner}\t..\n".encode())
    watched.publish(f"{git(watched.author, 'commit-tree', tree, '-m', 'hostile')}:refs/heads/hostile")
    with pytest.raises(GitError, match="hasDotdot"):
        watched.mirror.fetch("hostile")
    with pytest.raises(GitError):
        watched.mirror.tree("1" * 40)
    assert watched.mirror.has(unpushed)
