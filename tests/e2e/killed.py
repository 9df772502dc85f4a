"""A run of the reconciler that kills itself, as `kill -9` would, at a numbered side effect.

    python -m tests.e2e.killed CONFIG NUMBER

Every call that changes something outside the process counts twice: once before it and once after it. With a number
beyond the last the run ends by itself, and its status says so.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from reconciler.cli import compose

EFFECTS = {"ensure", "put", "copy", "commit", "push", "replace", "propose", "revise"}


class Killer:
    """Wraps an adapter and counts its side effects together with the other wrapped ones."""

    count = 0
    limit = 0

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._adapter, name)
        if name not in EFFECTS:
            return method

        def effect(*arguments: Any, **options: Any) -> Any:
            self._step()
            result = method(*arguments, **options)
            self._step()
            return result

        return effect

    @classmethod
    def _step(cls) -> None:
        if cls.count == cls.limit:
            os.kill(os.getpid(), signal.SIGKILL)
        cls.count += 1


def main(config: Path, limit: int) -> int:
    """Run to the end, or to the kill."""
    Killer.limit = limit
    with compose.reconciler(config, wrap=Killer) as running:
        while True:
            result = running.engine.run_pass(one_commit=True)
            if result.settled:
                return 0 if result.sound else 1
            while not all(build.ended for build in running.builder.builds()):
                running.builder.wait(0.2)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
