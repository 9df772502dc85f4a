"""The one door to other programs: argv lists, no shell, a given environment, and a wall-clock limit on everything.

Belongs here: starting a child in its own session and making sure that it, and all it started, is gone at the limit.
Does not belong here: knowing any particular program. A test holds that nothing else imports `subprocess`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from reconciler.errors import Timeout, ToolMissing

Popen = subprocess.Popen


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended: its exit status (negative: the signal that killed it) and all it printed."""

    argv: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: bytes

    @property
    def complaint(self) -> str:
        """The last lines of standard error, fit for a message."""
        lines = self.stderr.decode("utf-8", "replace").strip().splitlines()
        return "\n".join(lines[-5:])


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start a program in its own session with exactly this environment.

    Raises ToolMissing when there is no such program.
    """
    try:
        return subprocess.Popen(  # noqa: S603  (argv lists only, never a shell)
            list(argv),
            env=dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise ToolMissing(f"there is no program {argv[0]!r} here", hint=f"install {argv[0]}") from error


def finish(
    process: subprocess.Popen[bytes], argv: Sequence[str], *, timeout: float, stdin: bytes | None = None
) -> Finished:
    """Feed a started program, collect what it prints and wait for it, at most `timeout` seconds.

    Raises Timeout after killing the whole session.
    """
    try:
        out, err = process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        kill(process)
        raise Timeout(f"{argv[0]} was ended after {timeout:g} s without finishing") from error
    except BaseException:
        kill(process)
        raise
    return Finished(tuple(argv), process.returncode, out or b"", err or b"")


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    timeout: float,
    cwd: Path | None = None,
    stdin: bytes | None = None,
) -> Finished:
    """Run a program to its end. A non-zero status is an answer, not an error: the caller knows what it means.

    Raises ToolMissing and Timeout.
    """
    pipe = subprocess.DEVNULL if stdin is None else subprocess.PIPE
    return finish(start(argv, env=env, cwd=cwd, stdin=pipe), argv, timeout=timeout, stdin=stdin)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and everything in its session, and reap it. Safe to repeat.

    Once a program is reaped its number may belong to somebody else, so then nobody is killed.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()


@contextmanager
def deadline(process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    """Kill the session when the block takes longer than `seconds`; for callers who talk to a program step by step."""
    timer = Timer(seconds, kill, args=[process])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
