"""Parts of JSON that somebody else wrote, whatever they turn out to be.

Belongs here: looking into it without tripping. Does not belong here: what a part means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mapping(found: Any, *keys: str) -> Mapping[str, Any]:
    """The mapping below these keys; an empty one when there is none."""
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def sequence(found: Any) -> list[Any]:
    """A list; an empty one when it is none."""
    return found if isinstance(found, list) else []


def name_of(found: Any) -> str:
    """An object's name; '' when it has none."""
    return str(mapping(found, "metadata").get("name") or "")


def version_of(found: Any) -> str:
    """An object's resourceVersion, or that of a list; '' when it has none."""
    return str(mapping(found, "metadata").get("resourceVersion") or "")
