"""Finding here-documents in a line, as BuildKit's lexer (which buildah uses for this) does.

Belongs here: which words of a line start a here-document, and what its delimiter is.
Does not belong here: collecting bodies (`parser`), expanding them (`bodies`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from reconciler.core.containerfile.words import SPACE

_WORD: Final = re.compile(r"\d*<<(-?)([\t\r ]*)([^<]*)", re.ASCII)
_PLAIN: Final = re.compile(r"[^\"'$`\\]+")
_QUOTED: Final = re.compile(r"\"([^\"$`\\]+)\"|'([^']+)'")
_LIKELY: Final = re.compile(r"<<-?[\"']?\w")
_MAX_DEPTH: Final = 32


class HeredocError(ValueError):
    """The line may or may not start a here-document: versions of buildah, or we, cannot tell."""


class _LexError(ValueError):
    """The line does not lex; buildah then takes it to hold no here-document."""


@dataclass(frozen=True, slots=True)
class Opening:
    """`<<NAME` as found in a line; `chomp` for `<<-`, `expand` when NAME is not quoted."""

    name: str
    chomp: bool
    expand: bool


def openings(line: str) -> tuple[Opening, ...]:
    """The here-documents that a RUN, COPY or ADD line starts, in order.

    Raises HeredocError where buildah's versions read the line differently.
    """
    if "<<" not in line:
        return ()
    try:
        words = _Lexer(line).words()
    except _LexError as error:
        if _LIKELY.search(line):
            raise HeredocError(f"`<<` in text that buildah cannot split into words: {error}") from error
        return ()
    return tuple(opening for word in words if (opening := _opening(word)) is not None)


def is_only_heredoc(text: str) -> bool:
    """Whether the text of a RUN is nothing but one `<<NAME`, so that its body is the script."""
    match = _WORD.fullmatch(text)
    return match is not None and bool(_QUOTED.fullmatch(match[3]) or len(match[3].split()) == 1)


def _opening(word: str) -> Opening | None:
    match = _WORD.fullmatch(word)
    if match is None or not match[3]:
        return None
    if match[2]:
        # buildah 1.41 took over BuildKit's rule that blanks may follow `<<`; before, `$((1 << 2))` was no
        # heredoc.
        raise HeredocError(
            "`<<` followed by a blank starts a here-document for some versions of buildah only"
        )
    if _PLAIN.fullmatch(match[3]):
        return Opening(match[3], chomp=bool(match[1]), expand=True)
    quoted = _QUOTED.fullmatch(match[3])
    if quoted is None:
        raise HeredocError(f"cannot tell what {match[3]!r} means as a delimiter")
    return Opening(quoted[1] or quoted[2], chomp=bool(match[1]), expand=False)


class _Lexer:
    """Splits a line into words; quotes and escapes stay, unset variables stay as they are."""

    __slots__ = ("_pos", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0

    def words(self) -> list[str]:
        """All words. Raises _LexError where the builder's lexer fails."""
        words: list[str] = []
        word: list[str] = []
        while self._pos < len(self._text):
            start, char = self._pos, self._text[self._pos]
            if char in SPACE:
                self._pos += 1
                if word:
                    words.append("".join(word))
                    word = []
                continue
            if self._text.startswith("<<", start):
                self._pos += 2
                while self._peek() in ("\t", "\r", " "):
                    self._pos += 1
            else:
                self._skip(char, 0)
            word.append(self._text[start : self._pos])
        return [*words, "".join(word)] if word else words

    def _peek(self) -> str:
        return self._text[self._pos : self._pos + 1]

    def _skip(self, char: str, depth: int) -> None:
        """Move over one item that starts with `char`."""
        self._pos += 1
        if char == "'":
            end = self._text.find("'", self._pos)
            if end < 0:
                raise _LexError("a single quote is not closed")
            self._pos = end + 1
        elif char == '"':
            self._double_quoted(depth)
        elif char == "$":
            self._dollar(depth)
        elif char == "\\":
            self._pos += 1

    def _double_quoted(self, depth: int) -> None:
        while (char := self._peek()) != '"':
            if not char:
                raise _LexError("a double quote is not closed")
            self._pos += 1
            if char == "$":
                self._dollar(depth)
            elif char == "\\" and self._peek() in ('"', "$", "\\"):
                self._pos += 1
        self._pos += 1

    def _dollar(self, depth: int) -> None:
        """Move over what follows a `$`."""
        if self._peek() != "{":
            self._name()
            return
        self._pos += 1
        if self._peek() in ("", "{", "}", ":"):
            raise _LexError("a bad ${…}")
        self._name()
        mark = self._peek()
        self._pos += 1
        if mark == ":":
            mark = self._peek()
            self._pos += 1
            if mark in ("#", "%"):
                raise _LexError("an unknown ${…:…}")
        if mark in ("+", "-", "?", "#", "%"):
            self._until("}", depth + 1)
        elif mark == "/":
            self._until("/", depth + 1)
            self._until("}", depth + 1)
        elif mark != "}":
            raise _LexError("an unknown ${…}")

    def _name(self) -> None:
        text, start = self._text, self._pos
        while self._pos < len(text) and text[self._pos].isdecimal():
            self._pos += 1
        if self._pos > start:
            return
        if self._peek() in tuple("@*#?-$!0"):
            self._pos += 1
            return
        while self._pos < len(text) and (text[self._pos].isalnum() or text[self._pos] == "_"):
            self._pos += 1

    def _until(self, stop: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise HeredocError("${…} is nested too deeply")
        while (char := self._peek()) != stop:
            if not char:
                raise _LexError("a ${…} is not closed")
            self._skip(char, depth)
        self._pos += 1
