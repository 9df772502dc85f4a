"""Real repositories for tests of the Git adapter, made by the git of this machine, and looking at what runs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@example.com",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@example.com",
}


def git(where: Path, *arguments: str, stdin: bytes = b"", date: int = 1_700_000_000) -> str:
    """Run git in a folder as a person would; its output without the last line end."""
    dates = {"GIT_AUTHOR_DATE": f"@{date} +0000", "GIT_COMMITTER_DATE": f"@{date} +0000"}
    done = subprocess.run(
        ["git", *arguments],
        cwd=where,
        env=ENVIRONMENT | dates,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")


def clone_of(where: Path) -> Path:
    """An empty repository with a work tree."""
    where.mkdir(parents=True)
    git(where, "init", "--quiet", "-b", "main")
    return where


def bare(where: Path) -> Path:
    """An empty bare repository."""
    where.mkdir(parents=True)
    git(where, "init", "--quiet", "--bare", "-b", "main")
    return where


def commit(
    where: Path, files: Mapping[str, bytes | None], message: str = "change", date: int = 1_700_000_000
) -> str:
    """Write files into a work tree (None removes one) and commit all of it."""
    for name, content in files.items():
        path = where / name
        if content is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--allow-empty", "-m", message, date=date)
    return git(where, "rev-parse", "HEAD")


def remote_with(where: Path, files: Mapping[str, bytes]) -> tuple[Path, Path]:
    """A bare repository with one commit on `main`, and a clone to change it from."""
    server, author = bare(where / "server.git"), clone_of(where / "author")
    commit(author, files)
    git(author, "remote", "add", "origin", str(server))
    git(author, "push", "--quiet", "origin", "main")
    return server, author


def hook(repository: Path, name: str, script: str) -> None:
    """Install a hook into a git directory."""
    path = repository / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def place(cache: Path) -> Path:
    """The mirror's repository."""
    return next(cache.glob("*/repository.git"))


def truncate_pack(repository: Path) -> None:
    """Damage every pack of a repository, as a crash of the machine may."""
    for pack in (repository / "objects" / "pack").glob("*.pack"):
        pack.chmod(0o600)
        os.truncate(pack, 20)


def children() -> set[int]:
    """The processes below this one that are still there, zombies included."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found |= {int(pid) for pid in (task / "children").read_text().split()}
        except FileNotFoundError:
            continue
    return found


def descriptors() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


def processes_with(text: str) -> list[str]:
    """Command lines on this machine that contain `text`, this process and its pytest left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found


def until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Wait for a condition to hold; whether it does."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def gone(text: str) -> bool:
    """Whether no command line contains `text`, after giving what was just killed a moment to disappear."""
    return until(lambda: not processes_with(text), 5)
