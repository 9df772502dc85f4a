"""What can go wrong in one try, and what the API server said about it.

Belongs here: the internal exceptions, and error answers and lost connections in words for people.
Does not belong here: trying again. None of these exceptions leaves this package: `Wire.failure` makes `ClusterError`s.
"""

from __future__ import annotations

import json
from typing import Any, Final

from kubernetes.client.exceptions import ApiException
from urllib3 import exceptions as lost

from reconciler.adapters.cluster.parts import mapping, sequence

SAID_LIMIT: Final = 500
"""Characters of the server's own words that fit into one of our messages."""
NOT_ACCEPTED: Final = (
    "the API server does not accept these credentials: they may have expired, or belong elsewhere"
)
NOT_ALLOWED: Final = (
    "grant this to the account that the reconciler runs as; the roles that it needs are in deploy/"
)
NOT_TRUSTED: Final = "check that the certificate authority of the cluster is the one that is configured"


class Problem(Exception):
    """A try that failed. `message` and `hint` are for people."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Refused(Problem):
    """The same request would fail again. `status` is HTTP's, `reason` Kubernetes' word for it, '' for none;
    `is_conflict` says that the object is not the one that was meant, or not any more."""

    def __init__(
        self, message: str, *, status: int, reason: str = "", hint: str = "", is_conflict: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.reason = reason
        self.is_conflict = is_conflict


class Transient(Problem):
    """Another try may succeed.

    `retry_after` is how many seconds the server asked us to wait, None when it did not say. `untrusted` means that no
    secure connection could be made.
    """

    def __init__(
        self, message: str, *, hint: str = "", retry_after: float | None = None, untrusted: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after
        self.untrusted = untrusted


class Expired(Problem):
    """What a list or watch goes on from is too old for the server: it has to begin anew."""


class UnknownKind(Problem):
    """The server has no objects of this kind at all."""


def answered(status: int, reason: str, body: bytes, retry_after: float | None) -> Problem:
    """What an answer that is no success means; `reason` is HTTP's phrase."""
    said, word, fields = _words(body)
    message = f"answered {status} {printable(reason)}".rstrip() + (f": {printable(said)}" if said else "")
    # 501 and 505 are the server errors that say "never".
    if status in (408, 429) or (status >= 500 and status not in (501, 505)):
        return Transient(message, retry_after=retry_after)
    hint = {401: NOT_ACCEPTED, 403: NOT_ALLOWED}.get(status, "")
    # A patch for another uid is not a conflict to the API server, but an attempt to change the uid.
    conflict = status == 409 or (status == 422 and "metadata.uid" in fields)
    return Refused(message, status=status, reason=word, hint=hint, is_conflict=conflict)


def unreachable(error: Exception) -> Transient:
    """What a lost or refused connection means."""
    match error:
        case lost.NameResolutionError():
            return Transient("has a name that nobody knows", hint="check the server's URL and the DNS")
        case lost.NewConnectionError():  # one of ConnectTimeoutError's, whatever happened
            return Transient(f"cannot be reached: {_cause(error)}")
        case lost.ConnectTimeoutError():
            return Transient("accepts no connection in time")
        case lost.ReadTimeoutError():
            return Transient("does not answer in time")
        case lost.ProxyError():
            return Transient(
                f"is behind a proxy that failed: {_cause(error)}", hint="check HTTPS_PROXY and NO_PROXY"
            )
        case lost.SSLError() | ApiException():
            said = error.reason if isinstance(error, ApiException) else str(error)
            return Transient(f"cannot be trusted: {printable(str(said))}", hint=NOT_TRUSTED, untrusted=True)
        case lost.ProtocolError():
            return Transient(f"broke the connection off: {_cause(error)}")
    return Transient(f"cannot be spoken to: {printable(str(error)) or type(error).__name__}")


def printable(text: str) -> str:
    """Somebody else's words as one short line that cannot disturb a terminal or a log."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= SAID_LIMIT else flat[:SAID_LIMIT] + "…"


def _words(body: bytes) -> tuple[str, str, frozenset[str]]:
    """The message, the reason, and the fields at fault of a `Status`; or a proxy's plain text in between."""
    try:
        status: Any = json.loads(body)
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "replace")
        return ("" if text.lstrip().startswith("<") else text), "", frozenset()
    causes = sequence(mapping(status, "details").get("causes"))
    return _text(status, "message"), _text(status, "reason"), frozenset(_text(c, "field") for c in causes)


def _text(found: Any, key: str) -> str:
    value = mapping(found).get(key)
    return value if isinstance(value, str) else ""


def _cause(error: BaseException) -> str:
    """The system's own words for why, which urllib3 wraps in its own and in the names of its classes."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.strerror:
            return found.strerror
        inner = [a for a in found.args if isinstance(a, BaseException)]
        found = found.__cause__ or (inner[0] if inner else found.__context__)
    return printable(str(error))
