"""Builds run, time taken and rebuilds missed over one series of commits: the reconciler and what it replaces.

Belongs here: the ways of building, the rounds, and their results. Run `python -m bench.builds --help`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from bench import series
from bench.contents import children, fingerprint
from bench.measure import described, machine, spread
from reconciler.adapters.clock import SystemClock
from reconciler.adapters.registry import HttpRegistry
from reconciler.core.model import Arch
from tests.servers.registry import docker_registry
from tests.servers.stage import Stage

Cell = tuple[str, str]
"""Pool and architecture."""
_LIMIT = 1800.0
_STEP = re.compile(r"^(?:\[\d+/\d+\] )?STEP \d+/\d+: (?!FROM)", re.MULTILINE)
_CACHED = re.compile(r"^--> Using cache ", re.MULTILINE)


class Strategy(Protocol):
    """A way of keeping images up to date."""

    name: str
    repositories: str

    def follow(self) -> int:
        """Bring the images up to date with the commit that was just pushed; returns how many were built."""


@dataclass(slots=True)
class Buildah:
    """Plain `buildah build` and `buildah manifest push`, with a store of its own that is kept."""

    stage: Stage
    repositories: str
    architectures: Sequence[Arch]
    layers: bool

    def build(self, pool: str) -> int:
        """Build and publish all architectures of a pool; returns how many builds were not wholly cached."""
        built = 0
        self._tool("manifest", "create", "list")
        for arch in self.architectures:
            folder = self.stage.work / "pools" / pool
            own = folder / f"Containerfile.{arch}"
            file = own if own.exists() else folder / "Containerfile"
            output = self._tool(
                "build", "--isolation", "chroot", "--format", "oci", "--tls-verify=false", "--timestamp", "0",
                f"--layers={str(self.layers).lower()}", "--platform", arch.platform, "--manifest", "list",
                "--file", str(file), str(folder),
            )  # fmt: skip
            built += len(_CACHED.findall(output)) < len(_STEP.findall(output))
        target = f"docker://{self.stage.registry.host}/{self.repositories}/{pool}:latest"
        self._tool("manifest", "push", "--all", "--format", "oci", "--tls-verify=false", "list", target)
        self._tool("manifest", "rm", "list")
        return built

    def forget(self) -> None:
        """Delete the store, so that nothing of it can be used again."""
        shutil.rmtree(self._store, ignore_errors=True)

    @property
    def _store(self) -> Path:
        return self.stage.root / f"storage-{self.repositories}"

    def _tool(self, *words: str) -> str:
        store = [
            "--root",
            f"{self._store}/root",
            "--runroot",
            f"{self._store}/run",
            "--storage-driver",
            "vfs",
        ]
        return self.stage.run("buildah", *store, *words, timeout=_LIMIT)


class Ours:
    """`reconciler once`."""

    name = "reconciler"
    repositories = "os"

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._pushed = 0

    def follow(self) -> int:
        """Counts the images pushed under a name made from inputs, by the registry's own log."""
        said = self._stage.reconciler("once", "--config", str(self._stage.config), timeout=_LIMIT)
        if said.status:
            raise RuntimeError(f"reconciler once failed:\n{said.out}{said.err}")
        named = re.compile(rf"[a-z]+-(?:{'|'.join(Arch)})-[0-9a-f]{{16}}")
        pushed = sum(1 for tag in self._stage.pushed_images() if named.fullmatch(tag))
        built, self._pushed = pushed - self._pushed, pushed
        return built


class PathFilter:
    """CI that builds all architectures of each pool below whose folder `git diff --name-only` names a file."""

    name = "git diff path filter"
    repositories = "filtered"

    def __init__(self, stage: Stage, architectures: Sequence[Arch]) -> None:
        self._stage = stage
        self._buildah = Buildah(stage, self.repositories, architectures, layers=False)
        self._seen = ""

    def follow(self) -> int:
        """Looks at what came since it last looked."""
        head = self._stage.git("rev-parse", "HEAD")
        if self._seen:
            changed = self._stage.git("diff", "--name-only", self._seen, head).splitlines()
        else:
            changed = self._stage.git("ls-files").splitlines()
        self._seen = head
        pools = {path.split("/")[1] for path in changed if path.startswith("pools/")}
        return sum(self._buildah.build(pool) for pool in sorted(pools))


