"""What is recorded in a pull request of ours, and waits for people to merge it.

Belongs here: finding the request, reading its branch, and which of its records count. Does not belong here: opening or
changing one (`proposing`).

Nothing is delivered by what is found here: tags and clusters follow what the target branch records. It counts where
passes must agree with each other while people take their time: an image is looked for under its digest too, an epoch
that has begun goes on, locked bases stay, and a record keeps the commit that led to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.core.model import Arch
from reconciler.core.plan import Action, Plan
from reconciler.core.pool import Pool
from reconciler.core.proposal import key, key_in
from reconciler.core.status import PoolRecord
from reconciler.errors import Disposition, GitError
from reconciler.ports import Repository
from reconciler.ports.forge import Proposal, Proposals, Stage
from reconciler.reconcile.history import History, Records


@dataclass(frozen=True, slots=True)
class Ask:
    """A pull request that people have to do something about. `pools` are those whose images wait for that. `declined`
    says that somebody closed it without merging, and that it has been the answer to these very images."""

    number: int
    name: str
    url: str
    pools: frozenset[str] = frozenset()
    declined: bool = False

    @property
    def why(self) -> str:
        """What is waited for."""
        if self.declined:
            return f"{self.name} was closed without a merge: reopen it, or change what is to be built"
        return f"waiting for the merge of {self.name}"

    def document(self) -> dict[str, Any]:
        """As JSON values (`pullRequest` in the schemas)."""
        return {
            "name": self.name,
            "url": self.url,
            "pools": sorted(self.pools),
            "declined": self.declined,
            "message": self.why,
        }


@dataclass(frozen=True, slots=True)
class Pending:
    """The open request, if there is one; the commit at its branch's tip and its records, as far as these count.

    `known` says whether the forge could be asked.
    """

    request: Proposal | None = None
    tip: str = ""
    records: Mapping[str, PoolRecord] = field(default_factory=dict)
    known: bool = True


def find(
    forge: Proposals,
    repository: Repository,
    history: History,
    branches: tuple[str, str],
    status: tuple[str, str],
) -> Pending:
    """The request from one of the `branches` into the other. `status` is the target's tip and where its status files
    are. Raises GitUnavailable, ForgeUnavailable, ForgeError.

    A record counts if the target has not been given another one of that pool since the request's branch left it.
    """
    branch, target = branches
    tip, path = status
    request = forge.proposal(branch, target)
    if request is None:
        return Pending()
    try:
        head = repository.fetch(branch)
        parents = repository.parents(head)
    except GitError as error:
        if error.disposition is Disposition.RETRY:
            raise
        return Pending(request)  # somebody deleted the branch: it is pushed again
    if len(parents) != 1:
        return Pending(request, head)  # somebody else's commit: it is overwritten
    now, then = history.records(tip, path), history.records(parents[0], path)
    return Pending(request, head, _counting(history.records(head, path), now, then))


def _counting(proposed: Records, now: Records, then: Records) -> Mapping[str, PoolRecord]:
    return {
        pool: record
        for pool, record in proposed.pools.items()
        if now.pools.get(pool) == then.pools.get(pool) != record
    }


def waiting(
    forge: Proposals,
    branches: tuple[str, str],
    pending: Pending,
    plan: Plan,
    wanted: Mapping[str, Mapping[Arch, str]],
) -> Ask | None:
    """What people have to do, as far as that can be told without changing anything. `wanted` are the images that are
    to be recorded, of pools that have all of theirs. Raises ForgeUnavailable, ForgeError."""
    request = pending.request
    if request is not None:
        names = frozenset(pending.records) & {pool.name for pool in plan.pools}
        return Ask(request.number, request.name, request.url, names)
    return declined(forge, branches, wanted) if wanted and pending.known else None


def declined(
    forge: Proposals, branches: tuple[str, str], wanted: Mapping[str, Mapping[Arch, str]]
) -> Ask | None:
    """The last request, if somebody closed it without merging and it was for these very images. Raises
    ForgeUnavailable, ForgeError."""
    past = forge.past_proposal(*branches)
    if past is None or past.stage is not Stage.CLOSED or key_in(past.body) != key(wanted):
        return None
    return Ask(past.number, past.name, past.url, frozenset(wanted), declined=True)


def unrecorded(
    plan: Plan, pools: Mapping[str, Pool], records: Mapping[str, PoolRecord]
) -> dict[str, dict[Arch, str]]:
    """The images of pools that have all of theirs and are recorded with others."""
    found = {}
    for planned in plan.pools:
        live = [cell for cell in planned.cells if cell.action is not Action.DROP]
        if (
            planned.name in pools
            and live
            and all(cell.action is Action.REUSE and cell.image for cell in live)
        ):
            repository = pools[planned.name].definition.push.repository
            images = {cell.arch: f"{repository}@{(cell.image or '').partition('@')[2]}" for cell in live}
            record = records.get(planned.name)
            if record is None or {e.arch: e.image for e in record.architectures} != images:
                found[planned.name] = images
    return found
