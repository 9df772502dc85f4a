"""What requests and answers of the forges look like, as JSON Schemas of the parts that are used.

Requests allow nothing that the forge does not know. Answers name what the adapters rely on, and are open otherwise.
Facts from: github/rest-api-description (api.github.com, 2022-11-28); Forgejo's and Gitea's Swagger description
(`/swagger.v1.json`, Forgejo 11, API of Gitea 1.22); GitLab's doc/api/openapi/openapi_v3.yaml (gitlabhq/gitlabhq, 19.5)
and doc/api/{notes,commits,merge_requests,users}.md. `test_published` holds the test forge to what is kept of the first
two; GitLab's description is CC BY-SA, so nothing of it is kept, only facts from it in our own words.
"""

from __future__ import annotations

from typing import Any, Final

_TEXT: Final = {"type": "string"}
_ID: Final = {"type": "integer", "minimum": 1}
_SHA: Final = {"type": "string", "pattern": "^[0-9a-f]{40}$"}


def _strict(*required: str, **members: Any) -> dict[str, Any]:
    return {**_open(*required, **members), "additionalProperties": False}


def _open(*required: str, **members: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": members}


def _list(of: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "items": of, "maxItems": most}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_COMMENT_LENGTH: Final = {"github": 65_536, "gitlab": 1_000_000, "gitea": 1 << 30}


def _said(kind: str) -> dict[str, Any]:
    return _strict("body", body={"type": "string", "minLength": 1, "maxLength": _COMMENT_LENGTH[kind]})


_GITHUB_USER: Final = _open("login", "id", "type", login=_TEXT, id=_ID, type=_TEXT)
_GITHUB_COMMENT: Final = _open(
    "id", "body", "html_url", "user", id=_ID, body=_TEXT, html_url=_TEXT, user=_or_null(_GITHUB_USER)
)
_GITHUB_STATE: Final = {"enum": ["error", "failure", "pending", "success"]}
_GITHUB_STATUS: Final = _open(
    "id", "state", "context", "creator",
    id=_ID, state=_GITHUB_STATE, context=_TEXT, description=_or_null(_TEXT), creator=_or_null(_GITHUB_USER),
)  # fmt: skip
_GITHUB_BRANCH: Final = _open("ref", "sha", "repo", ref=_TEXT, sha=_SHA, repo=_or_null(_open("id", id=_ID)))

_GITEA_USER: Final = _open("id", "login", id=_ID, login=_TEXT)
_GITEA_COMMENT: Final = _open(
    "id", "body", "html_url", "user", id=_ID, body=_TEXT, html_url=_TEXT, user=_GITEA_USER
)
_GITEA_STATUS: Final = _open(
    "id", "status", "context", id=_ID, status=_TEXT, context=_TEXT, description=_TEXT, creator=_GITEA_USER
)
_GITEA_BRANCH: Final = _open("ref", "sha", "repo_id", ref=_TEXT, sha=_SHA, repo_id=_ID)

_GITLAB_USER: Final = _open("id", "username", id=_ID, username=_TEXT)
_GITLAB_NOTE: Final = _open(
    "id", "body", "author", "system", id=_ID, body=_TEXT, author=_GITLAB_USER, system={"type": "boolean"}
)
_GITLAB_STATE: Final = {"enum": ["pending", "running", "success", "failed", "canceled", "skipped"]}
_GITLAB_STATUS: Final = _open(
    "id", "status", "name", "author",
    id=_ID, status=_GITLAB_STATE, name=_TEXT, description=_or_null(_TEXT), author=_GITLAB_USER,
)  # fmt: skip
_LABEL: Final = {"type": "string", "minLength": 1, "maxLength": 255}
_SHORT: Final = {"type": "string", "maxLength": 255}

_LABELS: Final = _list(_open("name", name=_TEXT), 1 << 30)
_TEXTS: Final = {"type": "array", "items": _TEXT}
_GITHUB_PULL: Final = _open(
    "number", "title", "state", "head", "base", "user", "labels", "merged_at",
    number=_ID, title=_TEXT, state={"enum": ["open", "closed"]}, head=_GITHUB_BRANCH, base=_GITHUB_BRANCH,
    user=_or_null(_GITHUB_USER), labels=_LABELS, merged_at=_or_null(_TEXT), merge_commit_sha=_or_null(_SHA),
)  # fmt: skip
_GITEA_PULL: Final = _open(
    "number", "title", "state", "head", "base", "user", "labels", "merged",
    number=_ID, title=_TEXT, state={"enum": ["open", "closed"]}, head=_GITEA_BRANCH, base=_GITEA_BRANCH,
    user=_GITEA_USER, labels=_LABELS, merged={"type": "boolean"}, merge_commit_sha=_or_null(_SHA),
)  # fmt: skip
_GITLAB_PULL: Final = _open(
    "iid", "title", "state", "sha", "target_branch", "source_project_id", "target_project_id", "author", "labels",
    iid=_ID, title=_TEXT, state={"enum": ["opened", "closed", "merged", "locked"]}, sha=_SHA, target_branch=_TEXT,
    source_project_id=_or_null(_ID), target_project_id=_ID, author=_GITLAB_USER, labels=_TEXTS,
    merge_commit_sha=_or_null(_SHA), squash_commit_sha=_or_null(_SHA),
)  # fmt: skip

_TITLE: Final = {"type": "string", "minLength": 1, "maxLength": 255}
_SHORT_TITLE: Final = {**_TITLE, "maxLength": 256}


def _proposing(title: dict[str, Any], text: str, *branches: str, most: int) -> dict[str, Any]:
    """A request that opens a pull request."""
    members = dict.fromkeys(branches, _TEXT)
    return _strict(
        "title", *branches, title=title, **members, **{text: {"type": "string", "maxLength": most}}
    )


def _revising(title: dict[str, Any], text: str, most: int, **state: Any) -> dict[str, Any]:
    """A request that edits or closes one."""
    return _strict(title=title, **{text: {"type": "string", "maxLength": most}}, **state)


SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "github propose": _proposing(_SHORT_TITLE, "body", "head", "base", most=65_536),
    "github revise": _revising(_SHORT_TITLE, "body", 65_536, state={"enum": ["open", "closed"]}),
    "gitea propose": _proposing(_TITLE, "body", "head", "base", most=1 << 30),
    "gitea revise": _revising(_TITLE, "body", 1 << 30, state={"enum": ["open", "closed"]}),
    "gitlab propose": _proposing(_TITLE, "description", "source_branch", "target_branch", most=1_048_576),
    "gitlab revise": {
        **_revising(_TITLE, "description", 1_048_576, state_event={"enum": ["close", "reopen"]}),
        "minProperties": 1,
    },
    "github user": _GITHUB_USER,
    "github query": _strict("query", query={"const": "{viewer{login}}"}),
    "github viewer": _open("data", data=_open("viewer", viewer=_open("login", login=_TEXT))),
    "github pull": _GITHUB_PULL,
    "github pulls": _list(_GITHUB_PULL, 100),
    "github say": _said("github"),
    "github comment": _GITHUB_COMMENT,
    "github comments": _list(_GITHUB_COMMENT, 100),
    "github set": _strict(
        "state",
        state=_GITHUB_STATE,
        target_url=_or_null(_TEXT),
        description=_or_null({"type": "string", "maxLength": 140}),
        context=_LABEL,
    ),
    "github status": _GITHUB_STATUS,
    "github statuses": _list(_GITHUB_STATUS, 100),
    "gitea user": _GITEA_USER,
    "gitea pull": _GITEA_PULL,
    "gitea pulls": _list(_GITEA_PULL, 50),
    "gitea say": _said("gitea"),
    "gitea comment": _GITEA_COMMENT,
    "gitea comments": _list(_GITEA_COMMENT, 1 << 30),
    "gitea set": _strict(
        "state",
        state={"enum": ["pending", "success", "error", "failure"]},
        target_url=_TEXT,
        description=_TEXT,
        context=_LABEL,
    ),
    "gitea status": _GITEA_STATUS,
    "gitea statuses": _list(_GITEA_STATUS, 50),
    "gitlab user": _GITLAB_USER,
    "gitlab pull": _GITLAB_PULL,
    "gitlab pulls": _list(_GITLAB_PULL, 100),
    "gitlab say": _said("gitlab"),
    "gitlab note": _GITLAB_NOTE,
    "gitlab notes": _list(_GITLAB_NOTE, 100),
    "gitlab set": _strict(
        "state",
        state=_GITLAB_STATE,
        name=_LABEL,
        context=_LABEL,
        ref=_SHORT,
        target_url=_SHORT,
        description=_SHORT,
        coverage={"type": "number"},
        pipeline_id=_ID,
    ),
    "gitlab status": _GITLAB_STATUS,
    "gitlab statuses": _list(_GITLAB_STATUS, 100),
}  # fmt: skip
"""By name: `github say` is a request, `github comment` an answer."""
