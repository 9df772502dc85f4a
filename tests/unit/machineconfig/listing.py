"""A layer, or what is wrong with it, as text that people can review."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from reconciler.core import yaml
from reconciler.core.machineconfig import (
    API_VERSION,
    KIND,
    POOL_KIND,
    Entry,
    Kind,
    Layer,
    MachineConfig,
    Pool,
    read_machine_config,
    read_machine_config_pool,
    render,
    select,
)
from reconciler.core.model import Arch
from reconciler.errors import Fault, InvalidInput

GOLDEN = Path(__file__).with_name("golden")
"""Folders of MachineConfigs. `expected.txt` is the layer, `image.txt` what it changes in a base image."""

_LETTER = {Kind.DIRECTORY: "d", Kind.FILE: "-", Kind.SYMLINK: "l", Kind.HARDLINK: "h"}


def read(files: Iterable[tuple[str, bytes]]) -> tuple[list[MachineConfig], list[Pool]]:
    """All documents of some files; all their faults in one InvalidInput."""
    configs: list[MachineConfig] = []
    pools: list[Pool] = []
    faults: list[Fault] = []
    for name, content in files:
        for document in yaml.read(content, name, {(API_VERSION, KIND), (API_VERSION, POOL_KIND)}):
            try:
                if document.kind == KIND:
                    configs.append(read_machine_config(document))
                else:
                    pools.append(read_machine_config_pool(document))
            except InvalidInput as error:
                faults += error.faults
    if faults:
        raise InvalidInput(faults)
    return configs, pools


def layer_of(files: Iterable[tuple[str, bytes]], pool: str = "worker", arch: Arch = Arch.AMD64) -> Layer:
    configs, pools = read(files)
    return render(select(pool, arch, configs, pools), arch)


def layer_in(folder: Path) -> Layer:
    """What a folder of MachineConfigs gives for the pool and architecture that its file `asked` names."""
    asked = folder / "asked"
    pool, arch = asked.read_text().split() if asked.exists() else ("worker", "amd64")
    files = [(path.name, path.read_bytes()) for path in sorted(folder.glob("*.yaml"))]
    return layer_of(files, pool, Arch(arch))


def listed(folder: Path) -> str:
    """The same as text, or what is wrong with it."""
    try:
        return _layer(layer_in(folder))
    except InvalidInput as error:
        return "".join(f"fault {fault}\n" for fault in error.faults)


def _layer(layer: Layer) -> str:
    lines = [line for entry in layer.entries for line in _entry(entry)]
    lines += [f"remove {path}" for path in layer.removals]
    lines += [f"unmask {path}" for path in layer.unmasked]
    lines += [f"systemctl disable {name}" for name in layer.disabled]
    lines += [f"systemctl enable {name}" for name in layer.enabled]
    if layer.kernel_arguments:
        lines.append(f"kernel arguments {' '.join(layer.kernel_arguments)}")
    lines += [f"extension {name}" for name in layer.extensions]
    if layer.kernel_type != "default":
        lines.append(f"kernel {layer.kernel_type}")
    lines += [f"image {layer.os_image}"] if layer.os_image else []
    lines += [f"extensions image {layer.extensions_image}"] if layer.extensions_image else []
    lines += ["fips"] if layer.fips else []
    lines += [f"warning {warning}" for warning in layer.warnings]
    return "".join(f"{line}\n" for line in lines)


def _entry(entry: Entry) -> list[str]:
    mode = "-" if entry.mode is None else f"{entry.mode:04o}"
    owner = f"{entry.user or '-'}:{entry.group or '-'}"
    target = f" -> {entry.target}" if entry.target else ""
    lines = [f"{_LETTER[entry.kind]} {mode} {owner} {entry.path}{target}"]
    try:
        text = entry.content.decode()
    except UnicodeDecodeError:
        return [*lines, f"  {entry.content!r}"]
    return [*lines, *(f"  |{line}" for line in text.splitlines())]
