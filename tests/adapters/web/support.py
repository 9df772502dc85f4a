"""What the web server's tests share: a daemon that is not there, and clients that do what no good client would.

Belongs here: helpers without assertions. Does not belong here: how deliveries are signed (`tests.unit.web.senders`).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from select import POLLERR, POLLHUP, POLLRDHUP, poll

from reconciler.redaction import Redactor
from reconciler.settings import Address
from reconciler.web.app import application
from reconciler.web.limits import LIMITS, Limits
from reconciler.web.metrics import Metrics
from reconciler.web.server import WebServer
from reconciler.web.webhook import Hook, Hooks
from tests.fakes import FakeClock

PATIENCE = 30.0
"""Seconds that a test waits for what must happen sooner or later."""
CANARY = "canary-5f1c0b7e"


@dataclass
class Daemon:
    """Answers as a test says, and remembers what it was asked to look at."""

    unwell: str = ""
    unready: str = ""
    shown: Mapping[str, object] = field(default_factory=dict)
    looks: list[str] = field(default_factory=list)
    pulls: list[str] | None = None
    """Looks at pull requests; None where nobody shows previews."""

    def live(self) -> str:
        return self.unwell

    def ready(self) -> str:
        return self.unready

    def status(self) -> Mapping[str, object]:
        return self.shown

    def look_now(self, source: str) -> None:
        self.looks.append(source)

    def look_at_pulls(self, source: str) -> None:
        assert self.pulls is not None
        self.pulls.append(source)


@dataclass(frozen=True)
class Answer:
    """What a server said; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Served:
    """A server that runs, with what it works on."""

    server: WebServer
    daemon: Daemon
    metrics: Metrics
    redactor: Redactor
    clock: FakeClock

    @property
    def port(self) -> int:
        return self.server.port

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        return ask(self.port, method, path, headers, body)

    def metric(self, line: str) -> float:
        """The value of a series, by its whole name with labels as the text has it; 0 when there is none."""
        for found in self.metrics.text().decode().splitlines():
            name, _, value = found.rpartition(" ")
            if name == line:
                return float(value)
        return 0.0


def ask(
    port: int, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Answer:
    """One request as any client makes it."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, dict(headers or {}))
        got = connection.getresponse()
        return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
    finally:
        connection.close()


@contextmanager
def served(
    hooks: tuple[Hook, ...] = (), limits: Limits = LIMITS, daemon: Daemon | None = None
) -> Iterator[Served]:
    """A server on a free port of this machine."""
    daemon = daemon or Daemon()
    metrics, redactor, clock = Metrics(["east", "west"]), Redactor(), FakeClock()
    pulls = None if daemon.pulls is None else daemon.look_at_pulls
    receiver = Hooks(hooks, daemon.look_now, metrics, redactor, clock, limits, pulls)
    app = application(daemon, metrics, daemon.status, receiver, redactor, limits)
    server = WebServer(app, Address("127.0.0.1", 0), limits)
    server.start()
    try:
        yield Served(server, daemon, metrics, redactor, clock)
    finally:
        server.stop(5)


def secret_file(folder: Path, secret: str, name: str = "secret") -> Path:
    """A mounted secret."""
    path = folder / name
    path.write_text(secret + "\n")
    return path


@contextmanager
def raw(port: int, receive_buffer: int = 0) -> Iterator[socket.socket]:
    """A connection, to send anything over."""
    with socket.socket() as sock:
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(PATIENCE)
        sock.connect(("127.0.0.1", port))
        yield sock


def everything(sock: socket.socket) -> bytes:
    """All that comes until the server closes the connection, in whichever way."""
    received = bytearray()
    try:
        while piece := sock.recv(65536):
            received += piece
    except ConnectionError:
        pass
    return bytes(received)


def ended(sock: socket.socket) -> bool:
    """Whether the server has ended the connection, without reading what it still has to say."""
    poller = poll()
    poller.register(sock, POLLRDHUP | POLLHUP | POLLERR)
    return bool(poller.poll(0))


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether something comes true while there is patience."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()
