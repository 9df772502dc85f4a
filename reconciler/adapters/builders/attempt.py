"""The life of one local build: its files, its process, its verdict.

Belongs here: what happens inside one workspace.
Does not belong here: which builds run when (`local`), how buildah is called (`build.sh`).
"""

from __future__ import annotations

import errno
import os
import selectors
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

from reconciler import process
from reconciler.adapters.builders import context, script
from reconciler.adapters.builders.console import Console
from reconciler.adapters.builders.machine import Host
from reconciler.adapters.builders.script import Exit, UnusableRequest
from reconciler.adapters.builders.workspace import Workspace
from reconciler.core.model import DIGEST
from reconciler.errors import ReconcilerError, Timeout
from reconciler.ports import BuildRequest, Cause, Objects

_GUARD: Final = Path(__file__).with_name("guard.py")
_TICK: Final = 0.2
"""Seconds between looks at the clock and at the request to stop."""
_GRACE: Final = 10.0
"""Seconds for the guard to end a build's processes."""
_STOPPED: Final = "the build was stopped, as the builder was closed"


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """How to build on this machine.

    `directory` is private to builders and holds workspaces and logs; `env` is all that buildah gets to see of
    the environment (PATH, HOME, proxies). `concurrency` builds run at once, each at most `timeout` seconds.
    `insecure` are registry hosts that may be reached over plain HTTP; `auth_file` is a containers-auth.json.
    """

    directory: Path
    env: Mapping[str, str]
    concurrency: int = 2
    timeout: float = 7200.0
    storage_driver: str = "vfs"
    insecure: frozenset[str] = frozenset()
    auth_file: Path | None = None
    host: Host = field(default_factory=Host.here)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a build ended: a digest, or whose fault it is and what happened."""

    digest: str = ""
    cause: Cause | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One build in one workspace. `stop` ends it early."""

    request: BuildRequest
    options: LocalOptions
    workspace: Workspace
    console: Console
    stop: Event

    def run(self, objects: Objects) -> Verdict:
        """Build and push. Whatever is expected to go wrong is a verdict, never an exception."""
        try:
            self._prepare(objects)
            if self.stop.is_set():
                return _failed(_STOPPED)
            return self._verdict(self._build())
        except UnusableRequest as error:
            return Verdict(cause=Cause.DEFINITION, message=_joined(error))
        except ReconcilerError as error:
            return _failed(_joined(error))
        except OSError as error:
            if error.errno == errno.ENOSPC:
                return _failed(self._disk_full())
            return _failed(f"the build could not be prepared: {error}")

    def _prepare(self, objects: Objects) -> None:
        """Write everything that the script reads."""
        folder = self.workspace.path
        for name, text in script.files(self.request).items():
            (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        if self.options.insecure:
            (folder / "registries.conf").write_text(script.registries_conf(self.options.insecure))
        context.export(self.request.context, objects, folder / "context")
        for name, content in script.configs_files(self.request).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    def _environment(self) -> dict[str, str]:
        folder = self.workspace.path
        own = script.environment(
            self.request,
            folder,
            driver=self.options.storage_driver,
            isolation="chroot",
            auth=str(self.options.auth_file or ""),
        )
        registries = (
            {script.REGISTRIES_CONF: str(folder / "registries.conf")} if self.options.insecure else {}
        )
        return {**self.options.env, **own, **registries}

    def _build(self) -> int:
        """Run the script under guard and return its exit status (negative: the guard was killed).

        Raises Timeout at the deadline or when told to stop, with no process left. This thread has to stay
        here while the build runs: the guard ends with the thread that started it.
        """
        guard = [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), str(self.workspace.guard_lock)]
        argv = [*guard, "/bin/sh", str(script.PATH)]
        reader, writer = os.pipe()
        try:
            try:
                started = process.start(argv, env=self._environment(), stdout=writer, stderr=writer)
            finally:
                os.close(writer)
            try:
                self._follow(started, reader)
                return process.finish(started, argv, timeout=_GRACE).status
            finally:
                _end(started, argv)
        finally:
            os.close(reader)

    def _follow(self, started: process.Popen[bytes], reader: int) -> None:
        """Take the output until the build ends. Raises Timeout when it must not go on."""
        end = time.monotonic() + self.options.timeout
        with selectors.DefaultSelector() as selector:
            selector.register(reader, selectors.EVENT_READ)
            while True:
                if selector.select(_TICK):
                    data = os.read(reader, 65536)
                    if not data:
                        return
                    self.console.feed(data)
                elif started.poll() is not None:
                    return  # only if the guard was killed can somebody else still hold the pipe
                if self.stop.is_set():
                    raise Timeout(_STOPPED)
                if time.monotonic() > end:
                    raise Timeout(
                        f"the build took longer than {self.options.timeout:g} s, at: {self.console.step}"
                    )

    def _verdict(self, status: int) -> Verdict:
        self.console.close()
        tail = self.console.tail()
        if status == Exit.PUSHED:
            digest = (self.workspace.path / "digest").read_text().strip()
            return (
                Verdict(digest)
                if DIGEST.fullmatch(digest)
                else _failed(f"buildah wrote no digest but {digest!r}")
            )
        if status == Exit.DEFINITION:
            headline = f"{self.console.instruction or 'the Containerfile'} failed"
            return Verdict(cause=Cause.DEFINITION, message=f"{headline}\n{tail}")
        if "no space left on device" in tail.lower():
            return _failed(f"{self._disk_full()}\n{tail}")
        known = status in set(Exit)
        return _failed(f"{self.console.step if known else f'the build was killed (status {status})'}\n{tail}")

    def _disk_full(self) -> str:
        return f"no space left on device: the disk that holds {self.options.directory} is full"


def _failed(message: str) -> Verdict:
    return Verdict(cause=Cause.INFRASTRUCTURE, message=message)


def _joined(error: ReconcilerError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _end(started: process.Popen[bytes], argv: list[str]) -> None:
    """Have the guard end its build; end the guard itself should it not obey."""
    if started.poll() is None:
        started.terminate()
        try:
            process.finish(started, argv, timeout=_GRACE)
        except Timeout:
            return  # `finish` has killed the session
    if started.returncode < 0:
        process.kill(started)  # a guard that was killed leaves the rest of its session behind
