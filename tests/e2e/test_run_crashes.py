"""Daemons that are killed, stopped and resumed, doubled, or overtaken by others."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler import process
from tests.e2e.test_once import builds, index_of
from tests.e2e.test_run import configure, edit, reconciled
from tests.servers.daemon import DaemonProcess, wait_for
from tests.servers.stage import Stage

pytestmark = pytest.mark.tools

KILLED = ("tests.e2e.failing_daemon", "kill")


def settled(stage: Stage) -> None:
    """Wait until the tag names what the status file says."""

    def look() -> bool:
        try:
            latest = stage.manifest(f"{stage.registry.host}/os/worker:latest")
        except LookupError:
            return False
        return latest == stage.manifest(stage.record("worker").image)

    wait_for("the tag to follow the status", look)


def ours(stage: Stage) -> list[str]:
    """The reconciler's commits on the branch."""
    log = stage.run("git", "--git-dir", str(stage.bare), "log", "--author=^reconciler", "--format=%H", "main")
    return log.split()


@pytest.mark.timeout(900)
def test_killed_at_every_side_effect_the_next_daemon_goes_on_and_builds_nothing_twice(
    stage: Stage, definitions: Path
) -> None:
    (definitions / "reconciler.yaml").write_text(
        "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\narchitectures: [amd64]\n"
    )
    stage.create_repository(definitions)
    configure(stage, "interval: 1s", rest="\n")
    number, killed = 0, True
    while killed:
        commit = edit(stage, "amd64", f"round={number}\n")
        before = len(builds(stage))
        with DaemonProcess(stage, module=(*KILLED, str(number))) as daemon:

            def ended(daemon: DaemonProcess = daemon, commit: str = commit) -> str:
                if daemon.poll() is not None:
                    return "killed"
                return "done" if _is_done(stage, commit) else ""

            killed = wait_for("the kill, or the end", ended) == "killed"
        with DaemonProcess(stage):
            reconciled(stage, commit)
            settled(stage)
        assert len(builds(stage)) == before + 1, f"killed at side effect {number}"
        assert list(index_of(stage, "worker")) == ["amd64"]
        number += 1
    assert number > 11, "ensure, four tags, commit, push: each before and after"
    assert len(ours(stage)) == number
    assert max(Counter(builds(stage)).values()) == 1


def _is_done(stage: Stage, commit: str) -> bool:
    try:
        record = stage.record("worker")
        latest = stage.manifest(f"{stage.registry.host}/os/worker:latest")
    except (RuntimeError, LookupError):
        return False
    followed = any(entry.source_commit == commit for entry in record.architectures)
    return followed and latest == stage.manifest(record.image)


def test_a_daemon_that_slept_writes_late_and_that_does_not_last(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    configure(stage, "interval: 1s, resync: 2s", rest="\n")
    sleeper = DaemonProcess(stage, module=("tests.e2e.failing_daemon", "stop-before-tag", "latest"))
    other = DaemonProcess(stage.elsewhere())
    with sleeper:
        wait_for("a stopped daemon", lambda: _is_stopped(sleeper.pid))
        with other:
            commit = edit(stage)
            reconciled(stage, commit)
            settled(stage)
            tip = stage.tip()
            sleeper.signal(signal.SIGCONT)
            # It writes the old image's tag over the new one, unless the other is putting that right already.
            wait_for("a late tag", lambda: sleeper.events("tagged") or sleeper.events("was stored, but"))
            wait_for("the newest image's tag", lambda: _is_done(stage, commit))
            settled(stage)
        assert stage.tip() == tip
    assert max(Counter(builds(stage)).values()) == 1


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_two_daemons_at_once_do_no_harm(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    configure(stage, "interval: 1s", rest="\n")
    with DaemonProcess(stage), DaemonProcess(stage.elsewhere()):
        reconciled(stage, stage.git("rev-parse", "HEAD"))
        for number in range(3):
            reconciled(stage, edit(stage, text=f"{number}\n"))
        settled(stage)
    assert list(index_of(stage, "worker")) == ["amd64", "arm64"]
    assert len(ours(stage)) == 4
    # Each input has one image in the end, whoever built it.
    names = {entry.image for entry in stage.record("worker").architectures}
    assert len(names) == 2


def test_another_instance_leaves_the_pools_of_the_first_alone(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    configure(stage, "interval: 1s", rest="\n")
    with DaemonProcess(stage) as east:
        east.wait_for_event("committed")
        tip, pushed = stage.tip(), len(stage.pushed_images())
        west = stage.elsewhere()
        west.config = stage.root / "west.yaml"
        west.config.write_text(stage.config.read_text() + "instance: west\n")
        with DaemonProcess(west) as second:
            why = "its status file belongs to instance default, and this is west"
            event = second.wait_for_event(why)
            assert (event["pool"], event["state"]) == ("worker", "blocked")
        assert (stage.tip(), len(stage.pushed_images())) == (tip, pushed)
        reconciled(stage, edit(stage))


@pytest.mark.timeout(600)
def test_twenty_writers_race_with_the_daemon_and_nothing_is_lost(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    configure(stage, "interval: 1s", rest="\n")
    with DaemonProcess(stage) as daemon:
        daemon.wait_for_event("committed")
        with ThreadPoolExecutor(20) as pool:
            list(pool.map(lambda number: _write(stage, number), range(20)))
        written = stage.run("git", "--git-dir", str(stage.bare), "log", "--format=%s", "main").splitlines()
        assert {f"Writer {number}" for number in range(20)} <= set(written)
        last = stage.run("git", "--git-dir", str(stage.bare), "log", "-1", "--format=%H", "--author=^Ada")
        wait_for("the last input", lambda: _follows(stage, last.strip()))
        settled(stage)
    merges = stage.run("git", "--git-dir", str(stage.bare), "log", "--merges", "--format=%H", "main")
    assert not merges.strip()
    for number in range(20):
        assert stage.show(f"pools/worker/files/arm64/{number}.conf") == f"{number}\n".encode()


def _write(stage: Stage, number: int) -> None:
    """A person who changes a file of the pool and pushes until it is in."""
    clone = stage.root / f"writer-{number}"
    stage.run("git", "clone", "--quiet", str(stage.bare), str(clone))
    (clone / f"pools/worker/files/arm64/{number}.conf").write_text(f"{number}\n")
    stage.run("git", "add", "--all", cwd=clone)
    stage.run("git", "commit", "--quiet", "--message", f"Writer {number}", cwd=clone)
    for _ in range(200):
        done = process.run(["git", "push", "--quiet"], env=stage.env, timeout=60, cwd=clone)
        if done.status == 0:
            return
        stage.run("git", "pull", "--quiet", "--rebase", cwd=clone)
    raise AssertionError(f"writer {number} never got in: {done.complaint}")


def _follows(stage: Stage, commit: str) -> bool:
    """Whether the arm64 image is that of a commit."""
    return any(entry.source_commit == commit for entry in stage.record("worker").architectures)
