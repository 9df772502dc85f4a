"""Reading a folder of small files that somebody else replaces while we run, such as a mounted Secret.

Belongs here: getting all files of one moment. Does not belong here: what they mean.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from reconciler.errors import GitUnavailable

_LARGEST: Final = 1 << 20
_TRIES: Final = 10


def read(folder: Path, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """The folder's files whose names are wanted, sorted by name; at most 1 MiB of each. Hidden ones are nobody's.

    Raises OSError when there is no such folder or something in it may not be read, and GitUnavailable when it does not
    stay the same for long enough.
    """
    for _ in range(_TRIES):
        version = _version(folder)
        try:
            names = sorted(p.name for p in version.iterdir() if not p.name.startswith(".") and wanted(p.name))
            files = {name: _content(version / name) for name in names if (version / name).is_file()}
        except FileNotFoundError:
            if version == _version(folder):
                raise
            continue
        if version == _version(folder):
            return files
    raise GitUnavailable(f"the folder {str(folder)!r} keeps changing", hint="this is tried again")


def _version(folder: Path) -> Path:
    """The folder itself, or what it stands for now: Kubernetes replaces a mounted Secret, all files at once, by
    pointing the link `..data` elsewhere."""
    data = folder / "..data"
    return data.resolve() if data.is_symlink() else folder


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST)
