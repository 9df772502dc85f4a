"""A daemon that is killed, or stopped for a while, at a chosen side effect, or that is of another version.

    python -m tests.e2e.failing_daemon kill NUMBER --config CONFIG …
    python -m tests.e2e.failing_daemon kill-at-api NUMBER --config CONFIG …
    python -m tests.e2e.failing_daemon stop-before-tag NAME --config CONFIG …
    python -m tests.e2e.failing_daemon engine VERSION --config CONFIG …

Every call that changes something outside the process counts twice: before it and after it; `kill-at-api` counts those
to the Kubernetes API server alone. With a number beyond the last one the daemon goes on; the parent sees that
everything is done.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any

from reconciler.cli import local, logs
from reconciler.cli.compose_daemon import compose_daemon
from reconciler.redaction import Redactor
from tests.e2e.killed import EFFECTS


class Saboteur:
    """Counts side effects over all adapters, and does what it was told to at one of them."""

    def __init__(self, mode: str, argument: str) -> None:
        self._mode = mode
        self._argument = argument
        self._count = 0
        self._lock = Lock()

    def wrap(self, adapter: Any) -> Any:
        """The adapter, watched."""
        return adapter if self._mode == "kill-at-api" else _Watched(adapter, self)

    def watch_api(self) -> None:
        """Watch every change of an object of a cluster."""
        if self._mode == "kill-at-api":
            from reconciler.adapters.cluster.api import KubernetesApi

            for name in ("create", "patch", "delete"):
                setattr(KubernetesApi, name, self.watched(getattr(KubernetesApi, name)))

    def watched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method that counts as a side effect."""

        def effect(*arguments: Any, **options: Any) -> Any:
            self.step(arguments, before=True)
            result = method(*arguments, **options)
            self.step(arguments, before=False)
            return result

        return effect

    def step(self, arguments: tuple[Any, ...], *, before: bool) -> None:
        """A side effect is about to happen, or has."""
        if self._mode.startswith("kill"):
            with self._lock:
                if self._count == int(self._argument):
                    os.kill(os.getpid(), signal.SIGKILL)
                self._count += 1
        elif self._mode != "engine" and before and self._argument in arguments:
            self._argument = ""
            os.kill(os.getpid(), signal.SIGSTOP)


class _Watched:
    def __init__(self, adapter: Any, saboteur: Saboteur) -> None:
        self._adapter = adapter
        self._saboteur = saboteur

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._adapter, name)
        return self._saboteur.watched(method) if name in EFFECTS else method


def main(words: list[str]) -> None:
    """Run until killed from outside or inside."""
    configs = [Path(words[i + 1]) for i, word in enumerate(words) if word == "--config"]
    if words[0] == "engine":
        vars(local)["VERSION"] = words[1]  # as if it were another release
    redactor = Redactor()
    logs.begin("json", "info", redactor)
    with ExitStack() as stack:
        saboteur = Saboteur(words[0], words[1])
        saboteur.watch_api()
        daemon, web = compose_daemon(stack, configs, redactor, saboteur.wrap)
        if web:
            web.start()
        daemon.start()
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1:])
