"""GitHub, and GitHub Enterprise Server.

Belongs here: requests and answers of its REST API, as its OpenAPI description has them (github/rest-api-description,
version 2022-11-28). Does not belong here: sending.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from reconciler.adapters.forge.dialect import (
    LISTED,
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

_VERSION: Final = "2022-11-28"
_WORDS: Final = {State.PENDING: "pending", State.SUCCESS: "success", State.FAILURE: "failure"}
_CREATED: Final = frozenset({201})


class GitHub:
    """Implements `Dialect` for one repository, `OWNER/NAME`. Raises ForgeError for another spelling.

    Accounts are known by their login, in lower case: it is all that is known of an app, and nobody else can have it
    while it does.
    """

    comment_limit = 65_536

    def __init__(self, repository: str) -> None:
        self._at = owned(repository)

    def headers(self, token: str) -> Mapping[str, str]:
        """A token of any kind as bearer."""
        return {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": _VERSION,
            "Authorization": f"Bearer {token}",
        }

    def who(self) -> Call:
        """The user of a personal token."""
        return Call("GET", "/user")

    def who_else(self) -> Call | None:
        """An app's installation, such as that of GitHub Actions, is no user to the REST API; GraphQL knows its name."""
        return Call("POST", "../graphql", {"query": "{viewer{login}}"})

    def read_who(self, answer: Any) -> str:
        """The login, from either answer."""
        viewer = inner(inner(answer, "data"), "viewer")
        return part(viewer or answer, "login", str).lower()

    def pull(self, number: int) -> Call:
        """One pull request."""
        return Call("GET", f"{self._at}/pulls/{number}")

    def read_pull(self, answer: Any) -> Pull:
        """Its head, and where that is from: a fork that was deleted is one still. As long as it is open, its merge
        commit is a trial that nobody made."""
        head, base = inner(answer, "head"), inner(answer, "base")
        author, number = inner(answer, "user").get("login"), part(answer, "number", int)
        return Pull(
            number=number,
            title=part(answer, "title", str),
            head=sha(head, "sha"),
            target=part(base, "ref", str),
            is_open=part(answer, "state", str) == "open",
            is_fork=inner(head, "repo").get("id") != inner(base, "repo").get("id"),
            author=author.lower() if isinstance(author, str) else "",
            labels=frozenset(part(label, "name", str) for label in answer.get("labels") or ()),
            ref=f"refs/pull/{number}/head",
            merged=merge_commit(answer, "merge_commit_sha") if answer.get("merged_at") else "",
            branch=part(head, "ref", str),
        )

    def pulls(self, target: str) -> Call:
        """The first page; the newest first is the usual order."""
        query = urlencode({"state": "open", "base": target, "per_page": LISTED})
        return Call("GET", f"{self._at}/pulls?{query}")

    def comments(self, number: int) -> Call:
        """The first page, oldest first: this list knows no other order."""
        return Call("GET", f"{self._at}/issues/{number}/comments?per_page={LISTED}")

    def read_comment(self, answer: Any) -> Comment | None:
        """The author is null when the account was deleted."""
        author = inner(answer, "user").get("login")
        return Comment(
            id=part(answer, "id", int),
            author=author.lower() if isinstance(author, str) else "",
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
        """Of every context all that were ever set, newest first."""
        return Call("GET", f"{self._at}/commits/{commit_id(pull.head)}/statuses?per_page={LISTED}")

    def read_status(self, answer: Any) -> Posted:
        """One of them."""
        creator = inner(answer, "creator").get("login")
        status = Status(
            part(answer, "context", str),
            state(part(answer, "state", str), _WORDS),
            str(answer.get("description") or ""),
        )
        return Posted(part(answer, "id", int), creator.lower() if isinstance(creator, str) else "", status)

    def set_status(self, pull: Pull, status: Status) -> Call:
        """A new one, which counts from now on."""
        body = {
            "state": _WORDS[status.state],
            "context": status.context,
            "description": described(status),
        }
        return Call("POST", f"{self._at}/statuses/{commit_id(pull.head)}", body, _CREATED)

    def proposals(self, branch: str, target: str, *, past: bool) -> Call:
        """The first page, the newest first. Branches are looked for by their owner's name."""
        owner = self._at.split("/")[2]
        state = "closed" if past else "open"
        query = {"state": state, "head": f"{owner}:{branch}", "base": target, "per_page": LISTED}
        return Call("GET", f"{self._at}/pulls?{urlencode(query)}")

    def read_proposal(self, answer: Any) -> Listed:
        """One of them."""
        pull = self.read_pull(answer)
        stage = Stage.MERGED if answer.get("merged_at") else Stage.CLOSED
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
        """What is not named stays."""
        asked = {"title": title, "body": body, **({"state": "closed"} if close else {})}
        return Call("PATCH", f"{self._at}/pulls/{number}", asked)
