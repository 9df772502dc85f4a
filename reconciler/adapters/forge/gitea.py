"""Gitea and Forgejo.

Belongs here: requests and answers of their REST API, as their Swagger description has them (`/swagger.v1.json`; the
same for both in all that is used here). Does not belong here: sending.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reconciler.adapters.forge.dialect import (
    Call,
    Listed,
    Posted,
    commit_id,
    described,
    inner,
    merge_commit,
    owned,
    part,
    sha,
    state,
)
from reconciler.ports.forge import Comment, Proposal, Pull, Stage, State, Status

_WORDS: Final = {State.PENDING: "pending", State.SUCCESS: "success", State.FAILURE: "failure"}
_CREATED: Final = frozenset({201})
_LISTED: Final = 50
"""The most that a server gives at once unless it is configured otherwise (`api.MAX_RESPONSE_ITEMS`)."""


class Gitea:
    """Implements `Dialect` for one repository, `OWNER/NAME`. Raises ForgeError for another spelling.

    Accounts are known by their number: a login can be given up and taken by somebody else.
    """

    comment_limit = 65_536
    """They name none; GitHub's is long enough for anybody who reads."""

    def __init__(self, repository: str) -> None:
        self._at = owned(repository)

    def headers(self, token: str) -> Mapping[str, str]:
        """A token, by their own word for it."""
        return {"Accept": "application/json", "Authorization": f"token {token}"}

    def who(self) -> Call:
        """The token's user."""
        return Call("GET", "/user")

    def who_else(self) -> Call | None:
        """There are only users."""
        return None

    def read_who(self, answer: Any) -> str:
        """The number."""
        return str(part(answer, "id", int))

    def pull(self, number: int) -> Call:
        """One pull request."""
        return Call("GET", f"{self._at}/pulls/{number}")

    def read_pull(self, answer: Any) -> Pull:
        """Its head, and where that is from. The head's `ref` is a hidden one when its branch was deleted; `label`
        remembers the name."""
        head, base = inner(answer, "head"), inner(answer, "base")
        author, number = inner(answer, "user").get("id"), part(answer, "number", int)
        return Pull(
            number=number,
            title=part(answer, "title", str),
            head=sha(head, "sha"),
            target=part(base, "ref", str),
            is_open=part(answer, "state", str) == "open",
            is_fork=head.get("repo_id") != base.get("repo_id"),
            author=str(author) if isinstance(author, int) else "",
            labels=frozenset(part(label, "name", str) for label in answer.get("labels") or ()),
            ref=f"refs/pull/{number}/head",
            merged=merge_commit(answer, "merge_commit_sha") if answer.get("merged") else "",
            branch=str(head.get("label") or "") or part(head, "ref", str),
        )

    def pulls(self, target: str) -> Call:  # noqa: ARG002  (Gitea and Forgejo pick by branch only since lately)
        """The first page; the newest first is the usual order."""
        return Call("GET", f"{self._at}/pulls?state=open&limit={_LISTED}")

    def comments(self, number: int) -> Call:
        """All of them: this list has no pages, and is in order of time."""
        return Call("GET", f"{self._at}/issues/{number}/comments")

    def read_comment(self, answer: Any) -> Comment | None:
        """A comment that was brought along from another forge has an original author, and is none of ours."""
        author = inner(answer, "user").get("id")
        ours = isinstance(author, int) and not answer.get("original_author")
        return Comment(
            id=part(answer, "id", int),
            author=str(author) if ours else "",
            body=str(answer.get("body") or ""),
            url=str(answer.get("html_url") or ""),
        )

    def create_comment(self, number: int, body: str) -> Call:
        """Pull requests are issues, here."""
        return Call("POST", f"{self._at}/issues/{number}/comments", {"body": body}, _CREATED)

    def edit_comment(self, number: int, comment: int, body: str) -> Call:  # noqa: ARG002  (GitLab needs the number)
        """A comment's id is enough."""
        return Call("PATCH", f"{self._at}/issues/comments/{comment}", {"body": body})

    def statuses(self, pull: Pull) -> Call:
        """Of every context all that were ever set."""
        return Call("GET", f"{self._at}/commits/{commit_id(pull.head)}/statuses?limit={_LISTED}")

    def read_status(self, answer: Any) -> Posted:
        """One of them; what is called `state` when it is set is called `status` here."""
        status = Status(
            part(answer, "context", str),
            state(part(answer, "status", str), _WORDS),
            str(answer.get("description") or ""),
        )
        creator = inner(answer, "creator").get("id")
        return Posted(part(answer, "id", int), str(creator) if isinstance(creator, int) else "", status)

    def set_status(self, pull: Pull, status: Status) -> Call:
        """A new one, which counts from now on."""
        body = {
            "state": _WORDS[status.state],
            "context": status.context,
            "description": described(status),
        }
        return Call("POST", f"{self._at}/statuses/{commit_id(pull.head)}", body, _CREATED)

    def proposals(self, branch: str, target: str, *, past: bool) -> Call:  # noqa: ARG002  (see `pulls`)
        """The first page; of those that are past what was touched last comes first."""
        state = "closed&sort=recentupdate" if past else "open"
        return Call("GET", f"{self._at}/pulls?state={state}&limit={_LISTED}")

    def read_proposal(self, answer: Any) -> Listed:
        """One of them."""
        pull = self.read_pull(answer)
        stage = Stage.MERGED if answer.get("merged") else Stage.CLOSED
        return Listed(
            "" if pull.is_fork else pull.branch,
            pull.target,
            Proposal(
                pull.number,
                f"#{pull.number}",
                pull.title,
                str(answer.get("body") or ""),
                Stage.OPEN if pull.is_open else stage,
                str(answer.get("html_url") or ""),
            ),
        )

    def propose(self, branch: str, target: str, title: str, body: str) -> Call:
        """From a branch of the same repository."""
        asked = {"title": title, "head": branch, "base": target, "body": body}
        return Call("POST", f"{self._at}/pulls", asked, _CREATED)

    def revise(self, number: int, title: str, body: str, *, close: bool) -> Call:
        """What is not named stays. The answer is 201, as if it were made anew."""
        asked = {"title": title, "body": body, **({"state": "closed"} if close else {})}
        return Call("PATCH", f"{self._at}/pulls/{number}", asked, _CREATED)
