"""Giving variables their values in one word, as imagebuilder's `shell_parser.go` does.

Belongs here: quotes, backslashes, `$name` and every `${name…}` form the builder knows.
Does not belong here: which variable has which value where (`scope`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from reconciler.core.containerfile.globs import BadPattern, Glob
from reconciler.core.containerfile.values import (
    ExpansionError,
    Meter,
    Text,
    derived,
    join,
    literal,
    plain,
)
from reconciler.core.containerfile.words import SPACE

_MAX_DEPTH: Final = 32
_MAX_SUBJECT: Final = 256
"""Longest value that a pattern is tried on: the builder tries it at every place."""

SINCE_REQUIRED: Final = (1, 30)
SINCE_PATTERNS: Final = (1, 37)


class Scope(Protocol):
    """Where a word stands: what its variables are, and who wants to know what it uses."""

    @property
    def meter(self) -> Meter:
        """Counts the work."""

    def lookup(self, name: str) -> Text:
        """The value of a variable; the empty text when it is not set."""

    def needs(self, since: tuple[int, int], what: str) -> None:
        """Told when the word uses a form that only buildah from `since` on knows."""


def expand(word: str, scope: Scope) -> Text:
    """The value of one word. Raises ExpansionError where the builder does, and beyond our caps."""
    scope.meter.spend(len(word) + 1)
    if not any(char in word for char in "$'\"\\"):
        return literal(word)
    return _Reader(word, scope).read()


def expand_words(word: str, scope: Scope) -> tuple[Text, ...]:
    """Like `expand`, but white space in values separates words; quotes hold them together."""
    scope.meter.spend(len(word) + 1)
    words = _Words()
    _Reader(word, scope).read(words)
    return words.finish()


class _Words:
    """Collects words as they are read."""

    __slots__ = ("_done", "_word")

    def __init__(self) -> None:
        self._done: list[Text] = []
        self._word: list[Text] = []

    def add(self, text: Text) -> None:
        """Add text that belongs to the word, white space included."""
        if text:
            self._word.append(text)

    def split(self, text: Text) -> None:
        """Add text in which white space ends the word."""
        for part in text:
            if not isinstance(part, str):
                self._word.append((part,))
                continue
            for char in part:
                if char not in SPACE:
                    self._word.append((char,))
                elif self._word:
                    self._done.append(join(self._word))
                    self._word = []

    def finish(self) -> tuple[Text, ...]:
        """All words."""
        return tuple([*self._done, join(self._word)] if self._word else self._done)


class _Reader:
    """Reads one word from left to right. Nesting is bounded, so recursion is too."""

    __slots__ = ("_pos", "_scope", "_word")

    def __init__(self, word: str, scope: Scope) -> None:
        self._word = word
        self._scope = scope
        self._pos = 0

    def read(self, words: _Words | None = None) -> Text:
        """The whole word."""
        return self._until("", 0, words)[1]

    def _peek(self) -> str:
        return self._word[self._pos : self._pos + 1]

    def _next(self) -> str:
        char = self._peek()
        self._pos += 1
        return char

    def _until(self, stops: str, depth: int, words: _Words | None = None) -> tuple[str, Text]:
        """What stands before the first of the characters `stops`, and which one it was."""
        if depth > _MAX_DEPTH:
            raise ExpansionError("${…} is nested too deeply")
        texts: list[Text] = []
        while char := self._peek():
            if char in stops:
                self._pos += 1
                return char, self._joined(texts)
            split = False
            if char == "'":
                text = self._single_quoted()
            elif char == '"':
                text = self._double_quoted(depth)
            elif char == "$":
                text, split = self._dollar(depth), True
            else:
                self._pos += 1
                split = char != "\\"
                text = literal(char if split else self._next())
            texts.append(text)
            if words is not None:
                (words.split if split else words.add)(text)
        if stops:
            raise ExpansionError(f"a {stops[-1]} is missing in {self._word[:80]!r}")
        return "", self._joined(texts)

    def _joined(self, texts: list[Text]) -> Text:
        text = join(texts)
        self._scope.meter.spend(len(texts))
        return text

    def _single_quoted(self) -> Text:
        end = self._word.find("'", self._pos + 1)
        if end < 0:
            raise ExpansionError(f"a single quote is not closed in {self._word[:80]!r}")
        text = self._word[self._pos + 1 : end]
        self._pos = end + 1
        return literal(text)

    def _double_quoted(self, depth: int) -> Text:
        self._pos += 1
        texts: list[Text] = []
        while (char := self._peek()) != '"':
            if not char:
                raise ExpansionError(f"a double quote is not closed in {self._word[:80]!r}")
            if char == "$":
                texts.append(self._dollar(depth))
                continue
            self._pos += 1
            if char == "\\" and self._peek() in ('"', "$", "\\"):
                char = self._next()
            texts.append(literal(char))
        self._pos += 1
        return self._joined(texts)

    def _name(self) -> str:
        start = self._pos
        if self._peek().isdecimal():
            return self._next()
        while (char := self._peek()) and (char.isalpha() or char.isdecimal() or char == "_"):
            self._pos += 1
        return self._word[start : self._pos]

    def _lookup(self, name: str) -> Text:
        text = self._scope.lookup(name)
        self._scope.meter.spend(1 + sum(len(part) if isinstance(part, str) else 1 for part in text))
        return text

    def _dollar(self, depth: int) -> Text:
        """The value of what starts with this `$`."""
        self._pos += 1
        if self._peek() != "{":
            name = self._name()
            return self._lookup(name) if name else literal("$")
        self._pos += 1
        name = self._name()
        mark = self._next()
        if mark == "}":
            return self._lookup(name)
        if mark == ":":
            return self._defaulted(name, self._next(), depth + 1)
        if mark in ("#", "%", "/"):
            self._scope.needs(SINCE_PATTERNS, f"${{…{mark}…}}")
            if mark == "/":
                return self._replaced(name, depth + 1)
            greedy = self._peek() == mark
            self._pos += greedy
            pattern = self._until("}", depth + 1)[1]
            return _Pattern(self._scope.meter, pattern).strip(self._lookup(name), mark, greedy)
        raise ExpansionError(f"the builder does not know the form of ${{…}} in {self._word[:80]!r}")

    def _defaulted(self, name: str, modifier: str, depth: int) -> Text:
        """`${name:-word}`, `${name:+word}` and `${name:?word}`."""
        word = self._until("}", depth)[1]
        if modifier not in ("-", "+", "?"):
            raise ExpansionError(f"the builder does not know ${{…:{modifier}…}} in {self._word[:80]!r}")
        if modifier == "?":
            self._scope.needs(SINCE_REQUIRED, "${…:?…}")
        value = self._lookup(name)
        if value and not any(isinstance(part, str) for part in value):
            return derived(f":{modifier}", value, word)
        if modifier == "+":
            return word if value else ()
        if modifier == "?" and not value and not word:
            raise ExpansionError(f"{name} must be set for {self._word[:80]!r}")
        return value or word

    def _replaced(self, name: str, depth: int) -> Text:
        """`${name/pattern/text}`, and with `//`, `/#` or `/%` all, a first or a last match."""
        where = self._peek() if self._peek() in ("/", "#", "%") else ""
        self._pos += len(where)
        stop, pattern = self._until("/}", depth)
        text = self._until("}", depth)[1] if stop == "/" else ()
        return _Pattern(self._scope.meter, pattern).replace(self._lookup(name), text, where)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The pattern of `${name#pattern}` and its kin, applied with the builder's own rules: they are not the
    shell's.
    """

    meter: Meter
    pattern: Text

    def _glob(self, *texts: Text) -> tuple[Glob | None, list[str]] | None:
        """The compiled pattern (None: it matches nothing) and the texts; None when something is unknown."""
        if not self.pattern:
            raise ExpansionError("a ${…} has an empty pattern")
        pattern, known = plain(self.pattern), [plain(text) for text in texts]
        if pattern is None or None in known:
            return None
        strings = [text or "" for text in known]
        if not all(text.isascii() and len(text) <= _MAX_SUBJECT for text in strings):
            raise ExpansionError("a ${…} with a pattern is applied to a long or non-ASCII value")
        self.meter.spend(sum(map(len, strings)) ** 2 + len(pattern))
        try:
            return Glob(pattern), strings
        except BadPattern:
            return None, strings

    def strip(self, value: Text, mark: str, greedy: bool) -> Text:
        """Take a matching prefix (`#`) or suffix (`%`) off."""
        found = self._glob(value)
        if found is None:
            return derived(mark * (1 + greedy), value, self.pattern)
        glob, (text,) = found
        if glob is None:
            return value
        # The builder never tries the whole value, and tries a length short of it one way only.
        forward = range(len(text) - 1)
        backward = range(len(text) - 1, -1, -1)
        places = backward if greedy is (mark == "#") else forward
        for place in places:
            if glob.matches(text[:place] if mark == "#" else text[place:]):
                return literal(text[place:] if mark == "#" else text[:place])
        return value

    def replace(self, value: Text, by: Text, where: str) -> Text:
        """Replace the longest match at the first place that has one; with `/` at every place."""
        found = self._glob(value, by)
        if found is None:
            return derived(f"/{where}", value, self.pattern, by)
        glob, (text, new) = found
        if glob is None:
            return value
        place = 0
        while place < len(text) and not (where == "#" and place):
            end = _longest(glob, text, place)
            if end is None or (where == "%" and end != len(text)):
                place += 1
                continue
            text = text[:place] + new + text[end:]
            self.meter.spend(len(text))
            if where != "/":
                break
            place += len(new)
        return literal(text)


def _longest(glob: Glob, text: str, start: int) -> int | None:
    """Where the longest match that starts at `start` and is not empty ends."""
    states, end = glob.start, None
    for place in range(start, len(text)):
        states = glob.step(states, text[place])
        if not states:
            break
        if glob.accepts(states):
            end = place + 1
    return end
