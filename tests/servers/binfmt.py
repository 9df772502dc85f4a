"""Lets the kernel run programs of foreign architectures while tests need it (as root, with qemu-user-static).

Belongs here: registering QEMU as its package would, and undoing that. The kernel has one table for all, so
test runs share it by a lock file: the last one out takes away what tests registered.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler import process
from reconciler.core.model import Arch

DIRECTORY = Path("/proc/sys/fs/binfmt_misc")
_LOCK = Path(tempfile.gettempdir()) / "machine-os-reconciler-tests-binfmt.lock"


@contextmanager
def foreign_programs() -> Iterator[None]:
    """Programs of all architectures run inside the block. What the machine has registered itself stays.

    Blocks of one process may lie within each other: a session's fixture holds what a test asks for again.
    """
    if _blocks:
        yield
        return
    _blocks.append(True)
    try:
        with _registered():
            yield
    finally:
        _blocks.clear()


_blocks: list[bool] = []
"""Whether this process is inside: a lock that it holds would keep it out."""


@contextmanager
def _registered() -> Iterator[None]:
    with _LOCK.open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _mount()
        ours = set(_recorded(lock.fileno())) | set(_register())
        lock.truncate(0)
        lock.write("\n".join(sorted(ours)))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            yield
        finally:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # another run still needs them
            for name in _recorded(lock.fileno()):
                (DIRECTORY / name).write_text("-1")
            lock.truncate(0)


def _recorded(handle: int) -> list[str]:
    """Entries that tests registered and that are still there."""
    names = os.pread(handle, 65536, 0).decode().split()
    return [name for name in names if (DIRECTORY / name).exists()]


def _mount() -> None:
    if not (DIRECTORY / "register").exists():
        argv = ["mount", "-t", "binfmt_misc", "binfmt_misc", str(DIRECTORY)]
        done = process.run(argv, env={"PATH": os.environ["PATH"]}, timeout=30)
        if done.status != 0:
            raise RuntimeError(done.complaint)


def _register() -> Iterator[str]:
    """Register QEMU for each architecture but the machine's own, unless it is; yield the new names."""
    for arch in Arch:
        name = f"qemu-{arch.machine}"
        if arch.machine == os.uname().machine or (DIRECTORY / name).exists():
            continue
        (DIRECTORY / "register").write_bytes(Path(f"/usr/lib/binfmt.d/{name}.conf").read_bytes().strip())
        yield name
