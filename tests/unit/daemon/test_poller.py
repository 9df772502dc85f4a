"""One poller in simulated time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.daemon.inbox import Trigger
from reconciler.daemon.leash import Leash
from reconciler.daemon.poller import Poller, Watched
from reconciler.daemon.watch import Timing, Watch
from reconciler.errors import GitError, GitUnavailable
from tests.fakes import FakeBuilder
from tests.unit.daemon.scene import A, B, C, FakeEngine, FakeRemote, Hours, WaitingInbox

HOUR = 3600.0


class Heard(Watch):
    """A watch that only listens."""

    def __init__(self, hours: Hours, interval: float = 60.0) -> None:
        builder = FakeBuilder(hours.clock)
        super().__init__("repo", FakeEngine(), builder, hours.clock, Timing(interval=interval), Leash())
        self.heads: list[dict[str, str]] = []
        self.errors: list[str] = []
        self.error: Exception | None = None

    def seen(self, heads: object) -> None:
        """Kept."""
        assert isinstance(heads, dict)
        if self.error:
            raise self.error
        self.heads.append(heads)

    def unseen(self, error: Exception) -> None:
        """Kept."""
        self.errors.append(str(error))


class Post:
    """A poller, the remote that it asks, and who is watched there."""

    def __init__(self, *watched: tuple[float, tuple[str, ...]]) -> None:
        self.hours = Hours()
        self.remote = FakeRemote(now=lambda: self.hours.now)
        self.watches = [Heard(self.hours, interval) for interval, _ in watched]
        members = [Watched(w, names) for w, (_, names) in zip(self.watches, watched, strict=True)]
        self.leash = Leash(lambda: self.hours.now)
        self.poller = Poller(self.remote, members, self.leash, WaitingInbox(self.hours))

    def run(self, seconds: float) -> list[float]:
        """Let it work for so long; returns when it asked."""
        self.hours.at(seconds, self.poller.end)
        self.poller.run()
        return self.remote.times


def gaps(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


@pytest.fixture
def post() -> Post:
    return Post((60, ("main",)))


def test_one_question_serves_everybody_and_each_is_told_of_its_own_heads() -> None:
    post = Post((60, ("main",)), (30, ("main", "status")), (600, ("refs/tags/v1",)))
    post.remote.found = {"main": A, "status": B, "refs/tags/v1": C}
    post.hours.at(10, post.poller.look)
    post.run(20)
    assert post.remote.asked == [("main", "refs/tags/v1", "status")]
    assert [watch.heads for watch in post.watches] == [
        [{"main": A}],
        [{"main": A, "status": B}],
        [{"refs/tags/v1": C}],
    ]
    assert post.poller.interval == 30


def test_what_the_remote_does_not_have_is_left_out() -> None:
    post = Post((60, ("main", "status")))
    post.hours.at(10, post.poller.look)
    post.run(20)
    assert post.watches[0].heads == [{"main": A}]


def test_asked_often_it_looks_once(post: Post) -> None:
    def all_at_once() -> None:
        for trigger in Trigger:
            for _ in range(100):
                post.poller.look(trigger)

    post.hours.at(10, all_at_once)
    assert post.run(20) == [10]


def test_who_asks_while_it_looks_is_served_after_that(post: Post) -> None:
    def once() -> None:
        post.remote.meanwhile = lambda: None
        post.poller.look(Trigger.WEBHOOK)

    post.remote.meanwhile = once
    post.hours.at(10, post.poller.look)
    assert post.run(20) == [10, 10]


@given(st.integers(1, 600))
def test_without_any_timer_the_gap_is_at_most_two_intervals(interval: int) -> None:
    post = Post((interval, ("main",)))
    times = [0, *post.run(20 * interval)]
    assert len(times) > 8
    assert max(gaps(times)) <= 2 * interval


def test_with_timers_it_looks_when_they_say(post: Post) -> None:
    post.hours.every(60, post.poller.look)
    assert post.run(601) == [60 * number for number in range(1, 11)]


def test_without_an_answer_it_asks_again_soon_and_then_at_the_interval(post: Post) -> None:
    post.remote.error = GitUnavailable("no answer")
    post.hours.at(10, post.poller.look)
    times = post.run(HOUR)
    found = gaps(times)
    assert [gap <= whole for gap, whole in zip(found, [1, 2, 4, 8, 16, 32], strict=False)] == [True] * 6
    assert all(48 <= gap <= 60 for gap in found[6:])
    assert post.watches[0].errors == ["no answer"] * len(times)


def test_after_an_answer_it_begins_anew(post: Post) -> None:
    post.remote.error = GitError("no permission")
    post.hours.at(10, post.poller.look)

    def mend() -> None:
        post.remote.error = None

    def spoil() -> None:
        post.remote.error = GitError("no permission")

    post.hours.at(1000, mend)
    post.hours.at(2000, spoil)
    times = post.run(HOUR)
    later = [at for at in times if at >= 2000]
    assert post.watches[0].heads
    assert gaps(later)[0] <= 1


def test_looks_that_last_longer_than_the_interval_do_not_follow_each_other_without_a_pause(
    post: Post,
) -> None:
    post.remote.error = GitUnavailable("timed out")
    post.remote.meanwhile = lambda: post.hours.spend(120)
    times = post.run(4 * HOUR)
    assert all(120 + 48 <= gap <= 120 + 60 for gap in gaps(times)[8:])
    assert len(times) > 50


def test_a_bug_does_not_end_it_and_is_told(post: Post, caplog: pytest.LogCaptureFixture) -> None:
    post.remote.error = ZeroDivisionError("oh")
    post.hours.at(HOUR, lambda: setattr(post.remote, "error", None))
    post.run(2 * HOUR)
    assert "ZeroDivisionError" in post.watches[0].errors[0]
    assert "Traceback" in caplog.text
    assert post.watches[0].heads


def test_what_one_cannot_take_in_the_others_hear_nevertheless() -> None:
    post = Post((60, ("main",)), (60, ("main",)))
    post.watches[0].error = ZeroDivisionError("oh")
    post.run(HOUR)
    assert len(post.watches[1].heads) == len(post.remote.times) > 30
    assert len(post.watches[0].errors) == len(post.remote.times)
    assert post.watches[1].errors == []


def test_after_the_end_it_does_not_look(post: Post) -> None:
    post.poller.end()
    post.poller.look()
    post.poller.run()
    assert post.remote.times == []


def test_an_end_while_it_looks_is_no_failure(post: Post) -> None:
    remote = post.leash.hold(post.remote)
    poller = Poller(remote, [Watched(post.watches[0], ("main",))], post.leash, WaitingInbox(post.hours))
    post.hours.at(10, post.leash.end)
    post.hours.at(10, poller.look)
    poller.run()
    assert post.remote.times == []
    assert post.watches[0].errors == []


def test_an_idle_poller_shows_that_it_is_alive() -> None:
    post = Post((HOUR, ("main",)))
    longest = 0.0

    def look() -> None:
        nonlocal longest
        longest = max(longest, post.leash.idle)

    post.hours.every(1, look)
    post.run(3 * HOUR)
    assert longest <= 15
