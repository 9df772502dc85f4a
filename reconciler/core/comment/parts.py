"""The parts of a comment: matrix, reasons, what stays, the canonical difference, faults, warnings.

Belongs here: what is said about a plan, piece by piece. Does not belong here: their order and the room they get
(`layout`, `fit`), and how text of the repository is made harmless (`escape`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final

from reconciler.core.comment.escape import code, fence, place, visible, words
from reconciler.core.comment.fit import Section, plural, size
from reconciler.core.model import DIGEST, Arch
from reconciler.core.plan import Action, Cell, Plan, PoolPlan, Reason
from reconciler.errors import Fault

_FEW: Final = 20
"""Pools that a matrix shows all of. Of more, those in which nothing changes are only listed."""
_DIGEST: Final = len("sha256:") + 8
_NAME: Final = 80  # characters of a pool's name; Kubernetes has no longer ones than 253

_HUNKS: Final = 2_000  # bytes of one definition's changes after which no further one is shown
_INSTRUCTION: Final = 600  # characters; `explain` gives fewer
_JOINT: Final = re.compile(r"(?<=&&|\|\|) ")

Minutes = Mapping[tuple[str, Arch], int]
"""How many minutes the image of a pool and architecture is expected to take; absent when nobody knows."""
Numbers = dict[tuple[Reason, int], int]
"""The reason of a cell, with how many more it has, and the number it is shown by."""


def numbered(plan: Plan) -> Numbers:
    """A number for each first reason of a cell that does not stay as it is, in the order of the matrix."""
    numbers: Numbers = {}
    for cell in _cells(plan):
        if cell.action is not Action.REUSE and cell.reasons:
            numbers.setdefault(_key(cell), len(numbers) + 1)
    return numbers


def matrix(plan: Plan, numbers: Numbers, minutes: Minutes) -> Section:
    """Pools by architectures; each cell begins with the action."""
    shown = [p for p in plan.pools if len(plan.pools) <= _FEW or _is_touched(p)]
    arches = [arch for arch in Arch if any(cell.arch is arch for cell in _cells(plan))]
    head = f"| pool |{''.join(f' {arch} |' for arch in arches)}\n|:--|{':--|' * len(arches)}\n"
    untouched = len(plan.pools) - len(shown)
    tail = f"\nNothing changes in {untouched} other {plural('pool', untouched)}.\n\n" if untouched else "\n"
    if not shown or not arches:
        return Section("", [tail[1:]], int(bool(untouched)), "line", 1)
    return Section(
        head, (_row(pool, arches, numbers, minutes) for pool in shown), len(shown), "pool", 8, tail
    )


def _row(pool: PoolPlan, arches: Sequence[Arch], numbers: Numbers, minutes: Minutes) -> str:
    cells = {cell.arch: cell for cell in pool.cells}
    texts = [
        _cell(cells[arch], numbers, minutes.get((pool.name, arch), 0)) if arch in cells else "-"
        for arch in arches
    ]
    return f"| {code(pool.name, _NAME)} | {' | '.join(texts)} |\n"


def _cell(cell: Cell, numbers: Numbers, minutes: int) -> str:
    number = None if cell.action is Action.REUSE else numbers.get(_key(cell)) if cell.reasons else None
    text = f"{cell.action} ~{minutes} min" if minutes and cell.action is Action.BUILD else str(cell.action)
    text += f" [{number}]" if number else ""
    digest = (cell.image or "").rpartition("@")[2]
    return f"{text} {code(digest[:_DIGEST] + '…')}" if DIGEST.fullmatch(digest) else text


def reasons(numbers: Numbers) -> Section:
    """One reason per number, with its place."""
    items = (f"{n}. {_sentence(*key)}\n" for key, n in numbers.items())
    return Section("", items, len(numbers), "reason", 4)


def _sentence(reason: Reason, more: int) -> str:
    text = words(reason.message) if reason.message else reason.change
    if reason.path:
        text = f"{place(reason.path, reason.line)}: {text}"
    return text + (f" (and {more} more)" if more else "")


def removed(plan: Plan) -> Section:
    """Pools that are gone."""
    head = "Gone from the repository; what they run stays until somebody prunes it:\n\n"
    return Section(head, (f"- {code(n, _NAME)}\n" for n in plan.removed), len(plan.removed), "pool", 1)


def faults(plan: Plan, numbers: Numbers) -> Section:
    """Mistakes that are not among the reasons already."""
    told = {(reason.path, reason.line) for reason, _ in numbers if reason.change == "invalid"}
    left = [fault for fault in plan.errors if (fault.path, fault.line) not in told]
    return Section("Faults:\n\n", map(_fault, left), len(left), "fault", 3)


def warnings(plan: Plan) -> Section:
    """What a definition's author should know, and what stops nothing."""
    found = sorted({fault for pool in plan.pools for fault in pool.warnings})
    head, tail = _details(f"{len(found)} {plural('warning', len(found))}")
    return Section(head, map(_fault, found), len(found), "warning", 1, tail)


