"""Previews as a part of the daemon: they hear of its work, and whatever becomes of them, it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest

from reconciler.cli.compose_previews import Tapped
from reconciler.core.plan import Plan
from reconciler.daemon.daemon import Daemon
from reconciler.daemon.durations import Durations
from reconciler.daemon.gate import Allowance, Gate, Rules
from reconciler.daemon.leash import Leash
from reconciler.daemon.observer import all_of
from reconciler.daemon.previews import Previewer, Workplace
from reconciler.errors import GitUnavailable
from tests.fakes import FakeClock
from tests.unit.daemon.previews_scene import Scene as Pulls
from tests.unit.daemon.scene import A, FakeEngine, Scene, Told, until


class Stuck:
    """A previewer whose work never ends."""

    def __init__(self) -> None:
        self.begun, self.release = Event(), Event()
        rules = Rules(Gate(), Allowance(1))
        self.previewer = Previewer("repo", self._open, rules, FakeClock(), Leash(), Durations())

    @contextmanager
    def _open(self) -> Iterator[Workplace]:
        yield self._workplace()

    def _workplace(self) -> Workplace:
        self.begun.set()
        self.release.wait(60)
        raise GitUnavailable("no answer")


def test_stuck_previews_keep_nothing_else_from_going_on() -> None:
    scene, stuck = Scene(), Stuck()
    daemon = Daemon([(scene.watch, scene.builder)], [scene.poller], {scene.watch: stuck.previewer})
    daemon.start()
    try:
        assert stuck.begun.wait(60)
        until(lambda: daemon.ready() == "")
        scene.offset = 100_000.0
        scene.poll_leash.progress()
        scene.leash.progress()
        assert daemon.live() == ""
        assert daemon.reports[0].previews == stuck.previewer.report
        assert daemon.stop(60)
    finally:
        stuck.release.set()


def test_a_daemon_without_previews_says_nothing_of_them() -> None:
    scene = Scene()
    assert scene.daemon.reports[0].previews is None
    scene.daemon.look_at_pulls()


def test_plans_are_heard_after_the_daemon_and_never_stop_it(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def hear(plan: Plan) -> None:
        heard.append(plan.head)
        raise ValueError("deaf")

    tapped = Tapped(FakeEngine(), hear)
    first: list[str] = []
    found = tapped.run_pass(lambda plan: first.append(f"{plan.head} {len(heard)}"), insist=True)
    assert found.plan.head == A
    assert (first, heard) == ([f"{A} 0"], [A])
    assert "hearing of a plan failed" in caplog.text


def test_several_observers_hear_all_and_one_that_fails_harms_no_other() -> None:
    class Broken(Durations):
        def built(self, pool: str, arch: str, seconds: float, outcome: str) -> None:
            raise ValueError(pool, arch, seconds, outcome)

    told, durations, scene = Told(), Durations(), Pulls()
    both = all_of(Broken(), told, durations)
    both.built("worker", "amd64", 120.0, "succeeded")
    both.polled("repo")
    assert told.builds == [("worker", "amd64", 120.0, "succeeded")]
    assert told.polls == 1
    assert list(durations.minutes(scene.plan(scene.base)).values()) == [2]
