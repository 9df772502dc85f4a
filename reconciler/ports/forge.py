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
    merged into. `is_fork` says whether its branch lies in another repository."""

    number: int
    title: str
    head: str
    target: str
    is_open: bool
    is_fork: bool


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

    def comments(self, number: int) -> Iterator[Comment]:
        """All comments on a pull request, those to the whole of it, oldest first."""

    def create_comment(self, number: int, body: str) -> Comment:
        """Comment on a pull request. When an answer got lost, one of ours with the same text is found, not doubled."""

    def edit_comment(self, number: int, comment: int, body: str) -> Comment:
        """Replace the text of a comment on a pull request."""

    def statuses(self, commit: str) -> tuple[Status, ...]:
        """The statuses that we set on a commit: of each context the last, unless somebody else has set it since."""

    def set_status(self, commit: str, status: Status) -> None:
        """Set a status on a commit. To set what is set already is no error."""
