"""A preview on its pull request: one comment that is kept up to date, and commit statuses that never promise too much.

Belongs here: what is posted in which order, so that whatever breaks off half-way claims nothing that is not so.
Does not belong here: what the comment says (`core.comment`), and how a forge is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from posixpath import dirname
from typing import Final

from reconciler.core import render
from reconciler.core.model import Arch
from reconciler.core.names import shortened
from reconciler.core.plan import Action, Plan, PoolPlan
from reconciler.errors import ForgeError, ForgeUnavailable
from reconciler.ports.forge import DESCRIPTION, Comment, Forge, Pull, State, Status

MOST_POOLS: Final = 30
"""Pools that have a status of their own: each is set twice, and GitHub takes 80 such requests a minute. All others are
in the aggregate."""
_CONTEXT: Final = 200
_OUTDATED: Final = "*Outdated: this preview is kept up to date in [an earlier comment]({}).*"
_OUTDATED_HERE: Final = "*Outdated: this preview is kept up to date in an earlier comment.*"


class Posted(StrEnum):
    """What became of the comment."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    SUPERSEDED = "superseded"
    """Somebody pushed in the meantime: the preview of what they pushed is the one to show."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was done. `statuses` are those that stand now, `left` counts pools without one of their own."""

    posted: Posted
    url: str
    statuses: tuple[Status, ...]
    left: int


def aggregate(name: str) -> str:
    """The context of the status over all pools. `name` tells reconcilers of one repository apart."""
    return shortened(f"reconciler/{name}", _CONTEXT)


def verdicts(plan: Plan, name: str) -> tuple[Status, ...]:
    """What a plan comes to: the aggregate, then the pools, those with the most to say first."""
    pools = [_verdict(pool, plan, name) for pool in plan.pools]
    failed = plan.errors or any(status.state is State.FAILURE for status, _ in pools)
    whole = Status(aggregate(name), State.FAILURE if failed else State.SUCCESS, _line(_whole(plan)))
    pools.sort(key=lambda pair: (pair[0].state is not State.FAILURE, not pair[1], pair[0].context))
    return (whole, *(status for status, _ in pools))


