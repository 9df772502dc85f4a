"""What the registry tests share: a clock that never waits, small images, and a server that answers as told.

Belongs here: helpers without assertions. Does not belong here: the real registry (`tests.servers.registry`).
"""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import httpx

from reconciler.ports import OCI_INDEX, OCI_MANIFEST, Manifest
from tests.servers.registry import Certificate

TLS_HANDSHAKE = 0x16
LARGEST_BODY = 64 * 1024 * 1024
"""A scripted server refuses a larger one before it has come, as proxies do."""


@dataclass
class StillClock:
    """A clock that moves only by sleeping, and remembers how long it was told to."""

    time: float = 1_700_000_000.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Image:
    """A single-architecture image: its manifest and its blobs by digest."""

    manifest: Manifest
    blobs: Mapping[str, bytes]

    @property
    def config(self) -> str:
        """The config's digest."""
        found: str = json.loads(self.manifest.content)["config"]["digest"]
        return found


def manifest_of(document: object, media_type: str = OCI_MANIFEST) -> Manifest:
    content = json.dumps(document).encode()
    return Manifest(digest(content), media_type, content)


def image(name: str, *layers: bytes) -> Image:
    """An image that no other `name` shares a byte with."""
    config = json.dumps({"architecture": "amd64", "os": "linux", "name": name}).encode()
    blobs = [config, *(layers or (f"layer of {name}".encode(),))]
    described = [
        {"mediaType": "application/octet-stream", "digest": digest(b), "size": len(b)} for b in blobs
    ]
    document = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": described[0],
        "layers": described[1:],
    }
    return Image(manifest_of(document), {digest(b): b for b in blobs})


def index(*images: Image) -> Manifest:
    children = [
        {"mediaType": OCI_MANIFEST, "digest": i.manifest.digest, "size": len(i.manifest.content)}
        for i in images
    ]
    return manifest_of({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": children}, OCI_INDEX)


def upload_blobs(client: httpx.Client, repository_url: str, image: Image) -> None:
    """Put an image's blobs into a registry without using the code under test."""
    for name, content in image.blobs.items():
        opened = client.post(f"{repository_url}/blobs/uploads/").raise_for_status()
        url = httpx.URL(opened.headers["location"]).copy_add_param("digest", name)
        client.put(url, content=content).raise_for_status()


@dataclass(frozen=True)
class Asked:
    """One request as the scripted server saw it."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def authorization(self) -> str:
        return self.headers.get("authorization", "")


@dataclass(frozen=True)
class Answer:
    """What the scripted server says. `length` overrides Content-Length; `silent` closes without a word."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None
    silent: bool = False


Script = Callable[[Asked], Answer]


class ScriptedServer:
    """An HTTP server on loopback whose `script` decides every answer; it remembers what it was asked."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.host = f"127.0.0.1:{server.server_address[1]}"
        self.asked: list[Asked] = []
        self.script: Script = lambda _: Answer(404)

    def of(self, method: str) -> list[Asked]:
        """What was asked by a method, without the question whether this is a registry."""
        return [asked for asked in self.asked if asked.method == method and asked.path != "/v2/"]


@contextmanager
def scripted(script: Script | None = None, tls: Certificate | None = None) -> Iterator[ScriptedServer]:
    """Run a scripted server, by HTTPS when `tls` is given, until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.cert, tls.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        server.daemon_threads = True
        state = ScriptedServer(server)
        if script is not None:
            state.script = script
        server.state = state  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join(10)


@contextmanager
def silent_port() -> Iterator[str]:
    """A port that takes connections and never answers: a half-open peer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def handle(self) -> None:
        if isinstance(self.connection, ssl.SSLSocket):
            super().handle()
            return
        # A real HTTP server answers a TLS handshake at once; readline would wait for the rest of it.
        first = self.connection.recv(1, socket.MSG_PEEK)
        if first and first[0] != TLS_HANDSHAKE:
            super().handle()
        elif first:
            self.connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    def handle_one_request(self) -> None:
        # Clients under test hang up when they have seen enough.
        with suppress(ConnectionError):
            super().handle_one_request()
            return
        self.close_connection = True

    def _serve(self) -> None:
        state: ScriptedServer = self.server.state  # type: ignore[attr-defined]
        parts = urlsplit(self.path)
        declared = int(self.headers.get("content-length", "0"))
        if declared > LARGEST_BODY:
            self.close_connection = True
            self.send_error(413)
            return
        body = self.rfile.read(declared)
        if len(body) < declared:
            raise ConnectionAbortedError
        headers = {key.lower(): value for key, value in self.headers.items()}
        asked = Asked(self.command, parts.path, parse_qs(parts.query), headers, body)
        state.asked.append(asked)
        answer = Answer() if asked.path == "/v2/" else state.script(asked)
        if answer.silent:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body) if answer.length is None else answer.length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        if answer.length is not None:
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = _serve

    def log_message(self, *_: object) -> None:
        """Say nothing: what was asked is kept in `asked`."""
