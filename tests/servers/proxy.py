"""A TCP proxy on loopback that does to connections what networks and busy servers do: for tests.

Belongs here: connections, when faults strike them, and which requests came. Does not belong here: what faults there are
(`faults`), and what stands on either side.

Without `http` bytes are passed on as they are. With it every exchange is read, so that requests are known by method
and path, and faults can strike some of them; each then gets a connection of its own to the server.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tests.servers.faults import (
    Action,
    Answer,
    Before,
    Cut,
    Delay,
    DropReply,
    End,
    Fault,
    Gate,
    Refuse,
    Request,
    Rule,
    Toward,
)
from tests.servers.http_messages import Head, rest
from tests.servers.registry import Certificate

_PATIENCE: Final = 15.0
_TURNS: Final = 5
"""Turns of the loop until what was being accepted or aborted is closed: each takes up to two."""
_Result = TypeVar("_Result")


class _Over(Exception):
    """A fault ended the connection; `how` says how the client learns of it."""

    def __init__(self, how: End) -> None:
        super().__init__(how)
        self.how = how


@dataclass(eq=False, slots=True)
class _Link:
    """One client's connection: the gates of the fault that strikes everybody, and the directions that are dead."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    gates: dict[Toward, Gate] = field(default_factory=dict)
    silent: set[Toward] = field(default_factory=set)


