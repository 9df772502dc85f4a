"""What MachineConfigs say, as frozen values: Ignition's nodes, units and users with their contents decoded.

Belongs here: values and where each was written. Does not belong here: reading them (`documents`), what several of them
mean together (`merge`), and what becomes of them in an image (`layer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.core.model import Arch, ImageRef
from reconciler.errors import Fault


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something was written: a file of the repository and a line in it."""

    path: str
    line: int

    def fault(self, message: str, hint: str = "") -> Fault:
        """A fault, or a warning, about what stands there."""
        return Fault(self.path, self.line, message, hint)


@dataclass(frozen=True, slots=True)
class Owner:
    """A user or a group, by number or by name, as Ignition has it: neither given means root."""

    number: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What a file's `contents` says. `data` is decoded and decompressed; None when no source is given.

    `checksum` is `sha256-<hex>` or `sha512-<hex>` of `data`, '' when not given. `compressed`: the source was.
    """

    data: bytes | None = None
    checksum: str = ""
    compressed: bool = False


@dataclass(frozen=True, slots=True)
class FileNode:
    """One of `storage.files`. `mode` is the permission bits; None of any field means that it is not given."""

    path: str
    at: Place
    user: Owner = Owner()
    group: Owner = Owner()
    overwrite: bool | None = None
    mode: int | None = None
    contents: Content = Content()
    append: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class DirectoryNode:
    """One of `storage.directories`."""

    path: str
    at: Place
    user: Owner = Owner()
    group: Owner = Owner()
    overwrite: bool | None = None
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class LinkNode:
    """One of `storage.links`."""

    path: str
    at: Place
    user: Owner = Owner()
    group: Owner = Owner()
    overwrite: bool | None = None
    hard: bool | None = None
    target: str | None = None


Node = FileNode | DirectoryNode | LinkNode


@dataclass(frozen=True, slots=True)
class Dropin:
    """One of a unit's drop-ins; `contents` None when not given."""

    name: str
    at: Place
    contents: str | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """One of `systemd.units`; None of any field means that it is not given."""

    name: str
    at: Place
    contents: str | None = None
    enabled: bool | None = None
    mask: bool | None = None
    dropins: tuple[Dropin, ...] = ()


@dataclass(frozen=True, slots=True)
class User:
    """One of `passwd.users`. What the secrets are is not kept: no image carries them."""

    name: str
    at: Place
    keys: int = 0
    password: bool = False


@dataclass(frozen=True, slots=True)
class Ignition:
    """One Ignition config, or several merged. `arguments`: `kernelArguments.shouldExist`."""

    nodes: tuple[Node, ...] = ()
    units: tuple[Unit, ...] = ()
    users: tuple[User, ...] = ()
    arguments: tuple[str, ...] = ()


ROLE: Final = "machineconfiguration.openshift.io/role"


class KernelType(StrEnum):
    """Which kernel a node runs; openshift/api `types.go`, MachineConfigSpec.KernelType."""

    DEFAULT = "default"
    REALTIME = "realtime"
    PAGES_64K = "64k-pages"
    """arm64 only."""


@dataclass(frozen=True, slots=True)
class MachineConfig:
    """A sound MachineConfig. `arch`: the only architecture that it is for, None for all.

    `output`: the reconciler wrote it, so it is never an input. `generated`: a controller of the cluster wrote it, so
    its image references are the cluster's and not a user's. An image that is not given is None.
    """

    name: str
    at: Place
    labels: Mapping[str, str]
    arch: Arch | None
    output: bool
    generated: bool
    ignition: Ignition
    kernel_arguments: tuple[str, ...]
    extensions: tuple[str, ...]
    kernel_type: KernelType
    fips: bool
    os_image: ImageRef | None
    extensions_image: ImageRef | None
    places: Mapping[str, Place]
    """Where single fields of the spec stand, by name."""

    @property
    def role(self) -> str:
        """The role label, '' without one."""
        return self.labels.get(ROLE, "")
