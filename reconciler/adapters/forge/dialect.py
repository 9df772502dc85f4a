"""What the forges say differently: a request as a value, and reading what is answered.

Belongs here: the shape of a dialect and what its readers share. Does not belong here: sending anything. A dialect is
pure, so that a rehearsal shows the very requests that would be sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

from reconciler.adapters.forge.problems import Refusal
from reconciler.core.model import COMMIT
from reconciler.errors import ForgeError
from reconciler.ports.forge import DESCRIPTION, Comment, Proposal, Pull, State, Status

LISTED: Final = 100
"""How many entries are asked for at once; no forge gives more."""
_PART: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")

Value = TypeVar("Value", int, str, bool)


@dataclass(frozen=True, slots=True)
class Call:
    """One request: `path` is below the API's URL, `body` becomes JSON. Statuses in `expect` are good answers."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    expect: frozenset[int] = field(default=frozenset({200}))


@dataclass(frozen=True, slots=True)
class Posted:
    """A status as a forge lists it: the higher `id` is the later one."""

    id: int
    author: str
    status: Status


@dataclass(frozen=True, slots=True)
class Listed:
    """A pull request as a forge lists it: `branch` is '' when that lies in another repository."""

    branch: str
    target: str
    proposal: Proposal


class Dialect(Protocol):
    """How one kind of forge is asked about one repository. Readers raise Refusal for what they cannot read."""

    comment_limit: int

    def headers(self, token: str) -> Mapping[str, str]:
        """What goes with every request, the token in it."""

    def who(self) -> Call:
        """Ask which account a token is for."""

    def who_else(self) -> Call | None:
        """How to ask for it when that is refused; None when there is no other way."""

    def read_who(self, answer: Any) -> str:
        """The account, in the spelling that authors of comments have."""

    def pull(self, number: int) -> Call:
        """Ask for a pull request."""

    def read_pull(self, answer: Any) -> Pull:
        """A pull request."""

    def pulls(self, target: str) -> Call:
        """Ask for the first page of open pull requests into a branch, the newest first. It may hold others too."""

    def comments(self, number: int) -> Call:
        """Ask for the first page of comments."""

    def read_comment(self, answer: Any) -> Comment | None:
        """A comment; None for an entry of the list that nobody wrote."""

    def create_comment(self, number: int, body: str) -> Call:
        """Comment."""

    def edit_comment(self, number: int, comment: int, body: str) -> Call:
        """Replace a comment's text."""

    def statuses(self, pull: Pull) -> Call:
        """Ask for the first page of statuses of a head."""

    def read_status(self, answer: Any) -> Posted:
        """A status."""

    def set_status(self, pull: Pull, status: Status) -> Call:
        """Set a status on a head."""

    def proposals(self, branch: str, target: str, *, past: bool) -> Call:
        """Ask for the first page of pull requests from a branch into another: those that are open, or those that are
        `past`. It may hold others too."""

    def read_proposal(self, answer: Any) -> Listed:
        """A pull request with its branches, of a list or alone."""

    def propose(self, branch: str, target: str, title: str, body: str) -> Call:
        """Open a pull request."""

    def revise(self, number: int, title: str, body: str, *, close: bool) -> Call:
        """Replace title and text, and close it."""


def project(name: str) -> tuple[str, ...]:
    """The parts of `OWNER/NAME`, or of `GROUP/SUBGROUP/NAME`. Raises ForgeError for anything that has no place in a
    URL."""
    parts = tuple(name.split("/"))
    if len(parts) < 2 or not all(_PART.fullmatch(part) for part in parts):
        raise ForgeError(f"{name!r} is no repository's name", hint="name it as OWNER/NAME")
    return parts


def owned(name: str) -> str:
    """The path of a repository that has one owner. Raises ForgeError."""
    parts = project(name)
    if len(parts) != 2:
        raise ForgeError(f"{name!r} is no repository's name on this forge", hint="name it as OWNER/NAME")
    return "/repos/" + "/".join(parts)


def quoted(name: str) -> str:
    """A repository as one segment of a path, as GitLab wants it. Raises ForgeError."""
    return quote("/".join(project(name)), safe="")


def commit_id(text: str) -> str:
    """A commit's full id. Raises ForgeError for anything else."""
    if not COMMIT.fullmatch(text):
        raise ForgeError(f"{text!r} is not the full id of a commit")
    return text


def described(status: Status) -> str:
    """A status' description, cut to what every forge takes."""
    return status.description[:DESCRIPTION]


def state(word: str, words: Mapping[State, str]) -> State:
    """The state that a forge's word stands for. Words that only others use are failures: they are never what we set."""
    return next((known for known, spelled in words.items() if spelled == word), State.FAILURE)


def part(answer: Any, name: str, kind: type[Value]) -> Value:
    """A member of a JSON object, of a given type. Raises Refusal."""
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Refusal(f"its answer has no {name!r} that can be read")
    return value


def sha(answer: Any, name: str) -> str:
    """A member of a JSON object that is a commit's full id: it goes on to Git. Raises Refusal."""
    text = part(answer, name, str)
    if not COMMIT.fullmatch(text):
        raise Refusal(f"its answer has no commit as {name!r}")
    return text


def merge_commit(answer: Any, *names: str) -> str:
    """The first of these members that is a commit's full id; '' when none is: it is no fault to leave it out."""
    found = [answer.get(name) for name in names] if isinstance(answer, dict) else []
    return next((text for text in found if isinstance(text, str) and COMMIT.fullmatch(text)), "")


def inner(answer: Any, name: str) -> dict[str, Any]:
    """A member of a JSON object that is one itself; an empty one when it is missing or null."""
    value = answer.get(name) if isinstance(answer, dict) else None
    return value if isinstance(value, dict) else {}
