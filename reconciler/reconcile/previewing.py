"""The preview of one pull request, from its number to its comment: fetched, merged, planned and worded.

Everything comes from Git objects, in a mirror that nothing is built from: nothing of a pull request is run, no registry
is asked, and what a stranger pushes never lies beside what images are built from.
Belongs here: one pull request at a time. Does not belong here: which of them and when (`daemon.previews`), and how a
comment is kept up to date (`posting`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from reconciler import __version__
from reconciler.core.catalogue import CONFIG_PATH
from reconciler.core.comment import FOOT, NOTES, Origin, comment, marker
from reconciler.core.plan import Plan
from reconciler.errors import GitError, GitUnavailable
from reconciler.ports import PullRequests
from reconciler.ports.forge import Forge, Pull
from reconciler.reconcile import remarks
from reconciler.reconcile.history import History
from reconciler.reconcile.posting import Posting
from reconciler.reconcile.preview import Preview
from reconciler.reconcile.remarks import Merge, Minutes, Promise
from reconciler.reconcile.targets import Scope

_SIGNS: Final = {"gitlab": "!"}
"""What the number of a pull request begins with, where that is not `#`."""


@dataclass(frozen=True, slots=True)
class Made:
    """A preview: the plan, its comment without notes, and what is remembered of it."""

    plan: Plan
    text: str
    promise: Promise

    @property
    def gist(self) -> str:
        """What in the comment is worth an edit: not its foot, which names the commits that it was made of."""
        return f"{self.plan.digest}\n{self.text.rpartition(FOOT)[0]}"


@dataclass(frozen=True, slots=True)
class Desk:
    """What previews of one repository are made with. `target` is the branch that is watched, `kind` the forge's, as
    the command line names it, `scope` is asked for what the cluster says now."""

    repository: PullRequests
    history: History
    forge: Forge
    target: str
    kind: str
    instance: str
    scope: Callable[[], Scope]

    @property
    def sign(self) -> str:
        """What the number of a pull request begins with."""
        return _SIGNS.get(self.kind, "#")

    def base(self) -> str:
        """The tip of the watched branch, whose objects are here then. Raises GitUnavailable, GitError."""
        return self.repository.fetch(self.target)

    def alike(self, old: str, new: str) -> bool:
        """Whether two commits of the watched branch differ in nothing but status files, as ours do: what merging
        something into them builds is the same. What cannot be told is not alike. Raises GitError for the new one."""
        if old == new:
            return True
        status = self.history.part(new, [CONFIG_PATH]).config.status_path
        try:
            return all(path.startswith(f"{status}/") for path in self.history.changes(old, new))
        except GitError:
            return False

    def is_own(self, pull: Pull, base: str) -> bool:
        """Whether a pull request that was fetched is the one by which the daemon records images. Raises ForgeError,
        ForgeUnavailable, GitError."""
        return pull.author == self.forge.who() and self.alike(pull.head, base)

    def fetch(self, pull: Pull) -> None:
        """Bring the head of a pull request here. Raises GitUnavailable, also when Git and the forge's API do not name
        the same head: one of them lags behind; and GitError."""
        found = self.repository.fetch(pull.ref)
        if found != pull.head:
            raise GitUnavailable(
                f"{pull.ref} is at {found[:12]}, and the forge says {pull.head[:12]}",
                hint="this is tried again",
            )

    def make(self, pull: Pull, base: str, minutes: Callable[[Plan], Minutes]) -> Made:
        """The preview of a pull request, which was fetched, merged into `base`. Raises MergeConflict, GitError, and
        what the cluster raises."""
        merged = self.repository.merge(base, pull.head)
        plan = Preview(self.history, self.scope()).plan(merged, base)
        known = minutes(plan)
        text = comment(plan, self._origin(pull, base, merged), self.forge.comment_limit - NOTES, known)
        return Made(plan, text, remarks.promise(plan, pull.head, base))

    def posting(self, pull: Pull) -> Posting:
        """What keeps its comment and statuses. The comment is the one that `reconciler preview` would edit."""
        folder = self.history.path()
        name = ":".join(filter(None, (self.instance, folder)))
        return Posting(self.forge, pull, marker(self.instance, folder), name)

    def merge(self, pull: Pull) -> Merge:
        """How a pull request was merged; the watched branch must have been fetched since. Raises GitError."""
        return Merge(pull.merged, self.repository.parents(pull.merged), pull.head)

    def contains(self, commit: str, merge: Merge) -> bool:
        """Whether a commit is that of a merge, or came after it. Raises GitError."""
        return self.repository.has(commit) and self.repository.is_ancestor(merge.commit, commit)

    def _origin(self, pull: Pull, base: str, merged: str) -> Origin:
        made_here = merged not in (base, pull.head)
        head = "HEAD" if made_here else merged
        words = (
            *("reconciler", "plan", "--base", base, "--head", head, "--output", "markdown"),
            *(("--forge", self.kind) if self.kind != "github" else ()),
            *(("--instance", self.instance) if self.instance != "default" else ()),
        )
        before: list[tuple[str, ...]] = [("git", "fetch", "--quiet", "origin", self.target, pull.ref)]
        if made_here:
            before.append(("git", "checkout", "--quiet", "--detach", base))
            before.append(("git", "merge", "--quiet", "--no-edit", pull.head))
        engine, folder = self.history.engine.version, self.history.path()
        return Origin(
            __version__,
            engine,
            words,
            folder,
            self.instance,
            tip=pull.head if made_here else "",
            before=tuple(before),
            exact=False,
        )
