"""What somebody who knows no secret can do to the server: row 25 of the fault matrix, and its neighbours."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, repeat
from pathlib import Path

import pytest

from reconciler.settings import WebhookType
from reconciler.web.limits import LIMITS, Limits
from reconciler.web.webhook import Hook
from tests.adapters.web.support import (
    PATIENCE,
    Daemon,
    Served,
    ended,
    eventually,
    everything,
    raw,
    secret_file,
    served,
)
from tests.unit.web.senders import BODY, github

SECRET = "s3cret-of-the-sender"
GIGABYTE = 1 << 30
HASTY = Limits(head=0.5, body=0.5, request=1.5, closing=0.5)
SLOW = Limits(head=600, body=600, request=600, keep_alive=600, connections=8)


@pytest.fixture
def hooks(tmp_path: Path) -> tuple[Hook, ...]:
    return (Hook("east", WebhookType.GITHUB, (secret_file(tmp_path, SECRET),)),)


def head(method: str = "POST", path: str = "/hook/github", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def pour(sock: socket.socket, pieces: Iterator[bytes]) -> int:
    """Send until the server has had enough; return how much it, and what lies between, has taken."""
    taken = 0
    try:
        for piece in pieces:
            sock.sendall(piece)
            taken += len(piece)
            if taken >= GIGABYTE:
                break
    except ConnectionError:
        pass
    return taken


def resident() -> int:
    """Bytes of memory that this process has; the server is a part of it."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def refused(web: Served, outcome: str) -> bool:
    return web.metric(f'reconciler_webhooks_total{{outcome="{outcome}",type="github"}}') == 1


def test_a_gigabyte_that_is_announced_is_refused_unread(hooks: tuple[Hook, ...]) -> None:
    with served(hooks) as web, raw(web.port) as sock:
        sock.sendall(head(Content_Length=str(GIGABYTE)))
        assert everything(sock).startswith(b"HTTP/1.1 413 ")
        assert refused(web, "too-large")


def test_who_asks_before_sending_too_much_is_told_not_to(hooks: tuple[Hook, ...]) -> None:
    with served(hooks) as web, raw(web.port) as sock:
        sock.sendall(head(Content_Length=str(LIMITS.body_size + 1), Expect="100-continue"))
        assert everything(sock).startswith(b"HTTP/1.1 413 ")


def test_a_gigabyte_that_just_comes_is_refused_after_a_megabyte(hooks: tuple[Hook, ...]) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with served(hooks) as web, raw(web.port) as sock:
        before = resident()
        sock.sendall(head(Transfer_Encoding="chunked"))
        taken = pour(sock, repeat(chunk))
        assert everything(sock).startswith(b"HTTP/1.1 413 ")
        assert refused(web, "too-large")
        assert web.daemon.looks == []
    assert taken < GIGABYTE // 8  # what fits into the buffers of two sockets, at most
    assert resident() - before < GIGABYTE // 8


def test_the_largest_body_that_is_allowed_is_accepted(hooks: tuple[Hook, ...]) -> None:
    body = b"x" * LIMITS.body_size
    with served(hooks) as web:
        assert web.ask("POST", "/hook/github", github(SECRET, body, "a"), body).status == 202
        body += b"x"
        assert web.ask("POST", "/hook/github", github(SECRET, body, "b"), body).status == 413


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
@pytest.mark.parametrize("size", [LIMITS.body_size + 1, 25_000_000])
def test_who_reads_only_after_sending_gets_to_see_the_refusal(
    connection: str, size: int, hooks: tuple[Hook, ...]
) -> None:
    """As most senders of webhooks do. A reset would tell them nothing."""
    with served(hooks) as web, raw(web.port) as sock:
        sock.sendall(head(Content_Length=str(size), Connection=connection) + b"x" * size)
        assert everything(sock).startswith(b"HTTP/1.1 413 ")


def test_a_page_without_a_body_does_not_read_one() -> None:
    with served() as web, raw(web.port) as sock:
        sock.sendall(head("GET", "/healthz", Transfer_Encoding="chunked"))
        taken = pour(sock, repeat(b"10000\r\n" + b"x" * 0x10000 + b"\r\n"))
        assert everything(sock).startswith(b"HTTP/1.1 200 ")
    assert taken < GIGABYTE // 8


def test_a_body_that_takes_too_long_is_refused(hooks: tuple[Hook, ...]) -> None:
    with served(hooks, HASTY) as web, raw(web.port) as sock:
        sock.sendall(head(Content_Length="1000", **_signed()))
        assert drip(sock, b"x")
        assert everything(sock).startswith(b"HTTP/1.1 408 ")
        assert refused(web, "slow")
        assert web.daemon.looks == []


def _signed() -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in github(SECRET, BODY, "id").items()}


