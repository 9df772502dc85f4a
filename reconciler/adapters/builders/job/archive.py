"""A build's context as one archive, and that archive as an image when it is too large for a ConfigMap.

Belongs here: bytes that depend on nothing but the files. Does not belong here: which files those are (`context` checks
them), or where the bytes go.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Final

from reconciler.adapters.builders import context
from reconciler.core.inputs import canonical_json
from reconciler.core.model import Arch, TreeEntry
from reconciler.ports import OCI_MANIFEST, Manifest, Objects

NAME: Final = "context.tar.gz"
"""What the pod looks for, in a ConfigMap or in an image."""
_CONFIG_TYPE: Final = "application/vnd.oci.image.config.v1+json"
_LAYER_TYPE: Final = "application/vnd.oci.image.layer.v1.tar"
_LEVEL: Final = 6


def write(
    entries: tuple[TreeEntry, ...], objects: Objects, beside: Mapping[str, bytes], target: IO[bytes]
) -> None:
    """Write the context as `context/…`, and the files `beside` it, as a gzipped tar.

    The same files give the same bytes: modes, owners and times are fixed. One blob is in memory at a time. Raises as
    `context.lay_out` and `context.contents` do.
    """
    layout = context.lay_out(entries, objects)
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0, compresslevel=_LEVEL) as packed,
        tarfile.open(
            fileobj=packed,
            mode="w|",
            format=tarfile.GNU_FORMAT,  # names in whatever encoding, and of any length, for every tar
            encoding="utf-8",
            errors="surrogateescape",
        ) as archive,
    ):
        for name, content in sorted(beside.items()):
            _add(archive, name, content, 0o644)
        for folder in ("", *layout.folders):
            member = _member(f"context/{folder}".rstrip("/"), tarfile.DIRTYPE, 0o755)
            archive.addfile(member)
        for path, link in layout.links.items():
            member = _member(f"context/{path}", tarfile.SYMTYPE, 0o777)
            member.linkname = link
            archive.addfile(member)
        for entry, content in context.contents(layout, objects):
            _add(archive, f"context/{entry.path}", content, context.mode_of(entry))


@dataclass(frozen=True, slots=True)
class Artifact:
    """An image around an archive: `layer` and `config` are blobs, which its manifest names."""

    manifest: Manifest
    config: bytes

    @property
    def tag(self) -> str:
        """The tag that keeps it from a registry's garbage collection."""
        return f"context-{self.manifest.digest.removeprefix('sha256:')[:16]}"


def wrap(archive: IO[bytes], layer: IO[bytes], arch: Arch) -> Artifact:
    """Write a layer with an archive as its one file, and describe the image that consists of it.

    An archive in a layer, not its files: names that begin with `.wh.` would mean deletions there.
    """
    size = archive.seek(0, io.SEEK_END)
    archive.seek(0)
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        member = _member(NAME, tarfile.REGTYPE, 0o644)
        member.size = size
        packed.addfile(member, archive)
    layer_size = layer.seek(0, io.SEEK_END)
    digest = _digest(layer)
    config = canonical_json(
        {
            "architecture": arch.value,
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [digest]},
        }
    )
    document = canonical_json(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": {"mediaType": _CONFIG_TYPE, "digest": _digest(io.BytesIO(config)), "size": len(config)},
            "layers": [{"mediaType": _LAYER_TYPE, "digest": digest, "size": layer_size}],
        }
    )
    return Artifact(Manifest(_digest(io.BytesIO(document)), OCI_MANIFEST, document), config)


def size_of(file: IO[bytes]) -> int:
    """How many bytes a file holds; it is at its end then."""
    return file.seek(0, io.SEEK_END)


def content_of(file: IO[bytes]) -> bytes:
    """All that a file holds."""
    file.seek(0)
    held = io.BytesIO()
    shutil.copyfileobj(file, held)
    return held.getvalue()


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.mode = mode
    member.mtime = 0
    return member


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = _member(name, tarfile.REGTYPE, mode)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _digest(file: IO[bytes]) -> str:
    file.seek(0)
    return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"  # type: ignore[arg-type]
