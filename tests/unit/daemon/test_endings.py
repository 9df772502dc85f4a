from __future__ import annotations

import logging

import pytest

from reconciler.core.model import Arch
from reconciler.daemon.endings import Endings
from reconciler.ports import Cause, Phase
from tests.unit.daemon.scene import Told, build

GOOD = build("good", Phase.SUCCEEDED, started=100.0, finished=160.04)
BAD = build(
    "bad",
    Phase.FAILED,
    Arch.ARM64,
    cause=Cause.DEFINITION,
    message="no such file",
    log="/logs/bad",
    started=50.0,
    finished=40.0,
)


def test_each_end_is_told_once_with_how_long_it_took() -> None:
    told = Told()
    endings = Endings("repo", told)
    endings.tell([build("running"), GOOD])
    endings.tell([build("running"), GOOD, BAD])
    endings.tell([build("running"), GOOD, BAD])
    assert told.builds == [
        ("worker", "amd64", pytest.approx(60.04), "succeeded"),
        ("worker", "arm64", 0.0, "definition"),  # the clock was set back meanwhile
    ]


def test_a_build_that_never_began_took_no_time() -> None:
    told = Told()
    Endings("repo", told).tell([build("b", Phase.FAILED, cause=Cause.INFRASTRUCTURE, finished=1e9)])
    assert told.builds == [("worker", "amd64", 0.0, "infrastructure")]


def test_the_log_says_where_to_look(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    Endings("repo", Told()).tell([GOOD, BAD])
    good, bad = caplog.records
    assert (good.levelno, good.getMessage(), good.__dict__["seconds"]) == (logging.INFO, "built", 60.0)
    assert (bad.levelno, bad.getMessage()) == (logging.WARNING, "build failed: no such file")
    assert (bad.__dict__["file"], bad.__dict__["cause"]) == ("/logs/bad", "definition")
    assert all(
        record.__dict__["repository"] == "repo" and record.__dict__["pool"] == "worker"
        for record in caplog.records
    )


def test_the_memory_of_counted_builds_is_bounded_by_what_the_builder_knows() -> None:
    told = Told()
    endings = Endings("repo", told)
    for number in range(1000):
        endings.tell([build(f"build-{number + back}", Phase.SUCCEEDED) for back in range(3)])
        assert len(endings) == 3
    assert len(told.builds) == 1002
    endings.tell([])
    assert len(endings) == 0


def test_a_build_that_comes_again_under_its_old_name_ends_again() -> None:
    told = Told()
    endings = Endings("repo", told)
    endings.tell([GOOD])
    endings.forget(["good"])
    endings.tell([GOOD])
    assert len(told.builds) == 2