def drip(sock: socket.socket, piece: bytes) -> bool:
    """Send a little now and then, until the server ends it; False when it never does."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            sock.sendall(piece)
        except ConnectionError:
            return True
        if ended(sock):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"", b""),
        (b"", b"\r\n"),
        (b"G", b""),
        (b"GET /healthz HTTP/1.1\r\nX-Slow: ", b"s"),
        (b"GET /healthz HTTP/1.1\r\n", b"X-Slow: 1\r\n"),
    ],
)
def test_headers_that_never_end_end(start: bytes, piece: bytes) -> None:
    with served(limits=HASTY) as web, raw(web.port) as sock:
        sock.sendall(start)
        assert drip(sock, piece)
        assert web.ask("GET", "/healthz").status == 200


def test_the_second_request_of_a_connection_has_no_more_time() -> None:
    with served(limits=HASTY) as web, raw(web.port) as sock:
        sock.sendall(head("GET", "/healthz"))
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert drip(sock, b"G")


def test_a_connection_that_does_nothing_more_is_ended() -> None:
    with served(limits=Limits(keep_alive=1, head=600)) as web, raw(web.port) as sock:
        sock.sendall(head("GET", "/healthz"))
        assert everything(sock).endswith(b"ok")


def test_several_requests_over_one_connection() -> None:
    with served() as web, raw(web.port) as sock:
        last = head("GET", "/healthz", Connection="close")
        sock.sendall(head("GET", "/healthz") * 20 + last)
        assert everything(sock).count(b"HTTP/1.1 200 OK") == 21


def test_who_does_not_take_the_answer_is_not_waited_for() -> None:
    daemon = Daemon(shown={"much": "x" * (32 << 20)})
    with served(limits=HASTY, daemon=daemon) as web, raw(web.port, receive_buffer=4096) as sock:
        sock.sendall(head("GET", "/status"))
        assert drip(sock, b"\n")  # a socket that is gone says so when something comes
        assert web.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    "pieces",
    [
        lambda: chain([b"GET / HTTP/1.1\r\n"], repeat(b"X-Flood: yes\r\n" * 100)),
        lambda: chain([b"GET / HTTP/1.1\r\nX-Flood: "], repeat(b"x" * 10_000)),
        lambda: repeat(b"x" * 10_000),
        lambda: repeat(b"\r\n" * 5_000),
        lambda: chain([b"GET /"], repeat(b"a" * 10_000)),
        lambda: chain([head(Transfer_Encoding="chunked")], repeat(b"0" * 10_000)),
        lambda: chain([head(Transfer_Encoding="chunked")], repeat(b"1;x=" + b"y" * 10_000)),
    ],
    ids=["headers", "header", "garbage", "newlines", "path", "chunk-size", "chunk-extension"],
)
def test_a_flood_is_cut_off(pieces: object, hooks: tuple[Hook, ...]) -> None:
    assert callable(pieces)
    with served(hooks, HASTY) as web, raw(web.port) as sock:
        before = resident()
        assert pour(sock, pieces()) < GIGABYTE
        assert resident() - before < GIGABYTE // 8
        assert web.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / GOPHER/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /hook/github HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /hook/github HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
        b"POST /hook/github HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST /hook/github HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00" * 100 + b"\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_quietly(
    request_: bytes, hooks: tuple[Hook, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with served(hooks, HASTY) as web, raw(web.port) as sock:
        sock.sendall(request_)
        answer = everything(sock)
        assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 501")
        assert b"server:" not in answer.lower()
        assert web.daemon.looks == []
    assert not [record for record in caplog.records if record.exc_info]


def test_an_offer_of_another_protocol_is_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    upgrade = head("GET", "/healthz", Connection="upgrade, close", Upgrade="websocket")
    with served() as web, raw(web.port) as sock:
        sock.sendall(upgrade)
        assert everything(sock).startswith(b"HTTP/1.1 200 ")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_who_goes_away_leaves_nothing(hooks: tuple[Hook, ...], caplog: pytest.LogCaptureFixture) -> None:
    with served(hooks) as web:
        for start in (b"", b"POST", head(Content_Length="1000") + b"x", head("GET", "/metrics")):
            for _ in range(5):
                with raw(web.port) as sock:
                    sock.sendall(start)
        assert eventually(
            lambda: web.metric('reconciler_webhooks_total{outcome="aborted",type="github"}') == 5
        )
        assert web.ask("GET", "/healthz").status == 200
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("start", [b"", b"GET / HT", head(Content_Length="1000") + b"x"])
def test_however_many_connections_are_held_a_probe_gets_in(start: bytes, hooks: tuple[Hook, ...]) -> None:
    with served(hooks, SLOW) as web, ExitStack() as stack:
        held = []
        for _ in range(10 * SLOW.connections):
            sock = stack.enter_context(raw(web.port))
            try:
                sock.sendall(start)
            except ConnectionError:
                continue
            held.append(sock)
            if len(held) % 20 == 0:
                assert web.ask("GET", "/healthz").status == 200
        assert eventually(lambda: sum(not ended(sock) for sock in held) <= SLOW.connections)
        assert web.ask("GET", "/healthz").status == 200


def test_ten_thousand_replays_are_one_look(hooks: tuple[Hook, ...]) -> None:
    request = head(Content_Length=str(len(BODY)), **_signed()) + BODY
    times, batch = 10_000, 100
    with served(hooks) as web, raw(web.port) as sock:
        answered = bytearray()
        for _ in range(times // batch):
            sock.sendall(request * batch)
            while answered.count(b"HTTP/1.1 202 ") < batch:
                piece = sock.recv(65536)
                assert piece, answered
                answered += piece
            answered.clear()
        assert web.daemon.looks == ["east"]
        assert web.metric('reconciler_webhooks_total{outcome="replayed",type="github"}') == times - 1


def test_nobody_can_fill_the_log(
    hooks: tuple[Hook, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hooks += (Hook("west", WebhookType.GITLAB, (tmp_path / "gone",)),)
    with served(hooks) as web:
        for _ in range(30):
            with raw(web.port) as sock:
                sock.sendall(b"nonsense\r\n\r\n")
                assert b" 400 " in everything(sock)
            assert web.ask("POST", "/hook/github", body=BODY).status == 401
            assert web.ask("POST", "/hook/gitlab", body=BODY).status == 503
    loud = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(loud) == 3
