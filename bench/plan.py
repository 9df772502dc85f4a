"""What `reconciler plan` costs: start-up, cold, warm, and after a one-file commit, by the number of pools.

Belongs here: the rounds of measurements and their results. Run `python -m bench.plan --help`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import repository
from bench.measure import LIMIT, ROOT, Spent, described, machine, own_peak_mib, ratios, spend, summary
from reconciler import process

CLUSTER_CLIENTS = frozenset({"kubernetes", "kubernetes_asyncio", "lightkube", "openshift", "kr8s", "pykube"})
"""None of these may be imported by `plan`."""
LIMIT_RATIO = 1.5
PHASES = ("cold", "warm", "one_file", "git_diff")
_RECONCILER = [sys.executable, "-m", "reconciler"]
_PLAN = ["plan", "--base", "HEAD~1", "--output", "json"]
_HELP = ["plan", "--help"]


@dataclass
class Subject:
    """One repository with what was measured on it, by phase."""

    pools: int
    recorded: bool
    folder: Path
    cache: Path
    turn: int = 2
    runs: dict[str, list[Spent]] = field(default_factory=lambda: {phase: [] for phase in PHASES})

    @property
    def label(self) -> str:
        """How results name it."""
        return f"{self.pools} recorded" if self.recorded else str(self.pools)

    def measure(self) -> None:
        """One round: without a cache, again with it, and after one more commit."""
        shutil.rmtree(self.cache, ignore_errors=True)
        self.runs["cold"].append(self._plan())
        self.runs["warm"].append(self._plan())
        self.turn += 1
        repository.commit(self.folder, repository.edit(self.pools, self.turn), self.turn)
        self.runs["one_file"].append(self._plan())
        argv = ["git", "diff", "--name-only", "HEAD~1", "HEAD"]
        self.runs["git_diff"].append(spend(argv, repository.GIT_ENV, self.folder))

    def _plan(self) -> Spent:
        return spend([*_RECONCILER, *_PLAN], environment(self.cache), self.folder)


def environment(cache: Path) -> dict[str, str]:
    """What measured processes see: this code, and a cache of their own."""
    return {**repository.GIT_ENV, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)}


def prepare(root: Path, pools: Sequence[int]) -> list[Subject]:
    """A repository per number of pools, and the smallest and the largest once more with a status file for each pool.

    Made by processes of their own: see `own_peak_mib`.
    """
    subjects = []
    for count, recorded in [
        *((n, False) for n in pools),
        *((n, True) for n in sorted({min(pools), max(pools)})),
    ]:
        folder = root / f"{count}{'-recorded' if recorded else ''}.git"
        words = [str(folder), "--pools", str(count), *(["--recorded"] if recorded else [])]
        argv = [sys.executable, "-m", "bench.repository", *words]
        spend(argv, environment(root / "unused"), root)
        subjects.append(Subject(count, recorded, folder, root / f"{folder.name}-cache"))
    return subjects


def imported(arguments: Sequence[str], cache: Path, cwd: Path) -> dict[str, Any]:
    """Which modules a command has loaded when it ends: they are read from the interpreter that ran it."""
    watch = (
        "import atexit, runpy, sys; "
        "atexit.register(lambda: print(*sorted(sys.modules), sep='\\n', file=sys.stderr)); "
        "runpy.run_module('reconciler', run_name='__main__', alter_sys=True)"
    )
    argv = [sys.executable, "-c", watch, *arguments]
    done = process.run(argv, env=environment(cache), timeout=LIMIT, cwd=cwd)
    if done.status:
        raise RuntimeError(f"{' '.join(argv)} failed:\n{done.complaint}")
    names = set(done.stderr.decode().split())
    tops = {name.partition(".")[0] for name in names}
    ours = {"reconciler", "sitecustomize", "usercustomize"}
    return {
        "modules": len(names),
        "packages": sorted(top for top in tops - sys.stdlib_module_names - ours if not top.startswith("_")),
        "cluster_clients": sorted(tops & CLUSTER_CLIENTS),
    }


def run(pools: Sequence[int], runs: int) -> dict[str, Any]:
    """Measure everything; the result is documented in README.md."""
    began = machine(["git"])
    with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as name:
        root = Path(name)
        subjects = prepare(root, pools)
        smallest = subjects[0]
        commands = {
            "python": [sys.executable, "-c", "pass"],
            "help": [*_RECONCILER, *_HELP],
        }
        for argv in (*commands.values(), [*_RECONCILER, *_PLAN]):  # compile modules, fill the page cache
            spend(argv, environment(smallest.cache), smallest.folder)
        starts: dict[str, list[Spent]] = {label: [] for label in commands}
        for number in range(runs):
            _say(f"round {number + 1} of {runs}")
            for label, argv in commands.items():
                starts[label].append(spend(argv, environment(smallest.cache), smallest.folder))
            # Another one first in every round, so that none always follows the largest.
            for subject in _rotated(subjects, number):
                subject.measure()
        imports = {
            "help": imported(_HELP, smallest.cache, smallest.folder),
            "plan": imported(_PLAN, smallest.cache, smallest.folder),
        }
    return {
        "benchmark": "plan",
        "machine": began,
        "runs": runs,
        "architectures": len(repository.ARCHITECTURES),
        "memory_floor_mib": round(own_peak_mib(), 1),
        "startup": {label: summary(spent) for label, spent in starts.items()},
        "plan": [_result(subject) for subject in subjects],
        "one_file_ratio": {
            name: _ratio([s for s in subjects if s.recorded is recorded])
            for name, recorded in (("plain", False), ("recorded", True))
        },
        "imports": imports,
    }


def _result(subject: Subject) -> dict[str, Any]:
    phases = {phase: summary(runs) for phase, runs in subject.runs.items()}
    return {"pools": subject.pools, "recorded": subject.recorded, **phases}


def _ratio(subjects: Sequence[Subject]) -> dict[str, Any]:
    """The largest repository against the smallest of its kind."""
    few, many = min(subjects, key=lambda s: s.pools), max(subjects, key=lambda s: s.pools)
    found = {
        name: ratios(many.runs["one_file"], few.runs["one_file"], quantity)
        for name, quantity in (("wall", lambda spent: spent.wall), ("cpu", lambda spent: spent.cpu))
    }
    within = all(one["median"] <= LIMIT_RATIO for one in found.values())
    return {"pools": [many.pools, few.pools], **found, "limit": LIMIT_RATIO, "within_limit": within}


def _rotated(subjects: list[Subject], by: int) -> list[Subject]:
    turn = by % len(subjects)
    return subjects[turn:] + subjects[:turn]


def table(result: dict[str, Any]) -> str:
    """The result as Markdown, for README.md: medians, with minimum and maximum in brackets."""
    lines = [
        described(result),
        "",
        "| what | pools | wall s | processor s | peak MiB |",
        "|---|--:|--:|--:|--:|",
    ]
    for label, found in result["startup"].items():
        lines.append(_row({"python": "python -c pass", "help": "plan --help"}[label], "", found))
    for phase in PHASES:
        for one in result["plan"]:
            pools = f"{one['pools']}{' recorded' if one['recorded'] else ''}"
            lines.append(_row(phase.replace("_", " "), pools, one[phase]))
    lines.append("")
    for name, ratio in result["one_file_ratio"].items():
        many, few = ratio["pools"]
        lines += [
            f"- one file, {name}, {many} pools to {few}: {quantity} {ratio[quantity]['median']} times "
            f"({ratio[quantity]['min']} to {ratio[quantity]['max']} in single rounds; limit {ratio['limit']})"
            for quantity in ("wall", "cpu")
        ]
    for label, found in result["imports"].items():
        clients = ", ".join(found["cluster_clients"]) or "no cluster client"
        lines.append(
            f"- `{label}` imports {found['modules']} modules, {clients}; {', '.join(found['packages'])}"
        )
    return "\n".join(lines)


def _row(what: str, pools: str, found: dict[str, dict[str, float]]) -> str:
    cells = []
    for quantity, digits in (("wall_s", 2), ("cpu_s", 2), ("peak_mib", 0)):
        one = {name: f"{value:.{digits}f}" for name, value in found[quantity].items()}
        cells.append(f"{one['median']} ({one['min']} to {one['max']})")
    return f"| {what} | {pools} | {' | '.join(cells)} |"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print the table, and write the JSON."""
    parser = argparse.ArgumentParser(prog="bench.plan", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pools", type=int, nargs="+", default=[1, 100, 1000], metavar="N")
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    chosen = parser.parse_args()
    result = run(sorted(set(chosen.pools)), chosen.runs)
    print(table(result))
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
