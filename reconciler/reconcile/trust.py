"""Which commits must be signed, and by whose work a commit counts.

Belongs here: walking the history from a head. Does not belong here: looking at a signature (`ports.Signatures`).

Our own status commits are signed by nobody, and need not be: a status file is believed only where an image carries
what it says, and it is no input of any image. So a commit that changes nothing but status files stands for its parent.
So does one that changes nothing in the folder that is watched: where daemons share a repository, each with a folder of
its own, the status commits of one must not hold up the others. And so does the merge of a pull request of ours, by
whichever way it was merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import UnverifiedCommit
from reconciler.ports import Objects, Signatures

_LONGEST_RUN = 10_000
"""Status commits in a row that are looked through; there is one per wave of builds between two of the authors'."""


class Checked(StrEnum):
    """Which commits of a history are looked at."""

    HEAD = "head"
    ALL = "all"


@dataclass(slots=True)
class Trust:
    """Checks heads. `since` is a commit that is trusted with all before it, '' for none.

    What was found good is remembered as long as the keys, and what counts as a status file, are the same: a history is
    long.
    """

    objects: Objects
    signatures: Signatures
    checked: Checked = Checked.HEAD
    since: str = ""
    _keys: str = ""
    _ours: tuple[str, str] = ("", "")
    _signed: set[str] = field(default_factory=set)
    _good: set[str] = field(default_factory=set)

    def check(self, head: str, status_folder: str, folder: str = "") -> None:
        """Raises UnverifiedCommit for a commit that is not signed as it must be; GitError, ToolMissing.

        Only what lies below `folder` counts, which holds the `status_folder`; both as the whole repository names them.
        """
        self._forget(self.signatures.keys(), (status_folder, folder))
        first = authored(self.objects, head, status_folder, folder)
        pending, seen = [first], set[str]()
        while pending:
            commit = pending.pop()
            if commit in self._good or commit in seen:
                continue
            seen.add(commit)
            if commit == self.since:
                continue
            problem = self._problem(commit)
            if problem and self._is_before(commit):
                continue
            if problem:
                raise self._unverified(commit, first, problem)
            if self.checked is Checked.ALL:
                pending += self.objects.parents(commit)
        # Only now: while an ancestor is in doubt, so is everything on top of it.
        self._good |= seen

    def _forget(self, keys: str, ours: tuple[str, str]) -> None:
        """Forget what does not hold any more. Below another status folder other commits are excused: an old one may
        have put there, unsigned, what is read as a definition now."""
        if keys != self._keys:
            self._signed.clear()
        if keys != self._keys or ours != self._ours:
            self._good.clear()
        self._keys, self._ours = keys, ours

    def _problem(self, commit: str) -> str:
        if commit in self._signed:
            return ""
        # Below the first one, which is no status commit, there are ours, and nobody's but ours are excused.
        if self.checked is Checked.ALL and stands_for(self.objects, commit, *self._ours):
            return ""
        problem = self.signatures.problem(commit)
        if not problem:
            self._signed.add(commit)
        return problem

    def _is_before(self, commit: str) -> bool:
        since = self.since
        return bool(since) and self.objects.has(since) and self.objects.is_ancestor(commit, since)

    def _unverified(self, commit: str, first: str, problem: str) -> UnverifiedCommit:
        which = f"commit {commit[:12]}"
        hint = "sign it with a key that is in source.verify.keys, or add its key there"
        if commit != first:
            which += f", which {first[:12]} is made on,"
            hint = "add its key to source.verify.keys, or name a later commit in source.verify.since"
        return UnverifiedCommit(f"{which} {problem}; nothing is changed", hint=hint)


def stands_for(objects: Objects, commit: str, status_folder: str, folder: str = "") -> str:
    """The commit that a commit has everything of, below `folder`, but files below the status folder: its first parent;
    '' when that is not so.

    Of a merge, what it merges must be such commits too, made on something that the first parent contains. Else a merge
    of the newest commit into an old one would bring back, unsigned, what that old one said.
    """
    first, *others = objects.parents(commit) or ("",)
    if not first or not _changes_status_only(objects, first, commit, status_folder, folder):
        return ""
    for other in others:
        base = other
        for _ in range(_LONGEST_RUN):
            before = objects.parents(base)
            if len(before) != 1 or not _changes_status_only(objects, *before, base, status_folder, folder):
                break
            (base,) = before
        if not objects.is_ancestor(base, first):
            return ""
    return first


def _changes_status_only(objects: Objects, old: str, new: str, status_folder: str, folder: str) -> bool:
    changed = objects.changes(old, new)
    return bool(changed) and not any(
        _is_under(path, folder) and not path.startswith(f"{status_folder}/") for path in changed
    )


def authored(
    objects: Objects,
    head: str,
    status_folder: str,
    folder: str = "",
    known: tuple[str, str] | None = None,
) -> str:
    """The latest commit, from `head` down, that changes more below `folder` than status files, ours or those of another
    daemon that has a folder of its own.

    `known` are another head and what was found for that.
    """
    commit = head
    for _ in range(_LONGEST_RUN):
        if known and commit == known[0]:
            return known[1]
        before = stands_for(objects, commit, status_folder, folder)
        if not before:
            break
        commit = before
    return commit


def _is_under(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")
