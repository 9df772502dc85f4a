"""What must hold of a whole text before any of it is decided, and the facts that hold for all of it.

Belongs here: the allow-list of commands and forms, in live and dead branches alike: which branch is dead is only
decided afterwards, and a shell reads dead branches too. Does not belong here: spelling (`reader`), deciding
(`evaluate`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from reconciler.core.shell.names import DANGEROUS, HARMLESS, SPECIAL_PARAMETERS, changes_the_shell
from reconciler.core.shell.tree import (
    AndOr,
    Case,
    Comparison,
    Dialect,
    Double,
    For,
    If,
    Literal,
    Parameter,
    Part,
    Pipeline,
    Redirect,
    Simple,
    Single,
    Statement,
    Substitution,
    Unproven,
    While,
    Word,
)

_NAME: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+:@%,-]*|\[\[?|:", re.ASCII)
_FLAGS: Final = re.compile(r"[-+][euxvo]+", re.ASCII)
_OPTIONS: Final = frozenset(("errexit", "nounset", "xtrace", "verbose", "pipefail"))
_COUNT: Final = re.compile(r"[1-9]", re.ASCII)
_STATUS: Final = re.compile(r"[0-9]{1,3}", re.ASCII)
_EXPORTED: Final = re.compile(r"([A-Za-z_]\w*)(=.*)?", re.ASCII | re.DOTALL)
_PROBE_FILE: Final = re.compile(r"(?:^|/)(uname|arch|dpkg|rpm|apk)$")
_OBSERVED: Final = re.compile(r"/proc/(?:self|\$|\*|\d)|\bPPID\b")


@dataclass(slots=True)
class Facts:
    """What holds for a whole text.

    `fixed`: variables that are never known, because of a way of assigning that is not followed. `traced`: the shell
    may print what it runs. `captured`: what the shell itself prints to standard error may end up in a file or in
    another program. `doubted`: probes that the text may have replaced.
    """

    fixed: set[str] = field(default_factory=set)
    traced: bool = False
    captured: bool = False
    doubted: set[str] = field(default_factory=set)

    @property
    def doubts_all(self) -> bool:
        """Whether no probe can be believed."""
        return "" in self.doubted


def examine(program: tuple[Statement, ...], text: str, dialect: Dialect, traced: bool) -> Facts:
    """The facts of a program. Raises Unproven for whatever is not on the list."""
    gate = _Gate(dialect, Facts(traced=traced))
    if _OBSERVED.search(text):
        raise Unproven("the text may read its own process")
    gate.statements(program)
    facts = gate.facts
    if facts.captured and (facts.traced or "\n" in text.strip("\n")):
        # Traces show tests that are decided; messages of the shell show numbers of lines.
        raise Unproven("what the shell prints is captured")
    return facts


class _Gate:
    """One walk over a program. Its depth is bounded by the reader's."""

    def __init__(self, dialect: Dialect, facts: Facts) -> None:
        self.facts = facts
        self._dialect = dialect

    def statements(self, body: Iterable[Statement]) -> None:
        """Every statement of a list."""
        for one in body:
            self._statement(one)

    def _statement(self, one: Statement) -> None:
        self._redirects(one.redirects)
        command = one.command
        if isinstance(command, Simple):
            self._simple(command)
        elif isinstance(command, Comparison):
            for word in command.words:
                self._word(word)
        elif isinstance(command, AndOr):
            self.statements((command.first, *(part for _, part in command.rest)))
        elif isinstance(command, Pipeline):
            self.statements(command.parts)
        elif isinstance(command, If):
            self.statements((*command.condition, *command.then, *command.orelse))
        elif isinstance(command, While):
            self.statements((*command.condition, *command.body))
        elif isinstance(command, For):
            self._for(command)
        elif isinstance(command, Case):
            for word in (command.word, *(p for arm in command.arms for p in arm.patterns)):
                self._word(word)
            for arm in command.arms:
                self.statements(arm.body)
        else:
            self.statements(command.body)

    def _for(self, command: For) -> None:
        self._assigned(command.name)
        self.facts.fixed.add(command.name)
        for word in command.words or ():
            self._word(word)
        self.statements(command.body)

    def _redirects(self, redirects: tuple[Redirect, ...]) -> None:
        silent = False  # whether standard output goes nowhere
        for one in redirects:
            self._word(one.word)
            for part in one.document.parts if one.document else ():
                self._part(part)
            to_nowhere = one.operator in (">", ">>") and one.word.literal == "/dev/null"
            if one.fd == "2" and not to_nowhere and not (silent and one.word.literal == "1"):
                self.facts.captured = True
            if one.fd in ("", "1"):
                silent = to_nowhere
            if one.operator in (">&", "<&") and one.fd not in ("", "0", "1", "2"):
                # A copy of standard error under another number comes back by a second copy.
                self.facts.captured = True

    def _assigned(self, name: str) -> None:
        if changes_the_shell(name):
            raise Unproven(f"{name} is assigned")
        if name == "PATH":
            self.facts.doubted.add("")

    def _word(self, word: Word) -> None:
        for part in word.parts:
            self._part(part)
        plain = "".join(_shown(word.parts))
        found = _PROBE_FILE.search(plain)
        if found:
            self.facts.doubted.add(found[1])

    def _part(self, part: Part) -> None:
        if isinstance(part, Double):
            for one in part.parts:
                self._part(one)
        elif isinstance(part, Substitution):
            self.statements(part.body)
        elif isinstance(part, Parameter):
            if part.name in SPECIAL_PARAMETERS or part.name.startswith("BASH"):
                raise Unproven(f"${part.name} is used")
            if any(f"${name}" in part.operand for name in SPECIAL_PARAMETERS):
                raise Unproven(f"{part.text} is used")
            if part.operator in ("=", ":="):
                self._assigned(part.name)
                self.facts.fixed.add(part.name)

    def _simple(self, command: Simple) -> None:
        for one in command.assigns:
            self._assigned(one.name)
            self._word(one.word)
            if command.words:
                self.facts.fixed.add(one.name)
        if not command.words:
            return
        first, *rest = command.words
        name = first.literal
        if name is None or not _NAME.fullmatch(name) or name in DANGEROUS:
            raise Unproven(f"the command {first.text[:60]}")
        for word in rest:
            self._word(word)
        if name in HARMLESS:
            self._builtin(name, rest)
        elif name == "[[":
            self._double_bracket(rest)

    def _double_bracket(self, rest: list[Word]) -> None:
        """Syntax to bash, a command to busybox, not found to dash: read when it looks the same to all."""
        if self._dialect is not Dialect.SH or len(rest) not in (3, 4) or rest[-1].literal != "]]":
            raise Unproven("[[")
        operators = ("=", "==", "!=") if len(rest) == 4 else ("-n", "-z", "-f", "-e", "-d", "-x", "-s", "-L")
        if rest[-3].literal not in operators and not (len(rest) == 4 and rest[1].literal in operators):
            raise Unproven("[[")

    def _builtin(self, name: str, rest: list[Word]) -> None:
        texts = [word.literal for word in rest]
        if name == "set":
            self._set(texts)
        elif name == "exit":
            # Without a number it ends with the status of a command that may have been decided.
            if len(texts) != 1 or texts[0] is None or not _STATUS.fullmatch(texts[0]):
                raise Unproven("exit without a number")
        elif name in ("break", "continue"):
            if len(texts) > 1 or any(text is None or not _COUNT.fullmatch(text) for text in texts):
                raise Unproven(f"{name} with an unknown number")
        elif name == "command":
            if len(texts) < 2 or texts[0] not in ("-v", "-V"):
                raise Unproven("command that runs something")
        elif name == "export":
            for word in rest:
                self._export(word)
        elif name in ("wait", "shift", "ulimit", "umask", "kill"):
            self._operands(name, rest)

    def _operands(self, name: str, rest: list[Word]) -> None:
        """`wait -p` assigns, and so may what other shells add."""
        if name == "wait" and any(not re.fullmatch(r'[0-9]+|"?\$!"?', word.text) for word in rest):
            raise Unproven("wait with options")
        if name == "shift" and any(word.literal != "1" for word in rest):
            raise Unproven("shift by an expression")

    def _set(self, texts: list[str | None]) -> None:
        """`set -eux -o pipefail` and the like."""
        names = 0
        if not texts:
            raise Unproven("set shows every variable")
        for text in texts:
            if names and text in _OPTIONS:
                names -= 1
                self.facts.traced |= text in ("xtrace", "verbose")
            elif text is not None and not names and _FLAGS.fullmatch(text):
                names = text.count("o")
                self.facts.traced |= "x" in text or "v" in text
            else:
                raise Unproven("set with other options")
        if names:
            raise Unproven("set -o shows every option")

    def _export(self, word: Word) -> None:
        head = word.parts[0] if word.parts else None
        found = _EXPORTED.fullmatch(head.text) if isinstance(head, Literal) else None
        if found is None or (found[2] is None and len(word.parts) > 1):
            raise Unproven("export of something else than a name")
        self._assigned(found[1])


def _shown(parts: Iterable[Part]) -> Iterator[str]:
    """What can be seen of a word: its expansions count as a separator."""
    for part in parts:
        if isinstance(part, Literal | Single):
            yield part.text
        elif isinstance(part, Double):
            yield from _shown(part.parts)
        else:
            yield "/"
