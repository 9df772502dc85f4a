from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reconciler.adapters.git.command import Git, scrub
from reconciler.adapters.git.mirror import Mirror
from reconciler.adapters.git.objects import LocalObjects
from reconciler.errors import GitError, GitUnavailable, Timeout, ToolMissing
from tests.adapters.git.support import clone_of, commit, git, gone, hook, processes_with


def test_scrub_takes_what_steers_git_and_leaves_the_rest() -> None:
    environ = {
        "GIT_DIR": "/elsewhere",
        "GIT_INDEX_FILE": "x",
        "GIT_CONFIG_COUNT": "1",
        "GIT_SSH": "evil",
        "GIT_PYTHON_GIT_EXECUTABLE": "evil",
        "SSH_ASKPASS": "evil",
        "SSH_ASKPASS_REQUIRE": "force",
        "SSH_AUTH_SOCK": "/agent",
        "HTTPS_PROXY": "http://proxy",
        "PATH": "/bin",
        "DIGIT_": "1",
    }
    scrub(environ)
    assert environ == {
        "SSH_AUTH_SOCK": "/agent",
        "HTTPS_PROXY": "http://proxy",
        "PATH": "/bin",
        "DIGIT_": "1",
    }


def test_in_a_hook_of_another_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, other = clone_of(tmp_path / "asked"), clone_of(tmp_path / "other")
    wanted = commit(asked, {"a": b"1"})
    commit(other, {"b": b"2"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    scrub(os.environ)
    assert LocalObjects.open(asked).resolve("HEAD") == wanted


def test_without_git_the_error_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import pathlib, reconciler.errors as e\n"
        "from reconciler.adapters.git.objects import LocalObjects\n"
        "for _ in range(2):\n"
        "    try: LocalObjects.open(pathlib.Path('.'))\n"
        "    except e.ToolMissing as error: print(error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.decode().count("install git") == 2


def test_git_vanishing_later_is_the_same_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone_of(tmp_path / "a")
    LocalObjects.open(tmp_path / "a")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="there is no program 'git'") as caught:
        LocalObjects.open(tmp_path / "a")
    assert caught.value.hint.startswith("install git")


def test_a_server_that_never_answers_costs_the_time_limit_and_no_process(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        mirror = Mirror(f"http://127.0.0.1:{port}/os.git", tmp_path, timeout=1)
        with pytest.raises(GitUnavailable, match="did not answer within 1 s") as caught:
            mirror.head("main")
        assert caught.value.hint
        with pytest.raises(GitUnavailable):
            mirror.fetch("main")
    assert gone(f":{port}/os.git")


def test_a_stalled_local_git_is_ended_with_all_it_started(tmp_path: Path) -> None:
    work = clone_of(tmp_path / "work")
    commit(work, {"a": b"1"})
    marker = f"sleep 5{os.getpid()}"
    # An alias is the plain way to make git start something that lasts.
    git_dir = work / ".git"
    git(work, "config", "alias.stall", f"!{marker}; true")
    stalled = Git(git_dir, 0.5)
    with pytest.raises(Timeout):
        stalled.run("stall")
    with pytest.raises(Timeout), stalled.stream("stall") as output:
        output.line()
    assert gone(marker)


@pytest.mark.parametrize("limit", [3, 100])
def test_a_stream_gives_what_was_printed(tmp_path: Path, limit: int) -> None:
    work = clone_of(tmp_path / "work")
    commit(work, {"a": b"1"})
    with Git(work / ".git", 10).stream(
        "hash-object", "--stdin-paths", "--no-filters", stdin=b"/dev/null\n"
    ) as output:
        if limit == 3:
            with pytest.raises(GitError, match="larger than"):
                output.everything(limit)
        else:
            assert output.everything(limit) == b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n"


def test_output_that_ends_too_early_is_an_error(tmp_path: Path) -> None:
    work = clone_of(tmp_path / "work")
    with Git(work / ".git", 10).stream("version") as output:
        assert output.line().startswith(b"git version")
        with pytest.raises(GitError, match="ended before"):
            output.exactly(1)
    with (
        Git(work / ".git", 10).stream("cat-file", "-p", "HEAD") as output,
        pytest.raises(GitError, match="HEAD"),
    ):
        output.line()


def test_what_cannot_be_an_argument_is_an_error(tmp_path: Path) -> None:
    commit(clone_of(tmp_path / "work"), {"a": b"1"})
    objects = LocalObjects.open(tmp_path / "work")
    for revision in ("a\0b", "\ud800", "x" * 3_000_000):
        with pytest.raises(GitError):
            objects.resolve(revision)


HOSTILE = [
    "--upload-pack=touch X",
    "-x",
    "--all",
    "--output=X",
    "$(touch X)",
    ";touch X",
    "|touch X",
    "`touch X`",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_name_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    server = tmp_path / "work"
    head = commit(clone_of(server), {"a": b"1"})
    monkeypatch.chdir(tmp_path)
    objects, mirror = LocalObjects.open(server), Mirror(str(server), tmp_path / "cache")
    mirror.fetch("main")
    with pytest.raises(GitError, match="there is no commit"):
        objects.resolve(name)
    for call in (
        lambda: mirror.head(name),
        lambda: mirror.fetch(name),
        lambda: mirror.push(name, head),
        lambda: objects.tree(name),
        lambda: objects.committed_at(name),
        lambda: objects.history(name, "a"),
        lambda: list(objects.blobs([name])),
        lambda: objects.is_ancestor(name, head),
        lambda: mirror.commit(name, {}, "", 0),
    ):
        with pytest.raises(GitError):
            call()
    assert not objects.has(name)
    assert objects.history(head, name) == ()
    assert objects.tree(head, name) == ()
    assert not list(tmp_path.rglob("X"))
    assert git(server, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_nothing_that_a_local_repository_configures_is_run(tmp_path: Path) -> None:
    work, trap = clone_of(tmp_path / "work"), tmp_path / "trapped"
    head = commit(work, {"a": b"1", ".gitattributes": b"* filter=x diff=x\n"})
    evil = f"touch {trap}; false"
    for name in (
        "post-checkout",
        "pre-commit",
        "post-index-change",
        "reference-transaction",
        "fsmonitor-watchman",
    ):
        hook(work / ".git", name, evil)
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.x.textconv"):
        git(work, "config", key, evil)
    for key in (
        "diff.external",
        "gpg.program",
        "core.sshCommand",
        "core.pager",
        "credential.helper",
        "core.askpass",
    ):
        git(work, "config", key, f"!{evil}" if key == "credential.helper" else evil)
    git(work, "config", "log.showSignature", "true")
    # A missing object would be asked for at the promisor: a transport that runs a program.
    git(work, "config", "extensions.partialClone", "origin")
    git(work, "config", "remote.origin.url", f"ext::sh -c touch% {trap}")
    git(work, "config", "remote.origin.promisor", "true")
    git(work, "config", "protocol.ext.allow", "always")
    (tmp_path / "worktree-of-config").mkdir()
    git(work, "config", "core.worktree", str(tmp_path / "worktree-of-config"))
    objects = LocalObjects.open(work)
    assert objects.resolve("HEAD") == head
    assert [entry.path for entry in objects.tree(head)] == [".gitattributes", "a"]
    assert dict(objects.blobs(e.oid for e in objects.tree(head)))
    assert objects.history(head, "a") == (head,)
    assert objects.committed_at(head) == 1_700_000_000
    assert not objects.has("1" * 40)
    with pytest.raises(GitError):
        list(objects.blobs(["1" * 40]))
    assert not trap.exists()


def test_reading_may_use_no_transport_at_all(tmp_path: Path) -> None:
    work = clone_of(tmp_path / "work")
    reader = Git(work / ".git", 10)
    for address in (str(work), work.as_uri(), "https://127.0.0.1:9/x", "ssh://127.0.0.1:9/x", "ext::true"):
        with pytest.raises(GitError, match=r"transport '.*' not allowed"):
            reader.output("ls-remote", "--", address)


def test_credentials_never_stand_in_the_list_of_processes(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        mirror = Mirror(f"http://bot:hunter2@127.0.0.1:{port}/os.git", tmp_path, timeout=2)
        problems: list[GitError] = []

        def ask() -> None:
            try:
                mirror.head("main")
            except GitError as error:
                problems.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        server.settimeout(30)
        with server.accept()[0]:
            lines = processes_with(f":{port}/os.git")
        thread.join()
    assert lines
    assert not [line for line in lines if "hunter2" in line]
    assert "hunter2" not in str(problems[0])
