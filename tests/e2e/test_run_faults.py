"""A daemon in a world that fails: rows 2, 3, 4, 17, 19, 24, 27 and 28 of the fault matrix, and what two digests for the
same inputs come to. One process lives through each of them, except where it is the one that is killed.

What single calls do about a fault is held by the adapters' tests, what `once` does by `test_faults_git.py` and
`test_faults_registry.py`, and rows 25 and 26 by `tests/adapters/web` and `tests/unit/daemon`.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from reconciler import process
from tests.e2e.conftest import write_pool
from tests.e2e.faulty import git_behind_proxy, registry_behind_proxy, tune
from tests.e2e.promises import Promises
from tests.e2e.test_once import builds
from tests.e2e.test_run import NEVER, configure, reconciled
from tests.servers.daemon import DaemonProcess, wait_for
from tests.servers.faults import HALF_OPEN, RESET, Answer, Fault, Refuse
from tests.servers.proxy import FaultProxy
from tests.servers.registry import docker_registry
from tests.servers.stage import Stage
from tests.unit.hostile import HEAD, HOSTILE

pytestmark = pytest.mark.tools

DEFINITION = b"apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineOSConfig\n"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True)
class Front:
    """A stage with one pool of one architecture, whose servers are reached through proxies."""

    stage: Stage
    git: FaultProxy
    registry: FaultProxy
    promises: Promises


def only(definitions: Path, arch: str) -> None:
    """Let all pools have one architecture."""
    (definitions / "reconciler.yaml").write_text(
        f"apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\narchitectures: [{arch}]\n"
    )


@pytest.fixture
def front(tmp_path: Path, base_storage: Path, definitions: Path) -> Iterator[Front]:
    """Nothing was done yet."""
    only(definitions, "amd64")
    with docker_registry(tmp_path) as registry:
        shutil.copytree(base_storage, registry.root / "storage", dirs_exist_ok=True)
        with registry_behind_proxy(registry) as proxy:
            stage = Stage(tmp_path, registry, proxy.host)
            stage.create_repository(definitions)
            with git_behind_proxy(stage) as git:
                yield Front(stage, git, proxy, Promises(stage))


def at_rest(daemon: DaemonProcess) -> None:
    """Wait until every image is what the head asks for, and delivered."""
    wait_for("rest", lambda: states(daemon) == {"current"} and not complaints(daemon))


def repository(daemon: DaemonProcess) -> dict[str, Any]:
    """How the daemon says that its only repository stands."""
    (found,) = json.loads(daemon.get("/status"))["repositories"]
    return dict(found)


def states(daemon: DaemonProcess, pool: str = "") -> set[str]:
    """Where the images of a pool, or all, stand."""
    return {image["state"] for image in repository(daemon)["images"] if pool in ("", image["pool"])}


def complaints(daemon: DaemonProcess) -> list[object]:
    """What is wrong outside the repository."""
    found = repository(daemon)
    stuck = [i for i in found["images"] if i["state"] in ("blocked", "retrying", "failed")]
    return [*filter(None, [found["problem"]]), *found["problems"], *stuck]


# -- rows 3, 4 and 19


def test_servers_that_fail_are_waited_for_and_found_again(front: Front) -> None:
    stage = front.stage
    configure(stage, "interval: 1s, resync: 5s, deadline: 20s")
    with DaemonProcess(stage) as daemon:
        daemon.wait_for_event("committed")
        answers: tuple[Fault | Answer, ...] = (Refuse(), Answer(503), RESET)
        # A registry that says nothing is left after minutes only: `tests/adapters/registry` has the patience.
        servers = (
            ("git", front.git, "", (*answers, HALF_OPEN)),
            ("registry", front.registry, "/v2/os/", answers),
        )
        for name, server, path, faults in servers:
            for number, fault in enumerate(faults):
                before = len(builds(stage))
                if isinstance(fault, Answer):
                    server.on(fault, path=path, times=None)
                else:
                    server.fault = fault
                count, begun = len(server.requests()), time.monotonic()
                commit = tune(stage, f"{name} {number}\n")
                # Nothing that it could read leads to this commit, or nothing that it could push leads from it.
                wait_for("a complaint", lambda: complaints(daemon))
                assert daemon.get("/healthz") == "ok", fault
                asked, seconds = len(server.requests()) - count, time.monotonic() - begun
                assert asked <= 40 + 10 * seconds, f"{asked} requests in {seconds:.0f} s"
                assert len(builds(stage)) <= before + 1
                server.heal()
                reconciled(stage, commit)
                assert len(builds(stage)) == before + 1, fault
        assert not daemon.events("Traceback")
        front.promises.check()
        assert daemon.stop() == 0


# -- row 2


def test_killed_at_any_time_it_goes_on_and_builds_nothing_twice(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    configure(stage)
    promises = Promises(stage)
    seed = 20261121
    chance = random.Random(seed)  # noqa: S311  (which moment, not which key)
    with DaemonProcess(stage) as daemon:
        for number in range(12):
            commit = tune(stage, f"{number}\n", chance.choice(("amd64", "arm64")))
            time.sleep(chance.uniform(0.0, 2.5))
            daemon.kill()
            assert not list(stage.root.glob("cache/**/index.lock")), f"seed {seed}, {number}"
            daemon.start()
        reconciled(stage, commit)
        at_rest(daemon)
        assert daemon.stop() == 0
    promises.check()


# -- row 17


def test_a_build_that_fails_for_good_is_tried_once_and_holds_up_nobody(
    stage: Stage, definitions: Path
) -> None:
    write_pool(definitions, "infra")
    only(definitions, "amd64")
    stage.create_repository(definitions)
    configure(stage, "interval: 1s, resync: 2s")
    promises = Promises(stage)
    with DaemonProcess(stage) as daemon:
        reconciled(stage, stage.tip())
        old = stage.record("worker").image
        file = stage.work / "pools/worker/Containerfile"
        good = file.read_text()
        file.write_text(good + 'RUN ["/bin/false"]\n')
        broken = stage.commit("Break worker")
        wait_for(
            "the failure",
            lambda: daemon.metric("reconciler_builds_total", outcome="definition", pool="worker") == 1,
        )
        commit = tune(stage, "new\n", pool="infra")
        reconciled(stage, commit, "infra")
        passes = daemon.metric("reconciler_reconcile_duration_seconds_count")
        wait_for(
            "more passes",
            lambda: daemon.metric("reconciler_reconcile_duration_seconds_count") >= passes + 3,
        )
        assert daemon.metric("reconciler_builds_total", outcome="definition") == 1
        assert stage.record("worker").image == old
        status = stage.reconciler("status", "--config", str(stage.config))
        assert status.status == 1
        assert "failed" in status.out
        assert "/bin/false" in status.out + status.err
        assert broken
        stage.git("pull", "--quiet", "--rebase")
        file.write_text(good)
        stage.commit("Mend worker")
        wait_for("all is well", lambda: "failed" not in daemon.get("/status"))
        assert stage.record("worker").image == old
        assert daemon.stop() == 0
    promises.check()


# -- row 24


def rss(pid: int) -> int:
    """Resident memory of a process in bytes (proc(5))."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_hostile_commits_are_refused_by_name_and_the_process_lives(stage: Stage, definitions: Path) -> None:
    write_pool(definitions, "infra")
    stage.create_repository(definitions)
    configure(stage)
    with DaemonProcess(stage) as daemon:
        reconciled(stage, stage.tip())
        daemon.polled()
        before, pid, built = rss(daemon.pid), daemon.pid, len(builds(stage))
        stage.git("pull", "--quiet", "--rebase")
        folder = stage.work / "pools/infra"
        for number, case in enumerate(HOSTILE):
            content = case.content.replace(HEAD.encode(), DEFINITION)
            (folder / f"hostile-{number}.yaml").write_bytes(content)
        (folder / "files/amd64/out").symlink_to("/etc/shadow")
        with (folder / "huge.yaml").open("wb") as file:
            file.truncate(256 << 20)
        stage.commit("Hurt infra")
        wait_for("the refusal", lambda: "blocked" in states(daemon, "infra"))
        told = daemon.get("/status")
        missed = [
            c.name for number, c in enumerate(HOSTILE) if f"pools/infra/hostile-{number}.yaml" not in told
        ]
        assert not missed
        reconciled(stage, tune(stage, "new\n"))
        assert states(daemon, "infra") == {"blocked"}
        assert (daemon.poll(), daemon.pid) == (None, pid)
        assert rss(pid) < before + (96 << 20)
        stage.git("pull", "--quiet", "--rebase")
        for path in (*folder.glob("hostile-*.yaml"), folder / "huge.yaml"):
            path.unlink()
        stage.commit("Leave the link")
        wait_for("the link", lambda: "files/amd64/out" in daemon.get("/status"))
        (folder / "files/amd64/out").unlink()
        stage.commit("Mend infra")
        wait_for("all is well", lambda: states(daemon) == {"current"})
        assert len(builds(stage)) == built + 1
        assert daemon.stop() == 0


