"""Builds images on this machine: the `local` builder.

Belongs here: which builds are known, which run, and ending them.
Does not belong here: one build's life (`attempt`), how buildah is called (`build.sh`), what can be built here
(`machine`).
"""

from __future__ import annotations

import logging
import re
from collections import deque
from dataclasses import replace
from threading import Condition, Event, Thread, current_thread
from typing import Final

from reconciler.adapters.builders import console
from reconciler.adapters.builders.attempt import Attempt, LocalOptions, Verdict
from reconciler.adapters.builders.console import Console
from reconciler.adapters.builders.machine import Machine
from reconciler.adapters.builders.workspace import Workspaces
from reconciler.core.model import Arch, Needs
from reconciler.ports import Build, BuildRequest, Cause, Clock, Objects, Phase, Refusal

_LOG: Final = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
"""A Kubernetes object's name; here it names files."""
_CLOSING: Final = 60.0
"""Seconds for running builds to be ended and cleaned up."""


class LocalBuilder:
    """The `Builder` that runs buildah on this machine. Its builds end with it, even when it is killed."""

    def __init__(self, objects: Objects, options: LocalOptions, clock: Clock) -> None:
        """Take over `options.directory`, and delete what killed predecessors left there. Raises OSError."""
        self._objects = objects
        self._options = options
        self._clock = clock
        self._machine = Machine(options.host, options.env)
        self._logs = options.directory / "logs"
        options.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._logs.mkdir(mode=0o700, exist_ok=True)
        self._workspaces = Workspaces(options.directory, options.env, options.host.proc)
        self._workspaces.sweep()
        self._stop = Event()
        self._changed = Condition()  # guards everything below
        self._builds: dict[str, Build] = {}
        self._consoles: dict[str, Console] = {}
        self._queue: deque[BuildRequest] = deque()
        self._workers: set[Thread] = set()
        self._ended = 0

    def refusal(self, arch: Arch, needs: Needs) -> Refusal | None:
        """Why a recipe with these needs cannot be built here, or None."""
        return self._machine.refusal(arch, needs)

    def ensure(self, request: BuildRequest) -> None:
        """Queue a build unless one of this name is known.

        Raises ValueError for a name that cannot name a file, and RuntimeError after `close`.
        """
        if not _NAME.fullmatch(request.name):
            raise ValueError(f"{request.name!r} is not a build's name")
        with self._changed:
            if self._stop.is_set():
                raise RuntimeError("the builder is closed")
            if request.name in self._builds:
                return
            self._builds[request.name] = Build(
                name=request.name,
                pool=request.pool,
                arch=request.arch,
                phase=Phase.PENDING,
                annotations=request.annotations,
                log=str(self._logs / f"{request.name}.log"),
            )
            self._queue.append(request)
            if len(self._workers) < self._options.concurrency:
                worker = Thread(target=self._work, name="local-builder", daemon=True)
                self._workers.add(worker)
                worker.start()

    def builds(self) -> tuple[Build, ...]:
        """All builds this builder knows, running and ended, by name."""
        with self._changed:
            known = [self._builds[name] for name in sorted(self._builds)]
            steps = {name: running.step for name, running in self._consoles.items()}
        return tuple(replace(build, step=steps.get(build.name, build.step)) for build in known)

    def wait(self, seconds: float) -> bool:
        """Block until some build has ended since the last call, at most `seconds`; say whether one has."""
        with self._changed:
            ended = self._changed.wait_for(lambda: self._ended > 0, timeout=seconds)
            self._ended = 0
            return ended

    def close(self) -> None:
        """End every running build, drop the waiting ones, and free what they used. Safe to repeat."""
        self._stop.set()
        with self._changed:
            while self._queue:
                self._end(
                    self._queue.popleft(),
                    Verdict(cause=Cause.INFRASTRUCTURE, message="the builder was closed"),
                )
            workers = tuple(self._workers)
        for worker in workers:
            worker.join(_CLOSING)

    def _work(self) -> None:
        """Carry out waiting builds one after the other, until there are none."""
        while True:
            with self._changed:
                if not self._queue:
                    # Under the same lock as the look at the queue: else `ensure` could count on this worker.
                    self._workers.discard(current_thread())
                    return
                request = self._queue.popleft()
                self._builds[request.name] = replace(
                    self._builds[request.name], phase=Phase.RUNNING, started=self._clock.now()
                )
            try:
                verdict = self._carry_out(request)
            except Exception as error:  # a bug must not leave a build running for ever
                _LOG.exception("build %s", request.name)
                verdict = Verdict(cause=Cause.INFRASTRUCTURE, message=f"the builder failed: {error!r}")
            with self._changed:
                self._end(request, verdict)

    def _carry_out(self, request: BuildRequest) -> Verdict:
        try:
            output = Console(self._logs / f"{request.name}.log")
        except OSError as error:
            return Verdict(cause=Cause.INFRASTRUCTURE, message=f"cannot write a log in {self._logs}: {error}")
        with self._changed:
            self._consoles[request.name] = output
        try:
            workspace = self._workspaces.create(request.name)
            try:
                return Attempt(request, self._options, workspace, output, self._stop).run(self._objects)
            finally:
                self._workspaces.remove(workspace)
        except OSError as error:
            return Verdict(
                cause=Cause.INFRASTRUCTURE, message=f"no workspace in {self._options.directory}: {error}"
            )
        finally:
            output.close()
            with self._changed:
                del self._consoles[request.name]
            console.prune(self._logs)

    def _end(self, request: BuildRequest, verdict: Verdict) -> None:
        """Record how a build ended. The caller holds the lock."""
        self._builds[request.name] = replace(
            self._builds[request.name],
            phase=Phase.SUCCEEDED if verdict.cause is None else Phase.FAILED,
            step="",
            digest=verdict.digest,
            cause=verdict.cause,
            message=verdict.message,
            finished=self._clock.now(),
        )
        self._ended += 1
        self._changed.notify_all()
