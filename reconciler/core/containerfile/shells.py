"""RUN and the shell evaluator: which texts it may look at, and what it may take for granted.

Belongs here: what the rest of a Containerfile says about the surroundings of a text. Does not belong here: reading
shell text (`core.shell`).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from reconciler.core.containerfile.context import ContextTree
from reconciler.core.containerfile.scope import DEFAULT_PATH
from reconciler.core.containerfile.state import StageState
from reconciler.core.containerfile.syntax import Containerfile, Instruction, Keyword
from reconciler.core.containerfile.values import literal, show
from reconciler.core.shell import (
    PROBES,
    SHELLS,
    Dialect,
    Known,
    replaced,
    single_blanks,
    specialise,
    unsettling,
    worth_parsing,
)

Trees = Callable[[str, Dialect], object | None]
"""`ports.ShellParser.tree`."""

_WHOLE: Final = frozenset(("", "bin", "sbin", "usr", "local"))
"""Folders in which programs are found, or that hold such folders."""
_TARGET: Final = re.compile(r"[=,](?:target|dst|destination)=([^,]*)")
_SHELLS: Final = frozenset(("/bin/sh", "/usr/bin/sh", "sh"))
_FLAGS: Final = {"-c": (), "-ec": (), "-uc": (), "-euc": (), "-exc": ("x",), "-euxc": ("x",), "-xc": ("x",)}
ASSUMED: Final = ("BASHOPTS", "SHELLOPTS")
"""Variables that change a shell, so a base image must not bring them where a text was evaluated."""


def replaced_programs(containerfile: Containerfile, context: ContextTree) -> frozenset[str]:
    """Probes and shells that something in a file or its context may put another program in the place of."""
    names = PROBES | SHELLS
    found = names & {posixpath.basename(entry.path) for entry in context.entries}
    for stage in containerfile.stages:
        for instruction in stage.body:
            found |= _replaced(instruction)
    return frozenset(found)


def _replaced(one: Instruction) -> frozenset[str]:
    names = PROBES | SHELLS
    if one.keyword in (Keyword.COPY, Keyword.ADD):
        words = [word.strip("\"'").rstrip("/") for word in one.words]
        target = posixpath.basename(words[-1]) if words else ""
        if target in _WHOLE and any(flag.startswith("--from=") for flag in one.flags):
            return names  # a folder of another image or stage, whose files nobody here can name
        return names & {posixpath.basename(word) for word in words}
    if one.keyword is Keyword.RUN:
        texts = [*one.words, *(heredoc.body for heredoc in one.heredocs)]
        return frozenset(chain.from_iterable(map(replaced, texts)))
    return frozenset()


def script(instruction: Instruction, text: str, dialect: str) -> tuple[tuple[str, ...], str] | None:
    """The shell text of a RUN and, for the exec form, the words before it; None when there is none we know."""
    if dialect == "sh":
        return (), text
    words = instruction.words
    if instruction.json and len(words) == 3 and words[0] in _SHELLS and words[1] in _FLAGS:
        return words[:2], words[2]
    return None


def residue(state: StageState, instruction: Instruction, head: tuple[str, ...], text: str) -> str | None:
    """What is left of a text here; None: keep the text."""
    build = state.build
    if build.trees is None or "\0" in text or _covered(instruction):
        return None
    known = Known(
        variables=dict(_variables(state)),
        arch=build.arch,
        probes_trusted=build.probes and _finds_probes(state),
        traced=bool(head and _FLAGS[head[1]]),
    )
    if not worth_parsing(text, known):
        return None
    tree = build.trees(text, known.dialect)
    return None if tree is None else specialise(tree, text, known)


def tidied(state: StageState, instruction: Instruction, text: str) -> str:
    """A text that is kept, without the blanks in it that mean nothing here."""
    found = single_blanks(text)
    if found == text or state.build.trees is None or "\0" in text or state.shell or _covered(instruction):
        return text
    if any(unsettling(name) for name, _ in _variables(state)):
        return text
    state.build.evaluated = True
    return found


def _covered(instruction: Instruction) -> bool:
    """Whether a mount may lie over the shell or other programs."""
    return any(posixpath.basename(target.rstrip("/")) in _WHOLE for target in _targets(instruction))


def _targets(instruction: Instruction) -> Iterator[str]:
    """Where a RUN mounts something."""
    for flag in instruction.flags:
        if flag.startswith("--mount="):
            yield from _TARGET.findall(flag)


def _variables(state: StageState) -> Iterator[tuple[str, str]]:
    """The environment, by what can be shown of it: a value with unknown parts shows a `$`, and is never believed."""
    for name, (value, _) in state.variables.inherited.items():
        yield name, "$" + show(value)  # only newer builders hand it on
    for values in (state.variables.args, state.variables.env):
        for name, text in values.items():
            yield name, show(text)


def _finds_probes(state: StageState) -> bool:
    """Whether the shell finds programs where the base image has them."""
    path = state.variables.env.get("PATH")
    untouched = path is None or (state.variables.scratch and path == literal(DEFAULT_PATH))
    native = state.stage.platform is state.build.arch  # emulators answer as they like
    return native and untouched and "PATH" not in state.variables.args
