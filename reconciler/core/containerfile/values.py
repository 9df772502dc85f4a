"""Text whose parts may be unknown until the base image is there, and the meter that bounds the work.

Belongs here: joining, showing and encoding such texts. Does not belong here: how variables get their values
(`expand`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

Json = str | list["Json"] | dict[str, "Json"]
"""What a canonical form is made of."""

MAX_TEXT: Final = 64 * 1024
"""Longest value, in characters; Linux refuses environment strings of twice that."""
_MAX_DEPTH: Final = 32
_MAX_WORK: Final = 8_000_000


class ExpansionError(ValueError):
    """A text that the builder refuses to expand, or that grows beyond all reason."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part that only the base image decides.

    Without `operation` it is the variable `name`. With one it is what that operation makes of `operands`, the
    first of which is unknown itself. `workdir` as operation is the base image's working directory.
    """

    name: str = ""
    operation: str = ""
    operands: tuple[Text, ...] = ()
    size: int = field(default=1, compare=False)
    depth: int = field(default=1, compare=False)


Text = tuple[str | Unknown, ...]
"""A text in parts: no part is empty, and no two strings are neighbours. `()` is the empty text."""


def derived(operation: str, *operands: Text) -> Text:
    """What `operation` makes of operands that are not all known. Raises ExpansionError beyond the caps."""
    parts = [part for operand in operands for part in operand if isinstance(part, Unknown)]
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > _MAX_DEPTH:
        raise ExpansionError("variables are nested too deeply")
    total = 1 + sum(map(size, operands))
    if total > MAX_TEXT:
        raise ExpansionError(f"a value is longer than {MAX_TEXT} characters")
    return (Unknown("", operation, operands, total, depth),)


def size(text: Text) -> int:
    """Length in characters; an unknown variable counts as one."""
    return sum(part.size if isinstance(part, Unknown) else len(part) for part in text)


def join(texts: Iterable[Text]) -> Text:
    """One text after the other. Raises ExpansionError when the result is too long."""
    parts: list[str | Unknown] = []
    run: list[str] = []
    total = 0
    for text in texts:
        total += size(text)
        if total > MAX_TEXT:
            raise ExpansionError(f"a value is longer than {MAX_TEXT} characters")
        for part in text:
            if isinstance(part, str):
                run.append(part)
                continue
            if run:
                parts.append("".join(run))
                run = []
            parts.append(part)
    if run:
        parts.append("".join(run))
    return tuple(parts)


def literal(text: str) -> Text:
    """A text that is fully known."""
    return (text,) if text else ()


def plain(text: Text) -> str | None:
    """The text as a string; None when a part is unknown."""
    if not text:
        return ""
    first = text[0]
    return first if len(text) == 1 and isinstance(first, str) else None


def encode(text: Text) -> Json:
    """The canonical form: a string when all is known, else the list of parts."""
    known = plain(text)
    return known if known is not None else [part if isinstance(part, str) else _part(part) for part in text]


def _part(part: Unknown) -> Json:
    if not part.operation:
        return {"variable": part.name}
    return {"operation": part.operation, "operands": [encode(operand) for operand in part.operands]}


def show(text: Text) -> str:
    """The text for people: what is unknown looks like a variable."""
    return "".join(part if isinstance(part, str) else _name(part) for part in text)


def _name(part: Unknown) -> str:
    if not part.operation:
        return f"${{{part.name}}}"
    if not part.operands:
        return f"<{part.operation} of the base image>"
    first, *rest = map(show, part.operands)
    return "${" + part.operation.join([first.removeprefix("${").removesuffix("}"), *rest]) + "}"


@dataclass(slots=True)
class Meter:
    """Counts work, in characters read and written, so that no input can keep us busy for long."""

    left: int = _MAX_WORK

    def spend(self, amount: int) -> None:
        """Raises ExpansionError when the whole file has asked for too much."""
        self.left -= amount
        if self.left < 0:
            raise ExpansionError("the file expands to more than we are willing to read")
