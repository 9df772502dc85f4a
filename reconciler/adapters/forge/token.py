"""The token, from a file and from nowhere else.

Belongs here: reading it so that it shows nowhere. Does not belong here: how it is sent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from reconciler.errors import ForgeError
from reconciler.redaction import Redactor

_LONGEST: Final = 16 * 1024


class TokenFile:
    """A file that holds one token. It is read at each use, so a replaced one counts at once."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self._path = path
        self._redactor = redactor

    def read(self) -> str:
        """The token, which the redactor knows from now on. Raises ForgeError, in whose message it never is."""
        try:
            with self._path.open("rb") as file:
                content = file.read(_LONGEST + 1)
        except OSError as error:
            raise ForgeError(f"the token file {self._path} cannot be read: {error.strerror}") from error
        text = content.decode("latin-1").strip()
        self._redactor.add(text)
        # Anything else could not be sent as a header.
        if not text or len(content) > _LONGEST or not text.isascii() or not text.isprintable() or " " in text:
            raise ForgeError(
                f"the token file {self._path} does not hold one token",
                hint="it must have one line: the token, and nothing else",
            )
        return text
