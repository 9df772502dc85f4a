"""Commits as values: what one defines, and what was recorded at it.

Belongs here: reading a repository's objects into catalogues, inputs and records, each at most once, and keeping what
is costly to work out. Does not belong here: the remote, the registry, or any decision.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.core import catalogue
from reconciler.core.catalogue import CONFIG_PATH, Catalogue, FileReading, Snapshot
from reconciler.core.containerfile import Recipe
from reconciler.core.engine import Engine
from reconciler.core.explain import Version
from reconciler.core.inputs import Analysis, Inputs
from reconciler.core.model import Arch, TreeEntry
from reconciler.core.pool import Blobs, Pool
from reconciler.core.status import PoolRecord, read_status
from reconciler.errors import Fault, GitError, InvalidInput
from reconciler.ports import Kept, Objects
from reconciler.reconcile import keeping

_STATUS_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Records:
    """The status files of one commit: by pool, and the faults of those that cannot be read."""

    pools: dict[str, PoolRecord]
    broken: dict[str, tuple[Fault, ...]]


@dataclass(frozen=True, slots=True)
class Subject:
    """One image of one commit: its pool as the commit has it, and its inputs."""

    pool: Pool
    inputs: Inputs


class KeptNowhere:
    """The `Kept` that forgets at once."""

    def get(self, keys: Iterable[str]) -> Mapping[str, bytes]:  # noqa: ARG002  (the port's signature)
        """Nothing."""
        return {}

    def put(self, values: Mapping[str, bytes]) -> None:
        """Nothing."""


class History:
    """Reads commits of one repository, below one folder of it, with one engine."""

    def __init__(
        self, objects: Objects, folder: str = "", engine: Engine | None = None, kept: Kept | None = None
    ) -> None:
        self.objects = objects
        self.engine = engine or Engine()
        self._folder = folder
        self._kept: Kept = kept or KeptNowhere()
        self._catalogues: dict[str, Catalogue] = {}
        self._readings: dict[str, FileReading] = {}
        self._analyses: dict[str, dict[Arch, Analysis]] = {}
        self._recipes: dict[tuple[str, Arch], Recipe] = {}
        self._blobs: dict[str, Blobs] = {}
        self._inputs: dict[tuple[str, Arch, str], Inputs] = {}

    def path(self, *parts: str) -> str:
        """A path below the source folder, as the whole repository names it."""
        return posixpath.join(self._folder, *parts)

    def catalogue(self, commit: str) -> Catalogue:
        """What a commit defines. Raises GitError when its objects are not here."""
        if commit not in self._catalogues:
            entries = self.objects.tree(commit, self._folder)
            self._catalogues[commit] = self._read(commit, entries)
        return self._catalogues[commit]

    def pool(self, commit: str, name: str) -> Pool | None:
        """A pool as a commit defines it; None when it does not, or not soundly, or when the commit is not here."""
        try:
            found = self.catalogue(commit)
        except GitError:
            return None
        return found.by_name.get(name)

    def inputs(self, pool: Pool, arch: Arch, epoch: str) -> Inputs:
        """The inputs of one image. Raises InvalidInput when the Containerfile cannot be built for `arch`."""
        key = keeping.pool_key(pool, self.engine.version)
        if (key, arch, epoch) not in self._inputs:
            self._inputs[key, arch, epoch] = Inputs.of(self._analysis(key, pool, arch), epoch)
        return self._inputs[key, arch, epoch]

    def read_again(self, name: str, arch: Arch, commit: str, epoch: str) -> Subject | None:
        """What an image was built from, read by this engine: its pool at `commit`, in `epoch`. None when the commit is
        gone, or this engine cannot read what stands there."""
        pool = self.pool(commit, name)
        try:
            return Subject(pool, self.inputs(pool, arch, epoch)) if pool else None
        except InvalidInput:
            return None

    def recipe(self, pool: Pool, arch: Arch) -> Recipe:
        """The recipe of one image, which deciding does not need, and building and explaining do. Raises as `inputs`."""
        key = keeping.pool_key(pool, self.engine.version)
        if (key, arch) not in self._recipes:
            self._recipes[key, arch] = self.engine.recipe(pool, arch, self.blobs(pool))
        return self._recipes[key, arch]

    def blobs(self, pool: Pool) -> Blobs:
        """What a pool's analysis reads."""
        if pool.fingerprint not in self._blobs:
            self._blobs[pool.fingerprint] = dict(self.objects.blobs(pool.needed()))
        return self._blobs[pool.fingerprint]

    def version(self, pool: Pool, inputs: Inputs) -> Version:
        """One version of an image's definition, for explanations."""
        arch = inputs.analysis.arch
        return Version(pool, inputs, self.recipe(pool, arch), pool.text(arch, self.blobs(pool)))

    def records(self, commit: str, status_path: str) -> Records:
        """The status files at a commit."""
        folder = self.path(status_path)
        entries = [
            e
            for e in self.objects.tree(commit, folder)
            if e.is_file and e.path.endswith(".yaml") and "/" not in e.path and e.size <= _STATUS_LIMIT
        ]
        found = Records({}, {})
        known = self._kept.get([keeping.record_key(e) for e in entries])
        unknown = []
        for entry in entries:
            record = keeping.read_record(known.get(keeping.record_key(entry), b""))
            if record is None:
                unknown.append(entry)
            else:
                found.pools[record.pool] = record
        blobs = dict(self.objects.blobs(e.oid for e in unknown))
        made = {}
        for entry in unknown:
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
                made[keeping.record_key(entry)] = keeping.write_record(record)
            except InvalidInput as error:
                found.broken[name] = error.faults
        self._keep(made)
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

    def _read(self, commit: str, entries: tuple[TreeEntry, ...]) -> Catalogue:
        """Read a commit, with what is known of its files; then look up what is known of its pools."""
        files = {keeping.file_key(e): e for e in catalogue.documents(entries)}
        for key, content in self._kept.get(files.keys() - self._readings.keys()).items():
            reading = keeping.read_reading(content)
            if reading is not None:
                self._readings[key] = reading
        unknown = {k: e for k, e in files.items() if k not in self._readings or e.path == CONFIG_PATH}
        blobs = dict(self.objects.blobs(e.oid for e in unknown.values()))
        made = {k: catalogue.read_file(e, blobs[e.oid]) for k, e in unknown.items() if e.path != CONFIG_PATH}
        self._readings |= made
        self._keep({key: keeping.write_reading(reading) for key, reading in made.items()})
        known = {e.path: self._readings[key] for key, e in files.items() if key in self._readings}
        latest = next(reversed(self._catalogues.values()), None)
        before = latest.by_name if latest else {}
        found = catalogue.read(Snapshot(commit, entries, blobs), known, before)
        keys = {keeping.pool_key(pool, self.engine.version) for pool in found.pools} - self._analyses.keys()
        for key, content in self._kept.get(keys).items():
            self._analyses[key] = keeping.read_analyses(content)
        return found

    def _analysis(self, key: str, pool: Pool, arch: Arch) -> Analysis:
        known = self._analyses.setdefault(key, {})
        if arch not in known:
            known[arch] = Analysis.of(self.recipe(pool, arch))
            self._keep({key: keeping.write_analyses(known)})
        return known[arch]

    def _keep(self, values: Mapping[str, bytes | None]) -> None:
        worth = {key: content for key, content in values.items() if content is not None}
        if worth:
            self._kept.put(worth)