class LayerCache:
    """CI that builds everything on every commit and leaves it to buildah's layer cache to be quick."""

    name = "buildah layer cache"
    repositories = "layered"

    def __init__(self, stage: Stage, architectures: Sequence[Arch]) -> None:
        self._stage = stage
        self._buildah = Buildah(stage, self.repositories, architectures, layers=True)

    def follow(self) -> int:
        """Builds all pools there are."""
        return sum(self._buildah.build(pool) for pool in pools_of(self._stage))


def pools_of(stage: Stage) -> list[str]:
    """The pools of the author's clone."""
    return sorted(folder.name for folder in (stage.work / "pools").iterdir())


@dataclass(slots=True)
class Tally:
    """What one strategy did at one step: builds run and rebuilds missed in any round's view, seconds in each round."""

    builds: int = 0
    missed: int = 0
    stale: int = 0
    walls: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Row:
    """One step of the series: how many images it changes in truth, and what each strategy made of it."""

    title: str
    changed: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)


class Judge:
    """Knows what every image should be, from builds without any cache in an empty store."""

    def __init__(self, stage: Stage, architectures: Sequence[Arch]) -> None:
        self._stage = stage
        self._fresh = Buildah(stage, "truth", architectures, layers=False)
        self._before: dict[Cell, str] = {}
        self._known: dict[tuple[str, str], str] = {}

    def look(self, strategies: Sequence[Strategy], row: Row) -> None:
        """Compare what the strategies have published by now with the truth."""
        self._fresh.forget()
        for pool in pools_of(self._stage):
            self._fresh.build(pool)
        truth = self._published(self._fresh.repositories)
        changed = {cell for cell, content in truth.items() if self._before.get(cell) != content}
        self._before = truth
        row.changed = len(changed)
        for strategy in strategies:
            found = self._published(strategy.repositories)
            stale = {cell for cell, content in truth.items() if found.get(cell) != content}
            row.tallies[strategy.name].missed = len(stale & changed)
            row.tallies[strategy.name].stale = len(stale)

    def _published(self, repositories: str) -> dict[Cell, str]:
        """What each image contains that the tag `latest` of each pool leads to."""
        host = self._stage.registry.host
        found = {}
        with HttpRegistry(SystemClock(), insecure=frozenset({host})) as registry:
            for pool in pools_of(self._stage):
                repository = f"{host}/{repositories}/{pool}"
                for arch, digest in children(registry, repository, "latest").items():
                    if (repository, digest) not in self._known:
                        self._known[repository, digest] = fingerprint(registry, repository, digest)
                    found[pool, arch] = self._known[repository, digest]
        return found


def play(root: Path, rows: Sequence[Row], architectures: Sequence[Arch], number: int) -> None:
    """One round: all steps in a new world. The first round judges too; judging is not timed."""
    with docker_registry(root / "registry") as registry:
        stage = Stage(root, registry)
        stage.build_base(context=series.base(root / "base-1", 1))
        stage.create_repository(series.definitions(root / "definitions", architectures))
        with stage.config.open("a") as config:
            config.write("builder: {concurrency: 1}\n")  # the others build one image at a time too
        strategies: list[Strategy] = [
            Ours(stage), PathFilter(stage, architectures), LayerCache(stage, architectures)
        ]  # fmt: skip
        judge = Judge(stage, architectures)
        for index, row in enumerate(rows):
            _say(f"round {number + 1}, step {index + 1} of {len(rows)}: {row.title}")
            series.STEPS[index].change(stage)
            if index:
                stage.commit(row.title)
            turn = (number + index) % len(strategies)
            for strategy in strategies[turn:] + strategies[:turn]:
                tally = row.tallies.setdefault(strategy.name, Tally())
                began = monotonic()
                builds = strategy.follow()
                tally.walls.append(monotonic() - began)
                if number and builds != tally.builds:
                    raise RuntimeError(
                        f"{strategy.name}: {row.title}: {builds} builds, not {tally.builds} as before"
                    )
                tally.builds = builds
            if number == 0:
                judge.look(strategies, row)


