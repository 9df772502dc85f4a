"""Paths of a root file system: how they may be spelled, and which of them an image can carry.

Belongs here: rules about one path. Does not belong here: rules between entries (`tree`).
Sources: coreos/ignition `config/v3_5/types/path.go` (absolute and clean); opencontainers/image-spec `layer.md` (no name
that begins with `.wh.`); bootc `docs/src/filesystem.md` (`/var` is
unpacked from the first image only, no content in API file systems, nothing in `/usr/etc`) and
`docs/src/building/users-and-groups.md` (`/home`); Fedora and RHEL CoreOS, whose `/home`, `/root`, `/srv`, `/mnt`,
`/opt` and `/usr/local` are links into `/var`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_MAX_PATH: Final = 4095
_MAX_NAME: Final = 255
MAX_PARTS: Final = 128
_MAX_SHOWN: Final = 120

_STATE: Final = "is the node's own state, and an image's is used once, when a node is installed"
_BOOT: Final = "is made anew at each boot"
_LOADER: Final = "belongs to the boot loader and to deployments, not to the image"
_NODES: Final[Mapping[str, str]] = {
    "/var": _STATE,
    "/home": f"is a link to /var/home, which {_STATE}",
    "/root": f"is a link to /var/roothome, which {_STATE}",
    "/srv": f"is a link to /var/srv, which {_STATE}",
    "/mnt": f"is a link to /var/mnt, which {_STATE}",
    "/media": _BOOT,
    "/run": _BOOT,
    "/tmp": _BOOT,  # noqa: S108  # a path on a node, not one of ours
    "/dev": _BOOT,
    "/proc": _BOOT,
    "/sys": _BOOT,
    "/boot": _LOADER,
    "/sysroot": _LOADER,
    "/ostree": _LOADER,
}
_DOUBTFUL: Final[Mapping[str, str]] = {"/opt": "/var/opt", "/usr/local": "/var/usrlocal"}
_MERGED: Final = ("/bin", "/sbin", "/lib", "/lib64")
"""Links into /usr on every base that bootc or the Machine Config Operator knows."""


def fault_of(path: str) -> str:
    """What is wrong with a path, '' if nothing is; the text goes on after the field's name."""
    if not path.startswith("/"):
        return "must be an absolute path"
    parts = path[1:].split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "must be a clean path: no '//', no '.' or '..' as a part, no '/' at the end"
    if any(part.startswith(".wh.") for part in parts):
        return "has a part that begins with '.wh.', which image layers take for a removal"
    if not path.isprintable():
        return "holds a character that cannot be shown"
    if len(parts) > MAX_PARTS:
        return f"has more than {MAX_PARTS} parts"
    sizes = [len(part.encode()) for part in parts]
    if max(sizes) > _MAX_NAME or sum(sizes) + len(sizes) > _MAX_PATH:
        return f"is longer than a file system takes: {_MAX_NAME} bytes a part, {_MAX_PATH} in all"
    if _within(path, "/usr/etc"):
        return "lies in /usr/etc, which bootc and ostree make from /etc by themselves"
    return ""


def settled(path: str) -> str:
    """The path without the links of a merged /usr: `/bin/x` is `/usr/bin/x`."""
    return f"/usr{path}" if any(_within(path, link) for link in _MERGED) else path


def left_to_node(path: str) -> str:
    """Why no image can carry this path, '' if one can."""
    return next((f"{root} {why}" for root, why in _NODES.items() if _within(path, root)), "")


def doubt_of(path: str) -> tuple[str, str]:
    """The folder of this path that is a link into /var on some bases, and where that leads; '' and '' if none is."""
    return next(
        ((root, target) for root, target in _DOUBTFUL.items() if _within(path, root)),
        ("", ""),
    )


def named(path: str) -> str:
    """A path as messages show it: cut to a length that fits a line."""
    return path if len(path) <= _MAX_SHOWN else f"{path[: _MAX_SHOWN - 3]}..."


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")
