"""What can happen to a connection, as values: for the fault proxy.

Belongs here: faults, whom they strike, and how much each lets through. Does not belong here: connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final


class Toward(Enum):
    """Which way bytes go."""

    CLIENT = auto()
    SERVER = auto()


class End(Enum):
    """How a connection ends."""

    CLOSE = auto()
    """In order, as when a process exits."""
    RESET = auto()
    """At once (RST), as when a machine restarts."""
    SILENCE = auto()
    """It stays open, and nothing comes any more, as when a machine or a cable is gone."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Nobody listens, and who was connected is reset."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Every piece toward the client comes so many seconds late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cut:
    """After so many bytes in one direction there is an end, on both sides unless it is silence. `then` is called
    first. Where it strikes one exchange, the bytes are those of its body."""

    after: int = 0
    toward: Toward = Toward.CLIENT
    how: End = End.CLOSE
    then: Callable[[], object] | None = None


HALF_OPEN: Final = Cut(toward=Toward.SERVER, how=End.SILENCE)
"""Connections are accepted, and nobody says anything."""
SWALLOW: Final = Cut(toward=Toward.CLIENT, how=End.SILENCE)
"""The server hears, and is not heard."""
RESET: Final = Cut(toward=Toward.SERVER, how=End.RESET)
"""Connections are accepted, and reset at the first word."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer in the server's place; it hears nothing of it."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class DropReply:
    """Let the server do what it was asked for, call `then`, and close the connection without an answer."""

    then: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Before:
    """Do something, and let the request go on when that is done."""

    call: Callable[[], object]


Fault = Refuse | Delay | Cut | None
Action = Answer | DropReply | Before | Delay | Cut


@dataclass(frozen=True, slots=True)
class Request:
    """A request that came, whatever became of it; `path` with its query."""

    method: str
    path: str


@dataclass(slots=True)
class Rule:
    """An action for exchanges with `path` in their path; `left` says how many more, None that there is no end."""

    action: Action
    method: str
    path: str
    left: int | None

    def matches(self, request: Request) -> bool:
        """Whether it is for this request."""
        return self.method in ("", request.method) and self.path in request.path and self.left != 0


@dataclass(slots=True)
class Gate:
    """What one fault lets through of one direction."""

    fault: Fault | Action
    toward: Toward
    passed: int = 0

    async def through(self, data: bytes) -> tuple[bytes, Cut | None]:
        """The part that goes through now, and the cut that comes after it."""
        if isinstance(self.fault, Delay) and self.toward is Toward.CLIENT:
            await asyncio.sleep(self.fault.seconds)
        room = len(data)
        if isinstance(self.fault, Cut) and self.fault.toward is self.toward:
            room = min(room, self.fault.after - self.passed)
        self.passed += room
        return data[:room], self.fault if room < len(data) and isinstance(self.fault, Cut) else None
