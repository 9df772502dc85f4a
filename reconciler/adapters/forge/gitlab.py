"""GitLab.

Belongs here: requests and answers of its REST API, version 4, as its documentation has them (doc/api/notes.md,
commits.md, merge_requests.md, users.md). Does not belong here: sending.
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
    part,
    quoted,
    sha,
    state,
)
from reconciler.ports.forge import Comment, Proposal, Pull, Stage, State, Status

_WORDS: Final = {State.PENDING: "pending", State.SUCCESS: "success", State.FAILURE: "failed"}
_CREATED: Final = frozenset({200, 201})
_LONGEST_REF: Final = 255


class GitLab:
    """Implements `Dialect` for one project, `GROUP/NAME` or deeper. Raises ForgeError for another spelling.

    Accounts are known by their number: a user name can be given up and taken by somebody else.
    """

    comment_limit = 1_000_000

    def __init__(self, repository: str) -> None:
        self._at = f"/projects/{quoted(repository)}"

    def headers(self, token: str) -> Mapping[str, str]:
        """Personal, project and group access tokens are taken as bearers too."""
        return {"Accept": "application/json", "Authorization": f"Bearer {token}"}

    def who(self) -> Call:
        """The token's user; tokens of projects and groups have a bot's."""
        return Call("GET", "/user")

    def who_else(self) -> Call | None:
        """There are only users."""
        return None

    def read_who(self, answer: Any) -> str:
        """The number."""
        return str(part(answer, "id", int))

    def pull(self, number: int) -> Call:
        """One merge request."""
        return Call("GET", f"{self._at}/merge_requests/{number}")

    def read_pull(self, answer: Any) -> Pull:
        """Its head, and where that is from."""
        author, number = inner(answer, "author").get("id"), part(answer, "iid", int)
        return Pull(
            number=number,
            title=part(answer, "title", str),
            head=sha(answer, "sha"),
            target=part(answer, "target_branch", str),
            is_open=part(answer, "state", str) == "opened",
            is_fork=answer.get("source_project_id") != answer.get("target_project_id"),
            author=str(author) if isinstance(author, int) else "",
            labels=frozenset(label for label in answer.get("labels") or () if isinstance(label, str)),
            ref=f"refs/merge-requests/{number}/head",
            # A fast-forward has a commit of its own only when it was squashed.
            merged=merge_commit(answer, "merge_commit_sha", "squash_commit_sha", "sha")
            if answer["state"] == "merged"
            else "",
            branch=part(answer, "source_branch", str),
        )

    def pulls(self, target: str) -> Call:
        """The first page; the newest first is the usual order."""
        query = urlencode({"state": "opened", "target_branch": target, "per_page": LISTED})
        return Call("GET", f"{self._at}/merge_requests?{query}")

    def comments(self, number: int) -> Call:
        """The first page, oldest first."""
        order = f"sort=asc&order_by=created_at&per_page={LISTED}"
        return Call("GET", f"{self._at}/merge_requests/{number}/notes?{order}")

    def read_comment(self, answer: Any) -> Comment | None:
        """A note; those that GitLab writes about what happened are nobody's."""
        if answer.get("system") if isinstance(answer, dict) else False:
            return None
        author = inner(answer, "author").get("id")
        return Comment(
            id=part(answer, "id", int),
            author=str(author) if isinstance(author, int) else "",
            body=str(answer.get("body") or ""),
        )

    def create_comment(self, number: int, body: str) -> Call:
        """A note."""
        return Call("POST", f"{self._at}/merge_requests/{number}/notes", {"body": body}, _CREATED)

    def edit_comment(self, number: int, comment: int, body: str) -> Call:
        """The note's text."""
        return Call("PUT", f"{self._at}/merge_requests/{number}/notes/{comment}", {"body": body})

    def statuses(self, pull: Pull) -> Call:
        """Of every name the last that was set for the branch."""
        query = urlencode({**_ref(pull), "per_page": LISTED})
        return Call("GET", f"{self._at}/repository/commits/{commit_id(pull.head)}/statuses?{query}")

    def read_status(self, answer: Any) -> Posted:
        """One of them."""
        status = Status(
            part(answer, "name", str),
            state(part(answer, "status", str), _WORDS),
            str(answer.get("description") or ""),
        )
        author = inner(answer, "author").get("id")
        return Posted(part(answer, "id", int), str(author) if isinstance(author, int) else "", status)

    def set_status(self, pull: Pull, status: Status) -> Call:
        """A new one, or the next state of one that is pending: of the same name, for the same branch."""
        body = {
            "state": _WORDS[status.state],
            "name": status.context,
            "description": described(status),
            **_ref(pull),
        }
        return Call("POST", f"{self._at}/statuses/{commit_id(pull.head)}", body, _CREATED)

    def proposals(self, branch: str, target: str, *, past: bool) -> Call:
        """The first page, the newest first. What is past may have been merged or closed, for which there is no word."""
        query = {
            "state": "all" if past else "opened",
            "source_branch": branch,
            "target_branch": target,
            "per_page": LISTED,
        }
        return Call("GET", f"{self._at}/merge_requests?{urlencode(query)}")

    def read_proposal(self, answer: Any) -> Listed:
        """One of them; while it is being merged it is `locked`."""
        pull = self.read_pull(answer)
        stages = {"merged": Stage.MERGED, "closed": Stage.CLOSED}
        return Listed(
            "" if pull.is_fork else pull.branch,
            pull.target,
            Proposal(
                pull.number,
                f"!{pull.number}",
                pull.title,
                str(answer.get("description") or ""),
                stages.get(part(answer, "state", str), Stage.OPEN),
                str(answer.get("web_url") or ""),
            ),
        )

    def propose(self, branch: str, target: str, title: str, body: str) -> Call:
        """From a branch of the same project."""
        asked = {"source_branch": branch, "target_branch": target, "title": title, "description": body}
        return Call("POST", f"{self._at}/merge_requests", asked, _CREATED)

    def revise(self, number: int, title: str, body: str, *, close: bool) -> Call:
        """What is not named stays."""
        asked = {"title": title, "description": body, **({"state_event": "close"} if close else {})}
        return Call("PUT", f"{self._at}/merge_requests/{number}", asked)


def _ref(pull: Pull) -> dict[str, str]:
    """The branch that statuses are kept under. Left to itself, GitLab takes one of the project that has the commit:
    maybe another one, and for the head of a fork there is none, which is 404."""
    # A longer name would be refused. Without it at least the project's own branches get their statuses.
    return {"ref": pull.branch} if 0 < len(pull.branch) <= _LONGEST_REF else {}
