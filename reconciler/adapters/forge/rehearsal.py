"""A forge that is only told of: every request that would change something or be read, and none is sent.

Belongs here: the `Forge` port without a network and without a token. Does not belong here: how requests are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from reconciler.adapters.forge.dialect import Call, Dialect
from reconciler.errors import ForgeError
from reconciler.ports.forge import Comment, Pull, Status

_ME = "the token's account"
_BRANCH = "BRANCH"
"""Stands for the pull request's, which only the forge knows."""


class Rehearsal:
    """Implements `ports.forge.Forge`. Each call goes to `tell`; the pull request's head is `head`, and nobody has said
    anything about it yet."""

    def __init__(self, dialect: Dialect, head: str, tell: Callable[[Call], None]) -> None:
        self._dialect = dialect
        self._head = head
        self._tell = tell
        self._is_known = False
        self._set: dict[str, Status] = {}

    @property
    def comment_limit(self) -> int:
        """How many bytes of UTF-8 a comment may have."""
        return self._dialect.comment_limit

    def who(self) -> str:
        """Nobody's name; asked for once."""
        if not self._is_known:
            self._tell(self._dialect.who())
        self._is_known = True
        return _ME

    def pull(self, number: int) -> Pull:
        """An open pull request with the head that was given."""
        self._tell(self._dialect.pull(number))
        return Pull(number, "", self._head, "", is_open=True, is_fork=False, branch=_BRANCH)

    def pulls(self, target: str) -> Iterator[Pull]:
        """None."""
        self._tell(self._dialect.pulls(target))
        return iter(())

    def comments(self, number: int) -> Iterator[Comment]:
        """None."""
        self._tell(self._dialect.comments(number))
        return iter(())

    def create_comment(self, number: int, body: str) -> Comment:
        """The comment. Raises ForgeError for a text above `comment_limit`."""
        if len(body.encode()) > self.comment_limit:
            raise ForgeError(f"a comment of more than {self.comment_limit} bytes is not taken")
        self._tell(self._dialect.create_comment(number, body))
        return Comment(1, _ME, body)

    def edit_comment(self, number: int, comment: int, body: str) -> Comment:
        """The comment."""
        self._tell(self._dialect.edit_comment(number, comment, body))
        return Comment(comment, _ME, body)

    def statuses(self, pull: Pull) -> tuple[Status, ...]:
        """Those that were set here."""
        self.who()
        self._tell(self._dialect.statuses(pull))
        return tuple(self._set.values()) if pull.head == self._head else ()

    def set_status(self, pull: Pull, status: Status) -> None:
        """Only told."""
        self._tell(self._dialect.set_status(pull, status))
        self._set[status.context] = status
