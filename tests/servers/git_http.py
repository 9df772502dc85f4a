"""A Git server over smart HTTP (git-http-backend) on a free loopback port, for tests: logins, TLS, faults on demand.

Belongs here: starting and ending it, and its knobs. Does not belong here: the repositories it serves.
"""

from __future__ import annotations

import os
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from reconciler import process
from tests.servers.registry import Certificate

_PATIENCE = 60.0
_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_HTTP_EXPORT_ALL": "1",
    "REMOTE_USER": "someone",
    "REMOTE_ADDR": "127.0.0.1",
}


def basic(user: str, password: str) -> str:
    """The value of an Authorization header."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    method: str
    target: str
    authorization: str

    @property
    def is_push(self) -> bool:
        """Whether it is a part of a push."""
        return "git-receive-pack" in self.target


@dataclass
class GitHttp:
    """What a running server is asked, and how it is to answer; everything may be changed while it runs.

    `readers` and `writers` are the Authorization headers that may read and that may push (and read); without any,
    everybody may. `status` is answered to everything when it is not 0, and `status_after_push` from the moment on
    that a push has been taken in; with `lose_reply` that push itself is never answered. Requests whose method and
    target contain `held` wait until it is '' again. Without `version_2`, the server speaks the old protocol, and
    gives out no commits by their ids.
    """

    root: Path
    url: str = ""
    requests: list[Asked] = field(default_factory=list)
    readers: set[str] = field(default_factory=set)
    writers: set[str] = field(default_factory=set)
    status: int = 0
    status_after_push: int = 0
    lose_reply: bool = False
    version_2: bool = True
    held: str = ""

    def may(self, asked: Asked) -> bool:
        """Whether somebody may do what he asks for."""
        allowed = self.writers if asked.is_push else self.readers | self.writers
        return asked.authorization in allowed or not (self.readers or self.writers)


class _Handler(BaseHTTPRequestHandler):
    server_state: GitHttp

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        state = self.server_state
        asked = Asked(self.command, self.path, self.headers.get("Authorization", ""))
        state.requests.append(asked)
        if state.status or not state.may(asked):
            self._refuse(state.status or (403 if asked.authorization in state.readers else 401))
            return
        until = time.monotonic() + _PATIENCE
        while state.held and state.held in f"{asked.method} {asked.target}" and time.monotonic() < until:
            time.sleep(0.02)
        taken_in = asked.is_push and self.command == "POST"
        fields, content = self._backend(body)
        if taken_in and state.status_after_push:
            state.status = state.status_after_push
        if taken_in and state.lose_reply:
            self.close_connection = True
            return
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
        if status // 100 == 3:
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _backend(self, body: bytes) -> tuple[dict[str, str], bytes]:
        path, _, query = self.path.partition("?")
        environment = {
            **_ENVIRONMENT,
            "GIT_PROJECT_ROOT": str(self.server_state.root),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", "") if self.server_state.version_2 else "",
        }
        done = process.run(["git", "http-backend"], env=environment, timeout=_PATIENCE, stdin=body)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        return dict(line.split(": ", 1) for line in head.decode().split("\r\n")), content

    def log_message(self, *_: object) -> None:
        """Silent."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Clients break off when a test ends them; that is no news."""


@contextmanager
def git_http(root: Path, *, tls: Certificate | None = None) -> Iterator[GitHttp]:
    """Serve the repositories below `root`, with `tls` over HTTPS: `NAME.git` is at `{url}/NAME.git`."""
    state = GitHttp(root)
    handler = type("Handler", (_Handler,), {"server_state": state})
    with _Server(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.cert, tls.key)
            # Shaken hands with in the request's own thread: a client that hangs must not stop the others.
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        state.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield state
        finally:
            state.held = ""
            server.shutdown()
            thread.join()


def issued_certificate(directory: Path) -> tuple[Path, Certificate]:
    """An authority's certificate, and one for loopback that it signed."""
    directory.mkdir(parents=True, exist_ok=True)
    authority, key = directory / "authority.crt", directory / "authority.key"
    made = Certificate(directory / "server.crt", directory / "server.key")
    request, names = directory / "server.csr", directory / "names"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")
    new = ("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    own = ("-x509", "-days", "2", "-subj", "/CN=An authority of our own")
    _openssl(*new, *own, "-keyout", str(key), "-out", str(authority))
    _openssl(*new, "-subj", "/CN=loopback", "-keyout", str(made.key), "-out", str(request))
    sign = ("openssl", "x509", "-req", "-days", "2", "-CAcreateserial", "-extfile", str(names))
    _openssl(*sign, "-in", str(request), "-CA", str(authority), "-CAkey", str(key), "-out", str(made.cert))
    return authority, made


def _openssl(*argv: str) -> None:
    done = process.run(argv, env={"PATH": os.environ["PATH"]}, timeout=_PATIENCE)
    if done.status:
        raise RuntimeError(f"{' '.join(argv[:2])} failed:\n{done.complaint}")
