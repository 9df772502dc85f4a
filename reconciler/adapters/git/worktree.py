"""A folder as its author has it now, committed or not, read like a commit.

Belongs here: which files of a folder count, and their content, for `validate`.
Does not belong here: history, and anything that depends on which commit is meant.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha1
from pathlib import Path
from typing import Final, Self

from reconciler.adapters.git.command import Git
from reconciler.adapters.git.discovery import Place, find, folder
from reconciler.adapters.git.objects import LocalObjects, folder_path
from reconciler.core.model import TreeEntry
from reconciler.errors import Fault, GitError, InvalidInput
from reconciler.ports import Objects

UNCOMMITTED: Final = "0" * 40
"""The commit id that stands for a folder's present content; no commit has it."""

_CHUNK: Final = 1 << 20
_HINT_CHANGED: Final = "the folder changed while it was read: try again"


def open_folder(path: Path, timeout: float = 60) -> Objects:
    """What is to be validated at `path`: the folder's files, or the commits of a bare repository.

    Raises GitError when there is no such folder, InvalidInput naming every file that cannot be read,
    Timeout, and ToolMissing without git.
    """
    place = find(path, timeout)
    if place is not None and place.top is None:
        return LocalObjects(Git(place.git_dir, timeout))
    return FolderObjects.read(folder(path), place, timeout)


@dataclass(frozen=True, slots=True)
class FolderObjects:
    """The `Objects` port over one folder, as it was when it was read. Its only commit is `UNCOMMITTED`.

    Inside a work tree its files are the tracked ones that still exist and the untracked ones that are not
    ignored; outside, all but `.git`. Links are not followed, and object ids are those that Git would give.
    """

    root: Path
    entries: tuple[TreeEntry, ...]

    @classmethod
    def read(cls, root: Path, place: Place | None, timeout: float) -> Self:
        """Take stock of the folder `root`, an absolute path; see `open_folder` for what is raised."""
        entries: list[TreeEntry] = []
        faults: list[Fault] = []
        real: dict[str, bool] = {}
        # When git would commit nothing, the folder may itself be an ignored one. Somebody still asked about
        # it.
        names = (_listed(root, place, timeout) if place else ()) or _walk(root, faults)
        for name in sorted(set(names)):
            try:
                entry = _entry(root, name) if _is_beneath(root, name, real) else None
            except OSError as error:
                faults.append(_unreadable(name, error))
                continue
            if entry is not None:
                entries.append(entry)
        if faults:
            raise InvalidInput(faults)
        return cls(root, tuple(sorted(entries)))

    def resolve(self, revision: str) -> str:  # noqa: ARG002  (a folder has one state, whatever it is called)
        """Always `UNCOMMITTED`."""
        return UNCOMMITTED

    def tree(
        self, commit: str, under: str = "", only: Collection[str] | None = None
    ) -> tuple[TreeEntry, ...]:
        """All files, links and submodules below `under`, sorted by path; with `only`, just those and what is below
        them. Raises GitError for any other commit."""
        self._check(commit)
        path = folder_path(under)
        entries = self.entries
        if path:
            above = f"{path}/"
            entries = tuple(
                replace(entry, path=entry.path.removeprefix(above))
                for entry in entries
                if entry.path.startswith(above)
            )
        if only is None:
            return entries
        chosen = tuple(f"{part}/" if part else "" for part in map(folder_path, only))
        return tuple(entry for entry in entries if f"{entry.path}/".startswith(chosen))

    def changes(self, old: str, new: str, under: str = "") -> frozenset[str]:  # noqa: ARG002  (the port's signature)
        """Nothing: a folder has one state. Raises GitError for any other commit."""
        self._check(old)
        self._check(new)
        return frozenset()

    def blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Each distinct file with its bytes. Raises GitError when it is unknown or no longer what it was."""
        places = {entry.oid: entry for entry in self.entries if not entry.is_submodule}
        for oid in dict.fromkeys(oids):
            if oid not in places:
                raise GitError(f"the object {oid} is no file of {str(self.root)!r}")
            yield oid, self._content(places[oid])

    def _content(self, entry: TreeEntry) -> bytes:
        path = self.root / entry.path
        try:
            if entry.is_symlink:
                content = os.fsencode(os.readlink(path))
            else:
                with open(path, "rb", opener=_open_itself) as file:
                    content = file.read(entry.size + 1)
        except OSError as error:
            raise GitError(f"{entry.path!r} cannot be read: {error.strerror}", hint=_HINT_CHANGED) from error
        if _oid(len(content), [content]) != entry.oid:
            raise GitError(f"{entry.path!r} is no longer what it was", hint=_HINT_CHANGED)
        return content

    def committed_at(self, commit: str) -> int:
        """0: what is not committed has no date. Raises GitError for any other commit."""
        self._check(commit)
        return 0

    def has(self, commit: str) -> bool:
        """Whether it is the one commit that there is."""
        return commit == UNCOMMITTED

    def history(self, commit: str, path: str) -> tuple[str, ...]:  # noqa: ARG002  (the port's signature)
        """Empty: a folder has no past. Raises GitError for any other commit."""
        self._check(commit)
        return ()

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Only of itself. Raises GitError when `newer` is any other commit."""
        self._check(newer)
        return older == newer

    def parents(self, commit: str) -> tuple[str, ...]:
        """None: it was made on nothing. Raises GitError for any other commit."""
        self._check(commit)
        return ()

    def _check(self, commit: str) -> None:
        if commit != UNCOMMITTED:
            raise GitError(f"{commit!r} is not the uncommitted state of a folder")


