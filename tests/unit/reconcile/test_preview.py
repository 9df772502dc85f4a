"""Plans of one commit against another, and against what is recorded, over commits in memory."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.adapters.shfmt import ShfmtParser, installed
from reconciler.core import render
from reconciler.core.engine import VERSION as ENGINE
from reconciler.core.engine import Engine
from reconciler.core.model import Arch, Base
from reconciler.core.plan import Action, Plan
from reconciler.core.status import ArchRecord, PoolRecord, write_status
from reconciler.reconcile.history import History
from reconciler.reconcile.preview import Preview
from reconciler.reconcile.targets import Scope
from tests.fakes import FakeObjects, Files
from tests.unit.definitions import config, mosc

BASES = (Base("quay.io/os/base:1", "sha256:" + "b" * 64),)
TEXT = """\
FROM quay.io/os/base:1
ARG TARGETARCH
COPY files/${TARGETARCH}/ /etc/
RUN dnf install -y kernel-5.14.0-1 chrony
"""
WORKER: dict[str, bytes | str] = {
    "reconciler.yaml": config(),
    "p/os.yaml": mosc("worker"),
    "p/Containerfile": TEXT,
    "p/files/amd64/x": "amd",
    "p/files/arm64/x": "arm",
    "p/notes.txt": "nothing copies me",
}


def changed(**files: str) -> dict[str, bytes | str]:
    """WORKER with some files replaced; `__` stands for `/` and `_` in names stays."""
    return WORKER | {f"p/{name.replace('__', '/')}": text for name, text in files.items()}


def compare(before: Files, after: Files, **options: Any) -> Plan:
    objects = FakeObjects()
    base, head = objects.add(before), objects.add(after)
    return Preview(History(objects), Scope(**options)).plan(head, base)


def actions(plan: Plan) -> dict[str, str]:
    return {cell.arch.value: cell.action.value for pool in plan.pools for cell in pool.cells}


def reasons(plan: Plan) -> list[str]:
    return [render.why(cell) for pool in plan.pools for cell in pool.cells]


def test_the_same_commit_changes_nothing() -> None:
    plan = compare(WORKER, WORKER)
    assert actions(plan) == {"amd64": "reuse", "arm64": "reuse"}
    assert reasons(plan) == ["unchanged", "unchanged"]
    assert render.verdict(plan) == "0 of 2 images would be built."


@pytest.mark.parametrize(
    ("files", "expected", "why"),
    [
        (
            {"files__arm64__x": "new"},
            {"amd64": "reuse", "arm64": "build"},
            ["only arm64 copies it (p/files/arm64/x)", "p/files/arm64/x  file changed"],
        ),
        (
            {"notes.txt": "new"},
            {"amd64": "reuse", "arm64": "reuse"},
            ["not copied by any reachable stage (p/notes.txt)"] * 2,
        ),
        (
            {"Containerfile": "# why\n" + TEXT},
            {"amd64": "reuse", "arm64": "reuse"},
            ["comment only (p/Containerfile:1)"] * 2,
        ),
        (
            {"Containerfile": TEXT.replace("COPY ", "COPY   ")},
            {"amd64": "reuse", "arm64": "reuse"},
            ["white space only (p/Containerfile:3)"] * 2,
        ),
        (
            {"Containerfile": TEXT.replace("5.14.0-1", "5.14.0-2")},
            {"amd64": "build", "arm64": "build"},
            ["p/Containerfile:4  RUN: kernel-5.14.0-1 → kernel-5.14.0-2"] * 2,
        ),
        (
            {"Containerfile.arm64": TEXT + "ENV A=1\n"},
            {"amd64": "reuse", "arm64": "build"},
            ["only arm64 is built from it (p/Containerfile.arm64)", "p/Containerfile.arm64:5  ENV: added"],
        ),
        (
            {"os.yaml": mosc("worker", annotations="reconciler.machineos.dev/refresh: again")},
            {"amd64": "build", "arm64": "build"},
            ["p/os.yaml:1  a refresh was asked for"] * 2,
        ),
        (
            {"os.yaml": mosc("worker", push="registry.example.com/elsewhere:1")},
            {"amd64": "reuse", "arm64": "reuse"},
            ["unchanged"] * 2,
        ),
    ],
)  # fmt: skip
def test_what_one_edit_causes(files: dict[str, str], expected: dict[str, str], why: list[str]) -> None:
    plan = compare(WORKER, changed(**files))
    assert actions(plan) == expected
    assert reasons(plan) == why
    cells = [cell for pool in plan.pools for cell in pool.cells]
    assert all((c.definition == c.previous) == (c.action is Action.REUSE) for c in cells)


def test_moving_the_text_into_the_document_changes_nothing() -> None:
    inline = {k: v for k, v in WORKER.items() if k != "p/Containerfile"} | {
        "p/os.yaml": mosc("worker", inline=TEXT)
    }
    assert set(actions(compare(WORKER, inline)).values()) == {"reuse"}


def test_removing_a_refresh_token_builds_nothing() -> None:
    with_token = changed(**{"os.yaml": mosc("worker", annotations="reconciler.machineos.dev/refresh: a")})
    assert set(actions(compare(with_token, WORKER)).values()) == {"reuse"}


def test_a_pool_that_is_new_builds_and_one_that_is_gone_is_listed() -> None:
    infra = {"reconciler.yaml": config(), "q/os.yaml": mosc("infra", inline="FROM quay.io/os/base:1\n")}
    plan = compare(WORKER, infra)
    assert [p.name for p in plan.pools] == ["infra"]
    assert actions(plan) == {"amd64": "build", "arm64": "build"}
    assert plan.removed == ("worker",)


def test_a_pool_behind_a_broken_file_is_blocked_and_not_gone() -> None:
    both = WORKER | {"q/os.yaml": mosc("infra", inline="FROM quay.io/os/base:1\n")}
    plan = compare(both, both | {"p/os.yaml": "a: ["})
    assert plan.removed == ()
    assert [str(error) for error in plan.errors]
    cells = {pool.name: {c.action for c in pool.cells} for pool in plan.pools}
    assert cells == {"worker": {Action.BLOCKED}, "infra": {Action.REUSE}}
    recorded = compare_recorded(both | {"p/os.yaml": "a: ["}, "worker", "sha256:" + "d" * 64)
    cells = {pool.name: {c.action for c in pool.cells} for pool in recorded.pools}
    assert cells == {"worker": {Action.BLOCKED}, "infra": {Action.BUILD}}


def test_an_architecture_that_leaves_is_dropped() -> None:
    one = WORKER | {"reconciler.yaml": config("amd64")}
    assert actions(compare(WORKER, one)) == {"amd64": "reuse", "arm64": "drop"}


def test_only_what_is_asked_for_is_planned() -> None:
    plan = compare(WORKER, WORKER, architectures=(Arch.S390X,), pools=frozenset({"worker"}))
    assert set(actions(plan)) == {"s390x"}
    assert [str(e) for e in plan.errors], "there are no files for s390x"


def test_nobody_says_which_architectures() -> None:
    silent = {k: v for k, v in WORKER.items() if k != "reconciler.yaml"}
    plan = compare(silent, silent)
    assert "nothing says which architectures pool worker has" in str(plan.errors[0])


def record(definition: str, pool: str = "worker", engine: str = ENGINE) -> PoolRecord:
    repository = f"registry.example.com/os/{pool}@sha256:"
    entries = tuple(
        ArchRecord(
            arch=arch,
            image=repository + arch.value.encode().hex().ljust(64, "0"),
            input="sha256:" + "1" * 64,
            definition=definition,
            source_commit=f"{1:040x}",
            epoch="",
            bases=BASES,
        )
        for arch in (Arch.AMD64, Arch.ARM64)
    )
    return PoolRecord(pool, "default", engine, repository + "e" * 64, f"{1:040x}", entries)


def compare_recorded(files: dict[str, bytes | str], pool: str, definition: str) -> Plan:
    objects = FakeObjects()
    objects.add(WORKER)
    head = objects.add(files | {f"status/{pool}.yaml": write_status(record(definition, pool))})
    return Preview(History(objects), Scope()).plan(head)


def test_against_the_record_equal_definitions_are_reused() -> None:
    objects = FakeObjects()
    first = objects.add(WORKER)
    amd = next(
        c for c in Preview(History(objects), Scope()).plan(first).pools[0].cells if c.arch is Arch.AMD64
    )
    plan = compare_recorded(WORKER, "worker", str(amd.definition))
    assert actions(plan) == {"amd64": "reuse", "arm64": "build"}
    cell = plan.pools[0].cells[0]
    assert cell.image is not None
    assert cell.image.startswith("registry.example.com/os/worker@sha256:")


def test_a_record_of_another_engine_is_compared_by_its_source_commit() -> None:
    objects = FakeObjects()
    objects.add(WORKER)
    old_engine = record("sha256:" + "9" * 64, engine="0")
    head = objects.add(WORKER | {"status/worker.yaml": write_status(old_engine)})
    assert set(actions(Preview(History(objects), Scope()).plan(head)).values()) == {"reuse"}


def test_a_revert_finds_the_image_of_the_earlier_record() -> None:
    objects = FakeObjects()
    preview = Preview(History(objects), Scope(architectures=(Arch.AMD64,)))
    one = objects.add(WORKER)
    first = str(preview.plan(one).pools[0].cells[0].definition)
    objects.add(WORKER | {"status/worker.yaml": write_status(record(first))})
    other = changed(Containerfile=TEXT + "ENV A=1\n") | {
        "status/worker.yaml": write_status(record("sha256:" + "7" * 64))
    }
    objects.add(other)
    head = objects.add(dict(WORKER) | {"status/worker.yaml": other["status/worker.yaml"]})
    plan = preview.plan(head)
    assert actions(plan)["amd64"] == "reuse"


def test_status_files_are_no_input() -> None:
    before = compare(WORKER, WORKER)
    after = compare(WORKER, WORKER | {"status/worker.yaml": write_status(record("sha256:" + "1" * 64))})
    assert before.digest == after.digest


def test_a_broken_commit_in_between_is_no_obstacle() -> None:
    plan = compare({"reconciler.yaml": "a: ["}, WORKER, fallback=(Arch.AMD64,))
    assert actions(plan) == {"amd64": "build", "arm64": "build"}


def test_the_document_has_the_keys_of_the_contract() -> None:
    document = render.document(compare(WORKER, changed(files__arm64__x="new")))
    assert document["kind"] == "Plan"
    assert document["summary"] == {"build": 1, "reuse": 1, "blocked": 0, "drop": 0}
    cell = document["pools"][0]["architectures"]["arm64"]
    assert cell["reasons"][0]["path"] == "p/files/arm64/x"
    assert cell["input"] is None
    assert cell["definition"] != cell["previousDefinition"]


BRANCHES = """\
FROM quay.io/os/base:1
RUN if [ "$(uname -m)" = aarch64 ]; then \\
      dnf install -y kernel-64k; \\
    else \\
      dnf install -y kernel; \\
    fi
"""


def with_shell(before: Files, after: Files) -> Plan:
    objects = FakeObjects()
    base, head = objects.add(before), objects.add(after)
    history = History(objects, engine=Engine(trees=ShfmtParser(installed()).tree))
    return Preview(history, Scope()).plan(head, base)


def test_only_the_branch_of_one_architecture_changed() -> None:
    new = BRANCHES.replace("kernel-64k", "kernel-64k-5.14")
    plan = with_shell(changed(Containerfile=BRANCHES), changed(Containerfile=new))
    assert actions(plan) == {"amd64": "reuse", "arm64": "build"}
    assert reasons(plan) == [
        "only the arm64 branch changed (p/Containerfile:3)",
        "p/Containerfile:2  RUN: kernel-64k → kernel-64k-5.14",
    ]


def test_probes_that_are_not_trusted_count_for_every_architecture() -> None:
    opaque = {"reconciler.yaml": config(rest="probes: opaque\n")}
    new = BRANCHES.replace("kernel-64k", "kernel-64k-5.14")
    plan = with_shell(changed(Containerfile=BRANCHES) | opaque, changed(Containerfile=new) | opaque)
    assert actions(plan) == {"amd64": "build", "arm64": "build"}