def run(runs: int, steps: int, architectures: Sequence[Arch]) -> Iterator[dict[str, Any]]:
    """Measure everything, and give the result so far after every round; it is documented in README.md."""
    began = machine(["git", "buildah"])
    rows = [Row(step.title) for step in series.STEPS[:steps]]
    for number in range(runs):
        with tempfile.TemporaryDirectory(prefix="reconciler-bench-", ignore_cleanup_errors=True) as root:
            play(Path(root), rows, architectures, number)
        yield _result(began, number + 1, architectures, rows)


def _result(
    began: dict[str, Any], runs: int, architectures: Sequence[Arch], rows: Sequence[Row]
) -> dict[str, Any]:
    names = [Ours.name, PathFilter.name, LayerCache.name]
    return {
        "benchmark": "builds",
        "machine": began,
        "runs": runs,
        "architectures": [str(arch) for arch in architectures],
        "strategies": {name: _total([row.tallies[name] for row in rows]) for name in names},
        "steps": [
            {"title": row.title, "changed": row.changed, **{name: _one(row.tallies[name]) for name in names}}
            for row in rows
        ],
    }


def _one(tally: Tally) -> dict[str, Any]:
    return {
        "builds": tally.builds,
        "missed": tally.missed,
        "stale": tally.stale,
        "wall_s": spread(tally.walls),
    }


def _total(tallies: Sequence[Tally]) -> dict[str, Any]:
    """Sums over the series; the last step's stale images; seconds of whole rounds."""
    rounds = [sum(walls) for walls in zip(*(tally.walls for tally in tallies), strict=True)]
    return {
        "builds": sum(tally.builds for tally in tallies),
        "missed": sum(tally.missed for tally in tallies),
        "stale": tallies[-1].stale,
        "wall_s": spread(rounds),
    }


def table(result: dict[str, Any]) -> str:
    """The result as Markdown, for README.md: per cell builds, median seconds, and what was missed."""
    names = list(result["strategies"])
    lines = [
        described(result),
        "",
        f"| commit | images changed | {' | '.join(names)} |",
        f"|---|--:|{'--:|' * len(names)}",
    ]
    for step in result["steps"]:
        cells = " | ".join(_cell(step[name]) for name in names)
        lines.append(f"| {step['title']} | {step['changed']} | {cells} |")
    changed = sum(step["changed"] for step in result["steps"])
    cells = " | ".join(f"**{_cell(result['strategies'][name], span=True)}**" for name in names)
    lines.append(f"| **all** | **{changed}** | {cells} |")
    return "\n".join(lines)


def _cell(found: dict[str, Any], *, span: bool = False) -> str:
    wall = found["wall_s"]
    text = f"{found['builds']} in {wall['median']:.1f} s"
    text += f" ({wall['min']:.1f} to {wall['max']:.1f})" if span else ""
    return text + (f", {found['missed']} missed" if found["missed"] else "")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print the table, and write the JSON."""
    parser = argparse.ArgumentParser(prog="bench.builds", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument(
        "--steps", type=int, default=len(series.STEPS), metavar="N", help="only the first N commits"
    )
    parser.add_argument("--arch", type=Arch, nargs="+", default=list(Arch), metavar="ARCH")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    chosen = parser.parse_args()
    # So that an ended run takes its registry and its folders with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for result in run(chosen.runs, chosen.steps, chosen.arch):
        if chosen.json:
            chosen.json.parent.mkdir(parents=True, exist_ok=True)
            chosen.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result))


if __name__ == "__main__":
    main()
