"""Text to `Containerfile`: directives, continuations, comments, here-documents, one instruction per logical
line.

Belongs here: what the builder's parser does, and the caps that keep hostile input harmless.
Does not belong here: what the arguments of an instruction may be (`forms`), variables (`expand`).
Rules observed in openshift/imagebuilder `dockerfile/parser/parser.go` and tried with buildah 1.28.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from reconciler.core.containerfile import heredoc
from reconciler.core.containerfile.forms import read_instruction
from reconciler.core.containerfile.syntax import Containerfile, Heredoc, Instruction, Keyword, StageText
from reconciler.core.containerfile.words import SPACE, split_keyword
from reconciler.core.model import Dialect
from reconciler.errors import Fault, InvalidInput

MAX_BYTES: Final = 1024 * 1024
MAX_LINES: Final = 20_000
MAX_INSTRUCTIONS: Final = 2_000
_SCANNER_BYTES: Final = 64 * 1024
"""Longest line that buildah below 1.33 reads; it silently drops the rest of the file after a longer one."""

_ESCAPE: Final = re.compile(r"#[ \t]*escape[ \t]*=[ \t]*(.)", re.IGNORECASE)
_LEADING_TABS: Final = re.compile(r"^\t+", re.MULTILINE)
_HEREDOC_HINT: Final = (
    "write `<<NAME` without a blank before NAME; in arithmetic write `1<<2` inside quotes or use `*`"
)


def parse(text: str, path: str, first_line: int = 1) -> Containerfile:
    """Read a Containerfile.

    `path` names the file in faults; `first_line` is the line of that file on which the text starts.
    Raises InvalidInput with every fault found.
    """
    faults = _unreadable(text, path, first_line)
    if faults:
        raise InvalidInput(faults)
    reader = _Reader(path, first_line, _lines(text))
    reader.read()
    faults = reader.faults or _misplaced(reader.instructions, path)
    if faults:
        raise InvalidInput(faults)
    return _staged(reader)


def _unreadable(text: str, path: str, first_line: int) -> list[Fault]:
    """Faults of the text as a whole: nothing can be said about its lines then."""
    if path.endswith(".in"):
        hint = "name the file without .in, and write out what the preprocessor would insert"
        return [Fault(path, 0, "buildah runs files named *.in through a C preprocessor", hint)]
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return [Fault(path, 0, "the file is not UTF-8", "save it as UTF-8")]
    if size > MAX_BYTES:
        return [
            Fault(path, 0, f"the file is larger than {MAX_BYTES // 1024} KiB", "move data into context files")
        ]
    if text.count("\n") > MAX_LINES:
        return [Fault(path, 0, f"the file has more than {MAX_LINES} lines", "move data into context files")]
    faults = []
    for char, name in (("\0", "a NUL character"), ("\ufeff", "a byte-order mark that is not at the start")):
        place = text.find(char, 1 if char == "\ufeff" else 0)
        if place >= 0:
            line = first_line + text.count("\n", 0, place)
            faults.append(Fault(path, line, f"the line has {name}", "remove it"))
    return faults


def _lines(text: str) -> list[str]:
    """The lines without their ends: `\\n` or `\\r\\n`; a missing last newline makes no difference."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


