"""`reconciler status`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from reconciler.cli import board, compose, rollouts
from reconciler.cli.commands.once import config_option
from reconciler.cli.local import cache_folder
from reconciler.cli.output import Output
from reconciler.core import render
from reconciler.core.model import API_VERSION
from reconciler.reconcile.reconciler import Survey
from reconciler.reconcile.state import Image, State

_IN_DAEMON = {state.value: state for state in (State.QUEUED, State.BUILDING, State.RETRYING, State.FAILED)}
"""What only the daemon that builds knows of an image that is to be built."""

_GOOD = (State.CURRENT, State.STALE)


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
    """Show pools and architectures: recorded, in flight, failed, drifted; and how far nodes have come.

    Asks Git, the registry and the cluster, and the daemon on this machine that runs with this configuration, if there
    is one. Changes nothing. Exit status: 0 everything is as recorded and wanted; 1 otherwise.
    """
    output = Output()
    with compose.reconciler(config) as running:
        survey, name = running.engine.look(), running.name
    daemon = next(
        (found for one in board.found(cache_folder() / "daemons", config) if (found := _part(one, name))),
        None,
    )
    images = tuple(_with_daemon(survey.images, daemon))
    if form == "json":
        click.echo(render.json_text(_document(survey, images, daemon)))
    else:
        output.table(_rows(images), header=("POOL", "ARCH", "STATE", "RECORDED", "WHY"))
        nodes = list(rollouts.rows(survey.rollouts, survey.records))
        if nodes:
            output.say("")
            output.table(nodes, header=rollouts.HEADER)
        if survey.ask and survey.ask.pools:
            output.note(f"{survey.ask.why}: {survey.ask.url}", style="yellow")
        for drift in survey.drifts:
            output.note(f"{drift.pool}: drifted ({drift.where}): {drift.message}", style="yellow")
        output.faults(survey.warnings, "warning")
        output.faults(survey.plan.errors, "error")
        for problem in survey.problems:
            output.error(problem)
        _tell_of(daemon, output)
        for image in images:
            if image.build and image.build.cause:
                output.note(f"{image.pool} {image.arch}: log of the failed build: {image.build.log}")
    bad = survey.drifts or survey.problems or survey.plan.errors or rollouts.stuck(survey.rollouts.values())
    ctx.exit(1 if bad or any(image.state not in _GOOD for image in images) else 0)


def _part(document: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """What a daemon says of one repository, with its process id."""
    for one in document.get("repositories", ()):
        if one["name"] == name:
            return {**one, "pid": document["pid"]}
    return None


def _with_daemon(images: Sequence[Image], daemon: Mapping[str, Any] | None) -> Iterator[Image]:
    """Images that are to be built, with how their builds stand; a step or a failure is said instead of the reason."""
    known = {(one["pool"], one["arch"]): one for one in daemon["images"]} if daemon else {}
    builds = {(one["pool"], one["arch"]): one for one in daemon["builds"]} if daemon else {}
    for image in images:
        said = known.get((image.pool, image.arch.value))
        if (
            image.state is not State.TO_BUILD
            or image.build
            or said is None
            or said["state"] not in _IN_DAEMON
        ):
            yield image
            continue
        state, build = _IN_DAEMON[said["state"]], builds.get((image.pool, image.arch.value))
        if build and build["phase"] == "Building":
            state = State.BUILDING
        failed = state in (State.FAILED, State.RETRYING)
        why = said["why"] if failed else (build or {}).get("step") or image.why
        yield replace(image, state=state, why=why)


def _tell_of(daemon: Mapping[str, Any] | None, output: Output) -> None:
    if daemon is None:
        output.note("no daemon of this account runs with this configuration here")
        return
    at = daemon["reconciledAt"]
    when = f"last pass {max(0, time.time() - at):.0f} s ago" if at else "no pass has gone through yet"
    output.note(f"daemon: process {daemon['pid']}, {when}")
    if daemon["problem"]:
        output.note(f"daemon: {daemon['problem']['message']}", style="red")
    if previews := daemon.get("previews"):
        output.note(f"daemon: {previews['shown']} of {previews['open']} open pull requests have a preview")
        if previews["problem"]:
            output.note(f"daemon: no previews: {previews['problem']['message']}", style="yellow")
    for build in daemon["builds"]:
        if build["cause"]:
            output.note(f"{build['pool']} {build['arch']}: log of the failed build: {build['log']}")


def _rows(images: Sequence[Image]) -> Iterator[tuple[str, str, str, str, str]]:
    previous = ""
    for image in images:
        recorded = render.short(image.recorded) if image.recorded else "none"
        yield (
            image.pool if image.pool != previous else "",
            image.arch.value,
            image.state.value,
            recorded,
            image.why,
        )
        previous = image.pool


def _document(survey: Survey, images: Sequence[Image], daemon: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Status",
        "head": survey.plan.head,
        "daemon": daemon,
        "pools": [
            {
                "name": pool.name,
                "image": record.image if (record := survey.records.get(pool.name)) else None,
                "architectures": {
                    image.arch.value: {
                        "state": image.state.value,
                        "recorded": image.recorded or None,
                        "why": image.why,
                    }
                    for image in images
                    if image.pool == pool.name
                },
                "rollout": rollouts.document(survey.rollouts.get(pool.name), record),
            }
            for pool in survey.plan.pools
        ],
        "pullRequest": survey.ask.document() if survey.ask and survey.ask.pools else None,
        "drifts": [
            {
                "pool": d.pool,
                "arch": d.arch.value if d.arch else None,
                "where": d.where.value,
                "message": d.message,
            }
            for d in survey.drifts
        ],
        "warnings": [{"path": w.path, "line": w.line, "message": w.message} for w in survey.warnings],
        "errors": [{"path": e.path, "line": e.line, "message": e.message} for e in survey.plan.errors],
    }
