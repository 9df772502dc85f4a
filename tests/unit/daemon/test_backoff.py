from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.daemon.backoff import Backoff


def test_the_delay_doubles_up_to_the_cap() -> None:
    backoff = Backoff()
    delays = [backoff.failed(60) for _ in range(10)]
    for delay, whole in zip(delays, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60], strict=True):
        assert 0.8 * whole <= delay <= whole


def test_success_begins_anew() -> None:
    backoff = Backoff(first=2.0)
    for _ in range(5):
        backoff.failed(100)
    backoff.succeeded()
    assert backoff.failed(100) <= 2.0


def test_many_do_not_come_back_at_one_moment_even_at_the_cap() -> None:
    assert len({Backoff(failures=20).failed(60) for _ in range(20)}) > 10


@given(st.integers(0, 10**6), st.floats(0.001, 1e6))
def test_no_delay_is_longer_than_the_cap_however_often_it_failed(failures: int, cap: float) -> None:
    delay = Backoff(failures=failures).failed(cap)
    assert 0 < delay <= cap


@pytest.mark.parametrize("failures", [0, 1, 40])
def test_a_smaller_cap_counts_at_once(failures: int) -> None:
    assert Backoff(failures=failures).failed(0.5) <= 0.5
