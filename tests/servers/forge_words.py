"""How each forge says what the test forge holds: its routes, and its JSON.

Belongs here: the three ways of saying it. Does not belong here: the state, and HTTP (`forge`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from tests.servers.forge_actions import (
    FORK,
    ID,
    NUMBER,
    OURS,
    SHA,
    WHEN,
    Action,
    User,
    Words,
    created,
    edited,
    is_on,
    listed,
    opened,
    put,
    reply,
    revised,
    shown,
)

if TYPE_CHECKING:
    from tests.servers.forge import Asked, PullRequest, Reply, Said, Set, TestForge

# -- GitHub

_AT: Final = "/repos/acme/machine-os"


def _github_user(user: User) -> dict[str, Any]:
    kind = "Bot" if user.login.endswith("[bot]") else "User"
    return {"login": user.login, "id": user.id, "type": kind, "site_admin": False}


def _github_comment(forge: TestForge, said: Said) -> dict[str, Any]:
    return {
        "id": said.id,
        # GitHub keeps what ends lines as it came, but nothing around the text.
        "body": said.body.strip(),
        "user": _github_user(said.user) if said.user.login else None,
        "html_url": f"{forge.host}/acme/machine-os/pull/{said.pull}#issuecomment-{said.id}",
        "created_at": WHEN,
        "updated_at": WHEN,
    }


def _github_status(one: Set) -> dict[str, Any]:
    return {
        "id": one.id,
        "state": one.state,
        "context": one.context,
        "description": one.description,
        "target_url": None,
        "creator": _github_user(one.user),
        "created_at": WHEN,
        "updated_at": WHEN,
    }


def _github_who(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    if forge.is_app:
        return reply(403, {"message": "Resource not accessible by integration"})
    return reply(200, _github_user(forge.user))


def _github_viewer(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    return reply(200, {"data": {"viewer": {"login": forge.user.login}}})


def _github_pull(pull: PullRequest) -> dict[str, Any]:
    return {
        "number": pull.number,
        "title": pull.title,
        "state": "open" if pull.open else "closed",
        "body": pull.body.strip() or None,
        "html_url": f"https://forge.example.com/acme/machine-os/pull/{pull.number}",
        "head": {"ref": pull.branch, "sha": pull.head, "repo": {"id": FORK if pull.fork else OURS}},
        "base": {"ref": pull.target, "sha": "1" * 40, "repo": {"id": OURS}},
        "user": _github_user(pull.user),
        "labels": [{"id": n, "name": name} for n, name in enumerate(pull.labels, 1)],
        "merged_at": WHEN if pull.merged else None,
        "merge_commit_sha": pull.merged or "2" * 40,
    }


def _github_comments(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
    entries = [_github_comment(forge, said) for said in forge.comments if is_on(said, found)]
    return forge.page(asked, entries, "per_page", 30, 100)


def _github_statuses(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
    entries = [_github_status(one) for one in reversed(forge.set) if one.commit == found["sha"]]
    return forge.page(asked, entries, "per_page", 30, 100)


_GITHUB_OPENED: Final = opened(
    _github_pull,
    "head",
    "base",
    "body",
    (422, {"message": "Validation Failed", "errors": [{"message": "A pull request already exists."}]}),
)
_GITHUB_REVISED: Final = revised(_github_pull, "body", "state", "closed", 200)

_GITHUB: Final = Words(
    lambda token: f"Bearer {token}",
    (
        ("GET", "/user", Action(_github_who, "github user")),
        ("POST", "/graphql", Action(_github_viewer, "github viewer", "github query")),
        ("GET", f"{_AT}/pulls", Action(listed(_github_pull, "base", "per_page", 100), "github pulls")),
        ("GET", f"{_AT}/pulls/{NUMBER}", Action(shown(_github_pull), "github pull")),
        ("POST", f"{_AT}/pulls", Action(_GITHUB_OPENED, "github pull", "github propose")),
        ("PATCH", f"{_AT}/pulls/{NUMBER}", Action(_GITHUB_REVISED, "github pull", "github revise")),
        ("GET", f"{_AT}/issues/{NUMBER}/comments", Action(_github_comments, "github comments")),
        (
            "POST",
            f"{_AT}/issues/{NUMBER}/comments",
            Action(created(_github_comment), "github comment", "github say"),
        ),
        (
            "PATCH",
            f"{_AT}/issues/comments/{ID}",
            Action(edited(_github_comment), "github comment", "github say"),
        ),
        ("GET", f"{_AT}/commits/{SHA}/statuses", Action(_github_statuses, "github statuses")),
        ("POST", f"{_AT}/statuses/{SHA}", Action(put(_github_status), "github status", "github set")),
    ),
)


# -- Gitea and Forgejo


def _gitea_user(user: User) -> dict[str, Any]:
    return {"id": user.id, "login": user.login, "full_name": "", "is_admin": False}


def _gitea_comment(forge: TestForge, said: Said) -> dict[str, Any]:
    return {
        "id": said.id,
        "body": said.body.replace("\n", "\r\n"),
        "user": _gitea_user(said.user),
        "original_author": "",
        "html_url": f"{forge.host}/acme/machine-os/pulls/{said.pull}#issuecomment-{said.id}",
        "created_at": WHEN,
        "updated_at": WHEN,
    }


def _gitea_status(one: Set) -> dict[str, Any]:
    return {
        "id": one.id,
        "status": one.state,
        "context": one.context,
        "description": one.description,
        "target_url": "",
        "creator": _gitea_user(one.user),
        "created_at": WHEN,
        "updated_at": WHEN,
    }


def _gitea_who(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    return reply(200, _gitea_user(forge.user))


def _gitea_pull(pull: PullRequest) -> dict[str, Any]:
    return {
        "number": pull.number,
        "title": pull.title,
        "state": "open" if pull.open else "closed",
        "body": pull.body.replace("\n", "\r\n"),
        "html_url": f"https://forge.example.com/acme/machine-os/pulls/{pull.number}",
        "head": {
            "label": pull.branch,
            # What is left when the branch was deleted after the merge.
            "ref": f"refs/pull/{pull.number}/head" if pull.merged else pull.branch,
            "sha": pull.head,
            "repo_id": FORK if pull.fork else OURS,
        },
        "base": {"ref": pull.target, "sha": "1" * 40, "repo_id": OURS},
        "user": _gitea_user(pull.user),
        "labels": [{"id": n, "name": name} for n, name in enumerate(pull.labels, 1)],
        "merged": bool(pull.merged),
        **({"merge_commit_sha": pull.merged} if pull.merged else {}),
    }


def _gitea_comments(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    return reply(200, [_gitea_comment(forge, said) for said in forge.comments if is_on(said, found)])


def _gitea_statuses(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
    entries = [_gitea_status(one) for one in forge.set if one.commit == found["sha"]]
    return forge.page(asked, entries, "limit", 30, 50)


_GITEA_OPENED: Final = opened(
    _gitea_pull, "head", "base", "body", (409, {"message": "pull request already exists for these targets"})
)
_GITEA_REVISED: Final = revised(_gitea_pull, "body", "state", "closed", 201)

_GITEA: Final = Words(
    lambda token: f"token {token}",
    (
        ("GET", "/user", Action(_gitea_who, "gitea user")),
        ("GET", f"{_AT}/pulls", Action(listed(_gitea_pull, "", "limit", 50), "gitea pulls")),
        ("GET", f"{_AT}/pulls/{NUMBER}", Action(shown(_gitea_pull), "gitea pull")),
        ("POST", f"{_AT}/pulls", Action(_GITEA_OPENED, "gitea pull", "gitea propose")),
        ("PATCH", f"{_AT}/pulls/{NUMBER}", Action(_GITEA_REVISED, "gitea pull", "gitea revise")),
        ("GET", f"{_AT}/issues/{NUMBER}/comments", Action(_gitea_comments, "gitea comments")),
        (
            "POST",
            f"{_AT}/issues/{NUMBER}/comments",
            Action(created(_gitea_comment), "gitea comment", "gitea say"),
        ),
        (
            "PATCH",
            f"{_AT}/issues/comments/{ID}",
            Action(edited(_gitea_comment), "gitea comment", "gitea say"),
        ),
        ("GET", f"{_AT}/commits/{SHA}/statuses", Action(_gitea_statuses, "gitea statuses")),
        ("POST", f"{_AT}/statuses/{SHA}", Action(put(_gitea_status), "gitea status", "gitea set")),
    ),
)


# -- GitLab

_PROJECT: Final = "/projects/acme%2Fmachine-os"
_ENDED: Final = ("success", "failed", "canceled", "skipped")
_MOST: Final = 100
_USUAL: Final = 20
"""Entries of a page unless the query names a number."""


def _gitlab_user(user: User) -> dict[str, Any]:
    return {"id": user.id, "username": user.login, "name": user.login, "state": "active"}


def _gitlab_note(forge: TestForge, said: Said) -> dict[str, Any]:  # noqa: ARG001
    return {
        "id": said.id,
        "body": said.body,
        "author": _gitlab_user(said.user),
        "system": said.system,
        "noteable_type": "MergeRequest",
        "noteable_iid": said.pull,
        "resolvable": False,
        "created_at": WHEN,
        "updated_at": WHEN,
    }


def _gitlab_status(one: Set) -> dict[str, Any]:
    return {
        "id": one.id,
        "sha": one.commit,
        "status": one.state,
        "name": one.context,
        "description": one.description,
        "target_url": None,
        "author": _gitlab_user(one.user),
        "created_at": WHEN,
    }


def _gitlab_who(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    return reply(200, _gitlab_user(forge.user))


def _gitlab_pull(pull: PullRequest) -> dict[str, Any]:
    return {
        "id": 1000 + pull.number,
        "iid": pull.number,
        "title": pull.title,
        "state": "opened" if pull.open else "merged" if pull.merged else "closed",
        "sha": pull.head,
        "author": _gitlab_user(pull.user),
        "labels": list(pull.labels),
        "merge_commit_sha": pull.merged or None,
        "squash_commit_sha": None,
        "description": pull.body or None,
        "web_url": f"https://forge.example.com/acme/machine-os/-/merge_requests/{pull.number}",
        "source_branch": pull.branch,
        "target_branch": pull.target,
        "source_project_id": FORK if pull.fork else OURS,
        "target_project_id": OURS,
    }


def _gitlab_notes(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
    entries = [_gitlab_note(forge, said) for said in forge.comments if said.pull == int(found["number"])]
    if "sort=asc" not in asked.query:
        entries.reverse()
    return forge.page(asked, entries, "per_page", _USUAL, _MOST)


def _gitlab_statuses(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
    wanted = parse_qs(asked.query).get("ref")
    latest = {(one.ref, one.context): one for one in forge.set if one.commit == found["sha"]}
    entries = [_gitlab_status(one) for one in latest.values() if wanted is None or one.ref in wanted]
    return forge.page(asked, entries, "per_page", _USUAL, _MOST)


def _gitlab_ref(forge: TestForge, commit: str) -> str:
    """Where a status goes that does not say: to the last branch that got one for the commit, or else to one of the
    project that has the commit; '' when none has."""
    last = list(dict.fromkeys(one.ref for one in forge.set if one.commit == commit))[-1:]
    own = [pull.branch for pull in forge.pulls.values() if pull.head == commit and not pull.fork]
    return next(iter([*last, *own]), "")


def _gitlab_set(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
    """A status that has not ended goes on, when the same account sets it for the same branch; GitLab refuses to let it
    be again what it is."""
    from tests.servers.forge import Set

    body = asked.body
    name, state = body.get("name") or body.get("context") or "default", body["state"]
    ref = body.get("ref") or _gitlab_ref(forge, found["sha"])
    if not ref:
        return reply(404, {"message": "404 References for commit Not Found"})
    where = (found["sha"], name, ref, forge.user)
    mine = [one for one in forge.set if (one.commit, one.context, one.ref, one.user) == where]
    going_on = mine[-1] if mine and mine[-1].state not in _ENDED else None
    if going_on and state == going_on.state:
        event = {"pending": "enqueue", "running": "run"}[state]
        why = f'(Reason(s): Status cannot transition via "{event}")'
        said = f"Cannot transition status via :{event} from :{state} {why}"
        return reply(400, {"message": said})
    number = going_on.id if going_on else forge.new_id()
    one = Set(number, forge.user, found["sha"], name, state, body.get("description", ""), ref)
    forge.set.append(one)
    return reply(201, _gitlab_status(one))


_GITLAB_OPENED: Final = opened(
    _gitlab_pull,
    "source_branch",
    "target_branch",
    "description",
    (409, {"message": ["Another open merge request already exists for this source branch: !1"]}),
)
_GITLAB_REVISED: Final = revised(_gitlab_pull, "description", "state_event", "close", 200)

_GITLAB: Final = Words(
    lambda token: f"Bearer {token}",
    (
        ("GET", "/user", Action(_gitlab_who, "gitlab user")),
        (
            "GET",
            f"{_PROJECT}/merge_requests",
            Action(listed(_gitlab_pull, "target_branch", "per_page", _MOST, _USUAL), "gitlab pulls"),
        ),
        ("GET", f"{_PROJECT}/merge_requests/{NUMBER}", Action(shown(_gitlab_pull), "gitlab pull")),
        ("POST", f"{_PROJECT}/merge_requests", Action(_GITLAB_OPENED, "gitlab pull", "gitlab propose")),
        (
            "PUT",
            f"{_PROJECT}/merge_requests/{NUMBER}",
            Action(_GITLAB_REVISED, "gitlab pull", "gitlab revise"),
        ),
        ("GET", f"{_PROJECT}/merge_requests/{NUMBER}/notes", Action(_gitlab_notes, "gitlab notes")),
        (
            "POST",
            f"{_PROJECT}/merge_requests/{NUMBER}/notes",
            Action(created(_gitlab_note), "gitlab note", "gitlab say"),
        ),
        (
            "PUT",
            f"{_PROJECT}/merge_requests/{NUMBER}/notes/{ID}",
            Action(edited(_gitlab_note), "gitlab note", "gitlab say"),
        ),
        (
            "GET",
            f"{_PROJECT}/repository/commits/{SHA}/statuses",
            Action(_gitlab_statuses, "gitlab statuses"),
        ),
        ("POST", f"{_PROJECT}/statuses/{SHA}", Action(_gitlab_set, "gitlab status", "gitlab set")),
    ),
)

WORDS: Final = {"github": _GITHUB, "gitlab": _GITLAB, "gitea": _GITEA}
