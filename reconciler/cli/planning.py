"""What the commands that plan offline share: making the plan, and its comment.

Belongs here: composition. Does not belong here: options, printing, posting.
"""

from __future__ import annotations

import re
from typing import Final

import click

from reconciler import __version__
from reconciler.core.comment import LIMITS, Origin, comment
from reconciler.core.plan import Plan
from reconciler.reconcile.bases import Bases
from reconciler.reconcile.history import History
from reconciler.reconcile.preview import Preview
from reconciler.reconcile.targets import Scope

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")


def make(
    history: History,
    head: str,
    base: str | None = None,
    scope: Scope | None = None,
    bases: Bases | None = None,
) -> Plan:
    """The plan of one revision against another, or against what is recorded. Raises GitError."""
    resolve = history.objects.resolve
    preview = Preview(history, scope or Scope(), bases)
    return preview.plan(resolve(head), resolve(base) if base is not None else None)


def markdown(
    made: Plan, history: History, forge: str, options: tuple[str, ...] = (), instance: str = "default"
) -> str:
    """A plan as the comment for a pull request on a forge. `options` are those it was made with, beside the commits."""
    base = ("--base", made.base) if made.base else ()
    words = (
        *("reconciler", "plan", *base, "--head", made.head, "--output", "markdown", *options),
        *(("--forge", forge) if forge != "github" else ()),
        *(("--instance", instance) if instance != "default" else ()),
    )
    resolved = "--resolve-bases" in options
    origin = Origin(__version__, history.engine.version, words, history.path(), instance, resolved)
    return comment(made, origin, LIMITS[forge])


class Instance(click.ParamType[str]):
    """The name of an instance, as in the configuration: a DNS label."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check it."""
        if len(value) > 63 or not _LABEL.fullmatch(value):
            self.fail(f"{value!r} is not a DNS label: lower-case letters, digits and '-'", param, ctx)
        return value
