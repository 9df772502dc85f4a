"""The engine: what turns a pool's text and files into a recipe, and the version that its digests belong to.

Belongs here: putting parser, context and specialisation together. Does not belong here: remembering anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from reconciler.core.containerfile import Recipe, Trees, parse, specialise
from reconciler.core.model import Arch
from reconciler.core.pool import Blobs, Pool

VERSION: Final = "2"
"""Raise it whenever the same definition can give other digests: what another version recorded is then compared by
reading its source commit again (DESIGN §4.5), which rebuilds nothing."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Reads recipes. Digests of engines with the same `version` may be compared as they are.

    `trees` parses shell text; without it every RUN counts whole.
    """

    version: str = VERSION
    trees: Trees | None = None

    def recipe(self, pool: Pool, arch: Arch, blobs: Blobs) -> Recipe:
        """The recipe of one image; `blobs` holds what the pool needs. Raises InvalidInput when it cannot be built."""
        text, source = pool.text(arch, blobs), pool.source(arch)
        assert source is not None
        file = parse(text, source.path, source.line)
        return specialise(file, arch, pool.context_tree(arch, blobs), self.trees, probes=pool.probes)
