"""Builds that nobody wants any more: ended, dropped or forgotten, whatever they were at."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from reconciler.adapters.builders.local import LocalBuilder
from reconciler.core.model import Arch, Base
from reconciler.ports import Phase
from tests.adapters.builders.conftest import Bench
from tests.adapters.builders.test_endings import guard_of
from tests.adapters.builders.world import Recipe, ended, pull, running, until

pytestmark = pytest.mark.tools

Shell = Callable[[Arch], Base]


def sleeper(base: Base, marker: str) -> Recipe:
    """A recipe that does not end, and leaves a daemon behind that ignores polite signals."""
    return Recipe(
        f"FROM {base.ref}\nRUN setsid sleep {marker} & trap '' TERM; sleep {marker}\n", bases=(base,)
    )


def phases(builder: LocalBuilder) -> dict[str, Phase]:
    return {build.name: build.phase for build in builder.builds()}


def only_logs(directory: Path) -> bool:
    return [path.name for path in directory.iterdir()] == ["logs"]


def test_a_running_build_ends_with_all_it_started(bench: Bench, shell: Shell) -> None:
    builder = bench.builder()
    builder.ensure(sleeper(shell(Arch.AMD64), "86381").request(bench.tree, "gone", bench.image("gone")))
    builder.ensure(sleeper(shell(Arch.AMD64), "86382").request(bench.tree, "kept", bench.image("kept")))
    until(lambda: len(running("86381")) == 2 and len(running("86382")) == 2, "both RUN steps")
    builder.discard(["gone", "unknown"])
    assert phases(builder) == {"kept": Phase.RUNNING}
    until(lambda: not running("86381"), "the end of all that the build started")
    until(lambda: len(list(bench.directory.glob("gone-*"))) == 0, "the removal of its workspace")
    assert not builder.wait(0), "whoever discards a build is not told of its end"
    assert phases(builder) == {"kept": Phase.RUNNING}
    assert len(running("86382")) == 2
    builder.discard(["gone", "kept"])
    until(lambda: only_logs(bench.directory), "the removal of the other")
    assert running("86382") == []
    assert builder.builds() == ()


def test_a_waiting_build_is_never_begun(bench: Bench, shell: Shell) -> None:
    builder = bench.builder(concurrency=1)
    builder.ensure(sleeper(shell(Arch.AMD64), "86383").request(bench.tree, "first", bench.image("first")))
    for name in ("second", "third"):
        builder.ensure(Recipe("FROM scratch\n").request(bench.tree, name, bench.image(f"waiting-{name}")))
    until(lambda: running("86383"), "the RUN step of the first")
    builder.discard(["second"])
    assert phases(builder) == {"first": Phase.RUNNING, "third": Phase.PENDING}
    builder.discard(["first"])
    (third,) = ended(builder, "third")
    assert third.phase is Phase.SUCCEEDED, third.message
    assert not (bench.directory / "logs/second.log").exists()
    found = httpx.get(f"http://{bench.registry}/v2/os/waiting-second/tags/list")
    assert found.status_code == 404


def test_an_ended_build_is_forgotten_and_may_be_asked_for_again(bench: Bench) -> None:
    builder = bench.builder()
    request = Recipe("FROM scratch\n").request(bench.tree, "again", bench.image("again"))
    builder.ensure(request)
    (first,) = ended(builder, "again")
    until(lambda: only_logs(bench.directory), "the removal of its workspace")
    builder.ensure(request)
    assert phases(builder) == {"again": Phase.SUCCEEDED}
    builder.discard({"again"})
    assert builder.builds() == ()
    builder.ensure(request)
    (second,) = ended(builder, "again")
    assert (second.phase, second.digest) == (Phase.SUCCEEDED, first.digest)
    assert second.started > first.finished


def test_an_end_that_nobody_was_told_of_yet_is_no_news_once_discarded(bench: Bench) -> None:
    builder = bench.builder()
    builder.ensure(Recipe("NONSENSE\n").request(bench.tree, "bad", bench.image("bad")))
    until(lambda: all(build.ended for build in builder.builds()), "its end")
    builder.discard(["bad"])
    assert not builder.wait(0)


def test_a_new_build_waits_until_its_discarded_namesake_is_gone(bench: Bench, shell: Shell) -> None:
    builder = bench.builder(concurrency=2)
    base = shell(Arch.AMD64)
    builder.ensure(sleeper(base, "86384").request(bench.tree, "same", bench.image("same")))
    until(lambda: len(running("86384")) == 2, "the RUN step of the old one")
    guard = guard_of("86384")
    os.kill(guard, signal.SIGSTOP)  # it cannot end its build now
    try:
        builder.discard(["same"])
        new = Recipe("FROM scratch\nCOPY new /\n", {"new": b"new"}).request(
            bench.tree, "same", bench.image("same")
        )
        builder.ensure(new)
        other = Recipe("FROM scratch\n").request(bench.tree, "other", bench.image("other"))
        builder.ensure(other)
        (done,) = ended(builder, "other")
        assert done.phase is Phase.SUCCEEDED, "the free place was used for what may run"
        for _ in range(20):
            seen = builder.builds()
            assert [(b.name, b.phase, b.step) for b in seen if b.name == "same"] == [
                ("same", Phase.PENDING, "")
            ]
            assert len(list(bench.directory.glob("same-*"))) == 1
            time.sleep(0.02)
    finally:
        os.kill(guard, signal.SIGCONT)
    (build,) = ended(builder, "same")
    assert build.phase is Phase.SUCCEEDED, build.message
    assert running("86384") == []
    image = pull(f"{bench.registry}/os/same", "new")
    assert (image.digest, image.content) == (build.digest, {"new": b"new"})
    assert "sleep" not in Path(build.log).read_text()


def test_a_discarded_successor_does_not_run_either(bench: Bench, shell: Shell) -> None:
    builder = bench.builder()
    base = shell(Arch.AMD64)
    builder.ensure(sleeper(base, "86385").request(bench.tree, "twice", bench.image("twice")))
    until(lambda: running("86385"), "the RUN step")
    guard = guard_of("86385")
    os.kill(guard, signal.SIGSTOP)
    builder.discard(["twice"])
    builder.ensure(sleeper(base, "86386").request(bench.tree, "twice", bench.image("twice")))
    builder.discard(["twice"])
    assert builder.builds() == ()
    os.kill(guard, signal.SIGCONT)
    builder.close()
    assert running("86385") + running("86386") == []
    assert only_logs(bench.directory)
    assert "86386" not in (bench.directory / "logs/twice.log").read_text()


def test_closing_waits_for_what_was_discarded(bench: Bench, shell: Shell) -> None:
    builder = bench.builder()
    builder.ensure(sleeper(shell(Arch.AMD64), "86387").request(bench.tree, "late", bench.image("late")))
    until(lambda: len(running("86387")) == 2, "the RUN step")
    builder.discard(["late"])
    builder.close()
    assert running("86387") == []
    assert only_logs(bench.directory)
    builder.discard(["late"])
    assert not builder.wait(0)
    with pytest.raises(RuntimeError, match="closed"):
        builder.ensure(Recipe("FROM scratch\n").request(bench.tree, "more", bench.image("more")))
