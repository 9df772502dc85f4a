"""Credentials against real servers: HTTPS, bearer tokens, and what becomes of them on the way."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reconciler.adapters.git.mirror import Mirror
from reconciler.errors import GitError, GitUnavailable
from reconciler.ports import PushOutcome, PushResult
from reconciler.redaction import MASK, Redactor
from tests.adapters.git.support import git, remote_with, until
from tests.servers.git_http import GitHttp, basic, git_http, issued_certificate
from tests.servers.sshd import SshServer, key_pair, ssh_server

CANARY = "canary-d41d8cd98f00"


def secret(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_text(content)
        (folder / name).chmod(0o644)
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return remote_with(tmp_path, {"a": b"1"})[0]


@pytest.fixture
def web(tmp_path: Path) -> Iterator[GitHttp]:
    with git_http(tmp_path) as running:
        yield running


def pushed(mirror: Mirror, content: bytes = b"1") -> PushResult:
    return mirror.push("main", mirror.commit(mirror.fetch("main"), {"s": content}, "Record", 1))


LOGINS = [
    ({"username": "bot", "password": CANARY}, basic("bot", CANARY)),
    ({"username": CANARY * 2, "password": "x-oauth-basic"}, basic(CANARY * 2, "x-oauth-basic")),
    ({"username": "bö t", "password": f'{CANARY}"\\#;\t'.strip()}, basic("bö t", f'{CANARY}"\\#;')),
    ({"bearerToken": f"{CANARY}\n"}, f"Bearer {CANARY}"),
]


@pytest.mark.parametrize(("files", "header"), LOGINS)
def test_a_login_reads_and_pushes(
    server: Path, web: GitHttp, tmp_path: Path, files: Mapping[str, str], header: str
) -> None:
    web.writers = {header}
    folder = secret(tmp_path / "c", files)
    mirror = Mirror(f"{web.url}/{server.name}", tmp_path / "cache", credentials=folder)
    assert pushed(mirror).outcome is PushOutcome.DONE
    assert {asked.authorization for asked in web.requests} == {header}
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert CANARY.encode() not in kept


def test_replaced_credentials_count_without_a_restart(server: Path, web: GitHttp, tmp_path: Path) -> None:
    web.readers = {basic("bot", "old-password")}
    folder = secret(tmp_path / "c", {"username": "bot", "password": "old-password"})
    redactor = Redactor()
    mirror = Mirror(f"{web.url}/{server.name}", tmp_path / "cache", credentials=folder, redactor=redactor)
    head = mirror.head("main")
    web.readers = {"Bearer new-token"}
    with pytest.raises(GitError) as caught:
        mirror.head("main")
    assert not isinstance(caught.value, GitUnavailable)
    assert str(folder) in caught.value.hint
    assert "old-password" not in f"{caught.value.message} {caught.value.hint}"
    secret(folder, {"bearerToken": "new-token"})
    assert mirror.head("main") == head
    assert redactor.clean("old-password new-token") == f"{MASK} {MASK}"
    folder.rename(tmp_path / "away")
    with pytest.raises(GitError, match="does not exist"):
        mirror.head("main")


def test_pushes_use_their_own_credentials_and_nothing_else_does(
    server: Path, web: GitHttp, tmp_path: Path
) -> None:
    web.readers, web.writers = {"Bearer reader"}, {"Bearer writer"}
    read = secret(tmp_path / "read", {"bearerToken": "reader"})
    write = secret(tmp_path / "write", {"bearerToken": "writer"})
    url = f"{web.url}/{server.name}"
    mirror = Mirror(url, tmp_path / "cache", credentials=read, push_credentials=write)
    assert pushed(mirror).outcome is PushOutcome.DONE
    assert {a.authorization for a in web.requests if a.is_push} == {"Bearer writer"}
    assert {a.authorization for a in web.requests if not a.is_push} == {"Bearer reader"}
    only = Mirror(url, tmp_path / "cache", credentials=read)
    result = pushed(only, b"2")
    assert result.outcome is PushOutcome.REFUSED
    assert "403" in result.message


def test_who_pushed_may_look_when_the_reader_may_no_longer(
    server: Path, web: GitHttp, tmp_path: Path
) -> None:
    web.readers, web.writers = {"Bearer reader"}, {"Bearer writer"}
    read = secret(tmp_path / "read", {"bearerToken": "reader"})
    write = secret(tmp_path / "write", {"bearerToken": "writer"})
    mirror = Mirror(f"{web.url}/{server.name}", tmp_path / "cache", credentials=read, push_credentials=write)
    made = mirror.commit(mirror.fetch("main"), {"s": b"1"}, "Record", 1)
    web.readers = {"Bearer somebody-else"}
    web.requests.clear()
    assert mirror.push("main", made).outcome is PushOutcome.DONE
    looks = [asked.authorization for asked in web.requests if not asked.is_push]
    assert looks[0] == "Bearer reader"
    assert looks[-1] == "Bearer writer"
    with pytest.raises(GitError):
        mirror.head("main")


def test_credentials_go_to_no_other_address(server: Path, web: GitHttp, tmp_path: Path) -> None:
    folder = secret(tmp_path / "c", {"bearerToken": CANARY})
    mirror = Mirror(f"{web.url}/{server.name}", tmp_path / "cache", credentials=folder)
    with git_http(tmp_path) as other:
        web.status = 302
        with pytest.raises(GitError):
            mirror.head("main")
        assert other.requests == []


@pytest.mark.tools
def test_over_tls_with_an_authority_of_our_own(server: Path, tmp_path: Path) -> None:
    authority, certificate = issued_certificate(tmp_path / "tls")
    folder = secret(tmp_path / "c", {"bearerToken": CANARY, "ca.crt": authority.read_text()})
    with git_http(tmp_path, tls=certificate) as web:
        web.writers = {f"Bearer {CANARY}"}
        url = f"{web.url}/{server.name}"
        assert pushed(Mirror(url, tmp_path / "cache", credentials=folder)).outcome is PushOutcome.DONE
        asked = len(web.requests)
        other, _ = issued_certificate(tmp_path / "other")
        for name, content in (("none", None), ("wrong", other.read_text())):
            files = {"bearerToken": CANARY} | ({"ca.crt": content} if content else {})
            stranger = Mirror(url, tmp_path / name, credentials=secret(tmp_path / f"c-{name}", files))
            with pytest.raises(GitError) as caught:
                stranger.head("main")
            assert not isinstance(caught.value, GitUnavailable)
            assert "ca.crt" in caught.value.hint
        broken = {"ca.crt": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}
        with pytest.raises(GitError) as caught:
            Mirror(url, tmp_path / "broken", credentials=secret(tmp_path / "c-broken", broken)).head("main")
        assert not isinstance(caught.value, GitUnavailable)
        assert len(web.requests) == asked


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path) as running:
        yield running


@pytest.mark.tools
@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_over_ssh_with_a_key_for_each_purpose(
    server: Path, sshd: SshServer, tmp_path: Path, kind: str
) -> None:
    reader, writer = key_pair(tmp_path, "reader", kind=kind), key_pair(tmp_path, "writer", kind=kind)
    sshd.allow(reader, "read")
    sshd.allow(writer, "write")
    read, write = (
        secret(
            tmp_path / f"c-{key.private.name}",
            {"identity": key.private.read_text(), "known_hosts": sshd.known_hosts},
        )
        for key in (reader, writer)
    )
    only = Mirror(sshd.url(server), tmp_path / "cache", credentials=read)
    result = pushed(only)
    assert result.outcome is PushOutcome.REFUSED
    assert "this key may not do that" in result.message
    both = Mirror(sshd.url(server), tmp_path / "cache", credentials=read, push_credentials=write)
    assert pushed(both).outcome is PushOutcome.DONE
    assert git(server, "log", "--format=%s", "main").splitlines() == ["Record", "change"]
    assert [line for line in sshd.requests if "receive-pack" in line and line.startswith("write")]
    assert not [line for line in sshd.requests if "upload-pack" in line and line.startswith("write")]


@pytest.mark.tools
def test_replaced_ssh_keys_count_without_a_restart(server: Path, sshd: SshServer, tmp_path: Path) -> None:
    old, new = key_pair(tmp_path, "old"), key_pair(tmp_path, "new")
    sshd.allow(old, "read")
    files = {"identity": old.private.read_text(), "known_hosts": sshd.known_hosts}
    folder = secret(tmp_path / "c", files)
    mirror = Mirror(sshd.url(server), tmp_path / "cache", credentials=folder)
    head = mirror.head("main")
    sshd.forbid(old)
    sshd.allow(new, "read")
    with pytest.raises(GitError, match="Permission denied") as caught:
        mirror.head("main")
    assert str(folder) in caught.value.hint
    assert not isinstance(caught.value, GitUnavailable)
    secret(folder, files | {"identity": new.private.read_text()})
    assert mirror.head("main") == head


@pytest.mark.tools
def test_a_server_that_known_hosts_does_not_name(server: Path, sshd: SshServer, tmp_path: Path) -> None:
    key, stranger = key_pair(tmp_path, "key"), key_pair(tmp_path, "stranger")
    sshd.allow(key, "read")
    wrong = f"[127.0.0.1]:{sshd.port} {stranger.public}\n"
    for hosts in (wrong, f"other.example.com {stranger.public}\n"):
        folder = secret(tmp_path / "c", {"identity": key.private.read_text(), "known_hosts": hosts})
        with pytest.raises(GitError, match="Host key verification failed") as caught:
            Mirror(sshd.url(server), tmp_path / "cache", credentials=folder).head("main")
        assert "known_hosts" in caught.value.hint
        assert not isinstance(caught.value, GitUnavailable)
    assert sshd.requests == []


@pytest.mark.tools
def test_ssh_keys_that_cannot_be_used(server: Path, sshd: SshServer, tmp_path: Path) -> None:
    locked = key_pair(tmp_path, "locked", passphrase="hunter2")
    text = locked.private.read_text()
    files = {"identity": text, "known_hosts": sshd.known_hosts}
    mirror = Mirror(sshd.url(server), tmp_path / "cache", credentials=secret(tmp_path / "c", files))
    with pytest.raises(GitError, match="is protected by a passphrase"):
        mirror.head("main")
    lines = key_pair(tmp_path, "cut").private.read_text().splitlines()
    secret(tmp_path / "c", files | {"identity": "\n".join([*lines[:2], lines[-1]])})
    with pytest.raises(GitError) as caught:
        mirror.head("main")
    assert "`identity` is not a private key that ssh can read" in caught.value.hint


class Watcher(threading.Thread):
    """Notes every process that shows `text` in its arguments or its environment, until it is stopped."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text.encode()
        self.shown: list[str] = []
        self.looks = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.is_set():
            for path in (*Path("/proc").glob("[0-9]*/cmdline"), *Path("/proc").glob("[0-9]*/environ")):
                try:
                    content = path.read_bytes()
                except OSError:  # it has ended
                    continue
                if self.text in content:
                    self.shown.append(f"{path}: {content!r}")
            self.looks += 1


