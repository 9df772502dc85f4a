"""A forge on loopback that speaks the REST APIs of GitHub, GitLab, and Gitea or Forgejo, as far as previews need them.

One state behind three ways to say it. Requests are checked against `forge_schemas`, and answers too; a fault there is
kept in `faults`, and whoever runs the forge asserts that there is none. It is strict where forges are: tokens, sizes,
pages, states that GitLab does not let follow each other.
Belongs here: the server and its state. Does not belong here: assertions.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import RLock, Thread
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from jsonschema import Draft202012Validator, ValidationError

from tests.servers import forge_schemas
from tests.servers.forge_actions import User, Words
from tests.servers.forge_words import WORDS

REPOSITORY: Final = "acme/machine-os"
AUTHOR: Final = User(8, "Mallory")
BASES: Final = {"github": "", "gitlab": "/api/v4", "gitea": "/api/v1"}


@dataclass(frozen=True, slots=True)
class Said:
    """A comment as it stands."""

    id: int
    user: User
    body: str
    edits: int = 0
    system: bool = False
    pull: int = 7


@dataclass(frozen=True, slots=True)
class Set:
    """A status as it was set. GitLab keeps them by `ref` too."""

    id: int
    user: User
    commit: str
    context: str
    state: str
    description: str
    ref: str = ""


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request."""

    number: int
    head: str
    title: str = "Change a pool"
    target: str = "main"
    open: bool = True
    fork: bool = False
    user: User = AUTHOR
    labels: tuple[str, ...] = ()
    merged: str = ""
    branch: str = "change"
    body: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Any

    @property
    def line(self) -> str:
        """Method and path, without where the API is and in which repository."""
        path = unquote(self.path)
        for base in ("/api/v4", "/api/v1"):
            path = path.removeprefix(base)
        for at in ("/repos/", "/projects/"):
            path = path.removeprefix(at + REPOSITORY)
        return f"{self.method} {path}"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `hang_up` closes the connection instead of saying it."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_up: bool = False


@dataclass(slots=True)
class Rule:
    """An answer in place of the forge's own for requests that match, so many times. With `after` it does first what it
    was asked for."""

    reply: Reply
    match: Callable[[Asked], bool]
    left: int = 1
    after: bool = False


