"""Tests and patterns whose result is certain.

Belongs here: `[`, `test`, `[[` and the patterns of `case` on sets of values. Does not belong here: what follows
from a result (`evaluate`).
"""

from __future__ import annotations

import re
from enum import Enum
from itertools import product
from math import prod
from typing import Final

from reconciler.core.shell.tree import Dialect, Double, Literal, Parameter, Single, Substitution, Word
from reconciler.core.shell.values import Env, Values

_MOST: Final = 64
_BINARY: Final = frozenset(
    ("=", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-ef", "-nt", "-ot", "<", ">", "==", "=~")
)
_UNARY: Final = frozenset(
    [
        "-b",
        "-c",
        "-d",
        "-e",
        "-f",
        "-g",
        "-G",
        "-h",
        "-k",
        "-L",
        "-n",
        "-N",
        "-O",
        "-p",
        "-r",
        "-s",
        "-S",
        "-t",
        "-u",
        "-w",
        "-x",
        "-z",
    ]
)
_OPERATORS: Final = frozenset(("=", "!=", "==", "-n", "-z", "-a", "-o"))
_PATTERN: Final = re.compile(r"[A-Za-z0-9_./:@%+,=*?-]*", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z0-9]")


class Match(Enum):
    """Whether a pattern matches."""

    YES = "yes"
    NO = "no"
    MAYBE = "maybe"


def bracket(words: tuple[Word, ...], env: Env, dialect: Dialect, *, unheard: bool) -> bool | None:
    """The result of `test` or `[` with these arguments; None: not certain.

    `unheard`: nobody can tell whether the shell complains about `==`.
    """
    literals = tuple(word.literal for word in words)
    inner = {3: literals[1:2], 4: literals[2:3]}.get(len(words), (None,))
    if literals[:1] == ("!",) and inner[0] in (("=", "!=") if len(words) == 4 else ("-n", "-z")):
        result = bracket(words[1:], env, dialect, unheard=unheard)
        return None if result is None else not result
    found = [_operand(word, env) for word in words]
    known = [values for values in found if values is not None]
    if len(known) != len(found) or not found or prod(map(len, known)) > _MOST:
        return None
    if len(words) == 3 and literals[1] == "==":
        return _doubled(known[0], known[2], dialect, unheard)
    results = {_expression(arguments, literals) for arguments in product(*known)}
    return results.pop() if len(results) == 1 else None


def _operand(word: Word, env: Env) -> Values | None:
    return frozenset({word.text}) if word.literal in _OPERATORS else env.argument(word)


def _doubled(left: Values, right: Values, dialect: Dialect, unheard: bool) -> bool | None:
    """`==`, an error to dash: then it fails there, and a comparison that fails is certain everywhere."""
    results = {a == b for a in left for b in right}
    if len(results) != 1:
        return None
    result = results.pop()
    if dialect is Dialect.BASH:
        return result
    return None if result or not unheard else False


def _expression(arguments: tuple[str, ...], literals: tuple[str | None, ...]) -> bool | None:
    """POSIX decides by the number of arguments what each of them is."""
    for joint in ("-a", "-o"):
        if joint in literals:
            return _joined(arguments, literals, joint)
    if len(arguments) == 3 and literals[1] in ("=", "!="):
        return (arguments[0] == arguments[2]) is (literals[1] == "=")
    if len(arguments) == 2 and literals[0] in ("-n", "-z"):
        return (arguments[1] == "") is (literals[0] == "-z")
    return None


def _joined(arguments: tuple[str, ...], literals: tuple[str | None, ...], joint: str) -> bool | None:
    """Comparisons joined by only one of -a and -o, whose operands nobody can take for operators."""
    if len(arguments) % 4 != 3:
        return None
    results = []
    for start in range(0, len(arguments), 4):
        left, operator, right = arguments[start : start + 3]
        if start and literals[start - 1] != joint:
            return None
        if literals[start + 1] not in ("=", "!=") or not _WORD.match(left) or not _WORD.match(right):
            return None
        results.append((left == right) is (operator == "="))
    return all(results) if joint == "-a" else any(results)


def double_bracket(words: tuple[Word, Word], operator: str, env: Env, dialect: Dialect) -> bool | None:
    """The result of `[[ left operator right ]]`. Where `[[` may not exist, only a failure is certain."""
    left, right = env.value(words[0]), env.value(words[1])
    if left is None or right is None:
        return None
    if dialect is Dialect.SH and (env.argument(words[0]) is None or env.argument(words[1]) is None):
        return None
    # A literal that looks like an operator may be one, and an empty operand is none to a shell without `[[`.
    if not all(_WORD.match(value) for value in left | right):
        return None
    results = {(a == b) is (operator != "!=") for a in left for b in right}
    if len(results) != 1:
        return None
    result = results.pop()
    return None if result and dialect is Dialect.SH else result


def pattern(word: Word, value: str, env: Env) -> Match:
    """Whether a pattern of `case` matches a value."""
    texts: list[str] = []
    for part in word.parts:
        if isinstance(part, Literal):
            if not _PATTERN.fullmatch(part.text):
                return Match.MAYBE
            texts.append(re.escape(part.text).replace(r"\*", ".*").replace(r"\?", "."))
            continue
        if not isinstance(part, Single | Double):
            return Match.MAYBE
        known = env.value(Word((part,), ""))
        if known is None or len(known) != 1:
            return Match.MAYBE
        texts.append(re.escape(*known))
    return Match.YES if re.fullmatch("".join(texts), value, re.DOTALL) else Match.NO


def harmless(words: tuple[Word, ...], env: Env) -> bool:
    """Whether a `test` that stays can have no side effect: `-v 'a[x=1]'` makes bash assign, and an operator may
    come out of a variable.
    """
    literals = [word.literal for word in words]
    groups: list[list[int]] = [[]]
    for place, text in enumerate(literals):
        if text in ("-a", "-o") and groups[-1]:
            groups.append([])
        else:
            groups[-1].append(place)
    return all(_harmless([words[i] for i in group], env) for group in groups)


def _harmless(words: list[Word], env: Env) -> bool:
    if any(_splits(word) and env.argument(word) is None for word in words):
        return False
    literals = [word.literal for word in words]
    if literals and literals[0] == "!":
        return _harmless(words[1:], env)
    if len(words) == 3:
        return literals[1] in _BINARY
    if len(words) == 2:
        return literals[0] in _UNARY
    return len(words) <= 1


def _splits(word: Word) -> bool:
    """Whether a word can become several, or something else than it says."""
    return any(
        isinstance(part, Parameter | Substitution)
        or (isinstance(part, Literal) and any(mark in part.text for mark in "*?[{"))
        for part in word.parts
    )