def _listed(root: Path, place: Place, timeout: float) -> list[str]:
    """The names that git would commit below `root`."""
    git = Git(place.git_dir, timeout, directory=root, work_tree=place.top)
    listed = git.output("ls-files", "--cached", "--others", "--exclude-standard", "-z")
    return [name.decode("utf-8", "surrogateescape").rstrip("/") for name in listed.split(b"\0") if name]


def _walk(root: Path, faults: list[Fault]) -> Iterator[str]:
    """Every file and link below `root`, without following links; folders that cannot be read go to `faults`.

    Waiting folders are kept on a list, so that their depth is not limited by Python's stack.
    """
    waiting = [""]
    while waiting:
        above = waiting.pop()
        try:
            with os.scandir(root / above) as found:
                items = [(f"{above}/{item.name}" if above else item.name, item) for item in found]
        except OSError as error:
            faults.append(_unreadable(above, error))
            continue
        for name, item in items:
            if item.name == ".git":
                continue
            if item.is_dir(follow_symlinks=False):
                waiting.append(name)
            else:
                yield name


def _unreadable(path: str, error: OSError) -> Fault:
    return Fault(path or ".", 0, f"cannot be read: {error.strerror}", "check its permissions")


def _is_beneath(root: Path, name: str, real: dict[str, bool]) -> bool:
    """Whether every folder above `name` is one. To Git, a tracked file behind a link is gone."""
    parts = name.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        if above not in real:
            try:
                real[above] = stat.S_ISDIR(os.lstat(root / above).st_mode)
            except FileNotFoundError:
                real[above] = False
        if not real[above]:
            return False
    return True


def _entry(root: Path, name: str) -> TreeEntry | None:
    """What Git would record for a path; None when it is gone or nothing that Git records. Raises OSError."""
    path = root / name
    try:
        facts = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(facts.st_mode):
        target = os.fsencode(os.readlink(path))
        return TreeEntry(name, "120000", _oid(len(target), [target]), len(target))
    if stat.S_ISDIR(facts.st_mode):
        # Git lists files, so a folder in its list is another repository.
        return TreeEntry(name, "160000", UNCOMMITTED, 0)
    if not stat.S_ISREG(facts.st_mode):
        return None
    mode = "100755" if facts.st_mode & stat.S_IXUSR else "100644"
    with open(path, "rb", opener=_open_itself) as file:
        size = os.fstat(file.fileno()).st_size
        return TreeEntry(name, mode, _oid(size, iter(lambda: file.read(_CHUNK), b"")), size)


def _oid(size: int, content: Iterable[bytes]) -> str:
    """Git's id of a blob: the SHA-1 of `blob`, its size, a zero byte, and its bytes."""
    digest = sha1(b"blob %d\0" % size, usedforsecurity=False)
    for chunk in content:
        digest.update(chunk)
    return digest.hexdigest()


def _open_itself(path: str, flags: int) -> int:
    """Open a file but no link in its place, and without waiting should it have become a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
