"""A folder of its own for each build, and its removal, also when the process that made it was killed.

Belongs here: making, locking, sweeping and deleting workspaces; ending what still runs or is mounted in one.
Does not belong here: what lies in a workspace.

Each running build has `<build name>-<random>/`, with `lock` (held by the builder while it lives) and
`guard.lock` (held by the build's guard until its last process is gone).
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler import process
from reconciler.errors import ReconcilerError

_LOG: Final = logging.getLogger(__name__)
_LIMIT: Final = 300.0
"""Seconds for deleting one workspace: a root file system may have a million files."""
_GUARD: Final = 10.0
"""Seconds that a killed builder's guard may take to end what it guards."""
_TRIES: Final = 5
_PAUSE: Final = 0.5
"""Seconds between tries of deleting."""
_LOCK: Final = "lock"
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Workspace:
    """A locked folder. `handle` holds the lock until `Workspaces.remove`."""

    path: Path
    handle: int

    @property
    def guard_lock(self) -> Path:
        """The file that the build's guard holds."""
        return self.path / "guard.lock"


class Workspaces:
    """The workspaces below one directory, which several processes may share."""

    def __init__(self, directory: Path, env: Mapping[str, str], proc: Path) -> None:
        self._directory = directory.resolve()  # as the kernel spells it in mounts and roots
        self._env = env
        self._proc = proc

    def create(self, name: str) -> Workspace:
        """A new, empty, private and locked folder, after sweeping what could not be deleted before. Raises OSError."""
        self.sweep()
        with self._exclusive():
            path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._directory))
            handle = _lock(path / _LOCK)
        if handle is None:  # nobody else can know the file yet
            raise BlockingIOError(f"{path} is locked")
        return Workspace(path, handle)

    def remove(self, workspace: Workspace) -> None:
        """Delete a workspace and let go of its lock. What cannot be deleted now is left to the next sweep."""
        try:
            if self._empty(workspace.path):
                with self._exclusive():  # without its lock file it would look like a dead builder's
                    (workspace.path / _LOCK).unlink(missing_ok=True)
                    workspace.path.rmdir()
        except FileNotFoundError:
            return  # like all caches it may be deleted at any time
        except (ReconcilerError, OSError) as error:
            _LOG.error("cannot delete %s: %s", workspace.path, error)
        finally:
            os.close(workspace.handle)

    def sweep(self) -> None:
        """Delete the workspaces of builders that are gone. Raises OSError."""
        with self._exclusive():
            stale = [Workspace(path, handle) for path, handle in self._unlocked()]
        for workspace in stale:
            _await_guard(workspace)
            self.remove(workspace)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keep others from sweeping a workspace between its creation and its locking."""
        handle = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _unlocked(self) -> Iterator[tuple[Path, int]]:
        for path in sorted(self._directory.iterdir()):
            # Nothing lives here but workspaces and the logs.
            if path.is_symlink() or not path.is_dir() or path.name == "logs":
                continue
            try:
                handle = _lock(path / _LOCK)
            except OSError as error:  # deleted meanwhile, say; the others are still swept
                _LOG.warning("cannot look into %s: %s", path, error)
                continue
            if handle is not None:
                yield path, handle

    def _empty(self, path: Path) -> bool:
        """Delete everything in a workspace but its lock; says whether it is gone. Raises ReconcilerError, OSError."""
        self._evict(path)
        for mount in sorted(self._mounts(path), reverse=True):  # deepest first
            process.run(["umount", "--lazy", "--", mount], env=self._env, timeout=_LIMIT)
        left = self._mounts(path)
        if left:  # deleting through a bind mount would delete the machine's own files
            _LOG.error("not deleting %s: still mounted: %s", path, ", ".join(left))
            return False
        for _ in range(_TRIES):
            # rm, as a hostile tree may be deeper than Python can recurse.
            argv = ["rm", "-rf", "--", *(str(found) for found in path.iterdir() if found.name != _LOCK)]
            done = process.run(argv, env=self._env, timeout=_LIMIT)
            if done.status != 0 and os.geteuid() != 0:
                # Without root, files of a build's other users are only reachable inside the user namespace.
                done = process.run(["buildah", "unshare", *argv], env=self._env, timeout=_LIMIT)
            if done.status == 0:
                return True
            time.sleep(
                _PAUSE
            )  # a process that was killed may have written a last file while it was on its way out
            self._evict(path)
        _LOG.error("cannot delete %s: %s", path, done.complaint)
        return False

    def _evict(self, path: Path) -> None:
        """Kill what still runs with its root in a workspace: RUN's children, if even the guard was killed.

        buildah 1.28 uses chroot and 1.39 pivot_root, so that a process's root may just be called `/`. But where its
        root is mounted from names the folder, be it a bind mount's source or an overlay's layers.
        """
        for folder in self._proc.glob("[0-9]*"):
            try:
                mounts = (folder / "mountinfo").read_text(errors="replace").splitlines()
            except OSError:
                continue  # it ended meanwhile, or belongs to somebody else
            if any(line.split(" ")[4] == "/" and f"/{path.name}/" in line for line in mounts):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(int(folder.name), signal.SIGKILL)

    def _mounts(self, path: Path) -> list[str]:
        """Mount points below a folder, from /proc/self/mountinfo (proc(5): blanks are written in octal)."""
        below = f"{path}/"
        points = (line.split(" ")[4] for line in (self._proc / "self/mountinfo").read_text().splitlines())
        plain = (_ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), point) for point in points)
        return [point for point in plain if point.startswith(below)]


def _lock(path: Path) -> int | None:
    """Take a lock file without waiting; None when somebody has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _await_guard(workspace: Workspace) -> None:
    """Give the guard of a killed builder time to end the build, so that nothing writes while we delete."""
    end = time.monotonic() + _GUARD
    while (handle := _lock(workspace.guard_lock)) is None:
        if time.monotonic() > end:
            _LOG.warning("processes of a former build still run in %s", workspace.path)
            return
        time.sleep(0.05)
    os.close(handle)
