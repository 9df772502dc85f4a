"""A whole daemon: real threads, real timers, short intervals."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from functools import partial
from threading import Event, Thread
from typing import Any, ClassVar

import pytest

from reconciler.core.engine import Engine
from reconciler.daemon.daemon import Daemon
from reconciler.daemon.inbox import Trigger
from reconciler.daemon.leash import Leash
from reconciler.daemon.poller import Poller, Watched
from reconciler.daemon.watch import Timing, Watch
from reconciler.errors import GitUnavailable
from reconciler.reconcile.history import History
from reconciler.reconcile.reconciler import Result
from reconciler.reconcile.state import State
from tests.unit.daemon.scene import (
    PATIENCE,
    A,
    B,
    FakeEngine,
    FakeRemote,
    QuickBuilder,
    Scene,
    request,
    result,
    together,
    until,
)
from tests.unit.reconcile.bench import Bench

PATIENT = Timing(interval=3600, resync=3600, deadline=3600, wave=0.05, longest_wave=1)
"""Nothing happens by itself."""


# -- passes


def test_passes_of_a_repository_never_overlap_however_many_threads_trigger_them() -> None:
    scene = Scene(Timing(interval=3600, resync=3600, wave=0.0005, longest_wave=0.002))
    pause = Event()

    def slow() -> Result:
        pause.wait(0.001)
        return result(random.choice([A, B]))  # noqa: S311

    scene.engine.usual = slow

    def trigger() -> None:
        for number in range(100):
            scene.watch.put(random.choice(list(Trigger)))  # noqa: S311
            scene.watch.seen({"main": f"{number:040x}"})
            scene.daemon.look()
            pause.wait(0.0005)

    with scene.running():
        together(*[trigger] * 8)
        before = len(scene.engine.passes)
        scene.daemon.ask()
        until(lambda: any(one.insist for one in scene.engine.passes[before:]))
    assert scene.engine.overlaps == 0
    assert 10 < len(scene.engine.passes) < 3000


def test_a_trigger_during_a_pass_leads_to_another_one() -> None:
    scene = Scene(PATIENT)
    scene.engine.answers.append(scene.block)
    with scene.running():
        until(scene.blocked.is_set)
        scene.daemon.ask()
        scene.release.set()
        until(lambda: [one.insist for one in scene.engine.passes] == [False, True])


def test_100_builds_that_end_together_lead_to_one_pass() -> None:
    scene = Scene(Timing(interval=3600, resync=3600, wave=1.5, longest_wave=PATIENCE))
    names = [f"build-{number}" for number in range(100)]
    for name in names:
        scene.builder.ensure(request(name))

    def end(some: Sequence[str]) -> None:
        for name in some:
            scene.builder.end(name)

    with scene.running():
        until(lambda: scene.told.outcomes)
        together(*(partial(end, names[first::10]) for first in range(10)))
        until(lambda: len(scene.engine.passes) == 2)
        scene.daemon.ask()
        until(lambda: any(one.insist for one in scene.engine.passes))
    assert [one.insist for one in scene.engine.passes] == [False, False, True]
    assert len(scene.told.builds) == 100


def test_the_end_of_a_build_is_enough() -> None:
    scene = Scene(PATIENT)
    scene.builder.ensure(request("b"))
    with scene.running():
        until(lambda: scene.told.outcomes)
        scene.builder.end("b")
        until(lambda: scene.told.builds)


def test_a_poll_is_enough() -> None:
    scene = Scene()
    with scene.running():
        until(lambda: scene.told.polls > 2)
        scene.engine.usual = result(B)
        scene.remote.found = {"main": B}
        until(lambda: scene.watch.report.head == B)


def test_a_webhook_is_enough_and_one_without_news_leads_to_no_pass() -> None:
    scene = Scene(PATIENT)

    def polled(times: int) -> bool:
        return scene.told.polls >= times

    with scene.running():
        until(lambda: scene.told.outcomes)
        for number in range(1, 20):
            scene.daemon.look()
            until(partial(polled, number))
        assert len(scene.engine.passes) == 1
        scene.engine.usual = result(B)
        scene.remote.found = {"main": B}
        scene.daemon.look()
        until(lambda: scene.watch.report.head == B)
    assert len(scene.engine.passes) == 2


def test_a_resync_timer_is_enough() -> None:
    scene = Scene(Timing(interval=3600, resync=0.05))
    with scene.running():
        until(lambda: len(scene.engine.passes) > 5)
    assert scene.remote.asked == []


def test_who_asks_insists_and_nobody_else_does() -> None:
    scene = Scene(PATIENT)
    with scene.running():
        until(lambda: scene.told.outcomes)
        scene.daemon.ask()
        until(lambda: len(scene.told.outcomes) == 2)
        scene.watch.put(Trigger.WEBHOOK)
        until(lambda: len(scene.told.outcomes) == 3)
    assert [one.insist for one in scene.engine.passes] == [False, True, False]


def test_a_remote_that_comes_back_is_used_at_once() -> None:
    scene = Scene()
    scene.engine.usual = scene.remote.error = GitUnavailable("no answer")
    with scene.running():
        until(lambda: scene.watch.report.problem and scene.watch.report.unreachable)
        scene.engine.usual, scene.remote.error = result(), None
        until(lambda: scene.watch.report.ready and not scene.watch.report.trouble)


# -- a no-op poll


class Recorder:
    """Writes down what is called."""

    def __init__(self, adapter: object, calls: list[str]) -> None:
        self._adapter = adapter
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._adapter, name)
        if callable(found):
            self._calls.append(name)
        return found


class World:
    """A daemon over the whole engine, with fakes of the ports."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.bench = Bench()
        self.bench.builder = QuickBuilder(self.bench.clock)
        self.calls: list[str] = []
        repository: Any = Recorder(self.bench.repository, self.calls)
        self.bench.repository = repository
        self.engine = self.bench.reconciler(History(repository, engine=engine or Engine()))
        leash = Leash()
        timing = Timing(interval=0.02, resync=3600, wave=0.02)
        self.watch = Watch("repo", self.engine, self.bench.builder, self.bench.clock, timing, leash)
        self.poller = Poller(repository, [Watched(self.watch, ("main",))], Leash())
        self.daemon = Daemon([(self.watch, self.bench.builder)], [self.poller])

    @contextmanager
    def running(self) -> Iterator[None]:
        """Between its start and its end."""
        self.daemon.start()
        try:
            yield
        finally:
            assert self.daemon.stop(PATIENCE)

    def states(self) -> list[State]:
        """Where the images stand."""
        return [image.state for image in self.watch.report.images]

    def settle(self) -> None:
        """Wait for its builds, end them, and wait until they are published."""
        until(lambda: self.states() == [State.BUILDING] * 2)
        self.bench.end_builds()
        until(lambda: self.states() == [State.CURRENT] * 2)


