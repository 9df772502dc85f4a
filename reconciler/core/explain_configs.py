"""Words for what MachineConfigs change in an image, or why an edit to one changes nothing.

Belongs here: comparing what two versions of the stage `configs` bring. Does not belong here: everything else that is
explained (`explain`), and deciding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from reconciler.core.documents import MachineConfigPolicy
from reconciler.core.machineconfig import Content, MachineConfig
from reconciler.core.machineconfig.kargs import PATH as KARGS
from reconciler.core.machineconfig.values import Place
from reconciler.core.plan import Reason

_INGREDIENT: Final = "machineConfig"
_FIELDS: Final = ("osImageURL", "kernelType", "extensions", "extensionsImage", "kernelArguments")
_KEYS: Final = {"extensionsImage": "baseOSExtensionsContainerImage"}
"""Names in the document, where they are not those of the canonical form."""
_PATHS: Final = {
    "removals": "replaces what the base has there",
    "unmasked": "unmasks the unit",
    "enabled": "enables the unit",
    "disabled": "disables the unit",
}
_CONFIG: Final = "reconciler.yaml"


def changes(before: Content | None, after: Content | None) -> Iterator[Reason]:
    """What differs between what two versions bring; nothing when one of them has no such stage at all, as the recipe
    says that."""
    if before is None or after is None:
        return
    old, new = before.canonical, after.canonical
    yield from _fields(before, after)
    if "entries" not in old or "entries" not in new:
        return
    yield from _entries(before, after)
    for key, words in _PATHS.items():
        for path in sorted({*old[key]} ^ {*new[key]}):
            added = path in new[key]
            place = (after if added else before).place_of(path if path.startswith("/") else f"/{path}")
            yield _reason("added" if added else "removed", f"{words} {path}", place)


def unchanged(before: Content | None, after: Content | None) -> Iterator[Reason]:
    """The edits to MachineConfigs that change no input."""
    if before is None or after is None:
        return
    known = {config.name: config for config in before.configs}
    image = MachineConfigPolicy.IMAGE
    same = before.layer.canonical(image) == after.layer.canonical(image)
    why = "it gives the same" if same else "nothing that the Machine Config Operator rebuilds for"
    for config in after.configs:
        old = known.pop(config.name, None)
        if old is None or _moved(old, config) or old != config:
            moved = old is not None and _moved(old, config)
            words = "moved" if moved else "changed" if old else "added"
            yield _reason("unchanged", f"MachineConfig {config.name} {words}: {why}", config.at)
    for gone in known.values():
        yield _reason("unchanged", f"MachineConfig {gone.name} removed: {why}", gone.at)


def _moved(old: MachineConfig, new: MachineConfig) -> bool:
    return old.at.path != new.at.path


def _fields(before: Content, after: Content) -> Iterator[Reason]:
    old, new = before.canonical, after.canonical
    for name in _FIELDS:
        was, is_ = old.get(name), new.get(name)
        if was == is_ or None in (was, is_):
            continue
        key = _KEYS.get(name, name)
        place = after.place_of_field(key) or before.place_of_field(key)
        if name == "osImageURL" and place is None:
            place = Place(_CONFIG, 0)
        change = "changed" if was and is_ else "added" if is_ else "removed"
        yield _reason(change, f"{key} {change}", place, _words(was), _words(is_))


def _entries(before: Content, after: Content) -> Iterator[Reason]:
    """Files, folders and links. The file with kernel arguments is told of by these."""
    old, new = _by_path(before), _by_path(after)
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) == new.get(path) or path == KARGS:
            continue
        change = "added" if path not in old else "removed" if path not in new else "changed"
        place = (after if path in new else before).place_of(path)
        yield _reason(change, f"{path} {change}", place)


def _by_path(content: Content) -> dict[str, Any]:
    return {entry[0]: entry for entry in content.canonical["entries"]}


def _words(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


def _reason(change: str, message: str, place: Place | None, before: str = "", after: str = "") -> Reason:
    at = place or Place("", 0)
    return Reason(_INGREDIENT, change, message, at.path, at.line, before, after)
