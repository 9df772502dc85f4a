"""One exchange with the API server: a call goes out with the right credentials, and its answer comes back as bytes.

Belongs here: limits of time and size, sorting answers into good, later and no, and who is told of each call.
Does not belong here: trying again (`pace`), where credentials come from (`connect`), or what objects are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from reconciler.adapters.cluster.connect import Connection, Session
from reconciler.adapters.cluster.pace import Pace, retry_after
from reconciler.adapters.cluster.problems import Problem, Refused, Transient, answered, unreachable
from reconciler.errors import ClusterError, ClusterUnavailable, Conflict
from reconciler.ports import OnRequest, Request
from reconciler.ports.cluster import Json, Kind
from reconciler.redaction import Redactor

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
_MOST_LINE: Final = 16 << 20
"""Bytes of one event; etcd holds no object of more than a few MiB."""
_PIECE: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Limits:
    """In seconds: `connect` until somebody answers the phone, `read` without a byte, `whole` for an answer altogether.
    In bytes: `most` of an answer."""

    connect: float = 3.0
    read: float = 15.0
    whole: float = 60.0
    most: int = 256 << 20


USUAL: Final = Limits()


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `operation` is its name for people and metrics: a verb and a plural."""

    operation: str
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Json | None = None
    content_type: str = JSON


def path_of(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Where objects of a kind are; one object, or part of one, when it is named."""
    parts = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
    if kind.namespaced and namespace:
        parts += ["namespaces", namespace]
    parts += [part for part in (kind.plural, name, subresource) if part]
    return "/" + "/".join(quote(part, safe="") for part in parts)


class Wire:
    """Makes calls, each tried once. `now` is the time of day."""

    def __init__(
        self,
        connection: Connection,
        pace: Pace,
        redactor: Redactor,
        *,
        now: Callable[[], float],
        on_request: OnRequest,
        limits: Limits,
    ) -> None:
        self._connection = connection
        self._pace = pace
        self._redactor = redactor
        self._now = now
        self._on_request = on_request
        self._limits = limits

    def ask(self, call: Call) -> bytes:
        """Make a call and read the whole answer. Raises Problem, and ClusterError when there are no credentials to ask
        with."""
        with self._opened(call, self._limits.read) as response:
            return _whole(response, self._limits)

    @contextmanager
    def stream(self, call: Call, *, read: float) -> Iterator[Stream]:
        """Make a call whose answer goes on until nothing comes for `read` seconds. Raises as `ask`."""
        with self._opened(call, read) as response:
            yield Stream(response)

    def failure(self, call: Call, problem: Problem) -> ClusterError:
        """The error that everybody else may see."""
        message = self._redactor.clean(
            f"{call.operation}: the API server {self._connection.server} {problem.message}"
        )
        hint = self._redactor.clean(problem.hint)
        if isinstance(problem, Refused):
            kind = Conflict if problem.is_conflict else ClusterError
            return kind(message, hint=hint)
        return ClusterUnavailable(message, hint=hint)

    @contextmanager
    def _opened(self, call: Call, read: float) -> Iterator[Any]:
        response = self._sent(call, read)
        try:
            if not 200 <= response.status < 300:
                raise self._problem(response)
            yield response
        except (HTTPError, OSError) as error:
            raise unreachable(error) from error
        finally:
            # Closing what was read to its end leaves the connection to be used again.
            response.close()

    def _sent(self, call: Call, read: float) -> Any:
        """Send; once more with new credentials when the old ones are not accepted any longer."""
        session = self._connection.session()
        try:
            response = self._exchange(session, call, read)
        except Transient as problem:
            if problem.untrusted:
                self._connection.renew(session)
            raise
        if response.status == 401 and self._connection.renew(session):
            response.close()
            response = self._exchange(self._connection.session(), call, read)
        return response

    def _exchange(self, session: Session, call: Call, read: float) -> Any:
        self._pace.wait()
        url = session.host + call.path + (f"?{urlencode(call.query)}" if call.query else "")
        headers = {**session.headers, "Accept": JSON + ", */*;q=0.1"}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        outcome = "unavailable"
        try:
            response = session.rest.request(
                call.method,
                url,
                headers=headers,
                body=call.body,
                _request_timeout=(self._limits.connect, read),
            ).response
            outcome = str(response.status)
        except (HTTPError, ApiException, OSError) as error:
            raise unreachable(error) from error
        finally:
            self._on_request(Request("kubernetes", call.operation, outcome))
        return response

    def _problem(self, response: Any) -> Problem:
        body = b""
        with suppress(HTTPError, OSError, Problem):
            body = _whole(response, self._limits)
        wait = retry_after(response.headers.get("Retry-After", ""), self._now())
        return answered(response.status, response.reason or "", body, wait)


class Stream:
    """The lines of an answer as they come. `end` may be called from another thread."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def __iter__(self) -> Iterator[list[bytes]]:
        """All lines that are there, again and again, until the answer ends. Raises Problem."""
        begun = b""
        while piece := self._response.read1(_PIECE):
            *lines, begun = (begun + piece).split(b"\n")
            if len(begun) > _MOST_LINE:
                raise Transient("sent a line that does not end")
            if lines:
                yield [line for line in lines if line.strip()]

    def end(self) -> None:
        """No more is wanted: whoever reads gets to the end."""
        with suppress(ValueError, RuntimeError, OSError):  # it has ended already
            self._response.shutdown()


def parsed(body: bytes) -> Json:
    """An answer's JSON object. Raises Transient when it is none: somebody in between cut it off or answered."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Transient("sent something that is not JSON") from error
    if not isinstance(found, dict):
        raise Transient("sent something that is no JSON object")
    return found


def _whole(response: Any, limits: Limits) -> bytes:
    until = time.monotonic() + limits.whole
    pieces, size = [], 0
    while piece := response.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > limits.most:
            raise Refused(f"sent more than {limits.most} bytes", status=response.status)
        if time.monotonic() > until:
            raise Transient(f"did not finish its answer within {limits.whole:g} s")
    return b"".join(pieces)
