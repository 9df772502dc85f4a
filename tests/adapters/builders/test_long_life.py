"""A builder in a daemon that runs for months: nothing adds up, and a machine in trouble is no fault of a definition.

buildah is a stand-in here where only the builder's own handling counts.
"""

from __future__ import annotations

import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler import process
from reconciler.core.model import Arch, Base
from reconciler.ports import Build, Cause, Phase
from tests.adapters.builders.conftest import ENV, Bench
from tests.adapters.builders.test_endings import mount
from tests.adapters.builders.world import Recipe, ended, running, until
from tests.adapters.git.support import children, descriptors

pytestmark = pytest.mark.tools

Shell = Callable[[Arch], Base]
FAST = """\
#!/bin/sh
# Says that it built and pushed whatever it was asked to, at once, or when the Containerfile says so, never.
for word; do
    case $last in
    --iidfile) echo sha256:1 >"$word" ;;
    --digestfile) printf 'sha256:%064d' 7 >"$word" ;;
    --file) if grep -q '^# never' "$word"; then sleep 86371; fi ;;
    esac
    last=$word
done
"""


@pytest.fixture
def fast(tmp_path: Path) -> dict[str, str]:
    """An environment in which buildah is quick."""
    program = tmp_path / "bin/buildah"
    program.parent.mkdir()
    program.write_text(FAST)
    program.chmod(0o755)
    return {**ENV, "PATH": f"{program.parent}:{ENV['PATH']}"}


def test_two_hundred_builds_leave_nothing_behind(bench: Bench, fast: dict[str, str]) -> None:
    builder = bench.builder(env=fast, concurrency=3)
    handles, threads, processes = descriptors(), threading.active_count(), children()
    most = 0
    for turn in range(20):
        names = [f"build-{turn}-{number}" for number in range(10)]
        for number, name in enumerate(names):
            text = "FROM scratch\n" + ("# never\n" if number % 5 == 0 else "")
            builder.ensure(Recipe(text).request(bench.tree, name, bench.image("fast")))
            most = max(most, threading.active_count())
        builder.discard(names[::5])
        assert {found.phase for found in ended(builder, *names[1:5], *names[6:])} == {Phase.SUCCEEDED}
        builder.discard(names)
        assert builder.builds() == ()
    until(lambda: threading.active_count() == threads, "the end of idle threads")
    assert threads < most <= threads + 3
    assert (descriptors(), children(), running("86371")) == (handles, processes, [])
    assert [path.name for path in bench.directory.iterdir()] == ["logs"]
    assert len(list((bench.directory / "logs").iterdir())) == 100
    # What it remembers is what it says: nothing of all this.
    kept = [value for value in vars(builder).values() if isinstance(value, (dict, set)) and value]
    assert kept == []


def test_its_folders_may_be_deleted_at_any_time(bench: Bench, fast: dict[str, str]) -> None:
    builder = bench.builder(env=fast)
    for name in ("before", "after"):
        builder.ensure(Recipe("FROM scratch\n").request(bench.tree, name, bench.image(name)))
        (found,) = ended(builder, name)
        assert found.phase is Phase.SUCCEEDED, found.message
        until(lambda: len(list(bench.directory.iterdir())) == 1, "the removal of its workspace")
        shutil.rmtree(bench.directory)


