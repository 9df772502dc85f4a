"""What the test forge does when it is asked, for all kinds alike, and the values that say how each kind speaks.

Belongs here: acting on the state. Does not belong here: routes and JSON (`forge_words`), the state and HTTP (`forge`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from tests.servers.forge import Asked, PullRequest, Reply, Said, Set, TestForge

Json = Callable[["PullRequest"], dict[str, Any]]

WHEN: Final = "2026-11-21T12:00:00Z"
OURS: Final = 11
FORK: Final = 12
SHA: Final = "(?P<sha>[0-9a-f]{40})"
ID: Final = "(?P<id>[0-9]+)"
NUMBER: Final = "(?P<number>[0-9]+)"


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


def reply(status: int, body: Any) -> Reply:
    from tests.servers.forge import Reply

    return Reply(status, body)


def shown(json: Callable[[PullRequest], dict[str, Any]]) -> Callable[..., Reply]:
    def act(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
        pull = forge.pulls.get(int(found["number"]))
        return reply(200, json(pull)) if pull else reply(404, {"message": "Not Found"})

    return act


def listed(
    json: Callable[[PullRequest], dict[str, Any]], target: str, size_name: str, most: int, default: int = 30
) -> Callable[..., Reply]:
    """The newest first; only those into the branch that the query names as `target`, and from the one that it names,
    where it can."""

    def act(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
        query = {name: values[-1] for name, values in parse_qs(asked.query).items()}
        states = {"open": (True,), "opened": (True,), "closed": (False,), "all": (True, False)}[
            query["state"]
        ]
        branch = query.get("source_branch") or query.get("head", "").removeprefix("acme:")
        wanted = [
            pull
            for _, pull in sorted(forge.pulls.items(), reverse=True)
            if pull.open in states
            and query.get(target, pull.target) == pull.target
            and pull.branch in (branch, branch or pull.branch)
        ]
        return forge.page(asked, [json(pull) for pull in wanted], size_name, default, most)

    return act


def is_on(said: Said, found: Mapping[str, str]) -> bool:
    return not said.system and said.pull == int(found["number"])


def created(json: Callable[[TestForge, Said], dict[str, Any]]) -> Callable[..., Reply]:
    def act(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
        return reply(201, json(forge, forge.say(asked.body["body"], pull=int(found["number"]))))

    return act


def edited(json: Callable[[TestForge, Said], dict[str, Any]]) -> Callable[..., Reply]:
    def act(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
        if not any(s.id == int(found["id"]) and s.user == forge.user for s in forge.comments):
            return reply(403, {"message": "Forbidden"})
        said = forge.edited(int(found["id"]), asked.body["body"])
        assert said is not None
        return reply(200, json(forge, said))

    return act


def put(json: Callable[[Set], dict[str, Any]]) -> Callable[..., Reply]:
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
        return reply(201, json(one))

    return act


def opened(json: Json, branch: str, target: str, text: str, refusal: tuple[int, Any]) -> Callable[..., Reply]:
    """Open one; `branch`, `target` and `text` are the names of members, `refusal` is the answer to a second one."""

    def act(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:  # noqa: ARG001
        from tests.servers.forge import PullRequest, Reply

        body = asked.body
        head = forge.tip_of(body[branch])
        if not head:
            return Reply(422, {"message": f"{body[branch]} is not there"})
        if any(p.open and (p.branch, p.target) == (body[branch], body[target]) for p in forge.pulls.values()):
            status, said = refusal
            return Reply(status, said)
        number = max(forge.pulls, default=0) + 1
        forge.pulls[number] = PullRequest(
            number,
            head,
            body["title"],
            body[target],
            user=forge.user,
            branch=body[branch],
            body=body.get(text, ""),
        )
        return Reply(201, json(forge.pulls[number]))

    return act


def revised(json: Json, text: str, state: str, closing: str, status: int) -> Callable[..., Reply]:
    """Change one; `text` and `state` are the names of members, `closing` the word that closes one."""

    def act(forge: TestForge, asked: Asked, found: Mapping[str, str]) -> Reply:
        from tests.servers.forge import Reply

        number, body = int(found["number"]), asked.body
        pull = forge.pulls.get(number)
        if pull is None:
            return Reply(404, {"message": "Not Found"})
        if body.get(state) == closing and pull.merged:
            return Reply(422, {"message": "it is merged"})
        forge.pulls[number] = replace(
            pull,
            title=body.get("title", pull.title),
            body=body.get(text, pull.body),
            open=pull.open and body.get(state) != closing,
        )
        return Reply(status, json(forge.pulls[number]))

    return act
