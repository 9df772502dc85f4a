"""Keeps finished analysis in one SQLite file, which may be deleted at any time.

Belongs here: the file. Does not belong here: what the keys and values mean (`reconcile.keeping`).
Nothing that goes wrong with the file is an error: whoever asks works it out again.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final, Self

_LARGEST: Final = 256 << 20
"""Bytes. Old versions of definitions are never asked for again, so a large file is mostly waste: it starts over."""
_AT_ONCE: Final = 500
_PATIENCE: Final = 1.0
_SEAL: Final = 4


class KeptInFile:
    """Implements `ports.Kept`. `edition` names the code that works things out: what another edition kept is not
    found, so that no change of the code is ever answered with what it changed. May be used from any thread."""

    def __init__(self, path: Path, edition: str) -> None:
        self._edition = f"{edition}/"
        self._lock = Lock()
        self._connection = self._open(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    def get(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """What is kept of these keys."""
        found: dict[str, bytes] = {}
        if self._connection is None:
            return found
        with suppress(sqlite3.Error), self._lock:
            left = (self._edition + key for key in keys)
            while some := tuple(islice(left, _AT_ONCE)):
                marks = ",".join("?" * len(some))
                rows = self._connection.execute(f"SELECT key, value FROM kept WHERE key IN ({marks})", some)  # noqa: S608  (only marks are put in)
                whole = ((key, _opened(value)) for key, value in rows)
                found |= {key.removeprefix(self._edition): value for key, value in whole if value is not None}
        return found

    def put(self, values: Mapping[str, bytes]) -> None:
        """Keep values."""
        if self._connection is not None:
            rows = [(self._edition + key, _sealed(value)) for key, value in values.items()]
            with suppress(sqlite3.Error), self._lock, self._connection:
                self._connection.executemany("REPLACE INTO kept VALUES (?, ?)", rows)

    @classmethod
    def _open(cls, path: Path) -> sqlite3.Connection | None:
        """The file, made anew when it is damaged or too large; None when it cannot be used at all."""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > _LARGEST:
                path.unlink()
            try:
                return cls._connected(path)
            except sqlite3.DatabaseError:
                path.unlink(missing_ok=True)
                return cls._connected(path)
        except (OSError, sqlite3.Error):
            return None

    @staticmethod
    def _connected(path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False)  # `_lock` sees to it
        try:
            connection.execute("PRAGMA synchronous = OFF")  # a lost write costs work, nothing else
            connection.execute(
                "CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID"
            )
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _sealed(value: bytes) -> bytes:
    """A value behind its checksum: SQLite has none, and a bit that tipped over must not become a digest."""
    return zlib.crc32(value).to_bytes(_SEAL, "big") + value


def _opened(stored: object) -> bytes | None:
    """The value that was sealed; None for anything else."""
    if not isinstance(stored, bytes) or zlib.crc32(stored[_SEAL:]).to_bytes(_SEAL, "big") != stored[:_SEAL]:
        return None
    return stored[_SEAL:]
