"""systemd units of MachineConfigs: their files, masks, drop-ins, presets and what enabling them links.

Everything goes to `/etc/systemd/system`, where Ignition and the Machine Config Operator write it (bootc would rather
have it in `/usr`, but then a node that the operator also writes to would carry a second, winning copy in `/etc`, and
a unit that the base image keeps in `/etc` could not be replaced).

Enabling is said twice, because it is asked twice. A preset, as Ignition writes it, is read at a machine's first boot
only. On a machine that runs already the operator calls `systemctl enable`; in an image nobody would, so the links
that it makes are entries of the layer. What a unit of the base image would link is not known here: it is named in
`enabled`.

Sources: coreos/ignition `internal/exec/stages/files/units.go` and `internal/exec/util/unit.go` (a preset's name and
lines, a mask that takes the contents' place); the Machine Config Operator's `pkg/daemon/file_writers.go` and
`update.go` (a unit without contents is not written, an empty drop-in is removed, `mask: false` removes a mask, a unit
that is nowhere is not enabled); systemd.preset(5), systemctl(1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.core.machineconfig import unitfile
from reconciler.core.machineconfig.layer import Entry, Kind
from reconciler.core.machineconfig.tree import Tree
from reconciler.core.machineconfig.values import Unit

FOLDER: Final = "/etc/systemd/system"
PRESET: Final = "/etc/systemd/system-preset/20-ignition.preset"


@dataclass(slots=True)
class Work:
    """What units ask for beside entries of the tree."""

    removals: list[str] = field(default_factory=list)
    unmasked: list[str] = field(default_factory=list)
    enabled: set[str] = field(default_factory=set)
    disabled: set[str] = field(default_factory=set)


def plant(units: Iterable[Unit], tree: Tree) -> Work:
    """Adds all that units make to the tree."""
    work = Work()
    known = {unit.name: unit for unit in units}
    for unit in known.values():
        _write(unit, tree, work)
    for unit in known.values():
        if unit.enabled and unit.mask:
            tree.warnings.append(unit.at.fault(f"{unit.name} is enabled and masked; the mask wins"))
        elif unit.enabled is False:
            work.disabled.add(unit.name)
    _enable(known, tree, work)
    lines = _preset(known.values())
    if lines:
        at = next(unit.at for unit in known.values() if unit.enabled is not None)
        tree.add(_text(PRESET, lines), at)
    return work


def _text(path: str, text: str) -> Entry:
    return Entry(path, Kind.FILE, 0o644, content=text.encode())


def _write(unit: Unit, tree: Tree, work: Work) -> None:
    path = f"{FOLDER}/{unit.name}"
    for dropin in unit.dropins:
        place = f"{path}.d/{dropin.name}"
        if dropin.contents:
            tree.add(_text(place, dropin.contents), dropin.at)
        elif dropin.contents is not None:
            work.removals.append(place)
    if unit.mask:
        tree.add(Entry(path, Kind.SYMLINK, target="/dev/null"), unit.at)
    elif unit.contents:
        tree.add(_text(path, unit.contents), unit.at)
    elif unit.mask is False:
        work.unmasked.append(path)


def _enable(known: Mapping[str, Unit], tree: Tree, work: Work) -> None:
    """The links of all enabled units, and of those that they want enabled with them."""
    asked = [unit.name for unit in known.values() if unit.enabled and not unit.mask]
    pending, seen = [*asked], set(asked)
    while pending:
        name = pending.pop()
        source = _source(name, known)
        if source is None:
            work.enabled.add(name)
            continue
        install = _install(name, source, known, tree)
        if install.node:
            # systemctl would take the name and the kernel of the machine that builds, or of its container.
            why = "its [Install] section has a specifier that only a node knows"
            hint = "name what it means, or enable it on the node"
            tree.warnings.append(source.at.fault(f"enabling {name} is left to the node: {why}", hint))
        elif not install.told:
            work.enabled.add(name)
        own = known.get(name)
        if not install.given and own is not None and own.enabled:
            hint = "add one with WantedBy=, or leave out enabled: true"
            tree.warnings.append(own.at.fault(f"{name} is enabled, but has no [Install] section", hint))
        for link in install.links:
            tree.add(Entry(f"{FOLDER}/{link}", Kind.SYMLINK, target=f"{FOLDER}/{source.name}"), source.at)
        fresh = [other for other in install.also if other not in seen and not _refused(known.get(other))]
        pending += fresh
        seen.update(fresh)


def _refused(unit: Unit | None) -> bool:
    """Whether the MachineConfigs say that this unit is not to be enabled."""
    return unit is not None and (unit.enabled is False or bool(unit.mask))


def _source(name: str, known: Mapping[str, Unit]) -> Unit | None:
    """The unit whose text is that of `name`: itself, or the template that it is an instance of."""
    prefix, at, rest = name.partition("@")
    names = [name, f"{prefix}@.{rest.rpartition('.')[2]}"] if at else [name]
    return next((known[found] for found in names if found in known and known[found].contents), None)


def _install(name: str, source: Unit, known: Mapping[str, Unit], tree: Tree) -> unitfile.Install:
    texts = [source.contents or ""]
    own = known.get(name)
    for unit in (source, own if own is not source else None):
        ordered = sorted(unit.dropins, key=lambda dropin: dropin.name) if unit else []
        texts += [dropin.contents for dropin in ordered if dropin.contents]
    try:
        return unitfile.install(name, texts)
    except unitfile.BadUnit as error:
        tree.faults.append(source.at.fault(f"{source.name} cannot be enabled: {error}"))
        return unitfile.Install(given=True)


def _preset(units: Iterable[Unit]) -> str:
    """Lines as Ignition writes them, sorted; the instances of a template are one line."""
    words: dict[tuple[str, str], set[str]] = {}
    for unit in units:
        if unit.enabled is None or (unit.enabled and unit.mask):
            continue
        prefix, at, rest = unit.name.partition("@")
        instance, _, kind = rest.rpartition(".")
        name = f"{prefix}@.{kind}" if at else unit.name
        found = words.setdefault((name, "enable" if unit.enabled else "disable"), set())
        if instance:
            found.add(instance)
    return "".join(
        f"{' '.join([verb, name, *sorted(instances)])}\n" for (name, verb), instances in sorted(words.items())
    )
