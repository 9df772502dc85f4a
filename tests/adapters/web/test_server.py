from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from reconciler.errors import ReconcilerError
from reconciler.settings import Address
from reconciler.web.limits import Limits
from reconciler.web.server import CannotListen, WebServer, first_choice
from tests.adapters.web.support import PATIENCE, Daemon, ask, ended, eventually, raw, served


async def hello(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


def started(address: Address, app: ASGIApp = hello) -> WebServer:
    server = WebServer(app, address)
    server.start()
    return server


def test_an_address_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = WebServer(hello, Address("127.0.0.1", port))
        with pytest.raises(ReconcilerError, match=rf"127\.0\.0\.1:{port}: Address already in use") as caught:
            server.start()
        assert "web.listen" in caught.value.hint
        server.stop(1)


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "no-such-host.invalid"])
def test_an_address_that_is_not_ours(host: str) -> None:
    with pytest.raises(CannotListen) as caught:
        WebServer(hello, Address(host, 8080)).start()
    assert (f"[{host}]:8080" if ":" in host else f"{host}:8080") in caught.value.message
    assert "address of this machine" in caught.value.hint


@pytest.mark.parametrize(
    ("host", "client"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"),  # noqa: S104
     ("::1", "::1"), ("::", "::1"), ("::", "127.0.0.1")],
)  # fmt: skip
def test_addresses_of_both_kinds(host: str, client: str) -> None:
    server = started(Address(host, 0))
    try:
        assert server.port > 0
        with socket.create_connection((client, server.port), timeout=PATIENCE) as sock:
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
    finally:
        server.stop(5)


def test_of_a_name_with_both_kinds_the_older_one_is_taken() -> None:
    both = [(socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.0.0.2")]
    assert first_choice(both) == (socket.AF_INET, "127.0.0.1")
    assert first_choice(both[:1]) == both[0]


def test_the_port_is_free_again_at_once() -> None:
    first = started(Address("127.0.0.1", 0))
    port = first.port
    with raw(port) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
        first.stop(5)  # whoever closes first keeps the port for a while, unless it asks for reuse
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    second = started(Address("127.0.0.1", port))
    assert ask(port, "GET", "/").body == b"hello"
    second.stop(5)
    second.stop(5)


def test_a_server_that_never_started_stops() -> None:
    server = WebServer(hello, Address("127.0.0.1", 0))
    assert server.port == 0
    server.stop(5)


class Thinking(Daemon):
    """Takes its time to say that it is well."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.let_go = Event(), Event()

    def live(self) -> str:
        self.asked.set()
        self.let_go.wait(PATIENCE)
        return ""


def reachable(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except ConnectionError:
        return False
    return True


def test_a_request_under_way_is_answered() -> None:
    daemon = Thinking()
    with ThreadPoolExecutor(2) as pool, served(daemon=daemon, limits=Limits(answer=PATIENCE)) as web:
        answer = pool.submit(web.ask, "GET", "/healthz")
        assert daemon.asked.wait(PATIENCE)
        stopping = pool.submit(web.server.stop, PATIENCE)
        assert eventually(lambda: not reachable(web.port))
        time.sleep(0.5)  # a server that did not wait would be gone by now
        daemon.let_go.set()
        assert answer.result(PATIENCE).status == 200
        stopping.result(PATIENCE)


def test_a_request_that_does_not_end_is_not_waited_for() -> None:
    daemon = Thinking()
    with served(daemon=daemon, limits=Limits(answer=600)) as web, raw(web.port) as sock, raw(web.port):
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert daemon.asked.wait(PATIENCE)
        web.server.stop(0.2)
        assert not [thread for thread in threading.enumerate() if thread.name == "web"]
        assert ended(sock)
        daemon.let_go.set()


def test_nothing_is_left_behind() -> None:
    def handles() -> set[str]:
        return {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.exists()}

    started(Address("127.0.0.1", 0)).stop(5)  # what is only ever opened once
    threads, before = threading.active_count(), len(handles())
    filters = [len(logging.getLogger(f"reconciler.web.{name}").filters) for name in ("protocol", "webhook")]
    for _ in range(10):
        server = started(Address("127.0.0.1", 0))
        with raw(server.port), raw(server.port) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(65536)
            server.stop(5)
    assert eventually(lambda: threading.active_count() == threads)
    assert len(handles()) == before
    assert filters == [
        len(logging.getLogger(f"reconciler.web.{name}").filters) for name in ("protocol", "webhook")
    ]


def test_signals_stay_whose_they_were() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    server = started(Address("127.0.0.1", 0))
    assert {number: signal.getsignal(number) for number in before} == before
    server.stop(5)
    assert {number: signal.getsignal(number) for number in before} == before


def test_nothing_is_printed_and_what_is_said_goes_through_logging(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError("a fault of our own")

    caplog.set_level(logging.DEBUG)
    server = started(Address("127.0.0.1", 0), broken)
    assert ask(server.port, "GET", "/").status == 500
    port = server.port
    server.stop(5)
    assert capfd.readouterr() == ("", "")
    assert "a fault of our own" in caplog.text
    assert f"127.0.0.1:{port}" in caplog.text
