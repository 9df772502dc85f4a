"""Writing back by a pull request: one per instance, kept up to date in place.

Belongs here: its branch, its text, and when it is opened, updated, left alone and closed. Does not belong here: what is
recorded (`writing`), and what of it counts before the merge (`pending`).

The branch is ours alone and made anew from the target's tip each time; it is one commit, made of nothing but what it
records, so that doing it again changes nothing: after a crash, a lost answer, or by two daemons at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from reconciler.core import proposal
from reconciler.core.proposal import Change
from reconciler.core.status import PoolRecord
from reconciler.errors import Disposition, ForgeError, GitError
from reconciler.ports import PushOutcome
from reconciler.ports.forge import Proposal, Proposals
from reconciler.reconcile import pending, record
from reconciler.reconcile.manifests import differing
from reconciler.reconcile.pending import Ask
from reconciler.reconcile.planning import Planning, World


@dataclass(frozen=True, slots=True)
class Proposed:
    """What came of it: what people have to do now, if anything; the commit at the branch's tip, '' for none of ours.

    `did` is what was done to the request in one word, '' for nothing. `overtaken` says that a branch moved meanwhile,
    so that nothing was done.
    """

    ask: Ask | None = None
    commit: str = ""
    did: str = ""
    overtaken: bool = False


class Proposing:
    """Brings the request to what is to be recorded. All methods raise what Git and the forge do."""

    def __init__(self, world: World, planning: Planning, forge: Proposals) -> None:
        self._world = world
        self._planning = planning
        self._forge = forge
        place = world.place
        self._branches = (place.proposal, place.write_branch)
        self._origin = proposal.Origin(place.instance, place.folder, place.write_branch, planning.source)

    def bring(self, wanted: Collection[PoolRecord], settled: Collection[str]) -> Proposed:
        """Have these records proposed, and those of the open request whose pools are not `settled`: their images are
        still being built, and until then what was proposed for them is the best there is."""
        planning, request = self._planning, self._planning.pending.request
        if not planning.pending.known:
            return Proposed()  # why is among the problems
        content = [*wanted, *self._kept(settled)]
        files = self._files(content)
        commit = self._commit(content, files) if files else planning.tip
        if commit == planning.tip:
            return self._close(request) if request else Proposed()
        changes = [Change(planning.records.pools.get(new.pool), new) for new in content]
        if request is None:
            ask = pending.declined(self._forge, self._branches, proposal.images(content))
            if ask is not None:
                return Proposed(ask)
        moved = planning.pending.tip != commit
        if moved and not self._push(commit):
            return Proposed(overtaken=True)
        done, did = self._told(request, changes, moved=moved)
        pools = frozenset(change.new.pool for change in changes)
        return Proposed(Ask(done.number, done.name, done.url, pools), commit, did)

    def _kept(self, settled: Collection[str]) -> list[PoolRecord]:
        planned = {pool.name for pool in self._planning.plan.pools}
        found = self._planning.pending.records
        return [found[pool] for pool in sorted(found) if pool in planned and pool not in settled]

    def _files(self, content: Sequence[PoolRecord]) -> Mapping[str, bytes | None]:
        planning = self._planning
        paths = {one.pool: planning.record_path(one.pool) for one in content}
        manifests = differing(self._world, planning, content)
        return {**record.files(paths, content), **dict(manifests.values())}

    def _commit(self, content: Sequence[PoolRecord], files: Mapping[str, bytes | None]) -> str:
        planning, repository = self._planning, self._world.repository
        return repository.commit(
            planning.tip, files, self._message(content), repository.committed_at(planning.source)
        )

    def _message(self, content: Sequence[PoolRecord]) -> str:
        planning, place = self._planning, self._world.place
        changes = [(planning.records.pools.get(new.pool), new) for new in content]
        return record.message(changes, planning.source, place.instance, place.message)

    def _push(self, commit: str) -> bool:
        """Let the branch be a commit; False when somebody moved one of the branches that this rests on. Raises GitError
        when the branch cannot be pushed."""
        place, planning, repository = self._world.place, self._planning, self._world.repository
        branch = place.proposal
        heads = repository.heads([place.source, place.write_branch, branch])
        if place.write_branch not in heads:
            raise GitError(
                f"there is no branch {place.write_branch} that a pull request could be merged into",
                hint="create it, from the branch that is watched",
            )
        if (heads.get(place.source), heads[place.write_branch]) != (planning.head, planning.tip):
            return False
        if heads.get(branch) == commit:
            return True
        result = repository.replace(branch, commit, heads.get(branch, ""))
        if result.outcome is PushOutcome.REFUSED:
            raise GitError(
                f"{branch} does not take the status commit: {result.message}",
                hint="let the reconciler push to this branch by force, or name another one in"
                " writeBack.pullRequest.branch",
            )
        return result.outcome is PushOutcome.DONE

    def _told(
        self, request: Proposal | None, changes: Sequence[Change], *, moved: bool
    ) -> tuple[Proposal, str]:
        """The request with its title and text as they should be, and what was done to it."""
        subject = self._message([change.new for change in changes]).partition("\n")[0]
        title = proposal.title(subject)
        body = proposal.body(changes, self._origin, self._forge.comment_limit)
        did = "updated" if moved else ""
        if request is None:
            request, did = self._forge.propose(*self._branches, title, body), "opened"
        if _same(request, title, body):
            return request, did
        return self._forge.revise(request.number, title, body), did or "updated"

    def _close(self, request: Proposal) -> Proposed:
        branch = self._world.place.write_branch
        body = proposal.closing(self._origin, f"there is nothing left to record on {branch}")
        try:
            self._forge.revise(request.number, request.title, body, close=True)
        except ForgeError as error:
            # Merged this moment, it cannot be closed any more.
            if error.disposition is Disposition.RETRY or self._forge.proposal(*self._branches):
                raise
            return Proposed()
        return Proposed(Ask(request.number, request.name, request.url), did="closed")


def _same(request: Proposal, title: str, body: str) -> bool:
    """Whether a request says this already; forges change line ends, and white space around a text."""
    return request.title.strip() == title and request.body.replace("\r\n", "\n").strip() == body.strip()
