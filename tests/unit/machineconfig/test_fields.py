"""Every field of Ignition 3.5 (coreos/ignition `config/v3_5/types/schema.go`) that no layer can carry is refused by its
name, and so is any field that Ignition has not, wherever it stands."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.errors import InvalidInput
from tests.unit.machineconfig.encodings import ROLE, written
from tests.unit.machineconfig.listing import layer_of

FULL: dict[str, Any] = {
    "apiVersion": "machineconfiguration.openshift.io/v1",
    "kind": "MachineConfig",
    "metadata": {"name": "a", "labels": {ROLE: "worker"}},
    "spec": {
        "kernelArguments": ["a"],
        "config": {
            "ignition": {"version": "3.5.0"},
            "kernelArguments": {"shouldExist": ["b"]},
            "passwd": {
                "users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 x"], "passwordHash": "*"}]
            },
            "storage": {
                "directories": [{"path": "/etc/d", "user": {"id": 1}, "group": {"name": "core"}}],
                "files": [
                    {
                        "path": "/etc/f",
                        "contents": {"source": "data:,x", "verification": {}},
                        "append": [{"source": "data:,x"}],
                    }
                ],
                "links": [{"path": "/etc/l", "target": "f"}],
            },
            "systemd": {
                "units": [{"name": "a.service", "dropins": [{"name": "a.conf", "contents": "[X]\n"}]}]
            },
        },
    },
}
UNSUPPORTED: list[tuple[str, Any]] = [
    *((f"spec.config.ignition.{name}", {"x": "y"}) for name in ("config", "proxy", "security", "timeouts")),
    ("spec.config.kernelArguments.shouldNotExist", ["c"]),
    ("spec.config.passwd.groups", [{"name": "x"}]),
    *(
        (f"spec.config.passwd.users[0].{name}", value)
        for name, value in {
            "gecos": "x", "groups": ["x"], "homeDir": "/x", "noCreateHome": True, "noLogInit": True,
            "noUserGroup": False, "primaryGroup": "x", "shell": "/x", "shouldExist": False, "system": True, "uid": 0,
        }.items()
    ),
    *((f"spec.config.storage.{name}", [{}]) for name in ("disks", "filesystems", "luks", "raid")),
    ("spec.config.storage.files[0].contents.httpHeaders", [{"name": "x"}]),
    ("spec.config.storage.files[0].append[0].httpHeaders", [{"name": "x"}]),
]  # fmt: skip


def faults(found: dict[str, Any]) -> list[str]:
    try:
        layer_of(written([found]))
    except InvalidInput as error:
        return [str(fault) for fault in error.faults]
    return []


def place(found: dict[str, Any], pointer: str) -> tuple[dict[str, Any], str]:
    """The object that a field is in, and the field's own name."""
    at: Any = found
    *above, name = pointer.replace("[", ".").replace("]", "").split(".")
    for part in above:
        at = at[int(part)] if isinstance(at, list) else at[part]
    return at, name


def objects(found: Any, pointer: str = "") -> Iterator[str]:
    if isinstance(found, dict):
        # Labels are anybody's, as all of a MachineConfig's metadata but its name.
        yield from [pointer] if pointer.startswith("spec") or not pointer else []
        for name, value in found.items():
            yield from objects(value, f"{pointer}.{name}".lstrip("."))
    elif isinstance(found, list):
        for i, value in enumerate(found):
            yield from objects(value, f"{pointer}[{i}]")


@pytest.mark.parametrize(("pointer", "value"), UNSUPPORTED, ids=[pointer for pointer, _ in UNSUPPORTED])
def test_what_no_layer_carries_is_refused_by_name(pointer: str, value: Any) -> None:
    found = copy.deepcopy(FULL)
    at, name = place(found, pointer)
    at[name] = value
    (fault,) = faults(found)
    assert f"{pointer} is not supported" in fault


def test_all_that_is_supported_is_taken_and_exports_may_say_nothing_of_the_rest() -> None:
    found = copy.deepcopy(FULL)
    assert faults(found) == []
    for pointer, value in UNSUPPORTED:
        at, name = place(found, pointer)
        at[name] = type(value)() if isinstance(value, list | dict) else None
    assert faults(found) == []


@pytest.mark.parametrize("pointer", list(objects(FULL)))
def test_a_field_that_nobody_knows_is_refused_wherever_it_stands(pointer: str) -> None:
    found = copy.deepcopy(FULL)
    name = f"{pointer}.strange".lstrip(".")
    at, last = place(found, name)
    at[last] = 1
    (fault,) = faults(found)
    assert f"{name} is an unknown field" in fault
