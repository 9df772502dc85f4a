"""Counts of verdicts per kind of edit, as a table and as JSON.

Belongs here: adding up and showing. Does not belong here: coming to a verdict (`judge`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.draft import Definition
from tests.oracle.judge import Cell, Verdict

_JUDGED = (Verdict.EXACT, Verdict.NEEDLESS, Verdict.MISSED)


@dataclass(slots=True)
class Tally:
    """What became of one kind. All counts but `pairs` are of pairs on architectures."""

    pairs: set[int] = field(default_factory=set)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    unchanged: int = 0
    """Judged, and nothing had changed: of these, some builds were needless."""
    details: set[str] = field(default_factory=set)

    def add(self, cell: Cell) -> None:
        """Count one cell."""
        self.pairs.add(cell.pair.number)
        self.verdicts[cell.verdict] += 1
        self.unchanged += cell.changed is False
        if cell.verdict not in _JUDGED:
            self.details.add(f"{cell.verdict}: {cell.detail}")

    @property
    def not_judged(self) -> int:
        """Cells that say nothing."""
        return sum(count for verdict, count in self.verdicts.items() if verdict not in _JUDGED)

    @property
    def row(self) -> dict[str, Any]:
        """The counts by name."""
        return {
            "pairs": len(self.pairs),
            **{verdict.value: self.verdicts[verdict] for verdict in _JUDGED},
            "unchanged": self.unchanged,
            "notJudged": self.not_judged,
        }


def tally(cells: Iterable[Cell]) -> dict[str, Tally]:
    """Counts by kind, in the order of names."""
    found: dict[str, Tally] = {}
    for cell in cells:
        found.setdefault(cell.pair.kind, Tally()).add(cell)
    return dict(sorted(found.items()))


def table(tallies: dict[str, Tally]) -> str:
    """The counts as text, a line for each kind, sums at the end."""
    head = f"{'kind':<48}{'pairs':>7}{'exact':>7}{'needless':>14}{'MISSED':>8}{'not judged':>12}"
    rows = {name: one.row for name, one in tallies.items()}
    total: Counter[str] = Counter()
    for row in rows.values():
        total.update(row)
    rows["all"] = dict(total)
    lines = [head]
    for name, row in rows.items():
        needless = f"{row.get('needless', 0)} of {row.get('unchanged', 0)}"
        counts = f"{row.get('pairs', 0):>7}{row.get('exact', 0):>7}{needless:>14}{row.get('missed', 0):>8}"
        lines.append(f"{name:<48}{counts}{row.get('notJudged', 0):>12}")
    return "\n".join(lines)


def document(seed: int, cells: list[Cell]) -> dict[str, Any]:
    """Everything as JSON: the counts, the pairs that were missed, and why cells were not judged."""
    tallies = tally(cells)
    return {
        "seed": seed,
        "kinds": {name: one.row for name, one in tallies.items()},
        "notJudged": {name: sorted(one.details) for name, one in tallies.items() if one.details},
        "missed": [_about(cell) for cell in cells if cell.verdict is Verdict.MISSED],
        "needless": [_about(cell) for cell in cells if cell.verdict is Verdict.NEEDLESS],
    }


def _about(cell: Cell) -> dict[str, Any]:
    pair = cell.pair
    return {
        "kind": pair.kind,
        "seed": pair.seed,
        "number": pair.number,
        "arch": cell.arch.value,
        "detail": cell.detail,
        "before": _definition(pair.before),
        "after": _definition(pair.after),
    }


def _definition(definition: Definition) -> dict[str, Any]:
    files = {
        path: {"text": file.text, "executable": file.executable, "link": file.link}
        for path, file in definition.files.items()
    }
    return {"Containerfile": definition.text, "files": files}
