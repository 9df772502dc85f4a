"""The `--mount` flags of RUN: what they bring into the build.

Belongs here: splitting a mount into its fields and checking those that decide what is an input.
Does not belong here: finding the stage, image or file that a mount names (`evaluate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_TYPES: Final = ("bind", "cache", "secret", "ssh", "tmpfs")
_NEED_TARGET: Final = ("bind", "cache", "tmpfs")


@dataclass(frozen=True, slots=True)
class Mount:
    """One `--mount`: its fields in order without `from`, which is '' when absent."""

    kind: str
    fields: tuple[str, ...]
    source: str
    origin: str

    @property
    def binds_context(self) -> bool:
        """Whether files of the build context show through."""
        return self.kind == "bind" and not self.origin


def read_mount(text: str) -> Mount:
    """Read the value of a `--mount` flag. Raises ValueError with a message and a hint."""
    fields = text.split(",")
    values = dict(field.partition("=")[::2] for field in fields)
    kind = values.get("type", "bind")
    if kind not in _TYPES:
        raise ValueError(f"RUN --mount of unknown type {kind!r}", "use " + ", ".join(_TYPES))
    if kind in _NEED_TARGET and not any(values.get(key) for key in ("target", "dst", "destination")):
        raise ValueError(f"RUN --mount of type {kind} has no target", "add target=/path")
    if "from" in values and not values["from"]:
        raise ValueError("RUN --mount has an empty from=", "name a stage or an image")
    source = values.get("source", values.get("src", ""))
    rest = tuple(field for field in fields if not field.startswith("from="))
    return Mount(kind, rest, source, values.get("from", ""))


def origins(flag: str) -> list[str]:
    """The stages or images that a RUN flag names, as the builder finds them before it expands anything."""
    if not flag.startswith("--mount="):
        return []
    fields = flag.removeprefix("--mount=").split(",")
    return [field.removeprefix("from=") for field in fields if field.startswith("from=")]
