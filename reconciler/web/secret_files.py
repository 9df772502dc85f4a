"""Reading the secrets that senders of webhooks know.

Belongs here: what counts as a secret in a file. Does not belong here: what is done with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from reconciler.errors import ReconcilerError

_LARGEST: Final = 64 * 1024


class NoSecret(ReconcilerError):
    """A file that should hold a secret does not."""

    reason = "NoSecret"


def read_secret(path: Path) -> bytes:
    """The secret in a file, without white space around it: editors and `echo` end a file with a newline.

    Raises NoSecret, so that nobody is let in by an empty file.
    """
    hint = "put the secret that was set at the sender into this file, and nothing else"
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        problem = error.strerror or type(error).__name__
        raise NoSecret(f"{path} cannot be read: {problem}", hint=hint) from error
    secret = content.strip()
    if not secret:
        raise NoSecret(f"{path} is empty", hint=hint)
    if len(content) > _LARGEST:
        raise NoSecret(f"{path} is larger than {_LARGEST} bytes", hint=hint)
    return secret
