"""A pool: a sound definition with its Containerfiles and its build context, as a commit has them.

Belongs here: which files an analysis of the pool needs, and what they come to. Does not belong here: finding pools
(`catalogue`), or the inside of a Containerfile.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from reconciler.core.containerfile import ContextTree, IgnoreRules, effective_ignore
from reconciler.core.documents import MachineOSConfig
from reconciler.core.machineconfig import NOTHING, Supply
from reconciler.core.model import Arch, TreeEntry
from reconciler.core.sources import Source
from reconciler.errors import Fault, InvalidInput

TEXT_LIMIT: Final = 1 << 20
"""Bytes; a larger file is never read as text."""
_LINK_LIMIT: Final = 4096  # PATH_MAX
_LFS_SIZES: Final = range(100, 1025)  # the specification caps a pointer at 1024 bytes
_LFS_MARK: Final = b"version https://git-lfs.github.com/spec/"
_IGNORE_FILES: Final = (".containerignore", ".dockerignore")

Blobs = Mapping[str, bytes]
"""Contents by object id."""


@dataclass(frozen=True, slots=True)
class Pool:
    """`folder` is that of the definition, '' for the root; `entries` are all files below it, by their whole paths;
    `probes` says whether the repository trusts `uname -m` and its kin. `fingerprint` is equal for pools whose files are
    equal and read alike: then everything that is read from them is equal too. `supply` is what the stage `configs` is
    made from, which lies anywhere in the tree: no part of the fingerprint, as only recipes with that stage look at it.
    """

    definition: MachineOSConfig
    folder: str
    sources: Mapping[Arch | None, Source]
    entries: tuple[TreeEntry, ...]
    probes: bool
    fingerprint: str
    supply: Supply = NOTHING

    @classmethod
    def of(
        cls,
        definition: MachineOSConfig,
        sources: Mapping[Arch | None, Source],
        entries: tuple[TreeEntry, ...],
        probes: bool = True,
        supply: Supply = NOTHING,
    ) -> Self:
        """A definition with its files."""
        place = [definition.pool, definition.path, str(definition.line), str(probes)]
        lines = place + [f"{e.mode} {e.oid} {e.path}" for e in entries]
        fingerprint = hashlib.sha256("\0".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
        folder = posixpath.dirname(definition.path)
        return cls(definition, folder, sources, entries, probes, fingerprint, supply)

    def is_still(self, definition: MachineOSConfig, entries: tuple[TreeEntry, ...], probes: bool) -> bool:
        """Whether reading these would give this very pool, but for its `supply`."""
        return self.definition is definition and self.entries == entries and self.probes == probes

    def supplied(self, supply: Supply) -> Self:
        """The same files with another supply."""
        return self if self.supply is supply else replace(self, supply=supply)

    @property
    def name(self) -> str:
        """The MachineConfigPool's name."""
        return self.definition.pool

    @property
    def context(self) -> tuple[TreeEntry, ...]:
        """The build context: the folder's files, by their paths in it."""
        if not self.folder:
            return self.entries
        cut = len(self.folder) + 1
        return tuple(TreeEntry(e.path[cut:], e.mode, e.oid, e.size) for e in self.entries)

    def source(self, arch: Arch) -> Source | None:
        """The text that is built for an architecture: its own, else the one for all."""
        return self.sources.get(arch) or self.sources.get(None)

    def text(self, arch: Arch, blobs: Blobs) -> str:
        """The Containerfile text of an architecture. Raises InvalidInput when there is none, or it is no text."""
        source = self.source(arch)
        if source is None:
            problem = f"pool {self.name} has no Containerfile for {arch}"
            hint = f"add an entry {arch.upstream} or NoArch, or a file Containerfile.{arch}"
            raise InvalidInput([Fault(self.definition.path, self.definition.line, problem, hint)])
        return source.read(blobs)

    def needed(self) -> tuple[str, ...]:
        """Object ids of what an analysis has to read: Containerfiles, ignore rules, link targets, and what could be a
        Git LFS pointer."""
        return tuple({e.oid: None for e in self.entries if self._is_needed(e)})

    def _is_needed(self, entry: TreeEntry) -> bool:
        if entry.is_symlink:
            return entry.size <= _LINK_LIMIT
        if not entry.is_file or entry.size > TEXT_LIMIT:
            return False
        folder, name = posixpath.split(entry.path)
        beside = folder == self.folder and (name.endswith(_IGNORE_FILES) or name.startswith("Containerfile"))
        return beside or entry.size in _LFS_SIZES

    def ignore_file(self, arch: Arch, blobs: Blobs) -> tuple[str, str]:
        """The effective ignore file: its path in the tree and its text, both '' when there is none.

        An inline text counts as the sibling file it could be moved to, so that moving it changes nothing.
        """
        beside = {
            posixpath.basename(e.path): e
            for e in self.entries
            if e.is_file and posixpath.dirname(e.path) == self.folder and e.size <= TEXT_LIMIT
        }
        own = f"Containerfile.{arch}" if arch in self.sources else "Containerfile"
        name = effective_ignore(beside.keys(), own)
        if name is None:
            return "", ""
        return beside[name].path, blobs[beside[name].oid].decode("utf-8", "surrogateescape")

    def context_tree(self, arch: Arch, blobs: Blobs) -> ContextTree:
        """What a build of this architecture may see. Raises InvalidInput for ignore rules that cannot be read."""
        context = self.context
        path, text = self.ignore_file(arch, blobs)
        return ContextTree(
            entries=context,
            links={
                e.path: blobs[e.oid].decode("utf-8", "surrogateescape")
                for e in context
                if e.is_symlink and e.oid in blobs
            },
            lfs=frozenset(
                e.oid
                for e in context
                if e.is_file and e.size in _LFS_SIZES and blobs.get(e.oid, b"").startswith(_LFS_MARK)
            ),
            ignore=IgnoreRules.parse(text, path),
        )