def test_what_cannot_be_deleted_spoils_no_build_and_goes_before_the_next(
    bench: Bench, fast: dict[str, str], tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    for name in ("cat", "grep", "head", "mkdir", "mkfifo", "sed", "tail", "tee"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    (programs / "rm").write_text("no program")
    (programs / "rm").chmod(0o755)
    builder = bench.builder(env={**fast, "PATH": str(programs)})
    for name, left in (("first", 1), ("second", 0)):
        builder.ensure(Recipe("FROM scratch\n").request(bench.tree, name, bench.image(name)))
        (found,) = ended(builder, name)
        assert found.phase is Phase.SUCCEEDED, found.message
        assert len(list(bench.directory.iterdir())) == 1 + left
        (programs / "rm").unlink(missing_ok=True)
        (programs / "rm").symlink_to("/usr/bin/rm")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount("-t", "tmpfs", "-o", "size=64m", "none", str(place))
    yield place
    mount("-t", "tmpfs", "-o", "remount,rw", str(place))
    done = process.run(["umount", str(place)], env=ENV, timeout=30)
    assert done.status == 0, done.complaint


def test_a_disk_that_turns_read_only_is_the_infrastructures_fault(
    bench: Bench, fast: dict[str, str], disk: Path
) -> None:
    threads = threading.active_count()
    builder = bench.builder(env=fast, directory=disk / "builds")
    found: list[Build] = []
    for name, mode in (("before", "rw"), ("during", "ro"), ("after", "rw")):
        mount("-o", f"remount,{mode}", str(disk))
        builder.ensure(Recipe("FROM scratch\n").request(bench.tree, name, bench.image(name)))
        found += ended(builder, name)
        until(
            lambda: threading.active_count() == threads, "the end of its worker, which may write until then"
        )
    assert [(b.phase, b.cause) for b in found] == [
        (Phase.SUCCEEDED, None),
        (Phase.FAILED, Cause.INFRASTRUCTURE),
        (Phase.SUCCEEDED, None),
    ]
    assert "Read-only file system" in found[1].message


def test_a_folder_that_goes_while_building_is_the_infrastructures_fault(
    bench: Bench, shell: Shell, tmp_path: Path
) -> None:
    base = shell(Arch.AMD64)
    builder = bench.builder()
    recipe = Recipe(f"FROM {base.ref}\nRUN sleep 2\nRUN echo > /more\n", bases=(base,))
    builder.ensure(recipe.request(bench.tree, "lost", bench.image("lost")))
    until(lambda: "RUN" in builder.builds()[0].step, "the RUN step")
    away = tmp_path / "away"
    bench.directory.rename(away)
    (found,) = ended(builder, "lost")
    assert (found.phase, found.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE), found.message
    away.rename(bench.directory)
    bench.builder()
    assert [path.name for path in bench.directory.iterdir()] == ["logs"]


@contextmanager
def only_handles(free: int) -> Iterator[None]:
    """Let this process open but so many more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() - 1 + free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_handles_builds_fail_and_come_back(bench: Bench, fast: dict[str, str]) -> None:
    builder = bench.builder(env=fast)
    handles = descriptors()
    causes = set()
    for free in range(12):
        name = f"few-{free}"
        with only_handles(free):
            builder.ensure(Recipe("FROM scratch\n").request(bench.tree, name, bench.image(name)))
            (found,) = ended(builder, name)
        causes.add(found.cause)
        assert "the builder failed" not in found.message
    assert causes == {Cause.INFRASTRUCTURE, None}, "too few for a build at first, and enough in the end"
    builder.ensure(Recipe("FROM scratch\n").request(bench.tree, "many", bench.image("many")))
    (last,) = ended(builder, "many")
    assert last.phase is Phase.SUCCEEDED, last.message
    assert [path.name for path in bench.directory.iterdir()] == ["logs"]
    assert descriptors() == handles


def test_without_threads_builds_fail_and_come_back(bench: Bench, fast: dict[str, str]) -> None:
    builder = bench.builder(env=fast)
    before = threading.stack_size(2**47)  # more than there is room for
    try:
        builder.ensure(Recipe("FROM scratch\n").request(bench.tree, "none", bench.image("none")))
    finally:
        threading.stack_size(before)
    builder.ensure(Recipe("FROM scratch\n").request(bench.tree, "some", bench.image("some")))
    none, some = ended(builder, "none", "some")
    assert (none.phase, none.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE)
    assert none.message.startswith("no thread to build with: ")
    assert some.phase is Phase.SUCCEEDED, some.message


def test_the_log_of_a_running_build_is_never_pruned(bench: Bench, fast: dict[str, str]) -> None:
    builder = bench.builder(env=fast)
    builder.ensure(Recipe("FROM scratch\n# never\n").request(bench.tree, "long", bench.image("long")))
    until(lambda: running("86371"), "its step")
    logs = bench.directory / "logs"
    for number in range(110):
        log = logs / f"{number}.log"
        log.touch()
        os.utime(log, (2**31, 2**31))
    builder.ensure(Recipe("FROM scratch\n").request(bench.tree, "short", bench.image("short")))
    ended(builder, "short")
    assert (logs / "long.log").exists()
    assert len(list(logs.iterdir())) == 102, "the newest hundred, and those of the two that ran"


def test_builders_that_share_a_folder_take_each_others_names_in_turn(
    bench: Bench, fast: dict[str, str]
) -> None:
    builders = [bench.builder(env=fast, concurrency=4) for _ in range(3)]
    names = [f"shared-{number}" for number in range(12)]
    for name in names:
        for builder in builders:
            builder.ensure(Recipe("FROM scratch\n").request(bench.tree, name, bench.image(name)))
    for builder in builders:
        assert [found.message for found in ended(builder, *names)] == [""] * len(names)
        builder.close()
    assert [path.name for path in bench.directory.iterdir()] == ["logs"]
