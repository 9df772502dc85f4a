"""Finding the repository that a folder belongs to.

Belongs here: from a path that a user gave to the git directory, the top of the work tree, and the place in it.
Does not belong here: reading objects or files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from reconciler.adapters.git.command import Git
from reconciler.errors import GitError

HINT_PLACE: Final = "name a folder inside a Git repository, or run `git init` there"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a folder lies: `top` is the work tree's root, None for a bare repository or a git directory
    itself; `prefix` is the folder's path below `top`, with forward slashes, '' at the top."""

    git_dir: Path
    top: Path | None
    prefix: str


def folder(path: Path) -> Path:
    """The absolute path of an existing folder that may be entered. Raises GitError."""
    if not os.path.exists(path):  # unlike Path.exists, also False where we may not look
        raise GitError(f"there is no folder {str(path)!r}", hint="check the path")
    if not os.path.isdir(path):
        raise GitError(
            f"{str(path)!r} is not a folder", hint="name the folder of the repository, not a file in it"
        )
    if not os.access(path, os.R_OK | os.X_OK):
        raise GitError(f"the folder {str(path)!r} may not be read", hint="check its permissions")
    return path.absolute()


def find(path: Path, timeout: float) -> Place | None:
    """Where `path` lies, or None when it is in no repository.

    Looks upwards for a work tree first. Only then is the folder itself tried as a git directory, as `git`
    would when told so with `--git-dir`: a bare repository is never picked up by accident on the way up.
    Raises GitError when there is a repository that cannot be used.
    """
    here = Git(None, timeout, directory=folder(path))
    found = here.run("rev-parse", "--absolute-git-dir")
    if found.status == 0:
        if here.output("rev-parse", "--is-inside-work-tree") != b"true":
            return _checked(Place(_path(found.stdout), None, ""), timeout)
        top = _path(here.output("rev-parse", "--show-toplevel"))
        prefix = os.fsdecode(here.output("rev-parse", "--show-prefix")).rstrip("/")
        return _checked(Place(_path(found.stdout), top, prefix), timeout)
    itself = replace(here, git_dir=here.directory)
    if itself.run("rev-parse", "--git-dir").status == 0:
        return _checked(Place(here.directory, None, ""), timeout)
    if b"not a git repository" in found.stderr.lower():
        return None
    raise here.failed(found)


def _checked(place: Place, timeout: float) -> Place:
    kind = Git(place.git_dir, timeout).output("rev-parse", "--show-object-format").decode()
    if kind != "sha1":
        raise GitError(
            f"the repository {str(place.git_dir)!r} uses {kind} object ids, which are not supported",
            hint="use a repository made with --object-format=sha1",
        )
    return place


def _path(raw: bytes) -> Path:
    return Path(os.fsdecode(raw.removesuffix(b"\n")))
