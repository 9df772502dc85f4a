"""Whether a Job that has a build's name already is that build, and what makes it ours.

Belongs here: comparing, and the patch. Does not belong here: asking the API.
"""

from __future__ import annotations

from typing import Any, Final

from reconciler.adapters.builders.job.names import (
    DISCARDED,
    INPUT,
    INSTANCE,
    MANAGED_BY,
    MANAGER,
    MULTI_ARCH_BUILD,
    annotations_of,
    items,
    label,
    mapping,
    metadata,
    owner,
)
from reconciler.ports import BuildRequest
from reconciler.ports.cluster import Json

_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"


def obstacle(request: BuildRequest, found: Json, instance: str) -> str:
    """Why a Job is not the build that is asked for, '' when it is.

    A name has only the start of the digest, so all of it is compared. Another `managedBy` than Kubernetes' own means
    that the Job may run elsewhere, where we would not find its pod.
    """
    labels = mapping(found, "metadata", "labels")
    if labels.get(MANAGED_BY) != MANAGER:
        return f"its label {MANAGED_BY} is {labels.get(MANAGED_BY)!r}"
    if labels.get(INSTANCE) != label(instance):
        return f"it belongs to the instance {labels.get(INSTANCE)!r}"
    manager = mapping(found, "spec").get("managedBy", _JOB_CONTROLLER)
    if manager != _JOB_CONTROLLER:
        return f"{manager!r} manages it"
    built, wanted = annotations_of(found).get(INPUT, ""), request.annotations.get(INPUT, "")
    return "" if built == wanted else f"it builds from {built or 'unknown inputs'}, not from {wanted}"


def patch(found: Json, work: Json | None) -> Json | None:
    """What makes a Job wanted again, and owned by a MultiArchBuild too; None when it is both.

    One owner alone may be the controller: the first stays it.
    """
    changes: dict[str, Any] = {}
    if DISCARDED in annotations_of(found):
        changes["annotations"] = {DISCARDED: None}
    owners = items(found, "metadata", "ownerReferences")
    if work and all(known.get("uid") != metadata(work)["uid"] for known in owners):
        controlled = any(known.get("controller") for known in owners)
        changes["ownerReferences"] = [*owners, owner(MULTI_ARCH_BUILD, work, controller=not controlled)]
    if not changes:
        return None
    return {"metadata": {"resourceVersion": metadata(found)["resourceVersion"], **changes}}