def _fault(fault: Fault) -> str:
    where = f"{place(fault.path, fault.line)}: " if fault.path else ""
    return f"- {where}{words(fault.message)}" + (f" ({words(fault.hint)})" if fault.hint else "") + "\n"


def stays(plan: Plan) -> Section:
    """Why the other images are not rebuilt."""
    groups: dict[tuple[str, Reason | None, int], list[Arch]] = {}
    kinds: Counter[str] = Counter()
    for pool in plan.pools:
        for cell in pool.cells:
            if cell.action is Action.REUSE:
                first, more = _key(cell) if cell.reasons else (None, 0)
                groups.setdefault((pool.name, first, more), []).append(cell.arch)
                kinds[_kind(first)] += 1
    count = sum(kinds.values())
    which = "the other" if count < len(list(_cells(plan))) else "all" if count > 1 else "the"
    counted = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items(), reverse=True))
    head, tail = _details(f"Why {which} {count} {'stays' if count == 1 else 'stay'}: {counted}")
    items = (
        f"- {code(name, _NAME)} {_arches(arches)}: "
        f"{_sentence(first, more) if first else 'nothing that goes into it changed'}\n"
        for (name, first, more), arches in groups.items()
    )
    return Section(head, items, len(groups), "line", 1, tail)


def _kind(first: Reason | None) -> str:
    if first is None:
        return "untouched"
    return "built before" if first.ingredient == "image" else "not reached by any edit"


def difference(plan: Plan) -> Section:
    """What changes in the canonical form of each definition that is built: what counts, and not how it is written."""
    groups: dict[tuple[str, tuple[Reason, ...]], list[Arch]] = {}
    for pool in plan.pools:
        for cell in pool.cells:
            found = tuple(reason for reason in cell.reasons if reason.ingredient != "image")
            if cell.action is Action.BUILD and found:
                groups.setdefault((pool.name, found), []).append(cell.arch)
    count = sum(map(len, groups.values()))
    head, tail = _details(f"Canonical diff of {count} {plural('image', count)}")
    items = (
        f"{code(name, _NAME)} {_arches(arches)}\n\n{_hunks(found)}\n"
        for (name, found), arches in groups.items()
    )
    return Section(head, items, len(groups), "diff", 4, tail.lstrip("\n"))


def _hunks(found: Sequence[Reason]) -> str:
    """The changes of one definition; of very many the first."""
    lines: list[str] = []
    for number, reason in enumerate(found):
        if sum(map(size, lines)) > _HUNKS:
            lines.append(f"@@ {len(found) - number} more @@")
            break
        lines.extend(_hunk(reason))
    return fence(lines, "diff")


def _hunk(reason: Reason) -> Iterator[str]:
    line = f":{reason.line}" if reason.line else ""
    path = visible(reason.path if len(reason.path) <= _NAME * 2 else "…" + reason.path[-_NAME * 2 :])
    is_shown = reason.ingredient == "recipe" and (reason.before or reason.after)
    subject = "" if is_shown else f" {visible(reason.message)}"
    yield f"@@ {path}{line} @@{subject}" if path else f"@@{subject} @@"
    before, after = _commands(reason.before), _commands(reason.after)
    for tag, start, end, new_start, new_end in SequenceMatcher(None, before, after, False).get_opcodes():
        if tag == "equal":
            yield from (f"  {line}" for line in _context(before[start:end]))
        else:
            yield from (f"- {line}" for line in before[start:end])
            yield from (f"+ {line}" for line in after[new_start:new_end])


def _commands(text: str) -> list[str]:
    """A text in lines as somebody would have written it. Nothing is lost: the lines joined by blanks are the text."""
    return _JOINT.split(visible(text, _INSTRUCTION)) if text else []


def _context(lines: list[str]) -> list[str]:
    """Unchanged lines, of which only the outermost matter."""
    return lines if len(lines) <= 3 else [lines[0], "…", lines[-1]]


def _details(summary: str) -> tuple[str, str]:
    """Head and tail of a part that is folded away; `summary` holds nothing of the repository."""
    return f"<details>\n<summary>{summary}</summary>\n\n", "\n</details>\n\n"


def _arches(arches: Iterable[Arch]) -> str:
    return ", ".join(arches)


def _key(cell: Cell) -> tuple[Reason, int]:
    """The reason that stands for a cell. What it says and where are all that counts."""
    first, *more = cell.reasons
    return Reason(first.ingredient, first.change, first.message, first.path, first.line), len(more)


def _cells(plan: Plan) -> Iterator[Cell]:
    return (cell for pool in plan.pools for cell in pool.cells)


def _is_touched(pool: PoolPlan) -> bool:
    return any(cell.action is not Action.REUSE or cell.reasons for cell in pool.cells)
