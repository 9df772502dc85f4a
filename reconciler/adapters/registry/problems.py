"""What can go wrong in one try, and what the other side said about it.

Belongs here: the two internal exceptions, and reading an error answer for people, with secrets taken out.
Does not belong here: trying again. Neither exception leaves this package: `retry` turns both into
`RegistryError`s.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Final

import httpx

SAID_LIMIT: Final = 300
"""Characters of another machine's words that fit into one of our messages."""


class Problem(Exception):
    """A try that failed. `message` and `hint` are for people and hold no secret."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Refusal(Problem):
    """The same request would fail again."""


class Transient(Problem):
    """Another try may succeed.

    `retry_after` is how many seconds the server asked us to wait, None when it did not say. `ambiguous` means
    that the request may have had its effect although no good answer came.
    """

    def __init__(
        self, message: str, *, hint: str = "", retry_after: float | None = None, ambiguous: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after
        self.ambiguous = ambiguous


def is_transient(status: int) -> bool:
    """Whether a status says "later" rather than "no".

    501 and 505 are the server errors that say "never"; proxies add others of their own above 505, such as
    522.
    """
    return status in (408, 429) or (status >= 500 and status not in (501, 505))


def described(response: httpx.Response, body: bytes, secrets: Iterable[str] = ()) -> str:
    """An error answer in one line: its status, and the words that came with it, without any of `secrets`.

    Servers exist that echo the request in their error page, so what we sent is taken out again.
    """
    text = _words(response.headers.get("content-type", ""), body)
    for secret in [*_sent_secrets(response.request), *secrets]:
        if secret:
            text = text.replace(secret, "[removed]")
    answer = f"{response.status_code} {printable(response.reason_phrase)}".rstrip()
    return answer + (f" ({printable(text)})" if text else "")


def printable(text: str) -> str:
    """Another machine's words as one short line that cannot disturb a terminal or a log."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= SAID_LIMIT else flat[:SAID_LIMIT] + "…"


def _words(content_type: str, body: bytes) -> str:
    if content_type.startswith("text/plain"):
        return body.decode("utf-8", "replace")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    entries = document.get("errors")
    found = [_error(entry) for entry in entries[:3]] if isinstance(entries, list) else [_error(document)]
    return "; ".join(filter(None, found))


def _error(entry: object) -> str:
    """One error of the distribution protocol (`code`, `message`) or of OAuth (`error`,
    `error_description`)."""
    if not isinstance(entry, dict):
        return ""
    keys = ("code", "message", "error", "error_description", "details")
    return ": ".join(entry[key] for key in keys if isinstance(entry.get(key), str))


def _sent_secrets(request: httpx.Request) -> list[str]:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme != "Basic":
        return [value]
    try:
        plain = base64.b64decode(value).decode("utf-8", "replace")
    except binascii.Error:
        return [value]
    return [value, plain.partition(":")[2]]
