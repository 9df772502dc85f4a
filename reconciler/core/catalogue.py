"""One commit's files as pools: definitions with their Containerfiles and contexts, and all faults.

Belongs here: which files matter, which belong together, and which pools an unreadable file puts in doubt (DESIGN §3).
Does not belong here: the inside of a document (`documents`) or of a Containerfile (`containerfile`), and reading blobs.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.core import yaml
from reconciler.core.containerfile import ContextTree, IgnoreRules, effective_ignore
from reconciler.core.documents import (
    MachineOSConfig,
    RepositoryConfig,
    read_machine_os_config,
    read_repository_config,
)
from reconciler.core.globs import matches
from reconciler.core.model import GROUP, Arch, TreeEntry
from reconciler.core.sources import Source, find_sources, is_containerfile
from reconciler.errors import Fault, InvalidInput

CONFIG_PATH: Final = "reconciler.yaml"
_YAML: Final = (".yaml", ".yml")
_TEXT_LIMIT: Final = 1 << 20
_LINK_LIMIT: Final = 4096  # PATH_MAX
_LFS_SIZES: Final = range(100, 1025)  # the specification caps a pointer at 1024 bytes
_LFS_MARK: Final = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A commit's tree, with the bytes of the blobs that `wanted` named, by object id."""

    commit: str
    entries: tuple[TreeEntry, ...]
    blobs: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Pool:
    """A sound definition with everything that belongs to it. `folder` is '' for the root."""

    definition: MachineOSConfig
    folder: str
    sources: Mapping[Arch | None, Source]
    context: tuple[TreeEntry, ...]
    snapshot: Snapshot

    @property
    def name(self) -> str:
        """The MachineConfigPool's name."""
        return self.definition.pool

    def source(self, arch: Arch) -> Source | None:
        """The text that is built for an architecture: its own, else the one for all."""
        return self.sources.get(arch) or self.sources.get(None)

    def ignore_file(self, arch: Arch) -> tuple[str, str]:
        """The effective ignore file: its path in the tree and its text, both '' when there is none.

        An inline text counts as the sibling file it could be moved to, so that moving it changes nothing.
        """
        by_name = {
            e.path: e for e in self.context if e.is_file and "/" not in e.path and e.size <= _TEXT_LIMIT
        }
        own = f"Containerfile.{arch}" if arch in self.sources else "Containerfile"
        name = effective_ignore(by_name.keys(), own)
        if name is None:
            return "", ""
        text = self.snapshot.blobs[by_name[name].oid].decode("utf-8", "surrogateescape")
        return posixpath.join(self.folder, name), text

    def context_tree(self, arch: Arch) -> ContextTree:
        """What a build of this architecture may see. Raises InvalidInput for ignore rules that cannot be read."""
        blobs = self.snapshot.blobs
        path, text = self.ignore_file(arch)
        return ContextTree(
            entries=self.context,
            links={
                e.path: blobs[e.oid].decode("utf-8", "surrogateescape")
                for e in self.context
                if e.is_symlink and e.oid in blobs
            },
            lfs=frozenset(
                e.oid
                for e in self.context
                if e.is_file and e.size in _LFS_SIZES and blobs.get(e.oid, b"").startswith(_LFS_MARK)
            ),
            ignore=IgnoreRules.parse(text, path),
        )


@dataclass(frozen=True, slots=True)
class Doubt:
    """A file that could not be read: which pools it could belong to is decided against what is known elsewhere."""

    path: str
    content: bytes | None
    faults: tuple[Fault, ...]

    def mentions(self, pool: str) -> bool:
        """Whether the text speaks of this pool and of machines at all."""
        return self.content is not None and b"Machine" in self.content and pool.encode() in self.content


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All that a commit defines. `broken` are pools whose definition has faults, by name; `faults` are all faults.

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

    def doubts_about(self, pool: str) -> tuple[Fault, ...]:
        """Faults of unreadable files that could belong to `pool`: those for which its folder is the nearest one that
        holds a definition, those that mention it, and all of them when the pool is not defined anywhere."""
        folders = {p.folder for p in self.pools}
        own = next((p.folder for p in self.pools if p.name == pool), None)
        return self.config_faults + tuple(
            fault
            for doubt in self.doubts
            if own is None or _nearest(doubt.path, folders) == own or doubt.mentions(pool)
            for fault in doubt.faults
        )

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


class _Files:
    """A tree's entries by folder, so that a thousand pools do not each walk the whole tree."""

    def __init__(self, entries: Iterable[TreeEntry], hidden: str) -> None:
        shown = sorted((e for e in entries if not _under(e.path, hidden)), key=lambda e: e.path)
        self._entries = shown
        self._paths = [e.path for e in shown]
        self._folders: dict[str, list[TreeEntry]] = {}
        for entry in shown:
            self._folders.setdefault(posixpath.dirname(entry.path), []).append(entry)

    def directly_in(self, folder: str) -> list[TreeEntry]:
        return self._folders.get(folder, [])

    def below(self, folder: str) -> tuple[TreeEntry, ...]:
        """Everything below a folder, with paths relative to it."""
        if not folder:
            return tuple(self._entries)
        start = bisect_left(self._paths, f"{folder}/")
        end = bisect_left(self._paths, f"{folder}0")  # "0" follows "/"
        cut = len(folder) + 1
        return tuple(TreeEntry(e.path[cut:], e.mode, e.oid, e.size) for e in self._entries[start:end])


