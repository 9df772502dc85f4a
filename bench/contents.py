"""What an image in a registry is: its files and its configuration, however many layers hold them.

Belongs here: reading and comparing images (DESIGN §4.1: history and timestamps do not count, nor do layer borders).
Does not belong here: deciding who missed what.
"""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
import tarfile
from typing import Any

from reconciler.adapters.registry import HttpRegistry

_LIMIT = 64 << 20
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"


def fingerprint(registry: HttpRegistry, repository: str, digest: str) -> str:
    """A hash over the files and the runtime configuration of one single-architecture image."""
    manifest = _document(registry, repository, digest)
    files: dict[str, tuple[object, ...]] = {}
    for layer in manifest["layers"]:
        _apply(files, _layer(registry, repository, layer["digest"]))
    config = json.loads(registry.blob(repository, manifest["config"]["digest"], _LIMIT))
    runtime = dict(config.get("config", {}))
    labels = runtime.get("Labels") or {}
    runtime["Labels"] = {name: value for name, value in labels.items() if name != "io.buildah.version"}
    whole = [
        config["architecture"],
        {key: value for key, value in runtime.items() if value},
        sorted(files.items()),
    ]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def children(registry: HttpRegistry, repository: str, reference: str) -> dict[str, str]:
    """Architecture → digest of the images in a manifest list."""
    found = _document(registry, repository, reference)
    return {entry["platform"]["architecture"]: entry["digest"] for entry in found["manifests"]}


def _document(registry: HttpRegistry, repository: str, reference: str) -> dict[str, Any]:
    found = registry.manifest(repository, reference)
    if found is None:
        raise LookupError(f"{repository} has no {reference}")
    document: dict[str, Any] = json.loads(found.content)
    return document


Entry = tuple[str, tuple[object, ...]]


def _layer(registry: HttpRegistry, repository: str, digest: str) -> tuple[Entry, ...]:
    content = registry.blob(repository, digest, _LIMIT)
    found = []
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isreg() else None
            data = hashlib.sha256(file.read()).hexdigest() if file else ""
            what = (member.type.decode(), member.mode, member.uid, member.gid, member.linkname, data)
            found.append((posixpath.normpath(member.name), what))
    return tuple(found)


def _apply(files: dict[str, tuple[object, ...]], layer: tuple[Entry, ...]) -> None:
    """Lay one layer over the others, with the whiteouts of the OCI image specification."""
    for path, what in layer:
        folder, name = posixpath.split(path)
        if name == _OPAQUE:
            _remove(files, folder, itself=False)
        elif name.startswith(_WHITEOUT):
            _remove(files, posixpath.join(folder, name.removeprefix(_WHITEOUT)), itself=True)
        else:
            files[path] = what


def _remove(files: dict[str, tuple[object, ...]], path: str, *, itself: bool) -> None:
    for known in [known for known in files if known.startswith(f"{path}/") or (itself and known == path)]:
        del files[known]
