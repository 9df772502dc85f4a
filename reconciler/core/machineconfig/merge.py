"""Several MachineConfigs as one: what they say together, in the order in which they are given.

Belongs here: who wins, field by field. Does not belong here: the order itself (`selector`), and what becomes of it
(`layer`).
Sources: coreos/ignition `config/merge/merge.go`: entries of one key are merged and others added; within an entry a
field that the later one gives wins; `append` is concatenated; files, directories and links are one family of paths
(`config/v3_5/types/storage.go`), so one of another kind replaces the whole entry; `shouldExist` is a set. The Machine
Config Operator's `pkg/controller/common/helpers.go`, MergeMachineConfigs: kernel arguments are concatenated, the last
kernel type that is not the default wins, fips is set by anyone, and the last image reference wins that no controller
wrote. Its extensions are concatenated too; what is installed is a set, so here it is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.core.machineconfig.paths import named
from reconciler.core.machineconfig.values import (
    Content,
    DirectoryNode,
    Dropin,
    FileNode,
    Ignition,
    KernelType,
    LinkNode,
    MachineConfig,
    Node,
    Owner,
    Place,
    Unit,
    User,
)
from reconciler.core.model import ImageRef
from reconciler.errors import Fault

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Merged:
    """All that a pool's MachineConfigs say. `places`: where fields that are not Ignition's were last given."""

    ignition: Ignition
    kernel_arguments: tuple[str, ...]
    extensions: tuple[str, ...]
    kernel_type: KernelType
    fips: bool
    os_image: ImageRef | None
    extensions_image: ImageRef | None
    places: dict[str, Place]


def merge(configs: Sequence[MachineConfig]) -> tuple[Merged, list[Fault]]:
    """What they say together, and what is wrong only because they are together."""
    faults: list[Fault] = []
    ignition = Ignition()
    kernel_type = KernelType.DEFAULT
    os_image: ImageRef | None = None
    extensions_image: ImageRef | None = None
    places: dict[str, Place] = {}
    for config in configs:
        ignition = _ignition(ignition, config.ignition, faults)
        if config.kernel_type is not KernelType.DEFAULT:
            kernel_type = config.kernel_type
        if not config.generated:
            os_image = config.os_image or os_image
            extensions_image = config.extensions_image or extensions_image
        places |= _said(config)
    merged = Merged(
        ignition=ignition,
        kernel_arguments=tuple(text for config in configs for text in config.kernel_arguments),
        extensions=tuple(sorted({name for config in configs for name in config.extensions})),
        kernel_type=kernel_type,
        fips=any(config.fips for config in configs),
        os_image=os_image,
        extensions_image=extensions_image,
        places=places,
    )
    return merged, faults


def _said(config: MachineConfig) -> dict[str, Place]:
    """Fields of this MachineConfig that say something, and where."""
    said = {
        "kernelArguments": bool(config.kernel_arguments),
        "config": bool(config.ignition.arguments),
        "extensions": bool(config.extensions),
        "kernelType": config.kernel_type is not KernelType.DEFAULT,
        "fips": config.fips,
    }
    return {key: config.places.get(key, config.at) for key, told in said.items() if told}


def _ignition(old: Ignition, new: Ignition, faults: list[Fault]) -> Ignition:
    return Ignition(
        nodes=_by_key(old.nodes, new.nodes, lambda node: node.path, lambda a, b: _node(a, b, faults)),
        units=_by_key(old.units, new.units, lambda unit: unit.name, _unit),
        users=_by_key(old.users, new.users, lambda user: user.name, _user),
        arguments=tuple(dict.fromkeys((*old.arguments, *new.arguments))),
    )


def _by_key(
    old: Iterable[Item],
    new: Iterable[Item],
    key: Callable[[Item], str],
    both: Callable[[Item, Item], Item],
) -> tuple[Item, ...]:
    """Entries of both, those of one key made one."""
    items = {key(item): item for item in old}
    for item in new:
        known = items.get(key(item))
        items[key(item)] = item if known is None else both(known, item)
    return tuple(items.values())


def _node(old: Node, new: Node, faults: list[Fault]) -> Node:
    match old, new:
        case FileNode(), FileNode():
            return _file(old, new, faults)
        case DirectoryNode(), DirectoryNode():
            return replace(
                new,
                user=_owner(old.user, new.user),
                group=_owner(old.group, new.group),
                overwrite=_given(new.overwrite, old.overwrite),
                mode=_given(new.mode, old.mode),
            )
        case LinkNode(), LinkNode():
            return replace(
                new,
                user=_owner(old.user, new.user),
                group=_owner(old.group, new.group),
                overwrite=_given(new.overwrite, old.overwrite),
                hard=_given(new.hard, old.hard),
                target=_given(new.target, old.target),
            )
        case _:
            return new


def _file(old: FileNode, new: FileNode, faults: list[Fault]) -> FileNode:
    if old.contents.compressed and new.contents.data is None:
        # Upstream writes the compressed bytes then, and nobody can want that: MergeMachineConfigs sets an empty
        # compression on every later file, and Ignition's merge takes it for an answer.
        message = (
            f"gives {named(new.path)} no contents, and those of {old.at.path}:{old.at.line} are compressed"
        )
        faults.append(new.at.fault(message, "repeat the contents here; upstream loses the compression"))
    return replace(
        new,
        user=_owner(old.user, new.user),
        group=_owner(old.group, new.group),
        overwrite=_given(new.overwrite, old.overwrite),
        mode=_given(new.mode, old.mode),
        contents=_content(old.contents, new.contents),
        append=(*old.append, *new.append),
    )


def _content(old: Content, new: Content) -> Content:
    if new.data is None:
        return old
    # A checksum stays until another one replaces it, whatever the content is by then (merge.go rule 3c).
    return replace(new, checksum=new.checksum or old.checksum)


def _unit(old: Unit, new: Unit) -> Unit:
    return replace(
        new,
        contents=_given(new.contents, old.contents),
        enabled=_given(new.enabled, old.enabled),
        mask=_given(new.mask, old.mask),
        dropins=_by_key(old.dropins, new.dropins, lambda dropin: dropin.name, _dropin),
    )


def _dropin(old: Dropin, new: Dropin) -> Dropin:
    return replace(new, contents=_given(new.contents, old.contents))


def _user(old: User, new: User) -> User:
    return replace(new, keys=old.keys + new.keys, password=new.password or old.password)


def _owner(old: Owner, new: Owner) -> Owner:
    return Owner(_given(new.number, old.number), _given(new.name, old.name))


def _given(new: Value | None, old: Value | None) -> Value | None:
    return old if new is None else new
