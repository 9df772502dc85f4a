"""One commit's files as pools: definitions with their Containerfiles and contexts, and all faults.

Belongs here: which files matter, which belong together, and which pools an unreadable file puts in doubt (DESIGN §3).
Does not belong here: the inside of a document (`documents`) or of a Containerfile (`containerfile`), and reading blobs.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from reconciler.core import yaml
from reconciler.core.documents import (
    MachineOSConfig,
    Probes,
    RepositoryConfig,
    read_machine_os_config,
    read_repository_config,
)
from reconciler.core.globs import matches
from reconciler.core.machineconfig import NOTHING, Broken, Documents, Supply, commit
from reconciler.core.model import GROUP, TreeEntry
from reconciler.core.pool import TEXT_LIMIT, Pool
from reconciler.core.sources import find_sources, is_containerfile
from reconciler.errors import Fault, InvalidInput

CONFIG_PATH: Final = "reconciler.yaml"
_YAML: Final = (".yaml", ".yml")
_MACHINE: Final = b"Machine"
_NONE: Final = Documents()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A commit's tree, with the bytes of the documents that `documents` named, by object id. Those of files whose
    reading is known already may be left out."""

    commit: str
    entries: tuple[TreeEntry, ...]
    blobs: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A file that could not be read: which pools it could belong to is decided against what is known elsewhere."""

    path: str
    content: bytes | None
    faults: tuple[Fault, ...]

    def mentions(self, pool: str) -> bool:
        """Whether the text speaks of this pool and of machines at all."""
        return self.content is not None and _MACHINE in self.content and pool.encode() in self.content


@dataclass(frozen=True, slots=True)
class FileReading:
    """What one YAML file says: sound definitions, faulty ones by the pool they name, files in doubt; and
    MachineConfigs."""

    definitions: tuple[MachineOSConfig, ...] = ()
    broken: tuple[tuple[str, tuple[Fault, ...]], ...] = ()
    doubts: tuple[Doubt, ...] = ()
    machines: Documents = _NONE


@dataclass(frozen=True)
class Catalogue:
    """All that a commit defines. `broken` are pools whose definition has faults, by name; `faults` are all faults of
    definitions. `supply` has the MachineConfigs, and the faults of those: they concern only pools that use them.

    `config_faults` are those of reconciler.yaml: without it nobody knows what is excluded and where the status lies,
    so they hold back every pool.
    """

    commit: str
    config: RepositoryConfig
    pools: tuple[Pool, ...]
    broken: Mapping[str, tuple[Fault, ...]]
    doubts: tuple[Doubt, ...]
    faults: tuple[Fault, ...]
    config_faults: tuple[Fault, ...] = ()
    supply: Supply = NOTHING

    def doubts_about(self, pool: str) -> tuple[Fault, ...]:
        """Faults of unreadable files that could belong to `pool`: those for which its folder is the nearest one that
        holds a definition, those that mention it, and all of them when the pool is not defined anywhere."""
        if not self.doubts:
            return self.config_faults
        folders = {p.folder for p in self.pools}
        own = self.by_name[pool].folder if pool in self.by_name else None
        return self.config_faults + tuple(
            fault
            for doubt in self.doubts
            if own is None or _nearest(doubt.path, folders) == own or doubt.mentions(pool)
            for fault in doubt.faults
        )

    @cached_property
    def by_name(self) -> Mapping[str, Pool]:
        """The sound pools by name."""
        return {pool.name: pool for pool in self.pools}

    @property
    def clean(self) -> bool:
        """Whether every document was read: only then does a missing pool count as removed."""
        return not self.faults


def _nearest(path: str, folders: Container[str]) -> str | None:
    """The innermost of `folders` that holds `path`."""
    folder = posixpath.dirname(path)
    while folder not in folders:
        if not folder:
            return None
        folder = posixpath.dirname(folder)
    return folder


class _OurKinds:
    """The (apiVersion, kind) pairs that are read; wrong versions of our kinds too, so that they are not overlooked."""

    def __contains__(self, pair: object) -> bool:
        match pair:
            case (str(), "MachineOSConfig"):
                return True
            case (str(version), _):
                return version.startswith(f"{GROUP}/")
        return False


class _AllKinds(_OurKinds):
    """These, and what the stage `configs` is made from."""

    def __contains__(self, pair: object) -> bool:
        match pair:
            case (str(version), str(kind)) if commit.is_ours(version, kind):
                return True
        return super().__contains__(pair)


class _Files:
    """A tree's entries by folder, so that a thousand pools do not each walk the whole tree."""

    def __init__(self, snapshot: Snapshot, config: RepositoryConfig) -> None:
        hidden = config.status_path
        shown = sorted((e for e in snapshot.entries if not _under(e.path, hidden)), key=attrgetter("path"))
        self.probes = config.probes is Probes.TRUSTED
        self._entries = shown
        self._paths = [e.path for e in shown]
        self._folders: dict[str, list[TreeEntry]] = {}
        for entry in shown:
            folder = entry.path.rpartition("/")[0]  # as dirname, in a third of the time
            self._folders.setdefault(folder, []).append(entry)

    def directly_in(self, folder: str) -> list[TreeEntry]:
        return self._folders.get(folder, [])

    def below(self, folder: str) -> tuple[TreeEntry, ...]:
        """Everything below a folder."""
        if not folder:
            return tuple(self._entries)
        start = bisect_left(self._paths, f"{folder}/")
        end = bisect_left(self._paths, f"{folder}0")  # "0" follows "/"
        return tuple(self._entries[start:end])


