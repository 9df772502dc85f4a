"""Manifests as bytes: are they what was asked for, and which blobs do they name.

Belongs here: checks on untrusted bytes. Does not belong here: fetching them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.adapters.registry.place import is_digest
from reconciler.adapters.registry.problems import Refusal, printable
from reconciler.ports import DOCKER_INDEX, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, Manifest

MANIFEST_LIMIT: Final = 4 * 1024 * 1024
"""Bytes of the largest manifest: what the distribution specification asks registries to take, and most
enforce."""
_UNTYPED: Final = ("", "application/json", "application/octet-stream", "text/plain")
"""What servers that know nothing of manifests, such as plain file servers, call one."""
MANIFEST_TYPES: Final = (OCI_INDEX, OCI_MANIFEST, DOCKER_INDEX, DOCKER_MANIFEST)


@dataclass(frozen=True, slots=True, order=True)
class Blob:
    """What a manifest says about one of its blobs; `size` in bytes."""

    digest: str
    size: int


def digest_of(content: bytes) -> str:
    """The sha256 digest, as registries spell it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def verified_manifest(reference: str, headers: Mapping[str, str], content: bytes) -> Manifest:
    """The manifest in a registry's answer. Raises Refusal when bytes, headers and `reference` do not
    agree."""
    actual = digest_of(content)
    claims = [headers.get("docker-content-digest", ""), reference]
    for claim in filter(is_digest, claims):
        if claim != actual:
            raise Refusal(f"the registry's bytes have the digest {actual}, not {claim}")
    document = _object(content)
    declared = headers.get("content-type", "").partition(";")[0].strip().lower()
    inner = document.get("mediaType")
    media_type = inner if declared in _UNTYPED else declared
    if not isinstance(media_type, str) or media_type not in MANIFEST_TYPES:
        raise Refusal(f"{printable(declared) or 'content without a type'} is not a known kind of manifest")
    if inner is not None and inner != media_type:
        raise Refusal(f"the registry calls it {media_type}, but it calls itself {printable(str(inner))}")
    manifest = Manifest(actual, media_type, content)
    # One document that reads as an image and as an index is two contents under one digest (CVE-2021-41190).
    other = ("layers", "config") if manifest.is_index else ("manifests",)
    if any(key in document for key in other):
        raise Refusal(f"it is ambiguous: {media_type} with {' or '.join(map(repr, other))}")
    return manifest


def blobs_of(manifest: Manifest) -> tuple[Blob, ...]:
    """Each blob of a single image once, its config first.

    Raises Refusal when it is an index, or names a blob by something else than a sha256 digest and a size.
    """
    if manifest.is_index:
        raise Refusal("it is an index, not a single image")
    document = _object(manifest.content)
    layers = document.get("layers")
    if not isinstance(layers, list):
        raise Refusal("it has no list of layers")
    return tuple(dict.fromkeys(_blob(entry) for entry in [document.get("config"), *layers]))


def _object(content: bytes) -> Mapping[str, object]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Refusal("the manifest is not a JSON object")
    return document


def _blob(entry: object) -> Blob:
    if isinstance(entry, dict):
        digest, size = entry.get("digest"), entry.get("size")
        if isinstance(digest, str) and is_digest(digest) and type(size) is int and size >= 0:
            return Blob(digest, size)
    raise Refusal("it names a blob without a sha256 digest and a size")
