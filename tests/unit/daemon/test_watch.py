"""One watch in simulated time: every wait is exact, and hours pass in no time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sized
from itertools import pairwise

import pytest

from reconciler.core.documents import Age
from reconciler.core.model import Arch
from reconciler.core.plan import Action, Plan
from reconciler.daemon.inbox import Trigger
from reconciler.daemon.watch import Timing
from reconciler.errors import (
    Defect,
    GitError,
    GitUnavailable,
    Interrupted,
    ReconcilerError,
    RegistryUnavailable,
    UnverifiedCommit,
)
from reconciler.ports import Cause, Phase
from reconciler.reconcile.reconciler import Result
from reconciler.reconcile.state import Image, State
from reconciler.reconcile.work import Standing, Work
from reconciler.reconcile.writing import Written
from tests.unit.daemon.scene import A, B, Broken, C, Simulation, build, pool, request, result

HOUR = 3600.0
DAY = 24 * HOUR
ALONE = Timing(resync=100 * DAY)
"""A watch that makes no pass by itself for a long time."""
OVERTAKEN = result(written=Written(overtaken=True))


@pytest.fixture
def alone() -> Simulation:
    return Simulation(ALONE)


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    """What was told as a warning or worse."""
    return [r.getMessage() for r in log.records if r.levelno >= logging.WARNING]


def gaps(times: list[float]) -> list[float]:
    """The time between each pass and the next."""
    return [later - earlier for earlier, later in pairwise(times)]


# -- when a pass is made


def test_it_begins_with_a_pass_and_then_waits(alone: Simulation) -> None:
    assert alone.run(DAY) == [0]
    assert alone.told.outcomes == ["settled"]
    assert alone.told.successes == [alone.hours.clock.time - DAY]


def test_polls_that_find_nothing_new_lead_to_no_pass(alone: Simulation) -> None:
    alone.hours.every(60, alone.poll)
    assert alone.run(DAY) == [0]
    assert alone.told.polls == DAY / 60 - 1


def thorough(watched: Simulation) -> list[bool]:
    """Of every pass, whether it looked at every image again."""
    return [one.thorough for one in watched.engine.passes]


@pytest.mark.parametrize("trigger", [Trigger.BUILD, Trigger.REFRESH])
def test_a_build_or_a_slot_is_no_reason_to_look_at_every_image_again(
    alone: Simulation, trigger: Trigger
) -> None:
    alone.hours.at(100, lambda: alone.watch.put(trigger))
    alone.run(HOUR)
    assert thorough(alone) == [True, False]


def test_nor_is_a_moved_head(alone: Simulation) -> None:
    alone.hours.at(100, lambda: alone.poll(B))
    alone.run(HOUR)
    assert thorough(alone) == [True, False]


@pytest.mark.parametrize("trigger", [Trigger.ASKED, Trigger.RESYNC, Trigger.RETRY, Trigger.WEBHOOK])
def test_every_other_trigger_is_one(alone: Simulation, trigger: Trigger) -> None:
    alone.hours.at(100, lambda: alone.watch.put(trigger))
    alone.run(HOUR)
    assert thorough(alone) == [True, True]


def test_builds_without_end_do_not_keep_it_from_looking_at_every_image_now_and_then() -> None:
    busy = Simulation(Timing(resync=100.0))
    busy.hours.every(20, lambda: busy.watch.put(Trigger.BUILD))
    busy.run(1000)
    whole = [one.at for one in busy.engine.passes if one.thorough]
    assert len(whole) < len(busy.engine.passes) / 3
    assert max(gaps(whole)) <= 130


def test_after_a_problem_every_image_is_looked_at(alone: Simulation) -> None:
    alone.engine.answers.extend([result(), result(problems=(GitError("refused"),))])
    for at in (100, 200, 300):
        alone.hours.at(at, lambda: alone.watch.put(Trigger.BUILD))
    alone.run(HOUR)
    assert thorough(alone) == [True, False, True, False]


def test_a_moved_head_leads_to_a_pass_at_once(alone: Simulation) -> None:
    alone.engine.answers.extend([result(A), result(B)])
    alone.hours.at(100, lambda: alone.poll(B))
    alone.hours.at(200, lambda: alone.poll(B))
    assert alone.run(HOUR) == [0, 100]


@pytest.mark.parametrize("trigger", [t for t in Trigger if t is not Trigger.POLL])
def test_each_other_trigger_is_sufficient(alone: Simulation, trigger: Trigger) -> None:
    alone.hours.at(100, lambda: alone.watch.put(trigger))
    assert len(alone.run(HOUR)) == 2


def test_its_own_commit_leads_to_no_pass(alone: Simulation) -> None:
    alone.engine.answers.append(result(A, heads={"main": B}, written=Written(commit=B)))
    alone.hours.every(60, lambda: alone.poll(B))
    assert alone.run(HOUR) == [0]


def test_a_head_that_was_seen_while_the_pass_over_it_was_made_leads_to_no_other(alone: Simulation) -> None:
    def over_b() -> Result:
        alone.poll(B)
        return result(B)

    alone.engine.answers.append(over_b)
    assert alone.run(HOUR) == [0]


def test_a_head_that_is_newer_than_the_pass_under_way_leads_to_another(alone: Simulation) -> None:
    def over_a() -> Result:
        alone.poll(B)
        return result(A)

    alone.engine.answers.extend([over_a, result(B)])
    assert alone.run(HOUR) == [0, 0]


def test_a_branch_that_no_pass_can_rest_on_leads_to_no_pass_at_every_poll(alone: Simulation) -> None:
    alone.hours.every(60, lambda: alone.watch.seen({"main": A, "status": C}))
    assert alone.run(HOUR) == [0, 60]


def test_many_triggers_at_one_moment_are_one_pass(alone: Simulation) -> None:
    def all_at_once() -> None:
        for trigger in Trigger:
            for _ in range(100):
                alone.watch.put(trigger)

    alone.hours.at(100, all_at_once)
    assert len(alone.run(HOUR)) == 2


def test_without_any_timer_the_world_is_looked_at_again() -> None:
    simulation = Simulation()  # nobody ever puts RESYNC: the timers stand still
    assert simulation.run(3000) == [0, 900, 1800, 2700]


def test_a_timer_that_works_leaves_nothing_to_do_by_itself() -> None:
    simulation = Simulation()
    simulation.hours.every(600, lambda: simulation.watch.put(Trigger.RESYNC))
    assert simulation.run(3000) == [0, 600, 1200, 1800, 2400]


# -- the refresh schedule


def test_a_new_slot_of_the_refresh_schedule_leads_to_a_pass(alone: Simulation) -> None:
    alone.engine.usual = result(schedule=Age(int(HOUR)))
    alone.hours.clock.time = 10 * HOUR
    alone.hours.every(60, alone.poll)
    assert alone.run(3.5 * HOUR) == [0, 3600, 7200, 10800]


def test_a_slot_that_begins_during_a_pass_leads_to_another(alone: Simulation) -> None:
    alone.engine.usual = result(schedule=Age(int(HOUR)))
    alone.hours.clock.time = 11 * HOUR - 90
    alone.hours.at(60, lambda: alone.watch.put(Trigger.WEBHOOK))

    def long() -> Result:
        alone.hours.spend(60)  # it was planned before the hour, and ends after it
        return result(schedule=Age(int(HOUR)))

    alone.engine.answers.extend([result(schedule=Age(int(HOUR))), long])
    alone.hours.at(180, alone.poll)
    alone.hours.at(240, alone.poll)
    assert alone.run(HOUR) == [0, 60, 180]


def test_a_clock_that_is_set_back_makes_one_pass_and_not_one_at_every_poll(alone: Simulation) -> None:
    alone.engine.usual = result(schedule=Age(int(HOUR)))
    alone.hours.clock.time = 10 * HOUR + 1000
    alone.hours.every(60, alone.poll)
    alone.hours.at(600, lambda: alone.hours.clock.sleep(-2 * HOUR))
    assert alone.run(1500) == [0, 600]


def test_a_slot_that_cannot_be_served_is_not_tried_at_every_poll(alone: Simulation) -> None:
    alone.engine.answers.extend([result(schedule=Age(int(HOUR)))] * 2)
    alone.engine.usual = UnverifiedCommit("commit is not signed")
    alone.hours.clock.time = 10 * HOUR
    alone.hours.every(60, alone.poll)
    times = alone.run(DAY)
    assert len([at for at in times if at < 2 * HOUR]) < 20  # it backs off, and once more for each hour
    assert HOUR in times


# -- a person asks


def test_who_asks_insists(alone: Simulation) -> None:
    alone.hours.at(100, lambda: alone.watch.put(Trigger.ASKED))
    alone.hours.at(200, lambda: alone.watch.put(Trigger.WEBHOOK))
    alone.run(HOUR)
    assert [one.insist for one in alone.engine.passes] == [False, True, False]


def test_who_asks_insists_until_a_pass_goes_through(alone: Simulation) -> None:
    alone.engine.answers.extend([result(), GitUnavailable("no answer"), GitUnavailable("no answer")])
    alone.hours.at(100, lambda: alone.watch.put(Trigger.ASKED))
    alone.hours.at(500, lambda: alone.watch.put(Trigger.WEBHOOK))
    alone.run(HOUR)
    assert [one.insist for one in alone.engine.passes] == [False, True, True, True, False]


# -- waves of builds


def test_100_builds_that_end_one_after_the_other_are_one_pass(alone: Simulation) -> None:
    for number in range(100):
        alone.hours.at(100 + number * 0.05, lambda: alone.watch.put(Trigger.BUILD))
    assert alone.run(HOUR) == [0, pytest.approx(100 + 99 * 0.05 + 1)]


def test_a_wave_that_does_not_end_is_not_waited_for(alone: Simulation) -> None:
    for number in range(1000):
        alone.hours.at(100 + number * 0.5, lambda: alone.watch.put(Trigger.BUILD))
    first, *later = alone.run(HOUR)
    assert first == 0
    assert later[0] == pytest.approx(110, abs=1)
    assert all(gap <= 12 for gap in gaps(later))


# -- the branch moves


def test_a_moved_branch_is_tried_again_at_once_a_few_times_and_then_at_the_interval(
    alone: Simulation,
) -> None:
    alone.engine.usual = OVERTAKEN
    times = alone.run(600)
    assert len([at for at in times if at < 2]) == 6
    assert gaps(times[5:]) == [pytest.approx(60)] * (len(times) - 6)
    assert len(times) > 12
    assert set(alone.told.outcomes) == {"working"}


def test_a_pass_that_wrote_lets_the_next_race_begin_anew(alone: Simulation) -> None:
    alone.engine.answers.extend([OVERTAKEN] * 4 + [result()] + [OVERTAKEN] * 5)
    alone.hours.at(100, lambda: alone.watch.put(Trigger.WEBHOOK))
    times = alone.run(HOUR)
    assert len([at for at in times if at < 5]) == 5
    assert len([at for at in times if 100 <= at < 105]) == 6
    assert len(times) == 11


# -- what keeps a pass from going through


def test_without_the_git_server_it_backs_off_no_longer_than_the_interval(alone: Simulation) -> None:
    alone.engine.usual = GitUnavailable("no answer")
    found = gaps(alone.run(HOUR))
    assert [gap <= whole for gap, whole in zip(found, [1, 2, 4, 8, 16, 32], strict=False)] == [True] * 6
    assert all(0.8 * 60 <= gap <= 60 for gap in found[6:])
    assert len(found) > 60


def test_it_recovers_at_the_next_successful_poll(alone: Simulation) -> None:
    alone.engine.answers.extend([GitUnavailable("no answer")] * 8)
    alone.hours.at(124, alone.poll)  # after the eighth, and before it is time for another
    times = alone.run(HOUR)
    assert times[-1] == 124
    assert len(times) == 9
    assert alone.watch.report.problem is None


def test_a_poll_that_succeeds_does_not_hide_that_passes_fail(
    alone: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    alone.engine.usual = GitUnavailable("the pack does not come")
    alone.hours.every(60, alone.poll)
    alone.run(HOUR)
    assert alone.watch.report.trouble
    assert alone.watch.report.trouble.since < 1_000_001
    assert warnings(caplog) == ["the pack does not come"]


def test_what_polls_and_passes_run_into_alike_is_told_once(
    alone: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    alone.engine.answers.append(result())
    alone.engine.usual = GitUnavailable("no answer")
    alone.hours.every(60, lambda: alone.watch.unseen(GitUnavailable("no answer")))
    alone.hours.at(600, lambda: alone.watch.put(Trigger.BUILD))
    alone.run(HOUR)
    assert warnings(caplog) == ["no answer"]


def test_a_remote_that_answers_again_is_told(alone: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    alone.hours.at(60, lambda: alone.watch.unseen(GitError("no permission")))
    alone.hours.at(90, lambda: alone.watch.unseen(GitError("no permission")))
    alone.hours.at(120, alone.poll)
    alone.run(100)
    troubles = [alone.watch.report.trouble]
    assert alone.watch.report.problem is None  # the passes go through
    alone.poll()
    troubles.append(alone.watch.report.trouble)
    assert [trouble and trouble.message for trouble in troubles] == ["no permission", None]
    assert [r.getMessage() for r in caplog.records] == ["planned", "no permission", "recovered"]


def test_an_unverified_commit_is_told_once_and_a_new_head_is_tried_at_once(
    alone: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    alone.engine.answers.append(result(A))
    alone.engine.usual = UnverifiedCommit("commit b is not signed")
    heads = {"main": A}
    alone.hours.every(60, lambda: alone.watch.seen(heads))
    alone.hours.at(90, lambda: heads.update(main=B))

    def signed() -> None:
        heads["main"] = C
        alone.engine.usual = result(C)

    alone.hours.at(HOUR, signed)
    times = alone.run(2 * HOUR)
    assert times[:2] == [0, 120]
    assert times[-1] == pytest.approx(HOUR, abs=60)
    assert warnings(caplog) == ["commit b is not signed"]
    assert alone.told.outcomes[0] == alone.told.outcomes[-1] == "settled"
    assert set(alone.told.outcomes[1:-1]) == {"unverified"}


def test_an_unverified_commit_is_tried_again_as_its_key_may_come() -> None:
    simulation = Simulation()
    simulation.engine.usual = UnverifiedCommit("commit a is not signed")
    found = gaps(simulation.run(6 * HOUR))
    assert all(0.8 * 600 <= gap <= 600 for gap in found[10:])
    assert len(found) > 30


def test_a_pass_that_takes_longer_than_its_deadline_is_broken_off_and_tried_again(
    alone: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    held = alone.leash.hold(alone.hours.clock)

    def for_ever() -> Result:
        while True:
            alone.hours.spend(100)
            held.now()

    alone.engine.answers.extend([for_ever, for_ever])
    times = alone.run(2 * HOUR)
    assert times == [0, pytest.approx(1901, abs=1), pytest.approx(3803, abs=2)]
    assert alone.told.outcomes == ["failed", "failed", "settled"]
    (problem,) = warnings(caplog)
    assert "deadline" in problem
    assert "source.deadline" in caplog.records[-1].__dict__.get("hint", "") or any(
        "source.deadline" in record.__dict__.get("hint", "") for record in caplog.records
    )


def test_a_bug_in_the_engine_does_not_end_the_loop(
    alone: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    alone.engine.usual = ZeroDivisionError("oh")
    alone.hours.at(DAY, lambda: setattr(alone.engine, "usual", result(B)))
    alone.hours.at(DAY, lambda: alone.poll(B))
    times = alone.run(DAY + HOUR)
    assert len(times) > 100
    assert max(gaps(times)) <= 300
    assert times[-1] == DAY
    assert "Traceback" in caplog.text
    assert alone.told.outcomes[-2:] == ["failed", "settled"]


def test_a_bug_is_shown_as_one_and_not_at_full_length(alone: Simulation) -> None:
    alone.engine.usual = ZeroDivisionError("x" * 10_000)
    alone.run(10)
    problem = alone.watch.report.problem
    assert problem
    assert problem.reason == Defect.reason
    assert "ZeroDivisionError" in problem.message
    assert len(problem.message) < 1500
    assert problem.hint


@pytest.mark.parametrize("method", ["polled", "passed", "state", "succeeded", "avoided", "built"])
def test_an_observer_that_fails_changes_nothing_and_is_told_once(
    alone: Simulation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(alone.told, method, fail)
    spared = pool("worker", amd64=Action.REUSE)
    alone.engine.answers.append(result(A))
    alone.engine.answers.append(result(B, spared))
    alone.engine.usual = result(C, spared)
    for name in ("one", "two"):
        alone.builder.ensure(request(name))
        alone.builder.end(name)
    alone.hours.at(100, lambda: alone.poll(B))
    alone.hours.at(200, lambda: alone.poll(C))
    assert alone.run(HOUR) == [0, 100, 200]
    assert [record.getMessage() for record in caplog.records] == ["an observer failed"]


def test_a_schedule_that_nobody_can_read_is_mended_by_the_next_commit(alone: Simulation) -> None:
    alone.engine.answers.append(result(A, schedule=Age(0)))  # a bug: nothing can be divided by this
    alone.engine.usual = result(B)
    alone.hours.at(0.5, lambda: alone.poll(B))
    assert alone.run(HOUR) == [0, 0.5]
    assert alone.watch.report.head == B


def test_a_schedule_that_nobody_can_read_does_not_make_the_loop_hot(alone: Simulation) -> None:
    alone.engine.usual = result(schedule=Age(0))
    assert 2 <= len(alone.run(HOUR)) < 40


def test_each_cause_has_its_own_waits(alone: Simulation) -> None:
    unverified, gone = UnverifiedCommit("commit a is not signed"), GitUnavailable("no answer")
    alone.engine.answers.extend([unverified] * 9 + [gone] * 3)
    times = alone.run(HOUR)
    assert gaps(times)[8] > 200
    assert [gap < whole for gap, whole in zip(gaps(times)[9:12], [1.01, 2.01, 4.01], strict=True)] == [
        True
    ] * 3


def test_two_causes_in_turn_do_not_keep_each_other_quick(alone: Simulation) -> None:
    alone.engine.answers.extend([GitUnavailable("no answer"), Broken("no permission")] * 20)
    found = gaps(alone.run(DAY))
    assert found[30] > 40
    assert found[31] > 200


def test_what_only_a_person_can_mend_is_tried_again_seldom(alone: Simulation) -> None:
    alone.engine.usual = Broken("no permission")
    found = gaps(alone.run(3 * HOUR))
    assert all(240 <= gap <= 300 for gap in found[9:])
    assert len(found) > 30


def test_a_failure_without_news_is_not_tried_again_by_polls(alone: Simulation) -> None:
    alone.engine.usual = Broken("no such branch")
    alone.hours.every(5, lambda: alone.watch.seen({}))
    times = alone.run(3 * HOUR)
    assert len(times) < 60


# -- what a pass leaves to be done


def waiting(alone: Simulation, seconds: float, arch: Arch = Arch.AMD64) -> dict[tuple[str, Arch], Work]:
    """A build that is tried again after so many seconds."""
    return {("worker", arch): Work(Standing.WAITING, None, alone.hours.clock.now() + seconds)}


def test_a_build_is_tried_again_when_it_is_time(alone: Simulation) -> None:
    alone.engine.answers.extend([result(work=waiting(alone, 128)), result()])
    assert alone.run(HOUR) == [0, 128]
    assert alone.told.outcomes == ["working", "settled"]


def test_a_time_that_has_come_already_is_no_hot_loop(alone: Simulation) -> None:
    alone.engine.usual = result(work=waiting(alone, -1))
    assert len(alone.run(10)) <= 101


def test_a_base_that_is_gone_is_looked_for_again_and_does_not_delay_other_pools(alone: Simulation) -> None:
    blocked = pool("other", amd64=Action.BLOCKED)
    alone.engine.usual = result(A, blocked)
    for _ in range(12):
        alone.engine.answers.append(result(A, blocked))
    alone.engine.answers.append(lambda: result(A, blocked, work=waiting(alone, 2)))
    times = alone.run(DAY)
    assert all(gap <= 300 for gap in gaps(times))
    assert gaps(times)[11] >= 240
    assert gaps(times)[12] == pytest.approx(2)
    assert set(alone.told.outcomes) == {"failed"}
    assert alone.told.successes == []


def test_a_registry_that_does_not_answer_is_asked_again(alone: Simulation) -> None:
    alone.engine.answers.extend([result(problems=(RegistryUnavailable("busy"),))] * 3)
    times = alone.run(HOUR)
    assert len(times) == 4
    assert times[-1] <= 7
    assert alone.told.outcomes == ["failed"] * 3 + ["settled"]


def test_a_refused_push_is_a_failure_and_not_pushed_again_before_there_is_something_new(
    alone: Simulation,
) -> None:
    alone.engine.usual = result(problems=(GitError("protected"),))
    assert alone.run(DAY) == [0]
    assert alone.told.outcomes == ["failed"]


# -- builds and what is told of them


def test_unwanted_builds_are_discarded_and_only_those_that_work_are_told(
    alone: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for name in ("old", "ended", "wanted"):
        alone.builder.ensure(request(name))
    alone.builder.end("ended")
    alone.engine.usual = result(unwanted=("old", "ended"))
    alone.run(10)
    assert [one.name for one in alone.builder.builds()] == ["wanted"]
    (superseded,) = (r for r in caplog.records if r.getMessage() == "superseded")
    assert superseded.__dict__["builds"] == ["old"]
    assert alone.told.states[0][1:] == (0, 1)


def test_an_end_need_not_wait_until_all_that_is_unwanted_was_given_up(
    alone: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"b-{number}" for number in range(250)]
    for name in names:
        alone.builder.ensure(request(name))
    discard, given = alone.builder.discard, []

    def one_step(some: Collection[str]) -> None:
        given.append(len(some))
        discard(some)
        if len(given) == 2:
            alone.watch.end()

    monkeypatch.setattr(alone.builder, "discard", one_step)
    alone.engine.usual = result(unwanted=tuple(names))
    alone.run(10)
    assert len(given) == 2
    assert max(given) <= 100
    assert len(alone.builder.builds()) == 250 - sum(given)


def test_what_has_ended_is_forgotten_when_nothing_else_is_due(
    alone: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit may leave thousands: the next one does not wait for them."""
    names = [f"b-{number}" for number in range(250)]
    for name in names:
        alone.builder.ensure(request(name))
        alone.builder.end(name)
    discard, left = alone.builder.discard, []

    def slowly(some: Collection[str]) -> None:
        alone.hours.spend(len(some) * 0.1)
        discard(some)
        left.append(len(alone.builder.builds()))
        if len(left) == 3:
            alone.watch.put(Trigger.ASKED)

    monkeypatch.setattr(alone.builder, "discard", slowly)
    alone.engine.usual = lambda: result(unwanted=tuple(one.name for one in alone.builder.builds()))
    assert alone.run(HOUR) == [0, pytest.approx(6.0)]
    assert left == [*range(230, 0, -20), 0]
    assert len(alone.told.builds) == 250


