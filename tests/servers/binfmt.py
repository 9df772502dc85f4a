"""Lets the kernel run programs of foreign architectures while tests need it (as root, with qemu-user-static).

Belongs here: registering QEMU as its package would, and undoing that. The kernel has one table for all, so
test runs share it by a lock file: the last one out takes away what tests registered.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

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
    # Whoever is inside holds `users`; who comes or goes holds `table` as well, for a moment.
    with _LOCK.with_suffix(".users").open("a") as users, _LOCK.open("a+") as table:
        with _held(table):
            _mount()
            _record(table, {*_recorded(table), *_register()})
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield
        finally:
            with _held(table):
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return  # another run still needs them
                for name in _recorded(table):
                    (DIRECTORY / name).write_text("-1")
                _record(table, set())


@contextmanager
def _held(lock: IO[str]) -> Iterator[None]:
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def _record(table: IO[str], names: Collection[str]) -> None:
    """Write down which entries tests registered."""
    table.truncate(0)
    table.write("\n".join(sorted(names)))
    table.flush()


def _recorded(table: IO[str]) -> list[str]:
    """Entries that tests registered and that are still there."""
    names = os.pread(table.fileno(), 65536, 0).decode().split()
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
