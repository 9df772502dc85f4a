"""How each sender proves that it knows the secret: pure functions over headers, secrets and the body's bytes.

Belongs here: the schemes, and which headers they use. Does not belong here: reading secrets, and the web.

Sources: GitHub, "Validating webhook deliveries"; Gitea, services/webhook/deliver.go (bare hex over the payload; Forgejo
sends the same under its own name as well); GitLab's secret token, and its signing token by Standard Webhooks 1.0.0
(gitlab-org/gitlab!230944); Flux, Receiver type generic-hmac.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from reconciler.settings import WebhookType

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, and values, as they came."""

TOLERANCE: Final = 300.0
"""Seconds that a signed time may be off, as Standard Webhooks recommends."""
_SIGNING_TOKEN: Final = b"whsec_"
_MOST_CLAIMS: Final = 8
"""Signatures that one header may list: a sender that changes its key lists two."""
_HEX: Final = re.compile(rb"[0-9a-fA-F]{64}")
_SECONDS: Final = re.compile(rb"[0-9]{1,12}")
_FORGES: Final = ("gitea", "forgejo")


class Proof:
    """Judges one delivery by one secret. The body goes through `update` in pieces and is not kept."""

    def __init__(self, claims: Iterable[bytes], digest: _Digest, *, covers_body: bool = True) -> None:
        self._claims = tuple(claims)
        self._digest = digest
        self._covers_body = covers_body

    def update(self, body: bytes) -> None:
        """The next piece of the body."""
        if self._covers_body:
            self._digest.update(body)

    def holds(self) -> bool:
        """Whether the sender knows the secret. Takes the same time wherever a claim differs."""
        expected = self._digest.digest()
        held = False
        for claim in self._claims:
            held |= hmac.compare_digest(expected, claim)
        return held


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


def proof(sender: WebhookType, headers: Headers, secret: bytes, now: float) -> Proof:
    """What a delivery with these headers must prove; `now` is in seconds since the epoch.

    A header that is absent, malformed or there twice claims nothing, and so nothing holds. Raises ValueError when the
    secret itself is unusable; the message does not repeat it.
    """
    if not secret:
        raise ValueError("is empty")  # anybody knows it
    match sender:
        case WebhookType.GITHUB:
            return _keyed(_prefixed(headers, b"x-hub-signature-256"), secret)
        case WebhookType.GENERIC:
            return _keyed(_prefixed(headers, b"x-signature"), secret)
        case WebhookType.GITEA:
            names = [f"x-{forge}-signature".encode() for forge in _FORGES]
            return _keyed([claim for name in names for claim in _hex(only(headers, name))], secret)
        case WebhookType.GITLAB if secret.startswith(_SIGNING_TOKEN):
            return _standard(headers, _signing_key(secret), now)
        case WebhookType.GITLAB:
            # Two digests are compared, so that not even the secret's length shows in the time it takes.
            claim = hashlib.sha256(only(headers, b"x-gitlab-token")).digest()
            return Proof([claim], hashlib.sha256(secret), covers_body=False)


def delivery(sender: WebhookType, headers: Headers) -> bytes:
    """The id of a delivery, which stays the same when it is sent again; b'' when there is none.

    Only GitLab's signing token covers it: elsewhere somebody who has seen a delivery can send it again under new ids.
    """
    match sender:
        case WebhookType.GITHUB:
            names = [b"x-github-delivery"]
        case WebhookType.GITEA:
            names = [f"x-{forge}-delivery".encode() for forge in _FORGES]
        case WebhookType.GITLAB:
            names = [b"webhook-id", b"idempotency-key"]
        case WebhookType.GENERIC:
            names = [b"idempotency-key"]
    return _first(headers, names)


def event(sender: WebhookType, headers: Headers) -> str:
    """What a delivery is about in its sender's words, in lower case; '' when it does not say."""
    names = {
        WebhookType.GITHUB: [b"x-github-event"],
        WebhookType.GITEA: [f"x-{forge}-event".encode() for forge in _FORGES],
        WebhookType.GITLAB: [b"x-gitlab-event"],
        WebhookType.GENERIC: [],
    }[sender]
    return _first(headers, names).decode("latin-1").lower()


def only(headers: Headers, name: bytes) -> bytes:
    """The value of a header, b'' unless it is there exactly once: of two, nobody knows which one the sender meant."""
    values = [value for key, value in headers if key == name]
    return values[0] if len(values) == 1 else b""


def _first(headers: Headers, names: Iterable[bytes]) -> bytes:
    return next(filter(None, (only(headers, name) for name in names)), b"")


def _keyed(claims: Iterable[bytes], key: bytes, start: bytes = b"") -> Proof:
    return Proof(claims, hmac.new(key, start, hashlib.sha256))


def _prefixed(headers: Headers, name: bytes) -> list[bytes]:
    algorithm, _, rest = only(headers, name).partition(b"=")
    return _hex(rest) if algorithm == b"sha256" else []


def _hex(text: bytes) -> list[bytes]:
    return [bytes.fromhex(text.decode("ascii"))] if _HEX.fullmatch(text) else []


def _signing_key(secret: bytes) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_SIGNING_TOKEN), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise ValueError("is no signing token: base64 must follow whsec_")
    return key


def _standard(headers: Headers, key: bytes, now: float) -> Proof:
    name, at = only(headers, b"webhook-id"), only(headers, b"webhook-timestamp")
    if not name or not _SECONDS.fullmatch(at) or abs(now - int(at)) > TOLERANCE:
        return _keyed([], key)
    listed = only(headers, b"webhook-signature").split(b" ")[:_MOST_CLAIMS]
    versions = [claim.partition(b",") for claim in listed]
    claims = [claim for version, _, text in versions if version == b"v1" for claim in _base64(text)]
    return _keyed(claims, key, b"%b.%b." % (name, at))


def _base64(text: bytes) -> list[bytes]:
    try:
        return [base64.b64decode(text, validate=True)]
    except binascii.Error:
        return []
