"""The part of a kubelet's own server that the API server asks for logs.

Belongs here: HTTPS on loopback with a certificate made for the purpose, which the API server takes as it is told of no
authority. It asks nobody who they are. Does not belong here: which pods there are (`agent`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.servers.registry import self_signed

Find = Callable[[str, str, str], Path | None]
"""The log of a namespace's pod's container; None when there is no such pod here."""
_HONOURED: Final = {"tailLines", "limitBytes", "follow", "stream"}


class LogServer:
    """Answers `/containerLogs/NAMESPACE/POD/CONTAINER` from `start` to `close`."""

    def __init__(self, directory: Path, find: Find) -> None:
        made = self_signed(directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.cert, made.key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(find))
        self._server.daemon_threads = True
        # Shaken hands in each connection's own thread: a client that never does must not keep others waiting.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = Thread(target=self._server.serve_forever, name="kubelet-logs", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Serve, in a thread."""
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def select(content: bytes, query: dict[str, str]) -> bytes:
    """The lines and bytes asked for. Raises ValueError for what a kubelet would do and this one does not."""
    for name, value in query.items():
        ignored = name in _HONOURED and (name != "follow" or value == "false")
        if not ignored or (name == "stream" and value != "All"):
            raise ValueError(f"the test nodes do not honour {name}={value} for logs")
    if "tailLines" in query:
        count = int(query["tailLines"])
        content = b"".join(content.splitlines(keepends=True)[-count:] if count else [])
    return content[: int(query["limitBytes"])] if "limitBytes" in query else content


def _handler(find: Find) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            words = [unquote(word) for word in parts.path.split("/")[1:]]
            path = (
                find(words[1], words[2], words[3])
                if len(words) == 4 and words[0] == "containerLogs"
                else None
            )
            if path is None:
                self._answer(404, b"there is no such pod here")
            elif not path.exists():
                self._answer(400, f'container "{words[3]}" in pod "{words[2]}" is waiting to start'.encode())
            else:
                try:
                    self._answer(200, select(path.read_bytes(), dict(parse_qsl(parts.query))))
                except ValueError as error:
                    self._answer(400, str(error).encode())

        def _answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    return Handler