@dataclass(slots=True)
class _Reader:
    """Goes over the lines once. The builder's scanner never goes back, and neither does this."""

    path: str
    first_line: int
    lines: list[str]
    next: int = 0
    escape: str = "\\"
    instructions: list[Instruction] = field(default_factory=list)
    dialect: list[Dialect] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def read(self) -> None:
        """Fill `instructions`, `dialect` and `faults`."""
        self._directives()
        self._long_lines()
        while self.next < len(self.lines):
            number = self.first_line + self.next
            logical = self._logical_line()
            if logical is not None:
                self._instruction(logical, number)
            if len(self.instructions) > MAX_INSTRUCTIONS:
                self._fault(number, f"more than {MAX_INSTRUCTIONS} instructions", "join RUN instructions")
                return

    def _fault(self, line: int, message: str, hint: str = "") -> None:
        self.faults.append(Fault(self.path, line, message, hint))

    def _directives(self) -> None:
        """`# escape=` counts on the very first line only: any other first line ends the search."""
        for number, line in enumerate(self.lines[:2]):
            match = _ESCAPE.match(line.lstrip(SPACE))
            if match is None:
                return
            if number:
                self._fault(self.first_line + 1, "a second escape directive", "keep one")
            elif match[1] in "\\`":
                self.escape = match[1]
            else:
                self._fault(self.first_line, f"invalid escape character {match[1]!r}", "use \\ or `")

    def _long_lines(self) -> None:
        for number, line in enumerate(self.lines, self.first_line):
            if len(line.encode()) >= _SCANNER_BYTES:
                self.dialect.append(Dialect((1, 33), self.path, number, "a line of more than 64 KiB"))

    def _logical_line(self) -> str | None:
        """The next line with its continuations; None for a blank line or a comment."""
        line, ends = self._cut(_without_comment(self._take().lstrip(SPACE)))
        if ends:
            return line or None
        parts = [line]
        while not ends and self.next < len(self.lines):
            line = _without_comment(self._take())
            if _without_comment(line.lstrip(SPACE)):
                line, ends = self._cut(line)
                parts.append(line)
        return "".join(parts)

    def _take(self) -> str:
        self.next += 1
        return self.lines[self.next - 1]

    def _cut(self, line: str) -> tuple[str, bool]:
        """The line without its continuation character, and whether the instruction ends here."""
        bare = line.rstrip(" \t")
        return (bare[:-1], False) if bare.endswith(self.escape) else (line, True)

    def _instruction(self, logical: str, number: int) -> None:
        try:
            instruction = read_instruction(logical, number, self.escape)
            if instruction.keyword in (Keyword.RUN, Keyword.COPY, Keyword.ADD) and not instruction.json:
                bodies = self._heredocs(logical, number)
                instruction = Instruction(
                    instruction.keyword, number, instruction.flags, instruction.words, False, bodies
                )
            elif instruction.keyword is Keyword.ONBUILD and not instruction.json:
                self._skip_bodies(logical, number, split_keyword(instruction.words[0])[0])
        except heredoc.HeredocError as error:
            self._fault(number, str(error), _HEREDOC_HINT)
            self.next = len(self.lines)  # what follows may be a body or instructions
        except ValueError as error:
            self._fault(number, *map(str, error.args))
        else:
            self.instructions.append(instruction)

    def _skip_bodies(self, logical: str, number: int, trigger: str) -> None:
        """A trigger has no effect, but its here-documents are no instructions."""
        if trigger in (Keyword.RUN, Keyword.COPY, Keyword.ADD):
            self._heredocs(logical, number)

    def _heredocs(self, logical: str, number: int) -> tuple[Heredoc, ...]:
        """Read the bodies that follow the line. Raises ValueError for one that does not end."""
        found = []
        for opening in heredoc.openings(logical):
            body: list[str] = []
            while True:
                if self.next >= len(self.lines):
                    raise ValueError(
                        f"the here-document {opening.name!r} does not end",
                        f"end it with a line that is exactly {opening.name}",
                    )
                line = self._take()
                if (line.lstrip("\t") if opening.chomp else line).rstrip("\r") == opening.name:
                    break
                body.append("\n" + line)
            text = "".join(body)
            text = _LEADING_TABS.sub("", text) if opening.chomp else text
            found.append(Heredoc(opening.name, text, opening.expand))
            self.dialect.append(Dialect((1, 36), self.path, number, "a here-document"))
        return tuple(found)


def _without_comment(line: str) -> str:
    return "" if line.startswith("#") else line


def _misplaced(instructions: list[Instruction], path: str) -> list[Fault]:
    """Instructions before the first FROM, or no FROM at all."""
    if not instructions:
        return [Fault(path, 0, "the file has no instructions", "start it with FROM")]
    if all(one.keyword is not Keyword.FROM for one in instructions):
        return [Fault(path, instructions[0].line, "there is no FROM", "start the file with FROM")]
    faults = []
    for instruction in instructions:
        if instruction.keyword is Keyword.FROM:
            break
        if instruction.keyword is not Keyword.ARG:
            message = f"{instruction.keyword} before the first FROM"
            faults.append(Fault(path, instruction.line, message, "only ARG may stand before FROM"))
    return faults


def _staged(reader: _Reader) -> Containerfile:
    starts = [place for place, one in enumerate(reader.instructions) if one.keyword is Keyword.FROM]
    ends = [*starts[1:], len(reader.instructions)]
    stages = tuple(
        StageText(position, reader.instructions[start], tuple(reader.instructions[start + 1 : end]))
        for position, (start, end) in enumerate(zip(starts, ends, strict=True))
    )
    head = tuple(reader.instructions[: starts[0]])
    return Containerfile(reader.path, head, stages, tuple(reader.dialect))
