"""A bare mirror of one remote repository, and writing back to it.

Belongs here: the `Repository` port: asking the remote, fetching, committing, pushing, and healing the mirror.
Does not belong here: how a commit is made (`commits`), and the mirror's place on disk (`store`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

from reconciler.adapters.git import commits
from reconciler.adapters.git.command import Git
from reconciler.adapters.git.credentials import Credentials
from reconciler.adapters.git.failures import CommandFailed
from reconciler.adapters.git.objects import GitObjects, commit_id
from reconciler.adapters.git.revisions import KEPT, branch_ref, is_commit, kept_ref, kind, remote_ref
from reconciler.adapters.git.store import Store
from reconciler.adapters.git.transport import PEELED, Pushed, Transport
from reconciler.adapters.git.url import Remote
from reconciler.core.model import COMMIT, TreeEntry
from reconciler.errors import GitError, GitUnavailable
from reconciler.ports import OnRequest, PushOutcome, PushResult, Request
from reconciler.redaction import Redactor

_Result = TypeVar("_Result")

# Another push held the branch's lock on the server, or finished between our look and our update.
_OVERTAKEN: Final = re.compile(
    r"fetch first|non-fast-forward|stale info|cannot lock ref|failed to (?:update ref|lock)", re.IGNORECASE
)
# A branch stands where this one's folder would have to be, or the other way round: that does not pass by itself.
_IN_THE_WAY: Final = re.compile(r"exists; cannot create", re.IGNORECASE)


def _nobody(_: Request) -> None:
    """Nobody wants to know."""


class Mirror(GitObjects):
    """A mirror of the repository at `url`, in a folder of its own below `directory`.

    Branches and tags are the remote's: `heads`, `head` and `fetch` know them, `resolve` knows only what they brought.
    Reads need no network and never wait. Writers take turns, across threads and processes. Objects are never thrown
    away, so commits of a branch that was rewritten can still be compared with. A damaged or deleted mirror
    is made anew by whatever runs into it, once; if that does not help, the error stands. `timeout` is in
    seconds, for each call of git and for waiting for other writers.

    `credentials` is a folder of them (see `credentials`), read at each call; `push_credentials` is another one that is
    used for pushes. `redactor` is told of what in them is secret, `on_request` of every call to the remote.

    The constructor raises GitError for an address that is not accepted or a folder that cannot be used,
    Timeout, and ToolMissing without git. Every method that calls the remote raises GitError when the credentials
    cannot be used.
    """

    def __init__(
        self,
        url: str,
        directory: Path,
        timeout: float = 120,
        *,
        credentials: Path | None = None,
        push_credentials: Path | None = None,
        redactor: Redactor | None = None,
        on_request: OnRequest = _nobody,
    ) -> None:
        remote = Remote.parse(url)
        # Named by address: another repository's objects must not pass for this one's.
        folder = (
            directory.absolute() / sha256(remote.address.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        )
        # What reads and writes the mirror opens no connection, whatever a missing object might suggest to git.
        git = Git(Store.git_dir(folder), timeout, about=str(remote))
        super().__init__(Git(git.git_dir, timeout))
        self._remote = remote
        self._transport = Transport(
            remote,
            git,
            on_request,
            reading=Credentials(credentials, redactor) if credentials else None,
            writing=Credentials(push_credentials, redactor) if push_credentials else None,
        )
        self._store = Store(folder, git)
        self._state = Lock()
        self._held: frozenset[str] = frozenset()
        self._pushed: Mapping[str, str] = {}
        with self._store.locked():  # a folder that cannot be used is told at once
            pass

    def heads(self, revisions: Collection[str]) -> Mapping[str, str]:
        """The commits that the remote's branches and tags stand for now, without those that it does not have: one
        `git ls-remote` for all, and none when all are commits, which stand for themselves.

        Raises GitUnavailable when the remote does not answer, and GitError.
        """
        return self._heads(revisions)

    def head(self, revision: str) -> str:
        """The commit that a branch or tag of the remote stands for now: one round trip.

        Raises GitUnavailable when the remote does not answer, and GitError when it has no such branch or tag.
        """
        tip = self._heads([revision]).get(revision)
        if tip is None:
            name = revision.removeprefix("refs/tags/")
            raise GitError(
                f"{self._remote} has no {kind(revision).split(' ', 1)[1]} {name!r}",
                hint="check the name; an empty repository needs a first commit",
            )
        return tip

    def fetch(self, revision: str) -> str:
        """Bring the objects of a branch, tag or commit here, and return its commit. Transfers nothing that is here; a
        commit that is here is not even asked for.

        Raises GitUnavailable, and GitError (no such revision, no permission, malformed objects, a server that gives
        out no commits by their ids).
        """
        tip = self.head(revision)
        if tip != self._fetched(revision):
            if self._is_here(revision, tip):
                self._healing(lambda: self._keep(revision, tip))
            else:
                tip = self._healing(lambda: self._bring(revision, tip))
        with self._state:
            self._held |= {revision}
        return tip

    def tree(
        self, commit: str, under: str = "", only: Collection[str] | None = None
    ) -> tuple[TreeEntry, ...]:
        """As `GitObjects.tree`."""
        read = super().tree
        return self._healing(lambda: read(commit, under, only))

    def changes(self, old: str, new: str, under: str = "") -> frozenset[str]:
        """As `GitObjects.changes`."""
        read = super().changes
        return self._healing(lambda: read(old, new, under))

    def blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """As `GitObjects.blobs`."""
        left = dict.fromkeys(oids)
        before = self._store.generation()
        try:
            for oid, content in super().blobs(tuple(left)):
                del left[oid]
                yield oid, content
        except CommandFailed:
            if not self._mend(before):
                raise
            yield from super().blobs(left)

    def committed_at(self, commit: str) -> int:
        """As `GitObjects.committed_at`."""
        read = super().committed_at
        return self._healing(lambda: read(commit))

    def has(self, commit: str) -> bool:
        """As `GitObjects.has`."""
        read = super().has
        return self._healing(lambda: read(commit))

    def history(self, commit: str, path: str) -> tuple[str, ...]:
        """As `GitObjects.history`."""
        read = super().history
        return self._healing(lambda: read(commit, path))

    def is_ancestor(self, older: str, newer: str) -> bool:
        """As `GitObjects.is_ancestor`."""
        read = super().is_ancestor
        return self._healing(lambda: read(older, newer))

    def commit_object(self, commit: str) -> bytes:
        """As `GitObjects.commit_object`."""
        read = super().commit_object
        return self._healing(lambda: read(commit))

    def commit(self, parent: str, changes: Mapping[str, bytes | None], message: str, date: int) -> str:
        """Write a commit on `parent`, here only, and return its id, or `parent` when nothing changes.

        As `commits.write`, which says what is fixed and what is refused.
        """
        commit_id(parent)
        return self._healing(lambda: self._write(parent, changes, message, date))

    def merge(self, ours: str, theirs: str) -> str:
        """The commit that merging `theirs` into `ours` makes, here only; one of the two when it contains the other.

        As `commits.merge`, which says what is fixed and what is refused.
        """
        if self.is_ancestor(commit_id(ours), commit_id(theirs)):
            return theirs
        if self.is_ancestor(theirs, ours):
            return ours
        date = self.committed_at(theirs)
        return self._healing(lambda: self._merge(ours, theirs, date))

    def push(self, branch: str, commit: str) -> PushResult:
        """Move the remote branch forward to `commit` (or create it there), then ask what became of it.

        The answer to the push itself may be lost or come from something in between, so the branch decides:
        when it contains the commit, the push is DONE, whatever git said. Raises GitUnavailable when the
        remote cannot be asked, or when the connection broke before anything changed; GitError when it no
        longer lets us look.
        """
        pushed = self._transport.push(commit_id(commit), branch_ref(branch))
        try:
            tip = self._tip_after_push(branch)
            if tip is not None and tip != commit and not self.has(tip):
                tip = self.fetch(branch)
        except GitUnavailable:
            if pushed.error is None:
                return PushResult(PushOutcome.DONE, pushed.message)
            raise
        return self._outcome(branch, commit, tip, pushed)

    def replace(self, branch: str, commit: str, known: str) -> PushResult:
        """Let the remote branch be `commit` if it is still `known` ('' for not being there), then ask what became of
        it. Raises as `push` does.
        """
        pushed = self._transport.push(
            commit_id(commit), branch_ref(branch), commit_id(known) if known else ""
        )
        try:
            tip = self._tip_after_push(branch)
        except GitUnavailable:
            if pushed.error is None:
                return PushResult(PushOutcome.DONE, pushed.message)
            raise
        if tip == commit:
            self._remember(branch, commit)
            return PushResult(PushOutcome.DONE, pushed.message)
        self._check_kept(commit, pushed)
        overtaken = _OVERTAKEN.search(pushed.message) and not _IN_THE_WAY.search(pushed.message)
        if pushed.error is None or tip != (known or None) or overtaken:
            return PushResult(PushOutcome.MOVED, pushed.message)
        if isinstance(pushed.error, GitUnavailable):
            raise pushed.error
        return PushResult(PushOutcome.REFUSED, pushed.message or pushed.error.message)

    def _remember(self, branch: str, commit: str) -> None:
        with self._state:
            self._pushed = {**self._pushed, branch: commit}

    def _check_kept(self, commit: str, pushed: Pushed) -> None:
        if not self.has(commit):
            raise GitUnavailable(
                f"the commit {commit} was lost before it was pushed, as the mirror had to be made anew",
                hint="this is tried again",
            ) from pushed.error

    def _outcome(self, branch: str, commit: str, tip: str | None, pushed: Pushed) -> PushResult:
        """What a push came to, from the branch's tip after it."""
        if tip != commit:
            self._check_kept(commit, pushed)
        if tip is not None and (tip == commit or self.is_ancestor(commit, tip)):
            self._remember(branch, commit)
            return PushResult(PushOutcome.DONE, pushed.message)
        if pushed.error is None or (tip is not None and not self.is_ancestor(tip, commit)):
            return PushResult(PushOutcome.MOVED, pushed.message)
        if _OVERTAKEN.search(pushed.message):
            return PushResult(PushOutcome.MOVED, pushed.message)
        if isinstance(pushed.error, GitUnavailable):
            raise pushed.error
        return PushResult(PushOutcome.REFUSED, pushed.message or pushed.error.message)

    def _tip_after_push(self, branch: str) -> str | None:
        try:
            return self._heads([branch]).get(branch)
        except GitUnavailable:
            raise
        except GitError:
            if self._transport.writing is None:
                raise
            # Who may push may look, though who looks may no longer.
            return self._heads([branch], as_writer=True).get(branch)

    def _heads(self, revisions: Collection[str], *, as_writer: bool = False) -> dict[str, str]:
        refs = {revision: remote_ref(revision) for revision in revisions if not is_commit(revision)}
        found = self._transport.refs(refs.values(), as_writer=as_writer) if refs else {}
        tips = {revision: revision for revision in revisions if is_commit(revision)}
        for revision, ref in refs.items():
            if oid := found.get(f"{ref}{PEELED}") or found.get(ref):
                tips[revision] = oid
        return tips

    def _fetched(self, revision: str) -> str:
        """The commit that was last fetched whole, '' when there is none."""
        name = f"{kept_ref(revision)}^{{commit}}"
        known = self._git.run("rev-parse", "--verify", "--quiet", name)
        return known.stdout.decode().strip() if known.status == 0 else ""

    def _is_here(self, revision: str, tip: str) -> bool:
        """Whether a commit that no ref of ours for `revision` holds is here with all that it needs: because we made
        and pushed it, or because something else that was fetched contains it."""
        if self._pushed.get(revision) == tip:
            return self.has(tip)
        if not is_commit(revision):
            return False
        holders = self._git.run("for-each-ref", "--count=1", f"--contains={tip}", KEPT)
        return holders.status == 0 and bool(holders.stdout)

    def _keep(self, revision: str, commit: str) -> None:
        with self._store.locked() as git:
            git.output("update-ref", "--no-deref", kept_ref(revision), commit)

    def _bring(self, revision: str, tip: str) -> str:
        with self._store.locked() as git:
            if tip == self._fetched(revision):  # by another thread, while we waited for our turn
                return tip
            self._fetch(git, revision)
            self._store.tidy(git)
            commit = self._fetched(revision)
            if not COMMIT.fullmatch(commit) or (is_commit(revision) and commit != revision):
                raise GitError(
                    f"{revision!r} on {self._remote} does not stand for a commit",
                    hint="watch a branch, a commit, or a tag that marks one",
                )
            return commit

    def _fetch(self, git: Git, revision: str) -> None:
        source = revision if is_commit(revision) else remote_ref(revision)
        self._transport.fetch(git, source, kept_ref(revision))

    def _write(self, parent: str, changes: Mapping[str, bytes | None], message: str, date: int) -> str:
        with self._store.locked() as git:
            return commits.write(git, parent, changes, message, date)

    def _merge(self, ours: str, theirs: str, date: int) -> str:
        with self._store.locked() as git:
            return commits.merge(git, ours, theirs, date)

    def _healing(self, action: Callable[[], _Result]) -> _Result:
        """Do something. When git fails and the mirror proves damaged, make it anew and do it again."""
        before = self._store.generation()
        try:
            return action()
        except CommandFailed:
            if not self._mend(before):
                raise
            return action()

    def _mend(self, before: int) -> bool:
        """Make a damaged mirror anew and fetch what it held. False when git finds no damage, and nobody else mended it
        since it was of the generation `before`.

        Commits that were written here and never pushed are gone; the pass that wanted them writes them again.
        """
        with self._store.locked() as git:
            if self._is_whole(git):
                return self._store.generation() != before
            self._store.start_over(git)
            with self._state:
                self._pushed = {}
                held = self._held
            for revision in sorted(held):
                try:
                    self._fetch(git, revision)
                except GitUnavailable:
                    raise
                except GitError:  # deleted since, or malformed: whoever asks for it next is told
                    with self._state:
                        self._held -= {revision}
            self._store.mended()
            return True

    def _is_whole(self, git: Git) -> bool:
        """Nothing is damaged, and nothing that was fetched has vanished (with the whole folder, say)."""
        return all(self._fetched(revision) for revision in self._held) and self._store.is_sound(git)
