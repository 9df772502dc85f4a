"""A run that is killed, at any side effect or at any moment, and then run again."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from reconciler import process
from tests.e2e.test_once import builds, index_of
from tests.servers.stage import Stage

pytestmark = pytest.mark.tools


def killed_at(stage: Stage, number: int) -> bool:
    """Run until the numbered side effect; whether there was one."""
    argv = [sys.executable, "-m", "tests.e2e.killed", str(stage.config), str(number)]
    done = process.run(argv, env=stage.env, timeout=120)
    assert done.status in (0, -signal.SIGKILL), done.complaint
    return done.status != 0


@pytest.mark.timeout(600)
def test_killed_at_every_side_effect_it_converges_and_builds_nothing_twice(
    stage: Stage, definitions: Path
) -> None:
    (definitions / "reconciler.yaml").write_text(
        "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\narchitectures: [amd64]\n"
    )
    stage.create_repository(definitions)
    start = stage.tip()
    tuning = stage.work / "pools/worker/files/amd64/tuning.conf"
    number, alive = 0, False
    while not alive:
        # New inputs each time, so that there is something to build, publish and commit again.
        tuning.write_text(f"round={number}\n")
        stage.commit(f"Round {number}")
        before = len(builds(stage))
        alive = not killed_at(stage, number)
        said = stage.once()
        assert said.status == 0, said
        assert list(index_of(stage, "worker")) == ["amd64"]
        assert len(builds(stage)) == before + 1, f"killed at side effect {number}"
        latest = stage.manifest(f"{stage.registry.host}/os/worker:latest")
        assert latest == stage.manifest(stage.record("worker").image)
        number += 1
    assert number > 12, "ensure, four tags, commit, push: each before and after"
    ours = stage.run("git", "--git-dir", str(stage.bare), "log", "--format=%an", f"{start}..main").split("\n")
    assert Counter(filter(None, ours))["reconciler"] == number
    assert not max(Counter(builds(stage)).values()) > 1


def test_killed_while_building_it_leaves_no_process_and_starts_again(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    for delay in (0.5, 0.9, 1.3, 1.7):
        argv = [sys.executable, "-m", "reconciler", "once", "--config", str(stage.config)]
        child = process.start(argv, env=stage.env)
        time.sleep(delay)
        child.kill()  # this process alone: what it started has to notice by itself
        child.communicate(timeout=30)
    assert stage.once().status == 0
    assert list(index_of(stage, "worker")) == ["amd64", "arm64"]
    assert max(Counter(builds(stage)).values()) == 1
    left = stage.run("pgrep", "--list-full", "--full", str(stage.root)).splitlines()
    assert ["docker-registry serve" in line for line in left] == [True]


def test_two_at_once_do_no_harm(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    argv = [sys.executable, "-m", "reconciler", "once", "--config", str(stage.config)]
    children = [process.start(argv, env=stage.env) for _ in range(2)]
    for child in children:
        done = process.finish(child, argv, timeout=120)
        assert done.status == 0, done.stderr.decode()
    assert list(index_of(stage, "worker")) == ["amd64", "arm64"]
    ours = stage.run("git", "--git-dir", str(stage.bare), "log", "--format=%H", "--", "status").split()
    assert len(ours) == 1
