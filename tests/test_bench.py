"""The benchmarks run, what they count is right, and their results have the keys that their README documents.

Nothing here looks at a time: how long something takes is for a reader of the results to judge.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from bench import repository
from reconciler import process
from tests.controlplane import Unavailable, programs

ROOT = Path(__file__).parents[1]


def bench(module: str, folder: Path, *words: str) -> dict[str, Any]:
    """Run a benchmark as a user does, and give its JSON."""
    target = folder / "results" / "result.json"
    argv = [sys.executable, "-m", f"bench.{module}", *words, "--runs", "1", "--json", str(target)]
    done = process.run(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=240, cwd=ROOT)
    assert done.status == 0, done.complaint
    assert b"|--:|" in done.stdout
    result: dict[str, Any] = json.loads(target.read_text())
    assert result["benchmark"] == module
    return result


def keys(value: object, path: str = "") -> Iterator[str]:
    """The paths of a result's values; a median with its minimum and maximum is one value."""
    if isinstance(value, dict) and set(value) != {"median", "min", "max"}:
        for name, inner in value.items():
            yield from keys(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from keys(inner, f"{path}[]")
    else:
        yield path


def documented(module: str) -> set[str]:
    """The keys in README's table for a benchmark, with `*` for any name."""
    text = (ROOT / "bench/README.md").read_text()
    table = text.partition(f"### `{module}.json`")[2].partition("\n#")[0]
    return {
        name
        for row in table.splitlines()
        if row.startswith("|")
        for name in re.findall("`(.+?)`", row.split("|")[1])
    }


def check_documented(result: dict[str, Any]) -> None:
    known = {name.replace("[]", "{}") for name in documented(result["benchmark"])}
    found = {name.replace("[]", "{}") for name in keys(result)}  # fnmatch has its own use for brackets
    used = {name: {pattern for pattern in known if _covers(pattern, name)} for name in found}
    assert not [name for name, patterns in used.items() if not patterns]
    assert known == set().union(*used.values())


def _covers(pattern: str, name: str) -> bool:
    """`*` stands for one name, whatever is in it."""
    parts, names = pattern.split("."), name.split(".")
    return len(parts) == len(names) and all(map(fnmatchcase, names, parts))


def test_a_repository_is_the_same_every_time(tmp_path: Path) -> None:
    tips = set()
    for name in ("a", "b"):
        repository.create(tmp_path / name, 2)
        repository.record(tmp_path / name)
        tips.add(repository.process_git(tmp_path / name, "rev-parse", "main"))
        listed = repository.process_git(
            tmp_path / name, "ls-tree", "-r", "--name-only", "main~1"
        ).splitlines()
        assert len(listed) == 2 * repository.FILES_PER_POOL + 2 + 2
    assert len(tips) == 1


def test_planning_is_measured(tmp_path: Path) -> None:
    result = bench("plan", tmp_path, "--pools", "1", "10")
    check_documented(result)
    assert [(one["pools"], one["recorded"]) for one in result["plan"]] == [
        (1, False),
        (10, False),
        (1, True),
        (10, True),
    ]
    assert [ratio["pools"] for ratio in result["one_file_ratio"].values()] == [[10, 1], [10, 1]]
    assert [found["cluster_clients"] for found in result["imports"].values()] == [[], []]
    assert "click" in result["imports"]["help"]["packages"]


@pytest.mark.tools
def test_a_daemon_is_soaked(tmp_path: Path) -> None:
    result = bench("soak", tmp_path, "--passes", "8", "--pools", "3")
    check_documented(result)
    assert sum(result["passes"].values()) >= 8
    assert result["built"] >= 3
    assert result["built_twice"] == 0
    assert all(result["held"].values())


def test_previews_are_waited_for(tmp_path: Path) -> None:
    result = bench("preview", tmp_path, "--pools", "1", "2")
    check_documented(result)
    assert [one["pools"] for one in result["preview"]] == [1, 2]
    for one in result["preview"]:
        assert 0 < one["comment_s"]["median"] <= one["statuses_s"]["median"]


@pytest.mark.cluster
@pytest.mark.tools
def test_a_commit_is_followed_through_a_cluster(tmp_path: Path) -> None:
    try:
        programs.find()
    except Unavailable as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    result = bench("cluster", tmp_path, "--pools", "2", "--nodes", "8", "--delay", "0.5")
    check_documented(result)
    (commit,) = result["commits"]
    ours, script = commit["reconciler"], commit["script"]
    # A ConfigMap and a Job for each image, and a MultiArchBuild for each pool.
    assert ours["kubernetes"]["create"] >= 2 * 8 + 2
    assert ours["git"]["push"] >= 1
    assert script["requests"] >= 2 * 8 + 2
    assert result["observing"]["architectures"]
    assert result["observing"]["peak_mib"] > 0


@pytest.mark.tools
def test_builds_are_counted_and_judged(tmp_path: Path) -> None:
    result = bench("builds", tmp_path, "--steps", "2", "--arch", "amd64")
    check_documented(result)
    first, comment = result["steps"]
    assert (first["changed"], comment["changed"]) == (2, 0)
    counted = {name: [step[name]["builds"] for step in result["steps"]] for name in result["strategies"]}
    assert counted == {"reconciler": [2, 0], "git diff path filter": [2, 1], "buildah layer cache": [2, 0]}
    assert {
        name: (one["missed"], one["stale"]) for name, one in result["strategies"].items()
    } == dict.fromkeys(counted, (0, 0))
