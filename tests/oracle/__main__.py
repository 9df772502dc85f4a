"""`python -m tests.oracle --pairs 500 --seed N --json out.json`: the long run.

Exit status: 0 no rebuild was missed, 1 some were. `--kind` (a part of names) narrows it down; a kind, a seed and a
number always make the same pair.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from tests.oracle.generate import pairs
from tests.oracle.judge import Cell, Verdict, judge
from tests.oracle.kinds import KINDS
from tests.oracle.observe import Builders
from tests.oracle.report import document, table, tally


def main() -> int:
    """Judge random pairs and print a table of what became of each kind."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description="Look for missed rebuilds.")
    parser.add_argument("--pairs", type=int, default=0, help="how many; default: one of each kind")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kind", default="", help="only kinds whose name has this in it")
    parser.add_argument("--json", type=Path, help="write all counts, missed and needless pairs here")
    options = parser.parse_args()
    kinds = [name for name in KINDS if options.kind in name]
    if not kinds:
        parser.error(f"no kind has {options.kind!r} in its name")
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="oracle-") as work:
        cells: list[Cell] = []
        chosen = pairs(options.seed, options.pairs or len(kinds), kinds)
        for cell in judge(chosen, Builders(Path(work), options.workers)):
            cells.append(cell)
            if cell.verdict is Verdict.MISSED:
                print(
                    f"MISSED {cell.pair.kind} number {cell.pair.number} on {cell.arch}: {cell.detail}",
                    flush=True,
                )
    print(table(tally(cells)))
    if options.json:
        options.json.write_text(json.dumps(document(options.seed, cells), indent=2, sort_keys=True) + "\n")
    return int(any(cell.verdict is Verdict.MISSED for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
