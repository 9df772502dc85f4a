from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from reconciler.core.model import Arch
from reconciler.core.plan import Action, Cell, Plan, PoolPlan, Reason
from reconciler.core.render import document
from reconciler.core.status import read_status, write_status
from reconciler.errors import Fault
from reconciler.settings import read_settings
from tests.unit.documents.cases import Bad, Good
from tests.unit.documents.configs import BAD_CONFIGS, GOOD_CONFIGS
from tests.unit.documents.definitions import BAD_DEFINITIONS, GOOD_DEFINITIONS
from tests.unit.documents.settings_cases import BAD_SETTINGS, GOOD_SETTINGS
from tests.unit.documents.statuses import BAD_STATUS, GOOD_STATUS, STATUS

SCHEMAS = Path(__file__).parents[2] / "schemas"
NAMES = (
    "daemon-status",
    "machine-os-config",
    "machine-os-image",
    "plan",
    "reconciler-config",
    "repository-config",
    "status",
)
GOOD = {
    "machine-os-config": GOOD_DEFINITIONS,
    "machine-os-image": GOOD_STATUS,
    "reconciler-config": GOOD_SETTINGS,
    "repository-config": GOOD_CONFIGS,
}
BAD = {
    "machine-os-config": BAD_DEFINITIONS,
    "machine-os-image": BAD_STATUS,
    "reconciler-config": BAD_SETTINGS,
    "repository-config": BAD_CONFIGS,
}


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text())
    return found


def complaints(name: str, value: object) -> list[str]:
    return [error.message for error in Draft202012Validator(schema(name)).iter_errors(value)]


def values(text: str) -> object:
    """The document as an editor reads it, which may read YAML 1.1: no case has a date or a bare `no`."""
    return yaml.safe_load(text)


def test_these_are_all() -> None:
    assert sorted(path.stem for path in SCHEMAS.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_schema_is_valid_and_so_are_its_examples(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))
    assert schema(name)["examples"]
    for example in schema(name)["examples"]:
        assert complaints(name, example) == []


def _parts(part: dict[str, Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, child in (part.get("properties", {}) | part.get("$defs", {})).items():
        yield f"{where}/{key}", child
        yield from _parts(child, f"{where}/{key}")
    if isinstance(part.get("items"), dict):
        yield from _parts(part["items"], f"{where}[]")


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_described(name: str) -> None:
    assert [where for where, part in _parts(schema(name), name) if not part.get("description")] == []


@pytest.mark.parametrize(
    ("name", "case"),
    [(n, c) for n, found in GOOD.items() for c in found],
    ids=lambda x: getattr(x, "name", x),
)
def test_what_is_accepted_is_valid(name: str, case: Good) -> None:
    assert complaints(name, values(case.text)) == []


@pytest.mark.parametrize(
    ("name", "case"),
    [(n, c) for n, found in BAD.items() for c in found if c.schema],
    ids=lambda x: getattr(x, "name", x),
)
def test_what_is_refused_is_invalid(name: str, case: Bad) -> None:
    assert complaints(name, values(case.text))


@pytest.mark.parametrize(
    ("name", "case"),
    [(n, c) for n, found in BAD.items() for c in found if not c.schema],
    ids=lambda x: getattr(x, "name", x),
)
def test_what_a_schema_cannot_say_is_marked_so_for_a_reason(name: str, case: Bad) -> None:
    assert complaints(name, values(case.text)) == []


def test_what_is_written_is_valid() -> None:
    written = write_status(read_status(STATUS.encode(), "status/worker.yaml"))
    assert complaints("machine-os-image", values(written.decode())) == []


def test_the_example_of_the_daemon_configuration_is_read() -> None:
    (example,) = schema("reconciler-config")["examples"]
    assert read_settings(json.dumps(example).encode(), "example.json").source.branch == "main"


DIGEST = "sha256:" + "0" * 64
REASON = Reason("recipe", "changed", "the text changed", "pools/a/Containerfile", 3, "RUN a", "RUN b")
PLAN = Plan(
    base=None,
    head="0" * 40,
    pools=(
        PoolPlan(
            "worker",
            "pools/a/moc.yaml",
            (
                Cell(Arch.AMD64, Action.BUILD, (REASON,), DIGEST, DIGEST, DIGEST),
                Cell(Arch.ARM64, Action.REUSE, (), DIGEST, None, None, f"registry.example.com/a@{DIGEST}"),
                Cell(Arch.S390X, Action.BLOCKED, (Reason("definition", "invalid", "no"),)),
            ),
            (Fault("pools/a/moc.yaml", 1, "a warning"),),
        ),
    ),
    removed=("old",),
    errors=(Fault("x.yaml", 0, "is not UTF-8", "save the file as UTF-8"),),
)


def test_a_plan_is_valid() -> None:
    assert complaints("plan", document(PLAN)) == []


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        (("kind",), "Plans"),
        (("head",), "main"),
        (("base",), ""),
        (("planDigest",), "0" * 64),
        (("summary", "build"), -1),
        (("pools", 0, "name"), ""),
        (("pools", 0, "architectures"), {"x86_64": {}}),
        (("pools", 0, "architectures", "amd64", "action"), "skip"),
        (("pools", 0, "architectures", "amd64", "image"), "worker:latest"),
        (("pools", 0, "architectures", "amd64", "reasons", 0, "line"), "3"),
        (("errors", 0, "line"), -1),
        (("removedPools",), None),
    ],
)
def test_what_is_no_plan_is_invalid(pointer: tuple[str | int, ...], value: object) -> None:
    plan = json.loads(json.dumps(document(PLAN)))
    *above, last = pointer
    target = plan
    for part in above:
        target = target[part]
    target[last] = value
    assert complaints("plan", plan)


def test_more_keys_may_be_added_to_a_plan() -> None:
    plan = json.loads(json.dumps(document(PLAN)))
    for part in (
        plan,
        plan["summary"],
        plan["pools"][0],
        plan["pools"][0]["architectures"]["amd64"],
        plan["errors"][0],
    ):
        part["laterKey"] = 1
    assert complaints("plan", plan) == []
