"""Which builds nobody needs any more, and which must not be ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.core.engine import Engine
from reconciler.core.model import Arch
from reconciler.ports import Build, Cause, Phase
from reconciler.reconcile.history import History
from reconciler.reconcile.reconciler import Result
from tests.unit.definitions import mosc
from tests.unit.reconcile.bench import ENGINE, FILES, Bench


@pytest.fixture
def bench() -> Bench:
    """Both images are being built."""
    bench = Bench()
    assert len(bench.run().work) == 2
    return bench


def one(bench: Bench, arch: Arch) -> Build:
    """The build of an architecture."""
    (found,) = [build for build in bench.builder.known.values() if build.arch is arch]
    return found


def push(bench: Bench, build: Build) -> None:
    """A build's image arrives, and the builder does not say yet that it has ended."""
    repository, _, tag = bench.builder.requests[build.name].image.rpartition(":")
    bench.push_image(repository, tag, build.arch.value, dict(build.annotations))


def unwanted(result: Result) -> set[str]:
    return set(result.unwanted)


def test_builds_of_what_is_asked_for_are_wanted(bench: Bench) -> None:
    assert unwanted(bench.run()) == set()


def test_a_commit_that_changes_the_inputs_leaves_no_use_for_the_old_ones(bench: Bench) -> None:
    old = one(bench, Arch.ARM64)
    bench.commit({**FILES, "p/files/arm64/x": "y"})
    assert unwanted(bench.run()) == {old.name}


@pytest.mark.parametrize(("phase", "ended"), [(Phase.RUNNING, False), (Phase.PENDING, True)])
def test_where_the_image_is_there_a_build_that_runs_is_let_end_and_one_that_waits_is_not_begun(
    bench: Bench, phase: Phase, ended: bool
) -> None:
    build = one(bench, Arch.ARM64)
    bench.builder.known[build.name] = replace(build, phase=phase)
    push(bench, build)
    assert unwanted(bench.run()) == ({build.name} if ended else set())


def test_a_build_that_ends_while_a_plan_is_made_is_not_begun_again(bench: Bench) -> None:
    def end(_: object) -> None:
        for build in list(bench.builder.known.values()):
            push(bench, build)
        bench.builder.known.clear()  # and what is known of them is lost

    bench.reconciler(History(bench.repository, engine=ENGINE)).run_pass(end)
    assert bench.started == 2
    assert bench.run().sound
    assert bench.started == 2


def test_what_ended_well_is_forgotten_when_its_image_was_found(bench: Bench) -> None:
    build = one(bench, Arch.ARM64)
    push(bench, build)
    bench.builder.end(build.name)
    assert unwanted(bench.run()) == {build.name}


def test_a_failure_is_remembered_as_long_as_its_inputs_are_asked_for(bench: Bench) -> None:
    build = one(bench, Arch.ARM64)
    bench.builder.end(build.name, Cause.DEFINITION)
    assert unwanted(bench.run()) == set()
    bench.commit({**FILES, "p/files/arm64/x": "y"})
    assert unwanted(bench.run()) == {build.name}


def test_an_attempt_that_another_followed_is_forgotten(bench: Bench) -> None:
    build = one(bench, Arch.ARM64)
    bench.builder.end(build.name, Cause.INFRASTRUCTURE)
    bench.clock.time += 3600
    bench.run()
    assert unwanted(bench.run()) == {build.name}


def test_a_pool_that_is_gone_needs_none(bench: Bench) -> None:
    files = {path: text for path, text in FILES.items() if not path.startswith("p/")}
    bench.commit(files)
    assert unwanted(bench.run()) == set(bench.builder.known)


def test_while_a_file_cannot_be_read_no_pool_is_known_to_be_gone(bench: Bench) -> None:
    files = {path: text for path, text in FILES.items() if not path.startswith("p/")}
    bench.commit({**files, "q/broken.yaml": "a: [\n"})
    assert unwanted(bench.run()) == set()


def test_a_pool_that_is_blocked_or_suspended_keeps_its_builds(bench: Bench) -> None:
    bench.commit({**FILES, "p/Containerfile": "FROM\n"})
    assert unwanted(bench.run()) == set()
    suspended = mosc("worker", annotations='reconciler.machineos.dev/suspend: "true"')
    bench.commit({**FILES, "p/os.yaml": suspended})
    assert unwanted(bench.run()) == set()


def test_a_build_of_the_same_inputs_that_another_version_began_is_wanted(bench: Bench) -> None:
    newer = Engine("99")
    assert unwanted(bench.run(newer)) == set()
    assert bench.started == 2
