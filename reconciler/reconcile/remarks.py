"""What a preview says beside its plan: how long building takes, who else touches the pools, and what came of it.

Belongs here: notes for `core.comment.noted`, worked out of values. Does not belong here: finding the values, posting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.core.comment import code
from reconciler.core.inputs import canonical_json, digest_of
from reconciler.core.model import Arch
from reconciler.core.plan import Action, Plan

_MOST_PULLS: Final = 20
_MOST_POOLS: Final = 5
_NAME: Final = 80
_SHORT: Final = 12

Minutes = Mapping[tuple[str, Arch], int]


@dataclass(frozen=True, slots=True)
class Promise:
    """What was shown of a pull request: its `head`, the commit of the target branch that it was merged into (`base`),
    the plan's digest, and for each pool that it touches the digest of its definitions."""

    head: str
    base: str
    digest: str
    touched: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Deed:
    """A plan that the daemon acted on: its commit, its digest, each pool's, and how many images each action has."""

    commit: str
    digest: str
    pools: Mapping[str, str]
    summary: Mapping[Action, int]


@dataclass(frozen=True, slots=True)
class Merge:
    """How a pull request was merged: the commit that came of it, what that was made on, and the pull request's head in
    the end."""

    commit: str
    parents: tuple[str, ...]
    head: str


def promise(plan: Plan, head: str, base: str) -> Promise:
    """What a plan promises. A pool counts as touched when an image of it does not stay as it is."""
    touched = {pool.name for pool in plan.pools if any(c.action is not Action.REUSE for c in pool.cells)}
    digests = _digests(plan)
    return Promise(head, base, plan.digest, {name: digests[name] for name in sorted(touched)})


def deed(plan: Plan) -> Deed:
    """A plan as it was acted on."""
    return Deed(plan.head, plan.digest, _digests(plan), plan.summary)


def _digests(plan: Plan) -> dict[str, str]:
    """Of each pool the digest of its definitions."""
    return {
        pool.name: digest_of(canonical_json({c.arch.value: c.definition for c in pool.cells}))
        for pool in plan.pools
    }


def expected(plan: Plan, minutes: Minutes) -> str:
    """How long the builds take together, going by earlier ones; '' when none of them was ever seen."""
    cells = [
        (pool.name, cell.arch) for pool in plan.pools for cell in pool.cells if cell.action is Action.BUILD
    ]
    known = [minutes[cell] for cell in cells if cell in minutes]
    if not known:
        return ""
    left = len(cells) - len(known)
    said = f"Going by earlier builds, about {_count(sum(known), 'minute')} of building"
    return said + (f", and {_count(left, 'image')} that nobody knows that of." if left else ".")


def neighbours(others: Mapping[int, Collection[str]], sign: str) -> str:
    """Other open pull requests, by number, with the pools that they touch too; `sign` is what a number begins with on
    this forge. '' when there are none."""
    if not others:
        return ""
    said = [f"{sign}{number} ({_names(pools)})" for number, pools in sorted(others.items())]
    left = len(said) - _MOST_PULLS
    more = f", and {left} more" if left > 0 else ""
    return f"Also open, and touching the same pools: {', '.join(said[:_MOST_PULLS])}{more}."


def unplanned(head: str, message: str) -> str:
    """That there is no plan of a head, for a comment that still shows an earlier one."""
    return f"**No plan could be made of {_digits(head)}**, so this is an earlier one: {code(message)}."


def outcome(shown: Promise, merge: Merge, done: Deed) -> str:
    """Whether a merged pull request was planned as its preview had said, and if not, why."""
    counted = ", ".join(f"{n} {action}" for action, n in done.summary.items() if n) or "no image"
    at = f"in the plan at {_digits(done.commit)} ({counted})"
    if done.digest == shown.digest:
        return f"**Merged as {_digits(merge.commit)}: as previewed**, {at}."
    other = sorted(name for name, digest in shown.touched.items() if done.pools.get(name) != digest)
    reasons = list(_reasons(shown, merge, done))
    why = f" {_capital('; '.join(reasons))}." if reasons else ""
    if not other:
        said = (
            f"**Merged as {_digits(merge.commit)}: its own pools as previewed**, {at}; other pools are not."
        )
    else:
        said = f"**Merged as {_digits(merge.commit)}: not as previewed**, {at}; other definitions: {_names(other)}."
    return said + why


def _reasons(shown: Promise, merge: Merge, done: Deed) -> Iterator[str]:
    if merge.head != shown.head:
        yield f"its last push, {_digits(merge.head)}, was not previewed"
    if merge.commit != merge.head and merge.parents and shown.base != merge.parents[0]:
        yield f"it was merged into {_digits(merge.parents[0])}, and had been previewed on {_digits(shown.base)}"
    if done.commit != merge.commit:
        yield "other commits came before the daemon planned"


def _names(pools: Collection[str]) -> str:
    shown = ", ".join(code(name, _NAME) for name in sorted(pools)[:_MOST_POOLS])
    left = len(pools) - _MOST_POOLS
    return f"{shown} and {left} more" if left > 0 else shown


def _digits(commit: str) -> str:
    return code(commit[:_SHORT])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
