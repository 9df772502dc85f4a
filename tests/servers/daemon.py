"""A `reconciler run` of its own process, for tests: started, looked at, ended or killed.

Belongs here: what any test of the daemon does to it. Does not belong here: what it should have done.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from reconciler import process
from tests.servers.stage import Stage

PATIENCE: Final = 60.0
"""Seconds that anything may take; far longer than it does."""

_Found = TypeVar("_Found")


def wait_for(what: str, look: Callable[[], _Found | None], seconds: float = PATIENCE) -> _Found:
    """Look until there is something, and return it."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(0.05)


class DaemonProcess:
    """A daemon with the stage's configuration, unless others are named. Its log stays after it."""

    def __init__(self, stage: Stage, *configs: Path, module: tuple[str, ...] = ("reconciler", "run")) -> None:
        self.stage = stage
        self.log = stage.root / f"daemon-{time.monotonic_ns()}.log"
        self._configs = configs or (stage.config,)
        self._module = module
        self._process: process.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None:
            sys.stderr.write(f"--- {self.log.name}\n{self.log.read_text()[-8000:]}\n")

    @property
    def pid(self) -> int:
        """The process that runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; it need not be up yet."""
        options = [word for config in self._configs for word in ("--config", str(config))]
        with self.log.open("ab") as log:
            self._process = process.start(
                [sys.executable, "-m", *self._module, *options, "--log-format", "json"],
                env=self.stage.env,
                cwd=self.stage.root,
                stdout=log.fileno(),
                stderr=log.fileno(),
            )

    def stop(self, seconds: float = PATIENCE) -> int:
        """Ask it to end, as Kubernetes does; returns its exit status."""
        assert self._process is not None
        self.signal(signal.SIGTERM)
        return self._process.wait(timeout=seconds)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait until it ends by itself."""
        assert self._process is not None
        return self._process.wait(timeout=seconds)

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def kill(self) -> None:
        """End it and all that it started. Safe to repeat."""
        if self._process is not None:
            process.kill(self._process)
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        """Send the process itself a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    # -- looking at it

    def events(self, message: str = "") -> list[dict[str, Any]]:
        """The lines of its log whose message has this in it."""
        found = []
        for line in self.log.read_text().splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # a line that is being written
            if message in event.get("message", ""):
                found.append(event)
        return found

    def wait_for_event(self, message: str, count: int = 1) -> dict[str, Any]:
        """The `count`th line that has this in its message."""

        def look() -> dict[str, Any] | None:
            found = self.events(message)
            return found[count - 1] if len(found) >= count else None

        return wait_for(f"log line {message!r}", look)

    @property
    def address(self) -> str:
        """Where its web server listens, from its log."""
        prefix = "serving health, metrics and webhooks at "

        def look() -> str | None:
            lines = [e["message"] for e in self.events() if e["message"].startswith(prefix)]
            return lines[-1].removeprefix(prefix) if lines else None

        return wait_for("the web server", look)

    def get(self, path: str) -> str:
        """A page of its web server."""
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def metric(self, name: str, **labels: str) -> float:
        """The sum over all series of a metric with these labels."""
        total = 0.0
        for line in self.get("/metrics").splitlines():
            series, _, value = line.rpartition(" ")
            known = series.partition("{")[0] == name
            if known and all(f'{label}="{text}"' in series for label, text in labels.items()):
                total += float(value)
        return total

    def polled(self, times: int = 2) -> None:
        """Wait until it has looked at the head again so many times."""
        before = self.metric("reconciler_git_requests_total", operation="ls-remote")
        wait_for(
            "polls",
            lambda: self.metric("reconciler_git_requests_total", operation="ls-remote") >= before + times,
        )