class Posting:
    """Posts one preview. `marker` is the comment's first line; only a comment of ours that begins with it is touched.

    All methods raise ForgeUnavailable and ForgeError. Whatever they did stands, and doing all again is harmless. Only a
    refusal to set a status, or to show those that are set, keeps no comment back: `refused` is the first one.
    """

    def __init__(self, forge: Forge, pull: Pull, marker: str, name: str) -> None:
        self._forge = forge
        self._pull = pull
        self._marker = marker
        self._name = name
        self._untaken: set[str] = set()
        self.refused: ForgeError | None = None

    def start(self) -> None:
        """Say that a preview is on its way, before anything of it is known."""
        self._set(Status(aggregate(self._name), State.PENDING, "working out what would be built"))

    def fail(self, message: str) -> None:
        """Say that there will be no preview."""
        self._set(Status(aggregate(self._name), State.FAILURE, _line(message)))

    def finish(self, body: str, plan: Plan) -> Result:
        """Post the comment and the statuses. A status says how it ended only when the comment is there; failures come
        first, and the aggregate last."""
        whole, *pools = verdicts(plan, self._name)
        shown, left = pools[:MOST_POOLS], max(0, len(pools) - MOST_POOLS)
        known = self._known()
        due = [*(s for s in shown if known.get(s.context) != s), *self._orphans(known, pools)]
        mark = known.get(whole.context)
        if due and (mark is None or mark.state is not State.PENDING):
            self.start()
        for status in due:
            before = known.get(status.context)
            if before is None or before.state is not State.PENDING:
                self._set(Status(status.context, State.PENDING, "the preview is being posted"))
        posted, url = self._comment(body)
        for status in due:
            self._set(status)
        if due or mark != whole:
            self._set(whole)
        stand = tuple(status for status in (whole, *shown) if status.context not in self._untaken)
        return Result(posted, url, stand, left)

    def amend(self, change: Callable[[str], str]) -> bool:
        """Change our comment, if there is one, by its present text; says whether there is. No status is touched."""
        mine = self._mine()
        for comment in mine[:1]:
            body = change(comment.body)
            if not same_text(comment.body, body):
                self._forge.edit_comment(self._pull.number, comment.id, body)
        return bool(mine)

    def _known(self) -> dict[str, Status]:
        """What we said of this head before. Where we may not read it, nothing counts as said, and all is said again."""
        try:
            return {status.context: status for status in self._forge.statuses(self._pull)}
        except ForgeUnavailable:
            raise
        except ForgeError as error:
            self.refused = self.refused or error
            return {}

    def _set(self, status: Status) -> None:
        """Set a status. One that was refused is not tried again, and no pool's when the aggregate was: they would be
        refused as well. The aggregate always is, for a stale one must not stand if there is a way."""
        whole = aggregate(self._name)
        if status.context != whole and self._untaken & {status.context, whole}:
            self._untaken.add(status.context)
            return
        try:
            self._forge.set_status(self._pull, status)
        except ForgeUnavailable:
            raise
        except ForgeError as error:
            self.refused = self.refused or error
            self._untaken.add(status.context)
        else:
            self._untaken.discard(status.context)

    def _comment(self, body: str) -> tuple[Posted, str]:
        if self._forge.pull(self._pull.number).head != self._pull.head:
            return Posted.SUPERSEDED, ""
        number = self._pull.number
        mine = self._mine()
        if not mine:
            return Posted.CREATED, self._forge.create_comment(number, body).url
        kept, *others = mine
        for other in others:
            told = _OUTDATED.format(kept.url) if kept.url else _OUTDATED_HERE
            self._forge.edit_comment(number, other.id, told)
        if same_text(kept.body, body):
            return Posted.UNCHANGED, kept.url
        return Posted.UPDATED, self._forge.edit_comment(number, kept.id, body).url

    def _mine(self) -> list[Comment]:
        """Our comments with our marker, the oldest first. Anybody can write the marker; only we are its author."""
        me = self._forge.who()
        found = [
            comment
            for comment in self._forge.comments(self._pull.number)
            if comment.author == me and _first_line(comment.body) == self._marker
        ]
        return sorted(found, key=lambda comment: comment.id)

    def _orphans(self, known: dict[str, Status], pools: list[Status]) -> list[Status]:
        """An end for what an earlier preview of this commit said of pools that it does not have any more."""
        prefix, wanted = f"{aggregate(self._name)}/", {status.context for status in pools}
        return [
            Status(context, State.SUCCESS, "not in the present preview")
            for context, status in sorted(known.items())
            if context.startswith(prefix) and context not in wanted and status.state is not State.SUCCESS
        ]


def same_text(one: str, other: str) -> bool:
    """Whether a comment's text is one that was sent: forges change line ends, and white space around it."""
    return _plain(one) == _plain(other)


def _line(text: str) -> str:
    """A status' description: printable, in one line, and short enough."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= DESCRIPTION else flat[: DESCRIPTION - 1] + "…"


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _first_line(text: str) -> str:
    return text.lstrip().partition("\n")[0].rstrip()


def _verdict(pool: PoolPlan, plan: Plan, name: str) -> tuple[Status, bool]:
    """A pool's status, and whether the change does anything to it."""
    arches: dict[Action, list[Arch]] = {}
    for cell in pool.cells:
        arches.setdefault(cell.action, []).append(cell.arch)
    faults = sum(_concerns(error.path, pool) for error in plan.errors)
    said = [f"{action.value} {', '.join(arches[action])}" for action in Action if action in arches]
    if faults:
        said.insert(0, f"{faults} fault{'' if faults == 1 else 's'}")
    failed = bool(faults) or Action.BLOCKED in arches
    context = shortened(f"{aggregate(name)}/{pool.name}", _CONTEXT)
    words = _line("; ".join(said) or "no architecture")
    status = Status(context, State.FAILURE if failed else State.SUCCESS, words)
    return status, Action.BUILD in arches or Action.DROP in arches


def _concerns(path: str, pool: PoolPlan) -> bool:
    folder = dirname(pool.path)
    return path == pool.path or bool(folder and path.startswith(f"{folder}/"))


def _whole(plan: Plan) -> str:
    faults = len(plan.errors)
    said = render.verdict(plan)
    return f"{faults} fault{'' if faults == 1 else 's'}; {said}" if faults else said