# -- row 27


@contextmanager
def mounted(path: Path, size: str) -> Iterator[None]:
    """A small disk."""
    path.mkdir(parents=True)
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    argv = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    done = process.run(argv, env=env, timeout=30)
    assert done.status == 0, done.complaint
    try:
        yield
    finally:
        process.run(["umount", "--lazy", str(path)], env=env, timeout=30)


def test_a_full_disk_is_waited_for(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    configure(stage, "interval: 1s, resync: 5s")
    promises = Promises(stage)
    cache = Path(stage.env["XDG_CACHE_HOME"])
    with mounted(cache, "64m"), DaemonProcess(stage) as daemon:
        reconciled(stage, stage.tip())
        tip = stage.tip()
        filler = cache / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
        commit = tune(stage, "new\n")
        wait_for("a complaint", lambda: complaints(daemon))
        assert daemon.get("/healthz") == "ok"
        assert stage.run("git", "--git-dir", str(stage.bare), "rev-parse", "main").strip() == commit
        assert tip != commit
        filler.unlink()
        reconciled(stage, commit)
        at_rest(daemon)
        assert not daemon.events("met a bug")
        assert daemon.stop() == 0
    promises.check()


def test_a_process_without_file_handles_recovers_when_it_has_some(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    configure(stage, "interval: 1s, resync: 5s")
    promises = Promises(stage)
    with DaemonProcess(stage) as daemon:
        reconciled(stage, stage.tip())
        daemon.polled()
        _, most = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        used = len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (used + 1, most))
        commit = tune(stage, "new\n")
        wait_for("a complaint", lambda: complaints(daemon))
        assert daemon.poll() is None
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (most, most))
        reconciled(stage, commit)
        at_rest(daemon)
        assert daemon.stop() == 0
    promises.check()


