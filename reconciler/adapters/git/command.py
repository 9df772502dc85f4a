"""Running git safely: fixed environment, fixed configuration, a limit on every wait, nothing left behind.

Belongs here: how a git process is started, fed, read, ended and judged.
Does not belong here: what any particular git command is for.

Git is started through GitPython's `Git.execute`, which gives us the plain process. Nothing else of GitPython
is used: its `Repo` objects keep `cat-file` children alive, its own time limit needs `pgrep`, and its fences
against hostile arguments were bypassed many times. So the fences are here: complete argument lists, `--`
before anything that comes from outside, explicit `--git-dir`, and no configuration but ours.

GitPython starts every child from the environment of this process. That is why `scrub` exists.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from reconciler.adapters.git import failures
from reconciler.errors import GitError, GitUnavailable, Timeout, ToolMissing
from reconciler.process import Finished, Popen, finish, kill

HINT_INSTALL: Final = "install git 2.38 or newer and make sure that it is on PATH"

SSH: Final = (
    "ssh -F none -oBatchMode=yes -oStrictHostKeyChecking=yes -oConnectTimeout=20"
    " -oServerAliveInterval=15 -oServerAliveCountMax=2"
)

_ENVIRONMENT: Final[Mapping[str, str]] = {
    # No configuration, attributes, ignore rules, cookies or passwords of this machine or account.
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    # Never ask anybody anything. An empty GIT_ASKPASS switches every askpass program off.
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    # Objects are what their ids say, and a missing one is missing.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    # Reading never refreshes somebody's index.
    "GIT_OPTIONAL_LOCKS": "0",
    # Overrides `core.sshCommand`, which a repository could set.
    "GIT_SSH_COMMAND": SSH,
}

HARMLESS: Final = (
    "badEmail",
    "badTimezone",
    "missingEmail",
    "missingNameBeforeEmail",
    "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail",
    "zeroPaddedDate",
    "zeroPaddedFilemode",
)
"""Faults that old Git versions and importers left in many histories. They change nothing that we read, and
history cannot be mended, so they must not lock a repository out. Every other fault that fsck knows is
refused."""

_CONFIG: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.symlinks=false",
    "core.untrackedCache=false",
    "credential.helper=",
    "fetch.fsckObjects=true",
    "transfer.fsckObjects=true",
    *(f"{scope}.{fault}=ignore" for scope in ("fetch.fsck", "fsck") for fault in HARMLESS),
    "fetch.recurseSubmodules=false",
    "submodule.recurse=false",
    # Always keep a fetched pack whole: a pack appears at once, while objects unpacked one by one may be cut
    # short by a kill and then look like a complete commit.
    "fetch.unpackLimit=1",
    # A bare repository inside a work tree must never be taken for the repository.
    "safe.bareRepository=explicit",
    # Containers often run as another user than the owner of the files. The check protects against programs
    # that a foreign repository's configuration names; those are all switched off here.
    "safe.directory=*",
    "gc.auto=0",
    "gc.autoDetach=false",
    "maintenance.auto=false",
    "maintenance.autoDetach=false",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=30",
)


def scrub(environ: MutableMapping[str, str]) -> None:
    """Take everything that steers git out of `environ`. The command line calls this first of all.

    Git sets `GIT_DIR`, `GIT_INDEX_FILE` and more for its hooks, so a reconciler that runs in a hook would
    look at the wrong repository. `GIT_CONFIG_*`, `GIT_SSH*`, `GIT_EXEC_PATH` or `GIT_PYTHON_*` can make it
    run programs. Every `GIT_*` variable goes, and those that let ssh ask for passwords.
    """
    for name in [n for n in environ if n.startswith("GIT_") or n in ("SSH_ASKPASS", "SSH_ASKPASS_REQUIRE")]:
        del environ[name]


class Stream:
    """What a running git prints, read in pieces. Each piece must arrive within the time limit."""

    def __init__(self, process: Popen[bytes], git: Git) -> None:
        if process.stdout is None:
            raise ValueError("the process has no pipe to read from")
        self._process = process
        self._git = git
        self._fd = process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN | select.POLLHUP)
        self._chunk = b""
        self._at = 0

    def line(self) -> bytes:
        """The next line without its end. Raises GitError when the output ends before, and Timeout."""
        until = time.monotonic() + self._git.timeout
        found = b""
        while (end := self._chunk.find(b"\n", self._at)) < 0:
            found += self._chunk[self._at :]
            self._refill(until)
        found += self._chunk[self._at : end]
        self._at = end + 1
        return found

    def exactly(self, size: int) -> bytes:
        """The next `size` bytes. Raises GitError when the output ends before, and Timeout."""
        until = time.monotonic() + self._git.timeout
        parts: list[bytes] = []
        while (here := len(self._chunk) - self._at) < size:
            parts.append(self._chunk[self._at :])
            size -= here
            self._refill(until)
        parts.append(self._chunk[self._at : self._at + size])
        self._at += size
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def everything(self, limit: int) -> bytes:
        """All that is left of the output, at most `limit` bytes, of a git that must end well.

        Raises GitError when git fails or prints more, and Timeout.
        """
        until = time.monotonic() + self._git.timeout
        parts = [self._chunk[self._at :]]
        size = len(parts[0])
        self._chunk, self._at = b"", 0
        while chunk := self._read(until):
            size += len(chunk)
            if size > limit:
                raise GitError(
                    f"the listing is larger than {limit >> 20} MiB",
                    hint="the tree has far too many files, or is made to exhaust its reader",
                )
            parts.append(chunk)
        self._check()
        return b"".join(parts)

    def _refill(self, until: float) -> None:
        self._chunk, self._at = self._read(until), 0
        if not self._chunk:
            self._check()
            raise failures.CommandFailed("git ended before it had printed all that was asked for")

    def _read(self, until: float) -> bytes:
        left = until - time.monotonic()
        if left <= 0 or not self._poll.poll(left * 1000):
            raise Timeout(f"git was ended after {self._git.timeout:g} s without finishing")
        return os.read(self._fd, 1 << 16)

    def _check(self) -> None:
        done = finish(self._process, ("git",), timeout=self._git.timeout)
        if done.status:
            raise self._git.failed(done)


@dataclass(frozen=True, slots=True)
class Git:
    """How git is called for one repository.

    `directory` is where git starts; `/` keeps a repository's own `core.worktree` from changing what paths
    mean. `protocols` is the transport that may be used ("none" for reading only). `environment` comes on top
    of the fixed one; it and `secrets`, which are masked in every message, never show in a representation.
    `timeout` is in seconds, for each call. `inherit` are descriptors that a child keeps open (a lock that it
    must outlive). `about` is what messages name instead of the folder.
    """

    git_dir: Path | None
    timeout: float
    directory: Path = Path("/")
    work_tree: Path | None = None
    protocols: str = "none"
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    inherit: tuple[int, ...] = ()
    about: str = ""

    def run(self, *arguments: str, stdin: bytes = b"") -> Finished:
        """Run git to its end, whatever its status. Raises Timeout, ToolMissing, GitError when it cannot start."""
        return finish(self._start(arguments, stdin), ("git", *arguments), timeout=self.timeout)

    def output(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What git prints, without one line end. Raises GitError when it fails, and what `run` raises."""
        done = self.run(*arguments, stdin=stdin)
        if done.status:
            raise self.failed(done)
        return done.stdout.removesuffix(b"\n")

    def failed(self, done: Finished) -> GitError:
        """The error that a failed call means, with everything secret masked."""
        return failures.failure(done.stderr, self._about, self.secrets)

    @property
    def _about(self) -> str:
        return self.about or str(self.git_dir or self.directory)

    @contextmanager
    def stream(self, *arguments: str, stdin: bytes = b"") -> Iterator[Stream]:
        """Read a running git piece by piece; it is gone when the block ends."""
        process = self._start(arguments, stdin)
        try:
            yield Stream(process, self)
        finally:
            if process.returncode is None:
                kill(process)

    def _start(self, arguments: tuple[str, ...], stdin: bytes) -> Popen[bytes]:
        """Start git with `stdin` as a file: no pipe to feed means no way to block on feeding it.

        The process is taken out of GitPython's wrapper, whose finalizer would end it at a time of its own.
        """
        try:
            from git.cmd import Git as GitPython
            from git.exc import GitCommandNotFound
        except ModuleNotFoundError:  # GitPython itself is missing: a broken installation, not a missing tool
            raise
        except ImportError as error:  # GitPython runs git when it is imported
            raise ToolMissing("there is no program 'git' here", hint=HINT_INSTALL) from error
        try:
            with TemporaryFile() if stdin else nullcontext() as given:
                if given is not None:
                    given.write(stdin)
                    given.seek(0)
                handle = GitPython().execute(
                    self._argv(arguments),
                    istream=given,
                    as_process=True,
                    shell=False,
                    env={**_ENVIRONMENT, "GIT_ALLOW_PROTOCOL": self.protocols, **self.environment},
                    start_new_session=True,
                    pass_fds=self.inherit,
                )
        except GitCommandNotFound as error:
            raise ToolMissing("there is no program 'git' here", hint=HINT_INSTALL) from error
        except ValueError as error:  # a NUL byte, or text that cannot be an argument
            raise GitError(f"{arguments!r} cannot be passed to git: {error}") from error
        except OSError as error:  # no memory, descriptors or disk left
            raise GitUnavailable(f"git could not be started: {error.strerror}") from error
        process, handle.proc = handle.proc, None
        if process is None:
            raise GitUnavailable("git could not be started")
        return process

    def _argv(self, arguments: tuple[str, ...]) -> list[str]:
        argv = ["git", "--no-pager", "-C", str(self.directory)]
        for setting in _CONFIG:
            argv += ["-c", setting]
        if self.git_dir is not None:
            argv.append(f"--git-dir={self.git_dir}")
        if self.work_tree is not None:
            argv.append(f"--work-tree={self.work_tree}")
        return [*argv, *arguments]
