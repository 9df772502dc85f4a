"""Signed commits of every kind, made with real keys: as honest programs make them, and as somebody could."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from reconciler.adapters.git.objects import LocalObjects
from reconciler.adapters.git.signatures import GitSignatures
from reconciler.ports import Signatures
from tests.adapters.git.support import clone_of, commit, git
from tests.servers.sshd import key_pair

LONG_AGO = "20200101T000000"


class Gpg:
    """OpenPGP keys in a home of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *words: str, stdin: bytes = b"", now: str = "") -> bytes:
        clock = ["--faked-system-time", f"{now}!"] if now else []
        common = ["gpg", "--batch", "--quiet", "--yes", "--pinentry-mode=loopback", "--passphrase="]
        done = subprocess.run(
            [*common, *clock, *words],
            input=stdin,
            env={"PATH": os.environ["PATH"], "GNUPGHOME": str(self.home), "LC_ALL": "C"},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def make(self, user: str, *, expires: str = "0", now: str = "") -> str:
        """A new key that may sign; its fingerprint."""
        before = self._fingerprints()
        self("--quick-generate-key", user, "ed25519", "sign", expires, now=now)
        (made,) = self._fingerprints() - before
        return made

    def add_subkey(self, key: str) -> str:
        """Give a key a subkey that signs in its place; the subkey's fingerprint."""
        before = self._fingerprints()
        self("--quick-add-key", key, "ed25519", "sign", "0")
        (made,) = self._fingerprints() - before
        return made

    def revoke(self, key: str) -> None:
        """Revoke a key by the certificate that was made with it."""
        certificate = (self.home / "openpgp-revocs.d" / f"{key}.rev").read_text()
        self("--import", stdin=certificate.replace(":-----BEGIN", "-----BEGIN").encode())

    def export(self, *keys: str) -> bytes:
        """Public keys, armored."""
        return self("--armor", "--export", *keys)

    def sign(
        self, payload: bytes, *keys: str, options: tuple[str, ...] = ("--detach-sign",), now: str = ""
    ) -> bytes:
        """A signature by exactly these keys, armored."""
        users = [word for key in keys for word in ("--local-user", f"{key}!")]
        return self("--armor", *users, *options, stdin=payload, now=now)

    def _fingerprints(self) -> set[str]:
        lines = self("--list-keys", "--with-colons", "--with-subkey-fingerprint").decode().splitlines()
        return {line.split(":")[9] for line in lines if line.startswith("fpr:")}


@contextmanager
def openpgp() -> Iterator[Gpg]:
    """A home for keys. Its path is short, because gpg-agent's socket in it has to be."""
    home = Path(mkdtemp(prefix="gpg-"))
    try:
        yield Gpg(home)
    finally:
        environment = {"PATH": os.environ["PATH"], "GNUPGHOME": str(home)}
        subprocess.run(["gpgconf", "--kill", "all"], env=environment, timeout=60, check=False)
        shutil.rmtree(home)


def ssh_sign(payload: bytes, private: Path, namespace: str = "git") -> bytes:
    """A signature by an SSH key."""
    done = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-q", "-n", namespace, "-f", str(private)],
        input=payload,
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def unsigned(repository: Path, message: str = "change", tree: str = "HEAD^{tree}") -> bytes:
    """A commit on HEAD, as text that can be signed."""
    return (
        f"tree {git(repository, 'rev-parse', tree)}\nparent {git(repository, 'rev-parse', 'HEAD')}\n"
        f"author A Person <person@example.com> 1700000000 +0000\n"
        f"committer A Person <person@example.com> 1700000000 +0000\n\n{message}\n"
    ).encode()


def with_headers(payload: bytes, *headers: tuple[str, bytes]) -> bytes:
    """The text with more headers, after its own; lines after the first are set in, as Git does."""
    head, blank, message = payload.partition(b"\n\n")
    lines = [name.encode() + b" " + value.rstrip(b"\n").replace(b"\n", b"\n ") for name, value in headers]
    return b"\n".join([head, *lines]) + blank + message


def store(repository: Path, raw: bytes) -> str:
    """Put a commit into a repository; its id."""
    return git(repository, "hash-object", "-t", "commit", "-w", "--stdin", stdin=raw)


USER = "Ada Admin <ada@example.com>"
ENV = {"PATH": os.environ["PATH"]}


class Keys:
    """Keys of everybody, made once: they cost time."""

    def __init__(self, gpg: Gpg, folder: Path) -> None:
        self.gpg = gpg
        self.ada = gpg.make(USER)
        self.subkey = gpg.add_subkey(self.ada)
        self.other_ada = gpg.make(USER)
        self.expired = gpg.make("Old <old@example.com>", expires="1y", now=LONG_AGO)
        self.elder = gpg.make("Elder <elder@example.com>", now=LONG_AGO)
        self.revoked = gpg.make("Gone <gone@example.com>")
        self.ssh = key_pair(folder, "ada")
        self.other_ssh = key_pair(folder, "mallory")
        self.rsa = key_pair(folder, "rsa", kind="rsa")


class World:
    """A repository, a folder of trusted keys, and who looks at both."""

    def __init__(self, root: Path) -> None:
        self.work = clone_of(root / "work")
        commit(self.work, {"a": b"1"})
        self.trusted = root / "trusted"
        self.trusted.mkdir()
        self.signatures: Signatures = GitSignatures(LocalObjects.open(self.work), self.trusted, ENV)

    def trust(self, name: str, content: bytes | str) -> None:
        (self.trusted / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    def problem(self, raw: bytes) -> str:
        """What is wrong with a commit of this text."""
        return self.signatures.problem(store(self.work, raw))

    def signed(self, sign: Callable[[bytes], bytes]) -> str:
        """What is wrong with a commit that is signed like this."""
        payload = unsigned(self.work)
        return self.problem(with_headers(payload, ("gpgsig", sign(payload))))
