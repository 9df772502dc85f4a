"""Commits as values: what one defines, and what was recorded at it.

Belongs here: reading a repository's objects into catalogues, inputs and records, each at most once as long as it is in
use, and keeping what is costly to work out. Does not belong here: the remote, the registry, or any decision.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sized
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
from reconciler.reconcile.baseline import Baseline
from reconciler.reconcile.recent import Recent
from reconciler.reconcile.trust import authored

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


@dataclass(frozen=True, slots=True)
class _Read:
    """A commit's catalogue, with what its files say: as long as the one is in use, so is the other."""

    catalogue: Catalogue
    readings: Mapping[str, FileReading]


class KeptNowhere:
    """The `Kept` that forgets at once."""

    def get(self, keys: Iterable[str]) -> Mapping[str, bytes]:  # noqa: ARG002  (the port's signature)
        """Nothing."""
        return {}

    def put(self, values: Mapping[str, bytes]) -> None:
        """Nothing."""


class History:
    """Reads commits of one repository, below one folder of it, with one engine.

    `repository` tells it from others that share what is `kept`; it need not be right, only useful. Whoever uses one
    for long calls `settle` now and then: without it, all that was ever read is remembered.
    """

    def __init__(
        self,
        objects: Objects,
        folder: str = "",
        engine: Engine | None = None,
        kept: Kept | None = None,
        repository: str = "",
    ) -> None:
        self.objects = objects
        self.engine = engine or Engine()
        self._folder = folder
        self._kept: Kept = kept or KeptNowhere()
        self._repository = repository
        self._latest: Catalogue | None = None
        self._catalogues: Recent[str, _Read] = Recent()
        self._readings: dict[str, FileReading] = {}
        self._analyses: Recent[str, dict[Arch, Analysis]] = Recent()
        self._inputs: Recent[tuple[str, Arch, str], Inputs] = Recent()
        self._authored: Recent[str, tuple[str, str]] = Recent()
        self._recipes: dict[tuple[str, Arch], Recipe] = {}
        self._blobs: dict[str, Blobs] = {}

    def settle(self) -> None:
        """Forget what was not used since the last call, and all texts: a daemon calls this after every pass, so that
        it remembers no more than two passes use. What is asked for again is read again, and is the same."""
        for memory in (self._catalogues, self._analyses, self._inputs, self._authored):
            memory.settle()
        self._readings = {}
        for read in self._catalogues.values():
            self._readings.update(read.readings)
        self._recipes.clear()
        self._blobs.clear()

    @property
    def remembered(self) -> int:
        """How many values are in memory."""
        kinds: tuple[Sized, ...] = (
            self._catalogues,
            self._readings,
            self._analyses,
            self._inputs,
            self._authored,
            self._recipes,
            self._blobs,
        )
        return sum(len(kind) for kind in kinds)

    def path(self, *parts: str) -> str:
        """A path below the source folder, as the whole repository names it."""
        return posixpath.join(self._folder, *parts)

    def catalogue(self, commit: str) -> Catalogue:
        """What a commit defines. Raises GitError when its objects are not here."""
        found = self._catalogues.get(commit)
        if found is None:
            found = self._read(commit, self.objects.tree(commit, self._folder))
            self._catalogues[commit], self._latest = found, found.catalogue
        return found.catalogue

    def part(self, commit: str, paths: Collection[str]) -> Catalogue:
        """What only these files and folders define, as if a commit had no others. Raises GitError."""
        return self._read(commit, self.objects.tree(commit, self._folder, paths)).catalogue

    def changes(self, old: str, new: str) -> frozenset[str]:
        """The paths at which two commits differ. Raises GitError when that cannot be told."""
        return self.objects.changes(old, new, self._folder) if old != new else frozenset()

    def pool(self, commit: str, name: str) -> Pool | None:
        """A pool as a commit defines it; None when it does not, or not soundly, or when the commit is not here."""
        try:
            found = self.catalogue(commit)
        except GitError:
            return None
        return found.by_name.get(name)

    def inputs(self, pool: Pool, arch: Arch, epoch: str) -> Inputs:
        """The inputs of one image. Raises InvalidInput when the Containerfile cannot be built for `arch`, or what it
        needs of MachineConfigs cannot."""
        key = keeping.pool_key(pool, self.engine.version)
        found = self._inputs.get((key, arch, epoch))
        if found is None:
            analysis = self._analysis(key, pool, arch)
            if analysis.uses_configs:
                # Never kept by the pool's files: these do not tell what the MachineConfigs say.
                return Inputs.of(analysis, epoch, pool.supply.content(pool.name, arch))
            found = self._inputs[key, arch, epoch] = Inputs.of(analysis, epoch)
        return found

    def uses_configs(self, pool: Pool, arch: Arch) -> bool:
        """Whether an image is built with the stage `configs`; False too where the Containerfile cannot be built."""
        try:
            return self._analysis(keeping.pool_key(pool, self.engine.version), pool, arch).uses_configs
        except InvalidInput:
            return False

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

    def authored(self, head: str, status_folder: str) -> str:
        """As `trust.authored`. From one head to the next it looks only at what is new: there may be hundreds of status
        commits since an author's last one. Raises GitError."""
        known = self._authored.get(status_folder)
        found = authored(self.objects, head, status_folder, self._folder, known)
        self._authored[status_folder] = (head, found)
        return found

    def records(self, commit: str, status_path: str, pools: Collection[str] | None = None) -> Records:
        """The status files at a commit: all, or those of some pools."""
        folder = self.path(status_path)
        only = None if pools is None else [f"{pool}.yaml" for pool in pools]
        entries = [
            e
            for e in self.objects.tree(commit, folder, only)
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
            found = [e for e in self.objects.tree(changed, folder, [name]) if e.path == name and e.is_file]
            for _, content in self.objects.blobs(e.oid for e in found if e.size <= _STATUS_LIMIT):
                try:
                    yield read_status(content, posixpath.join(folder, name))
                except InvalidInput:
                    continue  # somebody's edit; the versions around it are still good

    def baseline(
        self, architectures: Iterable[Arch], fallback: Iterable[Arch], cluster: str = ""
    ) -> Baseline | None:
        """The one that was kept last for plans of these architectures, with this known of a cluster."""
        key = self._baseline_key(architectures, fallback, cluster)
        content = self._kept.get([key]).get(key)
        return keeping.read_baseline(content) if content is not None else None

    def keep_baseline(
        self, baseline: Baseline, architectures: Iterable[Arch], fallback: Iterable[Arch], cluster: str = ""
    ) -> None:
        """Keep one, in place of the last."""
        key = self._baseline_key(architectures, fallback, cluster)
        self._keep({key: keeping.write_baseline(baseline)})

    def _baseline_key(self, architectures: Iterable[Arch], fallback: Iterable[Arch], cluster: str) -> str:
        return keeping.baseline_key(
            self._repository, self._folder, self.engine.version, architectures, fallback, cluster
        )

    def _read(self, commit: str, entries: tuple[TreeEntry, ...]) -> _Read:
        """Read a commit, with what is known of its files; then look up what is known of its pools."""
        files = {keeping.file_key(e): e for e in catalogue.documents(entries)}
        known = {key: self._readings[key] for key in files.keys() & self._readings.keys()}
        for key, content in self._kept.get(files.keys() - known.keys()).items():
            reading = keeping.read_reading(content)
            if reading is not None:
                known[key] = reading
        unknown = {k: e for k, e in files.items() if k not in known or e.path == CONFIG_PATH}
        blobs = dict(self.objects.blobs(e.oid for e in unknown.values()))
        made = {k: catalogue.read_file(e, blobs[e.oid]) for k, e in unknown.items() if e.path != CONFIG_PATH}
        known |= made
        self._readings |= known
        self._keep({key: keeping.write_reading(reading) for key, reading in made.items()})
        by_path = {files[key].path: reading for key, reading in known.items()}
        found = catalogue.read(Snapshot(commit, entries, blobs), by_path, self._latest)
        keys = [keeping.pool_key(pool, self.engine.version) for pool in found.pools]
        missing = self._analyses.missing(keys)
        kept = self._kept.get(missing)
        for key in missing:
            self._analyses[key] = keeping.read_analyses(kept.get(key, b""))
        return _Read(found, known)

    def _analysis(self, key: str, pool: Pool, arch: Arch) -> Analysis:
        known = self._analyses.get(key)
        if known is None:
            content = self._kept.get([key]).get(key, b"")
            known = self._analyses[key] = keeping.read_analyses(content)
        if arch not in known:
            known[arch] = Analysis.of(self.recipe(pool, arch))
            self._keep({key: keeping.write_analyses(known)})
        return known[arch]

    def _keep(self, values: Mapping[str, bytes | None]) -> None:
        worth = {key: content for key, content in values.items() if content is not None}
        if worth:
            self._kept.put(worth)
