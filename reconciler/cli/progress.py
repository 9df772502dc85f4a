"""Live progress of builds: a table that is redrawn on a terminal, a line per event off it. On standard error."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.live import Live
from rich.table import Table
from rich.text import Text

from reconciler.cli.output import Output
from reconciler.ports import Build, Phase

_COLOURS = {Phase.PENDING: "dim", Phase.RUNNING: "yellow", Phase.SUCCEEDED: "green", Phase.FAILED: "bold red"}


class Progress:
    """Shows builds while a `with` block lasts."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._live = Live(console=output.err, refresh_per_second=8) if output.err.is_terminal else None
        self._started = False
        self._seen: dict[str, Phase] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live and self._started:
            self._live.stop()

    def update(self, builds: Iterable[Build]) -> None:
        """Show the builds as they are now."""
        ordered = sorted(builds, key=lambda b: (b.pool, b.arch.value, b.name))
        if self._live:
            if not self._started:
                self._live.start()
                self._started = True
            self._live.update(_table(ordered))
            return
        for build in ordered:
            if build.phase is not Phase.PENDING and self._seen.get(build.name) is not build.phase:
                self._seen[build.name] = build.phase
                self._output.note(_line(build), style="")


def _seconds(build: Build) -> str:
    if not build.started:
        return ""
    end = build.finished or time.time()
    return f"{max(0.0, end - build.started):.1f} s"


def _table(builds: list[Build]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for build in builds:
        table.add_row(
            Text(build.pool),
            Text(build.arch.value),
            Text(build.phase.value.lower(), style=_COLOURS[build.phase]),
            Text(_seconds(build), justify="right"),
            Text(
                build.message if build.ended else build.step,
                overflow="ellipsis",
                no_wrap=True,
            ),
        )
    return table


def _line(build: Build) -> str:
    took = f" ({_seconds(build)})" if build.ended else ""
    return f"{build.pool} {build.arch}: {build.phase.value.lower()}{took}"
