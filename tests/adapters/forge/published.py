"""What the forges publish about the operations that we use: cut out of their descriptions, and kept in `descriptions/`.

    python -m tests.adapters.forge.published FOLDER

FOLDER has `github.json` (generated/api.github.com.json of the npm package @octokit/openapi, here of 23.0.2) and
`gitea.json` (`/swagger.v1.json` of a Gitea or Forgejo server, here of Forgejo 11.0.3); both say that they are under the
MIT license. Nothing in what is cut out is changed; what is told to people, and what nothing refers to, is left out.

Belongs here: which operations, and cutting them out. Does not belong here: holding anything to them (`test_published`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

KEPT: Final = Path(__file__).with_name("descriptions")
_REPO: Final = "/repos/{owner}/{repo}"
OPERATIONS: Final = {
    "github": (
        ("get", "/user"),
        ("get", f"{_REPO}/pulls"),
        ("post", f"{_REPO}/pulls"),
        ("get", f"{_REPO}/pulls/{{pull_number}}"),
        ("patch", f"{_REPO}/pulls/{{pull_number}}"),
        ("get", f"{_REPO}/issues/{{issue_number}}/comments"),
        ("post", f"{_REPO}/issues/{{issue_number}}/comments"),
        ("patch", f"{_REPO}/issues/comments/{{comment_id}}"),
        ("get", f"{_REPO}/commits/{{ref}}/statuses"),
        ("post", f"{_REPO}/statuses/{{sha}}"),
    ),
    "gitea": (
        ("get", "/user"),
        ("get", f"{_REPO}/pulls"),
        ("post", f"{_REPO}/pulls"),
        ("get", f"{_REPO}/pulls/{{index}}"),
        ("patch", f"{_REPO}/pulls/{{index}}"),
        ("get", f"{_REPO}/issues/{{index}}/comments"),
        ("post", f"{_REPO}/issues/{{index}}/comments"),
        ("patch", f"{_REPO}/issues/comments/{{id}}"),
        ("get", f"{_REPO}/commits/{{ref}}/statuses"),
        ("post", f"{_REPO}/statuses/{{sha}}"),
    ),
}
_TOLD: Final = {
    "description",
    "example",
    "examples",
    "summary",
    "externalDocs",
    "deprecated",
    "tags",
    "operationId",
}
_MAPS: Final = {"properties", "definitions", "schemas", "responses", "parameters", "paths"}
"""Members of these have names of their own, which may be those of something that is only told."""


def cut(document: dict[str, Any], operations: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """The operations, and all that they refer to. Raises KeyError for one that is not published."""
    found: dict[str, Any] = {"info": {"version": document["info"]["version"]}, "paths": {}}
    for method, path in operations:
        item = document["paths"][path][method]
        good = {status: said for status, said in item["responses"].items() if status.startswith("2")}
        wanted = {name: item[name] for name in ("parameters", "requestBody") if name in item}
        found["paths"].setdefault(path, {})[method] = _quiet({**wanted, "responses": good})
    todo = list(_references(found))
    done = set()
    while todo:
        target = todo.pop()
        if target not in done:
            done.add(target)
            *parents, name = target.removeprefix("#/").split("/")
            source, place = document, found
            for step in parents:
                source, place = source[step], place.setdefault(step, {})
            place[name] = _quiet(source[name])
            todo += _references(place[name])
    return found


def _quiet(value: Any, *, names: bool = False) -> Any:
    """A value without what is only told to people; with `names` its members are named by whoever described it."""
    if isinstance(value, list):
        return [_quiet(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _quiet(item, names=not names and name in _MAPS)
        for name, item in value.items()
        if names or not (name in _TOLD or name.startswith("x-"))
    }


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for item in value for found in _references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [found for item in value.values() for found in _references(item)]


def main(folder: Path) -> None:
    """Cut all of them out."""
    KEPT.mkdir(exist_ok=True)
    for kind, operations in OPERATIONS.items():
        made = cut(json.loads((folder / f"{kind}.json").read_text()), operations)
        text = json.dumps(made, sort_keys=True, separators=(",", ":"))
        # One definition per line: what changes with a new version can be read.
        (KEPT / f"{kind}.json").write_text(text.replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
