"""Failed builds, kept in the status of the MultiArchBuilds that own them: there they outlive their Jobs.

Belongs here: the list `status.failures`, read and written as JSON. Does not belong here: the rest of that status, which
is the reporter's (`rendering`), and asking the API.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from reconciler.adapters.builders.job.names import items, mapping, metadata
from reconciler.adapters.builders.job.times import epoch, timestamp
from reconciler.core.model import Arch
from reconciler.ports import Build, Cause, Phase
from reconciler.ports.cluster import Json

FIELD: Final = "failures"
_MOST: Final = 20
"""Entries in one list: attempts that others followed are discarded anyway."""


def entry(build: Build, uid: str) -> Json:
    """A failed build of the Job with this uid."""
    assert build.cause is not None
    times = {
        "startTime": timestamp(build.started) if build.started else "",
        "completionTime": timestamp(build.finished) if build.finished else "",
    }
    return {
        "job": build.name,
        "uid": uid,
        "arch": build.arch.value,
        "cause": build.cause.value,
        "message": build.message,
        "annotations": dict(build.annotations),
        **{key: value for key, value in times.items() if value},
    }


def listed(work: Json) -> list[Mapping[str, Any]]:
    """The entries of a MultiArchBuild."""
    return items(work, "status", FIELD)


def builds(work: Json, log: str) -> Iterable[tuple[str, Build]]:
    """The failed builds that a MultiArchBuild remembers, each with its Job's uid; what cannot be read is not there."""
    pool = str(mapping(work, "spec").get("pool", ""))
    for found in listed(work):
        try:
            arch, cause = Arch(str(found.get("arch"))), Cause(str(found.get("cause")))
        except ValueError:
            continue
        yield (
            str(found.get("uid", "")),
            Build(
                name=str(found.get("job", "")),
                pool=pool,
                arch=arch,
                phase=Phase.FAILED,
                cause=cause,
                message=str(found.get("message", "")),
                log=log,
                started=epoch(found.get("startTime")),
                finished=epoch(found.get("completionTime")),
                annotations={str(key): str(value) for key, value in mapping(found, "annotations").items()},
            ),
        )


def added(work: Json, failed: Iterable[tuple[Json, Build]]) -> Json | None:
    """The patch that adds failed builds to a MultiArchBuild, each with its Job; None when there is nothing to add.

    Only those count whose Job it owns. An entry takes the place of another of the same name.
    """
    own = metadata(work)["uid"]
    known = {found.get("uid") for found in listed(work)}
    new = [
        entry(build, str(metadata(job)["uid"]))
        for job, build in failed
        if metadata(job)["uid"] not in known
        and any(owner.get("uid") == own for owner in items(job, "metadata", "ownerReferences"))
    ]
    if not new:
        return None
    names = {found["job"] for found in new}
    kept = [found for found in listed(work) if found.get("job") not in names]
    return _patch(work, [*kept, *new][-_MOST:])


def without(work: Json, names: Collection[str]) -> Json | None:
    """The patch that forgets builds; None when none of them is remembered."""
    kept = [found for found in listed(work) if found.get("job") not in names]
    return _patch(work, kept) if len(kept) < len(listed(work)) else None


def _patch(work: Json, entries: list[Mapping[str, Any]]) -> Json:
    """A list is replaced as a whole, so the patch holds only for the object that it was read from."""
    return {"metadata": {"resourceVersion": metadata(work)["resourceVersion"]}, "status": {FIELD: entries}}
