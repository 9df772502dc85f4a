"""A whole list of one kind, of which only what is needed is kept.

Belongs here: reading a list page by page into a snapshot. Does not belong here: keeping a snapshot up to date
(`watching`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.cluster.parts import name_of, version_of
from reconciler.adapters.cluster.problems import Expired, UnknownKind
from reconciler.errors import ClusterUnavailable
from reconciler.ports.cluster import Json, Kind

_RESTARTS: Final = 3

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[Item]):
    """All objects of a kind by name, at one moment. `known` says whether the server has this kind at all; `versions`
    are the objects' own and `version` that of the whole, to go on from."""

    items: Mapping[str, Item]
    known: bool = True
    versions: Mapping[str, str] | None = None
    version: str = ""


def snapshot(api: KubernetesApi, kind: Kind, keep: Callable[[Json], Item]) -> Snapshot[Item]:
    """List a kind that has no namespaces. Raises ClusterError, ClusterUnavailable."""
    for _ in range(_RESTARTS):
        items: dict[str, Item] = {}
        versions: dict[str, str] = {}
        version = ""
        try:
            for page in api.pages(kind):
                for found in page.items:
                    name = name_of(found)
                    items[name] = keep(found)
                    versions[name] = version_of(found)
                version = page.version
                # The page's objects are many times as large as what was kept of them.
                del page
        except Expired:
            continue
        except UnknownKind:
            return Snapshot({}, known=False)
        return Snapshot(items, True, versions, version)
    raise ClusterUnavailable(f"list {kind.plural}: the API server forgot the list while it was being read")
