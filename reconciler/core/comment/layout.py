"""The whole comment: verdict first, then the matrix, the reasons, the details, and where all this comes from.

The same plan gives the same bytes, on a person's machine, in CI and from the daemon: nothing in here asks the time or
the place. Belongs here: the order of the parts, and what makes the comment known again. Does not belong here: posting.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from reconciler.core.comment import parts
from reconciler.core.comment.escape import code, fence, visible
from reconciler.core.comment.fit import fit, plural, size
from reconciler.core.model import GROUP
from reconciler.core.names import shortened
from reconciler.core.plan import Action, Plan, PoolPlan

LIMITS: Final = {"gitea": 65_536, "github": 65_536, "gitlab": 1_000_000}
"""Bytes that a comment may have. GitHub takes 65,536 characters, GitLab 1,000,000; Gitea and Forgejo name no limit, and
a longer comment than GitHub's is not read."""
FOOT: Final = "---\n"
"""What the last part begins with, which says where the comment comes from."""
_LEAST: Final = 8_192
_CUT: Final = "*Cut to {} bytes. `reconciler plan --output json` leaves nothing out.*\n\n"
_COMMAND: Final = 2_048
_SHORT: Final = 12


@dataclass(frozen=True, slots=True)
class Origin:
    """What a comment says of how its plan was made.

    `version` is the reconciler's, `engine` that of what digests depend on. `command` makes the same comment again, run
    in `folder` of the repository ('' is its root). `instance` tells comments of several reconcilers apart. `resolved`
    says whether registries were asked for bases. Where the commit that was planned is a merge that only we have, `tip`
    is what was merged into the base, and `before` are the commands that make it. `exact` says whether the command makes
    the whole comment again, and not only its plan.
    """

    version: str
    engine: str
    command: tuple[str, ...]
    folder: str = ""
    instance: str = "default"
    resolved: bool = False
    tip: str = ""
    before: tuple[tuple[str, ...], ...] = ()
    exact: bool = True


def marker(instance: str = "default", folder: str = "") -> str:
    """The first line of a comment, which nobody sees: it finds the comment again, for it says whose it is and for which
    folder."""
    return f"<!-- {GROUP}/preview:v1:{whose(instance, folder)} -->"


def whose(instance: str, folder: str) -> str:
    """Which reconciler, and which folder, as an HTML comment may say it."""
    name = quote(instance.encode("utf-8", "surrogateescape"), safe="")
    path = quote(folder.encode("utf-8", "surrogateescape"), safe="/")
    # Two hyphens could end an HTML comment.
    key = ":".join(shortened(re.sub("--+", lambda m: "%2D" * len(m[0]), part), 120) for part in (name, path))
    return f"{key}/"


def comment(
    plan: Plan, origin: Origin, limit: int = LIMITS["github"], minutes: parts.Minutes = MappingProxyType({})
) -> str:
    """The comment, in at most `limit` bytes of UTF-8. What does not fit is left out in whole items, and that is said;
    the verdict stays, and of the matrix as much as possible. `minutes` are shown with the images that are built.

    Raises ValueError for a limit that even a comment without details does not fit.
    """
    if limit < _LEAST:
        raise ValueError(f"a comment needs {_LEAST} bytes, and may have {limit}")
    head, foot, cut = _head(plan, origin), _foot(plan, origin), _CUT.format(f"{limit:,}")
    numbers = parts.numbered(plan)
    body, is_cut = fit(
        [
            parts.matrix(plan, numbers, minutes),
            parts.reasons(numbers),
            parts.removed(plan),
            parts.faults(plan, numbers),
            parts.stays(plan),
            parts.difference(plan),
            parts.warnings(plan),
        ],
        limit - size(head) - size(foot) - size(cut),
    )
    return head + body + (cut if is_cut else "") + foot


def _head(plan: Plan, origin: Origin) -> str:
    return f"{marker(origin.instance, origin.folder)}\n### {_verdict(plan)}\n\n{_outcome(plan)}\n\n"


def _verdict(plan: Plan) -> str:
    """One line of numbers."""
    summary = plan.summary
    total = sum(n for action, n in summary.items() if action is not Action.DROP)
    extra = [
        f"{count} {word}"
        for count, word in (
            (summary[Action.BLOCKED], "blocked"),
            (summary[Action.DROP], "dropped"),
            (len(plan.removed), f"{plural('pool', len(plan.removed))} gone"),
            (len(plan.errors), plural("fault", len(plan.errors))),
        )
        if count
    ]
    first = f"{summary[Action.BUILD]} of {total} {plural('image', total)} would be built"
    return "; ".join((first, *extra))


def _outcome(plan: Plan) -> str:
    """What follows a merge."""
    builds = plan.summary[Action.BUILD]
    held = sum(_has(pool, Action.BLOCKED) for pool in plan.pools)
    fresh = sum(
        _has(pool, Action.BUILD, Action.DROP) and not _has(pool, Action.BLOCKED) for pool in plan.pools
    )
    said = [
        f"Merged, this builds {builds} {plural('image', builds)}"
        if builds
        else "Merged, this rebuilds nothing"
    ]
    if fresh:
        said.append(f"{fresh} {plural('pool', fresh)} would get a new manifest list")
    if held:
        said.append(f"{held} {plural('pool', held)} would keep the present images until nothing is blocked")
    return "; ".join(said) + "."


def _has(pool: PoolPlan, *actions: Action) -> bool:
    return any(cell.action in actions for cell in pool.cells)


def _foot(plan: Plan, origin: Origin) -> str:
    against = f"on {_digits(plan.base)}" if plan.base else "compared with the recorded status"
    if plan.base and origin.tip:
        against = f"merged into {_digits(plan.base)}"
    bases = (
        "Base images as registries had them when this was made"
        if origin.resolved
        else "Base images as recorded: no registry was asked"
    )
    said = (
        f"Head {_digits(origin.tip or plan.head)} {against}, plan {_digits(plan.digest.partition(':')[2])}, "
        f"reconciler {code(origin.version)}, engine {code(origin.engine)}. {bases}. "
        "Nothing from the repository was run."
    )
    commands = [visible(shlex.join(words), _COMMAND) for words in (*origin.before, origin.command)]
    where = f" in {code(origin.folder)}" if origin.folder else ""
    what = "The same comment, byte for byte" if origin.exact else "The same plan"
    return f"{FOOT}{said} {what}{where}:\n\n{fence(commands, 'sh')}"


def _digits(digest: str) -> str:
    return code(digest[:_SHORT])
