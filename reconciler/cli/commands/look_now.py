"""`reconciler look-now`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click

from reconciler.cli import board
from reconciler.cli.commands.once import config_option
from reconciler.cli.local import cache_folder
from reconciler.cli.output import Output


@click.command(
    epilog="""\b
Example:
  reconciler look-now --config reconciler-config.yaml
"""
)
@config_option
@click.pass_context
def look_now(ctx: click.Context, config: Path) -> None:
    """Tell the daemon that runs with this configuration to look at everything now.

    It also tries builds again that failed for good. The same as sending it HUP. `reconciler status` shows what comes
    of it.

    Exit status: 0 it was told; 1 no daemon runs here with this configuration.
    """
    output = Output()
    told = []
    for document in board.found(cache_folder() / "daemons", config):
        try:
            os.kill(document["pid"], signal.SIGHUP)
        except OSError as error:  # it has just ended, or it runs in another container
            output.note(f"process {document['pid']} cannot be told: {error.strerror}", style="yellow")
            continue
        told.append(document["pid"])
        output.say(f"told process {document['pid']} to look now.")
    if not told:
        output.note(f"no daemon of this account runs with {config}", style="red")
        output.note("hint: start one with: reconciler run --config FILE")
    ctx.exit(0 if told else 1)
