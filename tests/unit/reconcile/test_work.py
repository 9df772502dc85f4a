from __future__ import annotations

import pytest

from reconciler.core.inputs import Inputs
from reconciler.core.model import Arch, Base
from reconciler.core.plan import Target
from reconciler.ports import Cause
from reconciler.reconcile.history import History
from reconciler.reconcile.work import BRIEF, ENDLESS, Builds, Patience, Standing, Work
from tests.fakes import FakeBuilder, FakeObjects
from tests.unit.definitions import config, mosc

BASE = Base("quay.io/os/base:1", "sha256:" + "b" * 64)
FILES = {
    "reconciler.yaml": config(),
    "p/os.yaml": mosc("worker"),
    "p/Containerfile": "FROM quay.io/os/base:1\nCOPY x /\n",
    "p/x": "x",
    "p/y": "nobody copies it",
}


class Bench:
    """One target and a builder that the test drives."""

    def __init__(self, patience: Patience = BRIEF) -> None:
        objects = FakeObjects()
        self.commit = objects.add(FILES)
        history = History(objects)
        (self.pool,) = history.catalogue(self.commit).pools
        self.target = Target("worker", Arch.ARM64, history.inputs(self.pool, Arch.ARM64, ""), (BASE,))
        self.builder = FakeBuilder()
        self.builds = Builds(self.builder, history, self.builder.clock, patience)

    def ensure(self, *, insist: bool = False) -> Work:
        """Ask once."""
        return self.ensured(self.target, insist=insist)

    def ensured(self, target: Target, *, insist: bool = False) -> Work:
        """The same for another target of the pool."""
        work = self.builds.stand(self.pool.name, target, self.builds.known(), insist=insist)
        self.builds.begin(self.pool, target, self.commit, work)
        return work

    def end(self, cause: Cause | None) -> None:
        """End the latest attempt."""
        self.builder.end(list(self.builder.requests)[-1], cause)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_asking_again_starts_nothing_more(bench: Bench) -> None:
    assert bench.ensure().standing is Standing.BUILDING
    assert bench.ensure().standing is Standing.BUILDING
    assert len(bench.builder.requests) == 1


def test_a_request_holds_the_files_that_the_digest_covers_and_no_other(bench: Bench) -> None:
    bench.ensure()
    (request,) = bench.builder.requests.values()
    assert [entry.path for entry in request.context] == ["x"]
    assert request.bases == (BASE,)
    assert request.name.startswith("build-worker-arm64-")
    assert request.name.endswith("-1")
    assert request.image.startswith("registry.example.com/os/worker:worker-arm64-")
    assert request.annotations["reconciler.machineos.dev/source-commit"] == bench.commit
    assert request.annotations["reconciler.machineos.dev/input"] == bench.target.input


def test_a_failure_of_the_definition_is_final(bench: Bench) -> None:
    bench.ensure()
    bench.end(Cause.DEFINITION)
    bench.builder.clock.sleep(1e6)
    assert bench.ensure().standing is Standing.FAILED
    assert len(bench.builder.requests) == 1


def test_other_inputs_are_another_build(bench: Bench) -> None:
    bench.ensure()
    bench.end(Cause.DEFINITION)
    assert bench.target.inputs
    other = Target("worker", Arch.ARM64, Inputs.of(bench.target.inputs.analysis, "n=1"), (BASE,))
    assert bench.ensured(other).standing is Standing.BUILDING


def test_a_failure_of_the_infrastructure_backs_off_and_is_given_up_in_the_end(bench: Bench) -> None:
    waits = []
    assert BRIEF.attempts
    for attempt in range(1, BRIEF.attempts + 1):
        assert bench.ensure().standing is Standing.BUILDING
        bench.end(Cause.INFRASTRUCTURE)
        assert list(bench.builder.requests)[-1].endswith(f"-{attempt}")
        waited = 0
        while bench.ensure().standing is Standing.WAITING:
            bench.builder.clock.sleep(1)
            waited += 1
        waits.append(waited)
    assert waits[0] < waits[1]
    bench.builder.clock.sleep(1e6)
    assert bench.ensure().standing is Standing.FAILED
    assert len(bench.builder.requests) == BRIEF.attempts


def test_what_is_missing_blocks_and_is_looked_for_until_it_is_there(bench: Bench) -> None:
    assert BRIEF.attempts
    for attempt in range(1, BRIEF.attempts + 4):
        assert bench.ensure().standing is Standing.BUILDING
        bench.end(Cause.MISSING)
        assert list(bench.builder.requests)[-1].endswith(f"-{attempt}")
        blocked = bench.ensure()
        assert (blocked.standing, blocked.attempt) == (Standing.BLOCKED, 0)
        assert bench.builder.clock.now() < blocked.until <= bench.builder.clock.now() + 300
        bench.builder.clock.time = blocked.until
    bench.ensure()
    bench.end(None)
    bench.builder.clock.sleep(300)
    assert bench.ensure(insist=True).standing is Standing.BUILDING


def test_a_build_that_ended_well_and_left_no_image_is_made_again(bench: Bench) -> None:
    bench.ensure()
    bench.end(None)
    bench.builder.clock.sleep(60)
    assert bench.ensure().standing is Standing.BUILDING
    assert len(bench.builder.requests) == 2


def test_a_person_who_asks_gets_another_attempt(bench: Bench) -> None:
    bench.ensure()
    bench.end(Cause.DEFINITION)
    assert bench.ensure(insist=True).standing is Standing.BUILDING
    assert bench.ensure(insist=True).standing is Standing.BUILDING
    assert [name[-2:] for name in bench.builder.requests] == ["-1", "-2"]


def test_a_daemon_never_gives_up_on_the_infrastructure_and_waits_no_longer_than_it_should() -> None:
    bench = Bench(ENDLESS)
    for _ in range(12):
        assert bench.ensure().standing is Standing.BUILDING
        bench.end(Cause.INFRASTRUCTURE)
        assert bench.ensure().standing is Standing.WAITING
        bench.builder.clock.sleep(ENDLESS.longest)
    assert bench.ensure().standing is Standing.BUILDING


def test_it_says_when_the_next_attempt_is_due(bench: Bench) -> None:
    bench.ensure()
    bench.end(Cause.INFRASTRUCTURE)
    until = bench.ensure().until
    bench.builder.clock.time = until - 0.01
    assert bench.ensure().standing is Standing.WAITING
    bench.builder.clock.time = until
    assert bench.ensure().standing is Standing.BUILDING


def test_a_clock_that_is_set_back_does_not_prolong_the_wait(bench: Bench) -> None:
    bench.ensure()
    bench.end(Cause.INFRASTRUCTURE)
    bench.builder.clock.sleep(-7200)
    assert bench.ensure().standing is Standing.BUILDING
