from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from reconciler.adapters.registry.problems import Refusal, Transient
from reconciler.adapters.registry.retry import AWAY, TRIES, Retry, retry_after
from reconciler.errors import Disposition, RegistryError, RegistryUnavailable
from tests.adapters.registry.support import StillClock


class Extreme(random.Random):
    """Jitter at its upper bound."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def failing(*problems: Exception) -> Callable[[], str]:
    """An operation that fails in these ways, one each time, and then succeeds."""
    left = list(problems)

    def operation() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return operation


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        ("", None),
        ("-5", None),
        ("soon", None),
        ("9" * 5000, None),
        ("Tue, 99 Nov 2023 22:13:50 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, expected: float | None) -> None:
    assert retry_after(value, 1_700_000_000.0) == expected


def test_waits_double_and_jitter_is_full(clock: StillClock) -> None:
    assert Retry(clock, Extreme()).run("host", "x", failing(*[Transient("busy")] * 3)) == "done"
    assert clock.slept == [1.0, 2.0, 4.0]
    clock.slept.clear()
    Retry(clock, random.Random(3)).run("host", "x", failing(*[Transient("busy")] * 3))  # noqa: S311
    assert all(0.0 <= slept <= bound for slept, bound in zip(clock.slept, [1.0, 2.0, 4.0], strict=True))


def test_tries_end(clock: StillClock) -> None:
    with pytest.raises(RegistryUnavailable, match=r"the subject: busy \(tried 4 times\)") as error:
        Retry(clock, Extreme()).run(
            "host", "the subject", failing(*[Transient("busy", hint="do so")] * TRIES)
        )
    assert (error.value.disposition, error.value.hint) == (Disposition.RETRY, "do so")
    assert len(clock.slept) == TRIES - 1


def test_a_server_that_failed_every_try_gets_single_ones_for_a_while(clock: StillClock) -> None:
    retry = Retry(clock, Extreme())

    def tries(server: str) -> str:
        with pytest.raises(RegistryUnavailable) as error:
            retry.run(server, "x", failing(*[Transient("busy")] * TRIES))
        return str(error.value).rpartition("(tried ")[2]

    assert tries("away") == "4 times)"
    assert [tries("away"), tries("away"), tries("other")] == ["once)", "once)", "4 times)"]
    clock.time += AWAY
    assert [tries("away"), tries("away")] == ["4 times)", "once)"]
    assert retry.run("away", "x", failing()) == "done"
    assert tries("away") == "4 times)", "it has answered since"


def test_a_refusal_ends_at_once(clock: StillClock) -> None:
    with pytest.raises(RegistryError, match="the subject: no") as error:
        Retry(clock, Extreme()).run("host", "the subject", failing(Refusal("no", hint="do so")))
    assert not isinstance(error.value, RegistryUnavailable)
    assert (error.value.hint, clock.slept) == ("do so", [])


def test_a_time_that_the_server_names_is_kept(clock: StillClock) -> None:
    Retry(clock, Extreme()).run("host", "x", failing(Transient("busy", retry_after=37.0)))
    assert clock.slept == [37.0]


def test_asking_for_no_wait_at_all_still_backs_off(clock: StillClock) -> None:
    Retry(clock, Extreme()).run("host", "x", failing(Transient("busy", retry_after=0.0)))
    assert clock.slept == [1.0]


def test_a_server_that_asks_for_too_much_is_left_alone(clock: StillClock) -> None:
    with pytest.raises(RegistryUnavailable, match=r"busy, and asks to wait 3600 s \(tried once\)"):
        Retry(clock, Extreme()).run("host", "x", failing(Transient("busy", retry_after=3600.0)))
    assert clock.slept == []


def test_the_budget_counts_all_waits(clock: StillClock) -> None:
    with pytest.raises(RegistryUnavailable, match="tried 3 times"):
        Retry(clock, Extreme()).run("host", "x", failing(*[Transient("busy", retry_after=50.0)] * 3))
    assert clock.slept == [50.0, 50.0]


def test_a_clock_set_back_does_not_lengthen_the_budget(clock: StillClock) -> None:
    def operation() -> str:
        clock.time -= 7200
        raise Transient("busy", retry_after=3600.0)

    with pytest.raises(RegistryUnavailable):
        Retry(clock, Extreme()).run("host", "x", operation)
    assert clock.slept == []


class Write:
    """A write whose effect and answer are told apart. `answers` are failures, one each time."""

    def __init__(self, *answers: Exception, effective: bool) -> None:
        self.answers = list(answers)
        self.effective = effective
        self.written = 0
        self.looked = 0

    def write(self) -> None:
        self.written += 1
        if self.answers:
            raise self.answers.pop(0)

    def settled(self) -> bool:
        self.looked += 1
        return self.effective


def test_a_write_that_had_its_effect_is_not_repeated(clock: StillClock) -> None:
    write = Write(Transient("lost", ambiguous=True), effective=True)
    Retry(clock, Extreme()).ensure("host", "x", write.write, write.settled)
    assert (write.written, write.looked) == (1, 1)


def test_a_write_without_effect_is_repeated(clock: StillClock) -> None:
    write = Write(Transient("lost", ambiguous=True), effective=False)
    Retry(clock, Extreme()).ensure("host", "x", write.write, write.settled)
    assert (write.written, write.looked) == (2, 1)


def test_a_write_that_never_arrived_is_repeated_without_looking(clock: StillClock) -> None:
    write = Write(Transient("refused"), effective=False)
    Retry(clock, Extreme()).ensure("host", "x", write.write, write.settled)
    assert (write.written, write.looked) == (2, 0)


@pytest.mark.parametrize("effective", [True, False])
def test_before_giving_up_is_looked_once_more(clock: StillClock, effective: bool) -> None:
    write = Write(Transient("lost", ambiguous=True, retry_after=3600.0), effective=effective)
    retry = Retry(clock, Extreme())
    if effective:
        retry.ensure("host", "x", write.write, write.settled)
    else:
        with pytest.raises(RegistryUnavailable, match="lost"):
            retry.ensure("host", "x", write.write, write.settled)
    assert (write.written, write.looked) == (1, 1)


def test_a_look_that_fails_does_not_hide_why(clock: StillClock) -> None:
    def settled() -> bool:
        raise Refusal("denied")

    write = Write(Transient("lost", ambiguous=True, retry_after=3600.0), effective=False)
    with pytest.raises(RegistryUnavailable, match="lost"):
        Retry(clock, Extreme()).ensure("host", "x", write.write, settled)
