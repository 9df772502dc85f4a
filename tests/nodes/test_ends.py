"""Nothing of a pod outlives its end, or the process that runs it: no process, no mount, no file but its logs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from reconciler import process
from tests.nodes.world import World, container, pod
from tests.servers.daemon import wait_for

pytestmark = pytest.mark.tools
PROJECT = Path(__file__).parents[2]

PARENT = """
import sys, time
from pathlib import Path
from tests.nodes.world import World, container, pod
world = World(Path(sys.argv[1]))
world.start(pod(container(sys.argv[2], volumeMounts=[{"name": "w", "mountPath": "/w"}]),
    volumes=[{"name": "w", "emptyDir": {}}]))
time.sleep(1000)
"""


def processes(mark: str) -> set[int]:
    """The processes that have this in their command line or environment."""
    found = set()
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            try:
                if mark.encode() in (path / "cmdline").read_bytes() + (path / "environ").read_bytes():
                    found.add(int(path.name))
            except OSError:
                continue
    return found


def mounts(mark: str) -> list[str]:
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if mark in line]


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def folders(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_dir()}


@pytest.fixture
def mark(tmp_path: Path) -> str:
    """A word that nothing else on this machine has in its command line."""
    return f"mark-{os.getpid()}-{tmp_path.name}"


# It leaves its session and its parent, as a daemon does, in the container's own PID namespace.
SCRIPT = "setsid sh -c 'sleep 1000; : {mark}' & sleep 0.1; echo data >/w/file; echo up; {then}"
MOUNT = [{"name": "w", "mountPath": "/w"}]
VOLUME = [{"name": "w", "emptyDir": {}}]


def test_after_its_end(tmp_path: Path, mark: str) -> None:
    world = World(tmp_path)
    script = SCRIPT.format(mark=mark, then="true")
    ended = world.run(pod(container(script, volumeMounts=MOUNT), volumes=VOLUME))
    assert ended.phase == "Succeeded"
    assert not processes(mark)
    assert not mounts(str(tmp_path))
    assert files(tmp_path) == {"main.log", "supervisor.log"}
    assert folders(tmp_path) == {"a-pod", "logs"}


def test_while_it_runs_its_mounts_are_its_own(tmp_path: Path, mark: str) -> None:
    world = World(tmp_path)
    run = world.start(
        pod(container(SCRIPT.format(mark=mark, then="sleep 1000"), volumeMounts=MOUNT), volumes=VOLUME)
    )
    wait_for("the container", lambda: run.log("main").exists() and "up" in run.log("main").read_text())
    assert processes(mark)
    assert not mounts(str(tmp_path))
    assert files(tmp_path) == {"main.log", "supervisor.log"}
    run.vanish()
    assert not processes(mark)
    assert not run.is_running


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_after_its_parent_was_killed(tmp_path: Path, mark: str, number: signal.Signals) -> None:
    argv = [sys.executable, "-c", PARENT, str(tmp_path), SCRIPT.format(mark=mark, then="sleep 1000")]
    parent = process.start(argv, env={**os.environ, "PYTHONPATH": str(PROJECT)}, cwd=PROJECT)
    try:
        log = tmp_path / "a-pod" / "logs" / "main.log"
        wait_for("the container", lambda: log.exists() and "up" in log.read_text())
        assert processes(mark) - {parent.pid}
        parent.send_signal(number)
        parent.wait(timeout=20)
        wait_for("the end of all", lambda: not processes(mark))
    finally:
        process.kill(parent)
    assert not mounts(str(tmp_path))
    assert files(tmp_path) == {"main.log", "supervisor.log"}


@pytest.mark.parametrize("which", ["outer", "inner", "keeper", "program"])
def test_after_one_of_its_own_was_killed(tmp_path: Path, mark: str, which: str) -> None:
    """The pod fails; what else there is of it ends."""
    world = World(tmp_path)
    run = world.start(
        pod(container(SCRIPT.format(mark=mark, then="sleep 1000"), volumeMounts=MOUNT), volumes=VOLUME)
    )
    wait_for("the container", lambda: run.log("main").exists() and "up" in run.log("main").read_text())
    chain = [next(iter(processes(mark)))]
    while chain[-1] != os.getpid():
        chain.append(int(Path(f"/proc/{chain[-1]}/stat").read_text().rpartition(")")[2].split()[1]))
    names = dict(zip(["test", "outer", "inner", "keeper", "program"], reversed(chain), strict=False))
    os.kill(names[which], signal.SIGKILL)
    run.wait(20)
    wait_for("the end of all", lambda: not processes(mark))
    ended = world.outcome(run)
    assert ended.phase == "Failed"
    assert ended.ended()["exitCode"] in (128, 137)
    assert not mounts(str(tmp_path))
