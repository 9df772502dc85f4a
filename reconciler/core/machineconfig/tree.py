"""The tree of a layer while it grows: what may lie beside what, what is left to the node, and where links lead.

Belongs here: rules between entries. Does not belong here: what makes an entry (`render`, `units`), rules of one path
(`paths`).
Sources: coreos/ignition `config/v3_5/types/storage.go` (nothing below a link, a hard link to no directory) and
`internal/exec/stages/files/filesystemEntries.go` (no two entries that are one place).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reconciler.core.machineconfig import paths
from reconciler.core.machineconfig.layer import Entry, Kind
from reconciler.core.machineconfig.values import Place
from reconciler.core.yaml import shown
from reconciler.errors import Fault

MAX_ENTRIES: Final = 20_000
MAX_BYTES: Final = 64 << 20
_MAX_LINKS: Final = 40  # what Linux follows before it says ELOOP
_MAX_STEPS: Final = 1_000_000  # of all links together


class Tree:
    """Entries by path, with faults and warnings of their own."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self._entries: dict[str, tuple[Entry, Place]] = {}
        self._size = 0
        self._full = False
        self._patience = _MAX_STEPS

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def admits(self, path: str, at: Place) -> bool:
        """Whether an image can carry what is at this path; if not, a warning says that it is left to the node."""
        if why := paths.left_to_node(path):
            self.warnings.append(at.fault(f"{paths.named(path)} is left to the node: {why}"))
            return False
        root, target = paths.doubt_of(path)
        if root:
            hint = f"CoreOS has a link to {target} there, and then it is left to the node"
            message = f"{paths.named(path)} gets into the image only if {root} is a folder in the base image"
            self.warnings.append(at.fault(message, hint))
        return True

    def add(self, entry: Entry, at: Place) -> None:
        """Takes an entry, unless it is where another one is."""
        known = self._entries.get(entry.path)
        if known is not None:
            if known[0] != entry:
                other = known[1]
                message = f"writes {paths.named(entry.path)}, as {other.path}:{other.line} does"
                self.faults.append(at.fault(message, "keep one of the two"))
            return
        self._size += len(entry.content)
        if (len(self._entries) >= MAX_ENTRIES or self._size > MAX_BYTES) and not self._full:
            self._full = True
            message = f"is more than a layer takes: {MAX_ENTRIES} entries with {MAX_BYTES} bytes"
            self.faults.append(at.fault(message, "keep large trees in the build context, and COPY them"))
        if not self._full:
            self._entries[entry.path] = entry, at

    def finished(self) -> tuple[Entry, ...]:
        """All entries by path, after the rules between them are checked."""
        for path, (entry, at) in self._entries.items():
            self._check_above(path, at)
            if entry.kind is Kind.HARDLINK:
                self._check_hard_link(entry, at)
            elif entry.kind is Kind.SYMLINK:
                self._check_symlink(entry, at)
        return tuple(entry for _, (entry, _) in sorted(self._entries.items()))

    def _check_above(self, path: str, at: Place) -> None:
        for parent in _parents(path):
            above = self._entries.get(parent)
            if above is not None and above[0].kind is not Kind.DIRECTORY:
                other = above[1]
                maker = f"which {other.path}:{other.line} makes a {above[0].kind}"
                message = f"{paths.named(path)} lies below {paths.named(parent)}, {maker}"
                self.faults.append(at.fault(message, "write to the place that is meant"))
                return

    def _check_hard_link(self, entry: Entry, at: Place) -> None:
        target = self._entries.get(entry.target)
        if target is None or target[0].kind is not Kind.FILE:
            message = f"hard {_leads(entry)}, which is no file of the layer"
            self.faults.append(at.fault(message, "make it a symbolic link"))

    def _check_symlink(self, entry: Entry, at: Place) -> None:
        """Follows a link through links of the tree; what the base image has is not known."""
        parts = _steps(entry.path)[::-1]
        above = [""]  # the folders that were passed, from the root on
        followed = 0
        while parts:
            self._patience -= 1
            part = parts.pop()
            if part == "..":
                if len(above) == 1:
                    message = f"{_leads(entry)}, which leaves the root"
                    self.faults.append(at.fault(message, "write the absolute path that is meant"))
                    return
                above.pop()
                continue
            here = f"{above[-1]}/{part}"
            known = self._entries.get(here)
            if known is None or known[0].kind is not Kind.SYMLINK:
                above.append(here)
                continue
            followed += 1
            if followed > _MAX_LINKS or self._patience < 0:
                message = f"{_leads(entry)}, and on through more links than any system follows"
                self.faults.append(at.fault(message, "let one of them lead to something else"))
                return
            target = known[0].target
            if target.startswith("/"):
                above = [""]
            parts.extend(_steps(paths.settled(target))[::-1])


def _leads(link: Entry) -> str:
    return f"link {paths.named(link.path)} leads to {shown(link.target)}"


def _steps(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _parents(path: str) -> Iterator[str]:
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
