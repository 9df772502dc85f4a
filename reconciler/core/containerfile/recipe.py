"""What a Containerfile comes to for one architecture: the recipe that is hashed and explained.

Belongs here: the frozen result. Does not belong here: how it is worked out (`specialise`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.core.containerfile.values import Json
from reconciler.core.model import Arch, Needs, TreeEntry
from reconciler.errors import Fault


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction that has an effect, for people: where it stands and its text for this architecture."""

    path: str
    line: int
    keyword: str
    text: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """A Containerfile, specialised for one architecture.

    `canonical`: JSON of lists, dicts and strings; equal for equal effects. `bases`: outside images that
    reachable stages use, as the builder would look them up, each with the architecture it is wanted for;
    sorted, unique, without `scratch` and without the `configs` that `uses_configs` stands for. `context`: the
    context files that reachable instructions take, sorted by path. `binds_context`: a RUN mounts the build
    context. `assumes`: names of build arguments that were given their values although the base image's
    environment, which wins, is not known yet. `steps` are in the order of execution.
    """

    arch: Arch
    canonical: Json
    bases: tuple[tuple[str, Arch], ...] = ()
    uses_configs: bool = False
    context: tuple[TreeEntry, ...] = ()
    binds_context: bool = False
    needs: Needs = field(default_factory=Needs)
    assumes: tuple[str, ...] = ()
    warnings: tuple[Fault, ...] = ()
    steps: tuple[Step, ...] = ()
