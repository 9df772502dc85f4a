"""`reconciler once`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from reconciler.cli import compose
from reconciler.cli.output import Output
from reconciler.cli.progress import Progress
from reconciler.core import render
from reconciler.core.model import Arch
from reconciler.core.plan import Action, Plan
from reconciler.errors import GitUnavailable
from reconciler.ports import Phase
from reconciler.reconcile.reconciler import Result
from reconciler.reconcile.work import Standing

_MOVES = 20
"""How often the branch may move under us before we give up; each move means that somebody else made progress."""

config_option = click.option(
    "--config",
    "config",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The reconciler's configuration (kind ReconcilerConfig).",
)


@click.command(
    epilog="""\b
Example:
  reconciler once --config reconciler-config.yaml
"""
)
@config_option
@click.pass_context
def once(ctx: click.Context, config: Path) -> None:
    """Bring everything up to date, then exit: plan, build, publish, write back.

    Builds what changed, reuses what did not, and commits the digests in one commit. Run again, it does nothing. It may
    be killed at any time: what was pushed is found again.

    With writeBack.pullRequest it opens or updates a pull request instead of committing, and does not wait for people.

    Exit status: 0 all images are what the branch asks for; 1 something failed or is blocked (the old image stays).
    """
    output = Output()
    with compose.reconciler(config) as running, Progress(output) as progress:
        before = {build.name for build in running.builder.builds() if build.ended}
        result = _until_settled(running, output, progress)
        new = (build for build in running.builder.builds() if build.name not in before)
        built = {(build.pool, build.arch) for build in new if build.phase is Phase.SUCCEEDED}
    _report(output, result, built)
    ctx.exit(0 if result.sound else 1)


def _until_settled(running: compose.Running, output: Output, progress: Progress) -> Result:
    """Passes until nothing is in flight. Raises GitUnavailable when the branch does not stop moving."""
    shown = set()

    def announce(plan: Plan) -> None:
        news = plan.summary[Action.BUILD] or plan.summary[Action.BLOCKED] or plan.errors
        if news and plan.digest not in shown:
            output.plan(plan)
        shown.add(plan.digest)

    moves = 0
    while True:
        result = running.engine.run_pass(announce, one_commit=True)
        # What has ended is kept, to be told at the end.
        busy = {build.name for build in running.builder.builds() if not build.ended}
        running.builder.discard(busy.intersection(result.unwanted))
        if result.settled:
            return result
        moves += result.written.overtaken
        if moves > _MOVES:
            problem = f"the branch moved {_MOVES} times while we were working"
            raise GitUnavailable(problem, hint="run again when it is quieter")
        while not all(build.ended for build in running.builder.builds()):
            running.builder.wait(0.2)
            progress.update(running.builder.builds())
        if any(work.standing is Standing.WAITING for work in result.work.values()):
            running.clock.sleep(1.0)


def _report(output: Output, result: Result, built: set[tuple[str, Arch]]) -> None:
    """What was done, what was not, and one line that sums it up."""
    output.faults(result.warnings, "warning")
    for (pool, arch), work in sorted(result.work.items()):
        if work.build:
            output.note(f"{pool} {arch}: build failed: {work.build.message}", style="red")
            output.note(f"    log: {work.build.log}")
    for problem in result.problems:
        output.error(problem)
    output.table(_published(result, built))
    summary = result.plan.summary
    parts = [f"{len(built)} built", f"{summary[Action.REUSE] - len(built)} reused"]
    if result.work:
        parts.append(f"{len(result.work)} failed")
    if summary[Action.BLOCKED]:
        parts.append(f"{summary[Action.BLOCKED]} blocked")
    if result.written.commit:
        parts.append(f"committed {result.written.commit[:12]}")
    ask = result.written.proposed.ask
    if ask and result.written.proposed.did:
        parts.append(f"pull request {ask.name} {result.written.proposed.did}")
    if ask and ask.pools:
        output.note(f"{ask.why}: {ask.url}", style="yellow")
    elif result.sound and not (result.written.tagged or result.written.commit or result.written.proposed.did):
        parts.append("nothing to write")
    output.say(", ".join(parts) + ".", style="bold" if result.sound else "bold red")


def _published(result: Result, built: set[tuple[str, Arch]]) -> Iterator[tuple[str, str, str]]:
    """The new index of each pool, and how many of its images are new."""
    for record in result.written.records:
        how = Counter("built" if (record.pool, e.arch) in built else "reused" for e in record.architectures)
        counts = ", ".join(f"{count} {what}" for what, count in sorted(how.items()))
        yield record.pool, render.short(record.image), counts
