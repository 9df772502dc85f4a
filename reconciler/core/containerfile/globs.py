"""Matching paths and names against Go's glob patterns, in linear time.

Belongs here: patterns of ignore files (moby's flavour, with `**`), of COPY sources and of `${name#pattern}`.
Does not belong here: walking a tree (`context`), the order of ignore rules (`ignore`).
Rules observed in Go's `path/filepath.Match` and containers/storage `pkg/fileutils`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

MAX_PATTERN: Final = 4096
_MAX_MEMO: Final = 20_000


class BadPattern(ValueError):
    """A pattern that Go refuses, or that the builder reads as something else than it looks like."""


class _Kind(Enum):
    """What one token of a pattern does."""

    ONE = auto()
    """Takes one character of a set."""
    STAR = auto()
    """Takes any characters but `/`, or none."""
    ANY = auto()
    """Takes any characters, or none."""
    FOLDERS = auto()
    """Takes nothing, or any characters up to and including a `/`."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: _Kind
    negated: bool = False
    ranges: tuple[tuple[str, str], ...] = ()

    def takes(self, char: str) -> bool:
        return any(low <= char <= high for low, high in self.ranges) is not self.negated


_NOT_SLASH: Final = _Token(_Kind.ONE, True, (("/", "/"),))


def has_wildcard(text: str) -> bool:
    """Whether the builder takes the text for a pattern when nothing matches it."""
    return any(char in text for char in "*?[")


@dataclass(slots=True, unsafe_hash=True)
class Glob:
    """A compiled pattern: a state machine that remembers the steps it has taken before.

    `ignoring` is the flavour of ignore files: `**`, and a match of a folder takes all below it. Otherwise it
    is `filepath.Match`. Raises BadPattern.
    """

    pattern: str
    ignoring: bool = False
    _tokens: list[_Token] = field(init=False, compare=False, repr=False)
    _memo: dict[tuple[int, str], int] = field(init=False, default_factory=dict, compare=False, repr=False)
    _start: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.pattern) > MAX_PATTERN:
            raise BadPattern("the pattern is too long")
        self._tokens = _tokens(self.pattern, self.ignoring)
        self._start = self._close(1)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        states = self._start
        for char in text:
            states = self.step(states, char)
            if not states:
                return False
        return self.accepts(states)

    @property
    def start(self) -> int:
        """The states before any character: one bit each. Two more bits: inside `**/`, and below a matched
        folder.
        """
        return self._start

    def accepts(self, states: int) -> bool:
        """Whether the text may end in these states."""
        return bool(states >> (2 * len(self._tokens)) & 3)

    def step(self, states: int, char: str) -> int:
        """The states after one more character; 0 when nothing can match any more."""
        key = (states, char)
        known = self._memo.get(key)
        if known is None:
            if len(self._memo) >= _MAX_MEMO:
                self._memo.clear()
            known = self._memo[key] = self._close(self._move(states, char))
        return known

    def _move(self, states: int, char: str) -> int:
        """Bit 2i: before token i. Bit 2i + 1: inside token i, a FOLDERS that has taken something. Then the
        two ends.
        """
        moved = 0
        for place, token in enumerate(self._tokens):
            here, inside = states >> 2 * place & 1, states >> 2 * place + 1 & 1
            if token.kind is _Kind.FOLDERS:
                if here or inside:
                    moved |= 1 << 2 * place + 1
                    if char == "/":
                        moved |= 1 << 2 * place + 2
            elif here:
                if token.kind is _Kind.ONE:
                    if token.takes(char):
                        moved |= 1 << 2 * place + 2
                elif token.kind is _Kind.ANY or char != "/":
                    moved |= 1 << 2 * place
        end = 2 * len(self._tokens)
        if self.ignoring and ((states >> end & 1 and char == "/") or states >> end + 1 & 1):
            moved |= 1 << end + 1
        return moved

    def _close(self, states: int) -> int:
        """Add the states that are reached without taking a character."""
        for place, token in enumerate(self._tokens):
            if token.kind is not _Kind.ONE and states >> 2 * place & 1:
                states |= 1 << 2 * place + 2
        return states


def _tokens(pattern: str, ignoring: bool) -> list[_Token]:
    tokens: list[_Token] = []
    place = 0
    while place < len(pattern):
        char = pattern[place]
        place += 1
        if char == "*":
            if ignoring and pattern.startswith("*", place):
                place += 2 if pattern.startswith("*/", place) else 1
                tokens.append(_Token(_Kind.FOLDERS if place < len(pattern) else _Kind.ANY))
            else:
                tokens.append(_Token(_Kind.STAR))
        elif char == "?":
            tokens.append(_NOT_SLASH)
        elif char == "[":
            token, place = _set(pattern, place, ignoring)
            tokens.append(token)
        else:
            if char == "\\":
                char, place = _escaped(pattern, place, ignoring)
            elif ignoring and char in "+(){}|^":
                raise BadPattern(f"buildah reads {char!r} as part of a regular expression; write \\{char}")
            tokens.append(_Token(_Kind.ONE, False, ((char, char),)))
    return tokens


def _escaped(pattern: str, place: int, ignoring: bool) -> tuple[str, int]:
    if place >= len(pattern):
        raise BadPattern("the pattern ends with a backslash")
    char = pattern[place]
    if ignoring and (char.isalnum() or not char.isascii()):
        raise BadPattern(f"buildah reads \\{char} as part of a regular expression")
    return char, place + 1


def _set(pattern: str, place: int, ignoring: bool) -> tuple[_Token, int]:
    """The set that starts after a `[`, and where it ends."""
    negated = pattern.startswith("^", place)
    place += negated
    ranges: list[tuple[str, str]] = []
    while not (pattern.startswith("]", place) and ranges):
        low, place = _bound(pattern, place, ignoring)
        high = low
        if pattern.startswith("-", place):
            high, place = _bound(pattern, place + 1, ignoring)
        if ignoring and low > high:
            raise BadPattern("a range in […] runs backwards")
        ranges.append((low, high))
    return _Token(_Kind.ONE, negated, tuple(ranges)), place + 1


def _bound(pattern: str, place: int, ignoring: bool) -> tuple[str, int]:
    char = pattern[place : place + 1]
    if char in ("", "-", "]"):
        raise BadPattern("a […] is empty or not closed")
    if char == "\\":
        return _escaped(pattern, place + 1, ignoring)
    if ignoring and char == "[":
        raise BadPattern("buildah reads `[` inside […] as part of a regular expression")
    return char, place + 1
