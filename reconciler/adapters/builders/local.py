"""Builds images on this machine: the `local` builder.

Belongs here: which builds are known, which run, ending them and forgetting them.
Does not belong here: one build's life (`attempt`), how buildah is called (`build.sh`), what can be built here
(`machine`).
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace
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


@dataclass(slots=True)
class _Run:
    """A build in the hands of a worker, until its last file is gone. What a discarded one comes to is told nobody."""

    console: Console | None = None
    discarded: bool = False
    stop: Event = field(default_factory=Event)


class LocalBuilder:
    """The `Builder` that runs buildah on this machine. Its builds end with it, even when it is killed.

    At most `options.concurrency` threads work, and only while there is something to build. What is known of a build
    is kept until it is discarded.
    """

    def __init__(self, objects: Objects, options: LocalOptions, clock: Clock) -> None:
        """Take over `options.directory`, and delete what killed predecessors left there. Raises OSError."""
        self._objects = objects
        self._options = options
        self._clock = clock
        self._machine = Machine(options.host, options.env)
        self._logs = options.directory / "logs"
        self._make_folders()
        self._workspaces = Workspaces(options.directory, options.env, options.host.proc)
        self._workspaces.sweep()
        self._changed = Condition()  # guards everything below
        self._closed = False
        self._builds: dict[str, Build] = {}
        self._queue: deque[BuildRequest] = deque()
        self._running: dict[str, _Run] = {}
        self._workers: set[Thread] = set()
        self._ended: set[str] = set()

    def refusal(self, arch: Arch, needs: Needs) -> Refusal | None:
        """Why a recipe with these needs cannot be built here, or None."""
        return self._machine.refusal(arch, needs)

    def ensure(self, request: BuildRequest) -> None:
        """Queue a build unless one of this name is known.

        One whose namesake was discarded and is not gone yet waits for that: two of a name never run at once.
        Raises ValueError for a name that cannot name a file, and RuntimeError after `close`.
        """
        if not _NAME.fullmatch(request.name):
            raise ValueError(f"{request.name!r} is not a build's name")
        with self._changed:
            if self._closed:
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
            self._hire()

    def builds(self) -> tuple[Build, ...]:
        """All builds this builder knows, running and ended, by name. A discarded one is none of them."""
        with self._changed:
            known = [self._builds[name] for name in sorted(self._builds)]
            steps = {n: r.console.step for n, r in self._running.items() if r.console and not r.discarded}
        return tuple(replace(build, step=steps.get(build.name, build.step)) for build in known)

    def glance(self) -> tuple[Build, ...]:
        """As `builds`: there is nobody to ask."""
        return self.builds()

    def discard(self, names: Collection[str]) -> None:
        """Forget these builds; drop those that wait and end those that run.

        Returns at once: a running one ends by itself within moments, with its processes and its files, and keeps its
        place among those that run until then. Its log stays, as long as any log does. Unknown names are ignored.
        """
        unwanted = frozenset(names)
        with self._changed:
            self._queue = deque(request for request in self._queue if request.name not in unwanted)
            self._ended -= unwanted
            for name in unwanted:
                self._builds.pop(name, None)
                if run := self._running.get(name):
                    run.discarded = True
                    run.stop.set()

    def wait(self, seconds: float) -> bool:
        """Block until some build has ended since the last call, at most `seconds`; say whether one has.

        The end of a discarded build is no news: nobody could find out which one it was.
        """
        with self._changed:
            ended = self._changed.wait_for(lambda: bool(self._ended), timeout=seconds)
            self._ended.clear()
            return ended

    def close(self) -> None:
        """End every running build, drop the waiting ones, and free what they used. Safe to repeat."""
        with self._changed:
            self._closed = True
            self._give_up("the builder was closed")
            for run in self._running.values():
                run.stop.set()
            workers = tuple(self._workers)
        for worker in workers:
            worker.join(_CLOSING)

    def _make_folders(self) -> None:
        """Make the folders, which like all caches may be deleted at any time. Raises OSError."""
        self._options.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._logs.mkdir(mode=0o700, exist_ok=True)

    def _hire(self) -> None:
        """Start one more worker if there may be one. The caller holds the lock."""
        if len(self._workers) >= self._options.concurrency:
            return
        worker = Thread(target=self._work, name="local-builder", daemon=True)
        self._workers.add(worker)
        try:
            worker.start()
        except RuntimeError as error:  # the machine has no thread left
            self._workers.discard(worker)
            if not self._workers:
                self._give_up(f"no thread to build with: {error}")

    def _give_up(self, why: str) -> None:
        """End all that waits. The caller holds the lock."""
        while self._queue:
            self._end(self._queue.popleft(), Verdict(cause=Cause.INFRASTRUCTURE, message=why))

    def _next(self) -> BuildRequest | None:
        """The first build in the queue whose namesake is gone. The caller holds the lock.

        Whoever carries out a namesake looks here when that is done, so that a build which is passed over is found.
        """
        for request in self._queue:
            if request.name not in self._running:
                self._queue.remove(request)
                return request
        return None

    def _work(self) -> None:
        """Carry out waiting builds one after the other, until there are none."""
        while True:
            with self._changed:
                request = self._next()
                if request is None:
                    # Under the same lock as the look at the queue: else `ensure` could count on this worker.
                    self._workers.discard(current_thread())
                    return
                run = self._running[request.name] = _Run()
                self._builds[request.name] = replace(
                    self._builds[request.name], phase=Phase.RUNNING, started=self._clock.now()
                )
            try:
                verdict = self._carry_out(request, run)
            except Exception as error:  # a bug must not leave a build running for ever
                _LOG.exception("build %s", request.name)
                verdict = Verdict(cause=Cause.INFRASTRUCTURE, message=f"the builder failed: {error!r}")
            with self._changed:
                del self._running[request.name]
                if not run.discarded:
                    self._end(request, verdict)

    def _carry_out(self, request: BuildRequest, run: _Run) -> Verdict:
        try:
            self._make_folders()
            output = Console(self._logs / f"{request.name}.log")
        except OSError as error:
            return Verdict(cause=Cause.INFRASTRUCTURE, message=f"cannot write a log in {self._logs}: {error}")
        with self._changed:
            run.console = output
        try:
            workspace = self._workspaces.create(request.name)
            try:
                return Attempt(request, self._options, workspace, output, run.stop).run(self._objects)
            finally:
                self._workspaces.remove(workspace)
        except OSError as error:
            return Verdict(
                cause=Cause.INFRASTRUCTURE, message=f"no workspace in {self._options.directory}: {error}"
            )
        finally:
            output.close()
            with self._changed:
                spared = {run.console.path for run in self._running.values() if run.console}
            console.prune(self._logs, spared)

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
        self._ended.add(request.name)
        self._changed.notify_all()
