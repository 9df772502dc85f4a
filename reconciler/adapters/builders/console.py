"""What a build prints: kept in a log file, and boiled down to its current step and its last lines.

Belongs here: bounded handling of output that anybody may have written, and which logs are kept.
Does not belong here: judging how a build ended.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections import deque
from collections.abc import Collection
from io import FileIO
from pathlib import Path
from typing import Final

_LOG: Final = logging.getLogger(__name__)
_LOG_LIMIT: Final = 16 * 2**20
_LINE_LIMIT: Final = 400
_TAIL_LINES: Final = 12
_KEPT: Final = 100

STEP: Final = re.compile(r"(?:(?:\[\d+/\d+\] )?STEP \d+/\d+: |==> )")
"""How buildah announces steps (with the stage in front when there are several), and our script its own."""
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Console:
    """One build's output.

    `step` is the latest thing announced, by buildah or by our script, and may be read by other threads at any
    time; `instruction` is the latest that buildah announced.
    """

    def __init__(self, path: Path) -> None:
        """Open a new log file in place of one with the same name. Raises OSError."""
        self.path = path
        self.step = ""
        self.instruction = ""
        self._file = _replaced(path)
        self._room = _LOG_LIMIT
        self._full = False
        self._line = b""
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)

    def feed(self, data: bytes) -> None:
        """Take output as it comes. A full disk costs the log, never the build."""
        try:
            self._keep(data)
        except OSError as error:
            _LOG.warning("cannot write %s: %s", self.path, error)
            self._full = True
        *lines, rest = (self._line + data).split(b"\n")
        for line in lines:
            self._take(line)
        self._line = rest[-4 * _LINE_LIMIT :]

    def close(self) -> None:
        """Take the last unfinished line and close the file."""
        if self._line:
            self._take(self._line)
            self._line = b""
        try:
            self._file.close()
        except OSError as error:  # some disks tell only now that they are full
            _LOG.warning("cannot write %s: %s", self.path, error)

    def tail(self) -> str:
        """The last lines, fit for a message."""
        return "\n".join(self._tail)

    def _keep(self, data: bytes) -> None:
        if self._full:
            return
        self._file.write(data[: self._room])
        self._room -= len(data)
        if self._room < 0:
            self._full = True
            self._file.write(f"\n[log cut after {_LOG_LIMIT} bytes]\n".encode())

    def _take(self, line: bytes) -> None:
        text = plain(line)
        if not text.strip():
            return
        self._tail.append(text)
        if match := STEP.match(text):
            self.step = text.removeprefix("==> ")
            if match[0] != "==> ":
                self.instruction = self.step


def plain(line: bytes) -> str:
    """A line as text without terminal control, short enough to show."""
    text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
    text = _CONTROL.sub("", _ESCAPES.sub("", text))
    return text if len(text) <= _LINE_LIMIT else text[: _LINE_LIMIT - 1] + "…"


def prune(directory: Path, spared: Collection[Path] = ()) -> None:
    """Delete all but the newest logs and those `spared`. Failing to costs a little room, never a build."""
    try:
        logs = sorted(directory.glob("*.log"), key=os.path.getmtime, reverse=True)
        for old in logs[_KEPT:]:
            if old not in spared:
                old.unlink(missing_ok=True)
    except FileNotFoundError:
        return  # another process is pruning too
    except OSError as error:
        _LOG.warning("cannot delete old logs in %s: %s", directory, error)


def _replaced(path: Path) -> FileIO:
    """A new file in place of whatever has the name: never written through a link. Raises OSError."""
    new = path.with_name(f".{secrets.token_hex(8)}.log")
    file = new.open("xb", buffering=0)
    try:
        new.replace(path)  # unlike deleting and creating, this cannot meet another process half-way
    except OSError:
        file.close()
        new.unlink()
        raise
    return file
