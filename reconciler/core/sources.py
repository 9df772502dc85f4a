"""The Containerfiles of one definition: inline, or in files beside it, one per architecture.

Belongs here: which text is whose, and what is wrong with the pairing. Does not belong here: reading the text itself.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.core.documents import MachineOSConfig
from reconciler.core.model import Arch, TreeEntry
from reconciler.errors import Fault, InvalidInput

_LIMIT = 1 << 20  # bytes
_NAME = "Containerfile"
_ARCHITECTURES: Mapping[str, Arch | None] = {_NAME: None} | {f"{_NAME}.{arch}": arch for arch in Arch}


@dataclass(frozen=True, slots=True)
class Source:
    """The Containerfile of one architecture (None: all): `text` when it is inline, else the blob `oid`. `line` is the
    file line of its first line."""

    path: str
    line: int
    text: str | None = None
    oid: str = ""

    @property
    def inline(self) -> bool:
        """Whether it stands in the document itself."""
        return self.text is not None

    def read(self, blobs: Mapping[str, bytes]) -> str:
        """Its text. Raises InvalidInput when it is not UTF-8."""
        if self.text is not None:
            return self.text
        content = blobs[self.oid]
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise InvalidInput([Fault(self.path, line, "is not UTF-8", "save the file as UTF-8")]) from error


def is_containerfile(path: str) -> bool:
    """Whether a file beside a definition is one of its Containerfiles, by its name."""
    return posixpath.basename(path) in _ARCHITECTURES


def find_sources(
    definition: MachineOSConfig, neighbours: Iterable[TreeEntry]
) -> tuple[dict[Arch | None, Source], list[Fault]]:
    """The texts of a definition by architecture (None: all), from the document and the files of its folder, and all
    that is wrong with them."""
    sources: dict[Arch | None, Source] = {
        arch: Source(definition.path, text.line, text.text)
        for arch, text in definition.containerfiles.items()
    }
    faults: list[Fault] = []
    for entry in neighbours:
        name = posixpath.basename(entry.path)
        if name not in _ARCHITECTURES:
            faults += _near_miss(entry.path, name)
            continue
        arch = _ARCHITECTURES[name]
        if arch in sources:
            other, whom = sources[arch], arch or "all architectures"
            problem = f"a second Containerfile for {whom}; the other is in {other.path}:{other.line}"
            faults.append(Fault(entry.path, 0, problem, "keep the inline text or the file, not both"))
            continue
        if entry.is_file and entry.size <= _LIMIT:
            sources[arch] = Source(entry.path, 1, oid=entry.oid)
        else:
            what = "is too large" if entry.is_file else "is not a regular file; links are not followed"
            faults.append(Fault(entry.path, 0, f"this Containerfile {what}", "put the text itself here"))
    if not sources and not faults:
        problem = f"pool {definition.pool} has no Containerfile"
        hint = "add spec.containerFile, or a file Containerfile beside this one"
        faults.append(Fault(definition.path, definition.line, problem, hint))
    return sources, faults


def _near_miss(path: str, name: str) -> list[Fault]:
    """A sibling that looks like an architecture's Containerfile but is none: silence would skip what it says."""
    base, _, suffix = name.partition(".")
    if base != _NAME or not suffix:
        return []
    try:
        arch = Arch.parse(suffix)
    except ValueError:
        return []
    return [Fault(path, 0, f"{name} is read by nobody", f"name it {_NAME}.{arch}")]
