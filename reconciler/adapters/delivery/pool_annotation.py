"""Shows a pool's image on its MachineConfigPool, by annotations: the delivery `pool-annotation`.

Belongs here: which annotations say what. Does not belong here: the pool's architectures, which whoever observes them
records.

Nothing in upstream's operator reads these to roll an image out: they tell people and other tools. `build-state` has
MachineOSBuild's words, as the pool's own status belongs to the operator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from reconciler.core.model import GROUP
from reconciler.errors import Conflict
from reconciler.ports.cluster import Api, Json, Kind, PoolReport

POOL: Final = Kind(
    "machineconfiguration.openshift.io", "v1", "machineconfigpools", "MachineConfigPool", namespaced=False
)
IMAGE: Final = "machineconfiguration.openshift.io/newestImageEquivalentConfig"
SOURCE: Final = f"{GROUP}/source-commit"
STATE: Final = f"{GROUP}/build-state"
_TRIES: Final = 4


class PoolAnnotations:
    """A `Delivery`. A pool that the cluster does not have is shown nowhere."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def report(self, pool: PoolReport) -> None:
        """Make the annotations of a pool true; write only what differs, and only onto what was looked at.

        Raises ClusterUnavailable, ClusterError, and Conflict when the pool changes whenever it is written.
        """
        for last in (*(False,) * (_TRIES - 1), True):
            found = self._api.get(POOL, pool.pool)
            changes = _changes(found, _wanted(pool)) if found else {}
            if found is None or not changes:
                return
            version = found["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version, "annotations": changes}}
            try:
                self._api.patch(POOL, pool.pool, patch)
            except Conflict:
                if last:
                    raise
            else:
                return

    def keep_only(self, pools: Collection[str]) -> None:
        """What was delivered for a pool stays until somebody removes it."""

    def differences(self, pool: PoolReport) -> tuple[str, ...]:
        """The annotations that say another image or commit; changes nothing. Raises as `report`."""
        found = self._api.get(POOL, pool.pool)
        if found is None:
            return ()
        known = found["metadata"].get("annotations") or {}
        wanted = {key: value for key, value in _wanted(pool).items() if key != STATE}
        return tuple(
            f"MachineConfigPool {pool.pool} has the annotation {key} {known.get(key) or 'missing'}, "
            f"not {value or 'missing'}"
            for key, value in wanted.items()
            if known.get(key) != value
        )


def _wanted(pool: PoolReport) -> Mapping[str, str | None]:
    """The value of each annotation; None for one that is not to be there. What an image that is not believed has there
    already stays."""
    state = {STATE: pool.state.value if pool.state else None}
    if not pool.believed:
        return state
    return {IMAGE: pool.image or None, SOURCE: pool.source_commit or None, **state}


def _changes(found: Json, wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    known = found["metadata"].get("annotations") or {}
    return {key: value for key, value in wanted.items() if known.get(key) != value}
