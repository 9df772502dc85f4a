"""Builds that end otherwise than planned: killed daemons, full disks, refused logins. Nothing may stay."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler import process
from reconciler.core.model import Arch, Base
from reconciler.ports import Cause, Phase
from tests.adapters.builders.conftest import ENV, Bench
from tests.adapters.builders.world import Recipe, ended, running, until
from tests.servers.registry import docker_registry

pytestmark = pytest.mark.tools

Shell = Callable[[Arch], Base]


def mount(*arguments: str) -> None:
    done = process.run(["mount", *arguments], env=ENV, timeout=30)
    assert done.status == 0, done.complaint


def guard_of(marker: str) -> int:
    """The guard above a RUN step: the oldest ancestor that is not this process."""
    (pid, *_) = running(marker)
    while True:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if parent == os.getpid():
            return pid
        pid = parent


def test_builds_die_with_a_killed_daemon_and_the_next_one_sweeps(bench: Bench, shell: Shell) -> None:
    base = shell(Arch.AMD64)
    arguments = [str(bench.directory), bench.image("doomed"), base.ref, base.digest, "86394"]
    daemon = process.start(
        [sys.executable, "-m", "tests.adapters.builders.doomed", *arguments],
        env={**ENV, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=sys.stderr.fileno(),
        stderr=sys.stderr.fileno(),
    )
    try:
        # The daemon itself has the marker as an argument too.
        until(lambda: len(running("86394")) == 3, "the RUN step and its daemon")
        os.kill(daemon.pid, signal.SIGKILL)
        daemon.wait(10)
        until(lambda: not running("86394"), "the end of all that the build started")
        assert {path.name.partition("-")[0] for path in bench.directory.iterdir()} == {"doomed", "logs"}
        builder = bench.builder()
        assert [path.name for path in bench.directory.iterdir()] == ["logs"]
        assert builder.builds() == ()
    finally:
        process.kill(daemon)


def test_a_killed_guard_fails_the_build_and_leaves_nothing(bench: Bench, shell: Shell) -> None:
    base = shell(Arch.AMD64)
    builder = bench.builder()
    recipe = Recipe(f"FROM {base.ref}\nRUN setsid sleep 86395 & sleep 86395\n", bases=(base,))
    builder.ensure(recipe.request(bench.tree, "guardless", bench.image("guardless")))
    until(lambda: len(running("86395")) == 2, "the RUN step and its daemon")
    os.kill(guard_of("86395"), signal.SIGKILL)
    (build,) = ended(builder, "guardless")
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE)
    assert build.message.startswith("the build was killed (status -9)\n")
    until(lambda: not running("86395"), "the end of all that the build started")
    assert [path.name for path in bench.directory.iterdir()] == ["logs"]


def test_the_sweep_detaches_mounts_and_spares_what_they_show(bench: Bench, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    stale = bench.directory / "build-1-abc"
    (stale / "outer mount" / "x").mkdir(parents=True)
    mount("-t", "tmpfs", "none", str(stale / "outer mount"))
    (stale / "outer mount" / "inner").mkdir()
    mount("--bind", str(precious), str(stale / "outer mount" / "inner"))
    bench.builder()
    assert [path.name for path in bench.directory.iterdir()] == ["logs"]
    assert (precious / "file").read_text() == "kept"
    assert str(stale) not in Path("/proc/self/mountinfo").read_text()


def test_the_sweep_spares_builds_of_a_living_daemon(bench: Bench, shell: Shell) -> None:
    base = shell(Arch.AMD64)
    builder = bench.builder()
    recipe = Recipe(f"FROM {base.ref}\nRUN sleep 2\n", bases=(base,))
    builder.ensure(recipe.request(bench.tree, "alive", bench.image("alive")))
    until(lambda: "RUN" in builder.builds()[0].step, "the RUN step")
    bench.builder()
    (build,) = ended(builder, "alive")
    assert build.phase is Phase.SUCCEEDED, build.message


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for an image or two."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=12m", "none", str(disk))
    yield disk
    done = process.run(["umount", str(disk)], env=ENV, timeout=30)
    assert done.status == 0, done.complaint


@pytest.mark.parametrize("place", ["context", "step", "storage"])
def test_a_full_disk_is_the_infrastructures_fault(
    bench: Bench, shell: Shell, small_disk: Path, place: str
) -> None:
    base = shell(Arch.AMD64)
    recipe = {
        "context": Recipe("FROM scratch\n", {"big": bytes(13 << 20)}),
        "step": Recipe(f"FROM {base.ref}\nRUN /bin/busybox yes > /big\n", bases=(base,)),
        "storage": Recipe("FROM scratch\nCOPY big /\n", {"big": bytes(7 << 20)}),
    }[place]
    builder = bench.builder(directory=small_disk / "builds")
    builder.ensure(recipe.request(bench.tree, "full", bench.image("full")))
    (build,) = ended(builder, "full")
    builder.close()
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE)
    expected = f"no space left on device: the disk that holds {small_disk / 'builds'} is full"
    assert build.message.splitlines()[0] == expected
    assert [path.name for path in (small_disk / "builds").iterdir()] == ["logs"]


def test_logins_come_from_a_file_and_show_nowhere(bench: Bench, tmp_path: Path) -> None:
    with docker_registry(tmp_path, htpasswd=("robot", "canary:86396")) as server:
        login = tmp_path / "auth.json"
        token = base64.b64encode(b"robot:canary:86396").decode()
        login.write_text(json.dumps({"auths": {server.host: {"auth": token}}}))
        phases = []
        for name, auth in (("with", login), ("without", None)):
            directory = bench.directory / name
            builder = bench.builder(directory=directory, insecure=frozenset({server.host}), auth_file=auth)
            builder.ensure(Recipe("FROM scratch\n").request(bench.tree, name, f"{server.host}/os:new"))
            (build,) = ended(builder, name)
            phases.append((build.phase, build.cause))
            shown = build.message + Path(build.log).read_text()
            assert "canary" not in shown
            assert token not in shown
    assert phases == [(Phase.SUCCEEDED, None), (Phase.FAILED, Cause.INFRASTRUCTURE)]
