"""What the reconciler needs from a forge: the place where pull requests are opened, discussed and merged.

Belongs here: the Protocol and the frozen values that cross it, in GitHub's words; GitLab calls a pull request a merge
request, a comment a note. Does not belong here: HTTP, or what is written into a comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

DESCRIPTION: Final = 140
"""Characters of a status' description that every forge takes (GitHub's limit; GitLab's is 255)."""


class State(StrEnum):
    """What a commit status says. There is no third way to end: what is not known to be good is a failure."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Status:
    """One commit status. `context` is its name: a later one of the same name replaces it. `description` is one line
    of at most `DESCRIPTION` characters."""

    context: str
    state: State
    description: str


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request as it is now: `head` is the commit at the tip of its branch, `target` the branch that it is to be
    merged into. `branch` is its own branch's name, `is_fork` says whether that lies in another repository. `author` is
    the account that opened it, '' when it is nobody's any more; `ref` is where its head is in the repository that it is
    to be merged into. `merged` is the commit that merging it made, or the last of them, '' when it is not merged or the
    forge does not say."""

    number: int
    title: str
    head: str
    target: str
    is_open: bool
    is_fork: bool
    author: str = ""
    labels: frozenset[str] = frozenset()
    ref: str = ""
    merged: str = ""
    branch: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request. `author` is an account in the spelling of `Forge.who`; '' when it is nobody's any
    more. `url` leads a person there."""

    id: int
    author: str
    body: str
    url: str = ""


class Forge(Protocol):
    """One repository on a forge. Every method may raise ForgeUnavailable and ForgeError."""

    @property
    def comment_limit(self) -> int:
        """How many bytes of UTF-8 a comment may have so that it is taken, whatever is in it."""

    def who(self) -> str:
        """The account that we act as."""

    def pull(self, number: int) -> Pull:
        """A pull request."""

    def pulls(self, target: str) -> Iterator[Pull]:
        """The open pull requests that are to be merged into a branch, the newest first. What was merged is not said."""

    def comments(self, number: int) -> Iterator[Comment]:
        """All comments on a pull request, those to the whole of it, oldest first."""

    def create_comment(self, number: int, body: str) -> Comment:
        """Comment on a pull request. When an answer got lost, one of ours with the same text is found, not doubled."""

    def edit_comment(self, number: int, comment: int, body: str) -> Comment:
        """Replace the text of a comment on a pull request."""

    def statuses(self, pull: Pull) -> tuple[Status, ...]:
        """The statuses that we set on a pull request's head: of each context the last, unless somebody else has set it
        since."""

    def set_status(self, pull: Pull, status: Status) -> None:
        """Set a status on a pull request's head. To set what is set already is no error."""


class Stage(StrEnum):
    """Where a pull request of ours stands."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"
    """Without being merged."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pull request from a branch of the repository itself. `name` is how people there write its number: `#12`, `!12`;
    `url` leads them to it."""

    number: int
    name: str
    title: str
    body: str
    stage: Stage
    url: str = ""


class Proposals(Protocol):
    """The pull requests from one branch of a repository into another. Every method may raise ForgeUnavailable and
    ForgeError."""

    @property
    def comment_limit(self) -> int:
        """How many bytes of UTF-8 a pull request's text may have so that it is taken."""

    def proposal(self, branch: str, target: str) -> Proposal | None:
        """The open one; there is at most one."""

    def past_proposal(self, branch: str, target: str) -> Proposal | None:
        """Of those that are not open any more the one that was opened last, as far back as it is reasonable to ask."""

    def propose(self, branch: str, target: str, title: str, body: str) -> Proposal:
        """Open one. If there is one open already, because an answer got lost or somebody was faster, that is it, as it
        is."""

    def revise(self, number: int, title: str, body: str, *, close: bool = False) -> Proposal:
        """Replace title and text, and close it or leave it as it is."""
