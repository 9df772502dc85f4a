"""A bare mirror of one remote repository, and writing back to it.

Belongs here: the `Repository` port: asking the remote, fetching, committing, pushing, and healing the mirror.
Does not belong here: how a commit is made (`commits`), and the mirror's place on disk (`store`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

from reconciler.adapters.git import commits
from reconciler.adapters.git.command import Git
from reconciler.adapters.git.failures import CommandFailed, said
from reconciler.adapters.git.objects import GitObjects, commit_id
from reconciler.adapters.git.store import Store
from reconciler.adapters.git.url import Remote
from reconciler.core.model import COMMIT, TreeEntry
from reconciler.errors import GitError, GitUnavailable, Timeout
from reconciler.ports import PushOutcome, PushResult
from reconciler.process import Finished

_Result = TypeVar("_Result")

# git-check-ref-format(1), and no leading dash.
_BAD_BRANCH: Final = re.compile(
    r"^-|(?:^|/)\.|\.\.|//|@\{|^/|/$|\.$|\.lock(?:/|$)|^@$|[\x00-\x20\x7f~^:?*\[\\]", re.ASCII
)
# Another push held the branch's lock on the server, or finished between our look and our update.
_OVERTAKEN: Final = re.compile(
    r"fetch first|non-fast-forward|stale info|cannot lock ref|failed to (?:update ref|lock)", re.IGNORECASE
)


class Mirror(GitObjects):
    """A mirror of the repository at `url`, in a folder of its own below `directory`.

    Branches are the remote's: `head` and `fetch` know them, `resolve` knows only what they brought.
    Reads need no network and never wait. Writers take turns, across processes. Objects are never thrown
    away, so commits of a branch that was rewritten can still be compared with. A damaged or deleted mirror
    is made anew by whatever runs into it, once; if that does not help, the error stands. `timeout` is in
    seconds, for each call of git and for waiting for other writers.

    The constructor raises GitError for an address that is not accepted or a folder that cannot be used,
    Timeout, and ToolMissing without git.
    """

    def __init__(self, url: str, directory: Path, timeout: float = 120) -> None:
        self._remote = Remote.parse(url)
        # Named by address: another repository's objects must not pass for this one's.
        folder = (
            directory.absolute()
            / sha256(self._remote.address.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        )
        git = Git(
            Store.git_dir(folder),
            timeout,
            protocols=self._remote.protocol,
            environment=self._remote.environment,
            secrets=self._remote.secrets,
            about=str(self._remote),
        )
        # Reading opens no connection, whatever a missing object might suggest to git.
        super().__init__(Git(git.git_dir, timeout))
        self._network = git
        self._store = Store(folder, git)
        self._branches: set[str] = set()
        self._pushed = ""
        with self._store.locked():  # a folder that cannot be used is told at once
            pass

    def head(self, branch: str) -> str:
        """The commit at the tip of the remote branch: one round trip.

        Raises GitUnavailable when the remote does not answer, and GitError when it has no such branch.
        """
        tip = self._tip(branch)
        if tip is None:
            raise GitError(
                f"{self._remote} has no branch {branch!r}",
                hint="check the name of the branch; an empty repository needs a first commit",
            )
        return tip

    def fetch(self, branch: str) -> str:
        """Bring the remote branch's objects here and return its tip. Transfers nothing that is here.

        Raises GitUnavailable, and GitError (no such branch, no permission, malformed objects).
        """
        tip = self.head(branch)
        self._branches.add(branch)
        if tip in (self._pushed, self._fetched(branch)):
            return tip
        return self._healing(lambda: self._bring(branch))

    def tree(self, commit: str, under: str = "") -> tuple[TreeEntry, ...]:
        """As `GitObjects.tree`."""
        read = super().tree
        return self._healing(lambda: read(commit, under))

    def blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """As `GitObjects.blobs`."""
        left = dict.fromkeys(oids)
        try:
            for oid, content in super().blobs(tuple(left)):
                del left[oid]
                yield oid, content
        except CommandFailed:
            if not self._mend():
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

    def commit(self, parent: str, changes: Mapping[str, bytes | None], message: str, date: int) -> str:
        """Write a commit on `parent`, here only, and return its id, or `parent` when nothing changes.

        As `commits.write`, which says what is fixed and what is refused.
        """
        commit_id(parent)
        return self._healing(lambda: self._write(parent, changes, message, date))

    def push(self, branch: str, commit: str) -> PushResult:
        """Move the remote branch forward to `commit` (or create it there), then ask what became of it.

        The answer to the push itself may be lost or come from something in between, so the branch decides:
        when it contains the commit, the push is DONE, whatever git said. Raises GitUnavailable when the
        remote cannot be asked, or when the connection broke before anything changed; GitError when it no
        longer lets us look.
        """
        target = f"{commit_id(commit)}:{_ref(branch)}"
        failed: GitError | None = None
        message = ""
        try:
            done = self._call(self._network, "push", "--porcelain", "--no-verify", target=target)
            message = said(done.stdout, done.stderr, self._remote.secrets)
            failed = self._network.failed(done) if done.status else None
        except GitUnavailable as error:
            failed = error
        try:
            tip = self._tip(branch)
            if tip is not None and tip != commit and not self.has(tip):
                tip = self.fetch(branch)
        except GitUnavailable:
            if failed is None:
                return PushResult(PushOutcome.DONE, message)
            raise
        return self._outcome(commit, tip, failed, message)

    def _outcome(self, commit: str, tip: str | None, failed: GitError | None, message: str) -> PushResult:
        """What a push came to, from the branch's tip after it."""
        if tip is not None and (tip == commit or self.is_ancestor(commit, tip)):
            self._pushed = commit
            return PushResult(PushOutcome.DONE, message)
        if failed is None or (tip is not None and not self.is_ancestor(tip, commit)):
            return PushResult(PushOutcome.MOVED, message)
        if _OVERTAKEN.search(message):
            return PushResult(PushOutcome.MOVED, message)
        if isinstance(failed, GitUnavailable):
            raise failed
        return PushResult(PushOutcome.REFUSED, message or failed.message)

    def _tip(self, branch: str) -> str | None:
        """The remote branch's tip, None when there is no such branch."""
        ref = _ref(branch)
        # Without the mirror: looking must work whatever state that is in.
        done = self._call(replace(self._network, git_dir=Path("/dev/null")), "ls-remote", target=ref)
        if done.status:
            raise self._network.failed(done)
        # A pattern also matches longer names that end like it.
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            oid, _, name = line.partition("\t")
            if name == ref:
                if not COMMIT.fullmatch(oid):
                    raise GitError(f"{self._remote} has object ids of a kind that is not supported: {oid}")
                return oid
        return None

    def _call(self, git: Git, *command: str, target: str) -> Finished:
        """Run a git command that speaks to the remote about `target`. Raises GitUnavailable at the time limit.

        The server side of a local repository is started by git itself and refuses one that another account
        owns. The operator named this one, so it is told not to. This text is constant: it passes through a
        shell.
        """
        options: tuple[str, ...] = ()
        if self._remote.is_local:
            side = "receive-pack" if command[0] == "push" else "upload-pack"
            options = (f"--{side}=git -c 'safe.directory=*' {side}",)
        try:
            return git.run(*command, *options, "--", self._remote.address, target)
        except Timeout as error:
            raise GitUnavailable(
                f"{self._remote} did not answer within {git.timeout:g} s",
                hint="the server or the network is slow or stuck; this is tried again",
            ) from error

    def _fetched(self, branch: str) -> str:
        """The tip that was last fetched whole, '' when there is none."""
        known = self._git.run("rev-parse", "--verify", "--quiet", f"{_kept(branch)}^{{commit}}")
        return known.stdout.decode().strip() if known.status == 0 else ""

    def _bring(self, branch: str) -> str:
        with self._store.locked() as git:
            self._fetch(git, branch)
            self._store.tidy(git)
            return git.output("rev-parse", "--verify", f"{_kept(branch)}^{{commit}}").decode()

    def _fetch(self, git: Git, branch: str) -> None:
        # The plus lets our own ref follow a branch that was rewritten. It touches nothing on the remote.
        spec = f"+{_ref(branch)}:{_kept(branch)}"
        done = self._call(git, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", target=spec)
        if done.status:
            raise git.failed(done)

    def _write(self, parent: str, changes: Mapping[str, bytes | None], message: str, date: int) -> str:
        with self._store.locked() as git:
            return commits.write(git, parent, changes, message, date)

    def _healing(self, action: Callable[[], _Result]) -> _Result:
        """Do something. When git fails and the mirror proves damaged, make it anew and do it again."""
        try:
            return action()
        except CommandFailed:
            if not self._mend():
                raise
            return action()

    def _mend(self) -> bool:
        """Make a damaged mirror anew and fetch what it held. False when git finds no damage.

        Commits that were written here and never pushed are gone; the pass that wanted them writes them again.
        """
        with self._store.locked() as git:
            if self._is_whole(git):
                return False
            self._store.start_over(git)
            for branch in sorted(self._branches):
                try:
                    self._fetch(git, branch)
                except CommandFailed:  # deleted since, or malformed: whoever asks for it next is told
                    continue
            return True

    def _is_whole(self, git: Git) -> bool:
        """Nothing is damaged, and no branch that was fetched has vanished (with the whole folder, say)."""
        return all(self._fetched(branch) for branch in self._branches) and self._store.is_sound(git)


def _ref(branch: str) -> str:
    """The full name of a branch. Raises GitError for what Git would not accept as one."""
    if not branch or _BAD_BRANCH.search(branch):
        raise GitError(f"{branch!r} is not a valid name for a branch", hint="see git-check-ref-format(1)")
    return f"refs/heads/{branch}"


def _kept(branch: str) -> str:
    """Our own ref for a remote branch. Hashed: `a` and, later, `a/b` would stand in each other's way."""
    return f"refs/reconciler/{sha256(branch.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"
