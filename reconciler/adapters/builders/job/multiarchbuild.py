"""Shows in the cluster where each pool's builds stand: the `MultiArchBuild`s, with Events.

Belongs here: creating, writing, superseding and deleting them. Does not belong here: what they look like (`rendering`),
and the failures that the builder keeps in them (`failures`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from reconciler.adapters.builders.job import failures, rendering
from reconciler.adapters.builders.job.form import JOBS, Form
from reconciler.adapters.builders.job.names import (
    EVENT,
    INSTANCE,
    MULTI_ARCH_BUILD,
    POOL,
    items,
    label,
    mapping,
    metadata,
    owner,
    selector,
)
from reconciler.adapters.builders.job.times import epoch
from reconciler.errors import ClusterError
from reconciler.ports import Clock
from reconciler.ports.cluster import Api, Json, PoolReport

_KEPT: Final = 5
"""How many of a pool's MultiArchBuilds stay, whatever their age."""
_AGE: Final = 7 * 86400.0
"""Seconds for which each stays."""


class MultiArchBuilds:
    """A `Reporter`. What others have changed is put right; what is right is left alone. `form` is that of the builds
    which these own."""

    def __init__(
        self, api: Api, clock: Clock, namespace: str, instance: str = "default", form: Form = JOBS
    ) -> None:
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._instance = instance
        self._form = form

    def report(self, pool: PoolReport) -> None:
        """Make a pool's MultiArchBuilds true: the one of this work shows it, unfinished ones of other work were
        interrupted by it, and old ones are gone.

        Raises ClusterUnavailable, ClusterError (also when somebody else's has its name), Conflict.
        """
        if not pool.work:
            return
        found = self._list(pool.pool)
        current = next((work for work in found if metadata(work)["name"] == pool.work), None)
        if current is None and rendering.is_worth_showing(pool):
            current = self._create(pool)
        if current is not None:
            self._show(pool, current)
        others = [work for work in found if metadata(work)["name"] != pool.work]
        for work in others:
            if not rendering.has_ended(work):
                self._interrupt(work, f"Superseded by {pool.work}")
        self._sweep(pool.pool, others)

    def keep_only(self, pools: Collection[str]) -> None:
        """End the unfinished MultiArchBuilds of all pools but these: nothing is wanted for the others any more.

        Raises as `report`.
        """
        for work in self._list():
            pool = mapping(work, "spec").get("pool")
            if pool not in pools and not rendering.has_ended(work):
                self._interrupt(work, f"Nothing defines pool {pool} any more")

    def _list(self, pool: str = "") -> list[Json]:
        return list(self._api.list(MULTI_ARCH_BUILD, self._namespace, selector(self._instance, pool)))

    def _create(self, pool: PoolReport) -> Json | None:
        """The MultiArchBuild of a work, new or made by somebody else meanwhile; None when it is gone again."""
        machines = self._api.get(POOL, pool.pool)
        owners = [owner(POOL, machines)] if machines else []
        body = rendering.body(pool, self._instance, self._namespace, owners)
        made = self._api.create(MULTI_ARCH_BUILD, body, self._namespace)
        found = made or self._api.get(MULTI_ARCH_BUILD, pool.work, self._namespace)
        if found is None:
            return None
        labels = mapping(found, "metadata", "labels")
        mine = labels.get(INSTANCE) == label(self._instance)
        if not mine or mapping(found, "spec").get("pool") != pool.pool:
            raise ClusterError(
                f"the MultiArchBuild {self._namespace}/{pool.work} is not pool {pool.pool}'s of this instance",
                hint="delete it, or give the daemons that share the namespace different instance names",
            )
        return found

    def _show(self, pool: PoolReport, work: Json) -> None:
        # Events first: who is killed in between tells them again, under the same names.
        for event in rendering.events(pool, work, self._clock.now()):
            self._api.create(EVENT, event, self._namespace)
        self._write(work, rendering.status(pool, work, self._clock.now()))

    def _interrupt(self, work: Json, why: str) -> None:
        now = self._clock.now()
        told = rendering.event(work, "BuildInterrupted", "Normal", why, now)
        self._api.create(EVENT, told, self._namespace)
        self._write(work, rendering.interrupted(work, why, now))

    def _write(self, work: Json, status: Json) -> None:
        patch = rendering.patch(work, status)
        if patch:
            name = str(metadata(work)["name"])
            self._api.patch(MULTI_ARCH_BUILD, name, patch, self._namespace, subresource="status")

    def _sweep(self, pool: str, others: list[Json]) -> None:
        """Delete what is old, unless a build of it is unfinished, or a failure in it still counts."""
        newest = sorted(others, key=lambda work: epoch(metadata(work).get("creationTimestamp")), reverse=True)
        limit = self._clock.now() - _AGE
        old = [
            work
            for work in newest[_KEPT - 1 :]  # the current one is the first of those that stay
            if epoch(metadata(work).get("creationTimestamp")) < limit and not failures.listed(work)
        ]
        busy = self._busy(pool) if old else frozenset()
        for work in old:
            about = metadata(work)
            if about["uid"] not in busy:
                name = str(about["name"])
                self._api.delete(MULTI_ARCH_BUILD, name, self._namespace, uid=str(about["uid"]))

    def _busy(self, pool: str) -> frozenset[str]:
        """The uids of those that own a build which has not ended."""
        jobs = self._api.list(self._form.kind, self._namespace, selector(self._instance, pool))
        return frozenset(
            str(reference.get("uid"))
            for job in jobs
            if self._form.end(job) is None
            for reference in items(job, "metadata", "ownerReferences")
        )
