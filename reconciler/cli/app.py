"""The command `reconciler`: its subcommands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from reconciler import __version__
from reconciler.cli.output import Output
from reconciler.errors import ReconcilerError

COMMANDS: Final = ("look-now", "once", "plan", "preview", "rollback", "run", "status", "validate")


class Commands(click.Group):
    """Loads a command's module when it is asked for: most of them need libraries that the others do without."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (the signature is click's)
        """By name."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of a name; None when there is none."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        found = getattr(import_module(f"reconciler.cli.commands.{name}"), name)
        return found if isinstance(found, click.Command) else None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="reconciler")
def cli() -> None:
    """Build machine OS images from Git, per CPU architecture, and only those that a commit really changes.

    \b
    Start with a repository of MachineOSConfig and Containerfile definitions:
      reconciler validate .
      reconciler plan --base main --head HEAD
      reconciler once --config reconciler-config.yaml
      reconciler run --config reconciler-config.yaml
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 done, 1 an error or something not right, 2 wrong usage (and `--detailed-exitcode`),
    130 interrupted."""
    output = Output()
    try:
        code = cli.main(args=arguments, prog_name="reconciler", standalone_mode=False)
    except click.exceptions.Abort:
        output.note("interrupted", style="red")
        code = 130
    except click.ClickException as error:
        error.show(sys.stderr)
        code = error.exit_code
    except ReconcilerError as error:
        output.error(error)
        code = error.exit_code
    except BrokenPipeError:
        # The reader of our output went away (`| head`); Python would complain once more while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code or 0)
