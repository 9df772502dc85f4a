"""The nouns that everything shares: architectures, image references, tree entries, bases.

Belongs here: frozen values with no behaviour beyond their own spelling and parsing.
Does not belong here: reading documents (`documents`), Containerfile values (`containerfile`), plans (`plan`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

GROUP: Final = "reconciler.machineos.dev"
"""API group of our own documents, labels and annotations."""
API_VERSION: Final = f"{GROUP}/v1alpha1"

DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
COMMIT: Final = re.compile(r"[0-9a-f]{40}")


class Arch(StrEnum):
    """A CPU architecture, by Go's name. This enum owns every other spelling."""

    AMD64 = "amd64"
    ARM64 = "arm64"
    PPC64LE = "ppc64le"
    S390X = "s390x"

    @property
    def upstream(self) -> str:
        """The name in `MachineOSConfig.spec.containerFile[].containerfileArch`."""
        return self.value.upper()

    @property
    def machine(self) -> str:
        """What `uname -m` prints; also RPM's and QEMU's name."""
        return _MACHINE[self]

    @property
    def debian(self) -> str:
        """What `dpkg --print-architecture` prints."""
        return "ppc64el" if self is Arch.PPC64LE else self.value

    @property
    def platform(self) -> str:
        """The OCI platform, as `--platform` takes it."""
        return f"linux/{self.value}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read any known spelling, in any case.

        Raises ValueError naming the accepted spellings.
        """
        found = _SPELLINGS.get(text.strip().lower())
        if found is None:
            raise ValueError(f"unknown architecture {text!r}; known are " + ", ".join(a.value for a in cls))
        return cls(found)


_MACHINE: Final = {
    Arch.AMD64: "x86_64",
    Arch.ARM64: "aarch64",
    Arch.PPC64LE: "ppc64le",
    Arch.S390X: "s390x",
}
_SPELLINGS: Final[dict[str, str]] = (
    {a.value: a.value for a in Arch} | {a.machine: a.value for a in Arch} | {a.debian: a.value for a in Arch}
)


@dataclass(frozen=True, slots=True, order=True)
class TreeEntry:
    """One entry of a Git tree: `mode` is Git's octal text, `oid` the object's id, `size` bytes (0 for a commit)."""

    path: str
    mode: str
    oid: str
    size: int

    @property
    def is_file(self) -> bool:
        """A regular file, executable or not."""
        return self.mode in ("100644", "100755")

    @property
    def is_symlink(self) -> bool:
        """A symbolic link; its blob is the target."""
        return self.mode == "120000"

    @property
    def is_submodule(self) -> bool:
        """A gitlink: a commit of another repository, which is never read."""
        return self.mode == "160000"


_REFERENCE: Final = re.compile(
    r"(?P<host>[A-Za-z0-9.-]+(?::[0-9]{1,5})?|\[[0-9A-Fa-f:]+\](?::[0-9]{1,5})?)"
    r"/(?P<path>[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True, slots=True, order=True)
class ImageRef:
    """A fully qualified image reference: `repository` is `host[:port]/path`; tag and digest are '' when absent."""

    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host[:port]/path[:tag][@sha256:…]`; a reference with neither tag nor digest means `:latest`.

        Raises ValueError for anything else, short names (`fedora:42`) included: which registry they mean depends
        on the host that builds, so two machines could build from different images.
        """
        match = _REFERENCE.fullmatch(text)
        if match is None or not (
            "." in match["host"] or ":" in match["host"] or match["host"] == "localhost"
        ):
            raise ValueError(f"{text!r} is not a fully qualified image reference")
        tag, digest = match["tag"] or "", match["digest"] or ""
        return cls(f"{match['host']}/{match['path']}", tag or ("" if digest else "latest"), digest)

    @property
    def host(self) -> str:
        """The registry's host, with its port if one is given."""
        return self.repository.split("/", 1)[0]

    def __str__(self) -> str:
        return (
            self.repository
            + (f":{self.tag}" if self.tag else "")
            + (f"@{self.digest}" if self.digest else "")
        )


@dataclass(frozen=True, slots=True, order=True)
class Base:
    """A base image as it was resolved: the reference as the Containerfile means it, and the digest of the
    manifest for one architecture."""

    ref: str
    digest: str


@dataclass(frozen=True, slots=True, order=True)
class Dialect:
    """A construct that buildah reads as we do only from version `since` on (`(major, minor)`)."""

    since: tuple[int, int]
    path: str
    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What a recipe asks of the machine that builds it.

    `runs`: a reachable stage has a RUN, so the machine must be able to execute the target's programs.
    `foreign`: what would read differently when the builder's architecture is not the target's (`BUILDARCH` and its
    kin, global defaults made from `TARGETARCH`), each with its place. `dialect`: what needs a certain buildah.
    """

    runs: bool = False
    foreign: tuple[str, ...] = ()
    dialect: tuple[Dialect, ...] = ()
