"""The web server as the daemon sees it: bound, started, stopped.

Belongs here: the address, the thread, uvicorn's settings. Does not belong here: what is served.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Sequence
from threading import Event, Thread
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from reconciler.errors import ReconcilerError
from reconciler.settings import Address
from reconciler.web import protocol, webhook
from reconciler.web.limits import LIMITS, Limits
from reconciler.web.sparing import Sparing

_log = logging.getLogger(__name__)

_START: Final = 15.0
"""Seconds that the thread may take to begin."""
_LOGGERS: Final = (protocol.__name__, webhook.__name__)
"""What anybody on the network can make say something."""
_HINTS: Final = {
    errno.EADDRINUSE: "end the other program that listens there, or set web.listen to a free port",
    errno.EACCES: "set web.listen to a port from 1024 on, or let this process have lower ones",
    errno.EADDRNOTAVAIL: "set web.listen to an address of this machine, or to 0.0.0.0 for all of them",
}


class CannotListen(ReconcilerError):
    """The address of the web server cannot be had."""

    reason = "CannotListen"


class WebServer:
    """Serves an application at an address, in a thread of its own that handles no signals. It is started once."""

    def __init__(self, app: ASGIApp, address: Address, limits: Limits = LIMITS) -> None:
        self._address = address
        self._started = Event()
        self._server = _Server(protocol.Config(app, limits), self._started)
        self._sparing = Sparing()
        self._port = 0
        self._thread: Thread | None = None

    @property
    def port(self) -> int:
        """The port that it listens at, also when any free one was asked for; 0 before the start."""
        return self._port

    def start(self) -> None:
        """Listen, and serve from now on. Raises CannotListen."""
        assert self._thread is None, "a server is started once"
        listener = _listen(self._address)
        self._port = listener.getsockname()[1]
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self._sparing)
        self._thread = Thread(target=self._serve, args=(listener,), name="web", daemon=True)
        self._thread.start()
        if not self._started.wait(_START):
            self.stop(0)
            raise CannotListen(f"the web server at {_shown(self._address)} did not begin to serve")
        _log.info(
            "serving health, metrics and webhooks at %s", _shown(Address(self._address.host, self.port))
        )

    def stop(self, seconds: float) -> None:
        """Take no more requests, and end those under way, which have so many seconds left. May be called again."""
        if self._thread is None:
            return
        self._server.end(seconds)
        # uvicorn looks five times a second at most whether it should end.
        self._thread.join(seconds + 5)
        if self._thread.is_alive():
            _log.error("the web server did not end within %g seconds", seconds + 5)
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._sparing)

    def _serve(self, listener: socket.socket) -> None:
        try:
            self._server.run(sockets=[listener])
        except Exception:
            _log.exception("the web server has ended")
        finally:
            listener.close()


class _Server(uvicorn.Server):
    """Tells when it serves, and leaves no connection behind."""

    def __init__(self, config: protocol.Config, started: Event) -> None:
        super().__init__(config)
        self._open = config.open
        self._announce = started

    def end(self, seconds: float) -> None:
        self.config.timeout_graceful_shutdown = seconds  # type: ignore[assignment]  # asyncio takes fractions
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self._open):
            connection.transport.abort()


def _listen(address: Address) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return _bound(*first_choice([(family, place) for family, *_, place in found]))
    except OSError as error:
        problem = error.strerror or type(error).__name__
        raise CannotListen(
            f"the web server cannot listen at {_shown(address)}: {problem}",
            hint=_HINTS.get(error.errno or 0, _HINTS[errno.EADDRNOTAVAIL]),
        ) from error


def first_choice(places: Sequence[tuple[int, object]]) -> tuple[int, object]:
    """Of a name's addresses, as pairs of family and address, the first of IPv4: what people mean by localhost."""
    return min(places, key=lambda place: place[0] != socket.AF_INET)


def _bound(family: int, place: object) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # [::] stands for all addresses of both kinds, whatever the machine's default is.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(place)  # type: ignore[arg-type]  # as getaddrinfo gave it
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def _shown(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
