"""The wire: one HTTP request, sent once, over a connection that is as safe as the configuration says.

Belongs here: TLS, plain HTTP for registries that are declared insecure, time limits, and turning httpx's
exceptions into ours. Does not belong here: credentials, redirects, trying again, or what an answer means.

A registry listed as insecure is treated as podman treats `insecure = true`: HTTPS without verifying the
certificate is tried first, then plain HTTP. Every other host, and whatever its answers point to, is spoken to
by verified HTTPS only.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator, Iterator, Mapping
from functools import cached_property
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from threading import Lock
from typing import Final

import httpx

from reconciler import __version__
from reconciler.adapters.registry.place import Place
from reconciler.adapters.registry.problems import Refusal, Transient
from reconciler.ports import Clock, OnRequest, Request

Body = bytes | Generator[bytes, None, None]

PATIENCE: Final = 60.0
"""Seconds that any answer may take, however slowly it trickles in."""
_SLOWEST: Final = 64 * 1024
"""Bytes per second below which moving a large blob counts as stuck."""
_CONNECT: Final = 10.0
_NAME: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")
_IPV6: Final = re.compile(r"[0-9a-f]*:[0-9a-f:.]+")
# Loopback is never behind a proxy, whatever the environment says; Go's HTTP client holds this too.
_DIRECT: Final = ("all://localhost", "all://127.0.0.1", "all://[::1]")


def patience(size: int) -> float:
    """Seconds that moving `size` bytes may take."""
    return PATIENCE + size / _SLOWEST


class Wire:
    """Sends single requests. Safe to share between threads."""

    def __init__(
        self,
        clock: Clock,
        insecure: frozenset[str],
        ca_file: Path | None,
        timeout: float,
        on_request: OnRequest = lambda _: None,
    ) -> None:
        self._clock = clock
        self._on_request = on_request
        self._insecure = frozenset(host.lower() for host in insecure)
        self._ca_file = ca_file
        self._timeout = httpx.Timeout(timeout, connect=min(timeout, _CONNECT))
        self._lock = Lock()
        self._clients: dict[bool, httpx.Client] = {}
        self._origins: dict[str, httpx.URL] = {}

    def close(self) -> None:
        """Close every connection. Safe to repeat."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def origin(self, place: Place) -> httpx.URL:
        """The URL under which a place's registry answers, without a path.

        Raises Transient when an insecure registry answers neither by HTTPS nor by HTTP.
        """
        if not self._is_insecure(place):
            return httpx.URL(f"https://{place.address}")
        known = self._origins.get(place.address)
        if known is None:
            known = self._origins[place.address] = self._probed(place)
        return known

    def forget(self, place: Place) -> None:
        """Find out anew how an insecure registry answers: it may have changed from HTTP to HTTPS or back."""
        self._origins.pop(place.address, None)

    def send(
        self, place: Place, method: str, url: httpx.URL, headers: Mapping[str, str], body: Body = b""
    ) -> httpx.Response:
        """Send one request on behalf of a place; the caller closes the answer. Redirects are not followed.

        `url` may lead to another host: the place decides only how strict we are. Raises Transient and
        Refusal.
        """
        self._check(url, place)
        client = self._client(verify=not self._is_insecure(place))
        try:
            # Without userinfo: httpx would make credentials of it.
            request = client.build_request(method, url.copy_with(userinfo=b""), headers=headers, content=body)
            response = client.send(request, stream=True)
        except UnicodeError as error:
            # httpx looks at a redirect's target even when it is not to follow it.
            raise Refusal(f"{where(url)} sends us to a host with an impossible name") from error
        except httpx.TransportError as error:
            self._on_request(Request("registry", method, "unavailable"))
            raise self._translated(error, url, place) from error
        self._on_request(Request("registry", method, str(response.status_code)))
        return response

    def chunks(self, response: httpx.Response, seconds: float = PATIENCE) -> Iterator[bytes]:
        """The answer's bytes as they come, never decompressed. Raises Transient when they stop coming."""
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise Refusal(f"{where(response.url)} compresses its answer although asked not to")
        until = self._clock.now() + seconds
        try:
            for chunk in response.iter_raw():
                yield chunk
                if self._clock.now() > until:
                    raise Transient(f"{where(response.url)} sends too slowly: not done after {seconds:.0f} s")
        except httpx.TransportError as error:
            raise Transient(f"{where(response.url)} broke off its answer: {_reason(error)}") from error

    def read(self, response: httpx.Response, limit: int) -> bytes:
        """A whole answer of at most `limit` bytes. Raises Refusal for a longer one, Transient as `chunks`."""
        if response.request.method == "HEAD":
            return b""
        body = bytearray()
        for chunk in self.chunks(response):
            body += chunk
            if len(body) > limit:
                raise Refusal(f"the answer is larger than {limit} bytes")
        return bytes(body)

    def _check(self, url: httpx.URL, place: Place) -> None:
        """Raise Refusal for a URL that must not be used, or that the layers below fail on in ways of their
        own."""
        if not _is_usable(url):
            raise Refusal(f"{place.host} sends us to {where(url)!r}, which is no usable address")
        if url.scheme != "https" and not self._is_insecure(place):
            raise Refusal(
                f"{place.host} sends us to {where(url)}, which is not HTTPS",
                hint=f"tell the registry its own HTTPS address, or add {place.host!r} to registry.insecure",
            )

    def _is_insecure(self, place: Place) -> bool:
        return place.host in self._insecure or place.address in self._insecure

    def _probed(self, place: Place) -> httpx.URL:
        """How an insecure registry answers: any answer by HTTPS counts; by HTTP, one that a registry would
        give."""
        problems = []
        for scheme in ("https", "http"):
            url = httpx.URL(f"{scheme}://{place.address}")
            try:
                response = self.send(place, "GET", url.join("/v2/"), {})
            except (Transient, Refusal) as problem:
                problems.append(problem.message)
                continue
            response.close()
            if scheme == "https" or response.status_code in (200, 401, 403):
                return url
            problems.append(f"{where(url)} answers {response.status_code}")
        raise Transient("; ".join(problems))

    def _client(self, *, verify: bool) -> httpx.Client:
        with self._lock:
            if verify not in self._clients:
                if verify:
                    self._load_ca()
                self._clients[verify] = self._made(self._verified if verify else _unverified())
            return self._clients[verify]

    def _made(self, trust: ssl.SSLContext) -> httpx.Client:
        try:
            return httpx.Client(
                verify=trust,
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

    @cached_property
    def _verified(self) -> ssl.SSLContext:
        """This machine's own trust store; the configured CA is added to it."""
        return ssl.create_default_context()

    def _load_ca(self) -> None:
        """Trust the configured CA beside those that this machine trusts anyway."""
        if self._ca_file is None:
            return
        try:
            self._verified.load_verify_locations(self._ca_file)
        except OSError as error:
            raise Refusal(f"the CA file {self._ca_file} cannot be read: {_reason(error)}") from error

    def _translated(self, error: Exception, url: httpx.URL, place: Place) -> Refusal | Transient:
        if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
            return Refusal(f"{where(url)} cannot be asked: {_reason(error)}")
        tls = _tls_error(error)
        if isinstance(tls, ssl.SSLCertVerificationError):
            # The CA file may have been renewed since: what is in it now counts from the next connection on.
            self._load_ca()
            return Refusal(
                f"the certificate of {where(url)} is not trusted: {tls.verify_message}",
                hint="make its CA known (registry.caFile, or this machine's trust store), or add"
                f" {place.host!r} to registry.insecure",
            )
        if tls is not None and tls.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
            return Refusal(
                f"{where(url)} does not speak HTTPS",
                hint=f"if it is meant to be spoken to in the clear, add {place.host!r} to registry.insecure",
            )
        sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        return Transient(f"{where(url)} cannot be reached: {_reason(error)}", ambiguous=sent)


def _is_usable(url: httpx.URL) -> bool:
    """Whether a URL is HTTP(S) with a host that can be looked up and a port that exists.

    Python's resolver raises UnicodeError and OverflowError for others, and httpx idna's errors.
    """
    host = url.raw_host.decode("ascii", "replace")
    try:
        url.host  # noqa: B018  (decodes the international name)
    except UnicodeError:
        return False
    known = _NAME.fullmatch(host) or _IPV6.fullmatch(host)
    return url.scheme in ("https", "http") and known is not None and 0 < (url.port or 443) < 2**16


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def where(url: httpx.URL) -> str:
    """A URL for messages: its origin only, for paths and queries carry signatures."""
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return str(error) or type(error).__name__


def _tls_error(error: BaseException) -> ssl.SSLError | None:
    """The TLS library's own error behind one of httpx's."""
    cause: BaseException | None = error
    for _ in range(8):
        if cause is None or isinstance(cause, ssl.SSLError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