# -- row 28


def test_another_version_takes_over_in_the_middle_and_rebuilds_nothing(
    stage: Stage, definitions: Path
) -> None:
    stage.create_repository(definitions)
    configure(stage)
    promises = Promises(stage)
    newer = ("tests.e2e.failing_daemon", "engine", "99")
    with DaemonProcess(stage) as daemon:
        reconciled(stage, stage.tip())
        commit = tune(stage, "new\n", "arm64")
        wait_for("a build", lambda: list(stage.root.glob("cache/reconciler/builds/build-worker-arm64-*")))
        assert daemon.stop() == 0
    with DaemonProcess(stage, module=newer) as daemon:
        reconciled(stage, commit)
        at_rest(daemon)
        image = stage.record("worker").image
        daemon.polled()
    with DaemonProcess(stage) as daemon:  # and back again
        at_rest(daemon)
        daemon.polled()
        assert daemon.stop() == 0
    assert stage.record("worker").image == image
    assert sum(promises.builds().values()) == 3
    promises.check()


# -- the same inputs, pushed twice with different digests


def test_of_two_images_of_the_same_inputs_the_recorded_one_stays(front: Front) -> None:
    stage = front.stage
    configure(stage, f"interval: 1s, resync: {NEVER}")
    with DaemonProcess(stage) as daemon:
        reconciled(stage, stage.tip())
        at_rest(daemon)
        record, written = stage.record("worker"), stage.show("status/worker.yaml")
        entry = record.architectures[0]
        own = f"http://{stage.registry.host}/v2/os/worker/manifests"
        content = httpx.get(f"{own}/{entry.image.partition('@')[2]}", headers={"Accept": MANIFEST}).json()
        content["annotations"]["org.example.again"] = "built elsewhere"
        tag = f"worker-amd64-{entry.input.removeprefix('sha256:')[:16]}"
        put = httpx.put(f"{own}/{tag}", content=json.dumps(content), headers={"Content-Type": MANIFEST})
        other = put.raise_for_status().headers["Docker-Content-Digest"]
        assert other not in entry.image
        stage.git("pull", "--quiet", "--rebase")
        (stage.work / "README.md").write_text("A commit that changes no image.\n")
        stage.commit("Say something")
        daemon.wait_for_event("planned", 2)
        at_rest(daemon)
        assert stage.show("status/worker.yaml") == written
        # Without a record either would do, and what is chosen stays chosen.
        (stage.work / "status/worker.yaml").unlink()
        stage.commit("Lose the status")
        wait_for("the record", lambda: _digest(stage) not in ("", entry.image))
        assert _digest(stage).endswith(other)
        assert len(builds(stage)) == 1 + 1  # ours, and the other one that was pushed by hand
        assert daemon.metric("reconciler_builds_total") == 1
        assert daemon.stop() == 0


def _digest(stage: Stage) -> str:
    try:
        return stage.record("worker").architectures[0].image
    except RuntimeError:
        return ""
