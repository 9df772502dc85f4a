from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.documents.schedule import schedule
from reconciler.core.epoch import epoch_number, next_epoch, slot

TOKENS = st.dictionaries(st.sampled_from(["refresh", "rebuild"]), st.text(max_size=5))


def test_no_token_is_no_epoch() -> None:
    assert next_epoch("", {}) == ""


def test_a_new_token_starts_an_epoch_and_the_same_one_none() -> None:
    first = next_epoch("", {"refresh": "a"})
    assert first
    assert next_epoch(first, {"refresh": "a"}) == first
    assert next_epoch(first, {"refresh": "b"}) != first


def test_removing_one_token_of_two_starts_none() -> None:
    both = next_epoch("", {"refresh": "a", "rebuild": "b"})
    assert next_epoch(both, {"refresh": "a"}) == both


@given(st.lists(TOKENS, max_size=8))
def test_an_epoch_never_comes_back(steps: list[dict[str, str]]) -> None:
    seen, epoch = [""], ""
    for tokens in steps:
        following = next_epoch(epoch, tokens)
        assert following == epoch or following not in seen
        if not any(tokens.values()):
            assert following == epoch
        epoch = following
        seen.append(epoch)


@given(TOKENS, TOKENS)
def test_deciding_twice_changes_nothing(before: dict[str, str], after: dict[str, str]) -> None:
    epoch = next_epoch(next_epoch("", before), after)
    assert next_epoch(epoch, after) == epoch


def test_a_later_slot_starts_an_epoch_and_a_clock_that_goes_back_none() -> None:
    first = next_epoch("", {}, "2026-01-01T00:00:00Z")
    assert epoch_number(first) == 1
    assert next_epoch(first, {}, "2026-01-01T00:00:00Z") == first
    assert next_epoch(first, {}, "2025-12-31T00:00:00Z") == first
    assert epoch_number(next_epoch(first, {}, "2026-01-02T00:00:00Z")) == 2


def test_without_a_schedule_a_recorded_slot_stays() -> None:
    first = next_epoch("", {}, "2026-01-01T00:00:00Z")
    assert next_epoch(first, {}) == first


NOON = 1_795_176_000.0  # Friday 2026-11-20 12:00 UTC


@pytest.mark.parametrize(
    ("text", "begun"),
    [
        ("24h", "2026-11-20T00:00:00Z"),
        ("0 3 * * *", "2026-11-20T03:00:00Z"),
        ("30 12 * * *", "2026-11-19T12:30:00Z"),
        ("0 12 * * *", "2026-11-20T12:00:00Z"),
        ("0 3 * * 1", "2026-11-16T03:00:00Z"),
        ("0 3 1 * *", "2026-11-01T03:00:00Z"),
        ("0 3 15 * 5", "2026-11-20T03:00:00Z"),
        ("0 0 29 2 *", "2024-02-29T00:00:00Z"),
        ("*/20 9-11 * * *", "2026-11-20T11:40:00Z"),
    ],
)
def test_slots(text: str, begun: str) -> None:
    assert slot(schedule(text), NOON) == begun


@given(st.sampled_from(["7h", "*/7 * * * *", "0 3 * * 1"]), st.floats(0, 4e9), st.floats(0, 4e9))
def test_slots_follow_the_clock(text: str, a: float, b: float) -> None:
    early, late = sorted((a, b))
    assert slot(schedule(text), early) <= slot(schedule(text), late)
