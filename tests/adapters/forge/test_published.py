"""The test forge against what the forges publish: every request that we send, and every answer that we rely on.

What concerns us is kept in `descriptions/`, as `published` cuts it out. What GitLab is held to is in `forge_schemas`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import pytest
from jsonschema import Draft4Validator

from reconciler.adapters.forge import HttpForge
from reconciler.ports.forge import State, Status
from tests.adapters.forge.conftest import PULL
from tests.adapters.forge.published import KEPT, OPERATIONS, cut
from tests.servers.forge import BASES, Asked, TestForge

_IDLE = {"nullable", "format", "example", "description"}
"""What OpenAPI adds to a schema, and what is only told to people; as the name of a member it is something else."""


@cache
def description(kind: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((KEPT / f"{kind}.json").read_text())
    return document


def plain(schema: Any, root: dict[str, Any], *, answer: bool, within: tuple[str, ...] = ()) -> Any:
    """A schema as JSON Schema knows it, without references; what is part of itself may be anything there. Of an answer
    any part may be missing: the test forge says only what is read."""
    if isinstance(schema, list):
        return [plain(item, root, answer=answer, within=within) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(target := schema.get("$ref"), str):
        found: Any = root
        for step in target.removeprefix("#/").split("/"):
            found = found[step]
        return {} if target in within else plain(found, root, answer=answer, within=(*within, target))
    made = {
        # With parts missing, an answer may be both of two kinds.
        ("anyOf" if answer and name == "oneOf" else name): plain(value, root, answer=answer, within=within)
        for name, value in schema.items()
        if isinstance(value, dict) or name not in (_IDLE | {"required"} if answer else _IDLE)
    }
    return {"anyOf": [made, {"type": "null"}]} if schema.get("nullable") else made


def operation(kind: str, asked: Asked) -> dict[str, Any]:
    path = asked.path.removeprefix(BASES[kind])
    for template, item in description(kind)["paths"].items():
        if re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", template), path) and asked.method.lower() in item:
            # `/issues/comments/{id}` and `/issues/{index}/comments` never match the same path.
            found: dict[str, Any] = item[asked.method.lower()]
            return found
    raise AssertionError(f"{kind} publishes no {asked.method} {path}")


def parts(kind: str, one: dict[str, Any], status: int) -> tuple[Any, Any, set[str]]:
    """The schemas of an operation's body and of its answer, and the names in its query."""
    root = description(kind)
    given = [plain(p, root, answer=False) if "$ref" in p else p for p in one.get("parameters", [])]
    query = {p["name"] for p in given if p["in"] == "query"}
    said = plain(one["responses"][str(status)], root, answer=True)
    if kind == "github":
        body = one.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        return plain(body, root, answer=False), said["content"]["application/json"]["schema"], query
    bodies = [plain(p["schema"], root, answer=False) for p in given if p["in"] == "body"]
    return (bodies[0] if bodies else None), said["schema"], query


@pytest.mark.parametrize("forge", ["github", "gitea"], indirect=True)
def test_what_is_said_is_what_is_published(client: HttpForge, forge: TestForge) -> None:
    forge.say("hello", forge.other)
    client.who()
    client.pull(7)
    assert len(list(client.pulls("main"))) == 1
    made = client.create_comment(7, "one")
    client.edit_comment(7, made.id, "two")
    assert len(list(client.comments(7))) == 2
    request = client.propose("change-2", "main", "Update worker", "text")
    assert client.proposal("change-2", "main") == request
    client.revise(request.number, "Update worker", "over", close=True)
    assert client.past_proposal("change-2", "main") is not None
    for state in State:
        client.set_status(PULL, Status("reconciler/default", state, "said"))
    assert len(client.statuses(PULL)) == 1
    assert len(forge.exchanges) == 14
    for asked, reply in forge.exchanges:
        body, answer, query = parts(forge.kind, operation(forge.kind, asked), reply.status)
        assert set(parse_qs(asked.query)) <= query, asked.line
        assert (asked.body is None) == (body is None), asked.line
        if body is not None:
            assert set(asked.body) <= set(body["properties"]), asked.line
            Draft4Validator(body).validate(asked.body)
        Draft4Validator(answer).validate(reply.body)
        for entry in reply.body if isinstance(reply.body, list) else [reply.body]:
            assert set(entry) <= _members(answer), asked.line


def _members(schema: dict[str, Any]) -> set[str]:
    """The members that an object, or those in a list, may have by a schema."""
    found = set(schema.get("properties", {}))
    for one in [schema["items"]] if "items" in schema else []:
        found |= _members(one)
    for one in [*schema.get("anyOf", []), *schema.get("allOf", [])]:
        found |= _members(one)
    return found


@pytest.mark.parametrize("kind", sorted(OPERATIONS))
def test_what_is_kept_is_whole_and_no_more_than_is_used(kind: str) -> None:
    kept = description(kind)
    assert cut(kept, OPERATIONS[kind]) == kept
    assert kept["info"]["version"]


def test_cutting_out_leaves_no_name_of_a_member_out() -> None:
    """A member may be called like something that is only told to people."""
    members = {
        "description": {"type": "string", "description": "told"},
        "properties": {"x-y": 1, "type": "object"},
    }
    schema = {"type": "object", "properties": members, "example": {}}
    answer = {"200": {"description": "told", "schema": {"$ref": "#/definitions/A"}}, "404": {}}
    paths = {"/a": {"get": {"responses": answer, "tags": ["a"]}, "put": {}}, "/b": {}}
    document = {"info": {"version": "1"}, "paths": paths, "definitions": {"A": schema, "B": {}}}
    assert cut(document, (("get", "/a"),)) == {
        "info": {"version": "1"},
        "paths": {"/a": {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/A"}}}}}},
        "definitions": {
            "A": {
                "type": "object",
                "properties": {"description": {"type": "string"}, "properties": {"type": "object"}},
            }
        },
    }
