"""Takes the files of a build context from Git objects, and writes them to a folder.

Belongs here: the promise that nothing is written outside the folder and no link is followed.
Does not belong here: deciding which files a build may see.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler.adapters.builders.script import UnusableRequest
from reconciler.core.model import TreeEntry
from reconciler.ports import Objects

_LINK_LIMIT: Final = 4095
"""Linux takes no longer path (PATH_MAX less its NUL)."""
_HOPS: Final = 40
"""Linux follows no more links than this in one path."""


def export(entries: Iterable[TreeEntry], objects: Objects, root: Path) -> None:
    """Write the entries below the new folder `root`, one blob in memory at a time.

    Modes are 0644, 0755 and, for folders, 0755 whatever the umask; every time is the epoch, so that the same
    tree gives the same folder. Raises UnusableRequest naming each path that cannot be in a context, OSError
    when the disk is full or content is missing, and what `objects.blobs` raises.
    """
    layout = lay_out(entries, objects)
    for folder in ("", *layout.folders):
        os.mkdir(root / folder)
        os.chmod(root / folder, 0o755)  # noqa: S103  (part of the image; the workspace around it is private)
    for entry, content in contents(layout, objects):
        _write(root / entry.path, content, mode_of(entry))
    for path, target in layout.links.items():
        os.symlink(os.fsencode(target), root / path)
        os.utime(root / path, (0, 0), follow_symlinks=False)
    for folder in (*reversed(layout.folders), ""):
        os.utime(root / folder, (0, 0))


@dataclass(frozen=True, slots=True)
class Layout:
    """A context that can be written: its files, its folders from the outermost, and where its symlinks point."""

    files: tuple[TreeEntry, ...]
    folders: tuple[str, ...]
    links: Mapping[str, str]


def lay_out(entries: Iterable[TreeEntry], objects: Objects) -> Layout:
    """What a context consists of. Raises UnusableRequest naming each path that cannot be in one, OSError when content
    is missing, and what `objects.blobs` raises."""
    wanted = {entry.path: entry for entry in entries}
    _check(wanted)
    links = _targets(wanted.values(), objects)
    leaving = sorted(path for path in links if _leaves(path, links))
    if leaving:
        raise UnusableRequest(
            "symlinks lead out of the build context: " + ", ".join(leaving),
            hint="let them point to files below the folder of the definition, by relative paths",
        )
    folders = sorted({folder for path in wanted for folder in _parents(path)})
    return Layout(tuple(entry for entry in wanted.values() if entry.is_file), tuple(folders), links)


def contents(layout: Layout, objects: Objects) -> Iterator[tuple[TreeEntry, bytes]]:
    """Every file with its content; each distinct blob is in memory once, for all its places. Raises FileNotFoundError
    when content is missing, and what `objects.blobs` raises."""
    places: dict[str, list[TreeEntry]] = {}
    for entry in layout.files:
        places.setdefault(entry.oid, []).append(entry)
    for oid, content in objects.blobs(sorted(places)):
        for entry in places.pop(oid):
            yield entry, content
    _complain(entry.path for same in places.values() for entry in same)


def mode_of(entry: TreeEntry) -> int:
    """A file's mode, whatever the umask."""
    return 0o755 if entry.mode == "100755" else 0o644


def _parents(path: str) -> Iterable[str]:
    """Every folder above a path, outermost first."""
    return (path[:at] for at, letter in enumerate(path) if letter == "/")


def _check(wanted: Mapping[str, TreeEntry]) -> None:
    """Refuse submodules, and what only a hostile repository holds: `..`, a file that is a folder too."""
    faults = []
    for path, entry in wanted.items():
        if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
            faults.append(f"{path!r} is not a path inside the context")
        elif entry.is_submodule:
            faults.append(f"{path} is a submodule, which is never read")
        elif not (entry.is_file or entry.is_symlink):
            faults.append(f"{path} has the unknown mode {entry.mode}")
        elif entry.is_symlink and entry.size > _LINK_LIMIT:
            faults.append(f"{path} is a symlink with a target of {entry.size} bytes")
        faults += [f"{folder} is both a file and a folder" for folder in _parents(path) if folder in wanted]
    if faults:
        raise UnusableRequest("the build context cannot be written: " + "; ".join(sorted(set(faults))))


def _targets(entries: Iterable[TreeEntry], objects: Objects) -> dict[str, str]:
    """Where each symlink points."""
    links = {entry.path: entry.oid for entry in entries if entry.is_symlink}
    texts = {oid: os.fsdecode(content) for oid, content in objects.blobs(sorted(set(links.values())))}
    _complain(path for path, oid in links.items() if oid not in texts)
    return {path: texts[oid] for path, oid in sorted(links.items())}


def _complain(lost: Iterable[str]) -> None:
    """Raise FileNotFoundError when content that the tree names is not there."""
    paths = ", ".join(sorted(lost))
    if paths:
        raise FileNotFoundError(f"the repository's mirror lacks the content of {paths}")


def _leaves(path: str, links: Mapping[str, str]) -> bool:
    """Whether following a symlink, through other symlinks too, ever leaves the context."""
    at = path.split("/")[:-1]
    ahead = deque(links[path].split("/"))
    if links[path].startswith("/"):
        return True
    hops = 0
    while ahead:
        part = ahead.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return True
            at.pop()
            continue
        at.append(part)
        onward = links.get("/".join(at))
        if onward is None:
            continue
        if onward.startswith("/"):
            return True
        hops += 1
        if hops > _HOPS:
            return False  # nobody can follow it, so it leads nowhere
        at.pop()
        ahead.extendleft(reversed(onward.split("/")))
    return False


def _write(path: Path, content: bytes, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(handle, mode)
        os.utime(handle, (0, 0))
