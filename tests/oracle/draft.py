"""What a case is made of: a Containerfile in the making, the files of its context, and pairs of definitions.

Belongs here: plain values. Does not belong here: which edits there are (`kinds`), what they come to (`judge`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from reconciler.core.model import Arch


@dataclass(frozen=True, slots=True)
class File:
    """A file of a context; with `link`, `text` is the target of a symbolic link."""

    text: str
    executable: bool = False
    link: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A Containerfile and the other files of its context, by path; `machines` are MachineConfigs, for FROM configs."""

    text: str
    files: Mapping[str, File]
    machines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """One edit: a definition before and after it, and the architectures that it is judged for.

    `seed` and `number` make the same pair again.
    """

    kind: str
    seed: int
    number: int
    before: Definition
    after: Definition
    arches: tuple[Arch, ...]


@dataclass(slots=True)
class Draft:
    """A definition that can still be edited: one element of `lines` is one instruction, comment or blank line."""

    lines: list[str] = field(default_factory=list)
    files: dict[str, File] = field(default_factory=dict)
    machines: list[str] = field(default_factory=list)

    def definition(self) -> Definition:
        """The draft as it stands."""
        return Definition("".join(f"{line}\n" for line in self.lines), dict(self.files), tuple(self.machines))

    def final(self) -> int:
        """The place of the last FROM."""
        return max(place for place, line in enumerate(self.lines) if line.startswith("FROM "))

    def insert(self, rng: Random, *lines: str) -> int:
        """Put lines somewhere into the last stage, after its first ARG; give the place of the first."""
        place = rng.randint(self.final() + 2, len(self.lines))
        self.lines[place:place] = lines
        return place

    def append(self, *lines: str) -> int:
        """Put lines at the end; give the place of the first."""
        self.lines += lines
        return len(self.lines) - len(lines)

    def prepend(self, *lines: str) -> None:
        """Put lines at the top."""
        self.lines[:0] = lines

    def replace(self, old: str, new: str) -> None:
        """Replace text wherever it stands. Raises ValueError when it stands nowhere: then a kind is no edit."""
        if not any(old in line for line in self.lines):
            raise ValueError(f"{old!r} is in no line")
        self.lines[:] = [line.replace(old, new) for line in self.lines]


Edit = Iterator[None]
"""A kind in progress: it prepares the draft, yields once for the picture before, and edits."""

Kind = Callable[[Draft, Random], Edit]
"""A kind of edits; what it does not prescribe is left to chance."""
