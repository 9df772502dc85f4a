"""Writes the architectures of each pool where jobs and people can read them.

Belongs here: the annotation of MachineConfigPools and the ConfigMap, looked at first and written where they differ.
Does not belong here: what the architectures are (`observer`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from reconciler.adapters.cluster.api import FIELD_MANAGER, KubernetesApi
from reconciler.adapters.cluster.kinds import CONFIG_MAPS, MACHINE_CONFIG_POOLS
from reconciler.adapters.cluster.listing import Snapshot, snapshot
from reconciler.adapters.cluster.parts import mapping, name_of, version_of
from reconciler.core.model import GROUP, Arch
from reconciler.errors import Conflict
from reconciler.ports import Clock
from reconciler.ports.cluster import Json, Observation

ANNOTATION: Final = f"{GROUP}/architectures"
CONFIG_MAP: Final = "machine-os-architectures"
LABELS: Final = {
    "app.kubernetes.io/managed-by": FIELD_MANAGER,
    f"{GROUP}/output": "architectures",
}
_TRIES: Final = 5
_MOST_WAIT: Final = 1.0


class Recorder:
    """Writes into one cluster; the ConfigMap is in `namespace`."""

    def __init__(self, api: KubernetesApi, namespace: str, clock: Clock) -> None:
        self._api = api
        self._namespace = namespace
        self._clock = clock

    def record(self, observation: Observation) -> None:
        """Write what is not there yet. Raises ClusterUnavailable, ClusterError, Conflict."""
        texts = {name: text_of(pool.architectures) for name, pool in observation.pools.items()}
        there: Snapshot[Json] = snapshot(self._api, MACHINE_CONFIG_POOLS, _annotated)
        for name in sorted(texts.keys() & there.items.keys()):
            self._annotate(name, texts[name], there.items[name])
        self._insist(lambda: self._put(texts))

    def _annotate(self, name: str, text: str, seen: Json) -> None:
        looks = iter([seen])

        def attempt() -> None:
            pool = next(looks, None) or self._api.get(MACHINE_CONFIG_POOLS, name)
            if pool is None or mapping(pool, "metadata", "annotations").get(ANNOTATION) == text:
                return
            about = {"annotations": {ANNOTATION: text}, "resourceVersion": version_of(pool)}
            self._api.patch(MACHINE_CONFIG_POOLS, name, {"metadata": about})

        self._insist(attempt)

    def _put(self, texts: Mapping[str, str]) -> None:
        found = self._api.get(CONFIG_MAPS, CONFIG_MAP, self._namespace)
        if found is None:
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": CONFIG_MAP, "namespace": self._namespace, "labels": LABELS},
                "data": texts,
            }
            if self._api.create(CONFIG_MAPS, body, self._namespace) is None:
                raise Conflict(f"ConfigMap {CONFIG_MAP} appeared while it was being created")
            return
        data, labels = mapping(found, "data"), mapping(found, "metadata", "labels")
        changes: dict[str, str | None] = {key: None for key in data if key not in texts}
        changes.update({key: text for key, text in texts.items() if data.get(key) != text})
        if not changes and all(labels.get(key) == value for key, value in LABELS.items()):
            return
        about = {"resourceVersion": version_of(found), "labels": LABELS}
        self._api.patch(CONFIG_MAPS, CONFIG_MAP, {"metadata": about, "data": changes}, self._namespace)

    def _insist(self, attempt: Callable[[], None]) -> None:
        """Look and write again when somebody else was faster. Raises Conflict when he always is."""
        for left in reversed(range(_TRIES)):
            try:
                return attempt()
            except Conflict:
                if not left:
                    raise
                self._clock.sleep(random.uniform(0.0, _MOST_WAIT))  # noqa: S311  (spreads waits, guards nothing)
        raise AssertionError("the last try returns or raises")


def text_of(architectures: tuple[Arch, ...]) -> str:
    """Architectures as they are written: in the enum's order, with commas between them."""
    return ",".join(arch.value for arch in Arch if arch in architectures)


def _annotated(found: Json) -> Json:
    """Of a pool, what a change to it needs."""
    annotation = mapping(found, "metadata", "annotations").get(ANNOTATION)
    about = {"name": name_of(found), "resourceVersion": version_of(found)}
    return {"metadata": {**about, "annotations": {ANNOTATION: annotation}}}
