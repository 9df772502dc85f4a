"""The Kubernetes API in raw JSON: the verbs.

Belongs here: what each verb sends, and which refusals are answers. Does not belong here: one exchange (`wire`), when it
is repeated (`pace`), watching (`watching`).

Only reads are repeated here. Of a write whose answer was lost nobody knows whether it had its effect: whoever wrote
looks, and the reconcile loop comes again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from reconciler.adapters.cluster.connect import Connection
from reconciler.adapters.cluster.kinds import NODES, PODS
from reconciler.adapters.cluster.pace import Pace, Retry
from reconciler.adapters.cluster.parts import mapping, sequence, version_of
from reconciler.adapters.cluster.problems import Expired, Problem, Refused, Transient, UnknownKind
from reconciler.adapters.cluster.wire import MERGE_PATCH, USUAL, Call, Limits, Stream, Wire, parsed, path_of
from reconciler.errors import ClusterUnavailable
from reconciler.ports import Clock, OnRequest
from reconciler.ports.cluster import Json, Kind
from reconciler.redaction import Redactor

FIELD_MANAGER: Final = "machine-os-reconciler"
PAGE: Final = 500
PAGES: Final = {NODES: 100}
"""Objects in one answer to a list, and of kinds that had better have fewer: a node tells of every image that it has,
of which nothing is kept."""
_LOG_LIMIT: Final = 1 << 20
_RESTARTS: Final = 3

Answer = TypeVar("Answer")
Other = TypeVar("Other")


@dataclass(frozen=True, slots=True)
class Page:
    """Some objects of a list, and the version of the whole that they are from."""

    items: tuple[Json, ...]
    version: str


class KubernetesApi:
    """Implements `ports.cluster.Api`. May be used from any thread."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        redactor: Redactor,
        *,
        on_request: OnRequest = lambda _: None,
        pace: Pace | None = None,
        limits: Limits = USUAL,
    ) -> None:
        self._wire = Wire(
            connection,
            pace or Pace(clock.sleep),
            redactor,
            now=clock.now,
            on_request=on_request,
            limits=limits,
        )
        self._retry = Retry(clock, random.Random())  # noqa: S311  (spreads waits, guards nothing)

    def get(self, kind: Kind, name: str, namespace: str = "") -> Json | None:
        """One object; None when there is none, or when the server does not know the kind."""
        call = Call(f"get {kind.plural}", "GET", path_of(kind, namespace, _named(name)))
        return self._answer(call, lambda: self._read(call), {404: None})

    def list(self, kind: Kind, namespace: str = "", labels: str = "") -> Iterator[Json]:
        """All objects that a label selector takes, page by page; none when the server does not know the kind."""
        given: set[str] = set()
        for _ in range(_RESTARTS):
            try:
                for page in self.pages(kind, namespace, labels):
                    for item in page.items:
                        uid = str(mapping(item, "metadata").get("uid") or id(item))
                        if uid not in given:
                            given.add(uid)
                            yield {"apiVersion": kind.api_version, "kind": kind.name, **item}
                return
            except Expired:
                continue
            except UnknownKind:
                return
        raise ClusterUnavailable(
            f"list {kind.plural}: the API server forgot the list while it was being read"
        )

    def pages(self, kind: Kind, namespace: str = "", labels: str = "") -> Iterator[Page]:
        """All objects in pages. Raises Expired when it has to begin anew and UnknownKind, which are no errors yet, and
        ClusterError, ClusterUnavailable."""
        query = [("limit", str(PAGES.get(kind, PAGE)))] + ([("labelSelector", labels)] if labels else [])
        proceed = ""
        while True:
            asked = (*query, *([("continue", proceed)] if proceed else []))
            body = self._page(Call(f"list {kind.plural}", "GET", path_of(kind, namespace), asked))
            yield Page(tuple(map(mapping, sequence(body.get("items")))), version_of(body))
            proceed = str(mapping(body, "metadata").get("continue") or "")
            if not proceed:
                return

    def create(self, kind: Kind, body: Json, namespace: str = "") -> Json | None:
        """Create an object; None when one of its name exists. When the answer is lost, nobody knows whether it was
        created: look for it by name."""
        query = (("fieldManager", FIELD_MANAGER),)
        call = Call(f"create {kind.plural}", "POST", path_of(kind, namespace), query, body)
        try:
            return parsed(self._wire.ask(call))
        except Refused as problem:
            # A quota that somebody else changed meanwhile is a 409 as well, and no object.
            if problem.status == 409 and problem.reason == "AlreadyExists":
                return None
            raise self._wire.failure(call, problem) from problem
        except Problem as problem:
            raise self._wire.failure(call, problem) from problem

    def patch(
        self, kind: Kind, name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> Json | None:
        """Change an object by a JSON merge patch; None when it is gone. A `resourceVersion` or a `uid` in its
        metadata makes it conditional. Raises Conflict."""
        place = path_of(kind, namespace, _named(name), subresource)
        what = f"{kind.plural}/{subresource}" if subresource else kind.plural
        query = (("fieldManager", FIELD_MANAGER),)
        call = Call(f"patch {what}", "PATCH", place, query, body, MERGE_PATCH)
        return self._answer(call, lambda: parsed(self._wire.ask(call)), {404: None})

    def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str = "") -> None:
        """Delete an object, and in the background what it owns; with `uid` only that one. None there is fine."""
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
        }
        if uid:
            body["preconditions"] = {"uid": uid}
        call = Call(f"delete {kind.plural}", "DELETE", path_of(kind, namespace, _named(name)), (), body)
        # With a uid a conflict says that another one has the name now.
        fine = {404: b"", 409: b""} if uid else {404: b""}
        self._answer(call, lambda: self._wire.ask(call), fine)

    def log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """The last lines that a pod's container wrote; '' when there are none any more, or none yet."""
        while True:
            query = (
                ("container", container),
                ("tailLines", str(lines)),
                ("limitBytes", str(_LOG_LIMIT)),
            )
            call = Call("get pods/log", "GET", path_of(PODS, namespace, _named(pod), "log"), query)
            body = self._tail(call)
            # The limit cuts off the end, which is what matters: ask for less that fits.
            if len(body) < _LOG_LIMIT or lines <= 1:
                return body.decode("utf-8", "replace")
            lines //= 8 if lines >= 8 else lines

    def watch(self, kind: Kind, version: str, seconds: float, read: float) -> AbstractContextManager[Stream]:
        """The events since a version, for `seconds`; nothing for `read` seconds ends it. Raises Problem."""
        query = (
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", str(max(1, int(seconds)))),
        )
        return self._wire.stream(Call(f"watch {kind.plural}", "GET", path_of(kind), query), read=read)

    def _tail(self, call: Call) -> bytes:
        return self._answer(call, lambda: self._retry.run(lambda: self._wire.ask(call)), {400: b"", 404: b""})

    def _page(self, call: Call) -> Json:
        fine = {404: UnknownKind("does not know this kind"), 410: Expired("forgot this list")}
        body = self._answer(call, lambda: self._read(call), fine)
        if isinstance(body, Problem):
            raise body
        return body

    def _read(self, call: Call) -> Json:
        return self._retry.run(lambda: parsed(self._wire.ask(call)))

    def _answer(self, call: Call, ask: Callable[[], Answer], fine: Mapping[int, Other]) -> Answer | Other:
        """What a call answers; a refusal with one of the statuses in `fine` is an answer as well."""
        try:
            return ask()
        except Refused as problem:
            if problem.status in fine:
                return fine[problem.status]
            raise self._wire.failure(call, problem) from problem
        except Transient as problem:
            raise self._wire.failure(call, problem) from problem


def _named(name: str) -> str:
    """A name that is one; without it a request would be for the whole collection."""
    if not name:
        raise ValueError("an object without a name was asked for")
    return name
