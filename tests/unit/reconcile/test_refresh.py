"""Refreshes, moved and locked bases, and reverts, through whole passes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.plan import Action
from tests.unit.definitions import config, mosc
from tests.unit.reconcile.bench import FILES, Bench, actions

REFRESH = "reconciler.machineos.dev/refresh"
LOCKED = "reconciler.machineos.dev/bases: locked"


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.settle()
    assert made.started == 2
    return made


def annotated(annotations: str) -> dict[str, bytes | str]:
    return FILES | {"p/os.yaml": mosc("worker", annotations=annotations)}


def test_a_token_builds_once_and_its_removal_goes_not_back(bench: Bench) -> None:
    first = bench.images()
    bench.commit(annotated(f"{REFRESH}: a"))
    bench.settle()
    assert bench.started == 4
    second = bench.images()
    assert not set(first.values()) & set(second.values())
    bench.commit(FILES)
    assert actions(bench.settle()) == {Action.REUSE}
    assert bench.images() == second


def test_an_earlier_token_is_a_new_epoch(bench: Bench) -> None:
    for number, token in enumerate(("a", "b", "a"), 2):
        bench.commit(annotated(f"{REFRESH}: {token}"))
        bench.settle()
        assert bench.started == 2 * number


def test_a_schedule_builds_at_each_slot_and_not_in_between(bench: Bench) -> None:
    bench.commit(FILES | {"reconciler.yaml": config(rest="refresh: 24h\n")})
    bench.settle()
    assert bench.started == 4
    bench.clock.sleep(3600)
    bench.settle()
    assert bench.started == 4
    bench.clock.sleep(24 * 3600)
    bench.settle()
    assert bench.started == 6
    bench.clock.sleep(-7200)
    bench.settle()
    assert bench.started == 6, "a clock that goes back starts nothing"


def test_a_moved_base_rebuilds_unless_it_is_locked(bench: Bench) -> None:
    bench.push_base("second")
    bench.settle()
    assert bench.started == 4
    bench.commit(annotated(LOCKED))
    bench.push_base("third")
    assert actions(bench.settle()) == {Action.REUSE}
    assert bench.started == 4
    bench.commit(annotated(f"{LOCKED}, {REFRESH}: now"))
    bench.settle()
    assert bench.started == 6


def test_a_revert_re_points_when_bases_agree(bench: Bench) -> None:
    first = bench.images()
    bench.commit(FILES | {"p/files/amd64/x": "changed"})
    bench.settle()
    assert bench.started == 3
    bench.commit(FILES)
    bench.settle()
    assert bench.started == 3
    assert bench.images() == first


def test_a_revert_on_a_moved_base_builds_and_on_a_locked_one_goes_back(bench: Bench) -> None:
    bench.commit(annotated(LOCKED))
    bench.settle()
    first = bench.images()
    bench.commit(annotated(LOCKED) | {"p/files/amd64/x": "changed"})
    bench.settle()
    assert bench.started == 3
    bench.push_base("second")
    bench.commit(annotated(LOCKED))
    bench.settle()
    assert bench.images() == first
    assert bench.started == 3
    bench.commit(FILES)
    bench.settle()
    assert bench.started == 5, "what follows its base is built on the new one"


STEPS = st.lists(st.sampled_from(["a", "b", "", "file", "base", "revert"]), max_size=7)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_whatever_happens_a_second_run_does_nothing(steps: list[str]) -> None:
    """plan(writeback(plan(x))) is empty, after any history."""
    bench, token, content = Bench(), "", "x"
    bench.settle()
    for number, step in enumerate(steps):
        if step == "base":
            bench.push_base(str(number))
        elif step == "file":
            content = str(number)
        elif step == "revert":
            content = "x"
        else:
            token = step
        files = annotated(f"{REFRESH}: {token}") if token else FILES
        bench.commit(files | {"p/files/amd64/x": content})
        bench.settle()
        head, started, images = bench.repository.head("main"), bench.started, bench.images()
        again = bench.settle()
        assert actions(again) == {Action.REUSE}
        assert not again.warnings
        assert (bench.repository.head("main"), bench.started, bench.images()) == (head, started, images)
