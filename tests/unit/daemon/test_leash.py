from __future__ import annotations

import pytest

from reconciler.daemon.leash import Leash
from reconciler.errors import GitUnavailable, Interrupted
from tests.unit.daemon.scene import Hours


class Adapter:
    """Something that calls the world."""

    place = "somewhere"

    def __init__(self, hours: Hours) -> None:
        self.hours = hours
        self.calls: list[object] = []

    def ask(self, what: str, *, twice: bool = False) -> str:
        """Ask for something."""
        self.calls.append(what)
        self.hours.spend(10)
        return what * (2 if twice else 1)

    def fail(self) -> None:
        raise GitUnavailable("no answer")


@pytest.fixture
def hours() -> Hours:
    return Hours()


@pytest.fixture
def leash(hours: Hours) -> Leash:
    return Leash(lambda: hours.now)


def test_it_is_not_ended_from_the_start(leash: Leash) -> None:
    assert not leash.ended
    leash.check()


def test_a_held_adapter_does_what_it_did(leash: Leash, hours: Hours) -> None:
    adapter = Adapter(hours)
    held = leash.hold(adapter)
    assert held.ask("a", twice=True) == "aa"
    assert held.place == "somewhere"
    assert held.ask.__doc__ == "Ask for something."
    with pytest.raises(GitUnavailable, match="no answer"):
        held.fail()
    with pytest.raises(AttributeError):
        held.nothing  # noqa: B018  (the look is what is tested)


def test_a_pass_that_takes_too_long_is_broken_off_at_its_next_call(leash: Leash, hours: Hours) -> None:
    adapter = Adapter(hours)
    held = leash.hold(adapter)
    leash.begin(25)
    for number in range(3):
        held.ask(str(number))
    with pytest.raises(Interrupted, match="longer than its deadline"):
        held.ask("3")
    assert adapter.calls == ["0", "1", "2"]


def test_the_next_pass_has_its_own_time(leash: Leash, hours: Hours) -> None:
    held = leash.hold(Adapter(hours))
    for _ in range(3):
        leash.begin(15)
        held.ask("a")
        held.ask("b")
        leash.done()
    hours.spend(1000)
    assert held.ask("between passes there is no deadline")


def test_after_the_end_no_call_is_made_any_more(leash: Leash, hours: Hours) -> None:
    adapter = Adapter(hours)
    held = leash.hold(adapter)
    leash.end()
    assert leash.ended
    with pytest.raises(Interrupted, match="being stopped"):
        held.ask("a")
    assert adapter.calls == []


def test_a_method_that_was_got_before_the_end_asks_too(leash: Leash, hours: Hours) -> None:
    adapter = Adapter(hours)
    method = leash.hold(adapter).ask
    leash.end()
    with pytest.raises(Interrupted):
        method("a")


def test_every_call_and_every_end_of_a_pass_is_a_sign_of_life(leash: Leash, hours: Hours) -> None:
    held = leash.hold(Adapter(hours))
    hours.spend(100)
    assert leash.idle == 100
    held.ask("takes 10 s")
    assert leash.idle == 10
    for sign in (leash.progress, lambda: leash.begin(1000), leash.check, leash.done):
        hours.spend(7)
        assert leash.idle >= 7
        sign()
        assert leash.idle == 0


def test_a_long_wait_ends_soon_after_the_thread_was_told_to_end(hours: Hours) -> None:
    leash = Leash(lambda: hours.now)
    clock = leash.clock(hours.clock)
    begun = clock.now()
    clock.sleep(300)
    assert clock.now() == begun + 300
    leash.end()
    with pytest.raises(Interrupted):
        clock.sleep(300)
    assert clock.now() == begun + 300


def test_a_deadline_ends_a_wait_in_the_middle(hours: Hours) -> None:
    leash = Leash(hours.clock.now)
    clock = leash.clock(hours.clock)
    leash.begin(10)
    begun = clock.now()
    with pytest.raises(Interrupted, match="deadline"):
        clock.sleep(300)
    assert 10 <= clock.now() - begun < 12
