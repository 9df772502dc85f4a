"""The log: one line per event on standard error, as JSON or for people, with every secret masked.

Belongs here: the form of a line, and which libraries may speak. Does not belong here: what is worth telling.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final

from reconciler.redaction import Redactor

FORMS: Final = ("json", "text")
LEVELS: Final = ("debug", "info", "warning", "error")
_LOG: Final = logging.getLogger(__name__)
_LONGEST: Final = 16_384
"""Characters of one field; a server may say anything."""
_QUIET: Final = ("apscheduler", "httpx", "httpcore", "uvicorn", "git", "asyncio")
"""They tell of every call at INFO, some with whole URLs."""
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def begin(form: str, level: str, redactor: Redactor) -> None:
    """Let everything that is logged in this process, and whatever ends a thread of it, come out on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((_Json if form == "json" else _Text)(redactor))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False  # else what cannot be formatted comes out as it is, with its secrets
    sys.excepthook = _on_end
    threading.excepthook = _on_end_of_thread


def _on_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What Python would write by itself, past all of this."""
    _LOG.critical("the reconciler has ended by an error", exc_info=(kind, error, trace))


def _on_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    name = ended.thread.name if ended.thread else ""
    _LOG.critical("a thread has ended by an error", extra={"thread_name": name}, exc_info=ended.exc_value)


class _Masked(logging.Formatter):
    """What both forms share: the fields of an event, cut to length, without secrets."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Everything that was said, in the order that people read it."""
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": _message(record),
        }
        found |= {k: v for k, v in vars(record).items() if k not in _STANDARD and v not in ("", None)}
        cleaned = {key: self._clean(value) for key, value in found.items()}
        if record.exc_info:
            # Its last lines say what happened.
            cleaned["traceback"] = self._redactor.clean(self.formatException(record.exc_info))[-_LONGEST:]
        return cleaned

    def _clean(self, value: Any) -> Any:
        if isinstance(value, bool | int | float):
            return value
        if isinstance(value, list | tuple):
            return [self._clean(item) for item in value]
        # Masked before it is cut: half a secret has no known spelling.
        return self._redactor.clean(str(value))[:_LONGEST]


class _Json(_Masked):
    """One JSON object per line; control characters are escaped, so nobody can forge a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return json.dumps(self.fields(record), ensure_ascii=True)


class _Text(_Masked):
    """For people at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, message, then the fields; a traceback below."""
        found = self.fields(record)
        trace = found.pop("traceback", "")
        when, level, message = found.pop("time")[11:19], found.pop("level"), found.pop("message")
        rest = " ".join(f"{key}={_shown(value)}" for key, value in found.items())
        line = f"{when} {level:<7} {_printable(message)}" + (f"  {rest}" if rest else "")
        # Indented, so that no text in it passes for a line of its own.
        return "\n".join([line, *(f"    {_printable(one)}" for one in trace.splitlines())])


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # arguments that do not fit: of a library, perhaps, and still worth seeing
        return f"{record.msg} {record.args}"


def _shown(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return json.dumps(text) if " " in text or not text.isprintable() else text


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
