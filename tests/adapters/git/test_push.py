from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from reconciler.adapters.git.mirror import Mirror
from reconciler.errors import GitUnavailable
from reconciler.ports import PushOutcome, PushResult
from tests.adapters.git.support import commit, git, gone, hook, remote_with
from tests.servers.git_http import git_http


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return remote_with(tmp_path, {"a": b"1"})[0]


def ready(server: Path, cache: Path, content: bytes = b"1") -> tuple[Mirror, str]:
    """A mirror, and a commit in it that could be pushed."""
    mirror = Mirror(str(server), cache)
    return mirror, mirror.commit(mirror.fetch("main"), {"status/w": content}, "Record", 1_700_000_500)


def test_a_push_moves_the_branch(server: Path, tmp_path: Path) -> None:
    mirror, made = ready(server, tmp_path / "cache")
    assert mirror.push("main", made) == PushResult(PushOutcome.DONE)
    assert mirror.head("main") == made
    assert mirror.push("main", made) == PushResult(PushOutcome.DONE)


def test_a_push_of_what_the_branch_contains_is_done(server: Path, tmp_path: Path) -> None:
    mirror, made = ready(server, tmp_path / "cache")
    mirror.push("main", made)
    later = mirror.commit(made, {"status/w": b"2"}, "Record", 2)
    other = Mirror(str(server), tmp_path / "other")
    other.commit(other.fetch("main"), {"status/w": b"2"}, "Record", 2)
    other.push("main", later)
    assert mirror.push("main", made).outcome is PushOutcome.DONE
    assert mirror.head("main") == later


def test_a_branch_that_is_not_there_is_created(server: Path, tmp_path: Path) -> None:
    mirror, made = ready(server, tmp_path / "cache")
    assert mirror.push("bot/status", made).outcome is PushOutcome.DONE
    assert mirror.head("bot/status") == made


def test_somebody_else_was_faster(server: Path, tmp_path: Path) -> None:
    one, mine = ready(server, tmp_path / "one", b"1")
    two, theirs = ready(server, tmp_path / "two", b"2")
    assert two.push("main", theirs).outcome is PushOutcome.DONE
    assert one.push("main", mine).outcome is PushOutcome.MOVED
    assert one.fetch("main") == theirs
    again = one.commit(theirs, {"status/w": b"1"}, "Record", 3)
    assert one.push("main", again).outcome is PushOutcome.DONE


def test_a_rewritten_branch_is_never_pushed_over(server: Path, tmp_path: Path) -> None:
    mirror, made = ready(server, tmp_path / "cache")
    author = tmp_path / "author"
    git(author, "checkout", "--quiet", "--orphan", "again")
    new = commit(author, {"a": b"2"})
    git(author, "push", "--quiet", "--force", "origin", "HEAD:refs/heads/main")
    assert mirror.push("main", made).outcome is PushOutcome.MOVED
    assert mirror.head("main") == new


def test_an_older_commit_does_not_move_the_branch_back(server: Path, tmp_path: Path) -> None:
    mirror, made = ready(server, tmp_path / "cache")
    first = mirror.head("main")
    mirror.push("main", made)
    assert mirror.push("main", first).outcome is PushOutcome.DONE
    assert mirror.head("main") == made


@pytest.mark.parametrize("name", ["pre-receive", "update"])
def test_a_server_that_refuses(server: Path, tmp_path: Path, name: str) -> None:
    hook(server, name, "echo 'main is protected: see https://bot:hunter2@h/x'; exit 1")
    mirror, made = ready(server, tmp_path / "cache")
    before = mirror.head("main")
    result = mirror.push("main", made)
    assert result.outcome is PushOutcome.REFUSED
    assert "main is protected: see https://***@h/x" in result.message
    assert "hook declined" in result.message
    assert mirror.head("main") == before


def test_no_permission_to_push_is_a_refusal(server: Path, tmp_path: Path) -> None:
    git(server, "config", "http.receivepack", "false")
    with git_http(tmp_path) as web:
        mirror = Mirror(f"{web.url}/{server.name}", tmp_path / "cache")
        made = mirror.commit(mirror.fetch("main"), {"s": b"1"}, "Record", 1)
        result = mirror.push("main", made)
    assert result.outcome is PushOutcome.REFUSED
    assert "403" in result.message