def may_hold_documents(path: str) -> bool:
    """Whether a file of this name could be one that definitions are looked for in, whatever the configuration says."""
    return path.endswith(_YAML)


def documents(entries: Iterable[TreeEntry]) -> tuple[TreeEntry, ...]:
    """The files that may hold documents and are small enough to be read."""
    return tuple(e for e in entries if e.path.endswith(_YAML) and e.is_file and e.size <= TEXT_LIMIT)


def read(
    snapshot: Snapshot,
    known: Mapping[str, FileReading] = MappingProxyType({}),
    before: Catalogue | None = None,
) -> Catalogue:
    """Read a commit. Never raises for what is in it: faults are collected, and sound pools stay usable.

    `known` are readings of files, by path, that were made before; `before` is another commit: pools whose files are the
    same are taken over from it, and so is what MachineConfigs come to.
    """
    config, config_faults = _read_config(snapshot)
    definitions: list[MachineOSConfig] = []
    broken: dict[str, tuple[Fault, ...]] = {}
    doubts: list[Doubt] = []
    machines: list[Documents] = []
    for entry in snapshot.entries:
        if not _is_document(entry, config):
            continue
        reading = known.get(entry.path) or read_file(entry, snapshot.blobs.get(entry.oid))
        if reading.machines is not _NONE:
            machines.append(reading.machines)
        definitions += reading.definitions
        doubts += reading.doubts
        for name, faults in reading.broken:
            broken[name] = broken.get(name, ()) + faults
    supply = Supply(commit.together(machines), config.machine_config, config.base_image)
    if before and before.supply == supply:
        supply = before.supply  # with what it has worked out
    former = before.by_name if before else {}
    pools = _assemble(definitions, _Files(snapshot, config), broken, former)
    faults_of_all = {*config_faults, *chain.from_iterable((*(d.faults for d in doubts), *broken.values()))}
    return Catalogue(
        snapshot.commit,
        config,
        tuple(sorted((pool.supplied(supply) for pool in pools), key=lambda p: p.name)),
        broken,
        tuple(doubts),
        tuple(sorted(faults_of_all)),
        config_faults,
        supply,
    )


def read_file(entry: TreeEntry, content: bytes | None) -> FileReading:
    """Read one YAML file; `content` is None when it is not to be read at all."""
    machines = _NONE
    try:
        found = _documents(entry, content, _AllKinds())
        machines = commit.read(found)
    except InvalidInput as error:
        try:
            # Whoever has no use for MachineConfigs need not care how they are written.
            found = _documents(entry, content, _OurKinds())
        except InvalidInput as all_kinds:
            may_hold = content is None or _MACHINE in content
            unread = Documents(broken=(Broken(entry.path, all_kinds.faults),)) if may_hold else _NONE
            return FileReading(doubts=(Doubt(entry.path, content, all_kinds.faults),), machines=unread)
        machines = Documents(broken=(Broken(entry.path, error.faults),))
    definitions: list[MachineOSConfig] = []
    broken: list[tuple[str, tuple[Fault, ...]]] = []
    doubts: list[Doubt] = []
    for document in found:
        if document.kind != "MachineOSConfig":
            continue
        try:
            definitions.append(read_machine_os_config(document))
        except InvalidInput as error:
            name = _claimed_name(document)
            if name:
                broken.append((name, error.faults))
            else:
                doubts.append(Doubt(entry.path, content, error.faults))
    return FileReading(
        tuple(definitions), tuple(broken), tuple(doubts), machines if machines != _NONE else _NONE
    )


