"""`reconciler run`."""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

import click

from reconciler import __version__
from reconciler.cli import logs
from reconciler.cli.board import Board
from reconciler.cli.compose_daemon import compose_daemon
from reconciler.cli.local import cache_folder
from reconciler.daemon.daemon import Daemon
from reconciler.daemon.report import document
from reconciler.redaction import Redactor

_LOG: Final = logging.getLogger("reconciler")
_TELLING: Final = 2.0
"""Seconds between two looks at whether there is something new to say."""


@click.command(
    epilog="""\b
Examples:
  reconciler run --config reconciler-config.yaml
  reconciler run --config east.yaml --config west.yaml --log-format text

\b
Signals: HUP looks at everything now and tries failed builds again; TERM and INT end it.
"""
)
@click.option(
    "--config",
    "configs",
    required=True,
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A configuration (kind ReconcilerConfig); again for more repositories.",
)
@click.option("--log-format", type=click.Choice(logs.FORMS), help="Default: text on a terminal, else json.")
@click.option("--log-level", type=click.Choice(logs.LEVELS), default="info", show_default=True)
@click.option(
    "--grace",
    type=click.FloatRange(0, 3600),
    default=20.0,
    show_default=True,
    help="Seconds that the step under way has when the daemon is told to end.",
)
@click.pass_context
def run(
    ctx: click.Context, configs: tuple[Path, ...], log_format: str | None, log_level: str, grace: float
) -> None:
    """Watch repositories, and keep their images up to date until told to end.

    Every pass works out everything anew from Git and the registry, so the daemon may be killed and started at any
    time. It looks at the head every `source.interval`, at a webhook, when a build ends, and at everything every
    `source.resync`.

    Exit status: 0 it was told to end and did; 1 it could not start, or not end in time.
    """
    redactor = Redactor()
    logs.begin(log_format or ("text" if sys.stderr.isatty() else "json"), log_level, redactor)
    signals = _signals()
    with ExitStack() as stack:
        daemon, web = compose_daemon(stack, configs, redactor)
        board = stack.enter_context(Board(cache_folder() / "daemons", configs, redactor))
        if web:
            web.start()
        daemon.start()
        names = [report.name for report in daemon.reports]
        _LOG.info("started", extra={"version": __version__, "repositories": names})
        _attend(daemon, board, signals)
        _LOG.info("stopping")
        in_time = daemon.stop(grace)
        if web:
            web.stop(min(grace, 5.0))
    _LOG.info("stopped")
    ctx.exit(0 if in_time else 1)


def _attend(daemon: Daemon, board: Board, signals: SimpleQueue[int]) -> None:
    """Say how things are, and pass on what a person asks for, until the end."""
    told = None
    while True:
        reports = daemon.reports
        if reports != told:
            board.write(document(reports, os.getpid(), __version__))
            told = reports
        try:
            if signals.get(timeout=_TELLING) != signal.SIGHUP:
                return
        except Empty:
            continue
        _LOG.info("asked to look now")
        daemon.ask()


def _signals() -> SimpleQueue[int]:
    """The signals that come from now on.

    A handler runs between any two steps of the main thread, so it may take no lock that this could hold: an Event has
    one, this kind of queue has none.
    """
    signals: SimpleQueue[int] = SimpleQueue()
    ending: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if ending:  # told twice: somebody is in a hurry, and any moment is safe
            os._exit(128 + number)
        ending.append(number)
        signals.put(number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, lambda number, _: signals.put(number))
    return signals