def wanted(entries: Iterable[TreeEntry]) -> tuple[str, ...]:
    """Object ids of the blobs that reading a commit needs: documents, Containerfiles, ignore rules, link targets and
    what could be a Git LFS pointer. Nothing above 1 MiB is among them."""
    return tuple(dict.fromkeys(e.oid for e in entries if _is_wanted(e)))


def _is_wanted(entry: TreeEntry) -> bool:
    if entry.is_symlink:
        return entry.size <= _LINK_LIMIT
    if not entry.is_file or entry.size > _TEXT_LIMIT:
        return False
    name = posixpath.basename(entry.path)
    return (
        name.endswith((*_YAML, ".containerignore", ".dockerignore"))
        or name.startswith("Containerfile")
        or entry.size in _LFS_SIZES
    )


def read(snapshot: Snapshot) -> Catalogue:
    """Read a commit. Never raises for what is in it: faults are collected, and sound pools stay usable."""
    config, config_faults = _read_config(snapshot)
    faults = list(config_faults)
    definitions: list[MachineOSConfig] = []
    broken: dict[str, tuple[Fault, ...]] = {}
    doubts: list[Doubt] = []
    for entry in snapshot.entries:
        if not _is_document(entry, config):
            continue
        try:
            documents = _documents(entry, snapshot)
        except InvalidInput as error:
            content = snapshot.blobs.get(entry.oid)
            doubts.append(Doubt(entry.path, content, error.faults))
            faults.extend(error.faults)
            continue
        for document in documents:
            if document.kind != "MachineOSConfig":
                continue
            try:
                definitions.append(read_machine_os_config(document))
            except InvalidInput as error:
                faults.extend(error.faults)
                name = _claimed_name(document)
                if name:
                    broken[name] = broken.get(name, ()) + error.faults
                else:
                    doubts.append(Doubt(entry.path, snapshot.blobs.get(entry.oid), error.faults))
    pools = _assemble(definitions, snapshot, _Files(snapshot.entries, config.status_path), broken)
    known = set(faults)
    faults.extend(f for found in broken.values() for f in found if f not in known)
    return Catalogue(
        snapshot.commit,
        config,
        tuple(sorted(pools, key=lambda p: p.name)),
        broken,
        tuple(doubts),
        tuple(sorted(set(faults))),
        config_faults,
    )


def _read_config(snapshot: Snapshot) -> tuple[RepositoryConfig, tuple[Fault, ...]]:
    entry = next((e for e in snapshot.entries if e.path == CONFIG_PATH), None)
    if entry is None:
        return RepositoryConfig(), ()
    try:
        documents = _documents(entry, snapshot)
        if len(documents) != 1:
            raise InvalidInput(
                [Fault(CONFIG_PATH, 0, "must hold exactly one document", "keep only the RepositoryConfig")]
            )
        return read_repository_config(documents[0]), ()
    except InvalidInput as error:
        return RepositoryConfig(), error.faults


def _is_document(entry: TreeEntry, config: RepositoryConfig) -> bool:
    path = entry.path
    return (
        entry.is_file
        and path.endswith(_YAML)
        and path != CONFIG_PATH
        and not _under(path, config.status_path)
        and (not config.include or any(matches(glob, path) for glob in config.include))
        and not any(matches(glob, path) for glob in config.exclude)
    )


def _under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _documents(entry: TreeEntry, snapshot: Snapshot) -> tuple[yaml.Document, ...]:
    content = snapshot.blobs.get(entry.oid)
    if content is None:
        problem = (
            f"{entry.size} bytes are too large for a definition"
            if entry.is_file
            else "a definition must be a regular file; links are not followed"
        )
        hint = "keep YAML files below 1 MiB, or name the file under `exclude` in reconciler.yaml"
        raise InvalidInput([Fault(entry.path, 0, problem, hint)])
    return yaml.read(content, entry.path, _OurKinds())


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
    snapshot: Snapshot,
    files: _Files,
    broken: dict[str, tuple[Fault, ...]],
) -> list[Pool]:
    """Pools from sound definitions; what is wrong between definitions goes into `broken`."""
    clashes = _clashes(definitions, files)
    pools = []
    for definition in definitions:
        faults = list(clashes.get((definition.path, definition.line), ()))
        folder = posixpath.dirname(definition.path)
        sources, source_faults = find_sources(definition, files.directly_in(folder), snapshot.blobs)
        faults += source_faults
        if faults or definition.pool in broken:
            broken[definition.pool] = broken.get(definition.pool, ()) + tuple(faults)
            continue
        pools.append(Pool(definition, folder, sources, files.below(folder), snapshot))
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
