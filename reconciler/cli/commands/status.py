"""`reconciler status`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from reconciler.cli import compose
from reconciler.cli.commands.once import config_option
from reconciler.cli.output import Output
from reconciler.core import render
from reconciler.core.model import API_VERSION
from reconciler.core.plan import Action, Cell, PoolPlan
from reconciler.reconcile.preview import arch_record
from reconciler.reconcile.reconciler import Survey


@click.command(
    epilog="""\b
Examples:
  reconciler status --config reconciler-config.yaml
  reconciler status --config reconciler-config.yaml --output json
"""
)
@config_option
@click.option("--output", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def status(ctx: click.Context, config: Path, form: str) -> None:
    """Show pools and architectures: what is recorded, and whether the registry and the branch agree with it.

    Looks and changes nothing. Exit status: 0 everything is as recorded and wanted; 1 otherwise.
    """
    output = Output()
    with compose.reconciler(config) as running:
        survey = running.engine.look()
    if form == "json":
        click.echo(render.json_text(_document(survey)))
    else:
        output.table(_rows(survey), header=("POOL", "ARCH", "STATE", "RECORDED", "WHY"))
        for drift in survey.drifts:
            output.note(f"{drift.pool}: drifted: {drift.message}", style="yellow")
        output.faults(survey.warnings, "warning")
        output.faults(survey.plan.errors, "error")
        for problem in survey.problems:
            output.error(problem)
    bad = survey.drifts or survey.problems or survey.plan.errors
    pending = any(
        _state(survey, pool, cell) != "current" for pool in survey.plan.pools for cell in pool.cells
    )
    ctx.exit(1 if bad or pending else 0)


def _state(survey: Survey, pool: PoolPlan, cell: Cell) -> str:
    entry = arch_record(survey.records.get(pool.name), cell.arch)
    if any(d.pool == pool.name and d.arch in (None, cell.arch) for d in survey.drifts):
        return "drifted"
    match cell.action:
        case Action.BLOCKED:
            return "blocked"
        case Action.DROP:
            return "to drop"
        case Action.BUILD:
            return "to build"
    return "current" if entry and entry.image == cell.image else "to publish"


def _rows(survey: Survey) -> Iterator[tuple[str, str, str, str, str]]:
    for pool in survey.plan.pools:
        for number, cell in enumerate(pool.cells):
            entry = arch_record(survey.records.get(pool.name), cell.arch)
            state = _state(survey, pool, cell)
            yield (
                pool.name if number == 0 else "",
                cell.arch.value,
                state,
                render.short(entry.image) if entry else "none",
                "" if state == "current" else render.why(cell),
            )


def _document(survey: Survey) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Status",
        "head": survey.plan.head,
        "pools": [
            {
                "name": pool.name,
                "image": record.image if (record := survey.records.get(pool.name)) else None,
                "architectures": {
                    cell.arch.value: {
                        "state": _state(survey, pool, cell),
                        "recorded": entry.image
                        if (entry := arch_record(survey.records.get(pool.name), cell.arch))
                        else None,
                        "why": render.why(cell),
                    }
                    for cell in pool.cells
                },
            }
            for pool in survey.plan.pools
        ],
        "drifts": [
            {"pool": d.pool, "arch": d.arch.value if d.arch else None, "message": d.message}
            for d in survey.drifts
        ],
        "warnings": [{"path": w.path, "line": w.line, "message": w.message} for w in survey.warnings],
        "errors": [{"path": e.path, "line": e.line, "message": e.message} for e in survey.plan.errors],
    }
