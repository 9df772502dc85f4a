"""What can go wrong in one try, and what the forge said about it.

Belongs here: the two internal exceptions, telling "later" from "no", and reading an error answer for people.
Does not belong here: trying again. Neither exception leaves this package: `retry` turns both into `ForgeError`s.

How a forge says "later": GitHub's "Rate limits for the REST API" (403 or 429; `Retry-After`, else
`X-RateLimit-Remaining: 0` with `X-RateLimit-Reset`, else a minute at least); GitLab's 429 with `Retry-After` and
`RateLimit-Reset`.
"""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Mapping
from typing import Any, Final

_SAID: Final = 300
"""Characters of another machine's words that fit into one of our messages."""
_MINUTE: Final = 60.0
"""How long to wait for a rate limit that does not say."""


class Problem(Exception):
    """A try that failed. `message` and `hint` are for people. `status` is the HTTP status, 0 without an answer."""

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status


class Refusal(Problem):
    """The same request would fail again."""


class Transient(Problem):
    """Another try may succeed.

    `wait` is how many seconds the forge asked us to wait, None when it did not say. `ambiguous` means that the request
    may have had its effect although no good answer came.
    """

    def __init__(
        self, message: str, *, wait: float | None = None, ambiguous: bool = False, status: int = 0
    ) -> None:
        super().__init__(message, status=status)
        self.wait = wait
        self.ambiguous = ambiguous


def is_transient(status: int, headers: Mapping[str, str], said: str) -> bool:
    """Whether an answer says "later" rather than "no". `headers` has lower-case names; `said` is its text.

    409 is GitLab's answer while it works on the same object for somebody else.
    """
    if status == 403:
        spent = headers.get("x-ratelimit-remaining") == "0"
        return spent or "retry-after" in headers or "rate limit" in said.lower()
    return status in (408, 409, 425, 429) or (status >= 500 and status not in (501, 505))


def asked_wait(status: int, headers: Mapping[str, str], now: float) -> float | None:
    """How many seconds an answer that says "later" asks us to wait; None when it leaves that to us."""
    named = _seconds(headers.get("retry-after", ""), now)
    if named is not None:
        return named
    if status not in (403, 429):
        return None
    for prefix in ("x-ratelimit", "ratelimit"):
        reset = headers.get(f"{prefix}-reset", "").strip()
        if headers.get(f"{prefix}-remaining") == "0" and re.fullmatch(r"[0-9]{1,12}", reset):
            # A whole second more: the clock there is not ours.
            return max(0.0, float(reset) - now) + 1.0
    return _MINUTE


def said(content_type: str, body: bytes) -> str:
    """The words of an error answer, in one short line that cannot disturb a terminal or a log."""
    text = body.decode("utf-8", "replace") if content_type.startswith("text/plain") else _message(body)
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= _SAID else flat[:_SAID] + "…"


def _seconds(value: str, now: float) -> float | None:
    text = value.strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _message(body: bytes) -> str:
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    found = [document.get("message"), document.get("error"), *_details(document.get("errors"))]
    return "; ".join(word if isinstance(word, str) else json.dumps(word) for word in found if word)


def _details(errors: Any) -> list[Any]:
    """The particulars that GitHub adds: a list of texts or of objects with a message or a code."""
    if not isinstance(errors, list):
        return []
    return [e.get("message") or e.get("code") if isinstance(e, dict) else e for e in errors[:3]]
