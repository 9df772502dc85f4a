"""One exchange with a registry: a call goes out with the right credentials, and its answer is what was
expected.

Belongs here: logging in again once, following redirects, sorting answers into good, later and no.
Does not belong here: trying again (`retry`), or what manifests and blobs are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import httpx

from reconciler.adapters.registry.auth import Authorizer, Scopes
from reconciler.adapters.registry.place import Place
from reconciler.adapters.registry.problems import Problem, Refusal, Transient, described, is_transient
from reconciler.adapters.registry.retry import retry_after
from reconciler.adapters.registry.wire import Wire, where
from reconciler.ports import Clock

SMALL: Final = 64 * 1024
"""Bytes read of an answer whose content does not matter beyond its message."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS: Final = 5


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a registry.

    `path` is below `/v2/<repository>/`, unless `url` says where to go (an upload's own URL). `scopes` is what
    a token must allow. `body` makes the request's body anew for each sending. Statuses in `expect` are good
    answers.
    """

    method: str
    place: Place
    path: str = ""
    scopes: Scopes = ()
    expect: frozenset[int] = frozenset({200})
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Callable[[], Generator[bytes, None, None]] | bytes = b""
    url: httpx.URL | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A good answer, read to its end. `url` is where the request went."""

    status: int
    headers: httpx.Headers
    body: bytes
    url: httpx.URL


class Transport:
    """Makes calls, each tried once. Every method raises Transient and Refusal."""

    def __init__(self, wire: Wire, authorizer: Authorizer, clock: Clock) -> None:
        self._wire = wire
        self._authorizer = authorizer
        self._clock = clock

    def attempt(self, call: Call, limit: int = SMALL) -> Reply:
        """Make a call and read an answer of at most `limit` bytes."""
        with self._opened(call) as response:
            body = self._wire.read(response, limit)
            return Reply(response.status_code, response.headers, body, response.url)

    @contextmanager
    def stream(self, call: Call, seconds: float) -> Iterator[Iterator[bytes]]:
        """Make a call and hand out the answer's bytes as they come, for at most `seconds`."""
        with self._opened(call) as response:
            yield self._wire.chunks(response, seconds)

    @contextmanager
    def _opened(self, call: Call) -> Iterator[httpx.Response]:
        try:
            response = self._authorised(call)
            try:
                if response.status_code not in call.expect:
                    raise self._problem(call, response)
                yield response
            finally:
                response.close()
        except Problem:
            self._wire.forget(call.place)
            raise

    def _authorised(self, call: Call) -> httpx.Response:
        """Send with what we know, and once more with new credentials when that is answered with 401."""
        origin = self._wire.origin(call.place)
        url = call.url or origin.join(f"/v2/{call.place.path}/{call.path}")
        # An upload's URL may lie on another host, which has no business with our credentials.
        ours = _same_origin(url, origin)
        header = self._authorizer.header(call.place, call.scopes) if ours else ""
        response = self._followed(call, url, header)
        if response.status_code != 401 or not _same_origin(response.url, origin):
            return response
        try:
            challenges = response.headers.get_list("www-authenticate")
            renewed = self._authorizer.renewed(call.place, call.scopes, challenges)
        except BaseException:
            response.close()
            raise
        if renewed in ("", header):
            return response
        self._drained(response)
        response.close()
        return self._followed(call, url, renewed)

    def _followed(self, call: Call, url: httpx.URL, authorization: str) -> httpx.Response:
        """Send, and go where redirects of a read lead; credentials stay with the origin they are for."""
        origin = url
        for _ in range(_MOST_REDIRECTS + 1):
            own = {"Authorization": authorization} if authorization and _same_origin(url, origin) else {}
            response = self._sent(call, url, {**call.headers, **own})
            if response.status_code not in _REDIRECTS or call.method not in ("GET", "HEAD"):
                return response
            response.close()
            url = joined(response.url, response.headers.get("location", ""))
        raise Refusal(f"{where(origin)} redirects us more than {_MOST_REDIRECTS} times")

    def _sent(self, call: Call, url: httpx.URL, headers: Mapping[str, str]) -> httpx.Response:
        if isinstance(call.body, bytes):
            return self._wire.send(call.place, call.method, url, headers, call.body)
        body = call.body()
        try:
            return self._wire.send(call.place, call.method, url, headers, body)
        finally:
            # It may hold a connection open, and httpx leaves it suspended when the sending breaks off.
            body.close()

    def _problem(self, call: Call, response: httpx.Response) -> Problem:
        status = response.status_code
        message = f"{where(response.url)} answered {described(response, self._drained(response))}"
        if is_transient(status):
            wait = retry_after(response.headers.get("retry-after", ""), self._clock.now())
            return Transient(message, retry_after=wait, ambiguous=status >= 500)
        if status in (401, 403):
            return Refusal(message, hint=self._authorizer.hint(call.place))
        return Refusal(message)

    def _drained(self, response: httpx.Response) -> bytes:
        """The start of an answer that is only good for its message. Reading it to the end keeps the
        connection."""
        try:
            return self._wire.read(response, SMALL)
        except (Transient, Refusal):
            return b""


def joined(base: httpx.URL, location: str) -> httpx.URL:
    """Where a `Location` header leads. Raises Refusal when it is missing or no URL."""
    try:
        if location:
            return base.join(location)
    except httpx.InvalidURL:
        pass
    raise Refusal(f"{where(base)} sends us on without saying where to")


def _same_origin(one: httpx.URL, other: httpx.URL) -> bool:
    return (one.scheme, one.raw_host, one.port) == (other.scheme, other.raw_host, other.port)
