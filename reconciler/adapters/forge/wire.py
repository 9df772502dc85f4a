"""The wire: one HTTP request to a forge's API, sent once, over a connection that is as safe as it can be.

Belongs here: TLS, time and size limits, redirects, sorting answers into good, later and no, and turning httpx's
exceptions into ours. Does not belong here: trying again, or what an answer means.

The token goes to the API's own origin and nowhere else, by HTTPS; in the clear only to this very machine.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from threading import Lock
from typing import Any, Final

import httpx

from reconciler import __version__
from reconciler.adapters.forge.dialect import Call
from reconciler.adapters.forge.problems import Refusal, Transient, asked_wait, is_transient, said
from reconciler.errors import ForgeError
from reconciler.ports import Clock, OnRequest, Request
from reconciler.redaction import Redactor

_LARGEST: Final = 32 << 20
"""Bytes of the largest answer that is read: Gitea lists all comments of a pull request at once."""
_PATIENCE: Final = 60.0
"""Seconds that an answer may take, however slowly it trickles in."""
_CONNECT: Final = 10.0
_MOST_REDIRECTS: Final = 3
_READ_REDIRECTS: Final = frozenset({301, 302, 307, 308})
_WRITE_REDIRECTS: Final = frozenset({307, 308})
"""Those that ask for the same request again. GitHub answers so for a repository that has another name now."""
_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")
_IPV6: Final = re.compile(r"[0-9a-f]*:[0-9a-f:.]+")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# Loopback is never behind a proxy, whatever the environment says; Go's HTTP client holds this too.
_DIRECT: Final = ("all://localhost", "all://127.0.0.1", "all://[::1]")


@dataclass(frozen=True, slots=True)
class Reply:
    """A good answer, read to its end. `next_query` leads to the list's next page; '' when there is none."""

    body: bytes
    next_query: str

    def json(self) -> Any:
        """The answer as JSON. Raises Refusal."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise Refusal("its answer is not JSON") from error


def api_url(text: str) -> httpx.URL:
    """The URL of an API, without a slash at the end. Raises ForgeError for one that no token may be sent to."""
    try:
        url = httpx.URL(text)
        secure = url.scheme == "https" or (url.scheme == "http" and url.host in _LOOPBACK)
        host = url.raw_host.decode("ascii")
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ForgeError("the forge's URL is no URL") from error
    if url.userinfo or url.query or url.fragment:
        raise ForgeError(
            "the forge's URL must have no credentials, query or fragment in it",
            hint="name the URL of its API only, such as https://api.github.com; the token comes from a file",
        )
    known = _NAME.fullmatch(host) or _IPV6.fullmatch(host)
    if not known or not secure or not 0 < (url.port or 443) < 2**16:
        raise ForgeError(
            f"{_origin(url)} is not an HTTPS address",
            hint="name the URL of the forge's API, such as https://gitlab.example.com/api/v4",
        )
    return url.copy_with(raw_path=url.raw_path.rstrip(b"/") or b"/")


class Wire:
    """Sends single requests to one API. Safe to share between threads; close it after use."""

    def __init__(
        self, url: str, clock: Clock, redactor: Redactor, timeout: float, on_request: OnRequest
    ) -> None:
        self._url = api_url(url)
        self._clock = clock
        self._redactor = redactor
        self._timeout = httpx.Timeout(timeout, connect=min(timeout, _CONNECT))
        self._on_request = on_request
        self._lock = Lock()
        self._client: httpx.Client | None = None

    def close(self) -> None:
        """Close every connection. Safe to repeat."""
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    def send(self, call: Call, headers: Mapping[str, str], query: str = "") -> Reply:
        """Send one request; `query` replaces that of the call. Raises Transient and Refusal."""
        url = self._target(call.path, query)
        content = b"" if call.body is None else json.dumps(call.body).encode()
        typed = {"Content-Type": "application/json"} if call.body is not None else {}
        followed = _READ_REDIRECTS if call.method == "GET" else _WRITE_REDIRECTS
        for _ in range(_MOST_REDIRECTS + 1):
            status, answer, body = self._sent(call.method, url, {**headers, **typed}, content)
            if status not in followed:
                return self._judged(call, status, answer, body)
            url = self._joined(url, answer.get("location", ""))
        raise Refusal(f"{_origin(url)} redirects us more than {_MOST_REDIRECTS} times")

    def _target(self, path: str, query: str) -> httpx.URL:
        base = self._url.copy_with(raw_path=self._url.raw_path.rstrip(b"/") + b"/")
        url = base.join(path.lstrip("/"))
        return url.copy_with(query=query.encode("ascii")) if query else url

    def _joined(self, base: httpx.URL, location: str) -> httpx.URL:
        try:
            url = base.join(location) if location else None
        except httpx.InvalidURL:
            url = None
        if url is None:
            raise Refusal(f"{_origin(base)} sends us on without saying where to")
        if _key(url) != _key(self._url):
            raise Refusal(
                f"{_origin(base)} sends us on to {_origin(url)}, where the token has no business",
                hint="name the URL of the API itself",
            )
        return url

    def _sent(
        self, method: str, url: httpx.URL, headers: Mapping[str, str], content: bytes
    ) -> tuple[int, httpx.Headers, bytes]:
        client = self._connected()
        until = self._clock.now() + _PATIENCE
        try:
            request = client.build_request(method, url, headers=headers, content=content)
            response = client.send(request, stream=True)
            try:
                body = self._read(response, until)
            finally:
                response.close()
        except UnicodeError as error:
            # httpx looks at a redirect's target even when it is not to follow it.
            raise Refusal(f"{_origin(url)} sends us to a host with an impossible name") from error
        except httpx.TransportError as error:
            self._on_request(Request("forge", method, "unavailable"))
            raise self._translated(error, url) from error
        self._on_request(Request("forge", method, str(response.status_code)))
        return response.status_code, response.headers, body

    def _read(self, response: httpx.Response, until: float) -> bytes:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise Refusal(f"{_origin(response.url)} compresses its answer although asked not to")
        body = bytearray()
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > _LARGEST:
                raise Refusal(f"the answer is larger than {_LARGEST} bytes")
            if self._clock.now() > until:
                raise Transient(
                    f"{_origin(response.url)} sends too slowly: not done after {_PATIENCE:.0f} s",
                    ambiguous=True,
                )
        return bytes(body)

    def _judged(self, call: Call, status: int, headers: httpx.Headers, body: bytes) -> Reply:
        if status in call.expect:
            return Reply(body, _next_query(headers))
        # Servers exist that echo the request in their error page.
        words = self._redactor.clean(said(headers.get("content-type", ""), body))
        message = f"{_origin(self._url)} answered {status} to {call.method} {call.path}"
        message += f" ({words})" if words else ""
        if is_transient(status, headers, words):
            wait = asked_wait(status, headers, self._clock.now())
            raise Transient(message, wait=wait, ambiguous=status >= 500, status=status)
        raise Refusal(message, hint=_HINTS.get(status, ""), status=status)

    def _connected(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                self._client = self._made()
            return self._client

    def _made(self) -> httpx.Client:
        try:
            return httpx.Client(
                verify=ssl.create_default_context(),
                timeout=self._timeout,
                headers={
                    "User-Agent": f"machine-os-reconciler/{__version__}",
                    "Accept-Encoding": "identity",
                },
                mounts=dict.fromkeys(_DIRECT),
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            )
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            # Nothing else in there depends on the outside. The URL may hold a password, so it is not shown.
            raise Refusal(
                "the environment names a proxy that cannot be used",
                hint="HTTPS_PROXY, HTTP_PROXY and ALL_PROXY must be http:// or https:// URLs",
            ) from error

    def _translated(self, error: httpx.TransportError, url: httpx.URL) -> Refusal | Transient:
        reason = "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error)
        reason = self._redactor.clean(reason) or type(error).__name__
        if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
            return Refusal(f"{_origin(url)} cannot be asked: {reason}")
        if _is_untrusted(error):
            return Refusal(
                f"the certificate of {_origin(url)} is not trusted",
                hint="add its CA to this machine's trust store, or name a bundle in SSL_CERT_FILE",
            )
        unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        return Transient(f"{_origin(url)} cannot be reached: {reason}", ambiguous=not unsent)


_HINTS: Final = {
    401: "the token is not valid there, or has expired: put a new one into the token file",
    403: "the token must be allowed to read pull requests, to comment, and to set commit statuses; for write-back"
    " also to open pull requests",
    404: "check the repository's name and the number; a token that may not see them is answered like this too",
}


def _next_query(headers: httpx.Headers) -> str:
    """The query of the link to the next page. Only that: forges behind a proxy may not know their own address."""
    links: str = headers.get("link", "")
    for link in links.split(","):
        target, _, rest = link.partition(";")
        if 'rel="next"' in rest and target.strip().startswith("<"):
            return target.strip()[1:].rstrip(">").partition("?")[2].partition("#")[0]
    return ""


def _key(url: httpx.URL) -> tuple[str, bytes, int | None]:
    return url.scheme, url.raw_host, url.port


def _origin(url: httpx.URL) -> str:
    """A URL for messages: without user, path and query."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}" + (f":{url.port}" if url.port else "")


def _is_untrusted(error: BaseException) -> bool:
    """Whether the TLS library's own error is behind one of httpx's."""
    cause: BaseException | None = error
    for _ in range(8):
        if cause is None or isinstance(cause, ssl.SSLCertVerificationError):
            break
        cause = cause.__cause__ or cause.__context__
    return isinstance(cause, ssl.SSLCertVerificationError)
