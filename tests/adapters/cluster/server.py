"""A small Kubernetes API server in memory, over real HTTP: what a real one cannot be made to do on demand.

Belongs here: objects by path, versions, pages, watches, and when it forgets, repeats or keeps silent. Does not belong
here: broken connections, which are the fault proxy's (tests.servers), and whether Kubernetes really behaves like
this, which the tests with the marker `cluster` see.
"""

from __future__ import annotations

import json
import select
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
NODES = "/api/v1/nodes"
POOLS = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools"
CONFIG_MAPS = "/api/v1/namespaces/builds/configmaps"


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    port: int


@dataclass(eq=False)
class Watcher:
    """Somebody who follows a collection; None in the queue ends it."""

    collection: str
    lines: SimpleQueue[bytes | None] = field(default_factory=SimpleQueue)

    def send(self, kind: str, found: Mapping[str, Any]) -> None:
        """One event."""
        self.lines.put(json.dumps({"type": kind, "object": found}).encode() + b"\n")


class ApiServer:
    """Listens while entered. Everything may be called from tests while it runs."""

    def __init__(self, *collections: str) -> None:
        self._lock = threading.RLock()
        self.objects: dict[str, dict[str, Object]] = {
            c: {} for c in collections or (NODES, POOLS, CONFIG_MAPS)
        }
        self.asked: list[Asked] = []
        self.watchers: list[Watcher] = []
        self.answers: list[tuple[str, int, Object, dict[str, str]]] = []
        self.texts: dict[str, bytes] = {}
        self.silent = False
        self.expire_pages = 0
        self.forgotten = 0
        self.version = 100
        handler = type("Bound", (_Handler,), {"api": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @contextmanager
    def running(self) -> Iterator[ApiServer]:
        """Listen."""
        self._thread.start()
        try:
            yield self
        finally:
            self.end_watches()
            self._http.shutdown()
            self._http.server_close()
            self._thread.join(10)

    @property
    def host(self) -> str:
        """`127.0.0.1:PORT`."""
        return f"127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        """For kubeconfigs."""
        return f"http://{self.host}"

    # -- what tests do and see

    def put(self, collection: str, name: str, **parts: Any) -> Object:
        """Create or replace an object; `parts` besides its metadata, whose labels and annotations may be given."""
        with self._lock:
            old = self.objects[collection].get(name)
            self.version += 1
            about = {
                "name": name,
                "uid": old["metadata"]["uid"] if old else f"uid-{self.version}",
                "resourceVersion": str(self.version),
                **parts.pop("metadata", {}),
            }
            found = {"metadata": about, **parts}
            self.objects[collection][name] = found
            self._tell(collection, "MODIFIED" if old else "ADDED", found)
            return found

    def remove(self, collection: str, name: str) -> None:
        """Delete an object."""
        with self._lock:
            self.version += 1
            found = self.objects[collection].pop(name)
            found["metadata"]["resourceVersion"] = str(self.version)
            self._tell(collection, "DELETED", found)

    def answer(self, place: str, status: int, body: Object | None = None, **headers: str) -> None:
        """Answer the next request for `METHOD path` with this instead."""
        self.answers.append((place, status, body or {}, headers))

    def requests(self, method: str, path: str, **query: str) -> list[Asked]:
        """The requests of one method for one path that came so far, with these in their query."""
        with self._lock:
            return [
                a for a in self.asked
                if (a.method, a.path) == (method, path) and all(a.query.get(k) == v for k, v in query.items())
            ]  # fmt: skip

    def emit(self, collection: str, kind: str, found: Mapping[str, Any]) -> None:
        """Send an event to whoever watches, whatever is true."""
        with self._lock:
            for watcher in self.watchers:
                if watcher.collection == collection:
                    watcher.send(kind, found)

    def end_watches(self, collection: str = "") -> None:
        """End watches in order, as after their time."""
        with self._lock:
            for watcher in self.watchers:
                if collection in ("", watcher.collection):
                    watcher.lines.put(None)

    def watching(self, collection: str) -> int:
        """How many watches of a collection there are."""
        with self._lock:
            return sum(watcher.collection == collection for watcher in self.watchers)

    def _tell(self, collection: str, kind: str, found: Object) -> None:
        if not self.silent:
            self.emit(collection, kind, json.loads(json.dumps(found)))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    api: ClassVar[ApiServer]

    def log_message(self, *_: object) -> None:
        """Tests look at `asked`."""

    def _serve(self) -> None:
        split = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(split.query).items()}
        size = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(size)) if size else None
        asked = Asked(
            self.command,
            split.path,
            query,
            {k.lower(): v for k, v in self.headers.items()},
            body,
            self.client_address[1],
        )
        with self.api._lock:
            self.api.asked.append(asked)
            scripted = next((a for a in self.api.answers if a[0] == f"{asked.method} {asked.path}"), None)
            if scripted:
                self.api.answers.remove(scripted)
        if scripted:
            self._reply(scripted[1], scripted[2], scripted[3])
        elif asked.path in self.api.texts:
            self._text(self.api.texts[asked.path])
        elif query.get("watch"):
            self._watch(asked)
        else:
            with self.api._lock:
                status, answer = self._handle(asked)
            self._reply(status, answer)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve

    def _handle(self, asked: Asked) -> tuple[int, Object]:
        collection = self.api.objects.get(asked.path)
        if collection is not None:
            return self._list(asked, collection) if asked.method == "GET" else self._create(asked, collection)
        path, _, name = asked.path.rpartition("/")
        collection = self.api.objects.get(path)
        if collection is None or name not in collection:
            return _status(404, "NotFound", f"{asked.path} not found")
        if asked.method == "PATCH":
            return self._patch(asked, path, collection[name])
        if asked.method == "DELETE":
            wanted = (asked.body or {}).get("preconditions", {}).get("uid", "")
            if wanted not in ("", collection[name]["metadata"]["uid"]):
                return _status(409, "Conflict", "the UID in the precondition is another one")
            self.api.remove(path, name)
            return 200, {"kind": "Status", "status": "Success"}
        return 200, collection[name]

    def _list(self, asked: Asked, collection: dict[str, Object]) -> tuple[int, Object]:
        start = int(asked.query.get("continue", "0"))
        if start and self.api.expire_pages:
            self.api.expire_pages -= 1
            return _status(410, "Expired", "The provided continue parameter is too old")
        end = start + int(asked.query.get("limit", "1000000"))
        names = sorted(collection)
        about = {"resourceVersion": str(self.api.version)}
        if end < len(names):
            about["continue"] = str(end)
        return 200, {"metadata": about, "items": [collection[name] for name in names[start:end]]}

    def _create(self, asked: Asked, collection: dict[str, Object]) -> tuple[int, Object]:
        name = asked.body["metadata"]["name"]
        if name in collection:
            return _status(409, "AlreadyExists", f"{name} already exists")
        return 201, self.api.put(asked.path, name, **json.loads(json.dumps(asked.body)))

    def _patch(self, asked: Asked, path: str, old: Object) -> tuple[int, Object]:
        wanted = asked.body.get("metadata", {}).get("resourceVersion")
        if wanted not in (None, old["metadata"]["resourceVersion"]):
            return _status(409, "Conflict", "the object has been modified")
        made = _merged(old, asked.body)
        made["metadata"].pop("resourceVersion")
        return 200, self.api.put(path, made["metadata"]["name"], **made)

    def _watch(self, asked: Asked) -> None:
        watcher = Watcher(asked.path)
        with self.api._lock:
            since = int(asked.query.get("resourceVersion", "0"))
            if since < self.api.forgotten:
                watcher.send("ERROR", _status(410, "Expired", "too old resource version")[1])
                watcher.lines.put(None)
            for found in self.api.objects[asked.path].values() if not self.api.silent else ():
                if int(found["metadata"]["resourceVersion"]) > since:
                    watcher.send("MODIFIED", found)
            self.api.watchers.append(watcher)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            self._follow(watcher, float(asked.query.get("timeoutSeconds", "3600")))
        with self.api._lock:
            self.api.watchers.remove(watcher)

    def _follow(self, watcher: Watcher, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            line = None
            while time.monotonic() < until:
                with suppress(Empty):
                    line = watcher.lines.get(timeout=0.1)
                    break
                if select.select([self.connection], [], [], 0)[0]:
                    return  # nobody says anything more here: the client is gone
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line) if line else b"0\r\n\r\n")
            self.wfile.flush()
            if line is None:
                return

    def _reply(self, status: int, body: Object, headers: Mapping[str, str] | None = None) -> None:
        self._text(json.dumps(body).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    def _text(self, content: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        with suppress(OSError):
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)


def _status(code: int, reason: str, message: str) -> tuple[int, Object]:
    return code, {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


def _merged(old: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    made = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = _merged(made.get(key), value)
    return made
