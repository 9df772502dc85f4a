"""Nothing of a control plane outlives whoever started it, and no file of it either."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler import process
from tests.controlplane import ControlPlane, programs
from tests.controlplane.server import Server
from tests.servers.daemon import wait_for

pytestmark = pytest.mark.cluster
_SERVERS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}


def alive(root: Path) -> dict[int, str]:
    """Processes whose arguments name something below a folder: number and program."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0") if entry.name.isdigit() else []
        except OSError:
            continue  # it ended meanwhile
        if any(f"{root}/" in word for word in words):
            found[int(entry.name)] = Path(words[0]).name
    return found


@pytest.fixture
def up(plane: ControlPlane, tmp_path: Path) -> Iterator[process.Popen[bytes]]:
    """`python -m tests.controlplane up`, once it says that it is up."""
    assert plane.programs.etcd.exists()  # there is one: this will not start to build
    running = process.start(
        [sys.executable, "-m", "tests.controlplane", "up"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=Path(__file__).parents[2],
        stderr=subprocess.DEVNULL,
    )
    try:
        assert running.stdout is not None
        with process.deadline(running, 120):
            said = running.stdout.readline().decode()
        assert said.startswith(f"export KUBECONFIG={tmp_path}/")
        assert "node-s390x" in plane.kubectl("get", "nodes", kubeconfig=Path(said.strip().partition("=")[2]))
        yield running
    finally:
        process.kill(running)


def test_none_is_left_after_close(plane: ControlPlane, tmp_path: Path) -> None:
    with ControlPlane(tmp_path, plane.programs):
        assert set(alive(tmp_path).values()) >= _SERVERS
    assert alive(tmp_path) == {}
    assert (tmp_path / "kube-apiserver.log").exists()
    assert not (tmp_path / "etcd").exists()


def test_none_is_left_when_the_process_is_killed(up: process.Popen[bytes], tmp_path: Path) -> None:
    assert set(alive(tmp_path).values()) >= _SERVERS
    os.kill(up.pid, signal.SIGKILL)
    wait_for("the end of all", lambda: not alive(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_asked_to_end(up: process.Popen[bytes], tmp_path: Path, number: signal.Signals) -> None:
    os.kill(up.pid, number)
    assert up.wait(timeout=60) == 0
    assert alive(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_server_dies_with_its_keeper(tmp_path: Path) -> None:
    server = Server(["tail", "-f", f"{tmp_path}/log"], tmp_path / "log", lambda: True)
    server.start()
    both = wait_for("both", lambda: found if len(found := alive(tmp_path)) == 2 else None)
    keeper = next(pid for pid, name in both.items() if name.startswith("python"))
    os.kill(keeper, signal.SIGKILL)
    wait_for("the end of both", lambda: not server.is_running and set(alive(tmp_path)) <= {keeper})
    server.kill()


def test_a_server_that_does_not_start_shows_its_log(plane: ControlPlane, tmp_path: Path) -> None:
    wrong = programs.Programs(
        plane.programs.etcd,
        plane.programs.apiserver,
        plane.programs.controller_manager,
        plane.programs.etcd,  # as scheduler, it does not know what it is asked for
        plane.programs.kubectl,
    )
    with (
        pytest.raises(RuntimeError, match=r"etcd ended at once.*kube-scheduler\.log(.|\n)*not defined"),
        ControlPlane(tmp_path, wrong),
    ):
        pass
    assert alive(tmp_path) == {}
