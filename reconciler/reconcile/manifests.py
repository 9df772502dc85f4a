"""The manifests that `commit` writes for another GitOps tool to apply: one MachineConfig per pool, in Git.

Belongs here: where they lie, and which differ from what they should be. Does not belong here: what one looks like
(`core.delivery`), and committing it.

They lie below the status path: so they are never read as definitions nor as build context, whatever `reconciler.yaml`
says, and a commit that changes nothing else is no reason to plan anew.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from reconciler.core.delivery import manifest
from reconciler.core.status import PoolRecord
from reconciler.reconcile.planning import Planning, World

_LIMIT = 1 << 20


def differing(
    world: World, planning: Planning, records: Iterable[PoolRecord]
) -> dict[str, tuple[str, bytes]]:
    """Of the records' manifests those that the tip lacks or has otherwise: by pool the path, as the whole repository
    names it, and what is to stand there. None where no folder for them is configured. Raises GitError."""
    if not world.place.manifests:
        return {}
    folder = world.history.path(planning.status_path, world.place.manifests)
    wanted = {
        record.pool: manifest(record.pool, record.image, record.source_commit, record.instance)
        for record in records
    }
    objects = world.repository
    files = {f"{pool}.yaml" for pool in wanted}
    there = {
        e.path: e.oid for e in objects.tree(planning.tip, folder, files) if e.is_file and e.size <= _LIMIT
    }
    contents = dict(objects.blobs(there.values()))
    return {
        pool: (posixpath.join(folder, f"{pool}.yaml"), content)
        for pool, content in wanted.items()
        if contents.get(there.get(f"{pool}.yaml", "")) != content
    }
