"""What MachineConfigs put on top of a base image: a frozen value with one canonical form.

Belongs here: the result and what of it counts as an input. Does not belong here: how it is made (`render`), and how
it is built into an image.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reconciler.core.documents import MachineConfigPolicy
from reconciler.core.machineconfig.values import KernelType
from reconciler.core.model import ImageRef
from reconciler.errors import Fault


class Kind(StrEnum):
    """What an entry of a file system is."""

    DIRECTORY = "directory"
    FILE = "file"
    SYMLINK = "symlink"
    HARDLINK = "hardlink"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the tree.

    `path` is absolute and clean. `mode`: permission bits, None for links. `user` and `group`: a number or a name,
    which is looked up in the base image. A directory's mode, user and group are None when not given: what the base
    has stays, and a new one is root's, with 0755. `content` is a file's; `target` a link's, a hard link's being
    another entry's path. Folders that only lead to an entry are no entries; new ones are root's, with 0755.
    """

    path: str
    kind: Kind
    mode: int | None = None
    user: str | None = "0"
    group: str | None = "0"
    content: bytes = b""
    target: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """All that one pool's MachineConfigs make of one architecture's image.

    `entries` are sorted by path; none lies below a file or a link of them. To be laid on a base in this order:
    `removals` go with all that is below them; `unmasked` links go if they lead to /dev/null; then the entries come;
    then `systemctl enable` for `enabled` and after it `systemctl disable` for `disabled`, in upstream's order, as far
    as there are such units by then (upstream passes over others). `kernel_arguments` are in `entries` already, as a
    file. `fips` is decided when a node is installed.
    """

    entries: tuple[Entry, ...] = ()
    removals: tuple[str, ...] = ()
    unmasked: tuple[str, ...] = ()
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    kernel_arguments: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    kernel_type: KernelType = KernelType.DEFAULT
    os_image: ImageRef | None = None
    extensions_image: ImageRef | None = None
    fips: bool = False
    warnings: tuple[Fault, ...] = ()

    def canonical(self, policy: MachineConfigPolicy) -> dict[str, Any]:
        """What of the layer decides whether an image is built anew, as plain JSON values.

        `upstream` is what MCO's RequiresRebuild compares (`pkg/controller/common/helpers.go`), for nodes whose files
        MCO writes. Warnings and places never count.
        """
        rebuilds = {
            "osImageURL": str(self.os_image or ""),
            "kernelType": self.kernel_type.value,
            "extensions": list(self.extensions),
            "kernelArguments": list(self.kernel_arguments),
        }
        if policy is MachineConfigPolicy.UPSTREAM:
            return rebuilds
        packages = self.extensions or self.kernel_type is not KernelType.DEFAULT
        return rebuilds | {
            # The extensions image is used for packages only.
            "extensionsImage": str(self.extensions_image or "") if packages else "",
            "entries": [_plain(entry) for entry in self.entries],
            "removals": list(self.removals),
            "unmasked": list(self.unmasked),
            "enabled": list(self.enabled),
            "disabled": list(self.disabled),
        }


def _plain(entry: Entry) -> list[str | None]:
    mode = None if entry.mode is None else f"{entry.mode:04o}"
    what = hashlib.sha256(entry.content).hexdigest() if entry.kind is Kind.FILE else entry.target
    return [entry.path, entry.kind.value, mode, entry.user, entry.group, what]