def test_from_a_commit_to_the_status_file_and_then_quiet_a_poll_asks_only_for_heads() -> None:
    world = World()
    with world.running():
        world.settle()
        assert len(world.bench.images()) == 2
        # Its own commit is a new head: the polls after it must not make a pass either.
        world.calls.clear()
        requests, passed = world.bench.registry.requests, world.watch.report.at
        world.bench.clock.sleep(60)
        until(lambda: world.calls.count("heads") > 20)
        assert set(world.calls) == {"heads"}
        assert world.bench.registry.requests == requests
        assert world.watch.report.at == passed


def test_a_commit_that_changes_a_pool_is_built_without_any_other_trigger() -> None:
    world = World()
    with world.running():
        world.settle()
        before = world.bench.images()
        kept = {p: c for p, c in world.bench.repository.commits[-1].items() if not p.startswith("status/")}
        world.bench.commit({**kept, "p/files/arm64/x": "changed"})
        until(lambda: sorted(world.states()) == [State.BUILDING, State.CURRENT])
        world.bench.end_builds()
        until(lambda: world.states() == [State.CURRENT] * 2)
        after = world.bench.images()
    assert before["amd64"] == after["amd64"]
    assert before["arm64"] != after["arm64"]


# -- the clock


class SetBack(datetime):
    """The time of day, two hours ago from one moment on."""

    by: ClassVar[timedelta] = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        """What the scheduler takes for now."""
        return datetime.now(tz) + cls.by


