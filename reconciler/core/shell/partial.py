"""One shell text, specialised for one architecture.

Belongs here: the order of the parts, and what is known at the start. Does not belong here: any rule of a shell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.core.model import Arch
from reconciler.core.shell.evaluate import Evaluator
from reconciler.core.shell.gate import Facts, examine
from reconciler.core.shell.limits import bounded
from reconciler.core.shell.names import can_be_known, changes_the_shell
from reconciler.core.shell.reader import read
from reconciler.core.shell.residue import render
from reconciler.core.shell.tree import Dialect, Unproven
from reconciler.core.shell.values import Env, Values, probe_answers, usable

_BRANCH: Final = re.compile(r"&&|\|\||\b(?:if|case)\b")
_PROBE: Final = re.compile(r"\b(?:uname|arch|dpkg|rpm|apk)\b")
_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_]\w*)", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Known:
    """What is certain about the environment of a text.

    `variables`: constants in the environment of the shell, by name. `arch`: what probes (`uname -m` and the like)
    print. `probes_trusted`: that they are the real ones; false where something on PATH may stand in for them.
    `traced`: the shell is started with `-x` or `-v`.
    """

    variables: Mapping[str, str]
    arch: Arch
    probes_trusted: bool = True
    dialect: Dialect = Dialect.SH
    traced: bool = False


def worth_parsing(text: str, known: Known) -> bool:
    """Whether a text could be decided in part: it branches, and uses something that is known. Costs no parser."""
    if not _BRANCH.search(text):
        return False
    uses = known.probes_trusted and _PROBE.search(text)
    if not uses and not any(name in known.variables for name in _VARIABLE.findall(text)):
        return False
    return bounded(text)


def specialise(tree: object, text: str, known: Known) -> str | None:
    """What is left of a text on one architecture: a shell program that does the same. None: keep the text.

    `tree` is what a `ports.ShellParser` says of the text. Equal results for two texts mean that, started with the
    same environment and files, they leave the same files and status on that architecture.
    """
    if not bounded(text) or any(map(unsettling, known.variables)):
        return None
    try:
        program = read(tree, text, known.dialect)
        if not program:
            return None
        facts = examine(program, text, known.dialect, known.traced)
        outcome = Evaluator(known.dialect, facts).statements(program, _start(known, facts))
        return render(outcome.node)
    except Unproven:
        return None


def unsettling(name: str) -> bool:
    """Variables that change the shell, or are functions or worse to it."""
    return changes_the_shell(name) or not _IDENTIFIER.fullmatch(name)


def _start(known: Known, facts: Facts) -> Env:
    variables: dict[str, Values] = {}
    for name, value in known.variables.items():
        values = usable([value])
        if values is not None and can_be_known(name) and name not in facts.fixed:
            variables[name] = values
    answers: dict[tuple[str, ...], Values] = {}
    # A probe that is missing makes the shell complain; where that is heard, leaving it out would show.
    if known.probes_trusted and not facts.captured and not facts.doubts_all:
        everything = probe_answers(known.arch)
        answers = {words: found for words, found in everything.items() if words[0] not in facts.doubted}
    return Env(variables, answers, frozenset(facts.fixed))
