"""One server process of the control plane: started, watched until it is ready, killed; its log is kept.

Belongs here: what is the same for all of them. Does not belong here: their options (`plane`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from reconciler import process
from tests.controlplane import kept

PATIENCE: Final = 60.0
"""Seconds until a server has to be ready; it takes about two."""


class Server:
    """A program that runs until it is killed or this process is gone. `ready` is asked until it says yes."""

    def __init__(self, argv: Sequence[str], log: Path, ready: Callable[[], bool]) -> None:
        self.name = Path(argv[0]).name
        self.log = log
        self._argv = tuple(argv)
        self._ready = ready
        self._process: process.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it is ready. Raises RuntimeError, with the end of its log."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start it, and do not wait."""
        assert not self.is_running, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = kept.start(
                self._argv,
                env={"PATH": os.environ["PATH"], "HOME": str(self.log.parent)},
                cwd=self.log.parent,
                stdout=log.fileno(),
                stderr=log.fileno(),
            )

    def wait(self) -> None:
        """Wait until it is ready. Raises RuntimeError, with the end of its log."""
        until = time.monotonic() + PATIENCE
        while not self._ready():
            if not self.is_running or time.monotonic() > until:
                how = f"was not ready within {PATIENCE:g} s" if self.is_running else "ended at once"
                self.kill()
                raise RuntimeError(f"{self.name} {how}. The end of {self.log}:\n{self.tail()}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a crash does. Safe to repeat."""
        if self._process is not None:
            kept.end(self._process)
            self._process = None

    def tail(self, lines: int = 25) -> str:
        """The end of its log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])
