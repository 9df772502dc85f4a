"""How each forge says what the test forge holds: its routes, and its JSON.

Belongs here: the three ways of saying it. Does not belong here: the state, and HTTP (`forge`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.servers.forge import Asked, PullRequest, Reply, Said, Set, TestForge

_WHEN: Final = "2026-11-21T12:00:00Z"
_OURS: Final = 11
_FORK: Final = 12


@dataclass(frozen=True, slots=True)
class User:
    """An account."""

    id: int
    login: str


@dataclass(frozen=True, slots=True)
class Action:
    """What a route does; names of the schemas of its request ('' for none) and its good answer."""

    act: Callable[[TestForge, Asked, Mapping[str, str]], Reply]
    answer: str
    request: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """A forge's own: how it wants a token, its routes, and its JSON for users, comments and statuses."""

    authorization: Callable[[str], str]
    routes: tuple[tuple[str, str, Action], ...]


def _reply(status: int, body: Any) -> Reply:
    from tests.servers.forge import Reply

    return Reply(status, body)


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
        "html_url": f"{forge.host}/acme/machine-os/pull/7#issuecomment-{said.id}",
        "created_at": _WHEN,
        "updated_at": _WHEN,
    }


def _github_status(one: Set) -> dict[str, Any]:
    return {
        "id": one.id,
        "state": one.state,
        "context": one.context,
        "description": one.description,
        "target_url": None,
        "creator": _github_user(one.user),
        "created_at": _WHEN,
        "updated_at": _WHEN,
    }