class TestForge:
    """State that tests arrange and look at; `url` is the API's, `token` is `user`'s."""

    __test__ = False  # a server, not a test

    def __init__(self, kind: str, host: str) -> None:
        self.kind = kind
        self.words: Words = WORDS[kind]
        self.host = f"http://{host}"
        self.url = self.host + BASES[kind]
        self.user = User(7, "reconciler-bot")
        self.other = User(8, "Mallory")
        self.token = "canary-token-of-the-forge"
        self.is_app = False
        self.lock = RLock()
        self.pulls: dict[int, PullRequest] = {}
        self.comments: list[Said] = []
        self.set: list[Set] = []
        self.asked: list[Asked] = []
        self.exchanges: list[tuple[Asked, Reply]] = []
        self.rules: list[Rule] = []
        self.faults: list[str] = []
        self.tip_of: Callable[[str], str] = lambda _: "3" * 40
        """The commit at a branch's tip, '' for no such branch: a test that has a repository says so."""
        self._next_id = 100

    # -- arranging

    def say(self, body: str, user: User | None = None, *, system: bool = False, pull: int = 7) -> Said:
        """Put a comment there; ours unless a user is named."""
        said = Said(self.new_id(), user or self.user, body, system=system, pull=pull)
        self.comments.append(said)
        return said

    def answer(self, reply: Reply, line: str = "", *, times: int = 1, after: bool = False) -> None:
        """Answer the next requests whose line has `line` in it so."""
        self.rules.append(Rule(reply, lambda asked: line in asked.line, times, after))

    # -- looking

    def lines(self) -> list[str]:
        """What was asked, without where."""
        return [asked.line for asked in self.asked]

    def writes(self) -> list[str]:
        """What was asked that changes something."""
        return [line for line in self.lines() if not line.startswith("GET") and "graphql" not in line]

    def standing(self) -> dict[str, str]:
        """The state of each context."""
        return {one.context: one.state for one in self.set}

    # -- serving

    def new_id(self) -> int:
        """A number nobody else has."""
        self._next_id += 1
        return self._next_id

    def serve(self, asked: Asked) -> Reply:
        """The answer to one request."""
        with self.lock:
            self.asked.append(asked)
            rule = next((r for r in self.rules if r.left and r.match(asked)), None)
            if rule is not None:
                rule.left -= 1
                if rule.after:
                    self._own(asked)
                return rule.reply
            reply = self._own(asked)
            self.exchanges.append((asked, reply))
            return reply

    def _own(self, asked: Asked) -> Reply:
        expected = self.words.authorization(self.token)
        if asked.headers.get("authorization") != expected:
            return Reply(401, {"message": "Bad credentials"})
        for method, pattern, action in self.words.routes:
            found = re.fullmatch(BASES[self.kind] + pattern, asked.path)
            if found and method == asked.method:
                self._validate(f"request {method} {pattern}", action.request, asked.body)
                reply = action.act(self, asked, found.groupdict())
                if reply.status < 300:
                    self._validate(f"answer {method} {pattern}", action.answer, reply.body)
                return reply
        self.faults.append(f"no such operation: {asked.line}")
        return Reply(404, {"message": "Not Found"})

    def _validate(self, what: str, name: str, value: Any) -> None:
        try:
            if name:
                Draft202012Validator(forge_schemas.SCHEMAS[name]).validate(value)
            elif value is not None:
                self.faults.append(f"{what}: there must be no body")
        except ValidationError as error:
            self.faults.append(f"{what}: {error.message}")

    # -- what all three do

    def page(self, asked: Asked, entries: list[Any], size_name: str, default: int, most: int) -> Reply:
        """One page of a list, with links to the others."""
        query = {name: values[-1] for name, values in parse_qs(asked.query).items()}
        size = min(int(query.get(size_name, default)), most)
        number = int(query.get("page", 1))
        part = entries[(number - 1) * size : number * size]
        links = []
        if number * size < len(entries):
            target = urlencode({**query, "page": str(number + 1)})
            links.append(f'<{self.host}{asked.path}?{target}>; rel="next"')
        last = max(1, -(-len(entries) // size))
        links.append(f'<{self.host}{asked.path}?{urlencode({**query, "page": str(last)})}>; rel="last"')
        return Reply(200, part, {"Link": ", ".join(links)})

    def edited(self, number: int, body: str) -> Said | None:
        """Replace a comment's text, if it is there."""
        for index, said in enumerate(self.comments):
            if said.id == number:
                self.comments[index] = replace(said, body=body, edits=said.edits + 1)
                return self.comments[index]
        return None


@contextmanager
def running(kind: str) -> Iterator[TestForge]:
    """Run a forge of a kind on loopback until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        forge = TestForge(kind, f"127.0.0.1:{server.server_address[1]}")
        server.forge = forge  # type: ignore[attr-defined]
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield forge
        finally:
            server.shutdown()
            thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10
    disable_nagle_algorithm = True  # head and body are two writes

    def handle_one_request(self) -> None:
        # Clients under test hang up when they have seen enough.
        with suppress(ConnectionError):
            super().handle_one_request()
            return
        self.close_connection = True

    def _serve(self) -> None:
        forge: TestForge = self.server.forge  # type: ignore[attr-defined]
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = forge.serve(
            Asked(self.command, parts.path, parts.query, headers, json.loads(raw) if raw else None)
        )
        if reply.hang_up:
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = _serve

    def log_message(self, *_: object) -> None:
        """Say nothing: what was asked is kept."""
