"""What can be seen of a program without running it.

Belongs here: what statements may assign, wherever in them, and words that may be more than they seem. Does not belong
here: what is known (`values`), or what follows (`evaluate`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from reconciler.core.shell import decide
from reconciler.core.shell.tree import (
    AndOr,
    Case,
    Dialect,
    Double,
    For,
    Group,
    If,
    Literal,
    Parameter,
    Pipeline,
    Simple,
    Single,
    Statement,
    Substitution,
    While,
    Word,
)
from reconciler.core.shell.values import Env

_ASSIGNING: Final = re.compile(r"%[-#0 +'*.0-9$hlLjtzq]*n")


def splits(word: Word) -> bool:
    """Whether a word can become more than one."""
    return any(isinstance(part, Parameter | Substitution) for part in word.parts)


def plain_format(arguments: tuple[Word, ...]) -> bool:
    """Whether printf certainly has a format first that assigns nothing: bash does by `-v`, and by `%n` in a format."""
    texts: list[str] = []
    for part in arguments[0].parts if arguments else ():
        for one in part.parts if isinstance(part, Double) else (part,):
            if not isinstance(one, Literal | Single):
                return False
            texts.append(one.text)
    first = "".join(texts)
    return first[:1] not in ("", *"-*?[{~") and not _ASSIGNING.search(first.replace("%%", ""))


def assigned(body: Iterable[Statement]) -> frozenset[str]:
    """Every variable that statements assign, wherever in them."""
    names: set[str] = set()
    for one in everything(body):
        command = one.command
        if isinstance(command, Simple):
            names |= {assign.name for assign in command.assigns}
            if command.words and command.words[0].literal == "export":
                names |= {word.text.partition("=")[0] for word in command.words[1:]}
    return frozenset(names)


def everything(body: Iterable[Statement]) -> Iterator[Statement]:
    """Every statement, with those inside, but not those in words: these run in a shell of their own."""
    waiting = list(body)
    while waiting:
        one = waiting.pop()
        yield one
        command = one.command
        if isinstance(command, AndOr):
            waiting += [command.first, *(part for _, part in command.rest)]
        elif isinstance(command, Pipeline):
            waiting += command.parts
        elif isinstance(command, If):
            waiting += [*command.condition, *command.then, *command.orelse]
        elif isinstance(command, While):
            waiting += [*command.condition, *command.body]
        elif isinstance(command, For | Group):
            waiting += command.body
        elif isinstance(command, Case):
            waiting += [inner for arm in command.arms for inner in arm.body]


def may_run_wild(one: Statement, dialect: Dialect) -> bool:
    """Whether a command might assign anything, whatever is known: for commands that run more than once."""
    if not isinstance(one.command, Simple) or not one.command.words:
        return False
    name, arguments = one.command.words[0].literal, one.command.words[1:]
    if name in ("test", "["):
        return not decide.harmless(arguments[:-1] if name == "[" else arguments, Env({}))
    if name == "printf":
        return not plain_format(arguments)
    return name == "export" and dialect is Dialect.SH and any(map(splits, arguments))
