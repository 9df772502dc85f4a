"""A small JSON client of the Kubernetes API for tests, which says nothing that the server did not say.

Belongs here: paths, bodies, and what is refused. Does not belong here: what the project's own client does; tests use
this one to look at the cluster with other eyes.
"""

from __future__ import annotations

import ssl
from collections.abc import Generator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import httpx
import yaml

Object = dict[str, Any]
Objects = list[Object]
_PATIENCE: Final = 30.0
_PATCHES: Final = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class ApiError(Exception):
    """What the API server refused: HTTP `status`, machine-readable `reason`, and its words."""

    def __init__(self, asked: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{asked}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Api:
    """The API as the bearer of `token` sees it. Paths are those of the API: `/api/v1/nodes`."""

    def __init__(self, server: str, ca_file: Path, token: str) -> None:
        self._http = httpx.Client(
            base_url=server,
            verify=ssl.create_default_context(cafile=str(ca_file)),
            headers={"Authorization": f"Bearer {token}"},
            timeout=_PATIENCE,
            trust_env=False,
        )

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def get(self, path: str, **query: str | int) -> Object:
        """Read one object, or a list with all around it. Raises ApiError and httpx.TransportError, as all of these."""
        return self._ask("GET", path, params=query)

    def find(self, path: str) -> Object | None:
        """Read one object, None when there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def list(self, path: str, **query: str | int) -> Objects:
        """The items of a collection; `labelSelector="a=b"` chooses among them."""
        items: Objects = self.get(path, **query)["items"]
        return items

    def create(self, path: str, body: Mapping[str, Any]) -> Object:
        """Create in a collection; the name is in the body."""
        return self._ask("POST", path, json=body)

    def put(self, path: str, body: Mapping[str, Any]) -> Object:
        """Replace an object."""
        return self._ask("PUT", path, json=body)

    def patch(self, path: str, body: Any, kind: str = "merge") -> Object:
        """Change part of an object, by a `merge` or `strategic` patch."""
        return self._ask("PATCH", path, json=body, headers={"Content-Type": _PATCHES[kind]})

    def delete(self, path: str, policy: str = "Background", grace: int | None = None) -> Object:
        """Delete an object or a collection; `policy` says what becomes of what it owns, `grace` is in seconds."""
        body: Object = {"propagationPolicy": policy}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        return self._ask("DELETE", path, json=body)

    def apply(self, text: str, namespace: str = "default") -> Objects:
        """Apply every document of a YAML text (server-side apply, by force); returns the objects as they now are.

        `namespace` is for those that name none. The text may be indented as a whole, as tests are.
        """
        return [self._apply(each, namespace) for each in yaml.safe_load_all(dedent(text)) if each]

    def path_of(self, found: Mapping[str, Any], namespace: str = "default") -> str:
        """The path of an object with `apiVersion`, `kind` and `metadata`. Raises LookupError for an unknown kind."""
        version, kind, about = found["apiVersion"], found["kind"], found["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for resource in self.get(root)["resources"]:
            if resource["kind"] == kind and "/" not in resource["name"]:
                scope = f"/namespaces/{about.get('namespace', namespace)}" if resource["namespaced"] else ""
                return f"{root}{scope}/{resource['name']}/{about['name']}"
        raise LookupError(f"the cluster has no {kind} of {version}")

    def text(self, path: str, **query: str | int) -> str:
        """Read what is not JSON: logs, health."""
        return self._send("GET", path, params=query).text

    def watch(self, path: str, **query: str | int) -> Generator[bytes]:
        """The lines of a watch, until the server ends it."""
        with self._http.stream("GET", path, params={**query, "watch": "1"}) as answer:
            yield from (line.encode() for line in answer.iter_lines())

    def _apply(self, found: Object, namespace: str) -> Object:
        return self._ask(
            "PATCH",
            self.path_of(found, namespace),
            params={"fieldManager": "tests", "force": "true"},
            content=yaml.safe_dump(found).encode(),
            headers={"Content-Type": "application/apply-patch+yaml"},
        )

    def _ask(self, method: str, path: str, **options: Any) -> Object:
        answer: Object = self._send(method, path, **options).json()
        return answer

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = self._http.request(method, path, **options)
        if answer.is_error:
            raise _error(f"{method} {path}", answer)
        return answer


def _error(asked: str, answer: httpx.Response) -> ApiError:
    try:
        said = answer.json()
        return ApiError(asked, answer.status_code, said.get("reason", ""), said.get("message", ""))
    except ValueError:
        return ApiError(asked, answer.status_code, "", answer.text[:500])
