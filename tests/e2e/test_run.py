"""The daemon from end to end: each trigger alone leads from a push to a status commit, and it ends as it should."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.daemon import DaemonProcess, wait_for
from tests.servers.stage import EXAMPLES, Stage

pytestmark = pytest.mark.tools

NEVER = "1d"


def configure(stage: Stage, source: str = "interval: 1s", rest: str = "") -> None:
    """Let the daemon look as often as the test wants, with a web server on a free port."""
    text = stage.config.read_text()
    assert "branch: main}" in text
    text = text.replace("branch: main}", f"branch: main, {source}}}")
    stage.config.write_text(text + (rest or 'web: {listen: "127.0.0.1:0"}\n'))


def edit(stage: Stage, arch: str = "arm64", text: str = "changed\n") -> str:
    """Change what one architecture of the worker pool is made of, and push it."""
    (stage.work / "pools" / "worker" / "files" / arch / "tuning.conf").write_text(text)
    return stage.commit(f"Tune {arch}")


def reconciled(stage: Stage, commit: str, pool: str = "worker") -> None:
    """Wait until the status of a pool follows a commit, and the tag follows the status."""

    def look() -> bool:
        try:
            record = stage.record(pool)
        except RuntimeError:  # there is none yet
            return False
        return any(entry.source_commit == commit for entry in record.architectures)

    wait_for(f"the status of {pool} at {commit[:12]}", look)


@pytest.fixture
def watched(stage: Stage, definitions: Path) -> Stage:
    """A repository with one pool of two architectures, and a configuration for it."""
    stage.create_repository(definitions)
    return stage


@pytest.fixture
def idle(watched: Stage) -> Iterator[tuple[Stage, DaemonProcess]]:
    """A daemon that has done everything, and looks at the head once a day."""
    secret = watched.root / "hook-secret"
    secret.write_text("a-shared-secret\n")
    hooks = (
        f"[{{type: github, secretFiles: [{secret.name}]}}, {{type: generic, secretFiles: [{secret.name}]}}]"
    )
    configure(
        watched,
        f"interval: {NEVER}, resync: {NEVER}",
        f'web: {{listen: "127.0.0.1:0", webhooks: {hooks}}}\n',
    )
    with DaemonProcess(watched) as daemon:
        daemon.wait_for_event("committed")
        yield watched, daemon


def test_a_poll_finds_a_push_and_builds_only_what_changed(watched: Stage) -> None:
    configure(watched)
    with DaemonProcess(watched) as daemon:
        daemon.wait_for_event("committed")
        before = watched.record("worker")
        commit = edit(watched)
        reconciled(watched, commit)
        after = watched.record("worker")
        assert before.architectures[0] == after.architectures[0]
        assert before.architectures[1].image != after.architectures[1].image
        daemon.polled()
        assert daemon.metric("reconciler_builds_total", outcome="succeeded") == 3
        assert daemon.stop() == 0
    assert len([tag for tag in watched.pushed_images() if tag.startswith("worker-arm64")]) == 2


def test_a_poll_of_an_unmoved_head_costs_one_look_and_reads_nothing(watched: Stage) -> None:
    configure(watched, f"interval: 1s, resync: {NEVER}")
    with DaemonProcess(watched) as daemon:
        daemon.wait_for_event("committed")
        daemon.polled()
        git = "reconciler_git_requests_total"
        before = [daemon.metric(git), daemon.metric(git, operation="ls-remote")]
        registry = daemon.metric("reconciler_registry_requests_total")
        passes = daemon.metric("reconciler_reconcile_duration_seconds_count")
        daemon.polled(3)
        after = [daemon.metric(git), daemon.metric(git, operation="ls-remote")]
        assert after[0] - before[0] == after[1] - before[1] >= 3
        assert daemon.metric("reconciler_registry_requests_total") == registry
        assert daemon.metric("reconciler_reconcile_duration_seconds_count") == passes


def _post(daemon: DaemonProcess, path: str, body: bytes, headers: dict[str, str]) -> int:
    request = urllib.request.Request(
        f"http://{daemon.address}{path}", data=body, headers=headers, method="POST"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  (loopback)
        status: int = answer.status
    return status


@pytest.mark.parametrize(
    ("path", "header", "event"),
    [
        ("/hook/github", "X-Hub-Signature-256", {"X-GitHub-Event": "push"}),
        ("/hook/generic", "X-Signature", {}),
    ],
)
def test_a_webhook_is_enough(
    idle: tuple[Stage, DaemonProcess], path: str, header: str, event: dict[str, str]
) -> None:
    stage, daemon = idle
    commit = edit(stage)
    body = json.dumps({"ref": "refs/heads/main"}).encode()
    signature = hmac.new(b"a-shared-secret", body, hashlib.sha256).hexdigest()
    assert _post(daemon, path, body, {header: f"sha256={signature}", **event}) == 202
    reconciled(stage, commit)


def test_a_hangup_is_enough(idle: tuple[Stage, DaemonProcess]) -> None:
    stage, daemon = idle
    commit = edit(stage)
    daemon.signal(signal.SIGHUP)
    reconciled(stage, commit)


def test_the_command_line_is_enough_and_status_tells_of_the_daemon(idle: tuple[Stage, DaemonProcess]) -> None:
    stage, daemon = idle
    commit = edit(stage)
    told = stage.reconciler("look-now", "--config", str(stage.config))
    assert (told.status, told.out) == (0, f"told process {daemon.pid} to look now.\n")
    reconciled(stage, commit)

    def current() -> bool:
        status = stage.reconciler("status", "--config", str(stage.config))
        return status.status == 0 and f"daemon: process {daemon.pid}, last pass" in status.err

    wait_for("a status without complaints", current)
    daemon.kill()
    told = stage.reconciler("look-now", "--config", str(stage.config))
    assert (told.status, told.out) == (1, "")
    assert "no daemon of this account runs with" in told.err
    assert "no daemon" in stage.reconciler("status", "--config", str(stage.config)).err


def test_a_base_that_moved_is_found_by_the_resync_alone(watched: Stage, tmp_path: Path) -> None:
    configure(watched, f"interval: {NEVER}, resync: 2s")
    with DaemonProcess(watched) as daemon:
        daemon.wait_for_event("committed")
        before = watched.record("worker")
        context = tmp_path / "newer"
        shutil.copytree(EXAMPLES / "base", context)
        file = context / "Containerfile"
        (context / "newer").write_text("newer\n")
        file.write_text(file.read_text() + "COPY newer /etc/newer\n")
        watched.build_base(context=context)
        daemon.wait_for_event("committed", 2)
        after = watched.record("worker")
        assert {entry.arch for entry in after.architectures} == {entry.arch for entry in before.architectures}
        assert not {e.image for e in after.architectures} & {e.image for e in before.architectures}


def test_a_slot_of_the_schedule_is_enough(watched: Stage) -> None:
    config = watched.work / "reconciler.yaml"
    config.write_text(config.read_text() + "refresh: 10s\n")
    watched.commit("Refresh often")
    configure(watched, f"interval: 1s, resync: {NEVER}")
    with DaemonProcess(watched) as daemon:
        daemon.wait_for_event("committed", 2)
        assert len({e.epoch for e in watched.record("worker").architectures}) == 1
        assert daemon.metric("reconciler_builds_total", outcome="succeeded") >= 4


def test_its_own_commit_and_the_webhook_for_it_cause_nothing(idle: tuple[Stage, DaemonProcess]) -> None:
    stage, daemon = idle
    tip = stage.tip()
    pushed = len(stage.pushed_images())
    for number in range(5):
        body = json.dumps({"ref": "refs/heads/main", "n": number}).encode()
        signature = hmac.new(b"a-shared-secret", body, hashlib.sha256).hexdigest()
        _post(daemon, "/hook/generic", body, {"X-Signature": f"sha256={signature}"})
        daemon.polled(1)
    assert stage.tip() == tip
    assert len(stage.pushed_images()) == pushed
    assert daemon.metric("reconciler_builds_total") == 2


def test_health_and_readiness(watched: Stage) -> None:
    configure(watched)
    watched.registry.stop()
    with DaemonProcess(watched) as daemon:
        assert daemon.get("/healthz") == "ok"
        watched.registry.start()
        wait_for("readiness", lambda: _is_ready(daemon))


def _is_ready(daemon: DaemonProcess) -> bool:
    try:
        return daemon.get("/readyz") == "ok"
    except urllib.error.HTTPError:
        return False


def test_it_ends_in_time_while_it_builds_and_leaves_nothing(watched: Stage) -> None:
    configure(watched)
    file = watched.work / "pools" / "worker" / "Containerfile"
    file.write_text(file.read_text() + 'RUN ["/bin/sleep", "60"]\n')
    watched.commit("Take long")
    with DaemonProcess(watched) as daemon:
        wait_for("a build", lambda: list((watched.root / "cache/reconciler/builds").glob("build-worker-*")))
        begun = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begun < 30  # of the grace, not of the build
    assert not list((watched.root / "cache/reconciler/builds").glob("build-worker-*"))
    assert not list((watched.root / "cache/reconciler/daemons").iterdir())


def test_two_repositories_in_one_daemon_share_the_look(watched: Stage) -> None:
    configure(watched)
    second = watched.config.with_name("second.yaml")
    text = watched.config.read_text().replace("branch: main,", "branch: other,")
    watched.git("branch", "other")
    watched.git("push", "--quiet", "origin", "other")
    second.write_text(text)
    with DaemonProcess(watched, watched.config, second) as daemon:
        daemon.wait_for_event("committed", 2)
        reconciled(watched, edit(watched))
        polls = daemon.metric("reconciler_polls_total")
        looks = daemon.metric("reconciler_git_requests_total", operation="ls-remote")
        daemon.polled(4)
        more = daemon.metric("reconciler_polls_total") - polls
        assert more >= 2 * (daemon.metric("reconciler_git_requests_total", operation="ls-remote") - looks) - 4


def test_a_configuration_named_twice_is_refused_where_it_would_fight_itself(watched: Stage) -> None:
    configure(watched)
    copy = watched.config.with_name("copy.yaml")
    copy.write_text(watched.config.read_text())
    said = watched.reconciler("run", "--config", str(watched.config), "--config", str(copy))
    assert said.status == 1
    assert "copy.yaml: error: watches" in said.err
