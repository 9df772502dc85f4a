"""A branch that is ours alone: made anew, and only over what was looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.adapters.git.mirror import Mirror
from reconciler.errors import GitUnavailable
from reconciler.ports import PushOutcome
from tests.adapters.git.support import git, hook, remote_with
from tests.servers.git_http import git_http

BRANCH = "reconciler/default/main"


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return remote_with(tmp_path, {"a": b"1"})[0]


def ready(server: Path, cache: Path) -> tuple[Mirror, str, str]:
    """A mirror, and two commits in it of which neither contains the other."""
    mirror = Mirror(str(server), cache)
    tip = mirror.fetch("main")
    one, two = (mirror.commit(tip, {"status/w": text}, "Record", 1_700_000_500) for text in (b"1", b"2"))
    return mirror, one, two


def test_a_branch_is_made_and_made_anew(server: Path, tmp_path: Path) -> None:
    mirror, one, two = ready(server, tmp_path / "cache")
    main = mirror.head("main")
    assert mirror.replace(BRANCH, one, "").outcome is PushOutcome.DONE
    assert mirror.replace(BRANCH, two, one).outcome is PushOutcome.DONE
    assert (mirror.head(BRANCH), mirror.head("main")) == (two, main)
    assert mirror.fetch(BRANCH) == two


def test_what_is_so_already_is_done(server: Path, tmp_path: Path) -> None:
    mirror, one, two = ready(server, tmp_path / "cache")
    mirror.replace(BRANCH, one, "")
    for known in ("", one, two):
        assert mirror.replace(BRANCH, one, known).outcome is PushOutcome.DONE


def test_what_was_not_looked_at_is_not_overwritten(server: Path, tmp_path: Path) -> None:
    mirror, one, two = ready(server, tmp_path / "cache")
    assert mirror.replace(BRANCH, one, two).outcome is PushOutcome.MOVED, "it is gone"
    other, _, theirs = ready(server, tmp_path / "other")
    other.replace(BRANCH, theirs, "")
    assert mirror.replace(BRANCH, one, "").outcome is PushOutcome.MOVED
    assert git(server, "rev-parse", BRANCH) == theirs


def test_the_reply_is_lost_after_the_branch_was_replaced(server: Path, tmp_path: Path) -> None:
    mirror, one, two = ready(server, tmp_path / "cache")
    mirror.replace(BRANCH, one, "")
    hook(server, "post-receive", "kill -9 $PPID")
    assert mirror.replace(BRANCH, two, one).outcome is PushOutcome.DONE
    assert git(server, "rev-parse", BRANCH) == two


def test_the_server_dies_before_it_was(server: Path, tmp_path: Path) -> None:
    mirror, one, two = ready(server, tmp_path / "cache")
    mirror.replace(BRANCH, one, "")
    hook(server, "pre-receive", "kill -9 $PPID")
    with pytest.raises(GitUnavailable):
        mirror.replace(BRANCH, two, one)
    assert git(server, "rev-parse", BRANCH) == one


def test_a_server_that_refuses(server: Path, tmp_path: Path) -> None:
    hook(server, "pre-receive", "echo 'no bots here'; exit 1")
    mirror, one, _ = ready(server, tmp_path / "cache")
    result = mirror.replace(BRANCH, one, "")
    assert result.outcome is PushOutcome.REFUSED
    assert "no bots here" in result.message


def test_a_branch_where_its_folder_must_be_is_no_reason_to_try_again(server: Path, tmp_path: Path) -> None:
    git(server, "branch", "reconciler", "main")
    mirror, one, _ = ready(server, tmp_path / "cache")
    result = mirror.replace(BRANCH, one, "")
    assert result.outcome is PushOutcome.REFUSED
    assert "cannot create" in result.message


def test_another_push_that_holds_the_branch_is_one(server: Path, tmp_path: Path) -> None:
    mirror, one, two = ready(server, tmp_path / "cache")
    mirror.replace(BRANCH, one, "")
    (server / "refs" / "heads" / f"{BRANCH}.lock").touch()
    assert mirror.replace(BRANCH, two, one).outcome is PushOutcome.MOVED


def test_a_confirmed_push_counts_though_the_remote_cannot_be_asked(server: Path, tmp_path: Path) -> None:
    git(server, "config", "http.receivepack", "true")
    with git_http(tmp_path) as web:
        web.status_after_push = 503
        mirror = Mirror(f"{web.url}/{server.name}", tmp_path / "cache")
        made = mirror.commit(mirror.fetch("main"), {"s": b"1"}, "Record", 1)
        assert mirror.replace(BRANCH, made, "").outcome is PushOutcome.DONE
    assert git(server, "rev-parse", BRANCH) == made
