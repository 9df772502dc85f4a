"""Rolls a pool's image out by a MachineConfig with an `osImageURL`: the delivery `machine-config`.

Belongs here: keeping one such object per pool as it should be, and when there must be none. Does not belong here: what
it looks like (`core.delivery`), and how far nodes have come (`adapters.cluster.rollout`).

It is never deleted here: that would roll nodes back. A paused pool's is written all the same, as the operator is who
holds a rollout.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from reconciler.core.delivery import INSTANCE, KIND, LAYERING, OUTPUT, UPSTREAM, machine_config
from reconciler.errors import ClusterError, Conflict
from reconciler.ports import Clock
from reconciler.ports.cluster import Api, Json, Kind, PoolReport

MACHINE_CONFIG: Final = Kind(UPSTREAM, "v1", "machineconfigs", KIND, namespaced=False)
MACHINE_OS_CONFIG: Final = Kind(UPSTREAM, "v1", "machineosconfigs", "MachineOSConfig", namespaced=False)
POOL: Final = Kind(UPSTREAM, "v1", "machineconfigpools", "MachineConfigPool", namespaced=False)
_TRIES: Final = 4
_FRESH: Final = 10.0
"""Seconds for which a list of all MachineOSConfigs is good: a thousand pools need not each ask for it."""


class MachineConfigs:
    """A `Delivery`. A pool that the cluster does not have gets nothing, and so does one without a believed image."""

    def __init__(self, api: Api, clock: Clock, instance: str = "default") -> None:
        self._api = api
        self._clock = clock
        self._instance = instance
        self._opted_in: Mapping[str, str] = {}
        self._listed = float("-inf")

    def report(self, pool: PoolReport) -> None:
        """Make a pool's MachineConfig true; write only what differs, and only onto what was looked at.

        Raises ClusterUnavailable; ClusterError where the operator would build the pool's image too, and for a
        MachineConfig of that name which is not ours; Conflict when it changes whenever it is written.
        """
        if self._machines(pool) is None:
            return
        wanted = self._wanted(pool)
        for last in (*(False,) * (_TRIES - 1), True):
            try:
                if self._write(wanted):
                    return
            except Conflict:
                if last:
                    raise
        raise Conflict(f"MachineConfig {_name(wanted)} comes and goes while it is being written")

    def keep_only(self, pools: Collection[str]) -> None:
        """What was delivered for a pool stays until somebody removes it."""

    def differences(self, pool: PoolReport) -> tuple[str, ...]:
        """What keeps a pool's image from its nodes, in words; changes nothing. Raises as `report`."""
        machines = self._machines(pool)
        if machines is None:
            return ()
        wanted = self._wanted(pool)
        name = _name(wanted)
        found = self._api.get(MACHINE_CONFIG, name)
        if found is None:
            return (f"MachineConfig {name} is not there",)
        self._own(found)
        image, said = wanted["spec"]["osImageURL"], _mapping(found, "spec").get("osImageURL")
        if said != image:
            return (f"MachineConfig {name} says {said or 'no osImageURL'}, not {image}",)
        other = _changes(found, wanted)
        edited = sorted(f"{half}.{key}" for half, keys in _leaves(other) for key in keys)
        return (
            *((f"MachineConfig {name} was edited: {', '.join(edited)}",) if edited else ()),
            *self._outdone(machines, name),
        )

    def _machines(self, pool: PoolReport) -> Json | None:
        """The MachineConfigPool that is to get a MachineConfig; None when there is none, or nothing to give it.

        Raises ClusterError where it must not get one.
        """
        if not pool.image or not pool.believed:
            return None
        found = self._api.get(POOL, pool.pool)
        if found is None:
            return None
        if LAYERING in _mapping(found, "metadata", "labels"):
            raise ClusterError(
                f"MachineConfigPool {pool.pool} has the label {LAYERING}, so that the Machine Config Operator takes it "
                "for one whose image it builds itself: no MachineConfig is written for it",
                hint=f"remove it (kubectl label machineconfigpool {pool.pool} {LAYERING}-), or machine-config from "
                "deliver",
            )
        rival = self._rivals().get(pool.pool)
        if rival:
            raise ClusterError(
                f"MachineOSConfig {rival} is in the cluster, so that the Machine Config Operator builds an image for "
                f"pool {pool.pool} too: no MachineConfig is written for it",
                hint=f"keep it in Git only (kubectl delete machineosconfig {rival}), or remove machine-config from "
                "deliver",
            )
        return found

    def _rivals(self) -> Mapping[str, str]:
        """The names of the cluster's MachineOSConfigs, by pool."""
        now = self._clock.now()
        if not 0 <= now - self._listed < _FRESH:
            found = {
                str(_mapping(one, "spec", "machineConfigPool").get("name") or _name(one)): _name(one)
                for one in self._api.list(MACHINE_OS_CONFIG)
            }
            self._opted_in, self._listed = found, now
        return self._opted_in

    def _wanted(self, pool: PoolReport) -> dict[str, Any]:
        return machine_config(pool.pool, pool.image, pool.source_commit, self._instance)

    def _write(self, wanted: Mapping[str, Any]) -> bool:
        """Look, and write what differs; says whether it is there now. Raises Conflict."""
        name = _name(wanted)
        found = self._api.get(MACHINE_CONFIG, name)
        if found is None:
            return self._api.create(MACHINE_CONFIG, wanted) is not None
        self._own(found)
        changes = _changes(found, wanted)
        if not changes:
            return True
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        patch = {**changes, "metadata": {**changes.get("metadata", {}), **version}}
        return self._api.patch(MACHINE_CONFIG, name, patch) is not None

    def _own(self, found: Json) -> None:
        """Raises ClusterError for somebody else's."""
        labels = _mapping(found, "metadata", "labels")
        wanted = machine_config("", "", "", self._instance)["metadata"]["labels"]
        if any(labels.get(key) != wanted[key] for key in (OUTPUT, INSTANCE)):
            whose = (
                f"instance {labels[INSTANCE]}'s" if OUTPUT in labels and INSTANCE in labels else "not ours"
            )
            raise ClusterError(
                f"MachineConfig {_name(found)} is {whose}, and is left as it is: the image is not delivered",
                hint=f"delete or rename it; ours have the labels {OUTPUT}={wanted[OUTPUT]} and "
                f"{INSTANCE}={wanted[INSTANCE]}",
            )

    def _outdone(self, machines: Json, name: str) -> Iterator[str]:
        """Why the operator gives a pool's nodes something else than our MachineConfig says."""
        sources = _mapping(machines, "spec", "configuration").get("source")
        names = sorted(str(one.get("name") or "") for one in sources or () if isinstance(one, Mapping))
        if names and name not in names:
            yield (
                f"MachineConfigPool {_name(machines)} does not take MachineConfig {name}: it is not rendered yet, or "
                "the machineConfigSelector excludes it"
            )
        for later in (one for one in names if one > name):
            image = _mapping(self._api.get(MACHINE_CONFIG, later), "spec").get("osImageURL")
            if image:
                yield f"MachineConfig {later} comes after {name}, and its osImageURL {image} counts"


def _changes(found: Json, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes it as it should be. Labels and annotations of others are left; a spec is ours."""
    about = {}
    for half in ("labels", "annotations"):
        known = _mapping(found, "metadata", half)
        differing = {k: v for k, v in wanted["metadata"][half].items() if known.get(k) != v}
        if differing:
            about[half] = differing
    spec: dict[str, Any] = {key: None for key in _mapping(found, "spec") if key not in wanted["spec"]}
    spec |= {k: v for k, v in wanted["spec"].items() if _mapping(found, "spec").get(k) != v}
    return {**({"metadata": about} if about else {}), **({"spec": spec} if spec else {})}


def _leaves(changes: Mapping[str, Any]) -> Iterator[tuple[str, Collection[str]]]:
    yield from changes.get("metadata", {}).items()
    if "spec" in changes:
        yield "spec", changes["spec"]


def _mapping(found: Any, *keys: str) -> Mapping[str, Any]:
    """The mapping below these keys; an empty one when there is none."""
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _name(found: Json) -> str:
    return str(found["metadata"]["name"])