def test_the_reply_is_lost_after_the_branch_moved(server: Path, tmp_path: Path) -> None:
    hook(server, "post-receive", "kill -9 $PPID")
    mirror, made = ready(server, tmp_path / "cache")
    assert mirror.push("main", made).outcome is PushOutcome.DONE
    assert git(server, "rev-parse", "main") == made


def test_the_server_dies_before_the_branch_moved(server: Path, tmp_path: Path) -> None:
    hook(server, "pre-receive", "kill -9 $PPID")
    mirror, made = ready(server, tmp_path / "cache")
    before = mirror.head("main")
    with pytest.raises(GitUnavailable):
        mirror.push("main", made)
    hook(server, "pre-receive", "exit 0")
    assert mirror.head("main") == before
    assert mirror.push("main", made).outcome is PushOutcome.DONE


def test_a_push_that_takes_too_long_is_asked_about(server: Path, tmp_path: Path) -> None:
    mirror, made = ready(server, tmp_path / "cache")
    hook(server, "post-receive", "exec sleep 60")
    hasty = Mirror(str(server), tmp_path / "cache", timeout=1.5)
    assert hasty.push("main", made).outcome is PushOutcome.DONE
    later = mirror.commit(made, {"status/w": b"2"}, "Record", 2)
    hook(server, "pre-receive", "exec sleep 60")
    with pytest.raises(GitUnavailable, match="did not answer"):
        hasty.push("main", later)
    assert mirror.head("main") == made


def test_another_push_holding_the_branch_is_a_reason_to_try_again(server: Path, tmp_path: Path) -> None:
    mirror, made = ready(server, tmp_path / "cache")
    (server / "refs" / "heads" / "main.lock").touch()
    assert mirror.push("main", made).outcome is PushOutcome.MOVED


def test_a_confirmed_push_counts_though_the_remote_cannot_be_asked(server: Path, tmp_path: Path) -> None:
    git(server, "config", "http.receivepack", "true")
    with git_http(tmp_path) as web:
        web.status_after_push = 503
        mirror = Mirror(f"{web.url}/{server.name}", tmp_path / "cache")
        made = mirror.commit(mirror.fetch("main"), {"s": b"1"}, "Record", 1)
        assert mirror.push("main", made).outcome is PushOutcome.DONE
    assert git(server, "rev-parse", "main") == made


def test_a_remote_that_is_away_altogether(server: Path, tmp_path: Path) -> None:
    with git_http(tmp_path) as web:
        mirror = Mirror(f"{web.url}/{server.name}", tmp_path / "cache")
        made = mirror.commit(mirror.fetch("main"), {"s": b"1"}, "Record", 1)
        web.status = 503
        with pytest.raises(GitUnavailable):
            mirror.push("main", made)


def test_a_server_that_stalls_on_a_push(tmp_path: Path) -> None:
    server, _ = remote_with(tmp_path, {"a": b"1"})
    with git_http(tmp_path) as web:
        port = int(web.url.rsplit(":", 1)[1])
        mirror = Mirror(f"{web.url}/{server.name}", tmp_path / "cache")
        made = mirror.commit(mirror.fetch("main"), {"s": b"1"}, "Record", 1)
    hasty = Mirror(f"{web.url}/{server.name}", tmp_path / "cache", timeout=0.8)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(GitUnavailable, match="did not answer"):
        hasty.push("main", made)
    assert gone(f":{port}/")


def test_many_pushers_at_once_lose_nothing(server: Path, tmp_path: Path) -> None:
    pushers, rounds = 4, 2
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            mirror = Mirror(str(server), tmp_path / f"cache{number}")
            for turn in range(rounds):
                outcome = None
                while outcome is not PushOutcome.DONE:
                    head = mirror.fetch("main")
                    made = mirror.commit(head, {f"s/{number}-{turn}": b"x"}, "Record", number)
                    outcome = mirror.push("main", made).outcome
                    assert outcome is not PushOutcome.REFUSED
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(pushers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    listed = git(server, "ls-tree", "-r", "--name-only", "main").splitlines()
    assert listed == ["a", *sorted(f"s/{n}-{t}" for n in range(pushers) for t in range(rounds))]
    assert git(server, "rev-list", "--count", "main") == str(1 + pushers * rounds)
    assert git(server, "rev-list", "--merges", "main") == ""
