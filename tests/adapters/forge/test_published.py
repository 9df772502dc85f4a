"""The test forge against what the forges publish: every request that we send, and every answer that we rely on.

`RECONCILER_FORGE_DESCRIPTIONS` names a folder with the descriptions, which are too large to be kept here:
`github.json` (api.github.com.json of github/rest-api-description, or of the npm package @octokit/openapi) and
`gitea.json` (`/swagger.v1.json` of a Gitea or Forgejo server). What GitLab is held to is in `forge_schemas`.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from jsonschema import Draft4Validator

from reconciler.adapters.forge import HttpForge
from reconciler.ports.forge import State, Status
from tests.adapters.forge.conftest import HEAD
from tests.servers.forge import BASES, Asked, TestForge

_IDLE = {"nullable", "format", "example", "description"}
"""What OpenAPI adds to a schema, and what is only told to people; as the name of a member it is something else."""

FOLDER = os.environ.get("RECONCILER_FORGE_DESCRIPTIONS", "")


@cache
def description(kind: str) -> dict[str, Any]:
    path = Path(FOLDER) / f"{kind}.json"
    if not FOLDER or not path.exists():
        pytest.skip(f"RECONCILER_FORGE_DESCRIPTIONS has no {kind}.json")
    document: dict[str, Any] = json.loads(path.read_text())
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
    description(forge.kind)
    forge.say("hello", forge.other)
    client.who()
    client.pull(7)
    made = client.create_comment(7, "one")
    client.edit_comment(7, made.id, "two")
    assert len(list(client.comments(7))) == 2
    for state in State:
        client.set_status(HEAD, Status("reconciler/default", state, "said"))
    assert len(client.statuses(HEAD)) == 1
    assert len(forge.exchanges) == 9
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
