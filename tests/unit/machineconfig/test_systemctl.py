"""What enabling units links, compared with what systemctl links."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from reconciler.core.machineconfig import Entry, Kind, MachineConfig, render, select
from reconciler.core.model import Arch
from reconciler.process import run
from tests.unit.machineconfig.listing import read

pytestmark = pytest.mark.tools

GOLDEN = Path(__file__).with_name("golden")


def laid(entries: Iterable[Entry], root: Path) -> Path:
    for entry in entries:
        place = root / entry.path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind is Kind.SYMLINK:
            place.symlink_to(entry.target)
        else:
            place.write_bytes(entry.content)
    return root


def links(root: Path, enable: Iterable[str], disable: Iterable[str]) -> dict[str, str]:
    """All links after systemctl has done its work, upstream's way: first all that is enabled, then all that is not.

    It refuses units that are nowhere, which upstream passes over.
    """
    for verb, names in (("enable", enable), ("disable", disable)):
        for name in names:
            run(["systemctl", "--root", str(root), verb, name], env={"PATH": "/usr/bin:/bin"}, timeout=30)
    return {
        str(path.relative_to(root)): str(path.readlink()) for path in root.rglob("*") if path.is_symlink()
    }


def asked(configs: Iterable[MachineConfig]) -> list[str]:
    units = [unit for config in configs for unit in config.ignition.units]
    return [unit.name for unit in units if unit.enabled and not unit.mask]


@pytest.mark.parametrize("case", ["units", "units-also", "units-dropins", "units-templates"])
def test_links_are_those_of_systemctl(case: str, tmp_path: Path) -> None:
    assert shutil.which("systemctl"), "systemd is needed"
    found, _ = read((path.name, path.read_bytes()) for path in sorted((GOLDEN / case).glob("*.yaml")))
    configs = select("worker", Arch.AMD64, found)
    layer = render(configs, Arch.AMD64)
    made = [e for e in layer.entries if e.kind is Kind.SYMLINK and e.target != "/dev/null"]
    assert made
    by_systemctl = laid((e for e in layer.entries if e not in made), tmp_path / "systemctl")
    theirs = links(by_systemctl, asked(configs), layer.disabled)
    assert {entry.path[1:]: entry.target for entry in made}.items() <= theirs.items()
    assert links(laid(layer.entries, tmp_path / "us"), layer.enabled, layer.disabled) == theirs
