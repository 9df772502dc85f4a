"""Pull requests: their heads are fetched, and merged without a work tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.adapters.git.mirror import Mirror
from reconciler.errors import GitError
from tests.adapters.git.support import clone_of, commit, git, remote_with

DATE = 1_700_000_321


class Forked:
    """A remote whose main and whose pull request 7 went on from one commit, and a mirror."""

    def __init__(self, root: Path, ours: dict[str, bytes | None], theirs: dict[str, bytes | None]) -> None:
        self.server, self.author = remote_with(root, {"a": b"1\n" * 20, "dir/b": b"2\n", "c": b"3\n"})
        git(self.author, "checkout", "--quiet", "-b", "change")
        self.theirs = (
            commit(self.author, theirs, date=DATE) if theirs else git(self.author, "rev-parse", "main")
        )
        git(self.author, "push", "--quiet", "origin", "HEAD:refs/pull/7/head")
        git(self.author, "checkout", "--quiet", "main")
        self.ours = commit(self.author, ours) if ours else git(self.author, "rev-parse", "main")
        git(self.author, "push", "--quiet", "origin", "main")
        self.mirror = Mirror(str(self.server), root / "cache")
        assert self.mirror.fetch("main") == self.ours
        assert self.mirror.fetch("refs/pull/7/head") == self.theirs

    def merged(self) -> dict[str, bytes]:
        """What is in the merge."""
        entries = self.mirror.tree(self.mirror.merge(self.ours, self.theirs))
        content = dict(self.mirror.blobs(entry.oid for entry in entries))
        return {entry.path: content[entry.oid] for entry in entries}


def test_two_lines_are_merged_as_a_person_would(tmp_path: Path) -> None:
    tail = b"1\n" * 19
    forked = Forked(tmp_path, {"a": b"ours\n" + tail, "new": b"x"}, {"a": tail + b"theirs\n", "c": None})
    assert forked.merged() == {"a": b"ours\n" + tail[2:] + b"theirs\n", "dir/b": b"2\n", "new": b"x"}
    made = forked.mirror.merge(forked.ours, forked.theirs)
    assert forked.mirror.parents(made) == (forked.ours, forked.theirs)
    assert forked.mirror.committed_at(made) == DATE
    other = Mirror(str(forked.server), tmp_path / "elsewhere")
    other.fetch("main")
    other.fetch("refs/pull/7/head")
    assert other.merge(forked.ours, forked.theirs) == made


def test_what_contains_the_other_is_the_merge(tmp_path: Path) -> None:
    ahead = Forked(tmp_path / "ahead", {}, {"a": b"theirs"})
    assert ahead.mirror.merge(ahead.ours, ahead.theirs) == ahead.theirs
    behind = Forked(tmp_path / "behind", {"a": b"ours"}, {})
    assert behind.mirror.merge(behind.ours, behind.theirs) == behind.ours


def test_a_conflict_names_the_files(tmp_path: Path) -> None:
    forked = Forked(tmp_path, {"dir/b": b"ours", "c": None}, {"dir/b": b"theirs", "c": b"theirs"})
    with pytest.raises(GitError, match=rf"{forked.theirs[:12]} conflicts with .* in 'c', 'dir/b'$") as caught:
        forked.mirror.merge(forked.ours, forked.theirs)
    assert "merge the target branch" in caught.value.hint


def test_nothing_that_the_repository_names_is_run(tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    attributes = b"* merge=trap filter=trap diff=trap\n"
    both: dict[str, bytes | None] = {".gitattributes": attributes}
    forked = Forked(tmp_path, {**both, "a": b"ours"}, {**both, "a": b"theirs"})
    git(forked.author, "config", "merge.trap.driver", f"touch {trap}")
    with pytest.raises(GitError, match="conflicts"):
        forked.mirror.merge(forked.ours, forked.theirs)
    assert not trap.exists()


def test_what_has_nothing_in_common_is_not_merged(tmp_path: Path) -> None:
    forked = Forked(tmp_path, {}, {"a": b"theirs"})
    other = clone_of(tmp_path / "other")
    alien = commit(other, {"z": b"1"})
    git(other, "push", "--quiet", str(forked.server), "HEAD:refs/merge-requests/9/head")
    assert forked.mirror.fetch("refs/merge-requests/9/head") == alien
    with pytest.raises(GitError, match="unrelated"):
        forked.mirror.merge(forked.ours, alien)
    with pytest.raises(GitError):
        forked.mirror.merge(forked.ours, "1" * 40)


@pytest.mark.parametrize(
    "name",
    [
        "refs/pull/0/head",
        "refs/pull/7/merge",
        "refs/pull/77/head/x",
        "refs/pull/x/head",
        "refs/changes/1/head",
    ],
)
def test_other_refs_are_branches_by_that_name(tmp_path: Path, name: str) -> None:
    forked = Forked(tmp_path, {}, {"a": b"theirs"})
    git(forked.author, "push", "--quiet", "origin", f"HEAD:{name}")
    with pytest.raises(GitError, match="has no branch"):
        forked.mirror.fetch(name)


def test_heads_of_pull_requests_and_branches_are_looked_up_together(tmp_path: Path) -> None:
    forked = Forked(tmp_path, {"x": b"1"}, {"a": b"theirs"})
    assert forked.mirror.heads(["main", "refs/pull/7/head", "refs/pull/8/head"]) == {
        "main": forked.ours,
        "refs/pull/7/head": forked.theirs,
    }
    with pytest.raises(GitError, match="has no pull request 'refs/pull/8/head'"):
        forked.mirror.fetch("refs/pull/8/head")
    with pytest.raises(GitError, match="is not a branch"):
        forked.mirror.push("refs/pull/7/head", forked.ours)
