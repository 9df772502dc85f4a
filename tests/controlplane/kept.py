"""Programs that end when this process does, however it ends.

Belongs here: starting one under its keeper, and ending it with all of its process group. Does not belong here: which.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from reconciler import process

_KEEPER: Final = Path(__file__).with_name("keeper.py")
_GRACE: Final = 10.0


def start(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdout: int, stderr: int
) -> process.Popen[bytes]:
    """Start a program; what is returned is its keeper, with the program's exit status."""
    return process.start(
        [sys.executable, "-I", "-S", str(_KEEPER), *argv],
        env=env,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
    )


def end(running: process.Popen[bytes]) -> None:
    """Kill a program that `start` returned. Safe to repeat.

    The keeper does it, so that no zombie is left to whoever is process 1.
    """
    assert running.stdin is not None
    running.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        running.wait(timeout=_GRACE)
    process.kill(running)
