"""A history that lives for long remembers what is in use, and answers the same whatever it forgot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.model import Arch
from reconciler.errors import GitError
from reconciler.reconcile.history import History
from reconciler.reconcile.recent import Recent
from tests.fakes import FakeObjects, blobs
from tests.unit.definitions import config, mosc
from tests.unit.reconcile.bench import FILES, Bench

COMMITS = 200
POOLS = 5


class Line(FakeObjects):
    """Commits that are there from the start; remembers which blobs were read."""

    def __init__(self, commits: int) -> None:
        super().__init__([files(turn) for turn in range(commits)])
        self._contents = {oid: text for one in self.commits for oid, text in blobs(one).items()}
        self.blobs_read: list[str] = []

    def blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """As the fake, remembered."""
        for oid in oids:
            self.blobs_read.append(oid)
            yield oid, self._contents[oid]


def files(turn: int) -> dict[str, bytes | str]:
    """A commit that changes one file of one pool, and its definition, each to what it never was."""
    made: dict[str, bytes | str] = {"reconciler.yaml": config()}
    for number in range(POOLS):
        last = max((t for t in range(turn + 1) if t % POOLS == number), default=0)
        token = f"reconciler.machineos.dev/refresh: t{last}"
        made |= {
            f"p{number}/os.yaml": mosc(f"pool{number}", annotations=token),
            f"p{number}/Containerfile": "FROM quay.io/os/base:1\nCOPY x /x\n",
            f"p{number}/x": f"{last}",
        }
    return made


def answers(history: History, commit: str) -> list[Any]:
    """Everything that a pass asks of a commit."""
    catalogue = history.catalogue(commit)
    found: list[Any] = [catalogue, history.records(commit, "status")]
    for pool in catalogue.pools:
        for arch in Arch:
            inputs = history.inputs(pool, arch, "")
            found.append((inputs, history.recipe(pool, arch).canonical, history.blobs(pool)))
            found.append(history.version(pool, inputs))
    return found


def test_memory_stays_flat_over_many_commits_and_answers_stay_the_same() -> None:
    objects = Line(COMMITS)
    history = History(objects)
    sizes = []
    for turn in range(COMMITS):
        commit = f"{turn + 1:040x}"
        assert answers(history, commit) == answers(History(objects), commit)
        history.settle()
        sizes.append(history.remembered)
    assert len(set(sizes[2 * POOLS :])) == 1, sizes
    history.settle()
    assert history.remembered == 0


def test_texts_are_not_remembered_at_all() -> None:
    history = History(Line(1))
    answers(history, f"{1:040x}")
    before = history.remembered
    history.settle()
    texts = POOLS + POOLS * len(Arch)  # a pool's blobs, and a recipe for each architecture
    assert history.remembered == before - texts


def test_what_every_pass_uses_is_not_read_again() -> None:
    objects = Line(2)
    history = History(objects)
    for _ in range(4):
        answers(history, f"{1:040x}")
        history.settle()
    objects.blobs_read.clear()
    history.catalogue(f"{2:040x}")
    assert len(objects.blobs_read) == 2, "reconciler.yaml and the one definition that changed"


@given(st.lists(st.tuples(st.sampled_from(["set", "get", "settle"]), st.integers(0, 4)), max_size=40))
def test_recent_forgets_what_was_not_used_between_two_settles(steps: list[tuple[str, int]]) -> None:
    recent: Recent[int, int] = Recent()
    values: dict[int, int] = {}
    last_used: dict[int, int] = {}
    settled = 0
    for number, (step, key) in enumerate(steps):
        match step:
            case "set":
                recent[key] = values[key] = number
                last_used[key] = settled
            case "get":
                assert recent.get(key) == values.get(key)
                if key in values:
                    last_used[key] = settled
            case "settle":
                recent.settle()
                values = {k: v for k, v in values.items() if last_used[k] == settled}
                settled += 1
        assert sorted(recent.values()) == sorted(values.values())
        assert len(recent) == len(values)
        assert recent.missing(range(5)) == [k for k in range(5) if k not in values]


def test_every_pass_and_every_look_settles_even_when_it_fails() -> None:
    bench = Bench()
    history = History(bench.repository)
    daemon = bench.reconciler(history)
    daemon.run_pass()
    in_use = history.remembered
    assert in_use
    bench.end_builds()
    for _ in range(3):
        daemon.run_pass()
        daemon.look()
    bench.repository.commits.clear()
    for act in (daemon.run_pass, daemon.look):
        with pytest.raises(GitError):
            act()
    assert history.remembered == 0


def test_one_daemon_does_as_many_that_start_anew() -> None:
    """Over commits, refreshes and reverts: what a long-lived history forgot does not change what is done."""
    long, short = Bench(), Bench()
    history = History(long.repository)
    daemon = long.reconciler(history)
    sizes = []
    for turn in range(40):
        text = {"p/files/arm64/x": f"{turn % 7}"}
        if turn % 5 == 0:
            text["p/os.yaml"] = mosc("worker", annotations=f"reconciler.machineos.dev/refresh: t{turn}")
        for bench in (long, short):
            bench.commit({**FILES, **text})
        while (result := daemon.run_pass()).in_flight:
            long.end_builds()
        assert result.plan == short.settle().plan
        sizes.append(history.remembered)
    assert long.repository.commits == short.repository.commits
    assert max(sizes[20:]) <= max(sizes[:20])
