"""The decision: for each pool and architecture an action, with reasons.

Belongs here: comparing wanted inputs with images that exist, as values. The digest decides; `explain` only words it.
Does not belong here: finding out what exists, and doing anything about the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from reconciler.core.inputs import Inputs, canonical_json, digest_of
from reconciler.core.model import Arch, Base
from reconciler.errors import Fault


class Action(StrEnum):
    """What happens to one image (DESIGN §4.4)."""

    BUILD = "build"
    REUSE = "reuse"
    BLOCKED = "blocked"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why. `ingredient` is one of DESIGN §4.2 or `image`, `definition`, `builder`; `change` one of added, removed,
    changed, unchanged, missing, invalid. Empty texts mean that there is nothing to say there."""

    ingredient: str
    change: str
    message: str
    path: str = ""
    line: int = 0
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """An image that exists and may be reused: what it was built from, canonicalised by today's engine.

    `image` is `repository@sha256:…`. `input` is None when bases are not known.
    """

    image: str
    definition: str
    input: str | None
    origin: str


@dataclass(frozen=True, slots=True)
class Target:
    """One image that a commit asks for. `bases` is None where they are not resolved (an offline plan); `obstacles`
    say why it cannot be built or even known. `os_image` is what the stage `configs` is made from, and
    `extensions_image` where its packages come from; '' where there is none."""

    pool: str
    arch: Arch
    inputs: Inputs | None
    bases: tuple[Base, ...] | None = None
    obstacles: tuple[Reason, ...] = ()
    os_image: str = ""
    extensions_image: str = ""

    @property
    def references(self) -> tuple[tuple[str, Arch], ...]:
        """All images that it is built from, each with the architecture it is wanted for."""
        own = self.inputs.analysis.bases if self.inputs else ()
        supplied = ((ref, self.arch) for ref in (self.os_image, self.extensions_image) if ref)
        return tuple(dict.fromkeys((*own, *supplied)))

    @property
    def definition(self) -> str | None:
        """The definition digest, None when the definition cannot be read."""
        return self.inputs.definition if self.inputs else None

    @property
    def input(self) -> str | None:
        """The input digest, None without bases."""
        return self.inputs.input(self.bases) if self.inputs and self.bases is not None else None


@dataclass(frozen=True, slots=True)
class Cell:
    """The decision for one pool and architecture. `image` is what is reused."""

    arch: Arch
    action: Action
    reasons: tuple[Reason, ...]
    definition: str | None = None
    previous: str | None = None
    input: str | None = None
    image: str | None = None


def decide(target: Target, images: Iterable[Image], *, locked: bool = False) -> tuple[Action, Image | None]:
    """`reuse` the first image whose inputs equal the wanted ones, else `build`, or `blocked` when something stands in
    the way.

    Input digests must be equal. Without resolved bases there are none to compare: then, and where the definition
    locks its bases to those it was built from, equal definition digests are enough.
    """
    for image in images:
        if target.input is not None and image.input == target.input:
            return Action.REUSE, image
        unresolved = target.bases is None and not target.obstacles
        if (locked or unresolved) and target.definition is not None and image.definition == target.definition:
            return Action.REUSE, image
    return (Action.BLOCKED if target.obstacles else Action.BUILD), None


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """All cells of one pool, in the order of the architectures; `path` is where it is defined."""

    name: str
    path: str
    cells: tuple[Cell, ...]
    warnings: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a commit causes. `base` is None when compared with what is recorded."""

    base: str | None
    head: str
    pools: tuple[PoolPlan, ...]
    removed: tuple[str, ...] = ()
    errors: tuple[Fault, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Binds a preview to what the daemon does later: all definition digests, and nothing of the world."""
        return digest_of(
            canonical_json(
                {pool.name: {c.arch.value: c.definition for c in pool.cells} for pool in self.pools}
            )
        )

    @property
    def summary(self) -> Mapping[Action, int]:
        """How many images each action has; every action is named."""
        cells = [cell for pool in self.pools for cell in pool.cells]
        return {action: sum(c.action is action for c in cells) for action in Action}
