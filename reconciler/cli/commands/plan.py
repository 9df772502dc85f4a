"""`reconciler plan`."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from pathlib import Path

import click

from reconciler.cli import local, planning
from reconciler.cli.output import Output
from reconciler.core import render
from reconciler.core.comment import LIMITS
from reconciler.core.model import Arch
from reconciler.core.plan import Action
from reconciler.reconcile.bases import Bases
from reconciler.reconcile.targets import Scope


class ArchType(click.ParamType[Arch]):
    """An architecture in any known spelling."""

    name = "arch"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Arch:
        """Read it, or say which spellings there are."""
        try:
            return Arch.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(
    epilog="""\b
Examples:
  reconciler plan                                   what the daemon would do at HEAD
  reconciler plan --base main --head HEAD           what this branch causes
  reconciler plan --base HEAD~1 --output json --detailed-exitcode
  reconciler plan --base HEAD^1 --output markdown   the comment for a pull request, at its merge result
"""
)
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Git repository, or a folder in one.",
)
@click.option("--base", metavar="REV", help="Compare with this revision instead of with the recorded status.")
@click.option("--head", metavar="REV", default="HEAD", show_default=True, help="The revision to plan.")
@click.option(
    "--arch",
    "architectures",
    metavar="ARCH",
    type=ArchType(),
    multiple=True,
    help="Only these architectures.",
)
@click.option("--pool", "pools", metavar="NAME", multiple=True, help="Only these pools.")
@click.option(
    "--output", "form", type=click.Choice(["table", "json", "markdown"]), default="table", show_default=True
)
@click.option(
    "--forge",
    type=click.Choice(sorted(LIMITS)),
    default="github",
    show_default=True,
    help="With --output markdown: keep the comment as short as this forge wants it.",
)
@click.option(
    "--instance",
    type=planning.Instance(),
    default="default",
    show_default=True,
    help="With --output markdown: the daemon whose preview it is; see `reconciler preview`.",
)
@click.option(
    "--resolve-bases", is_flag=True, help="Ask registries what base images are today (needs the network)."
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --resolve-bases: the configuration whose registry settings are used.",
)
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when something would be built.")
@click.pass_context
def plan(
    ctx: click.Context,
    repo: Path,
    base: str | None,
    head: str,
    architectures: tuple[Arch, ...],
    pools: tuple[str, ...],
    form: str,
    forge: str,
    instance: str,
    resolve_bases: bool,
    config: Path | None,
    detailed_exitcode: bool,
) -> None:
    """Show what will be rebuilt, and why. Offline, unless --resolve-bases is given; nothing is changed.

    Exit status: 0 a plan was made; 1 an error, or a definition has faults; 2 with --detailed-exitcode, something would
    be built.
    """
    gc.disable()  # a plan is made once and then everything goes; looking for cycles on the way takes a tenth of it
    output = Output()
    with ExitStack() as stack:
        history = stack.enter_context(local.history(repo))
        bases = None
        if resolve_bases:
            from reconciler.cli import compose  # an offline plan does without its libraries

            bases = Bases(stack.enter_context(compose.registry(config)))
        made = planning.make(history, head, base, Scope(architectures, pools=frozenset(pools)), bases)
    unknown = sorted(set(pools) - {p.name for p in made.pools} - set(made.removed))
    if form == "json":
        click.echo(render.json_text(render.document(made)))
    elif form == "markdown":
        options = _options(architectures, pools, resolve_bases, config)
        text = planning.markdown(made, history, forge, options, instance)
        click.echo(text.encode(), nl=False)  # the same bytes in every locale
    else:
        output.plan(made)
    for name in unknown:
        output.note(f"no pool named {name} in {head}", style="yellow")
    if made.errors or unknown:
        ctx.exit(1)
    if detailed_exitcode and made.summary[Action.BUILD]:
        ctx.exit(2)


def _options(
    architectures: tuple[Arch, ...],
    pools: tuple[str, ...],
    resolve_bases: bool,
    config: Path | None,
) -> tuple[str, ...]:
    """The options that a comment depends on, beside the commits."""
    return (
        *(word for arch in architectures for word in ("--arch", arch.value)),
        *(word for pool in pools for word in ("--pool", pool)),
        *(("--resolve-bases",) if resolve_bases else ()),
        *(("--config", str(config)) if config else ()),
    )
