"""A real container registry (Debian's `docker-registry`) on a free loopback port, for tests.

Belongs here: starting and ending it. Does not belong here: speaking to it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler import process

_READY = re.compile(r"listening on 127\.0\.0\.1:(\d+)")
_PATIENCE = 15.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate for 127.0.0.1 and localhost, and its key; being self-signed, `cert` is its own CA
    file."""

    cert: Path
    key: Path


class RegistryServer:
    """One registry. Storage survives `stop` and `kill`; `start` brings it back on the same port."""

    def __init__(self, root: Path, settings: Mapping[str, object], port: int = 0) -> None:
        self.root = root
        self.log = root / "registry.log"
        self._settings = settings
        self._port = port
        self._process: process.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """`127.0.0.1:PORT`."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it and wait until it listens. The first time the kernel chooses the port, so none is
        guessed."""
        config = self.root / "config.yml"
        http = {"addr": self.host, "secret": "loopback", **_mapping(self._settings["http"])}
        config.write_text(json.dumps({**self._settings, "http": http}))
        offset = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = process.start(
                ["docker-registry", "serve", str(config)],
                env={"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"},
                stdout=log.fileno(),
                stderr=log.fileno(),
            )
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            text = self.log.read_bytes()[offset:].decode("utf-8", "replace")
            if ready := _READY.search(text):
                self._port = int(ready[1])
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"docker-registry did not start:\n{self.log.read_text()[offset:]}")

    def stop(self) -> None:
        """End it as an orderly shutdown does. Safe to repeat."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=_PATIENCE)
            finally:
                self.kill()

    def kill(self) -> None:
        """End it as a crash does. Safe to repeat."""
        if self._process is not None:
            process.kill(self._process)
            self._process = None


@contextmanager
def docker_registry(
    directory: Path,
    *,
    htpasswd: tuple[str, str] | None = None,
    tls: Certificate | None = None,
    port: int = 0,
) -> Iterator[RegistryServer]:
    """Run a registry with its storage, log and configuration in a new folder below `directory`.

    `htpasswd` (user, password) makes it demand a login; `tls` makes it speak HTTPS. Deleting is enabled.
    Without `port`, a free one is chosen.
    """
    root = directory / f"registry-{time.monotonic_ns()}"
    root.mkdir(parents=True)
    http: dict[str, object] = {}
    if tls is not None:
        http["tls"] = {"certificate": str(tls.cert), "key": str(tls.key)}
    settings: dict[str, object] = {
        "version": "0.1",
        "log": {"level": "info"},
        "storage": {
            "filesystem": {"rootdirectory": str(root / "storage")},
            "delete": {"enabled": True},
            "maintenance": {"uploadpurging": {"enabled": False}},
        },
        "http": http,
    }
    if htpasswd is not None:
        users = root / "htpasswd"
        # Bcrypt is the one hash that the registry takes, and Python's library has none.
        made = _run(["htpasswd", "-inB", htpasswd[0]], htpasswd[1].encode())
        users.write_bytes(made)
        settings["auth"] = {"htpasswd": {"realm": "test", "path": str(users)}}
    server = RegistryServer(root, settings, port)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def self_signed(directory: Path) -> Certificate:
    """Make a self-signed certificate for loopback."""
    made = Certificate(directory / "loopback.crt", directory / "loopback.key")
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    names = ["-subj", "/CN=loopback", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    _run([*request, *names, "-days", "2", "-keyout", str(made.key), "-out", str(made.cert)])
    return made


def _run(argv: list[str], stdin: bytes | None = None) -> bytes:
    finished = process.run(argv, env={"PATH": os.environ["PATH"]}, timeout=_PATIENCE, stdin=stdin)
    if finished.status != 0:
        raise RuntimeError(f"{argv[0]} failed:\n{finished.complaint}")
    return finished.stdout


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, dict)
    return value
