"""Names of what can be looked up on a remote: branches, tags, commits, the heads of pull requests.

Belongs here: which names are accepted, and which refs they stand for, there and here.
Does not belong here: asking anybody what a name means now.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from reconciler.core.model import COMMIT
from reconciler.errors import GitError

KEPT: Final = "refs/reconciler/"
"""Where our own refs are: they hold on to what was fetched."""

_TAGS: Final = "refs/tags/"
_PULL: Final = re.compile(r"refs/(?:pull|merge-requests)/[1-9][0-9]{0,17}/head", re.ASCII)
"""Where forges keep them: GitHub, Gitea and Forgejo, and GitLab."""
# git-check-ref-format(1), and no leading dash.
_BAD: Final = re.compile(
    r"^-|(?:^|/)\.|\.\.|//|@\{|^/|/$|\.$|\.lock(?:/|$)|^@$|[\x00-\x20\x7f~^:?*\[\\]", re.ASCII
)


def is_commit(revision: str) -> bool:
    """Whether a revision is a commit by its id, which means the same everywhere and for ever."""
    return COMMIT.fullmatch(revision) is not None


def remote_ref(revision: str) -> str:
    """The full name on the remote of a branch, of `refs/tags/…`, or of a pull request's head. Raises GitError for what
    Git would not accept."""
    if _PULL.fullmatch(revision):
        return revision
    name = revision.removeprefix(_TAGS)
    if not name or _BAD.search(name):
        raise GitError(
            f"{revision!r} is not a valid name for {kind(revision)}", hint="see git-check-ref-format(1)"
        )
    return revision if revision.startswith(_TAGS) else f"refs/heads/{revision}"


def branch_ref(branch: str) -> str:
    """The full name of a branch that can be written to. Raises GitError."""
    if branch.startswith(_TAGS) or is_commit(branch) or _PULL.fullmatch(branch):
        raise GitError(f"{branch!r} is not a branch", hint="name a branch to write to")
    return remote_ref(branch)


def kind(revision: str) -> str:
    """What a revision is, for messages."""
    if is_commit(revision):
        return "a commit"
    if _PULL.fullmatch(revision):
        return "a pull request"
    return "a tag" if revision.startswith(_TAGS) else "a branch"


def kept_ref(revision: str) -> str:
    """Our own ref for a revision. Hashed: `a` and, later, `a/b` would stand in each other's way."""
    return f"{KEPT}{sha256(revision.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"
