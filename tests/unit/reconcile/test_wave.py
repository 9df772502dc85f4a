"""Many builds that end together: one commit, one push."""

from __future__ import annotations

from tests.fakes import Files
from tests.unit.definitions import config, mosc
from tests.unit.reconcile.bench import BASE, Bench

POOLS = 50


def _files() -> dict[str, bytes | str]:
    files: dict[str, bytes | str] = {"reconciler.yaml": config()}
    for number in range(POOLS):
        folder = f"pools/{number:02}"
        files[f"{folder}/os.yaml"] = mosc(f"pool-{number:02}")
        files[f"{folder}/Containerfile"] = f"FROM {BASE}:1\nCOPY x /\n"
        files[f"{folder}/x"] = f"{number}"
    return files


def test_a_hundred_builds_that_end_together_make_one_commit_and_one_push() -> None:
    bench = Bench()
    files: Files = _files()
    bench.commit(files)
    first = bench.run()
    assert bench.started == 2 * POOLS
    assert not first.written.commit
    commits = len(bench.repository.commits)
    bench.end_builds()
    second = bench.run()
    assert second.settled
    assert len(second.written.records) == POOLS
    assert len(bench.repository.commits) == commits + 1
    assert bench.repository.pushes == 1
    third = bench.run()
    assert (third.written.commit, third.written.tagged, bench.repository.pushes) == ("", (), 1)
    assert bench.started == 2 * POOLS