class FaultProxy:
    """Listens on a free port and speaks to `target` (`host:port`). Faults are switched from any thread, at any time.

    `fault` strikes all connections from then on, and `on` the exchanges that it names. `tls` makes it speak TLS to
    clients, and `target_tls` to the server.
    """

    def __init__(
        self,
        target: str,
        *,
        http: bool = False,
        tls: Certificate | None = None,
        target_tls: ssl.SSLContext | None = None,
    ) -> None:
        self._target = target
        self._target_ssl = target_tls
        self._http = http
        self._ssl = _server_side(tls) if tls else None
        self._keeper = _bound(0)  # never listens: while nobody does, nobody else gets the port
        self.port: int = self._keeper.getsockname()[1]
        self._socket = _bound(self.port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._listens = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()  # guards everything below
        self._fault: Fault = None
        self._rules: list[Rule] = []
        self._requests: list[Request] = []
        self._defects: list[BaseException] = []

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()
        if self._defects and kind is None:
            raise RuntimeError("the proxy itself failed") from self._defects[0]

    # -- what tests say and see

    @property
    def host(self) -> str:
        """`127.0.0.1:PORT`."""
        return f"127.0.0.1:{self.port}"

    @property
    def fault(self) -> Fault:
        """What happens to every connection now."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        with self._lock:
            self._fault = fault
        self._call(self._refuse() if isinstance(fault, Refuse) else self._listen())

    def on(self, action: Action, method: str = "", path: str = "", times: int | None = 1) -> None:
        """Do this to the next `times` exchanges (None: to all) of a method whose path contains `path`; an earlier rule
        that matches comes first."""
        assert self._http, "only exchanges of HTTP are told apart"
        with self._lock:
            self._rules.append(Rule(action, method, path, times))

    def heal(self) -> None:
        """No more faults."""
        with self._lock:
            self._rules.clear()
        self.fault = None

    def requests(self, method: str = "", path: str = "") -> list[Request]:
        """The requests that came so far, those of one method and with `path` in their path, in order."""
        with self._lock:
            return [r for r in self._requests if method in ("", r.method) and path in r.path]

    # -- connections

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    async def _listen(self) -> None:
        if not self._listens:
            self._socket.listen()
            self._loop.add_reader(self._socket, self._accept)
            self._listens = True

    async def _refuse(self) -> None:
        """Listen no more, and keep the port: nobody else gets it, and nobody gets through."""
        if self._listens:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = _bound(self.port)
            self._listens = False
        for task in self._tasks:
            task.cancel()

    async def _shut(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._keeper.close()
        for _ in range(_TURNS):
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_default_executor()

    def _accept(self) -> None:
        """Take one connection. (A server of asyncio may lose one that comes while it is closed.)"""
        try:
            accepted, _ = self._socket.accept()
        except OSError:  # it is gone already
            return
        accepted.setblocking(False)
        task = self._loop.create_task(self._serve(accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: accepted.close())  # also of one that is cancelled before it begins

    async def _serve(self, accepted: socket.socket) -> None:
        how, writer = End.CLOSE, None
        try:
            with suppress(OSError, EOFError):  # one of the two sides is gone
                reader = asyncio.StreamReader()
                protocol = asyncio.StreamReaderProtocol(reader)
                transport, _ = await self._loop.connect_accepted_socket(
                    lambda: protocol, accepted, ssl=self._ssl
                )
                writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
                await self._pass_on(_Link(reader, writer))
        except _Over as over:
            how = over.how
        except asyncio.CancelledError:
            how = End.RESET
        except Exception as error:
            with self._lock:
                self._defects.append(error)
        if how is End.RESET:
            # Closing without lingering sends RST (socket(7)).
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif writer is not None:
            await _close(writer)
        if writer is not None:
            writer.transport.abort()

    async def _pass_on(self, link: _Link) -> None:
        with suppress(OSError, EOFError):
            await (self._exchanges(link) if self._http else self._stream(link))
        if link.silent:
            await asyncio.Event().wait()  # that nobody is there any more shows by nothing

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection to the server. Raises OSError."""
        host, _, port = self._target.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=self._target_ssl)
        try:
            yield reader, writer
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            await _close(writer)

    async def _send(
        self, link: _Link, sink: asyncio.StreamWriter, toward: Toward, data: bytes, gate: Gate | None = None
    ) -> None:
        """Send what the exchange's gate lets through, and that of the fault for all. Raises _Over."""
        if toward not in link.gates or link.gates[toward].fault is not self._fault:
            link.gates[toward] = Gate(self._fault, toward)
        cut = None
        for each in (gate, link.gates[toward]):
            if each is not None and cut is None:
                data, cut = await each.through(data)
        if toward in link.silent:
            return
        sink.write(data)
        await sink.drain()
        if cut is not None:
            await self._do(cut.then)
            if cut.how is not End.SILENCE:
                raise _Over(cut.how)
            link.silent.add(toward)

    async def _do(self, call: Callable[[], object] | None) -> None:
        """Call something that may take its time."""
        if call is not None:
            await self._loop.run_in_executor(None, call)

    # -- bytes as they are

    async def _stream(self, link: _Link) -> None:
        async with self._connected() as (reader, writer):
            await _both(
                self._pump(link, link.reader, writer, Toward.SERVER),
                self._pump(link, reader, link.writer, Toward.CLIENT),
            )

    async def _pump(
        self, link: _Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter, toward: Toward
    ) -> None:
        async for data in rest(source):
            await self._send(link, sink, toward, data)
        if toward not in link.silent and sink.can_write_eof():
            sink.write_eof()

    # -- exchanges

    async def _exchanges(self, link: _Link) -> None:
        while (head := await Head.read(link.reader)) is not None:
            action = self._action(Request(head.start[0], head.start[1]))
            if isinstance(action, Answer):
                last = await self._answer(link, head, action)
            else:
                if isinstance(action, Before):
                    await self._do(action.call)
                last = await self._relay(link, head, action)
            if last:
                return

    def _action(self, request: Request) -> Action | None:
        """What the rules say about a request, which is counted."""
        with self._lock:
            self._requests.append(request)
            rule = next((rule for rule in self._rules if rule.matches(request)), None)
            if rule is None:
                return None
            if rule.left is not None:
                rule.left -= 1
            return rule.action

    async def _answer(self, link: _Link, head: Head, answer: Answer) -> bool:
        """Answer, and say whether the connection is over: who waits to be asked for the body still has it."""
        last = "expect" in head.fields or head.is_last
        if not last:
            async for _ in head.body(link.reader):
                continue
        fields = {**answer.headers, "Content-Length": str(len(answer.body))}
        if last:
            fields["Connection"] = "close"
        lines = [f"HTTP/1.1 {answer.status} Fault", *(f"{name}: {value}" for name, value in fields.items())]
        body = b"" if head.start[0] == "HEAD" else answer.body
        text = "\r\n".join([*lines, "", ""]).encode("latin-1")
        await self._send(link, link.writer, Toward.CLIENT, text + body)
        return last

    async def _relay(self, link: _Link, head: Head, action: Action | None) -> bool:
        """Pass on one exchange, and say whether the connection is over."""
        async with self._connected() as (reader, writer):
            _, last = await _both(
                self._upload(link, head, writer, action), self._reply(link, head, reader, action)
            )
        return last

    async def _upload(
        self, link: _Link, head: Head, writer: asyncio.StreamWriter, action: Action | None
    ) -> None:
        await self._send(link, writer, Toward.SERVER, head.raw)
        gate = _gate(action, Toward.SERVER)
        async for piece in head.body(link.reader):
            await self._send(link, writer, Toward.SERVER, piece, gate)

    async def _reply(
        self, link: _Link, asked: Head, reader: asyncio.StreamReader, action: Action | None
    ) -> bool:
        dropped = isinstance(action, DropReply)
        while True:
            head = await Head.read(reader)
            if head is None:
                raise EOFError
            if not dropped:
                await self._send(link, link.writer, Toward.CLIENT, head.raw)
            if head.status >= 200:
                break
        gate = _gate(action, Toward.CLIENT)
        empty = asked.start[0] == "HEAD" or head.status in (204, 304)
        if not empty:
            async for piece in head.body(reader) if head.is_delimited else rest(reader):
                if not dropped:
                    await self._send(link, link.writer, Toward.CLIENT, piece, gate)
        if isinstance(action, DropReply):
            await self._do(action.then)
            raise _Over(End.CLOSE)
        return asked.is_last or head.is_last or not (empty or head.is_delimited)


def _gate(action: Action | None, toward: Toward) -> Gate | None:
    return Gate(action, toward) if isinstance(action, (Cut, Delay)) else None


async def _both(one: Coroutine[Any, Any, None], two: Coroutine[Any, Any, _Result]) -> tuple[None, _Result]:
    """Do two things at once; when one fails, the other is given up."""
    tasks = asyncio.ensure_future(one), asyncio.ensure_future(two)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(("127.0.0.1", port))
    return made


def _server_side(certificate: Certificate) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate.cert, certificate.key)
    return made


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection when all that was written is sent."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