def test_a_backward_clock_step_of_two_hours_stops_neither_polls_nor_resyncs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apscheduler.schedulers.base.datetime", SetBack)
    monkeypatch.setattr(SetBack, "by", timedelta())
    scene = Scene(Timing(interval=0.2, resync=0.3, deadline=3600))
    with scene.running():
        until(lambda: scene.told.polls >= 2 and len(scene.engine.passes) >= 2)
        SetBack.by = timedelta(hours=-2)
        scene.builder.clock.sleep(-7200)
        # A timer that was due already may still come once.
        polls, passes = scene.told.polls + 1, len(scene.engine.passes) + 1
        until(lambda: scene.told.polls >= polls + 5 and len(scene.engine.passes) >= passes + 5)
        assert scene.daemon.live() == ""


# -- alive and ready


def test_ready_only_after_a_pass_has_gone_through() -> None:
    scene = Scene(PATIENT)
    scene.engine.answers.append(scene.block)
    assert scene.daemon.ready() == "no pass over repo has gone through yet"
    with scene.running():
        until(scene.blocked.is_set)
        assert scene.daemon.ready()
        scene.release.set()
        until(lambda: not scene.daemon.ready())
        scene.engine.usual = GitUnavailable("no answer")
        scene.daemon.ask()
        until(lambda: scene.watch.report.problem)
        assert scene.daemon.ready() == ""  # what was published still stands
    assert scene.daemon.ready() == "stopping"


def test_ready_says_what_keeps_it_from_being_so() -> None:
    scene = Scene()
    scene.engine.usual = scene.remote.error = GitUnavailable("no answer")
    with scene.running():
        until(lambda: scene.watch.report.problem)
        assert scene.daemon.ready() == "no pass over repo has gone through yet: no answer"


def test_ready_waits_for_every_repository() -> None:
    one, other = Scene(PATIENT), Scene(PATIENT)
    daemon = Daemon([(one.watch, one.builder), (other.watch, other.builder)], [])
    other.engine.answers.append(other.block)
    daemon.start()
    until(lambda: one.watch.report.ready and other.blocked.is_set())
    assert daemon.ready()
    other.release.set()
    until(lambda: not daemon.ready())
    assert daemon.stop(PATIENCE)


def test_live_names_a_watch_that_is_stuck() -> None:
    scene = Scene(PATIENT)
    scene.engine.answers.append(scene.block)
    with scene.running():
        until(scene.blocked.is_set)
        assert scene.daemon.live() == ""
        scene.offset = 3600 + 200
        scene.poll_leash.progress()
        assert scene.daemon.live() == ""  # a pass may take until its deadline, and a call has its own time
        scene.offset = 3600 + 400
        scene.poll_leash.progress()
        assert "watch repo has made no progress for 40" in scene.daemon.live()
        scene.release.set()
        until(lambda: scene.daemon.live() == "")


def test_live_names_a_poller_that_is_stuck() -> None:
    scene = Scene(Timing(interval=0.05, resync=3600, deadline=10_000))
    scene.remote.meanwhile = scene.block
    with scene.running():
        until(scene.blocked.is_set)
        scene.offset = 1000
        until(lambda: "poller of repo has made no progress" in scene.daemon.live())
        scene.remote.meanwhile = lambda: None
        scene.release.set()
        until(lambda: scene.daemon.live() == "")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("victim", ["watch repo", "poller of repo", "builds of repo"])