def _read_config(snapshot: Snapshot) -> tuple[RepositoryConfig, tuple[Fault, ...]]:
    entry = next((e for e in snapshot.entries if e.path == CONFIG_PATH), None)
    if entry is None:
        return RepositoryConfig(), ()
    try:
        found = _documents(entry, snapshot.blobs.get(entry.oid), _OurKinds())
        if len(found) != 1:
            raise InvalidInput(
                [Fault(CONFIG_PATH, 0, "must hold exactly one document", "keep only the RepositoryConfig")]
            )
        return read_repository_config(found[0]), ()
    except InvalidInput as error:
        return RepositoryConfig(), error.faults


def _is_document(entry: TreeEntry, config: RepositoryConfig) -> bool:
    path = entry.path
    return (
        path.endswith(_YAML)
        and entry.is_file
        and path != CONFIG_PATH
        and not _under(path, config.status_path)
        and (not config.include or any(matches(glob, path) for glob in config.include))
        and not any(matches(glob, path) for glob in config.exclude)
    )


def _under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _documents(
    entry: TreeEntry, content: bytes | None, kinds: Container[tuple[str, str]]
) -> tuple[yaml.Document, ...]:
    if content is None:
        problem = (
            f"{entry.size} bytes are too large for a definition"
            if entry.is_file
            else "a definition must be a regular file; links are not followed"
        )
        hint = "keep YAML files below 1 MiB, or name the file under `exclude` in reconciler.yaml"
        raise InvalidInput([Fault(entry.path, 0, problem, hint)])
    return yaml.read(content, entry.path, kinds)


def _claimed_name(document: yaml.Document) -> str:
    """The pool a faulty definition says it is for, so that only that pool is held back."""
    for keys in (("spec", "machineConfigPool", "name"), ("metadata", "name")):
        value: object = document.data
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str) and value:
            return value
    return ""


def _assemble(
    definitions: list[MachineOSConfig],
    files: _Files,
    broken: dict[str, tuple[Fault, ...]],
    before: Mapping[str, Pool],
) -> list[Pool]:
    """Pools from sound definitions; what is wrong between definitions goes into `broken`."""
    clashes = _clashes(definitions, files)
    pools = []
    for definition in definitions:
        faults = list(clashes.get((definition.path, definition.line), ()))
        folder = posixpath.dirname(definition.path)
        entries = files.below(folder)
        was = before.get(definition.pool)
        if not faults and was and was.is_still(definition, entries, files.probes):
            pools.append(was)
            continue
        sources, source_faults = find_sources(definition, files.directly_in(folder))
        faults += source_faults
        if faults or definition.pool in broken:
            broken[definition.pool] = broken.get(definition.pool, ()) + tuple(faults)
            continue
        pools.append(Pool.of(definition, sources, entries, files.probes))
    return [pool for pool in pools if pool.name not in broken]


def _clashes(definitions: list[MachineOSConfig], files: _Files) -> dict[tuple[str, int], list[Fault]]:
    """Faults between definitions, by the place of each definition involved."""
    found: dict[tuple[str, int], list[Fault]] = {}

    def report(group: list[MachineOSConfig], message: str, hint: str) -> None:
        for one in group:
            others = ", ".join(f"{d.path}:{d.line}" for d in group if d is not one)
            fault = Fault(one.path, one.line, f"{message} (also {others})", hint)
            found.setdefault((one.path, one.line), []).append(fault)

    for key, message, hint in (
        (lambda d: d.pool, "pool {} has two definitions", "keep one MachineOSConfig per pool"),
        (lambda d: str(d.push), "{} is pushed to by two pools", "give every pool its own repository:tag"),
    ):
        groups: dict[str, list[MachineOSConfig]] = {}
        for definition in definitions:
            groups.setdefault(key(definition), []).append(definition)
        for name, group in groups.items():
            if len(group) > 1:
                report(group, message.format(name), hint)
    folders: dict[str, list[MachineOSConfig]] = {}
    for definition in definitions:
        folders.setdefault(posixpath.dirname(definition.path), []).append(definition)
    for folder, group in folders.items():
        if len(group) > 1 and any(is_containerfile(e.path) for e in files.directly_in(folder)):
            report(
                group,
                f"folder {folder or '.'} has Containerfiles but more than one definition",
                "give each definition its own folder",
            )
    return found
