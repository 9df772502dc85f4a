"""The fault proxy does what it says, and nothing else."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import httpx
import pytest

from tests.adapters.git.support import descriptors
from tests.servers.faults import (
    HALF_OPEN,
    RESET,
    SWALLOW,
    Answer,
    Before,
    Cut,
    Delay,
    DropReply,
    End,
    Refuse,
    Request,
    Toward,
)
from tests.servers.proxy import FaultProxy
from tests.servers.registry import self_signed


class Echo(StreamRequestHandler):
    """Says every line again."""

    heard: list[bytes]

    def handle(self) -> None:
        for line in self.rfile:
            self.heard.append(line)
            self.wfile.write(line)


class Http(BaseHTTPRequestHandler):
    """Answers with what it was sent: with a length, in chunks (`/chunks`), or until the end (`/end`)."""

    protocol_version = "HTTP/1.1"
    heard: list[tuple[str, str, bytes]]

    def do_GET(self) -> None:
        body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size + 2)[:-2]
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.heard.append((self.command, self.path, body))
        self.send_response(200)
        if self.path == "/chunks":
            self.send_header("Transfer-Encoding", "chunked")
        elif self.path == "/end":
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.path == "/chunks":
            body = b"".join(b"%x\r\n%c\r\n" % (1, byte) for byte in body) + b"0\r\n\r\n"
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_POST = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def serving(server: ThreadingTCPServer | ThreadingHTTPServer) -> Iterator[str]:
    server.daemon_threads = True
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield "{}:{}".format(*server.server_address)
        server.shutdown()
        thread.join()


@pytest.fixture
def heard() -> list[bytes]:
    return []


@pytest.fixture
def stream(heard: list[bytes]) -> Iterator[FaultProxy]:
    """A proxy in front of an echo."""
    with (
        serving(ThreadingTCPServer(("127.0.0.1", 0), type("Mine", (Echo,), {"heard": heard}))) as echo,
        FaultProxy(echo) as proxy,
    ):
        yield proxy


@pytest.fixture
def asked() -> list[tuple[str, str, bytes]]:
    return []


@pytest.fixture
def web(asked: list[tuple[str, str, bytes]]) -> Iterator[FaultProxy]:
    """A proxy in front of an HTTP server."""
    with (
        serving(ThreadingHTTPServer(("127.0.0.1", 0), type("Mine", (Http,), {"heard": asked}))) as server,
        FaultProxy(server, http=True) as proxy,
    ):
        yield proxy


def connect(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def said(proxy: FaultProxy, *lines: bytes) -> bytes:
    """What comes back, until the end or a second of silence."""
    with connect(proxy) as client:
        client.sendall(b"".join(lines))
        client.shutdown(socket.SHUT_WR)
        client.settimeout(1)
        return b"".join(iter(lambda: client.recv(1000), b""))


def test_without_a_fault_everything_passes(stream: FaultProxy) -> None:
    big = b"x" * 3_000_000 + b"\n"
    assert said(stream, b"one\n", b"two\n") == b"one\ntwo\n"
    with connect(stream) as client:
        threading.Thread(target=client.sendall, args=[big], daemon=True).start()
        found = 0
        while found < len(big):
            found += len(client.recv(100_000))


def test_nobody_listens_and_then_somebody_does_on_the_same_port(stream: FaultProxy) -> None:
    with connect(stream) as client:
        client.sendall(b"one\n")
        assert client.recv(10) == b"one\n"
        stream.fault = Refuse()
        with pytest.raises(ConnectionResetError):
            client.recv(10)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            connect(stream)
        stream.fault = Refuse()
    stream.heal()
    assert said(stream, b"two\n") == b"two\n"


def test_half_open_says_nothing_and_hears_nothing(stream: FaultProxy, heard: list[bytes]) -> None:
    stream.fault = HALF_OPEN
    with pytest.raises(TimeoutError):
        said(stream, b"one\n")
    assert heard == []


def test_a_swallowed_reply_was_heard(stream: FaultProxy, heard: list[bytes]) -> None:
    stream.fault = SWALLOW
    with pytest.raises(TimeoutError):
        said(stream, b"one\n")
    assert heard == [b"one\n"]


def test_a_reset_is_no_ordinary_end(stream: FaultProxy, heard: list[bytes]) -> None:
    stream.fault = RESET
    with connect(stream) as client:
        client.sendall(b"one\n")
        with pytest.raises(ConnectionResetError):
            client.recv(10)
    assert heard == []


@pytest.mark.parametrize("how", End)
def test_a_cut_toward_the_client(stream: FaultProxy, heard: list[bytes], how: End) -> None:
    stream.fault = Cut(after=6, how=how)
    with connect(stream) as client:
        client.sendall(b"one\ntwo\n")
        found = client.recv(4)
        found += client.recv(4, socket.MSG_WAITALL) if how is End.CLOSE else client.recv(2)
        assert found == b"one\ntw"
        if how is End.RESET:
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        if how is End.SILENCE:
            stream.heal()  # what is dead stays dead
            client.sendall(b"three\n")
            client.settimeout(0.3)
            with pytest.raises(TimeoutError):
                client.recv(1)
    assert b"".join(heard).startswith(b"one\ntwo\n")


def test_a_cut_toward_the_server_calls_first(stream: FaultProxy, heard: list[bytes]) -> None:
    called: list[int] = []
    stream.fault = Cut(after=4, toward=Toward.SERVER, then=lambda: called.append(len(heard)))
    assert said(stream, b"one\ntwo\n") in (b"", b"one\n")
    assert called
    assert b"".join(heard) == b"one\n"


def test_bytes_are_counted_from_when_the_fault_began(stream: FaultProxy) -> None:
    with connect(stream) as client:
        for _ in range(2):
            client.sendall(b"one\n")
            assert client.recv(4) == b"one\n"
            stream.fault = Cut(after=4)
        client.sendall(b"two\n")
        assert client.recv(4) == b"two\n"
        client.sendall(b"three\n")
        assert client.recv(6) == b""


def test_a_late_answer_comes(stream: FaultProxy) -> None:
    stream.fault = Delay(0.4)
    with connect(stream) as client:
        client.sendall(b"one\n")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(10)
        client.settimeout(10)
        assert client.recv(10) == b"one\n"


@pytest.mark.parametrize("path", ["/length", "/chunks", "/end"])
def test_exchanges_pass_unchanged_and_are_recorded(
    web: FaultProxy, asked: list[tuple[str, str, bytes]], path: str
) -> None:
    with httpx.Client(base_url=f"http://{web.host}") as client:
        assert client.get(path).content == b""
        assert client.post(f"{path}?a=b", content=b"one").status_code == 200
        assert client.post(path, content=iter([b"o", b"ne"])).content == b"one"
        assert client.head(path).status_code == 200
    assert asked == [
        ("GET", path, b""),
        ("POST", f"{path}?a=b", b"one"),
        ("POST", path, b"one"),
        ("HEAD", path, b""),
    ]
    assert web.requests() == [Request(method, path) for method, path, _ in asked]
    assert web.requests("POST", "?a") == [Request("POST", f"{path}?a=b")]


def test_some_requests_are_answered_in_the_servers_place(
    web: FaultProxy, asked: list[tuple[str, str, bytes]]
) -> None:
    web.on(Answer(503, {"Retry-After": "7"}, b"later"), "PUT", "/a", times=2)
    web.on(Answer(404), path="/b", times=None)
    with httpx.Client(base_url=f"http://{web.host}") as client:
        found = [
            client.request(method, path, content=b"body")
            for method, path in (
                ("PUT", "/a/1"),
                ("GET", "/a"),
                ("PUT", "/x?/a"),
                ("PUT", "/a"),
                ("HEAD", "/b"),
            )
        ]
        assert [answer.status_code for answer in found] == [503, 200, 503, 200, 404]
        assert (found[0].headers["retry-after"], found[0].content) == ("7", b"later")
        assert [client.get("/b").status_code for _ in range(3)] == [404] * 3
        web.heal()
        assert client.get("/b").status_code == 200
    assert [path for _, path, _ in asked] == ["/a", "/a", "/b"]
    assert len(web.requests()) == 9


def test_a_dropped_reply_was_handled(web: FaultProxy, asked: list[tuple[str, str, bytes]]) -> None:
    known: list[int] = []
    web.on(DropReply(then=lambda: known.append(len(asked))), "PUT")
    with httpx.Client(base_url=f"http://{web.host}") as client:
        with pytest.raises(httpx.RemoteProtocolError):
            client.put("/a", content=b"one")
        assert client.put("/a", content=b"two").content == b"two"
    assert [body for _, _, body in asked] == [b"one", b"two"]
    assert known == [1]


def test_something_happens_before_a_request_goes_on(
    web: FaultProxy, asked: list[tuple[str, str, bytes]]
) -> None:
    known: list[int] = []
    web.on(Before(lambda: known.append(len(asked))), path="/b")
    with httpx.Client(base_url=f"http://{web.host}") as client:
        assert [client.get(path).status_code for path in ("/a", "/b", "/b")] == [200] * 3
    assert known == [1]


@pytest.mark.parametrize("how", [End.CLOSE, End.RESET])
def test_one_exchanges_body_is_cut(web: FaultProxy, asked: list[tuple[str, str, bytes]], how: End) -> None:
    web.on(Cut(after=2, how=how), path="/down")
    web.on(Cut(after=2, toward=Toward.SERVER, how=how), path="/up")
    with httpx.Client(base_url=f"http://{web.host}") as client:
        with client.stream("POST", "/down", content=b"three") as answer:
            assert answer.status_code == 200
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                answer.read()
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            client.post("/up", content=b"three")
        assert client.post("/up", content=b"three").content == b"three"
    assert [body for _, path, body in asked if path == "/down"] == [b"three"]
    assert b"three" in [body for _, path, body in asked if path == "/up"]


def test_a_stalled_body_never_ends(web: FaultProxy) -> None:
    web.on(Cut(after=2, how=End.SILENCE))
    with (
        httpx.Client(base_url=f"http://{web.host}", timeout=0.3) as client,
        client.stream("POST", "/", content=b"three") as answer,
    ):
        pieces = answer.iter_raw()
        assert next(pieces) == b"th"
        with pytest.raises(httpx.ReadTimeout):
            next(pieces)


def test_who_waits_before_sending_a_body_is_told(
    web: FaultProxy, asked: list[tuple[str, str, bytes]]
) -> None:
    head = b"PUT /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    web.on(Answer(429), path="/1")
    with connect(web) as client:
        client.sendall(head % 1)
        assert b"".join(iter(lambda: client.recv(1000), b"")).startswith(b"HTTP/1.1 429 ")
    with connect(web) as client:
        client.sendall(head % 2)
        assert client.recv(1000).startswith(b"HTTP/1.1 100 ")
        client.sendall(b"one")
        found = b""
        while not found.endswith(b"one"):
            found += client.recv(1000)
    assert asked == [("PUT", "/2", b"one")]


def test_it_speaks_tls(asked: list[tuple[str, str, bytes]], tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    with (
        serving(ThreadingHTTPServer(("127.0.0.1", 0), type("Mine", (Http,), {"heard": asked}))) as server,
        FaultProxy(server, http=True, tls=certificate) as proxy,
    ):
        trusting = ssl.create_default_context(cafile=certificate.cert)
        assert httpx.post(f"https://{proxy.host}/a", content=b"one", verify=trusting).content == b"one"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"https://{proxy.host}/a")
        proxy.fault = RESET
        with pytest.raises(httpx.TransportError):
            httpx.get(f"https://{proxy.host}/a", verify=trusting)


def test_a_server_that_is_away_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        target = "{}:{}".format(*nobody.getsockname())
    with FaultProxy(target) as stream, FaultProxy(target, http=True) as web:
        with connect(stream) as client:
            assert client.recv(1) == b""
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"http://{web.host}/")


def test_nothing_stays_open(heard: list[bytes]) -> None:
    with serving(ThreadingTCPServer(("127.0.0.1", 0), type("Mine", (Echo,), {"heard": heard}))) as echo:
        before = descriptors(), threading.active_count()
        clients = []
        for fault in (None, HALF_OPEN, SWALLOW):
            with FaultProxy(echo) as proxy:
                proxy.fault = fault
                client = connect(proxy)
                client.sendall(b"one\n")
                clients.append(client)
        for client in clients:
            client.close()
        deadline = time.monotonic() + 10
        while (descriptors(), threading.active_count()) != before and time.monotonic() < deadline:
            time.sleep(0.02)
        assert (descriptors(), threading.active_count()) == before
