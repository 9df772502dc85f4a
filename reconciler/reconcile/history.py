"""Commits as values: what one defines, and what was recorded at it.

Belongs here: reading a repository's objects into catalogues, inputs and records, each at most once.
Does not belong here: the remote, the registry, or any decision.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.core import catalogue
from reconciler.core.catalogue import Catalogue, Pool, Snapshot
from reconciler.core.containerfile import parse, specialise
from reconciler.core.inputs import Inputs
from reconciler.core.model import Arch
from reconciler.core.status import PoolRecord, read_status
from reconciler.errors import Fault, GitError, InvalidInput
from reconciler.ports import Objects

_STATUS_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Records:
    """The status files of one commit: by pool, and the faults of those that cannot be read."""

    pools: dict[str, PoolRecord]
    broken: dict[str, tuple[Fault, ...]]


class History:
    """Reads commits of one repository, below one folder of it."""

    def __init__(self, objects: Objects, folder: str = "") -> None:
        self.objects = objects
        self._folder = folder
        self._catalogues: dict[str, Catalogue] = {}
        self._recipes: dict[tuple[str, str, str, Arch], Inputs] = {}

    def path(self, *parts: str) -> str:
        """A path below the source folder, as the whole repository names it."""
        return posixpath.join(self._folder, *parts)

    def catalogue(self, commit: str) -> Catalogue:
        """What a commit defines. Raises GitError when its objects are not here."""
        if commit not in self._catalogues:
            entries = self.objects.tree(commit, self._folder)
            blobs = dict(self.objects.blobs(catalogue.wanted(entries)))
            self._catalogues[commit] = catalogue.read(Snapshot(commit, entries, blobs))
        return self._catalogues[commit]

    def pool(self, commit: str, name: str) -> Pool | None:
        """A pool as a commit defines it; None when it does not, or not soundly, or when the commit is not here."""
        try:
            found = self.catalogue(commit)
        except GitError:
            return None
        return next((pool for pool in found.pools if pool.name == name), None)

    def inputs(self, pool: Pool, arch: Arch, epoch: str) -> Inputs:
        """The inputs of one image. Raises InvalidInput when the Containerfile cannot be built for `arch`."""
        key = (pool.snapshot.commit, pool.name, epoch, arch)
        if key not in self._recipes:
            source = pool.source(arch)
            if source is None:
                raise InvalidInput(
                    [
                        Fault(
                            pool.definition.path,
                            pool.definition.line,
                            f"pool {pool.name} has no Containerfile for {arch}",
                            f"add an entry {arch.upstream} or NoArch, or a file Containerfile.{arch}",
                        )
                    ]
                )
            recipe = specialise(parse(source.text, source.path, source.line), arch, pool.context_tree(arch))
            self._recipes[key] = Inputs(recipe, epoch)
        return self._recipes[key]

    def records(self, commit: str, status_path: str) -> Records:
        """The status files at a commit."""
        folder = self.path(status_path)
        entries = [
            e
            for e in self.objects.tree(commit, folder)
            if e.is_file and e.path.endswith(".yaml") and "/" not in e.path and e.size <= _STATUS_LIMIT
        ]
        blobs = dict(self.objects.blobs(e.oid for e in entries))
        found = Records({}, {})
        for entry in entries:
            name = entry.path.removesuffix(".yaml")
            path = posixpath.join(folder, entry.path)
            try:
                record = read_status(blobs[entry.oid], path)
                if record.pool != name:
                    fault = Fault(
                        path, 1, f"names pool {record.pool}", "status files are the reconciler's own"
                    )
                    raise InvalidInput([fault])
                found.pools[name] = record
            except InvalidInput as error:
                found.broken[name] = error.faults
        return found

    def earlier(self, commit: str, status_path: str, pool: str) -> Iterator[PoolRecord]:
        """Earlier versions of a pool's status file, newest first, each read only when asked for."""
        folder, name = self.path(status_path), f"{pool}.yaml"
        for changed in self.objects.history(commit, posixpath.join(folder, name)):
            found = [e for e in self.objects.tree(changed, folder) if e.path == name and e.is_file]
            for _, content in self.objects.blobs(e.oid for e in found if e.size <= _STATUS_LIMIT):
                try:
                    yield read_status(content, posixpath.join(folder, name))
                except InvalidInput:
                    continue  # somebody's edit; the versions around it are still good
