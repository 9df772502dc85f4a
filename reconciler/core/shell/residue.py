"""What is left of a program, and the one way it is written.

Belongs here: the nodes that evaluation leaves and their text. The text is a shell program itself, so equal texts
mean the same: no other argument for injectivity is needed. Does not belong here: deciding (`evaluate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from reconciler.core.shell.tree import Document, Unproven


@dataclass(frozen=True, slots=True)
class Leaf:
    """A command whose text is ready; `documents` are its here-documents."""

    text: str
    documents: tuple[Document, ...] = ()


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    items: tuple[Residual, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Joined by `&&`, `||` or `|`, which is the same for all of `rest` when it is `|`."""

    first: Residual
    rest: tuple[tuple[str, Residual], ...]


@dataclass(frozen=True, slots=True)
class Prefixed:
    """`! …`."""

    body: Residual


@dataclass(frozen=True, slots=True)
class Background:
    """`… &`."""

    body: Residual


@dataclass(frozen=True, slots=True)
class Redirected:
    """A compound command with redirections."""

    body: Residual
    text: str
    documents: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A keyword, and what stands between it and the next one."""

    head: str
    body: Residual | None


@dataclass(frozen=True, slots=True)
class Compound:
    """`if`, `for`, `while`, `case` or a subshell: sections, and the closing word."""

    sections: tuple[Section, ...]
    end: str


Residual = Leaf | Sequence | Chain | Prefixed | Background | Redirected | Compound

TRUE: Final = Leaf("true")
COLON: Final = Leaf(":")
FALSE: Final = Leaf("false")
QUIET: Final = Chain(FALSE, (("&&", COLON),))
"""Fails like a test before `&&` does: `set -e` does not see it."""


def is_constant(node: Residual) -> bool:
    """Whether a node does nothing but have a status."""
    return node in (TRUE, FALSE, QUIET)


def sequence(items: list[Residual]) -> Residual:
    """A list in its shortest form. What only has a status counts in the last place alone, or if it can end the
    shell: nothing reads `$?`.
    """
    flat: list[Residual] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Sequence) else (item,))
    last = len(flat) - 1
    kept = [item for place, item in enumerate(flat) if place == last or item not in (TRUE, QUIET)]
    return kept[0] if len(kept) == 1 else Sequence(tuple(kept))


def chained(node: Residual, operator: str, added: Residual) -> Residual:
    """`node operator added`, without what cannot matter in the middle of a chain."""
    if not isinstance(node, Chain) or node.rest[0][0] == "|":
        return Chain(node, ((operator, added),))
    before, last = node.rest[-1]
    if added == COLON and (before, last) == (operator, COLON):
        return node
    neutral = (before == operator == "&&" and last == TRUE) or (before == operator == "||" and last == FALSE)
    rest = node.rest[:-1] if neutral else node.rest
    return Chain(node.first, (*rest, (operator, added)))


def conditional(condition: Residual, then: Residual, orelse: Residual | None) -> Residual:
    """An `if`."""
    sections = [Section("if", condition), Section("then", then)]
    if orelse is not None:
        sections.append(Section("else", orelse))
    return Compound(tuple(sections), "fi")


def render(node: Residual) -> str:
    """The text of a program. Raises Unproven where a here-document would end up in the middle of a word."""
    printer = _Printer()
    printer.write(node)
    printer.newline()
    return "".join(printer.out).rstrip("\n")


class _Printer:
    """Writes one program; here-documents wait for the end of their line."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self._waiting: list[Document] = []

    def newline(self) -> None:
        """End the line, then write the documents that wait for it."""
        self.out.append("\n")
        for document in self._waiting:
            self.out.append(f"{document.text}{document.end}\n")
        self._waiting.clear()

    def write(self, node: Residual) -> None:
        """Write a node where a list may stand."""
        if isinstance(node, Sequence):
            for place, item in enumerate(node.items):
                if place:
                    self.newline()
                self.write(item)
        elif isinstance(node, Leaf):
            self._say(node.text, node.documents)
        elif isinstance(node, Chain):
            self._chain(node)
        elif isinstance(node, Prefixed):
            self._say("! ")
            self._inside(node.body, (Prefixed,), and_or=True)
        elif isinstance(node, Background):
            self._inside(node.body, ())
            self._say(" &")
        elif isinstance(node, Redirected):
            self._inside(node.body, (Leaf, Chain, Prefixed, Redirected))
            self._say(f" {node.text}", node.documents)
        else:
            self._compound(node)

    def _say(self, text: str, documents: tuple[Document, ...] = ()) -> None:
        if self._waiting and "\n" in text:
            raise Unproven("a line end in a line with a here-document")
        if documents and "\n" in text:
            raise Unproven("a line end in a line with a here-document")
        self.out.append(text)
        self._waiting.extend(documents)

    def _chain(self, node: Chain) -> None:
        piped = node.rest[0][0] == "|"
        inner: tuple[type, ...] = (Chain, Prefixed) if piped else ()
        self._inside(node.first, inner)
        for operator, part in node.rest:
            self._say(f" {operator} ")
            self._inside(part, inner, and_or=True)

    def _inside(self, node: Residual, grouped: tuple[type, ...], *, and_or: bool = False) -> None:
        """Write a node where one command must stand, in braces where it would be read otherwise."""
        needs = isinstance(node, (Sequence, Background, *grouped)) or (and_or and _is_and_or(node))
        if not needs:
            self.write(node)
            return
        self._say("{")
        self.newline()
        self.write(node)
        self.newline()
        self._say("}")

    def _compound(self, node: Compound) -> None:
        for section in node.sections:
            self._say(section.head)
            self.newline()
            if section.body is not None:
                self.write(section.body)
                self.newline()
        self._say(node.end)


def _is_and_or(node: Residual) -> bool:
    return isinstance(node, Chain) and node.rest[0][0] != "|"