def _github_who(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    if forge.is_app:
        return _reply(403, {"message": "Resource not accessible by integration"})
    return _reply(200, _github_user(forge.user))


def _github_viewer(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    return _reply(200, {"data": {"viewer": {"login": forge.user.login}}})


def _pull(json: Callable[[PullRequest], dict[str, Any]]) -> Callable[..., Reply]:
    def act(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
        pull = forge.pulls.get(int(found["number"]))
        return _reply(200, json(pull)) if pull else _reply(404, {"message": "Not Found"})

    return act


def _github_pull(pull: PullRequest) -> dict[str, Any]:
    return {
        "number": pull.number,
        "title": pull.title,
        "state": "open" if pull.open else "closed",
        "head": {"ref": "change", "sha": pull.head, "repo": {"id": _FORK if pull.fork else _OURS}},
        "base": {"ref": pull.target, "sha": "1" * 40, "repo": {"id": _OURS}},
    }


def _github_comments(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    entries = [_github_comment(forge, said) for said in forge.comments if not said.system]
    return forge.page(asked, entries, "per_page", 30, 100)


def _created(json: Callable[[TestForge, Said], dict[str, Any]]) -> Callable[..., Reply]:
    def act(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
        return _reply(201, json(forge, forge.say(asked.body["body"])))

    return act


def _edited(json: Callable[[TestForge, Said], dict[str, Any]]) -> Callable[..., Reply]:
    def act(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
        if not any(s.id == int(found["id"]) and s.user == forge.user for s in forge.comments):
            return _reply(403, {"message": "Forbidden"})
        said = forge.edited(int(found["id"]), asked.body["body"])
        assert said is not None
        return _reply(200, json(forge, said))

    return act


def _set(json: Callable[[Set], dict[str, Any]]) -> Callable[..., Reply]:
    def act(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
        from tests.servers.forge import Set

        body = asked.body
        one = Set(
            forge.new_id(),
            forge.user,
            found["sha"],
            body["context"],
            body["state"],
            body.get("description", ""),
        )
        forge.set.append(one)
        return _reply(201, json(one))

    return act


def _github_statuses(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
    entries = [_github_status(one) for one in reversed(forge.set) if one.commit == found["sha"]]
    return forge.page(asked, entries, "per_page", 30, 100)


_SHA: Final = "(?P<sha>[0-9a-f]{40})"
_ID: Final = "(?P<id>[0-9]+)"
_NUMBER: Final = "(?P<number>[0-9]+)"

_GITHUB: Final = Words(
    lambda token: f"Bearer {token}",
    (
        ("GET", "/user", Action(_github_who, "github user")),
        ("POST", "/graphql", Action(_github_viewer, "github viewer", "github query")),
        ("GET", f"{_AT}/pulls/{_NUMBER}", Action(_pull(_github_pull), "github pull")),
        ("GET", f"{_AT}/issues/{_NUMBER}/comments", Action(_github_comments, "github comments")),
        (
            "POST",
            f"{_AT}/issues/{_NUMBER}/comments",
            Action(_created(_github_comment), "github comment", "github say"),
        ),
        (
            "PATCH",
            f"{_AT}/issues/comments/{_ID}",
            Action(_edited(_github_comment), "github comment", "github say"),
        ),
        ("GET", f"{_AT}/commits/{_SHA}/statuses", Action(_github_statuses, "github statuses")),
        ("POST", f"{_AT}/statuses/{_SHA}", Action(_set(_github_status), "github status", "github set")),
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
        "html_url": f"{forge.host}/acme/machine-os/pulls/7#issuecomment-{said.id}",
        "created_at": _WHEN,
        "updated_at": _WHEN,
    }


def _gitea_status(one: Set) -> dict[str, Any]:
    return {
        "id": one.id,
        "status": one.state,
        "context": one.context,
        "description": one.description,
        "target_url": "",
        "creator": _gitea_user(one.user),
        "created_at": _WHEN,
        "updated_at": _WHEN,
    }


def _gitea_who(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    return _reply(200, _gitea_user(forge.user))


def _gitea_pull(pull: PullRequest) -> dict[str, Any]:
    return {
        "number": pull.number,
        "title": pull.title,
        "state": "open" if pull.open else "closed",
        "head": {"ref": "change", "sha": pull.head, "repo_id": _FORK if pull.fork else _OURS},
        "base": {"ref": pull.target, "sha": "1" * 40, "repo_id": _OURS},
    }


def _gitea_comments(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    return _reply(200, [_gitea_comment(forge, said) for said in forge.comments if not said.system])


def _gitea_statuses(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
    entries = [_gitea_status(one) for one in forge.set if one.commit == found["sha"]]
    return forge.page(asked, entries, "limit", 30, 50)


_GITEA: Final = Words(
    lambda token: f"token {token}",
    (
        ("GET", "/user", Action(_gitea_who, "gitea user")),
        ("GET", f"{_AT}/pulls/{_NUMBER}", Action(_pull(_gitea_pull), "gitea pull")),
        ("GET", f"{_AT}/issues/{_NUMBER}/comments", Action(_gitea_comments, "gitea comments")),
        (
            "POST",
            f"{_AT}/issues/{_NUMBER}/comments",
            Action(_created(_gitea_comment), "gitea comment", "gitea say"),
        ),
        (
            "PATCH",
            f"{_AT}/issues/comments/{_ID}",
            Action(_edited(_gitea_comment), "gitea comment", "gitea say"),
        ),
        ("GET", f"{_AT}/commits/{_SHA}/statuses", Action(_gitea_statuses, "gitea statuses")),
        ("POST", f"{_AT}/statuses/{_SHA}", Action(_set(_gitea_status), "gitea status", "gitea set")),
    ),
)


# -- GitLab

_PROJECT: Final = "/projects/acme%2Fmachine-os"
_ENDED: Final = ("success", "failed", "canceled")


def _gitlab_user(user: User) -> dict[str, Any]:
    return {"id": user.id, "username": user.login, "name": user.login, "state": "active"}


def _gitlab_note(forge: TestForge, said: Said) -> dict[str, Any]:  # noqa: ARG001
    return {
        "id": said.id,
        "body": said.body,
        "author": _gitlab_user(said.user),
        "system": said.system,
        "noteable_type": "MergeRequest",
        "noteable_iid": 7,
        "resolvable": False,
        "created_at": _WHEN,
        "updated_at": _WHEN,
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
        "created_at": _WHEN,
    }


def _gitlab_who(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    return _reply(200, _gitlab_user(forge.user))


def _gitlab_pull(pull: PullRequest) -> dict[str, Any]:
    return {
        "id": 1000 + pull.number,
        "iid": pull.number,
        "title": pull.title,
        "state": "opened" if pull.open else "merged",
        "sha": pull.head,
        "source_branch": "change",
        "target_branch": pull.target,
        "source_project_id": _FORK if pull.fork else _OURS,
        "target_project_id": _OURS,
    }


def _gitlab_notes(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
    entries = [_gitlab_note(forge, said) for said in forge.comments]
    if "sort=asc" not in asked.query:
        entries.reverse()
    return forge.page(asked, entries, "per_page", 20, 100)


def _gitlab_statuses(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
    latest = {one.context: one for one in forge.set if one.commit == found["sha"]}
    return forge.page(asked, [_gitlab_status(one) for one in latest.values()], "per_page", 20, 100)


def _gitlab_set(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
    """A status that has not ended goes on; GitLab refuses to let it be again what it is."""
    from tests.servers.forge import Set

    body = asked.body
    name, state = body.get("name", "default"), body["state"]
    mine = [one for one in forge.set if (one.commit, one.context) == (found["sha"], name)]
    going_on = mine[-1] if mine and mine[-1].state not in _ENDED else None
    if going_on and state == going_on.state:
        event = {"pending": "enqueue", "running": "run"}[state]
        why = f'(Reason(s): Status cannot transition via "{event}")'
        said = f"Cannot transition status via :{event} from :{state} {why}"
        return _reply(400, {"message": said})
    number, user = (going_on.id, going_on.user) if going_on else (forge.new_id(), forge.user)
    one = Set(number, user, found["sha"], name, state, body.get("description", ""))
    forge.set.append(one)
    return _reply(201, _gitlab_status(one))


_GITLAB: Final = Words(
    lambda token: f"Bearer {token}",
    (
        ("GET", "/user", Action(_gitlab_who, "gitlab user")),
        ("GET", f"{_PROJECT}/merge_requests/{_NUMBER}", Action(_pull(_gitlab_pull), "gitlab pull")),
        ("GET", f"{_PROJECT}/merge_requests/{_NUMBER}/notes", Action(_gitlab_notes, "gitlab notes")),
        (
            "POST",
            f"{_PROJECT}/merge_requests/{_NUMBER}/notes",
            Action(_created(_gitlab_note), "gitlab note", "gitlab say"),
        ),
        (
            "PUT",
            f"{_PROJECT}/merge_requests/{_NUMBER}/notes/{_ID}",
            Action(_edited(_gitlab_note), "gitlab note", "gitlab say"),
        ),
        (
            "GET",
            f"{_PROJECT}/repository/commits/{_SHA}/statuses",
            Action(_gitlab_statuses, "gitlab statuses"),
        ),
        ("POST", f"{_PROJECT}/statuses/{_SHA}", Action(_gitlab_set, "gitlab status", "gitlab set")),
    ),
)

WORDS: Final = {"github": _GITHUB, "gitlab": _GITLAB, "gitea": _GITEA}
