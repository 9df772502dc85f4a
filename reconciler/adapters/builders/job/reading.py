"""What Jobs say about a build.

Belongs here: reading JSON that the cluster, its people and the pod's own programs wrote; none of it is trusted to be
whole. Does not belong here: asking for it, or what pods say (`pods`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from reconciler.adapters.builders.job import pods
from reconciler.adapters.builders.job.names import (
    ARCH_LABEL,
    DISCARDED,
    OWN_ANNOTATIONS,
    POOL_NAME,
    annotations_of,
    items,
    mapping,
    metadata,
)
from reconciler.adapters.builders.job.pods import Outcome, Pods
from reconciler.adapters.builders.job.times import epoch
from reconciler.core.model import Arch
from reconciler.ports import Build, Phase
from reconciler.ports.cluster import Json

_EXIT: Final = re.compile(r"failed with exit code (\d+)")
"""How a Job's condition quotes the container that its failure policy was applied to."""


def is_discarded(found: Json) -> bool:
    """Whether nobody wants a Job, or another object that a build is, any more."""
    return DISCARDED in annotations_of(found) or "deletionTimestamp" in metadata(found)


def end(job: Json) -> Phase | None:
    """How a Job has ended, None while it has not. Counts do not tell: a condition does."""
    if _condition(job, "Complete"):
        return Phase.SUCCEEDED
    return Phase.FAILED if _condition(job, "Failed") else None


def identity(found: Json) -> tuple[str, Arch] | None:
    """The pool and the architecture that an object's build is for; None for one that is not a build of ours."""
    pool = annotations_of(found).get(POOL_NAME)
    try:
        arch = Arch(str(mapping(found, "metadata", "labels").get(ARCH_LABEL, "")))
    except ValueError:
        return None
    return (pool, arch) if isinstance(pool, str) else None


def asked(found: Json) -> dict[str, str]:
    """The annotations that an object has from its request."""
    return {key: value for key, value in annotations_of(found).items() if key not in OWN_ANNOTATIONS}


def build(job: Json, found: Pods, outcome: Outcome | None, log: str) -> Build | None:
    """A Job as a build; None for one that is not a build of ours. `outcome` is that of one that failed; `log` says
    where its log is to be read."""
    what = identity(job)
    if what is None:
        return None
    ended = end(job)
    phase, step = (ended, "") if ended else _standing(job, found)
    return Build(
        name=str(metadata(job)["name"]),
        pool=what[0],
        arch=what[1],
        phase=phase,
        step=step,
        digest=found.digest if phase is Phase.SUCCEEDED else "",
        cause=outcome.cause if outcome else None,
        message=outcome.message if outcome else "",
        log=log,
        started=found.started or (epoch(mapping(job, "status").get("startTime")) if ended else 0.0),
        finished=_finished(job),
        annotations=asked(job),
    )


def outcome(job: Json, found: Pods, log: str, step: str = "") -> Outcome:
    """How a Job failed, from its condition, its last pod and what that wrote. `step` is what it was last seen doing."""
    failed = _condition(job, "Failed") or {}
    late = failed.get("reason") == "DeadlineExceeded"
    ending = pods.Ending(
        _exit_status(failed, found),
        int(mapping(job, "spec").get("activeDeadlineSeconds", 0)) if late else 0,
        str(failed.get("message") or "the Job failed"),
    )
    return pods.outcome(ending, found, log, step)


def _condition(found: Json, kind: str) -> Mapping[str, Any] | None:
    for condition in items(found, "status", "conditions"):
        if condition.get("type") == kind and condition.get("status") == "True":
            return condition
    return None


def _standing(job: Json, found: Pods) -> tuple[Phase, str]:
    """Where a Job stands that has not ended, and a few words on it."""
    return (Phase.PENDING, "suspended") if _condition(job, "Suspended") else found.standing


def _exit_status(failed: Mapping[str, Any], found: Pods) -> int | None:
    if found.status is not None:
        return found.status
    match = _EXIT.search(str(failed.get("message") or ""))
    return int(match[1]) if match and failed.get("reason") == "PodFailurePolicy" else None


def _finished(job: Json) -> float:
    ended = _condition(job, "Complete") or _condition(job, "Failed")
    if ended is None:
        return 0.0
    return epoch(mapping(job, "status").get("completionTime")) or epoch(ended.get("lastTransitionTime"))
