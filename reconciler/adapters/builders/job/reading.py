"""What Jobs and their pods say about a build.

Belongs here: reading JSON that the cluster, its people and the pod's own programs wrote; none of it is trusted to be
whole. Does not belong here: asking for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from reconciler.adapters.builders.console import STEP, plain
from reconciler.adapters.builders.job.names import (
    ARCH_LABEL,
    CONTAINER,
    DISCARDED,
    OWN_ANNOTATIONS,
    POOL_NAME,
    annotations_of,
    items,
    mapping,
    metadata,
)
from reconciler.adapters.builders.script import Exit
from reconciler.core.model import DIGEST, Arch
from reconciler.ports import Build, Cause, Phase
from reconciler.ports.cluster import Json

_EXIT: Final = re.compile(r"failed with exit code (\d+)")
"""How a Job's condition quotes the container that its failure policy was applied to."""
_TAIL: Final = 12
_MESSAGE: Final = 8000
"""Characters of a failure's message that are kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a build failed, and with which last words."""

    cause: Cause
    message: str


def is_discarded(job: Json) -> bool:
    """Whether nobody wants the Job any more."""
    return DISCARDED in annotations_of(job) or "deletionTimestamp" in metadata(job)


def has(job: Json, condition: str) -> bool:
    """Whether a condition of this type is true."""
    return _condition(job, condition) is not None


def is_over(job: Json) -> bool:
    """Whether a Job has ended. Counts do not tell: a condition does."""
    return has(job, "Complete") or has(job, "Failed")


def pods_by_job(pods: Iterable[Json]) -> dict[str, list[Json]]:
    """Pods by the uid of their owner, which is a Job; the oldest first."""
    found: dict[str, list[Json]] = {}
    for pod in sorted(pods, key=lambda pod: str(metadata(pod).get("creationTimestamp", ""))):
        for owner in items(pod, "metadata", "ownerReferences"):
            found.setdefault(str(owner.get("uid", "")), []).append(pod)
    return found


def build(job: Json, pods: Iterable[Json], outcome: Outcome | None, log: str) -> Build | None:
    """A Job as a build; None for one that is not a build of ours. `outcome` is that of one that failed; `log` says
    where its log is to be read."""
    about = annotations_of(job)
    try:
        arch = Arch(str(mapping(job, "metadata", "labels").get(ARCH_LABEL, "")))
    except ValueError:
        return None
    pool = about.get(POOL_NAME)
    if not isinstance(pool, str):
        return None
    found = list(pods)
    phase, step = _standing(job, found)
    return Build(
        name=str(metadata(job)["name"]),
        pool=pool,
        arch=arch,
        phase=phase,
        step=step,
        digest=_digest(found) if phase is Phase.SUCCEEDED else "",
        cause=outcome.cause if outcome else None,
        message=outcome.message if outcome else "",
        log=log,
        started=_started(job, found),
        finished=_finished(job),
        annotations={key: value for key, value in about.items() if key not in OWN_ANNOTATIONS},
    )


def outcome(job: Json, pods: Iterable[Json], log: str, step: str = "") -> Outcome:
    """How a Job failed, from its condition, its last pod and what that wrote. `step` is what it was last seen doing:
    pods that a deadline ends are gone with their logs."""
    found = list(pods)
    failed = _condition(job, "Failed") or {}
    status = _exit_status(failed, found)
    lines = [text for line in log.splitlines() if (text := plain(line.encode("utf-8", "replace"))).strip()]
    lines = lines or _last_words(found)
    tail = "\n".join(lines[-_TAIL:])
    if status == Exit.DEFINITION:
        return _outcome(Cause.DEFINITION, f"{_instruction(lines) or 'the Containerfile'} failed", tail)
    if failed.get("reason") == "DeadlineExceeded":
        seconds = mapping(job, "spec").get("activeDeadlineSeconds", 0)
        at = _step(lines) or step
        headline = f"the build took longer than {seconds} s" + (f", at: {at}" if at else "")
        return _outcome(Cause.INFRASTRUCTURE, headline, tail)
    if status is not None and status in set(Exit):
        return _outcome(Cause.INFRASTRUCTURE, _step(lines) or f"the build failed (status {status})", tail)
    headline = _killed(found, status) or str(failed.get("message") or "the Job failed")
    return _outcome(Cause.INFRASTRUCTURE, headline, tail)


