"""Short ways to write contexts and recipes in tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from reconciler.core.containerfile import (
    ContextTree,
    IgnoreRules,
    Recipe,
    effective_ignore,
    parse,
    specialise,
)
from reconciler.core.model import Arch, TreeEntry
from reconciler.errors import Fault, InvalidInput

NAME = "pools/worker/Containerfile"


@dataclass(frozen=True)
class Link:
    """A symbolic link in a context."""

    target: str


@dataclass(frozen=True)
class Program:
    """An executable file in a context."""

    content: str


Files = Mapping[str, str | Link | Program]
"""A context: path to content, which is the path itself in most tests."""

NOTHING: Files = MappingProxyType({})


def context(
    files: Files = NOTHING, lfs: tuple[str, ...] = (), submodules: tuple[str, ...] = ()
) -> ContextTree:
    """A context of these files, with the ignore file that applies."""
    entries = [TreeEntry(path, "160000", "0" * 40, 0) for path in submodules]
    for path, content in files.items():
        mode, text = _mode_and_text(content)
        entries.append(TreeEntry(path, mode, oid(text), len(text)))
    links = {path: content.target for path, content in files.items() if isinstance(content, Link)}
    name = effective_ignore(files, "")
    ignore = files[name] if name else ""
    rules = IgnoreRules.parse(ignore, name) if name and isinstance(ignore, str) else IgnoreRules()
    return ContextTree(tuple(sorted(entries)), links, frozenset(map(oid, lfs)), rules)


def _mode_and_text(content: str | Link | Program) -> tuple[str, str]:
    if isinstance(content, Link):
        return "120000", content.target
    return ("100755", content.content) if isinstance(content, Program) else ("100644", content)


def oid(text: str) -> str:
    """An object id that depends on the content alone."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def names(*paths: str) -> dict[str, str | Link]:
    """Files that hold their own path."""
    return {path: path for path in paths}


def recipe(text: str, files: Files = NOTHING, arch: Arch = Arch.ARM64) -> Recipe:
    """Parse and specialise."""
    return specialise(parse(text, NAME), arch, context(files))


def canonical(text: str, files: Files = NOTHING, arch: Arch = Arch.ARM64) -> Any:
    """The canonical form, untyped so that tests can look into it."""
    return recipe(text, files, arch).canonical


def last_config(text: str, files: Files = NOTHING, arch: Arch = Arch.ARM64) -> Any:
    """The configuration of the result."""
    return canonical(text, files, arch)[-1]["config"]


def labels(text: str, arch: Arch = Arch.ARM64) -> Any:
    """The labels of the result."""
    return last_config(text, arch=arch).get("Labels", {})


def taken(text: str, files: Files) -> list[str]:
    """Paths of the context that the recipe takes."""
    return [entry.path for entry in recipe(text, files).context]


def faults(text: str, files: Files = NOTHING, arch: Arch = Arch.ARM64) -> list[tuple[int, str]]:
    """Line and message of every fault; no faults give an empty list."""
    found: tuple[Fault, ...] = ()
    try:
        recipe(text, files, arch)
    except InvalidInput as error:
        found = error.faults
    assert all(fault.path == NAME and fault.hint for fault in found)
    return [(fault.line, fault.message) for fault in found]
