"""A plan as people and programs read it: rows, a verdict, a JSON document. The same words everywhere.

Belongs here: layout-free content. Does not belong here: colours, widths, printing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconciler.core.model import API_VERSION
from reconciler.core.plan import Action, Cell, Plan, Reason

_ENCODER: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the plan's table. `pool` is '' where it is that of the row above."""

    pool: str
    arch: str
    action: Action
    image: str
    why: str


def rows(plan: Plan) -> Iterator[Row]:
    """One row per pool and architecture."""
    for pool in plan.pools:
        for number, cell in enumerate(pool.cells):
            yield Row(
                pool.name if number == 0 else "",
                cell.arch.value,
                cell.action,
                short(cell.image) if cell.image else "",
                why(cell),
            )


def why(cell: Cell) -> str:
    """The first reason in words, and how many more there are."""
    if not cell.reasons:
        return "unchanged" if cell.action is Action.REUSE else ""
    first, *more = cell.reasons
    text = sentence(first, place_first=cell.action is not Action.REUSE)
    return text + (f" (+{len(more)} more)" if more else "")


def sentence(reason: Reason, *, place_first: bool) -> str:
    """A reason with its place: `path:line  message`, or `message (path:line)`."""
    place = f"{reason.path}:{reason.line}" if reason.line else reason.path
    if not place:
        return reason.message
    return f"{place}  {reason.message}" if place_first else f"{reason.message} ({place})"


def verdict(plan: Plan) -> str:
    """One sentence: how many images would be built, and what else deserves to be known at once."""
    summary = plan.summary
    total = sum(n for action, n in summary.items() if action is not Action.DROP)
    text = f"{summary[Action.BUILD]} of {total} image{'' if total == 1 else 's'} would be built"
    extra = []
    if summary[Action.BLOCKED]:
        extra.append(f"{summary[Action.BLOCKED]} blocked")
    if summary[Action.DROP]:
        extra.append(f"{summary[Action.DROP]} dropped")
    if plan.removed:
        extra.append(f"removed: {', '.join(plan.removed)}")
    return "; ".join([text, *extra]) + "."


def short(image: str) -> str:
    """An image as a table shows it: the first digits of its digest."""
    digest = image.rpartition("@")[2]
    return f"{digest[:19]}…" if digest.startswith("sha256:") else digest


def document(plan: Plan) -> dict[str, Any]:
    """The JSON document of DESIGN §10."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "base": plan.base,
        "head": plan.head,
        "planDigest": plan.digest,
        "summary": {action.value: count for action, count in plan.summary.items()},
        "pools": [
            {
                "name": pool.name,
                "path": pool.path,
                "architectures": {cell.arch.value: _cell(cell) for cell in pool.cells},
                "warnings": [
                    {"path": w.path, "line": w.line, "message": w.message, "hint": w.hint}
                    for w in pool.warnings
                ],
            }
            for pool in plan.pools
        ],
        "removedPools": list(plan.removed),
        "errors": [
            {"path": e.path, "line": e.line, "message": e.message, "hint": e.hint} for e in plan.errors
        ],
    }


def json_text(document: Mapping[str, Any]) -> str:
    """A document as JSON text with sorted keys: one line per key, and per element of a list, so that it can be read,
    compared and written quickly even for thousands of pools."""
    lines = []
    for key in sorted(document):
        value = document[key]
        if isinstance(value, list) and value:
            items = ",\n".join(f"    {_ENCODER.encode(item)}" for item in value)
            lines.append(f"  {json.dumps(key)}: [\n{items}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {_ENCODER.encode(value)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "action": cell.action.value,
        "definition": cell.definition,
        "previousDefinition": cell.previous,
        "input": cell.input,
        "image": cell.image,
        "reasons": [
            {
                "ingredient": reason.ingredient,
                "change": reason.change,
                "path": reason.path,
                "line": reason.line,
                "before": reason.before,
                "after": reason.after,
                "message": reason.message,
            }
            for reason in cell.reasons
        ],
    }
