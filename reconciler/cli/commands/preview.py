"""`reconciler preview`."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.forge import Dialect, Gitea, GitHub, GitLab, HttpForge, Rehearsal
from reconciler.adapters.forge.dialect import Call
from reconciler.adapters.forge.token import TokenFile
from reconciler.adapters.forge.wire import api_url
from reconciler.cli import local, planning
from reconciler.cli.output import Output
from reconciler.core.comment import marker
from reconciler.core.plan import Plan
from reconciler.errors import GitError, ReconcilerError
from reconciler.ports import Objects
from reconciler.ports.forge import Forge, Pull
from reconciler.reconcile.history import History
from reconciler.reconcile.posting import Posted, Posting, Result
from reconciler.redaction import Redactor

DIALECTS: Final[dict[str, Callable[[str], Dialect]]] = {"gitea": Gitea, "github": GitHub, "gitlab": GitLab}
_SHOWN: Final = 200
"""Characters of a text that --dry-run shows."""


@click.command(
    epilog="""\b
Examples:
  reconciler preview --forge github --url https://api.github.com --repository acme/machine-os \\
      --pull 7 --token-file /run/secrets/token --base HEAD^1
  reconciler preview --forge gitlab --url https://gitlab.example.com/api/v4 --repository os/machine-os \\
      --pull 7 --dry-run
"""
)
@click.option(
    "--forge", "kind", type=click.Choice(sorted(DIALECTS)), required=True, help="Gitea includes Forgejo."
)
@click.option(
    "--url", metavar="API_URL", required=True, help="The forge's API, such as https://api.github.com."
)
@click.option(
    "--repository", metavar="OWNER/NAME", required=True, help="The repository that was asked to merge."
)
@click.option(
    "--pull", "number", metavar="NUMBER", type=click.IntRange(min=1), required=True, help="The pull request."
)
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Holds the token, which may comment and set commit statuses. Not needed with --dry-run.",
)
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Git repository, or a folder in one.",
)
@click.option("--base", metavar="REV", help="Compare with this revision instead of with the recorded status.")
@click.option(
    "--head",
    metavar="REV",
    default="HEAD",
    show_default=True,
    help="The revision to plan: the result of merging, or the tip of the pull request's branch.",
)
@click.option(
    "--instance",
    type=planning.Instance(),
    default="default",
    show_default=True,
    help="Whose preview it is: as many as there are reconcilers for the repository.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the requests instead of sending them: offline, as if nothing were posted yet.",
)
@click.pass_context
def preview(
    ctx: click.Context,
    kind: str,
    url: str,
    repository: str,
    number: int,
    token_file: Path | None,
    repo: Path,
    base: str | None,
    head: str,
    instance: str,
    dry_run: bool,
) -> None:
    """Show on a pull request what merging it would rebuild: one comment, kept up to date, and commit statuses.

    Plans as `reconciler plan` does: from Git objects alone, running nothing of the repository. Only our own comment is
    ever edited. Exit status: 0 posted, or there was nothing to post any more; 1 an error, or a definition has faults.
    """
    gc.disable()  # as in `plan`
    if token_file is None and not dry_run:
        raise click.UsageError("--token-file is needed, unless with --dry-run")
    output, dialect = Output(), DIALECTS[kind](repository)
    api_url(url)
    with local.history(repo) as history:
        planned = history.objects.resolve(head)
        with _forge(dialect, url, None if dry_run else token_file, planned) as forge:
            pull = forge.pull(number)
            if not pull.is_open:
                output.note(f"pull request {number} is not open: nothing is posted")
                return
            _check(history.objects, planned, pull)
            name = ":".join(filter(None, (instance, history.path())))
            posting = Posting(forge, pull, marker(instance, history.path()), name)
            posting.start()
            made, body = _made(posting, history, planned, base, kind, instance)
            done = posting.finish(body, made)
    if not dry_run:
        _tell(output, number, done)
    if posting.refused:
        raise posting.refused
    if made.errors:
        ctx.exit(1)


def _made(
    posting: Posting, history: History, head: str, base: str | None, kind: str, instance: str
) -> tuple[Plan, str]:
    """The plan and its comment. When there is none, that is what the status says."""
    try:
        made = planning.make(history, head, base)
        return made, planning.markdown(made, history, kind, instance=instance)
    except ReconcilerError as error:
        posting.fail(f"no plan could be made: {error.reason}")
        raise


def _check(objects: Objects, planned: str, pull: Pull) -> None:
    """Raise GitError when what is to be planned is not what the pull request would merge."""
    if planned == pull.head or pull.head in objects.parents(planned):
        return
    if objects.has(pull.head) and objects.is_ancestor(pull.head, planned):
        return
    raise GitError(
        f"{planned[:12]} does not contain {pull.head[:12]}, which is the head of pull request {pull.number}",
        hint="fetch the pull request, and name what would be merged as --head; if somebody pushed just now, run again",
    )


@contextmanager
def _forge(dialect: Dialect, url: str, token_file: Path | None, head: str) -> Iterator[Forge]:
    """The forge, or without a token file a rehearsal of it."""
    if token_file is None:
        yield Rehearsal(dialect, head, lambda call: click.echo(_shown(call)))
        return
    redactor = Redactor()
    with HttpForge(dialect, url, TokenFile(token_file, redactor), SystemClock(), redactor=redactor) as forge:
        yield forge


def _tell(output: Output, number: int, done: Result) -> None:
    if done.posted is Posted.SUPERSEDED:
        output.note(f"somebody pushed to pull request {number} in the meantime: its comment is left as it is")
    else:
        output.say(f"comment {done.posted.value}" + (f": {done.url}" if done.url else ""))
    output.table([(status.context, status.state.value, status.description) for status in done.statuses])
    if done.left:
        output.note(f"{done.left} more pools have no status of their own")


def _shown(call: Call) -> str:
    """A request in one line, with every long text cut."""
    line = f"{call.method} {call.path}"
    return line if call.body is None else f"{line} {json.dumps(_cut(call.body), ensure_ascii=False)}"


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    if isinstance(value, str) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]}… ({len(value.encode())} bytes)"
    return value
