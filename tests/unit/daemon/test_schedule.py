from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.daemon.schedule import Every, Timers
from tests.unit.daemon.scene import until

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Shifted(datetime):
    """The time of day, as somebody set it."""

    by: ClassVar[timedelta] = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        """What the scheduler takes for now."""
        return datetime.now(tz) + cls.by


@pytest.fixture
def time_of_day(monkeypatch: pytest.MonkeyPatch) -> type[Shifted]:
    monkeypatch.setattr("apscheduler.schedulers.base.datetime", Shifted)
    monkeypatch.setattr(Shifted, "by", timedelta())
    return Shifted


@contextmanager
def running(timers: Timers) -> Iterator[None]:
    timers.start()
    try:
        yield
    finally:
        timers.stop()


@given(st.floats(1, 86_400), st.one_of(st.none(), st.timedeltas(timedelta(-3650), timedelta(3650))))
def test_the_next_call_is_an_interval_from_now_a_tenth_more_or_less(
    seconds: float, since: timedelta | None
) -> None:
    before = None if since is None else NOON + since
    found = (Every(seconds).get_next_fire_time(before, NOON) - NOON).total_seconds()
    assert 0.9 * seconds - 1e-5 <= found <= 1.1 * seconds + 1e-5


def test_many_daemons_do_not_call_at_one_moment() -> None:
    assert len({Every(60).get_next_fire_time(None, NOON) for _ in range(20)}) > 10


def test_each_call_comes_again_and_again() -> None:
    calls: list[str] = []
    with running(Timers([(0.02, lambda: calls.append("a")), (0.03, lambda: calls.append("b"))])):
        until(lambda: calls.count("a") >= 3 and calls.count("b") >= 3)


def test_after_the_end_nothing_is_called() -> None:
    calls: list[int] = []
    timers = Timers([(0.01, lambda: calls.append(1))])
    with running(timers):
        until(lambda: calls)
    made = len(calls)
    other: list[int] = []
    with running(Timers([(0.01, lambda: other.append(1))])):
        until(lambda: len(other) > 20)
    assert len(calls) <= made + 1  # one may have been under way


def test_what_never_began_can_be_ended_and_ended_again() -> None:
    timers = Timers([(1, lambda: None)])
    timers.stop()
    timers.start()
    timers.stop()
    timers.stop()


def test_one_call_that_fails_stops_neither_itself_nor_others() -> None:
    calls: list[str] = []

    def fail() -> None:
        calls.append("failed")
        raise RuntimeError("oh")

    with running(Timers([(0.02, fail), (0.02, lambda: calls.append("fine"))])):
        until(lambda: calls.count("failed") >= 3 and calls.count("fine") >= 3)


def test_a_clock_that_is_set_forward_by_decades_is_one_late_call(time_of_day: type[Shifted]) -> None:
    calls: list[int] = []
    with running(Timers([(0.02, lambda: calls.append(1))])):
        until(lambda: calls)
        time_of_day.by = timedelta(days=50 * 365)
        before = len(calls)
        until(lambda: len(calls) > before + 10)


def test_a_clock_that_is_set_back_stops_the_timers_which_is_why_nothing_relies_on_them_alone(
    time_of_day: type[Shifted],
) -> None:
    calls, others = list[int](), list[int]()
    with running(Timers([(0.02, lambda: calls.append(1))])):
        until(lambda: calls)
        time_of_day.by = timedelta(hours=-2)
        with running(Timers([(0.02, lambda: others.append(1))])):
            until(lambda: len(others) > 10)
            before = len(calls)
            until(lambda: len(others) > 30)
            assert len(calls) <= before + 1
