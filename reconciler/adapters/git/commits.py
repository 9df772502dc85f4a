"""Writing a commit with plumbing alone: no index, no work tree, no configuration, no clock.

Belongs here: from a parent and changed files, or from two parents, to the id of a commit that anybody would get.
Does not belong here: which files change, and what becomes of the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from reconciler.adapters.git.command import Git
from reconciler.core.model import COMMIT
from reconciler.errors import GitError, MergeConflict

NAME: Final = "reconciler"
EMAIL: Final = "reconciler@machineos.dev"

_FEW: Final = 5
"""Paths in conflict that are named."""
_BAD_PARTS: Final = ("", ".", "..", ".git")


@dataclass(frozen=True, slots=True)
class _Item:
    """One line of a tree object."""

    mode: str
    kind: str
    oid: str


_Folder = dict[str, _Item]


def write(git: Git, parent: str, changes: Mapping[str, bytes | None], message: str, date: int) -> str:
    """Write a commit on `parent` in which each path has the given bytes, or is gone (None).

    A new file gets mode 100644, an existing one keeps its own. Folders come and go with their files. `date`,
    in seconds since the epoch, is the date of author and committer. Returns `parent` when its tree already
    says all this. Raises GitError for a path that is no plain file's, and when `parent` is unknown.
    """
    folders = _read(git, parent, changes)
    for path, content in sorted(changes.items()):
        _change(git, folders, path, content)
    tree = _write(git, folders)
    if tree == git.output("rev-parse", "--verify", f"{parent}^{{tree}}").decode():
        return parent
    return _commit(git, tree, (parent,), message, date)


def merge(git: Git, ours: str, theirs: str, date: int) -> str:
    """Write the commit that merging `theirs` into `ours` makes, as a forge does that merges without further ado: the
    first parent is `ours`. No program that the repository names has a part in it.

    `date`, in seconds since the epoch, is the date of author and committer. Raises MergeConflict, and GitError when
    they have no commit in common, and when one is unknown.
    """
    done = git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
    tree, _, rest = done.stdout.partition(b"\0")
    if done.status == 1 and COMMIT.fullmatch(tree.decode("ascii", "replace")):
        paths = sorted({name.decode("utf-8", "surrogateescape") for name in rest.split(b"\0") if name})
        named = ", ".join(map(repr, paths[:_FEW])) + (
            f" and {len(paths) - _FEW} more" if paths[_FEW:] else ""
        )
        raise MergeConflict(
            f"{theirs[:12]} conflicts with {ours[:12]} in {named}", hint="merge the target branch into it"
        )
    if done.status:
        raise git.failed(done)
    return _commit(git, tree.decode("ascii"), (ours, theirs), f"Merge {theirs} into {ours}", date)


def _commit(git: Git, tree: str, parents: tuple[str, ...], message: str, date: int) -> str:
    text = message.rstrip("\n") + "\n"
    who = {
        f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _signature(date)
    }
    signed = replace(git, environment={**git.environment, **who})
    named = [word for parent in parents for word in ("-p", parent)]
    return signed.output("commit-tree", tree, *named, stdin=text.encode("utf-8", "replace")).decode()


def _signature(date: int) -> tuple[tuple[str, str], ...]:
    # With the @, git takes small numbers for seconds as well.
    return ("NAME", NAME), ("EMAIL", EMAIL), ("DATE", f"@{date} +0000")


def _read(git: Git, parent: str, paths: Mapping[str, object]) -> dict[str, _Folder]:
    """The folders above all the paths, by their own path ('' is the root), as they are in `parent`."""
    folders = {"": _list(git, f"{parent}^{{tree}}")}
    for path in sorted(paths):
        parts = path.split("/")
        if any(part.lower() in _BAD_PARTS for part in parts) or "\0" in path:
            raise GitError(f"{path!r} is not the path of a file in a repository")
        for depth in range(1, len(parts)):
            above, here = "/".join(parts[: depth - 1]), "/".join(parts[:depth])
            if here in folders:
                continue
            item = folders[above].get(parts[depth - 1])
            if item is not None and item.kind != "tree":
                raise _conflict(path, f"{here!r} is not a folder")
            folders[here] = {} if item is None else _list(git, item.oid)
    return folders


def _list(git: Git, treeish: str) -> _Folder:
    folder: _Folder = {}
    for record in git.output("ls-tree", "-z", "--full-tree", treeish).split(b"\0")[:-1]:
        facts, _, name = record.partition(b"\t")
        folder[name.decode("utf-8", "surrogateescape")] = _Item(*facts.decode("ascii").split())
    return folder


def _change(git: Git, folders: dict[str, _Folder], path: str, content: bytes | None) -> None:
    above, _, name = path.rpartition("/")
    old = folders[above].get(name)
    if path in folders or (old is not None and old.mode not in ("100644", "100755")):
        raise _conflict(path, "it is a folder, a link or a submodule, not a file")
    if content is None:
        folders[above].pop(name, None)
        return
    oid = git.output("hash-object", "-w", "--stdin", stdin=content).decode()
    folders[above][name] = _Item(old.mode if old else "100644", "blob", oid)


def _write(git: Git, folders: dict[str, _Folder]) -> str:
    """Write the trees from the deepest up, empty ones left out as Git does. Returns the root's id."""
    for path in sorted(folders, key=lambda path: (-path.count("/"), path)):
        if not path:
            continue
        above, _, name = path.rpartition("/")
        if folders[path]:
            folders[above][name] = _Item("040000", "tree", _tree(git, folders[path]))
        else:
            folders[above].pop(name, None)
    return _tree(git, folders[""])


def _tree(git: Git, folder: _Folder) -> str:
    lines = [f"{item.mode} {item.kind} {item.oid}\t{name}\0" for name, item in folder.items()]
    return git.output("mktree", "-z", stdin="".join(lines).encode("utf-8", "surrogateescape")).decode()


def _conflict(path: str, reason: str) -> GitError:
    return GitError(
        f"cannot write {path!r}: {reason}", hint="remove what stands there, or choose another path"
    )
