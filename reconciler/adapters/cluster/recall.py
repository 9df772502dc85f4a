"""Answers that were given in this pass already: a thousand pools need not each ask for what one list says.

Belongs here: remembering objects of a few kinds, and when they are not to be relied on any more. Does not belong here:
what is done with them.

Writes stay safe, as each is for the version that was looked at: whoever meets a Conflict looks again, and is then
answered by the server. What others change meanwhile is seen by the next pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from reconciler.adapters.cluster.parts import mapping, name_of
from reconciler.ports.cluster import Api, Json, Kind

_FEW: Final = 4
"""Looks in one pass that are made one by one: most passes are about one pool, and a list of all costs more then."""


@dataclass(slots=True)
class _Memory:
    """What is known of one kind: `found` by name once there was a list, and names that are not as remembered."""

    looks: int = 0
    found: dict[str, Json] | None = None
    doubts: set[str] = field(default_factory=set)


class Recall:
    """Another `ports.cluster.Api` that remembers objects of some kinds from `begin` to `begin`; before the first one,
    nothing. For one thread."""

    def __init__(self, api: Api, kinds: Collection[Kind]) -> None:
        self._api = api
        self._kinds = frozenset(kinds)
        self._memories: dict[tuple[Kind, str], _Memory] | None = None

    def begin(self) -> None:
        """Another pass: nothing is remembered any more."""
        self._memories = {}

    def get(self, kind: Kind, name: str, namespace: str = "") -> Json | None:
        """As `Api`."""
        memory = self._memory(kind, namespace)
        if memory is None:
            return self._api.get(kind, name, namespace)
        known = self._listed(memory, kind, namespace)
        if known is None:
            return self._api.get(kind, name, namespace)
        self._settle(memory, known, kind, namespace, {name})
        return known.get(name)

    def list(self, kind: Kind, namespace: str = "", labels: str = "") -> Iterator[Json]:
        """As `Api`. Of what is remembered, labels are compared here: `key=value` and commas are understood."""
        memory = self._memory(kind, namespace)
        known = self._listed(memory, kind, namespace) if memory and _is_plain(labels) else None
        if memory is None or known is None:
            return self._api.list(kind, namespace, labels)
        self._settle(memory, known, kind, namespace, set(memory.doubts))
        wanted = [pair.split("=", 1) for pair in labels.split(",") if pair]
        return iter([found for found in known.values() if _has(found, wanted)])

    def create(self, kind: Kind, body: Json, namespace: str = "") -> Json | None:
        """As `Api`."""
        with_memory = self._memory(kind, namespace)
        self._doubt(with_memory, name_of(body))
        made = self._api.create(kind, body, namespace)
        if made is not None:
            self._keep(with_memory, made)
        return made

    def patch(
        self, kind: Kind, name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> Json | None:
        """As `Api`."""
        memory = self._memory(kind, namespace)
        self._doubt(memory, name)
        changed = self._api.patch(kind, name, body, namespace, subresource=subresource)
        if changed is not None:
            self._keep(memory, changed)
        return changed

    def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str = "") -> None:
        """As `Api`."""
        self._doubt(self._memory(kind, namespace), name)
        self._api.delete(kind, name, namespace, uid=uid)

    def log(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """As `Api`."""
        return self._api.log(namespace, pod, container, lines)

    def _memory(self, kind: Kind, namespace: str) -> _Memory | None:
        if self._memories is None or kind not in self._kinds:
            return None
        return self._memories.setdefault((kind, namespace), _Memory())

    def _listed(self, memory: _Memory, kind: Kind, namespace: str) -> dict[str, Json] | None:
        """All objects of a kind by name; None for the first few looks, which are better made one by one."""
        memory.looks += 1
        if memory.found is None and memory.looks > _FEW:
            memory.found = {name_of(found): _slim(found) for found in self._api.list(kind, namespace)}
            memory.doubts.clear()
        return memory.found

    def _settle(
        self, memory: _Memory, known: dict[str, Json], kind: Kind, namespace: str, names: Collection[str]
    ) -> None:
        """Look at those of these names that are in doubt."""
        for name in sorted(memory.doubts.intersection(names)):
            known.pop(name, None)
            found = self._api.get(kind, name, namespace)
            if found is not None:
                known[name] = _slim({"apiVersion": kind.api_version, "kind": kind.name, **found})
            memory.doubts.discard(name)

    @staticmethod
    def _doubt(memory: _Memory | None, name: str) -> None:
        """Whatever comes of a write, the answer to it may be lost."""
        if memory is not None and memory.found is not None:
            memory.doubts.add(name)

    @staticmethod
    def _keep(memory: _Memory | None, found: Json) -> None:
        if memory is not None and memory.found is not None:
            memory.found[name_of(found)] = _slim(found)
            memory.doubts.discard(name_of(found))


def _is_plain(labels: str) -> bool:
    return all(pair.count("=") == 1 and not set(pair) & set("!()<> ") for pair in labels.split(",") if pair)


def _has(found: Json, wanted: Collection[Collection[str]]) -> bool:
    labels = mapping(found, "metadata", "labels")
    return all(labels.get(key) == value for key, value in wanted)


def _slim(found: Json) -> Json:
    about: dict[str, Any] = {
        key: value for key, value in mapping(found, "metadata").items() if key != "managedFields"
    }
    return {**found, "metadata": about}
