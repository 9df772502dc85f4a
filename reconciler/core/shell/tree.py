"""The typed form of a shell syntax tree. Every part carries its own source text.

Belongs here: what a program is made of. Does not belong here: how it is read from a parser's answer (`reader`), or
what it does (`evaluate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Unproven(Exception):
    """Something that is not proven to be harmless: the text is kept as it is."""


class Dialect(StrEnum):
    """Which shell runs a text. `sh` may be dash, busybox or bash in POSIX mode: only what all agree on counts."""

    SH = "sh"
    BASH = "bash"


@dataclass(frozen=True, slots=True)
class Literal:
    """Unquoted characters."""

    text: str


@dataclass(frozen=True, slots=True)
class Single:
    """Between single quotes; `text` without them."""

    text: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name` or `${name…}`. `operator` is '' when the value is taken as it is; `operand` follows the operator."""

    name: str
    operator: str
    operand: str
    text: str


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(…)`, or the same in backquotes."""

    body: tuple[Statement, ...]
    backquoted: bool
    text: str


@dataclass(frozen=True, slots=True)
class Double:
    """Between double quotes."""

    parts: tuple[Part, ...]


Part = Literal | Single | Parameter | Substitution | Double


@dataclass(frozen=True, slots=True)
class Word:
    """One word; without parts it is empty."""

    parts: tuple[Part, ...]
    text: str

    @property
    def literal(self) -> str | None:
        """The source text when no part is quoted or expanded."""
        return self.text if all(isinstance(part, Literal) for part in self.parts) else None


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=word`."""

    name: str
    word: Word


@dataclass(frozen=True, slots=True)
class Document:
    """The lines of a here-document and the line that ends them; `parts` are what is expanded in it."""

    text: str
    end: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Redirect:
    """`fd` is '' when not written."""

    fd: str
    operator: str
    word: Word
    document: Document | None = None


@dataclass(frozen=True, slots=True)
class Simple:
    """Assignments and a command's words; either may be missing, and both with a redirection alone."""

    assigns: tuple[Assignment, ...] = ()
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """bash's `[[ … ]]`. `operator` is '' unless it is a single comparison of two words; `words` are all in it."""

    words: tuple[Word, ...]
    operator: str
    text: str


@dataclass(frozen=True, slots=True)
class AndOr:
    """Statements joined by `&&` and `||`, from left to right."""

    first: Statement
    rest: tuple[tuple[str, Statement], ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Two or more statements joined by `|`."""

    parts: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If:
    """`elif` is an `orelse` of a single If."""

    condition: tuple[Statement, ...]
    then: tuple[Statement, ...]
    orelse: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class While:
    """`keyword` is `while` or `until`."""

    keyword: str
    condition: tuple[Statement, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class For:
    """`words` is None when there is no `in`."""

    name: str
    words: tuple[Word, ...] | None
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Arm:
    """One item of a `case`, ended by `;;`."""

    patterns: tuple[Word, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """`case word in …`."""

    word: Word
    arms: tuple[Arm, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """`( … )` when `subshell`, else `{ …; }`."""

    body: tuple[Statement, ...]
    subshell: bool


Command = Simple | Comparison | AndOr | Pipeline | If | While | For | Case | Group


@dataclass(frozen=True, slots=True)
class Statement:
    """A command with what is around it."""

    command: Command
    redirects: tuple[Redirect, ...] = ()
    negated: bool = False
    background: bool = False
