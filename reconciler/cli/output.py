"""How results look on a terminal and off it.

Belongs here: consoles, tables, colours. Does not belong here: what the words are (`core.render`).
Results go to standard output, messages to standard error. Off a terminal nothing is wrapped, cut or coloured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from reconciler.core import render
from reconciler.core.plan import Action, Plan
from reconciler.errors import Fault, ReconcilerError

STYLES: Final = {
    Action.BUILD.value: "bold yellow",
    Action.REUSE.value: "green",
    Action.BLOCKED.value: "bold red",
    Action.DROP.value: "dim",
}
_ENDLESS: Final = 100_000  # columns; more than any line, so that nothing is ever wrapped off a terminal


class Output:
    """The two consoles of a command."""

    def __init__(self) -> None:
        self.out = _console(stderr=False)
        self.err = _console(stderr=True)

    def plan(self, plan: Plan) -> None:
        """The table of a plan, its warnings and its verdict."""
        if plan.pools:
            self.table([(r.pool, r.arch, r.action, r.image, r.why) for r in render.rows(plan)])
        for pool in plan.pools:
            self.faults(pool.warnings, "warning")
        self.faults(plan.errors, "error")
        self.say(render.verdict(plan), style="bold")

    def table(self, rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> None:
        """Aligned columns; a cell that is an action has its colour."""
        lines = [list(row) for row in rows]
        if not lines:
            return
        if not self.out.is_terminal:
            sys.stdout.write(_aligned([list(header), *lines] if header else lines))
            sys.stdout.flush()
            return
        table = Table.grid(padding=(0, 2, 0, 0))
        if header:
            table = Table(*header, box=None, padding=(0, 2, 0, 0), header_style="bold")
        for line in lines:
            table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in line))
        self.out.print(table)

    def say(self, text: str, style: str = "") -> None:
        """One line of result."""
        self.out.print(Text(text, style=style), soft_wrap=True)

    def note(self, text: str, style: str = "dim") -> None:
        """One line of message."""
        self.err.print(Text(text, style=style), soft_wrap=True)

    def faults(self, faults: Iterable[Fault], label: str) -> None:
        """Faults as `path:line: label: what` with the remedy on its own line."""
        colour = "red" if label == "error" else "yellow"
        for fault in faults:
            place = f"{fault.path}:{fault.line}" if fault.line else fault.path
            line = Text.assemble((place, "bold"), ": ", (label, colour), f": {fault.message}")
            self.err.print(line, soft_wrap=True)
            if fault.hint:
                self.err.print(Text(f"    {fault.hint}", style="dim"), soft_wrap=True)

    def error(self, error: ReconcilerError) -> None:
        """An error and what to do about it."""
        faults = getattr(error, "faults", None)
        if faults:
            self.faults(faults, "error")
            return
        self.err.print(Text.assemble(("error", "bold red"), f": {error.message}"), soft_wrap=True)
        if error.hint:
            self.err.print(Text(f"    {error.hint}", style="dim"), soft_wrap=True)


def _aligned(lines: list[list[str]]) -> str:
    """Columns for programs and files: nothing is wrapped or cut, however long, and no blanks end a line."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )
    return "".join(text.rstrip() + "\n" for text in padded)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _ENDLESS
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
