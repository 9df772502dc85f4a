"""Takes secrets out of text before anybody sees it: the last fence, behind adapters that never let one out.

Belongs here: what is masked, wherever it stands. Does not belong here: reading secrets, and writing logs.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

MASK: Final = "***"
_SHORTEST: Final = 4
"""Shorter secrets would mask half of every sentence; nothing that short protects anything."""
_MOST: Final = 1_000
"""Secrets that are remembered at once."""
_SHAPES: Final = (
    # User information in a URL; what stands before the last @ of an authority.
    (re.compile(r"(?<=://)[^/\s'\"@]*(?:@[^/\s'\"@]*)*(?=@)"), MASK),
    (re.compile(r"\b(authorization\s*[:=]\s*['\"]?(?:\w+\s+)?)[^\s'\",]+", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}", re.IGNORECASE), rf"\1 {MASK}"),
    (
        re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL),
        f"{MASK} private key {MASK}",
    ),
)


class Redactor:
    """Masks every secret that it was told of, in every spelling that text may have it in, and whatever is shaped like
    one. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: set[str] = set()
        self._spellings: tuple[str, ...] = ()

    def add(self, *secrets: str) -> None:
        """Remember secrets; of one with several lines, each line as well. The old ones stay secret."""
        if all(secret in self._known for secret in secrets):
            return
        spelled = {
            spelling
            for secret in secrets
            for part in (secret, *secret.splitlines())
            if len(part.strip()) >= _SHORTEST
            for spelling in _spellings(part.strip())
        }
        with self._lock:
            if len(self._known) >= _MOST:
                # Tokens that were good for an hour, months ago: they open nothing any more.
                self._known.clear()
                self._spellings = ()
            self._known.update(secrets)
            # Longest first: a secret may be a part of another.
            self._spellings = tuple(
                sorted(spelled.union(self._spellings), key=lambda text: (-len(text), text))
            )

    def clean(self, text: str) -> str:
        """The text without secrets."""
        for spelling in self._spellings:
            text = text.replace(spelling, MASK)
        for shape, mask in _SHAPES:
            text = shape.sub(mask, text)
        return text

    def clean_value(self, value: Any) -> Any:
        """The same for all texts in a JSON value: to mask it when it is JSON already could break it."""
        match value:
            case str():
                return self.clean(value)
            case Mapping():
                return {self.clean(str(key)): self.clean_value(item) for key, item in value.items()}
            case list() | tuple():
                return [self.clean_value(item) for item in value]
        return value


def _spellings(secret: str) -> set[str]:
    encoded = b64encode(secret.encode("utf-8", "surrogateescape")).decode()
    return {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], repr(secret)[1:-1], encoded}