@pytest.mark.tools
@pytest.mark.parametrize("way", ["basic", "bearer", "ssh"])
def test_no_secret_shows_while_a_slow_push_runs(
    server: Path, web: GitHttp, sshd: SshServer, tmp_path: Path, way: str
) -> None:
    key = key_pair(tmp_path, "key")
    sshd.allow(key, "write")
    files, canary = {
        "basic": ({"username": f"{CANARY}-user", "password": f"{CANARY}-password"}, CANARY),
        "bearer": ({"bearerToken": CANARY}, CANARY),
        "ssh": (
            {"identity": key.private.read_text(), "known_hosts": sshd.known_hosts},
            key.private.read_text().splitlines()[2],
        ),
    }[way]
    folder = secret(tmp_path / "c", files)
    url = sshd.url(server) if way == "ssh" else f"{web.url}/{server.name}"
    mirror = Mirror(url, tmp_path / "cache", credentials=folder)
    made = mirror.commit(mirror.fetch("main"), {"s": b"1"}, "Record", 1)
    web.held = "POST /server.git/git-receive-pack"
    sshd.hold()
    results: list[PushResult] = []
    watcher = Watcher(canary)
    pusher = threading.Thread(target=lambda: results.append(mirror.push("main", made)))
    watcher.start()
    pusher.start()
    try:
        assert until(
            lambda: (
                any(asked.method == "POST" and asked.is_push for asked in web.requests)
                or any("receive-pack" in line for line in sshd.requests)
            )
        )
        looked = watcher.looks
        assert until(lambda: watcher.looks >= looked + 3)
        assert pusher.is_alive()
    finally:
        web.held = ""
        sshd.release()
        pusher.join()
        watcher.stopped.set()
        watcher.join()
    assert [result.outcome for result in results] == [PushOutcome.DONE]
    assert watcher.shown == []
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not [path for path in left if canary.encode() in path.read_bytes()]
