"""The guard alone: statuses, orphans, and being told to stop."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path

import pytest

from reconciler import process
from reconciler.adapters.builders import guard
from tests.adapters.builders.conftest import ENV
from tests.adapters.builders.world import running, until


def start(lock: Path, *program: str, parent: int | None = None) -> process.Popen[bytes]:
    owner = str(os.getpid() if parent is None else parent)
    return process.start([sys.executable, "-I", "-S", guard.__file__, owner, str(lock), *program], env=ENV)


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 10", 10), ("kill -9 $$", 128 + 9), ("kill -TERM $$", 128 + 15)],
)
def test_reports_how_the_program_ended(tmp_path: Path, script: str, status: int) -> None:
    finished = process.finish(start(tmp_path / "lock", "/bin/sh", "-c", script), ["guard"], timeout=20)
    assert finished.status == status


def test_a_program_that_is_missing_is_told(tmp_path: Path) -> None:
    finished = process.finish(start(tmp_path / "lock", "/no/such"), ["guard"], timeout=20)
    assert finished.status == 127
    assert b"/no/such" in finished.stderr


def test_orphans_in_sessions_of_their_own_end_with_the_program(tmp_path: Path) -> None:
    script = "setsid sh -c 'setsid sleep 86397 & sleep 86397' & until pgrep -x sleep >/dev/null; do :; done"
    finished = process.finish(start(tmp_path / "lock", "/bin/sh", "-c", script), ["guard"], timeout=20)
    assert finished.status == 0
    assert running("86397") == []


def test_a_signal_ends_everything_and_frees_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    script = "trap '' TERM INT HUP; setsid sleep 86398 & sleep 86398"
    started = start(lock, "/bin/sh", "-c", script)
    until(lambda: len(running("86398")) == 2, "both sleeping")
    with lock.open("w") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        started.terminate()
        assert process.finish(started, ["guard"], timeout=20).status == 128 + signal.SIGTERM
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert running("86398") == []


def test_nothing_starts_for_a_parent_that_is_gone(tmp_path: Path) -> None:
    started = start(tmp_path / "lock", "/bin/sh", "-c", f"touch {tmp_path}/started", parent=1)
    assert process.finish(started, ["guard"], timeout=20).status == 128 + signal.SIGTERM
    assert not (tmp_path / "started").exists()
