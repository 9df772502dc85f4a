"""Where a running daemon says how it is, for the other commands on its machine.

Belongs here: the file, finding it, and telling whether its daemon lives. Does not belong here: what it says
(`daemon.report`). Nothing rests on it: it may be deleted, and a daemon that cannot write it goes on.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from reconciler.redaction import Redactor

_LOG: Final = logging.getLogger(__name__)
_LIMIT: Final = 64 << 20
_TRIES: Final = 20
_KINDS: Final = (".json", ".lock", ".new")


class Board:
    """One daemon's file, `<pid>.json`, beside a lock that is held as long as the daemon lives."""

    def __init__(self, folder: Path, configs: Iterable[Path], redactor: Redactor) -> None:
        self._folder = folder
        self._configs = [str(config.resolve()) for config in configs]
        self._redactor = redactor
        self._path = folder / f"{os.getpid()}.json"
        self._lock: int | None = None
        self._complained = False

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sweep(self._folder)
            self._lock = self._take()
        except OSError as error:
            self._complain(error.strerror)
        else:
            if self._lock is None:  # of a process with our number: in another container, with the same folder
                self._complain("another daemon writes it")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            _delete(self._path)
            os.close(self._lock)

    def write(self, document: Mapping[str, Any]) -> None:
        """Say how things are now. Failing to is told once and harms nobody."""
        if self._lock is None:
            return
        new = _new_of(self._path)
        try:
            new.write_text(json.dumps({**self._redactor.clean_value(document), "configs": self._configs}))
            new.replace(self._path)
            self._complained = False
        except OSError as error:
            self._complain(error.strerror)

    def _take(self) -> int | None:
        for _ in range(_TRIES):
            lock = _take(_lock_of(self._path))
            if lock is not None:
                return lock
            time.sleep(0.05)  # somebody may just be looking whether we live
        return None

    def _complain(self, why: str | None) -> None:
        if not self._complained:
            _LOG.warning("cannot write %s: %s; `reconciler status` shows less", self._path, why)
        self._complained = True


def found(folder: Path, config: Path) -> Iterator[dict[str, Any]]:
    """What the daemons that live and use this configuration file said last."""
    wanted = str(config.resolve())
    for path in sorted(folder.glob("*.json")):
        with suppress(OSError, ValueError):
            if _is_held(_lock_of(path)) and path.stat().st_size <= _LIMIT:
                document = json.loads(path.read_bytes())
                if isinstance(document, dict) and wanted in document.get("configs", ()):
                    yield document


def _sweep(folder: Path) -> None:
    """Delete what killed daemons left."""
    for path in {path.with_suffix(".json") for kind in _KINDS for path in folder.glob(f"*{kind}")}:
        handle = _take(_lock_of(path))
        if handle is not None:
            _delete(path)
            os.close(handle)


def _delete(path: Path) -> None:
    """Delete a file and what belongs to it; the lock, which is ours, at last."""
    for one in (_new_of(path), path, _lock_of(path)):
        with suppress(OSError):
            one.unlink(missing_ok=True)


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")


def _new_of(path: Path) -> Path:
    return path.with_suffix(".new")


def _take(lock: Path) -> int | None:
    """Hold a lock; None when somebody does. Raises OSError."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError:
            os.close(handle)
            raise
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # swept by another daemon that starts, after we opened it


def _is_held(lock: Path) -> bool:
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared, so that two who look do not take each other for a daemon.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
