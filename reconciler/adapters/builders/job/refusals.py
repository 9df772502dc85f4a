"""What a cluster's builder cannot build, in words.

Belongs here: judging an architecture and a recipe's needs. Does not belong here: finding out which nodes there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from reconciler.adapters.builders.machine import OLDEST
from reconciler.core.model import Arch, Needs
from reconciler.ports import Refusal

_VERSION: Final = re.compile(
    r"quay\.io/(?:buildah/[a-z]+|containers/buildah):v?(\d+)\.(\d+)(?:\.\d+)?(?:@.*)?"
)
"""The project's own images are tagged by buildah's version; others by that of whatever they are made of."""


def refusal(
    arch: Arch, needs: Needs, takes_jobs: frozenset[Arch], image: str, tolerations: str
) -> Refusal | None:
    """All reasons why a recipe cannot be built, or None. `image` runs the builds: its tag may tell buildah's version,
    and where it does not, the image is taken for new enough. `tolerations` is where taints are tolerated."""
    found = [*_nowhere(arch, takes_jobs, tolerations), *_dialect(needs, image)]
    if not found:
        return None
    hints = dict.fromkeys(refusal.hint for refusal in found)
    return Refusal("; ".join(refusal.message for refusal in found), "; ".join(hints))


def _nowhere(arch: Arch, takes_jobs: frozenset[Arch], tolerations: str) -> Iterator[Refusal]:
    if arch not in takes_jobs:
        yield Refusal(
            f"no node of {arch} can take a build",
            f"add a ready node of {arch}, or tolerate its taints ({tolerations})",
        )


def _dialect(needs: Needs, image: str) -> Iterator[Refusal]:
    match = _VERSION.fullmatch(image)
    if match is None:
        return
    version = int(match[1]), int(match[2])
    hint = "name a later image (builder.job.image)"
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield Refusal(f"{image} is too old: buildah {oldest} is the oldest that will do", hint)
        return
    for need in needs.dialect:
        if need.since > version:
            since = ".".join(map(str, need.since))
            yield Refusal(f"{need.path}:{need.line}: {need.what} needs buildah {since}, not {image}", hint)
