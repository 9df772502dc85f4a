"""The environment of a container, as the kubelet makes it.

Belongs here: env, envFrom, and `$(VAR)` in values and commands, which Kubernetes expands before any shell sees them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Object = Mapping[str, Any]
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REFERENCE: Final = re.compile(r"\$(\$|\(([^)]*)\))")
_CHOSEN: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class Missing(Exception):
    """An object or key that a variable needs is not there."""


def expand(text: str, env: Mapping[str, str]) -> str:
    """`$(VAR)` becomes its value if there is such a variable, `$$` a dollar; as in Kubernetes' expansion package."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[1] == "$" else env.get(match[2], match[0])

    return _REFERENCE.sub(value, text)


def resolve(
    pod: Object, container: Object, image: Mapping[str, str], find: Callable[[str, str], Object | None]
) -> dict[str, str]:
    """All variables of a container: the image's, what the runtime adds, envFrom, env. Raises Missing."""
    made: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        made.update(_whole(source, find))
    for item in container.get("env") or ():
        name = item["name"]
        if "valueFrom" not in item:
            made[name] = expand(item.get("value") or "", made)
        elif (value := _taken(pod, item["valueFrom"], find)) is not None:
            made[name] = value
    return {"PATH": PATH, "HOSTNAME": pod["metadata"]["name"], **image, **made}


def _whole(source: Object, find: Callable[[str, str], Object | None]) -> Iterator[tuple[str, str]]:
    for kind, resource in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
        if reference := source.get(kind):
            found = find(resource, reference["name"])
            if found is None and not reference.get("optional"):
                raise Missing(f'{resource[:-1]} "{reference["name"]}" not found')
            for key, value in ((found or {}).get("data") or {}).items():
                yield (source.get("prefix") or "") + key, _text(resource, value)


def _taken(pod: Object, source: Object, find: Callable[[str, str], Object | None]) -> str | None:
    """The value of one variable; None for an optional one that is not there."""
    if field := source.get("fieldRef"):
        return _field(pod, field["fieldPath"])
    for kind, resource in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if reference := source.get(kind):
            name, key = reference["name"], reference["key"]
            found = find(resource, name)
            value = ((found or {}).get("data") or {}).get(key)
            if value is not None:
                return _text(resource, value)
            if not reference.get("optional"):
                why = "not found" if found is None else f"has no key {key}"
                raise Missing(f'{resource[:-1]} "{name}" {why}')
    return None


def _field(pod: Object, path: str) -> str:
    if chosen := _CHOSEN.fullmatch(path):
        value: str = (pod["metadata"].get(chosen[1]) or {}).get(chosen[2], "")
        return value
    root, _, name = path.partition(".")
    text: str = pod[root][name]
    return text


def _text(resource: str, value: str) -> str:
    return base64.b64decode(value).decode("utf-8", "replace") if resource == "secrets" else value
