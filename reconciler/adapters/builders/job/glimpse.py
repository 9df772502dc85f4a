"""What a look at the cluster leaves to know until the next one, so that each of a pass's builds need not ask again.

Belongs here: keeping it, and making listed objects small. Does not belong here: deciding by it. It may be outdated: who
has a name is settled by creating, and what a MultiArchBuild owns goes with it whenever that is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any

from reconciler.adapters.builders.job import surroundings
from reconciler.adapters.builders.job.names import MULTI_ARCH_BUILD, items, mapping, metadata
from reconciler.adapters.builders.job.options import JobOptions
from reconciler.adapters.builders.job.surroundings import Surroundings
from reconciler.ports.cluster import Api, Json


class Glimpse:
    """Of one builder; for any thread."""

    def __init__(self, api: Api, options: JobOptions) -> None:
        self._api = api
        self._options = options
        self._lock = Lock()  # guards everything below
        self._names: frozenset[str] | None = None
        self._work: tuple[str, Json] | None = None
        self._surroundings: Surroundings | None = None

    def forget(self) -> None:
        """Another look begins: whatever is wanted next is asked for."""
        with self._lock:
            self._work = self._surroundings = None

    def listed(self, names: Iterable[str], *, more: bool = False) -> None:
        """The names of all builds there are, or of some `more`."""
        with self._lock:
            if not more:
                self._names = frozenset(names)
            elif self._names is not None:
                self._names |= frozenset(names)

    def may_have(self, name: str) -> bool:
        """Whether a build of this name was there, or nobody has looked."""
        with self._lock:
            return self._names is None or name in self._names

    def work(self, name: str) -> Json | None:
        """The MultiArchBuild of that name; None when there is none. All builds of one come in a row, so the last is
        kept. Raises ClusterUnavailable, ClusterError."""
        if not name:
            return None
        with self._lock:
            if self._work is not None and self._work[0] == name:
                return self._work[1]
        found = self._api.get(MULTI_ARCH_BUILD, name, self._options.namespace)
        with self._lock:
            self._work = (name, found) if found is not None else None
        return found

    def surroundings(self) -> Surroundings:
        """The cluster's proxies and certificates. Raises ClusterUnavailable, ClusterError."""
        with self._lock:
            known = self._surroundings
        if known is None:
            known = surroundings.look(self._api, self._options.proxies)
            with self._lock:
                self._surroundings = known
        return known


def slim(found: Json) -> Json:
    """A build's object or a pod without what nobody reads of it: there may be thousands in one list."""
    about = {key: value for key, value in metadata(found).items() if key != "managedFields"}
    spec: dict[str, Any] = dict(mapping(found, "spec"))
    if "containers" in spec:
        spec = {"nodeName": spec.get("nodeName")}
    if "template" in spec:
        volumes = [volume for volume in items(spec, "template", "spec", "volumes") if "configMap" in volume]
        spec["template"] = {"spec": {"volumes": volumes}}
    if custom := mapping(spec, "strategy", "customStrategy"):
        spec["strategy"] = {"customStrategy": {"from": custom.get("from")}}
    return {**found, "metadata": about, "spec": spec}
