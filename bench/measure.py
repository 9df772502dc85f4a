"""Whole processes, measured by the kernel; the machine they ran on; and the summary of several runs.

Belongs here: what every benchmark shares. Does not belong here: what is measured, and how it is shown.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from reconciler import process

LIMIT = 1800.0
"""Seconds that any one process may take."""
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Spent:
    """What one process and its children took: seconds of wall clock, seconds of processor time (user and system),
    and the largest resident set of any one of them in MiB."""

    wall: float
    cpu: float
    peak_mib: float


def spend(argv: Sequence[str], env: Mapping[str, str], cwd: Path, statuses: Sequence[int] = (0,)) -> Spent:
    """Run a program to its end and say what it took; what it prints goes to /dev/null.

    Raises RuntimeError when it ends with another status than `statuses`.
    """
    with open(os.devnull, "wb") as sink:
        began = monotonic()
        child = process.start(argv, env=env, cwd=cwd, stdout=sink.fileno(), stderr=sink.fileno())
        with process.deadline(child, LIMIT):
            _, ended, usage = os.wait4(child.pid, 0)
        wall = monotonic() - began
    child.returncode = os.waitstatus_to_exitcode(ended)
    if child.returncode not in statuses:
        raise RuntimeError(f"{' '.join(argv)} ended with status {child.returncode}")
    return Spent(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def own_peak_mib() -> float:
    """The largest resident set of this process so far.

    Linux lets a child begin with its parent's peak until it has one of its own (exec keeps it), so a child's figure
    means something only above this one.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def summary(runs: Sequence[Spent]) -> dict[str, dict[str, float]]:
    """Median, minimum and maximum of each quantity."""
    return {
        "wall_s": spread([run.wall for run in runs]),
        "cpu_s": spread([run.cpu for run in runs]),
        "peak_mib": spread([run.peak_mib for run in runs], digits=1),
    }


def spread(values: Sequence[float], digits: int = 3) -> dict[str, float]:
    """Median, minimum and maximum."""
    numbers = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, digits) for name, value in numbers.items()}


def ratios(
    many: Sequence[Spent], few: Sequence[Spent], quantity: Callable[[Spent], float]
) -> dict[str, float]:
    """How much more `many` takes than `few`: the ratio of the medians, and the least and greatest of one round."""
    each = [quantity(a) / quantity(b) for a, b in zip(many, few, strict=True)]
    whole = statistics.median(map(quantity, many)) / statistics.median(map(quantity, few))
    return {"median": round(whole, 2), "min": round(min(each), 2), "max": round(max(each), 2)}


def machine(tools: Sequence[str]) -> dict[str, Any]:
    """Where and with what this runs. `load_1min` tells a reader how busy the machine was with other things."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": platform.release().partition("-")[0],
        "architecture": platform.machine(),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "reconciler": first_line(["git", "describe", "--always", "--dirty", "--abbrev=12"]),
        "tools": {tool: first_line([tool, "--version"]) for tool in tools},
    }


def described(result: Mapping[str, Any]) -> str:
    """One line on when, where and how often a result was measured."""
    host = result["machine"]
    parts = [
        host["date"][:10],
        f"{host['cores']} cores ({host['cpu']})",
        f"{host['memory_mib'] / 1024:.0f} GiB",
        f"Linux {host['kernel']}",
        f"Python {host['python']}",
        *host["tools"].values(),
        f"code {host['reconciler']}",
        f"{result['runs']} runs",
        f"load {host['load_1min']} at the start",
    ]
    return ", ".join(parts)


def first_line(argv: Sequence[str]) -> str:
    """What a program says first, '' when it fails."""
    done = process.run(argv, env={"PATH": os.environ["PATH"]}, timeout=30, cwd=ROOT)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return lines[0].strip() if done.status == 0 and lines else ""


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "cpu"):
            return value.strip()
    return platform.machine()
