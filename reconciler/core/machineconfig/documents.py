"""Reading: a `MachineConfig` or `MachineConfigPool` document as a value, or all that is wrong with it.

Belongs here: what one document says, with its contents decoded, and rules between its fields. Does not belong here:
single fields (`schema`), and what several documents mean together (`merge`, `layer`).
Sources: openshift/api `machineconfiguration/v1/types.go`; coreos/ignition `config/v3_5/types/*.go` (Validate) and
`config/validate` (no two entries of one key); the Machine Config Operator's `pkg/controller/common/helpers.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

from pydantic import PlainValidator

from reconciler.core.documents.metadata import ObjectMeta
from reconciler.core.documents.shape import Strict, at_place, check, one_of
from reconciler.core.machineconfig import content, schema, unitfile
from reconciler.core.machineconfig.selector import Pool, Selector
from reconciler.core.machineconfig.values import (
    Content,
    DirectoryNode,
    Dropin,
    FileNode,
    Ignition,
    LinkNode,
    MachineConfig,
    Node,
    Owner,
    Place,
    Unit,
    User,
)
from reconciler.core.model import GROUP, Arch
from reconciler.core.yaml import MAX_FAULTS, Document, Pointer, shown
from reconciler.errors import Fault, InvalidInput

API_VERSION: Final = "machineconfiguration.openshift.io/v1"
KIND: Final = "MachineConfig"
POOL_KIND: Final = "MachineConfigPool"

ARCH_LABEL: Final = f"{GROUP}/arch"
OUTPUT_LABEL: Final = f"{GROUP}/output"
_GENERATED: Final = "machineconfiguration.openshift.io/generated-by-controller-version"
_CONFIG: Final = ("spec", "config")

Item = TypeVar("Item")


class _ApiVersion(StrEnum):
    V1 = API_VERSION


class _Kind(StrEnum):
    MACHINE_CONFIG = KIND


class _PoolKind(StrEnum):
    MACHINE_CONFIG_POOL = POOL_KIND


class _MachineConfig(Strict):
    api_version: Annotated[_ApiVersion, PlainValidator(one_of(_ApiVersion))]
    kind: Annotated[_Kind, PlainValidator(one_of(_Kind))]
    metadata: ObjectMeta
    spec: schema.Spec | None = None


class _PoolSpec(Strict):
    machine_config_selector: Selector | None = None
    node_selector: Any = None
    paused: Any = None
    max_unavailable: Any = None
    configuration: Any = None
    pinned_image_sets: Any = None
    os_image_stream: Any = None


class _Pool(Strict):
    api_version: Annotated[_ApiVersion, PlainValidator(one_of(_ApiVersion))]
    kind: Annotated[_PoolKind, PlainValidator(one_of(_PoolKind))]
    metadata: ObjectMeta
    spec: _PoolSpec
    status: dict[str, Any] | None = None  # a cluster's own; Git exports carry it


def read_machine_config(document: Document) -> MachineConfig:
    """Raises InvalidInput with all faults of the document."""
    found, faults = check(_MachineConfig, document)
    if found is None:
        raise InvalidInput(set(faults))
    reader = _Reader(document)
    spec = found.spec or schema.Spec()
    ignition = reader.ignition(spec.config)
    labels = found.metadata.labels or {}
    arch = reader.arch(labels.get(ARCH_LABEL))
    if reader.faults:
        raise InvalidInput(sorted(set(reader.faults))[:MAX_FAULTS])
    return MachineConfig(
        name=found.metadata.name,
        at=Place(document.path, document.line),
        labels=labels,
        arch=arch,
        output=OUTPUT_LABEL in labels,
        generated=bool((found.metadata.annotations or {}).get(_GENERATED)),
        ignition=ignition,
        kernel_arguments=tuple(spec.kernel_arguments or ()),
        extensions=tuple(spec.extensions or ()),
        kernel_type=spec.kernel_type,
        fips=bool(spec.fips),
        os_image=spec.os_image,
        extensions_image=spec.extensions_image,
        places={key: reader.place(("spec", key)) for key in document.data.get("spec") or ()},
    )


def read_machine_config_pool(document: Document) -> Pool:
    """Raises InvalidInput with all faults of the document."""
    found, faults = check(_Pool, document)
    if found is None:
        raise InvalidInput(set(faults))
    selector = found.spec.machine_config_selector
    if selector is not None and not selector.requirements:
        place = ("spec", "machineConfigSelector")
        hint = "select by machineconfiguration.openshift.io/role; upstream refuses an empty selector too"
        raise InvalidInput([at_place(document, place, "selects every MachineConfig", hint)])
    return Pool(found.metadata.name, Place(document.path, document.line), selector)


class _Reader:
    """One document's parts as values, its faults collected."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._room = content.MAX_BYTES
        self.faults: list[Fault] = []

    def place(self, pointer: Pointer) -> Place:
        return Place(self._document.path, self._document.line_of(pointer))

    def _fault(self, pointer: Pointer, message: str, hint: str = "") -> None:
        self.faults.append(at_place(self._document, pointer, message, hint))

    def arch(self, text: str | None) -> Arch | None:
        if text is None:
            return None
        try:
            return Arch.parse(text)
        except ValueError:
            hint = f"known are {', '.join(Arch)}; leave the label out for all of them"
            place = ("metadata", "labels", ARCH_LABEL)
            self._fault(place, f"must be an architecture, not {shown(text)}", hint)
            return None

    def ignition(self, config: schema.Config | None) -> Ignition:
        if config is None:
            return Ignition()
        storage, at = config.storage, (*_CONFIG, "storage")
        nodes: list[Node] = []
        if storage:
            nodes += self._each(storage.directories, (*at, "directories"), self._directory)
            nodes += self._each(storage.files, (*at, "files"), self._file)
            nodes += self._each(storage.links, (*at, "links"), self._link)
        self._distinct(((node.path, node.at) for node in nodes), "path")
        units = self._each(
            config.systemd.units if config.systemd else None, (*_CONFIG, "systemd", "units"), self._unit
        )
        self._distinct(((unit.name, unit.at) for unit in units), "unit")
        users = self._each(
            config.passwd.users if config.passwd else None, (*_CONFIG, "passwd", "users"), self._user
        )
        self._distinct(((user.name, user.at) for user in users), "user")
        arguments = config.kernel_arguments.should_exist if config.kernel_arguments else None
        return Ignition(tuple(nodes), tuple(units), tuple(users), tuple(dict.fromkeys(arguments or ())))

    def _each(self, items: list[Any] | None, at: Pointer, read: Callable[[Any, Pointer], Item]) -> list[Item]:
        return [read(item, (*at, i)) for i, item in enumerate(items or ())]

    def _distinct(self, items: Iterable[tuple[str, Place]], what: str) -> None:
        seen: dict[str, Place] = {}
        for key, at in items:
            if key in seen:
                message = f"{what} {shown(key)} is given twice (first on line {seen[key].line})"
                self.faults.append(at.fault(message, "keep one; Ignition takes one entry of each"))
            seen.setdefault(key, at)

    def _owner(self, given: schema.Account | None, at: Pointer) -> Owner:
        if given is None:
            return Owner()
        if given.id is not None and given.name:
            self._fault(at, "has both an id and a name", "keep one of the two")
        return Owner(given.id, given.name or None)

    def _owners(self, node: Any, at: Pointer) -> dict[str, Any]:
        return {
            "path": node.path,
            "at": self.place(at),
            "user": self._owner(node.user, (*at, "user")),
            "group": self._owner(node.group, (*at, "group")),
            "overwrite": node.overwrite,
        }

    def _file(self, file: schema.File, at: Pointer) -> FileNode:
        self._not_root(file.path, at)
        contents = self._content(file.contents, (*at, "contents"))
        if file.overwrite and contents.data is None:
            self._fault((*at, "overwrite"), "is true, but there are no contents", "give contents.source")
        append = [
            self._content(item, (*at, "append", i)).data or b"" for i, item in enumerate(file.append or ())
        ]
        return FileNode(**self._owners(file, at), mode=file.mode, contents=contents, append=tuple(append))

    def _directory(self, directory: schema.Directory, at: Pointer) -> DirectoryNode:
        return DirectoryNode(**self._owners(directory, at), mode=directory.mode)

    def _link(self, link: schema.Link, at: Pointer) -> LinkNode:
        self._not_root(link.path, at)
        return LinkNode(**self._owners(link, at), hard=link.hard, target=link.target or None)

    def _not_root(self, path: str, at: Pointer) -> None:
        if path == "/":
            self._fault((*at, "path"), "must not be the root")

    def _content(self, resource: schema.Resource | None, at: Pointer) -> Content:
        if resource is None:
            return Content()
        checksum = (resource.verification.hash if resource.verification else None) or ""
        if resource.source is None:
            if checksum or resource.compression:
                self._fault(at, "says how to read a source, but gives none", "give source in the same place")
            return Content()
        compressed = resource.compression == "gzip"
        try:
            data = content.decoded(resource.source, compressed=compressed, room=self._room)
        except content.Unreadable as error:
            self._fault((*at, "source"), error.message, error.hint)
            return Content(b"", compressed=compressed)
        self._room -= len(data)
        if checksum and not content.agrees(data, checksum):
            hint = "it is that of the decoded and decompressed content"
            self._fault((*at, "verification", "hash"), "is not the checksum of the content", hint)
        return Content(data, checksum, compressed)

    def _unit(self, unit: schema.Unit, at: Pointer) -> Unit:
        dropins = self._each(unit.dropins, (*at, "dropins"), self._dropin)
        self._distinct(((dropin.name, dropin.at) for dropin in dropins), "drop-in")
        self._check_unit(unit.contents, (*at, "contents"))
        return Unit(unit.name, self.place(at), unit.contents, unit.enabled, unit.mask, tuple(dropins))

    def _dropin(self, dropin: schema.Dropin, at: Pointer) -> Dropin:
        self._check_unit(dropin.contents, (*at, "contents"))
        return Dropin(dropin.name, self.place(at), dropin.contents)

    def _check_unit(self, text: str | None, at: Pointer) -> None:
        try:
            unitfile.check(text or "")
        except unitfile.BadUnit as error:
            self._fault(at, f"is no unit that systemd reads: {error}")

    def _user(self, user: schema.User, at: Pointer) -> User:
        return User(user.name, self.place(at), len(user.ssh_authorized_keys or ()), bool(user.password_hash))
