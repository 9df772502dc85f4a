"""The status file of a pool: the record of its images that the reconciler commits (DESIGN §9).

Belongs here: the record as values, and its one spelling in bytes.
Does not belong here: deciding whether a record may be believed; the registry is asked for that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, PlainValidator

from reconciler.core.documents.shape import Strict, at_place, check, one_of, only_document, rule
from reconciler.core.documents.values import Commit, Digest, DnsLabel, DnsSubdomain, PinnedImage
from reconciler.core.model import API_VERSION, Arch, Base
from reconciler.core.yaml import Document, shown
from reconciler.errors import Fault, InvalidInput

KIND: Final = "MachineOSImage"


@dataclass(frozen=True, slots=True)
class ArchRecord:
    """One architecture's image: what it is and all that it was built from.

    `image` is `repository@sha256:…`; `input` and `definition` are digests; `source_commit` is the commit it
    was built from, which reuse never advances; `bases` are in no order.
    """

    arch: Arch
    image: str
    input: str
    definition: str
    source_commit: str
    epoch: str
    bases: tuple[Base, ...]


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """One pool's index and the images in it. `source_commit` is the commit that led to this index."""

    pool: str
    instance: str
    engine: str
    image: str
    source_commit: str
    architectures: tuple[ArchRecord, ...]


class _ApiVersion(StrEnum):
    V1ALPHA1 = API_VERSION


class _Kind(StrEnum):
    MACHINE_OS_IMAGE = KIND


def _not_empty(text: str) -> str:
    if not text:
        raise rule("must not be empty", "status files are written by the reconciler only")
    return text


class _Metadata(Strict):
    name: DnsSubdomain


class _Base(Strict):
    ref: Annotated[str, AfterValidator(_not_empty)]
    digest: Digest


class _Architecture(Strict):
    arch: Annotated[Arch, PlainValidator(one_of(Arch))]
    image: PinnedImage
    input: Digest
    definition: Digest
    source_commit: Commit
    epoch: str
    bases: list[_Base]


class _Status(Strict):
    instance: DnsLabel
    engine: Annotated[str, AfterValidator(_not_empty)]
    image: PinnedImage
    source_commit: Commit
    architectures: Annotated[list[_Architecture], AfterValidator(_not_empty)]


class _File(Strict):
    api_version: Annotated[_ApiVersion, PlainValidator(one_of(_ApiVersion))]
    kind: Annotated[_Kind, PlainValidator(one_of(_Kind))]
    metadata: _Metadata
    status: _Status


def read_status(content: bytes, path: str) -> PoolRecord:
    """The record in a status file, sorted by architecture and base. Raises InvalidInput with all its
    faults."""
    document = only_document(content, path, API_VERSION, KIND)
    file, faults = check(_File, document)
    if file is None:
        raise InvalidInput(set(faults))
    if repeated := _repeated(file.status.architectures, document):
        raise InvalidInput(repeated)
    return PoolRecord(
        pool=file.metadata.name,
        instance=file.status.instance,
        engine=file.status.engine,
        image=file.status.image,
        source_commit=file.status.source_commit,
        architectures=tuple(sorted(map(_record, file.status.architectures), key=lambda record: record.arch)),
    )


def _record(entry: _Architecture) -> ArchRecord:
    return ArchRecord(
        arch=entry.arch,
        image=entry.image,
        input=entry.input,
        definition=entry.definition,
        source_commit=entry.source_commit,
        epoch=entry.epoch,
        bases=tuple(sorted(Base(base.ref, base.digest) for base in entry.bases)),
    )


def _repeated(entries: list[_Architecture], document: Document) -> list[Fault]:
    """What is recorded twice: no answer to "which image?" would be sound."""
    faults = []
    hint = "restore the file from its history"
    archs: set[str] = set()
    for i, entry in enumerate(entries):
        place = ("status", "architectures", i)
        if entry.arch in archs:
            faults.append(at_place(document, place, f"records {entry.arch} a second time", hint))
        archs.add(entry.arch)
        refs: set[str] = set()
        for j, base in enumerate(entry.bases):
            if base.ref in refs:
                message = f"records base {shown(base.ref)} a second time"
                faults.append(at_place(document, (*place, "bases", j), message, hint))
            refs.add(base.ref)
    return faults


def write_status(record: PoolRecord) -> bytes:
    """The file of a record: the same bytes for the same record, in whatever order it lists its parts."""
    lines = [
        f"apiVersion: {API_VERSION}",
        f"kind: {KIND}",
        f"metadata: {{name: {_scalar(record.pool)}}}",
        "status:",
        f"  instance: {_scalar(record.instance)}",
        f"  engine: {_scalar(record.engine)}",
        f"  image: {_scalar(record.image)}",
        f"  sourceCommit: {_scalar(record.source_commit)}",
        "  architectures:",
    ]
    for entry in sorted(record.architectures, key=lambda entry: entry.arch):
        bases = ", ".join(
            f"{{ref: {_scalar(b.ref)}, digest: {_scalar(b.digest)}}}" for b in sorted(entry.bases)
        )
        lines += [
            f"  - arch: {_scalar(entry.arch)}",
            f"    image: {_scalar(entry.image)}",
            f"    input: {_scalar(entry.input)}",
            f"    definition: {_scalar(entry.definition)}",
            f"    sourceCommit: {_scalar(entry.source_commit)}",
            f"    epoch: {_scalar(entry.epoch)}",
            f"    bases: [{bases}]",
        ]
    return ("\n".join(lines) + "\n").encode()


# Text that every YAML reader, of 1.1 or 1.2, takes as text without quotes: it starts with a letter and is no
# word of YAML 1.1, or has a slash, or is a commit with a digit that no number has (a `b` could mean binary,
# an `e` an exponent).
_PLAIN: Final = re.compile(
    r"(?!(?:y|n|yes|no|on|off|true|false|null)\Z)[a-z][a-z0-9._/@:-]*[a-z0-9]"
    r"|[a-z0-9][a-z0-9._:-]*/[A-Za-z0-9._/@:-]*[A-Za-z0-9]"
    r"|(?=[0-9a-f]*[acdf])[0-9a-f]{40}"
)
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]*")


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    if _PRINTABLE.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if _PRINTABLE.fullmatch(char) else f"\\U{ord(char):08x}"
