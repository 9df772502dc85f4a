"""`reconciler rollback`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from reconciler.adapters.git.author import Author
from reconciler.cli import local, planning
from reconciler.cli.output import Output
from reconciler.core.plan import Action
from reconciler.reconcile import rollback as rolling
from reconciler.reconcile.targets import Scope


@click.command(
    epilog="""\b
Examples:
  reconciler rollback worker                 to what led to the image before the recorded one
  reconciler rollback worker --to v1.4       to what stood at a tag, a branch or a commit
"""
)
@click.argument("pool")
@click.option("--to", metavar="REV", help="Go back to what stood there, instead of one image back.")
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Your clone, or a folder in it.",
)
def rollback(pool: str, to: str | None, repo: Path) -> None:
    """Take the definition of POOL back, in a commit of your own on the branch that is checked out.

    All files of the pool's folder become what they were, and nothing else changes. The commit is made by git as you
    have it set up; push it, or open a pull request. The image of that time is found again and not rebuilt, unless what
    it was made from has changed outside of the folder: the plan says so.

    Exit status: 0 there is a commit, or nothing to go back; 1 an error.
    """
    output, own = Output(), dict(os.environ)
    with local.history(repo) as history:
        head = history.objects.resolve("HEAD")
        way = rolling.way(history, head, pool, history.objects.resolve(to) if to else None)
        message = f"Roll back {pool} to {way.commit[:12]}"
        changed = Author(repo, own).restore(way.commit, way.folders, way.spared, message)
        if not changed:
            output.say(f"pool {pool} is as it was at {way.commit[:12]}: there is nothing to roll back")
            return
        made = planning.make(history, history.objects.resolve("HEAD"), None, Scope(pools=frozenset((pool,))))
    output.plan(made)
    output.note(
        f"{message}: committed, {len(changed)} file{'' if len(changed) == 1 else 's'} changed; now push it"
    )
    if made.summary[Action.BUILD]:
        output.note(
            "an image would be built: more has changed than the folder, or its image is not recorded here",
            style="yellow",
        )
