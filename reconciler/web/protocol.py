"""One connection: uvicorn's HTTP/1.1, with an end to whatever a peer can draw out.

Belongs here: times and counts of connections. Does not belong here: requests and what they mean.

uvicorn itself ends only idle connections, and stops that clock with the first byte that comes. Here something is timed
from the first moment to the last: waiting for a request's headers, a request until its answer is written, and the end.
One byte now and then does not wind the clock up again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from reconciler.web.limits import Limits

_log = logging.getLogger(__name__)


class Config(uvicorn.Config):
    """uvicorn's configuration, with our limits, and the connections in the order in which they came."""

    def __init__(self, app: Any, limits: Limits) -> None:
        super().__init__(
            app,
            loop="asyncio",
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=limits.keep_alive,
            # Not limit_concurrency: it would have a probe answered 503 because of what others do.
            backlog=limits.connections,
            h11_max_incomplete_event_size=limits.head_size,
        )
        self.limits = limits
        self.open: dict[Connection, None] = {}


class Exit(asyncio.Transport):
    """A transport that is closed as RFC 9112 (9.6) asks: first our side only, so that an answer gets through to a peer
    that is still sending. To close a socket with something unread in it would reset the connection, answer and all."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self.leaving = False

    def close(self) -> None:
        """Say no more, once what was said is written. The peer closes, or is made to."""
        if self.is_closing():
            return
        self.leaving = True
        self._transport.resume_reading()
        try:
            self._transport.write_eof()
        except OSError:  # the peer is gone already
            self._transport.abort()

    def finish(self) -> None:
        """Close both sides, once what was said is written: when nothing can be unread."""
        self._transport.close()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nothing is added to a last word."""
        if not self.leaving:
            self._transport.write(data)

    def is_closing(self) -> bool:
        """From the first of it on."""
        return self.leaving or self._transport.is_closing()

    def abort(self) -> None:
        """End it here and now."""
        self._transport.abort()

    def pause_reading(self) -> None:
        """As the transport."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """As the transport."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the transport."""
        return self._transport.get_extra_info(name, default)


class Connection(H11Protocol):
    """A connection that ends itself when its peer is slow, and makes room when there are too many."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = _log
        self._limits = config.limits
        self._open = config.open
        self._doing: tuple[bool, object, bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unwanted = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Who has been here longest makes room: our own work is quick, so that is somebody slow. A probe of the
        kubelet's then gets in however many others hold connections open."""
        self.transport: Exit
        super().connection_made(Exit(transport))
        self._open[self] = None
        if len(self._open) > self._limits.connections:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, whoever made it."""
        self._open.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request, or of one that has been answered."""
        if self.transport.leaving:
            self._unwanted += len(data)
            if self._unwanted > self._limits.rest_size:
                self.transport.abort()
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """An answer is written. Nobody reads the rest of a body that was not wanted, so that is the end."""
        if self.cycle.more_body:
            self.transport.close()
        super().on_response_complete()
        self._watch()

    def timeout_keep_alive_handler(self) -> None:
        """Nothing more has come."""
        self.transport.finish()
        self._watch()

    def shutdown(self) -> None:
        """The server ends: after the request under way, or now."""
        if self._busy:
            super().shutdown()
        else:
            self.transport.finish()
        self._watch()

    def _get_upgrade(self) -> bytes | None:
        """No other protocol is spoken here, and an offer may be ignored (RFC 9110, 7.8)."""
        return None

    @property
    def _busy(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete  # there is none before the first

    def _watch(self) -> None:
        """Give what happens now its time, counted from when it began."""
        doing = (self.transport.is_closing(), self.cycle, self._busy)
        if doing == self._doing:
            return
        self._doing = doing
        if self._timer is not None:
            self._timer.cancel()
        closing, _, busy = doing
        seconds = self._limits.closing if closing else self._limits.request if busy else self._limits.head
        self._timer = self.loop.call_later(seconds, self.transport.abort)