def test_live_names_a_thread_that_has_ended(monkeypatch: pytest.MonkeyPatch, victim: str) -> None:
    def end(*_: object, **__: object) -> Any:
        raise SystemExit  # no loop survives this one

    scene = Scene()
    if victim == "watch repo":
        monkeypatch.setattr(scene.engine, "run_pass", end)
    elif victim == "poller of repo":
        monkeypatch.setattr(scene.remote, "heads", end)
    else:
        monkeypatch.setattr(scene.builder, "wait", end)
    with scene.running():
        until(lambda: scene.daemon.live() == f"{victim} has ended")


def test_live_while_it_starts_and_after_it_has_ended() -> None:
    scene = Scene()
    answers: list[str] = []
    done = Event()

    def ask() -> None:
        while not done.is_set():
            answers.append(scene.daemon.live())

    asking = Thread(target=ask, daemon=True)
    asking.start()
    until(lambda: answers)
    with scene.running():
        until(lambda: scene.told.polls > 2)
    before = len(answers)
    until(lambda: len(answers) > before)
    done.set()
    asking.join(PATIENCE)
    assert set(answers) == {""}


# -- the end


def test_an_end_during_a_pass_ends_its_thread_at_the_next_call() -> None:
    scene = Scene(PATIENT)
    held, begun = scene.leash.hold(Event()), Event()

    def endless() -> Result:
        begun.set()
        while True:
            held.wait(0.001)

    scene.engine.usual = endless
    scene.daemon.start()
    until(begun.is_set)
    assert scene.daemon.stop(PATIENCE)
    assert scene.told.outcomes == []
    assert scene.watch.report.problem is None


def test_a_thread_that_does_not_end_in_time_is_named(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(PATIENT)
    scene.engine.answers.append(scene.block)
    scene.daemon.start()
    until(scene.blocked.is_set)
    assert not scene.daemon.stop(0.05)
    (warning,) = (record for record in caplog.records if "time to stop" in record.getMessage())
    assert "watch repo" in warning.__dict__["threads"]
    scene.release.set()
    assert scene.daemon.stop(PATIENCE)


def test_after_the_end_nothing_happens_any_more() -> None:
    scene = Scene()
    with scene.running():
        until(lambda: scene.told.polls > 2)
    passes, polls = len(scene.engine.passes), len(scene.remote.asked)
    scene.daemon.ask()
    scene.daemon.look()
    scene.builder.ensure(request("b"))
    scene.builder.end("b")
    other = Scene()
    with other.running():
        until(lambda: other.told.polls > 10)
    assert (len(scene.engine.passes), len(scene.remote.asked)) == (passes, polls)


def test_a_daemon_that_was_never_started_can_be_stopped() -> None:
    assert Scene().daemon.stop(PATIENCE)


# -- several repositories


def test_repositories_with_one_remote_share_its_look_ups_and_nothing_else() -> None:
    engines = {name: FakeEngine() for name in ("one", "two")}
    bad = GitUnavailable("no answer")
    engines["two"].usual = bad
    scene = Scene()
    watches = {
        name: Watch(name, engine, scene.builder, scene.builder.clock, Timing(interval=0.05), Leash())
        for name, engine in engines.items()
    }
    remote = FakeRemote({"main": A, "other": B})
    poller = Poller(
        remote, [Watched(watches["one"], ("main",)), Watched(watches["two"], ("other",))], Leash()
    )
    daemon = Daemon([(watch, scene.builder) for watch in watches.values()], [poller])
    daemon.start()
    until(lambda: watches["one"].report.ready and watches["two"].report.problem and len(remote.asked) > 5)
    assert [report.name for report in daemon.reports] == ["one", "two"]
    assert daemon.stop(PATIENCE)
    assert set(remote.asked) == {("main", "other")}
    assert watches["one"].report.problem is None
