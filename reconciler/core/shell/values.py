"""What is known of variables at one point of a program.

Belongs here: small sets of possible values, their join, and words in terms of them. Does not belong here: commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from reconciler.core.model import Arch
from reconciler.core.shell.names import can_be_known
from reconciler.core.shell.tree import Double, Literal, Parameter, Part, Simple, Single, Substitution, Word

Values = frozenset[str]
"""Every value that something can have. Never empty."""

_MOST: Final = 6
# No character here is special to any shell in any place where a value is used, and none is a separator.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@%+,=-]*", re.ASCII)
_LONGEST: Final = 200
_EMPTY: Final[Values] = frozenset({""})


def usable(values: Iterable[str]) -> Values | None:
    """The set, when it is small and its members are short and plain; else None: not known."""
    found = frozenset(values)
    if 0 < len(found) <= _MOST and all(len(v) <= _LONGEST and _PLAIN.fullmatch(v) for v in found):
        return found
    return None


def probe_answers(arch: Arch) -> dict[tuple[str, ...], Values]:
    """What commands print that ask for the architecture. Not every image has each of them but `uname`: a missing
    one prints nothing.
    """
    machine, debian = arch.machine, arch.debian
    return {
        ("uname", "-m"): frozenset({machine}),
        ("arch",): frozenset({machine, ""}),
        ("dpkg", "--print-architecture"): frozenset({debian, ""}),
        ("rpm", "--eval", "%_arch"): frozenset({machine, ""}),
        ("rpm", "--eval", "%{_arch}"): frozenset({machine, ""}),
        ("apk", "--print-arch"): frozenset({machine, ""}),
    }


@dataclass(frozen=True, slots=True)
class Env:
    """Variables with known values. `wild`: something may have changed any variable, so nothing is known any more.

    `answers` are the probes that are believed; `fixed` the variables that are never known.
    """

    variables: Mapping[str, Values]
    answers: Mapping[tuple[str, ...], Values] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    wild: bool = False

    def without(self, names: Iterable[str]) -> Env:
        """The same with these variables not known."""
        gone = frozenset(names)
        kept = {name: values for name, values in self.variables.items() if name not in gone}
        return Env(kept, self.answers, self.fixed, self.wild)

    def having(self, name: str, values: Values | None) -> Env:
        """The same after an assignment."""
        if values is None or self.wild or name in self.fixed or not can_be_known(name):
            return self.without((name,))
        return Env({**self.variables, name: values}, self.answers, self.fixed, self.wild)

    def gone_wild(self) -> Env:
        """After something that may have assigned anything."""
        return Env({}, {}, self.fixed, True)

    def value(self, word: Word) -> Values | None:
        """All values that a word can have where nothing splits it: assignments, `case`, quotes."""
        return self._joined(word.parts)

    def argument(self, word: Word) -> Values | None:
        """All values that a word can have as an argument, when it is certainly one argument."""
        found = self._joined(word.parts)
        bare = [part for part in word.parts if isinstance(part, Parameter | Substitution)]
        if found is None or not bare:
            return found
        # Unquoted: an empty value would be no argument. A plain one is not split: IFS is never touched.
        return found if all("" not in (self._part(part) or _EMPTY) for part in bare) else None

    def _joined(self, parts: tuple[Part, ...]) -> Values | None:
        found: list[Values] = []
        for part in parts:
            values = self._part(part)
            if values is None:
                return None
            found.append(values)
        count = 1
        for values in found:
            count *= len(values)
        return usable("".join(one) for one in product(*found)) if count <= _MOST else None

    def _part(self, part: Part) -> Values | None:
        if isinstance(part, Literal | Single):
            return usable([part.text])
        if isinstance(part, Double):
            return self._joined(part.parts)
        if isinstance(part, Parameter):
            return self._parameter(part)
        words = probe_words(part)
        return None if words is None else self.answers.get(words)

    def _parameter(self, part: Parameter) -> Values | None:
        values = self.variables.get(part.name)
        if values is None or part.operator == "":
            return values
        # The operand of these is used only for a value that is not set, or is empty.
        if part.operator in ("-", "=", "?") or (part.operator in (":-", ":=", ":?") and "" not in values):
            return values
        return None


def probe_words(part: Part) -> tuple[str, ...] | None:
    """The words of a substitution that is one plain command."""
    if not isinstance(part, Substitution) or len(part.body) != 1:
        return None
    statement = part.body[0]
    command = statement.command
    if statement.redirects or statement.negated or statement.background or not isinstance(command, Simple):
        return None
    if command.assigns:
        return None
    words = [_plain_text(word) for word in command.words]
    return tuple(word for word in words if word is not None) if None not in words else None


def _plain_text(word: Word) -> str | None:
    """A word without expansions, its quotes removed."""
    texts = []
    for part in word.parts:
        inner = part.parts if isinstance(part, Double) else (part,)
        for one in inner:
            if not isinstance(one, Literal | Single) or "\\" in one.text:
                return None
            texts.append(one.text)
    return "".join(texts)


def join(first: Env | None, second: Env | None) -> Env | None:
    """What is known after either of two ways. None is a way that never gets here."""
    if first is None or second is None:
        return first or second
    if first.wild or second.wild:
        return first.gone_wild()
    both = first.variables.keys() & second.variables.keys()
    joined = {name: usable(first.variables[name] | second.variables[name]) for name in both}
    kept = {name: values for name, values in joined.items() if values is not None}
    return Env(kept, first.answers, first.fixed)
