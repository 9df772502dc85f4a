"""`reconciler validate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from reconciler.cli import local
from reconciler.cli.output import Output
from reconciler.core.model import Arch
from reconciler.core.plan import Target
from reconciler.core.pool import Pool
from reconciler.errors import Fault, InvalidInput
from reconciler.reconcile.history import History
from reconciler.reconcile.targets import not_supplied, standing_for_programs, supplied


@dataclass(frozen=True, slots=True)
class _Checked:
    """What is wrong, or odd, about one image."""

    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()


def _check(history: History, pool: Pool, arch: Arch) -> _Checked:
    try:
        inputs = history.inputs(pool, arch, "")
    except InvalidInput as error:
        return _Checked(faults=error.faults)
    target = supplied(Target(pool.name, arch, inputs), "", "")
    # A cluster may yet name the base.
    return _Checked(standing_for_programs(inputs), (*inputs.warnings, *not_supplied(pool, target)))


@click.command(
    epilog="""\b
Examples:
  reconciler validate
  reconciler validate path/to/machine-os
"""
)
@click.argument("path", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.pass_context
def validate(ctx: click.Context, path: Path) -> None:
    """Check all definitions below PATH (default: this folder) as they are on disk, and show every fault at once.

    Exit status: 0 sound; 1 any fault.
    """
    output = Output()
    objects, commit = local.working_files(path)
    history = History(objects)
    catalogue = history.catalogue(commit)
    faults, warnings = set(catalogue.faults), set[Fault]()
    for pool in catalogue.pools:
        own = pool.definition.architectures or catalogue.config.architectures
        found = [_check(history, pool, arch) for arch in own or [a for a in Arch if pool.source(a)]]
        warnings.update(*(one.warnings for one in found))
        if own:
            faults.update(*(one.faults for one in found))
        else:
            # Nobody says which architectures the pool has, so only what is wrong for every one of them is wrong.
            faults |= set.intersection(*(set(one.faults) for one in found))
    output.faults(sorted(warnings), "warning")
    output.faults(sorted(faults), "error")
    count = len(catalogue.pools) + len(catalogue.broken)
    pools = f"{count} pool{'' if count == 1 else 's'}"
    if faults:
        output.say(f"{len(faults)} fault{'' if len(faults) == 1 else 's'} in {pools}.", style="bold red")
        ctx.exit(1)
    if not count:
        output.note(f"no MachineOSConfig found below {path}", style="yellow")
    output.say(f"{pools}, no faults.", style="bold green")
