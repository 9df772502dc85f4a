"""The daemon against real Git servers: logins, keys, signatures, tags; and no secret in anything that it says."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.adapters.git.signing import openpgp
from tests.e2e.test_run import configure, edit, reconciled
from tests.servers.daemon import DaemonProcess, wait_for
from tests.servers.git_http import basic, git_http
from tests.servers.sshd import key_pair, ssh_server
from tests.servers.stage import Stage

pytestmark = pytest.mark.tools

CANARY = "canary-7d793037a076"


def secret(folder: Path, files: Mapping[str, str]) -> Path:
    """A mounted Secret."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder


def watch(stage: Stage, url: str, rest: str = "interval: 1s") -> None:
    """Let the daemon reach the repository in another way."""
    configure(stage, rest)
    stage.config.write_text(stage.config.read_text().replace(f"url: {stage.bare}", f'url: "{url}"'))


class Eavesdropper:
    """Reads the command lines and environments of all processes, as anybody on the machine can the former."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._over = Event()
        self._thread = Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Eavesdropper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10)

    def _listen(self) -> None:
        while not self._over.wait(0.005):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = path.read_bytes().decode("utf-8", "replace")
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if CANARY in line:
                    self.heard.append(line)


def all_that_it_left(stage: Stage, daemon: DaemonProcess) -> str:
    """Its log, metrics, state, and everything that it committed."""
    history = stage.run("git", "--git-dir", str(stage.bare), "log", "--patch", "--format=fuller", "main")
    pages = daemon.get("/metrics") + daemon.get("/status")
    kept = "".join(
        path.read_bytes().decode("utf-8", "replace")
        for path in (stage.root / "cache").rglob("*")
        if path.is_file() and path.suffix not in (".pack", ".idx", ".sqlite")
    )
    return daemon.log.read_text() + history + pages + kept


def test_over_https_with_a_login_of_its_own_for_pushing_and_no_secret_shows(
    stage: Stage, definitions: Path
) -> None:
    stage.create_repository(definitions)
    with git_http(stage.root) as server, Eavesdropper() as ear:
        server.readers = {basic("reader", f"{CANARY}-read")}
        server.writers = {basic("writer", f"{CANARY}-write")}
        watch(
            stage,
            f"{server.url}/{stage.bare.name}",
            "interval: 1s, credentials: read",
        )
        stage.config.write_text(stage.config.read_text() + "writeBack: {credentials: write}\n")
        secret(stage.root / "read", {"username": "reader", "password": f"{CANARY}-read"})
        folder = secret(stage.root / "write", {"username": "writer", "password": f"{CANARY}-wrong"})
        with DaemonProcess(stage) as daemon:
            daemon.wait_for_event("main does not take the status commit")
            (folder / "password").write_text(f"{CANARY}-write")
            daemon.signal(signal.SIGHUP)
            reconciled(stage, stage.git("rev-parse", "HEAD"))
            reconciled(stage, edit(stage))
            assert CANARY not in all_that_it_left(stage, daemon)
    assert ear.heard == []
    pushes = {asked.authorization for asked in server.requests if asked.is_push}
    assert basic("writer", f"{CANARY}-write") in pushes
    assert basic("reader", f"{CANARY}-read") not in pushes


def test_over_ssh_with_a_key(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    with ssh_server(stage.root) as server:
        key = key_pair(stage.root / "keys", "identity")
        server.allow(key, "write")
        secret(
            stage.root / "ssh",
            {"identity": key.private.read_text(), "known_hosts": server.known_hosts},
        )
        watch(stage, server.url(stage.bare), "interval: 1s, credentials: ssh")
        with DaemonProcess(stage) as daemon:
            reconciled(stage, stage.git("rev-parse", "HEAD"))
            reconciled(stage, edit(stage))
            server.forbid(key)
            event = daemon.wait_for_event("Permission denied")
            assert event["level"] == "warning"
            server.allow(key, "write")
            reconciled(stage, edit(stage, "amd64"))
            assert "PRIVATE KEY" not in all_that_it_left(stage, daemon)


def test_a_commit_that_nobody_trusted_has_signed_changes_nothing_and_says_so(
    stage: Stage, definitions: Path
) -> None:
    with openpgp() as gpg:
        trusted = gpg.make("Ada Admin <ada@example.com>")
        (stage.root / "trusted").mkdir()
        (stage.root / "trusted" / "ada.asc").write_bytes(gpg.export(trusted))
        stage.env |= {"GNUPGHOME": str(gpg.home)}
        stage.create_repository(definitions)
        stage.git("config", "user.signingKey", trusted)
        stage.git("config", "commit.gpgSign", "true")
        stage.git("commit", "--quiet", "--amend", "--no-edit", "--gpg-sign")
        stage.git("push", "--quiet", "--force", "origin", "main")
        configure(stage, "interval: 1s, verify: {mode: head, keys: trusted}")
        with DaemonProcess(stage) as daemon:
            reconciled(stage, stage.git("rev-parse", "HEAD"))
            stage.git("config", "commit.gpgSign", "false")
            bad = edit(stage)
            told = daemon.wait_for_event(f"commit {bad[:12]} is not signed; nothing is changed")
            assert told["reason"] == "UnverifiedCommit"
            tip, pushed = stage.tip(), len(stage.pushed_images())
            daemon.polled(3)
            assert (stage.tip(), len(stage.pushed_images())) == (tip, pushed)
            assert daemon.metric("reconciler_reconcile_duration_seconds_count", outcome="unverified") >= 1
            assert len(daemon.events("is not signed")) == 1
            stage.git("config", "commit.gpgSign", "true")
            reconciled(stage, edit(stage, text="signed\n"))


def test_a_tag_is_followed_where_it_is_moved_and_the_status_goes_to_a_branch(
    stage: Stage, definitions: Path
) -> None:
    stage.create_repository(definitions)
    stage.git("tag", "--annotate", "--message", "first", "stable")
    stage.git("push", "--quiet", "origin", "stable")
    configure(stage, "interval: 1s")
    text = stage.config.read_text().replace("branch: main,", "tag: stable,")
    stage.config.write_text(text + "writeBack: {branch: status}\n")
    with DaemonProcess(stage):
        first = stage.git("rev-parse", "HEAD")
        wait_for("the first status", lambda: _recorded(stage, first))
        second = edit(stage)
        stage.git("tag", "--annotate", "--message", "second", "--force", "stable")
        stage.git("push", "--quiet", "--force", "origin", "stable")
        wait_for("the second status", lambda: _recorded(stage, second))
    assert stage.git("log", "--format=%an", "origin/main").split() == ["Ada", "Admin"] * 2


def _recorded(stage: Stage, commit: str) -> bool:
    try:
        record = stage.record("worker", "status")
    except RuntimeError:
        return False
    return any(entry.source_commit == commit for entry in record.architectures)


def test_the_subject_of_commits_is_the_users(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    configure(stage, "interval: 1s")
    stage.config.write_text(
        stage.config.read_text() + 'writeBack: {message: "chore(os): $count for $pools [skip ci]"}\n'
    )
    with DaemonProcess(stage) as daemon:
        daemon.wait_for_event("committed")
    message = stage.run("git", "--git-dir", str(stage.bare), "log", "-1", "--format=%B", "main")
    assert message.startswith("chore(os): 1 for worker [skip ci]\n\n")
    assert re.search(r"^Reconciler-Source-Commit: [0-9a-f]{40}\nReconciler-Instance: default$", message, re.M)
