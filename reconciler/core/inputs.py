"""Inputs of one image, their canonical bytes, and the two digests that everything is decided by.

Belongs here: what counts as an input (DESIGN §4.2) and how it is hashed. Does not belong here: how a recipe is found
(`containerfile`), or what follows from equal and unequal digests (`plan`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from reconciler.core.containerfile import Recipe
from reconciler.core.model import Arch, Base

ENGINE: Final = "1"
"""Version of the canonicaliser. Raise it whenever the same definition can give other canonical bytes: records made by
another engine are then compared by canonicalising their source commit again (DESIGN §4.5), which rebuilds nothing."""


def canonical_json(value: Any) -> bytes:
    """One byte form per value: sorted keys, no white space, UTF-8. Raises TypeError for what JSON cannot hold."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Git paths need not be UTF-8; they arrive as surrogate escapes and must keep their own bytes.
    return text.encode("utf-8", "surrogateescape")


def digest_of(content: bytes) -> str:
    """`sha256:` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything in Git that decides one image, and the epoch. Bases are the world's and come in by `input`."""

    recipe: Recipe
    epoch: str = ""

    @property
    def arch(self) -> Arch:
        """The architecture these inputs are specialised for."""
        return self.recipe.arch

    @property
    def definition(self) -> str:
        """The definition digest: what a preview and a plan digest bind to."""
        return digest_of(canonical_json(self._document()))

    def input(self, bases: Iterable[Base]) -> str:
        """The input digest, with bases resolved to this architecture's manifests."""
        pinned = sorted([base.ref, base.digest] for base in bases)
        return digest_of(canonical_json(self._document() | {"bases": pinned}))

    def _document(self) -> dict[str, Any]:
        return {
            "format": "oci",
            "architecture": self.arch.value,
            "recipe": self.recipe.canonical,
            "context": [[entry.path, entry.mode, entry.oid] for entry in self.recipe.context],
            "machineConfig": None,
            "refresh": self.epoch,
        }