def epoch(text: object) -> float:
    """Kubernetes' time in seconds since the epoch, 0 for none."""
    if not isinstance(text, str):
        return 0.0
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def timestamp(seconds: float) -> str:
    """The reverse of `epoch`, in whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def last_pod(pods: Iterable[Json]) -> str:
    """The name of the pod that was the last to run a build, '' when there is none."""
    names = [str(metadata(pod).get("name", "")) for pod in pods]
    return names[-1] if names else ""


def _condition(found: Json, kind: str) -> Mapping[str, Any] | None:
    for condition in items(found, "status", "conditions"):
        if condition.get("type") == kind and condition.get("status") == "True":
            return condition
    return None


def _standing(job: Json, pods: list[Json]) -> tuple[Phase, str]:
    """Where a Job stands, and a few words on it."""
    if has(job, "Complete"):
        return Phase.SUCCEEDED, ""
    if has(job, "Failed"):
        return Phase.FAILED, ""
    if has(job, "Suspended"):
        return Phase.PENDING, "suspended"
    live = [pod for pod in pods if mapping(pod, "status").get("phase") not in ("Succeeded", "Failed")]
    if not live:
        return Phase.PENDING, "waiting for another attempt" if pods else "waiting for a pod"
    pod = live[-1]
    if mapping(pod, "status").get("phase") == "Running":
        return Phase.RUNNING, "building"
    return Phase.PENDING, _obstacle(pod)


def _obstacle(pod: Json) -> str:
    """What a pod waits for."""
    for condition in items(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _words("waiting for a node", condition.get("message"))
    waiting = mapping(_container(pod), "state", "waiting")
    reason = str(waiting.get("reason") or "")
    if reason in ("", "ContainerCreating", "PodInitializing"):
        return "starting" if mapping(pod, "spec").get("nodeName") else "waiting for a node"
    return _words(reason, waiting.get("message"))


def _words(headline: str, more: object) -> str:
    text = plain(str(more or "").encode("utf-8", "replace"))
    return f"{headline}: {text}" if text else headline


def _container(pod: Json) -> Mapping[str, Any]:
    for container in items(pod, "status", "containerStatuses"):
        if container.get("name") == CONTAINER:
            return container
    return {}


def _terminated(pod: Json) -> Mapping[str, Any]:
    return mapping(_container(pod), "state", "terminated")


def _digest(pods: list[Json]) -> str:
    """What the pod that succeeded says of its image: it ran what a stranger wrote, so only a digest is let through."""
    for pod in reversed(pods):
        terminated = _terminated(pod)
        if terminated.get("exitCode") == Exit.PUSHED:
            said = str(terminated.get("message") or "").strip()
            return said if DIGEST.fullmatch(said) else ""
    return ""


def _exit_status(failed: Mapping[str, Any], pods: list[Json]) -> int | None:
    if pods:
        code = _terminated(pods[-1]).get("exitCode")
        if isinstance(code, int):
            return code
    match = _EXIT.search(str(failed.get("message") or ""))
    return int(match[1]) if match and failed.get("reason") == "PodFailurePolicy" else None


def _killed(pods: list[Json], status: int | None) -> str:
    """How a pod was ended by something else than its script."""
    if not pods:
        return ""
    terminated, about = _terminated(pods[-1]), mapping(pods[-1], "status")
    if terminated.get("reason") == "OOMKilled":
        return "out of memory: the build was killed (raise builder.job.limits)"
    if reason := about.get("reason"):
        return _words(f"the pod was ended: {reason}", about.get("message"))
    return f"the build was killed (status {status})" if status is not None else ""


def _last_words(pods: list[Json]) -> list[str]:
    """A failed container's termination message, which is the end of its log."""
    said = str(_terminated(pods[-1]).get("message") or "") if pods else ""
    return [text for line in said.splitlines() if (text := plain(line.encode("utf-8", "replace"))).strip()]


def _instruction(lines: list[str]) -> str:
    """The last instruction that buildah announced."""
    steps = [line for line in lines if (match := STEP.match(line)) and match[0] != "==> "]
    return steps[-1] if steps else ""


def _step(lines: list[str]) -> str:
    """The last thing that buildah or our script announced."""
    steps = [line.removeprefix("==> ") for line in lines if STEP.match(line)]
    return steps[-1] if steps else ""


def _outcome(cause: Cause, headline: str, tail: str) -> Outcome:
    message = f"{headline}\n{tail}" if tail else headline
    # The end of it says what went wrong.
    return Outcome(cause, message if len(message) <= _MESSAGE else f"{headline}\n…{message[-_MESSAGE:]}")


def _started(job: Json, pods: list[Json]) -> float:
    """When the first pod's container began."""
    for pod in pods:
        state = mapping(_container(pod), "state")
        begun = epoch(mapping(state, "running").get("startedAt")) or epoch(
            mapping(state, "terminated").get("startedAt")
        )
        if begun:
            return begun
    return epoch(mapping(job, "status").get("startTime")) if is_over(job) else 0.0


def _finished(job: Json) -> float:
    ended = _condition(job, "Complete") or _condition(job, "Failed")
    if ended is None:
        return 0.0
    return epoch(mapping(job, "status").get("completionTime")) or epoch(ended.get("lastTransitionTime"))
