"""One pod on a node: its thread, its supervisor, and all that may end it.

Belongs here: from an admitted pod to its last status. Does not belong here: the API server (`agent` gives functions to
look objects up and to report), how containers run (`supervisor`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final

from reconciler import process
from tests.nodes import status
from tests.nodes.plan import PodPlan
from tests.nodes.resolve import Find, Image, NotYet, resolve
from tests.nodes.spec import Object, Rejected, admit
from tests.nodes.supervisor import now

_PROJECT: Final = Path(__file__).parents[2]
_GRACE: Final = 30.0
"""Seconds between SIGTERM and SIGKILL where a pod does not say."""
_RETRY: Final = 0.3
"""Seconds between looks for what a pod still lacks."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pod finds on its node. `report` is told of every change, from the pod's thread."""

    labels: Mapping[str, str]
    images: Mapping[str, Image]
    find: Find
    directory: Path
    """Folder for this pod alone, made when it starts; its logs stay."""
    report: Callable[[Object, status.Seen], None]


class PodRun:
    """A pod that a node has taken. It starts at once, and ends by itself, by `stop`, or with this process."""

    def __init__(self, pod: Object, around: Surroundings) -> None:
        self.pod = pod
        self._around = around
        self._seen = status.Seen(started=now())
        self._lock = Lock()
        self._stopped = Event()
        self._grace = _GRACE
        self._silent = False
        self._process: process.Popen[bytes] | None = None
        self._thread = Thread(target=self._run, name=f"pod-{pod['metadata']['name']}", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it still has a thread; without one there is neither process nor mount."""
        return self._thread.is_alive()

    def log(self, container: str) -> Path:
        """A container's log; there is none before it has started."""
        return self._around.directory / "logs" / f"{container}.log"

    def stop(
        self, grace: float | None = None, reason: str = "", message: str = "", disrupted: str = ""
    ) -> None:
        """End it: SIGTERM, and SIGKILL after `grace` seconds. With a reason, it has failed for that. Safe to repeat."""
        with self._lock:
            if reason:
                self._seen.fail(reason, message)
                self._seen.disrupted = disrupted
            own = self.pod["spec"].get("terminationGracePeriodSeconds")
            self._grace = (_GRACE if own is None else own) if grace is None else grace
            self._stopped.set()
            if self._process is not None and self._process.stdin is not None:
                with suppress(OSError, ValueError):  # it has just ended
                    self._process.stdin.write(json.dumps({"stop": self._grace}).encode() + b"\n")
                    self._process.stdin.flush()

    def vanish(self) -> None:
        """Kill it and report nothing more, as when a machine loses power."""
        self.silence()
        self.stop(0)
        self.wait(_GRACE)

    def silence(self) -> None:
        """Report nothing from now on."""
        self._silent = True

    def wait(self, seconds: float) -> None:
        """Wait until it is over. Raises TimeoutError."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise TimeoutError(f"pod {self.pod['metadata']['name']} did not end within {seconds:g} s")

    # -- the pod's own thread, which the supervisor dies with

    def _run(self) -> None:
        limit = self.pod["spec"].get("activeDeadlineSeconds")
        ended = Event()
        if limit is not None:
            Thread(target=self._watch, args=[float(limit), ended], daemon=True).start()
        try:
            admit(self.pod, self._around.labels)
            self._report()
            plan = self._plan()
            if plan is not None:
                self._carry_out(plan)
            self._settle()
        except Rejected as error:
            self._seen.fail(error.reason, error.message)
        except Exception as error:  # a bug of ours; the pod must not seem to run for ever
            self._seen.fail("AgentError", repr(error))
            raise
        finally:
            ended.set()
            self._report()

    def _watch(self, limit: float, ended: Event) -> None:
        if not ended.wait(limit):
            why = "Pod was active on the node longer than the specified deadline"
            self.stop(reason="DeadlineExceeded", message=why)

    def _plan(self) -> PodPlan | None:
        """Wait until all is there that the pod needs; None if it was stopped before."""
        folder = self._around.directory
        mounts, logs = folder / "mounts", folder / "logs"
        mounts.mkdir(parents=True, exist_ok=True)
        logs.mkdir(exist_ok=True)
        while not self._stopped.is_set():
            try:
                return resolve(self.pod, self._around.images, self._around.find, mounts, logs)
            except NotYet as error:
                waiting = [error.container] if error.container else status.names(self.pod)
                before = dict(self._seen.states)
                for name in waiting:
                    self._seen.wait(name, error.reason, error.message)
                if self._seen.states != before:
                    self._report()
            self._stopped.wait(_RETRY)
        return None

    def _carry_out(self, plan: PodPlan) -> None:
        for name in status.names(self.pod):
            self._seen.states.pop(name, None)
        argv = [sys.executable, "-S", "-m", "tests.nodes.supervisor", str(os.getpid())]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(_PROJECT), "PYTHONDONTWRITEBYTECODE": "1"}
        with (self._around.directory / "supervisor.log").open("wb") as log:
            started = process.start(argv, env=env, cwd=_PROJECT, stdin=subprocess.PIPE, stderr=log.fileno())
        assert started.stdin is not None
        assert started.stdout is not None
        try:
            text = plan.to_json().encode()
            started.stdin.write(b"%d\n%s" % (len(text), text))
            started.stdin.flush()
            with self._lock:
                self._process = started
            if self._stopped.is_set():
                self.stop(self._grace)
            for line in started.stdout:
                self._hear(json.loads(line))
            started.wait(_GRACE)
        finally:
            with self._lock:
                self._process = None
            process.kill(started)
            (self._around.directory / "mounts").rmdir()

    def _hear(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "started":
                self._seen.start(event["container"], event["at"])
            case "ended":
                self._seen.end(event)
            case "overfull":
                limit = next(
                    volume["emptyDir"]["sizeLimit"]
                    for volume in self.pod["spec"]["volumes"]
                    if volume["name"] == event["volume"]
                )
                why = f'Usage of EmptyDir volume "{event["volume"]}" exceeds the limit "{limit}".'
                self._seen.fail("Evicted", why)
            case "broken":
                self._seen.fail("AgentError", event["message"])
            case "done":
                return
        self._report()

    def _settle(self) -> None:
        """The pod is over. What has not run by now never will."""
        self._seen.lose([name for name, state in self._seen.states.items() if "running" in state], now())
        if status.phase(self.pod, self._seen) in ("Succeeded", "Failed"):
            return
        if self._stopped.is_set():
            self._seen.failed = True
            return
        log = (self._around.directory / "supervisor.log").read_text("utf-8", "replace")
        self._seen.fail("AgentError", log[-1000:] or "the supervisor was killed")

    def _report(self) -> None:
        if not self._silent:
            self._around.report(self.pod, self._seen)
