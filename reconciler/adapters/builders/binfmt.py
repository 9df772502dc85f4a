"""Reads from binfmt_misc whether the kernel can run programs of another architecture.

Belongs here: the format of /proc/sys/fs/binfmt_misc and the kernel's rule for matching a program.
Does not belong here: what to do about the answer. Facts: the kernel's admin-guide/binfmt-misc, elf.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.core.model import Arch

_MACHINE: Final = {Arch.AMD64: 62, Arch.ARM64: 183, Arch.PPC64LE: 21, Arch.S390X: 22}
"""ELF's e_machine."""
_EXECUTABLES: Final = (2, 3)
"""ELF's e_type: a program at a fixed address, and a position-independent one. Both must run."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered interpreter. `magic` and `mask` apply at `offset`; flag F: works inside any root."""

    name: str
    interpreter: str
    flags: str
    offset: int
    magic: bytes
    mask: bytes

    def matches(self, header: bytes) -> bool:
        """Whether the kernel would use this interpreter for a program that begins so."""
        part = header[self.offset : self.offset + len(self.magic)]
        return len(part) == len(self.magic) and all(
            (have ^ want) & mask == 0 for have, want, mask in zip(part, self.magic, self.mask, strict=True)
        )


def parse(name: str, text: str) -> Entry | None:
    """Read one entry's file; None for one that is disabled or goes by file extension."""
    lines = text.splitlines()
    if not lines or lines[0] != "enabled":
        return None
    fields = dict(line.partition(" ")[::2] for line in lines[1:])
    magic = bytes.fromhex(fields.get("magic", ""))
    if not magic:
        return None
    return Entry(
        name=name,
        interpreter=fields.get("interpreter", ""),
        flags=fields.get("flags:", ""),
        offset=int(fields.get("offset", "0")),
        magic=magic,
        mask=bytes.fromhex(fields.get("mask", "ff" * len(magic))),
    )


def entries(directory: Path) -> tuple[Entry, ...]:
    """All entries in force; none when binfmt_misc is not mounted there or is switched off."""
    try:
        if (directory / "status").read_text() != "enabled\n":
            return ()
        names = sorted({path.name for path in directory.iterdir()} - {"status", "register"})
        found = [parse(name, (directory / name).read_text()) for name in names]
    except OSError:
        return ()
    return tuple(entry for entry in found if entry is not None)


def obstacle(arch: Arch, directory: Path) -> str:
    """Why this kernel cannot run the architecture's programs in a build; empty when it can.

    Every matching entry has to be usable, as their order of registration, which decides, cannot be seen.
    """
    registered = entries(directory)
    for kind in _EXECUTABLES:
        matching = [entry for entry in registered if entry.matches(header(arch, kind))]
        if not matching:
            return f"the kernel has no interpreter for {arch} programs (binfmt_misc)"
        for entry in matching:
            # With F the kernel opened the interpreter when it was registered, and its path no longer counts.
            if "F" not in entry.flags:
                return (
                    f"the interpreter for {arch} programs (binfmt_misc {entry.name}, {entry.interpreter})"
                    " is registered without the flag F, so a build's root file system hides it"
                )
    return ""


def header(arch: Arch, kind: int) -> bytes:
    """The first 64 bytes of a program for Linux: identification, type, machine, version."""
    order: Final = "big" if arch is Arch.S390X else "little"
    ident = b"\x7fELF" + bytes([2, 2 if order == "big" else 1, 1]) + bytes(9)
    rest = kind.to_bytes(2, order) + _MACHINE[arch].to_bytes(2, order) + (1).to_bytes(4, order)
    return (ident + rest).ljust(64, b"\0")
