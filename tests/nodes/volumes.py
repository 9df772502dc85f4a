"""The volumes of a pod, each on a tmpfs of its own in the supervisor's mount namespace.

Laid out as the kubelet does it: files of ConfigMaps and Secrets are links to `..data/`, itself a link, with the modes
asked for, and fsGroup as their group. Does not belong here: mounting them into containers (`rootfs`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.nodes import linux
from tests.nodes.plan import File, Volume

_DATA: Final = "..data"
_VERSION: Final = "..2006_01_02_15_04_05.000000000"
_WRITABLE: Final = 0o660
_READABLE: Final = 0o440
_FOLDER: Final = 0o2110
"""What fsGroup adds to modes, from Kubernetes' pkg/volume/volume_linux.go."""


def create(volumes: tuple[Volume, ...], folder: Path, fs_group: int | None) -> None:
    """Mount and fill every volume in `folder`, by name. Raises OSError."""
    for volume in volumes:
        place = folder / volume.name
        place.mkdir(parents=True)
        limit = f",size={volume.limit}" if volume.memory and volume.limit is not None else ""
        linux.mount("tmpfs", place, "tmpfs", data=f"mode=0777{limit}")
        if volume.files is not None:
            _fill(place, volume.files)
        if fs_group is not None:
            _own(place, fs_group, _WRITABLE if volume.files is None else _READABLE)


def overfull(volumes: tuple[Volume, ...], folder: Path) -> Volume | None:
    """An emptyDir on "disk" that holds more than it may: the kubelet evicts its pod."""
    for volume in volumes:
        if volume.limit is not None and not volume.memory:
            now = os.statvfs(folder / volume.name)
            if (now.f_blocks - now.f_bfree) * now.f_frsize > volume.limit:
                return volume
    return None


def _fill(place: Path, files: Mapping[str, File]) -> None:
    version = place / _VERSION
    version.mkdir(mode=0o755)
    (place / _DATA).symlink_to(_VERSION)
    for name, file in files.items():
        path = version / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(file.mode)
        top = Path(name).parts[0]
        if not (place / top).is_symlink():
            (place / top).symlink_to(f"{_DATA}/{top}")


def _own(place: Path, group: int, mask: int) -> None:
    for path in _walk(place):
        os.chown(path, -1, group, follow_symlinks=False)
        if not path.is_symlink():
            extra = mask | _FOLDER if path.is_dir() else mask
            path.chmod(path.stat().st_mode & 0o7777 | extra)


def _walk(place: Path) -> Iterator[Path]:
    yield place
    yield from place.rglob("*")
