"""The mirror's place on disk: one writer at a time, and whole or made anew.

Belongs here: the lock, what a killed git leaves behind, finding damage, starting over.
Does not belong here: the remote, and what is stored.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from reconciler.adapters.git.command import Git
from reconciler.errors import GitError, Timeout

_PAUSE: Final = 0.02
_MANY_PACKS: Final = 50


class Store:
    """A bare repository in `folder`, with a lock file beside it. The folder may be deleted at any time."""

    def __init__(self, folder: Path, git: Git) -> None:
        self._folder = folder
        self._git = git
        self._repository = self.git_dir(folder)
        self._lock = folder / "lock"

    @staticmethod
    def git_dir(folder: Path) -> Path:
        """Where the repository lies in the store's folder."""
        return folder / "repository.git"

    @contextmanager
    def locked(self) -> Iterator[Git]:
        """Be the only one who writes, in a repository that git accepts. A missing or broken one is made anew.

        A git started with what this yields keeps the lock while it lives: when this process is killed, the
        next one waits for the orphan instead of deleting the files that it works on. Whatever lock files of
        git are there when we have the lock are therefore stale. Raises Timeout when somebody else
        keeps the lock too long, and GitError when the folder cannot be used.
        """
        with self._exclusive() as descriptor:
            git = replace(self._git, inherit=(descriptor,))
            self._sweep()
            if git.run("rev-parse", "--git-dir").status:
                self.start_over(git)
            yield git

    def generation(self) -> int:
        """A number that changes when the repository is made anew, by whomever, and again when it is whole; 0 while
        there is none."""
        try:
            # Nobody but `git init` and `mended` writes it. Its time tells it from an earlier one of the same number.
            facts = (self._repository / "HEAD").stat()
        except OSError:
            return 0
        return hash((facts.st_ino, facts.st_mtime_ns))

    def mended(self) -> None:
        """What was lost is here again: who ran into a half-mended repository may try again."""
        with _usable(self._folder):
            os.utime(self._repository / "HEAD")

    def is_sound(self, git: Git) -> bool:
        """Whether git finds every object that a ref needs, and each object whole. Reads the whole repository."""
        return git.run("fsck", "--full", "--no-dangling", "--no-progress").status == 0

    def start_over(self, git: Git) -> None:
        """Replace the repository by an empty one."""
        with _usable(self._folder):
            if self._repository.exists():
                shutil.rmtree(self._repository)
        replace(git, git_dir=None).output(
            "init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--", str(self._repository)
        )

    def tidy(self, git: Git) -> None:
        """Merge small packs: every fetch adds one, and git looks through them all.

        Only whole packs are merged, so commits that no ref holds any more (a branch was rewritten) stay.
        Should it fail, nothing is lost but speed.
        """
        packs = self._repository / "objects" / "pack"
        if len(list(packs.glob("*.pack"))) > _MANY_PACKS:
            with suppress(Timeout):
                git.run("repack", "-d", "--quiet", "--geometric=2")

    @contextmanager
    def _exclusive(self) -> Iterator[int]:
        until = time.monotonic() + self._git.timeout
        while True:
            with _usable(self._folder):
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if self._try(descriptor):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)
            if time.monotonic() >= until:
                raise Timeout(
                    f"somebody else has kept the mirror {str(self._folder)!r} for {self._git.timeout:g} s",
                    hint="wait for them to end, or give this one a cache folder of its own (XDG_CACHE_HOME)",
                )
            time.sleep(_PAUSE)

    def _try(self, descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever deleted the cache deleted the lock too: a lock on a file without a name excludes nobody.
            return os.path.samestat(os.fstat(descriptor), self._lock.stat())
        except (BlockingIOError, FileNotFoundError):
            return False

    def _sweep(self) -> None:
        """Delete what a killed git left: lock files, which stop every later git, and half-written objects."""
        root = self._repository
        with _usable(self._folder):
            for stale in (
                *root.glob("*.lock"),
                *(root / "refs").rglob("*.lock"),
                *(root / "objects").glob("??/tmp_obj_*"),
                *(root / "objects" / "pack").glob("tmp_*"),
                *(root / "objects" / "pack").glob(".tmp-*"),
            ):
                stale.unlink(missing_ok=True)


@contextmanager
def _usable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GitError(
            f"the mirror's folder {str(folder)!r} cannot be used: {error.strerror}",
            hint="choose a folder that this account may write to (XDG_CACHE_HOME), or free disk space",
        ) from error
