"""What OpenShift's Builds say about a build.

Belongs here: reading a Build's JSON, which its controller and people write. Does not belong here: asking for it, or
what pods say (`job.pods`).

Facts (openshift/api 2a3d739: build/v1/types.go, consts.go; openshift-controller-manager 26d20fe:
pkg/build/controller/build/build_controller.go): `status.phase` is New (no pod yet; `reason` and `message` say what
hinders it), Pending (there is a pod), Running, and at the end Complete, Failed (the pod failed: reasons
GenericBuildFailed, OutOfMemoryKilled, BuildPodEvicted), Error (the pod is gone, or could not be: BuildPodDeleted,
BuildPodExists) or Cancelled. It never leaves one of these. `logSnippet` has the last lines of a failed build, cut.
BuildPodExists is what a Build comes to whose namesake's pod is still there two minutes after it was created.
"""

from __future__ import annotations

from typing import Final

from reconciler.adapters.builders.job import pods
from reconciler.adapters.builders.job.names import OVERDUE, annotations_of, mapping, metadata
from reconciler.adapters.builders.job.pods import Ending, Outcome, Pods
from reconciler.adapters.builders.job.reading import asked, identity
from reconciler.adapters.builders.job.times import epoch
from reconciler.adapters.builders.script import Exit
from reconciler.ports import Build, Cause, Phase
from reconciler.ports.cluster import Json

_FAILED: Final = ("Failed", "Error", "Cancelled")


def end(found: Json) -> Phase | None:
    """How a Build has ended, None while it has not. One that we have called overdue has, whatever its controller does
    about it."""
    phase = mapping(found, "status").get("phase")
    if phase == "Complete":
        return Phase.SUCCEEDED
    return Phase.FAILED if phase in _FAILED or OVERDUE in annotations_of(found) else None


def build(found: Json, mine: Pods, outcome: Outcome | None, log: str) -> Build | None:
    """A Build as a build; None for one that is not ours. `outcome` is that of one that failed; `log` says where its log
    is to be read."""
    what = identity(found)
    if what is None:
        return None
    ended = end(found)
    if ended is Phase.SUCCEEDED and mine.status == Exit.PUSHED and not mine.last_words:
        # Our script always says something at its end.
        ended, outcome = Phase.FAILED, _idle(found)
    phase, step = (ended, "") if ended else _standing(found, mine)
    status = mapping(found, "status")
    return Build(
        name=str(metadata(found)["name"]),
        pool=what[0],
        arch=what[1],
        phase=phase,
        step=step,
        digest=mine.digest if phase is Phase.SUCCEEDED else "",
        cause=outcome.cause if outcome else None,
        message=outcome.message if outcome else "",
        log=log,
        started=mine.started or (epoch(status.get("startTimestamp")) if ended else 0.0),
        finished=finished(found) if ended else 0.0,
        annotations=asked(found),
    )


def outcome(found: Json, mine: Pods, log: str, step: str = "") -> Outcome:
    """How a Build failed, from its status, its pod and what that wrote. `step` is what it was last seen doing."""
    status = mapping(found, "status")
    about = annotations_of(found)
    late = OVERDUE in about or _deadline_exceeded(mine)
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    said = pods.words(reason or "the Build failed", message)
    ending = Ending(
        None if late else mine.status,
        deadline(found) if late else 0,
        said,
    )
    return pods.outcome(ending, mine, log or _snippet(status, mine), about.get(OVERDUE) or step)


def finished(found: Json) -> float:
    """When a Build ended, in seconds since the epoch; for one that is overdue, when it should have; 0 when nothing
    tells."""
    due = created(found) + deadline(found) if OVERDUE in annotations_of(found) else 0.0
    return epoch(mapping(found, "status").get("completionTimestamp")) or due


def created(found: Json) -> float:
    """When a Build was created, in seconds since the epoch."""
    return epoch(metadata(found).get("creationTimestamp"))


def deadline(found: Json) -> int:
    """Seconds that a Build may take, 0 when it does not say."""
    seconds = mapping(found, "spec").get("completionDeadlineSeconds")
    return seconds if isinstance(seconds, int) else 0


def _standing(found: Json, mine: Pods) -> tuple[Phase, str]:
    """Where a Build stands that has not ended, and a few words on it."""
    if mine.all_ended:
        return Phase.RUNNING, "ending"  # the controller has not said so yet
    status = mapping(found, "status")
    reason = status.get("reason")
    if reason and not mine.found:
        return Phase.PENDING, pods.words(str(reason), status.get("message"))
    return mine.standing


def _snippet(status: Json, mine: Pods) -> str:
    """The end of the log as the Build itself has it, where no pod does any more."""
    return "" if mine.last_words else str(status.get("logSnippet") or "")


def _deadline_exceeded(mine: Pods) -> bool:
    return bool(mine.found) and mapping(mine.found[-1], "status").get("reason") == "DeadlineExceeded"


def _idle(found: Json) -> Outcome:
    image = mapping(found, "spec", "strategy", "customStrategy", "from").get("name", "")
    return Outcome(
        Cause.INFRASTRUCTURE,
        f"{image} ended without building anything: its command is neither bash nor runs $BASH_ENV (builder.job.image)",
    )
