"""Inputs of one image, their canonical bytes, and the two digests that everything is decided by.

Belongs here: what counts as an input (DESIGN §4.2) and how it is hashed. Does not belong here: how a recipe is found
(`engine`), or what follows from equal and unequal digests (`plan`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from reconciler.core.containerfile import Recipe
from reconciler.core.machineconfig import Content
from reconciler.core.model import Arch, Base, Needs
from reconciler.errors import Fault

_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> bytes:
    """One byte form per value: sorted keys, no white space, UTF-8. Raises TypeError for what JSON cannot hold."""
    text = _ENCODER.encode(value)
    # Git paths need not be UTF-8; they arrive as surrogate escapes and must keep their own bytes.
    return text.encode("utf-8", "surrogateescape")


def digest_of(content: bytes) -> str:
    """`sha256:` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class Analysis:
    """What deciding needs to know of a recipe: small enough to be kept between runs.

    `content` is the digest of the recipe and the context files it takes; the rest is as in `Recipe`.
    """

    arch: Arch
    content: str
    bases: tuple[tuple[str, Arch], ...] = ()
    uses_configs: bool = False
    needs: Needs = field(default_factory=Needs)
    assumes: tuple[str, ...] = ()
    warnings: tuple[Fault, ...] = ()

    @classmethod
    def of(cls, recipe: Recipe) -> Self:
        """Of a recipe."""
        content = {
            "format": "oci",
            "recipe": recipe.canonical,
            "context": [[entry.path, entry.mode, entry.oid] for entry in recipe.context],
            "machineConfig": None,
        }
        return cls(
            recipe.arch,
            digest_of(canonical_json(content)),
            recipe.bases,
            recipe.uses_configs,
            recipe.needs,
            recipe.assumes,
            recipe.warnings,
        )


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything in Git that decides one image, and the epoch. Bases are the world's and come in by `input`.

    `definition` is the definition digest: what a preview and a plan digest bind to. `configs` is what the stage of
    that name brings, None for a recipe without it.
    """

    analysis: Analysis
    epoch: str
    definition: str
    configs: Content | None = None

    @classmethod
    def of(cls, analysis: Analysis, epoch: str = "", configs: Content | None = None) -> Self:
        """Of an analysis, in an epoch, with what the stage `configs` brings if the recipe uses it."""
        # Canonical JSON, put together by hand: of thousands of images this is all that every plan computes anew.
        refresh = canonical_json(epoch).decode() if epoch else '""'
        machine = ""
        if configs is not None:  # recipes without it have no such key: their digests are older than it
            machine = f'"machineConfig":"{digest_of(canonical_json(configs.canonical))}",'
        text = f'{{"architecture":"{analysis.arch}","content":"{analysis.content}",{machine}"refresh":{refresh}}}'
        return cls(analysis, epoch, digest_of(text.encode()), configs)

    @property
    def needs(self) -> Needs:
        """What a machine must be able to do to build it: the stage `configs` may run programs too."""
        needs = self.analysis.needs
        return replace(needs, runs=True) if self.configs and self.configs.runs else needs

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """What is odd, or left out, but can be built."""
        return self.analysis.warnings + (self.configs.layer.warnings if self.configs else ())

    def input(self, bases: Iterable[Base]) -> str:
        """The input digest, with bases resolved to this architecture's manifests."""
        pinned = sorted([base.ref, base.digest] for base in bases)
        return digest_of(canonical_json({"definition": self.definition, "bases": pinned}))
