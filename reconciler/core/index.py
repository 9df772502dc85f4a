"""Image manifests and indexes as bytes: what a child must look like, and the index over children.

Belongs here: reading and writing OCI JSON. Does not belong here: talking to a registry, or choosing children.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconciler.core.inputs import canonical_json
from reconciler.core.model import COMMIT, DIGEST, GROUP, Arch, Base

_INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True, slots=True)
class Child:
    """One image of an index: its manifest's digest, media type and size in bytes, and its platform."""

    arch: Arch
    digest: str
    media_type: str
    size: int
    variant: str = ""


def index_bytes(children: Iterable[Child]) -> bytes:
    """The index over `children`: the same children give the same bytes, in whatever order they come.

    `mediaType` and `platform` are always written: nodes tell an index by the first (MCO reads nothing else), and
    schedulers of other tools read the second without asking whether it is there.
    """
    manifests = []
    for child in sorted(children, key=lambda c: (c.arch.value, c.variant)):
        platform = {"architecture": child.arch.value, "os": "linux"}
        if child.variant:
            platform["variant"] = child.variant
        manifests.append(
            {"mediaType": child.media_type, "digest": child.digest, "size": child.size, "platform": platform}
        )
    return canonical_json({"schemaVersion": 2, "mediaType": _INDEX_TYPE, "manifests": manifests})


def load(content: bytes) -> dict[str, Any]:
    """A manifest, index or config as a mapping; empty when it is anything else (registries hold what people push)."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def child_digest(index: Mapping[str, Any], arch: Arch) -> str | None:
    """The digest of the one Linux image for `arch` in an index; None when it lists none.

    Attestations (`unknown` platform) never match. Of several variants the plainest is taken, as builders do.
    """
    found = []
    manifests = index.get("manifests")
    for entry in manifests if isinstance(manifests, list) else []:
        platform = entry.get("platform") if isinstance(entry, dict) else None
        if not isinstance(platform, dict):
            continue
        if platform.get("architecture") == arch.value and platform.get("os") == "linux":
            digest = entry.get("digest")
            if isinstance(digest, str) and DIGEST.fullmatch(digest):
                found.append((str(platform.get("variant", "")), digest))
    return min(found)[1] if found else None


def children(index: Mapping[str, Any]) -> dict[Arch, str]:
    """The digests of all the images for architectures that we know."""
    found = ((arch, child_digest(index, arch)) for arch in Arch)
    return {arch: digest for arch, digest in found if digest}


@dataclass(frozen=True, slots=True)
class Provenance:
    """What an arch image says of itself, in its manifest's annotations: the proof that a record may be believed."""

    input: str
    definition: str
    engine: str
    source_commit: str
    epoch: str
    bases: tuple[Base, ...]

    def annotations(self) -> dict[str, str]:
        """As manifest annotations; all keys are always set, so that none is inherited from a base image."""
        return {
            f"{GROUP}/input": self.input,
            f"{GROUP}/definition": self.definition,
            f"{GROUP}/engine": self.engine,
            f"{GROUP}/source-commit": self.source_commit,
            f"{GROUP}/epoch": self.epoch,
            f"{GROUP}/bases": canonical_json([[b.ref, b.digest] for b in sorted(self.bases)]).decode(),
        }


def provenance(manifest: Mapping[str, Any]) -> Provenance | None:
    """Read a manifest's annotations; None when they are not ours or not whole."""
    annotations = manifest.get("annotations")
    if not isinstance(annotations, dict):
        return None
    try:
        bases = json.loads(annotations[f"{GROUP}/bases"])
        found = Provenance(
            input=annotations[f"{GROUP}/input"],
            definition=annotations[f"{GROUP}/definition"],
            engine=annotations[f"{GROUP}/engine"],
            source_commit=annotations[f"{GROUP}/source-commit"],
            epoch=annotations[f"{GROUP}/epoch"],
            bases=tuple(Base(str(ref), str(digest)) for ref, digest in bases),
        )
        canonical_json(found.annotations())  # half a character, which no encoding has, is not from us
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    texts = (found.input, found.definition, found.engine, found.source_commit, found.epoch)
    whole = all(isinstance(text, str) for text in texts)
    return (
        found if whole and DIGEST.fullmatch(found.input) and COMMIT.fullmatch(found.source_commit) else None
    )
