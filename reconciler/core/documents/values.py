"""Single values that several documents share: names, paths, references, durations, architectures.

Belongs here: what one value may look like, and the type it becomes; for pydantic as `Annotated` types.
Does not belong here: which field holds what (each document's module), and rules between fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, PlainValidator

from reconciler.core.documents.shape import rule, text_of
from reconciler.core.model import COMMIT, DIGEST, Arch, ImageRef
from reconciler.core.yaml import shown

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})*")
_DURATION: Final = re.compile(r"([0-9]{1,9})([smhd])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\\]")

Item = TypeVar("Item")


def dns_subdomain(text: str) -> str:
    """A name as Kubernetes' `format.dns1123Subdomain` wants it."""
    if len(text) > 253 or not _SUBDOMAIN.fullmatch(text):
        hint = "at most 253 lower-case letters, digits, '-' and '.'; each part alphanumeric at both ends"
        raise rule(f"must be a DNS subdomain name, not {shown(text)}", hint)
    return text


def dns_label(text: str) -> str:
    """A name as Kubernetes' `format.dns1123Label` wants it."""
    if len(text) > 63 or not _LABEL.fullmatch(text):
        hint = "at most 63 lower-case letters, digits and '-', with a letter or digit at both ends"
        raise rule(f"must be a DNS label, not {shown(text)}", hint)
    return text


def folder(text: str) -> str:
    """A folder below a root, spelled in the only way Git's trees spell it."""
    parts = text.split("/")
    if _UNSAFE.search(text) or any(part in ("", ".", "..") or part.lower() == ".git" for part in parts):
        hint = "write it like status or clusters/east: no '/' at either end, no '.', '..' or '.git' as a part"
        raise rule(f"must be a relative folder, not {shown(text)}", hint)
    return text


def glob(text: str) -> str:
    """A pattern that `core.globs` reads the way its writer means it."""
    if not text.strip("/") or _UNSAFE.search(text) or any(char in text for char in "[]{}") or text[0] == "!":
        hint = "write it like pools/** or *.yaml; only *, ? and ** are special, and nothing negates"
        raise rule(f"must be a path pattern, not {shown(text)}", hint)
    if len(text) > 1024 or any(part in (".", "..", "") for part in text.strip("/").split("/")):
        raise rule(f"must be a path pattern, not {shown(text)}", "leave out empty parts, '.' and '..'")
    return text


def seconds(text: str) -> float:
    """The seconds of `90s`, `5m`, `1h` or `7d`. At least one."""
    match = _DURATION.fullmatch(text)
    if match is None or not int(match[1]):
        raise rule(f"must be a duration, not {shown(text)}", "write it like 90s, 5m, 1h or 7d, and not zero")
    return int(match[1]) * _SECONDS[match[2]]


def architecture(value: object) -> Arch:
    """An architecture in any spelling."""
    text = text_of(value)
    try:
        return Arch.parse(text)
    except ValueError:
        raise rule(f"must be an architecture, not {shown(text)}", f"known are {', '.join(Arch)}") from None


def distinct(items: list[Item]) -> tuple[Item, ...]:
    """A list that names nothing twice and is not empty, in its own order."""
    if not items:
        raise rule("must not be empty", "leave the field out to use the default")
    twice = next((item for i, item in enumerate(items) if item in items[:i]), None)
    if twice is not None:
        raise rule(f"names {shown(str(twice))} twice", "keep one")
    return tuple(items)


def architectures(items: list[Arch]) -> tuple[Arch, ...]:
    """A set of architectures, sorted: their order means nothing."""
    return tuple(sorted(distinct(items)))


def image_reference(text: str) -> ImageRef:
    """A fully qualified reference."""
    try:
        return ImageRef.parse(text)
    except ValueError:
        hint = "write host/path:tag or host/path@sha256:…; what a short name means depends on the machine"
        raise rule(f"must be a full image reference, not {shown(text)}", hint) from None


def pinned_image(text: str) -> str:
    """`repository@sha256:…`, with no tag."""
    try:
        found = ImageRef.parse(text)
    except ValueError:
        found = ImageRef("")
    if not found.digest or found.tag:
        raise rule(
            f"must be repository@sha256:…, not {shown(text)}",
            "status files are written by the reconciler only",
        )
    return text


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[str], str]:
    def matching(text: str) -> str:
        if not pattern.fullmatch(text):
            raise rule(
                f"must be {what}, not {shown(text)}", "status files are written by the reconciler only"
            )
        return text

    return matching


def from_text(convert: Callable[[str], Item]) -> PlainValidator:
    """A validator for a value that is text in the file and something else after reading it."""
    return PlainValidator(lambda value: convert(text_of(value)))


DnsSubdomain = Annotated[str, AfterValidator(dns_subdomain)]
DnsLabel = Annotated[str, AfterValidator(dns_label)]
Folder = Annotated[str, AfterValidator(folder)]
Glob = Annotated[str, AfterValidator(glob)]
PinnedImage = Annotated[str, AfterValidator(pinned_image)]
Digest = Annotated[str, AfterValidator(_matching(DIGEST, "sha256: and 64 hex digits"))]
Commit = Annotated[str, AfterValidator(_matching(COMMIT, "a commit of 40 hex digits"))]
Duration = Annotated[float, from_text(seconds)]
Image = Annotated[ImageRef, from_text(image_reference)]
Architecture = Annotated[Arch, PlainValidator(architecture)]
Architectures = Annotated[list[Architecture], AfterValidator(architectures)]
"""A list in the file; a sorted tuple after reading."""
