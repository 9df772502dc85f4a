"""What needs no network: repositories and folders on this machine, the engine, and where caches lie.

Belongs here: the part of the composition that an offline command loads. Does not belong here: registries, builders
and remotes (`compose`), whose libraries take longer to load than most plans take to make.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import reconciler.core as reconciler_core
import reconciler.reconcile as reconciler_reconcile
from reconciler import __version__
from reconciler.adapters.git.command import scrub
from reconciler.adapters.git.objects import LocalObjects
from reconciler.adapters.git.worktree import open_folder
from reconciler.adapters.kept import KeptInFile
from reconciler.adapters.shfmt import ShfmtParser, edition, installed
from reconciler.core.engine import VERSION, Engine
from reconciler.ports import Objects
from reconciler.reconcile.history import History


@contextmanager
def history(path: Path) -> Iterator[History]:
    """The history of a repository on this machine, below the folder that `path` names. Raises GitError."""
    scrub(os.environ)
    objects = LocalObjects.open(path)
    with kept() as store:
        yield History(objects, objects.prefix, engine(), store, str(objects.git_dir))


def engine() -> Engine:
    """The engine with the parser that it needs. Raises ToolMissing."""
    return Engine(f"{VERSION}+{edition()}", ShfmtParser(installed()).tree)


def kept() -> KeptInFile:
    """What is kept of finished analysis."""
    return KeptInFile(cache_folder() / "analysis.sqlite", _edition())


def _edition() -> str:
    """The code that what is kept depends on, by the state of its files: in a checkout it changes between versions."""
    folders = Path(reconciler_core.__file__).parent, Path(reconciler_reconcile.__file__).parent
    files = sorted((str(path), path.stat()) for folder in folders for path in folder.rglob("*.py"))
    states = "\0".join(f"{name} {state.st_size} {state.st_mtime_ns}" for name, state in files)
    return hashlib.sha256(f"{__version__}\0{states}".encode()).hexdigest()[:16]


def working_files(path: Path) -> tuple[Objects, str]:
    """The files of a folder as they are on disk, and the commit that they stand for."""
    scrub(os.environ)
    objects = open_folder(path)
    return objects, objects.resolve("HEAD")


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/reconciler`; may be deleted at any time."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "reconciler"