def test_what_cannot_be_forgotten_is_told_and_left_to_the_next_pass(
    alone: Simulation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(50):
        alone.builder.ensure(request(f"b-{number}"))
        alone.builder.end(f"b-{number}")
    alone.engine.usual = result(unwanted=tuple(one.name for one in alone.builder.builds()))
    asked = []

    def refused(some: Collection[str]) -> None:
        asked.append(len(some))
        raise RegistryUnavailable("nobody is there")

    monkeypatch.setattr(alone.builder, "discard", refused)
    alone.hours.at(60, lambda: alone.watch.put(Trigger.ASKED))
    assert alone.run(HOUR) == [0, 60]
    assert asked == [20, 20]
    assert warnings(caplog) == ["cannot put away builds that have ended: nobody is there"] * 2


def test_each_end_of_a_build_is_told_once(alone: Simulation) -> None:
    alone.builder.ensure(request("good"))
    alone.builder.ensure(request("bad", arch=Arch.ARM64))
    alone.hours.at(10, lambda: alone.builder.end("good"))
    alone.hours.at(20, lambda: alone.builder.end("bad", Cause.DEFINITION))
    alone.hours.every(5, lambda: alone.watch.put(Trigger.BUILD))
    alone.run(100)
    assert [(arch, outcome) for _, arch, _, outcome in alone.told.builds] == [
        ("amd64", "succeeded"),
        ("arm64", "definition"),
    ]


def test_how_builds_stand_is_shown_while_nothing_else_happens(alone: Simulation) -> None:
    queued = Image("worker", Arch.AMD64, State.QUEUED)

    def begin() -> None:
        alone.builder.known["b"] = build("b")

    alone.builder.known["b"] = build("b", Phase.PENDING)
    alone.engine.usual = result(images=(queued,))
    alone.hours.at(40, begin)
    assert alone.run(100) == [0]
    assert alone.told.states[0] == ({("worker", "amd64"): "queued"}, 1, 0)
    assert alone.told.states[-1] == ({("worker", "amd64"): "building"}, 0, 1)
    assert alone.watch.report.images[0].state is State.BUILDING


def test_builds_are_counted_as_avoided_once_for_each_commit_of_an_author(alone: Simulation) -> None:
    spared = pool("worker", amd64=Action.REUSE, arm64=Action.BUILD)
    plan = Plan(None, B, (spared,))

    def over_b(**parts: object) -> Callable[[], Result]:
        return lambda: Result(plan, **({"heads": {"main": B}} | parts))  # type: ignore[arg-type]

    alone.engine.answers.extend(
        [
            result(A, spared),  # after a start: not known to be new
            over_b(written=Written(overtaken=True)),
            over_b(),
            over_b(heads={"main": C}, written=Written(commit=C)),
            result(C, spared),  # our own commit
        ]
    )
    alone.hours.at(100, lambda: alone.poll(B))
    alone.hours.at(200, lambda: alone.watch.put(Trigger.BUILD))
    alone.hours.at(300, lambda: alone.watch.put(Trigger.BUILD))
    assert len(alone.run(HOUR)) == 5
    assert alone.told.spared == [("worker", "amd64")]


def test_what_is_written_and_recovered_from_is_logged(
    alone: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    alone.engine.answers.extend([GitUnavailable("no answer"), result(written=Written(commit=B))])
    alone.run(HOUR)
    assert [r.getMessage() for r in caplog.records] == ["no answer", "planned", "recovered", "committed"]
    assert all(r.__dict__["repository"] == "repo" for r in caplog.records)


def test_no_memory_grows_with_time(alone: Simulation) -> None:
    number = 0

    def wave() -> Result:
        nonlocal number
        number += 1
        before, now = f"build-{number - 1}", f"build-{number}"
        alone.builder.ensure(request(now))
        alone.builder.end(now)
        return result(f"{number:040x}", unwanted=(before,))

    def sizes() -> dict[str, int]:
        return {name: len(value) for name, value in vars(alone.watch).items() if isinstance(value, Sized)}

    early: dict[str, int] = {}
    alone.engine.usual = wave
    alone.hours.every(60, lambda: alone.watch.put(Trigger.BUILD))
    alone.hours.at(HOUR, lambda: early.update(sizes()))
    alone.run(DAY)
    assert len(alone.told.builds) == number > 1000
    assert len(alone.builder.builds()) == 1
    assert "_endings" in early
    assert sizes() == early


# -- its end


def test_after_the_end_no_pass_is_made(alone: Simulation) -> None:
    alone.watch.end()
    alone.watch.put(Trigger.ASKED)
    alone.watch.run()
    assert alone.engine.passes == []


def test_an_end_during_a_pass_breaks_it_off_and_is_no_failure(
    alone: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    def told_to_end() -> Result:
        alone.watch.end()
        alone.leash.hold(alone.hours.clock).now()
        raise AssertionError("it went on")

    alone.engine.usual = told_to_end
    alone.watch.run()
    assert len(alone.engine.passes) == 1
    assert alone.told.outcomes == []
    assert warnings(caplog) == []
    assert alone.watch.report.problem is None


def test_an_end_during_a_wave_ends_the_wait(alone: Simulation) -> None:
    alone.hours.at(100, lambda: alone.watch.put(Trigger.BUILD))
    alone.hours.at(100.5, alone.watch.end)
    alone.watch.run()
    assert alone.hours.now == pytest.approx(100.5)
    assert alone.engine.times == [0]


def test_an_interruption_that_nobody_asked_for_counts_as_the_deadline(alone: Simulation) -> None:
    alone.engine.answers.append(Interrupted("the pass has taken longer than its deadline"))
    assert len(alone.run(HOUR)) == 2


def test_an_idle_watch_shows_that_it_is_alive(alone: Simulation) -> None:
    longest = 0.0

    def look() -> None:
        nonlocal longest
        longest = max(longest, alone.leash.idle)

    alone.hours.every(1, look)
    alone.run(HOUR)
    assert longest <= 15


def test_every_error_of_the_family_is_survived(alone: Simulation) -> None:
    def family(kind: type[ReconcilerError]) -> list[type[ReconcilerError]]:
        return [kind, *(below for one in kind.__subclasses__() for below in family(one))]

    kinds = [kind for kind in family(ReconcilerError) if kind.__name__ != "InvalidInput"]
    alone.engine.answers.extend(kind("oh") for kind in kinds)
    assert len(alone.run(DAY)) == len(kinds) + 1
