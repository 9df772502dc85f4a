"""The `Forge` port over HTTP.

Belongs here: what a whole operation consists of. Does not belong here: how one forge says it (`github`, `gitlab`,
`gitea`), single requests (`wire`), or trying again (`retry`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from reconciler.adapters.forge.dialect import Call, Dialect, Posted
from reconciler.adapters.forge.problems import Refusal, Transient
from reconciler.adapters.forge.retry import Retry
from reconciler.adapters.forge.token import TokenFile
from reconciler.adapters.forge.wire import Reply, Wire
from reconciler.errors import ForgeError
from reconciler.ports import Clock, OnRequest
from reconciler.ports.forge import Comment, Proposal, Pull, Stage, Status
from reconciler.redaction import Redactor

_MOST_PAGES: Final = 200
_SAME_STATE: Final = 400
"""GitLab's answer to a status that is in that state already."""

_OPEN_ALREADY: Final = (409, 422)
"""What forges answer to a second pull request from the same branch: Gitea and GitLab the one, GitHub the other."""
_MOST_PAST: Final = 300
"""Pull requests that are looked through for one that is not open any more, on forges that cannot be asked for a
branch."""

Read = TypeVar("Read")


class HttpForge:
    """Implements `ports.forge.Forge` and `Proposals`. Safe to share between threads; close it after use.

    `url` is that of the API (`https://api.github.com`, `https://gitlab.example.com/api/v4`,
    `https://gitea.example.com/api/v1`). `timeout` is how many seconds the network may be silent. All waiting goes
    through `clock`, and `jitter` spreads it. `redactor` is told of the token; `on_request` of every request.
    Raises ForgeError for a URL that no token may be sent to.
    """

    def __init__(
        self,
        dialect: Dialect,
        url: str,
        token: TokenFile,
        clock: Clock,
        *,
        redactor: Redactor,
        timeout: float = 30.0,
        jitter: random.Random | None = None,
        on_request: OnRequest = lambda _: None,
    ) -> None:
        self._dialect = dialect
        self._token = token
        self._wire = Wire(url, clock, redactor, timeout, on_request)
        self._retry = Retry(clock, jitter or random.Random())  # noqa: S311  (spreads load, guards nothing)
        self._known: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection. Safe to repeat."""
        self._wire.close()

    @property
    def comment_limit(self) -> int:
        """How many bytes of UTF-8 a comment may have."""
        return self._dialect.comment_limit

    def who(self) -> str:
        """The account that the token is for; asked once for each token."""
        token = self._token.read()
        if token not in self._known:
            self._known = {token: self._asked_who()}
        return self._known[token]

    def pull(self, number: int) -> Pull:
        """A pull request."""
        return self._run(f"pull request {number}", self._dialect.pull(number), self._dialect.read_pull)

    def pulls(self, target: str) -> Iterator[Pull]:
        """The open pull requests into a branch, the newest first. One that is opened while pages are turned may shift
        another to the next page: each is given once. One that cannot be read must not hide the others."""
        subject, seen = f"open pull requests into {target}", set[int]()
        for entry in self._listed(subject, self._dialect.pulls(target)):
            try:
                pull = self._dialect.read_pull(entry)
            except Refusal:
                continue
            if pull.is_open and pull.target == target and pull.number not in seen:
                seen.add(pull.number)
                yield pull

    def comments(self, number: int) -> Iterator[Comment]:
        """All comments on a pull request, oldest first."""
        subject = f"comments on pull request {number}"
        for entry in self._listed(subject, self._dialect.comments(number)):
            comment = self._read(subject, entry, self._dialect.read_comment)
            if comment is not None:
                yield comment

    def create_comment(self, number: int, body: str) -> Comment:
        """Comment on a pull request. Raises ForgeError also for a text above `comment_limit`."""
        call = self._dialect.create_comment(number, self._checked(body))
        subject = f"commenting on pull request {number}"

        def found() -> Comment | None:
            me = self.who()
            return next(
                (c for c in self.comments(number) if c.author == me and _plain(c.body) == _plain(body)), None
            )

        return self._retry.once(subject, lambda: self._comment(self._send(call).json()), found)

    def edit_comment(self, number: int, comment: int, body: str) -> Comment:
        """Replace the text of a comment. Raises ForgeError also for a text above `comment_limit`."""
        call = self._dialect.edit_comment(number, comment, self._checked(body))
        return self._run(f"editing comment {comment} on pull request {number}", call, self._comment)

    def statuses(self, pull: Pull) -> tuple[Status, ...]:
        """The statuses that we set on a head: of each context the last, unless somebody else has set it since."""
        me = self.who()
        return tuple(posted.status for posted in self._latest(pull).values() if posted.author == me)

    def set_status(self, pull: Pull, status: Status) -> None:
        """Set a status on a head."""
        call = self._dialect.set_status(pull, status)
        subject = f"status {status.context!r} of {pull.head[:12]}"

        def attempt() -> None:
            try:
                self._send(call)
            except Refusal as problem:
                if problem.status != _SAME_STATE or not self._is_set(pull, status):
                    raise

        self._retry.run(subject, attempt)

    def proposal(self, branch: str, target: str) -> Proposal | None:
        """The open pull request from a branch into another."""
        return self._proposal(branch, target, past=False)

    def past_proposal(self, branch: str, target: str) -> Proposal | None:
        """The last one that is not open any more."""
        return self._proposal(branch, target, past=True)

    def propose(self, branch: str, target: str, title: str, body: str) -> Proposal:
        """Open a pull request. Raises ForgeError also for a text above `comment_limit`."""
        call = self._dialect.propose(branch, target, title, self._checked(body))

        def attempt() -> Proposal:
            try:
                return self._dialect.read_proposal(self._send(call).json()).proposal
            except (Refusal, Transient) as problem:
                found = self.proposal(branch, target) if problem.status in _OPEN_ALREADY else None
                if found is None:
                    raise
                return found

        subject = f"opening a pull request from {branch} into {target}"
        return self._retry.once(subject, attempt, lambda: self.proposal(branch, target))

    def revise(self, number: int, title: str, body: str, *, close: bool = False) -> Proposal:
        """Replace a pull request's title and text. Raises ForgeError also for a text above `comment_limit`."""
        call = self._dialect.revise(number, title, self._checked(body), close=close)
        subject = f"{'closing' if close else 'editing'} pull request {number}"
        return self._run(subject, call, lambda answer: self._dialect.read_proposal(answer).proposal)

    def _proposal(self, branch: str, target: str, *, past: bool) -> Proposal | None:
        """The one with the highest number, which was opened last."""
        subject = f"pull requests from {branch} into {target}"
        listed = self._listed(subject, self._dialect.proposals(branch, target, past=past))
        found = None
        for entry in islice(listed, _MOST_PAST if past else None):
            one = self._read(subject, entry, self._dialect.read_proposal)
            fits = (one.branch, one.target) == (branch, target) and (one.proposal.stage is Stage.OPEN) != past
            if fits and (found is None or one.proposal.number > found.number):
                found = one.proposal
        return found

    def _is_set(self, pull: Pull, status: Status) -> bool:
        posted = self._latest(pull).get(status.context)
        return posted is not None and posted.status.state is status.state

    def _latest(self, pull: Pull) -> dict[str, Posted]:
        subject = f"statuses of {pull.head[:12]}"
        latest: dict[str, Posted] = {}
        for entry in self._listed(subject, self._dialect.statuses(pull)):
            posted = self._read(subject, entry, self._dialect.read_status)
            known = latest.get(posted.status.context)
            if known is None or known.id < posted.id:
                latest[posted.status.context] = posted
        return latest

    def _asked_who(self) -> str:
        subject, other = "asking whose token it is", self._dialect.who_else()

        def attempt() -> str:
            try:
                reply = self._send(self._dialect.who())
            except Refusal as problem:
                if other is None or problem.status != 403:
                    raise
                reply = self._send(other)
            return self._dialect.read_who(reply.json())

        return self._retry.run(subject, attempt)

    def _listed(self, subject: str, call: Call) -> Iterator[Any]:
        """The entries of all pages of a list."""
        query = ""
        for _ in range(_MOST_PAGES):
            entries, query = self._retry.run(subject, lambda query=query: self._page(call, query))  # type: ignore[misc]
            yield from entries
            if not query:
                return
        raise ForgeError(f"{subject}: there are more than {_MOST_PAGES} pages of them")

    def _page(self, call: Call, query: str) -> tuple[list[Any], str]:
        reply = self._send(call, query)
        entries = reply.json()
        if not isinstance(entries, list):
            raise Refusal("its answer is no list")
        return entries, reply.next_query

    def _comment(self, answer: Any) -> Comment:
        comment = self._dialect.read_comment(answer)
        if comment is None:
            raise Refusal("its answer is no comment")
        return comment

    def _checked(self, body: str) -> str:
        size = len(body.encode())
        if size > self.comment_limit:
            raise ForgeError(
                f"a comment of {size} bytes is more than the {self.comment_limit} that are taken"
            )
        return body

    def _run(self, subject: str, call: Call, read: Callable[[Any], Read]) -> Read:
        return self._retry.run(subject, lambda: read(self._send(call).json()))

    def _read(self, subject: str, entry: Any, read: Callable[[Any], Read]) -> Read:
        return self._retry.run(subject, lambda: read(entry))

    def _send(self, call: Call, query: str = "") -> Reply:
        return self._wire.send(call, self._dialect.headers(self._token.read()), query)


def _plain(text: str) -> str:
    """A text without what forges change in it: line ends, and white space around it."""
    return text.replace("\r\n", "\n").strip()
