"""What the pods of a build say, whatever made them.

Belongs here: reading pods and logs, and turning them into words; none of it is trusted to be whole. Does not belong
here: asking for them, or the object that a pod was made for (`reading`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reconciler.adapters.builders.console import STEP, plain
from reconciler.adapters.builders.job.names import SECRET_MISSING, items, mapping, metadata
from reconciler.adapters.builders.job.times import epoch
from reconciler.adapters.builders.script import Exit
from reconciler.core.model import DIGEST
from reconciler.ports import Cause, Phase
from reconciler.ports.cluster import Json

AGAIN: Final = "create it; it is looked for again every few minutes"
_TAIL: Final = 12
_MESSAGE: Final = 8000
"""Characters of a failure's message that are kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a build failed, and with which last words."""

    cause: Cause
    message: str


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of one build, the oldest first, in which `container` is the one that builds."""

    found: Sequence[Json]
    container: str

    @property
    def last(self) -> str:
        """The name of the pod that was the last to run the build, '' when there is none."""
        return str(metadata(self.found[-1]).get("name", "")) if self.found else ""

    @property
    def all_ended(self) -> bool:
        """Whether there are pods, and nothing more will happen to any."""
        return bool(self.found) and not self._live

    @property
    def _live(self) -> list[Json]:
        return [
            pod for pod in self.found if mapping(pod, "status").get("phase") not in ("Succeeded", "Failed")
        ]

    @property
    def standing(self) -> tuple[Phase, str]:
        """Where a build stands that has not ended, and a few words on it."""
        live = self._live
        if any(mapping(pod, "status").get("phase") == "Succeeded" for pod in self.found):
            return Phase.RUNNING, "ending"  # its controller has not seen this yet
        if not live:
            return Phase.PENDING, "waiting for another attempt" if self.found else "waiting for a pod"
        if mapping(live[-1], "status").get("phase") == "Running":
            return Phase.RUNNING, "building"
        return Phase.PENDING, self._obstacle(live[-1])

    @property
    def digest(self) -> str:
        """What the pod that succeeded says of its image: it ran what a stranger wrote, so only a digest is let
        through."""
        for pod in reversed(self.found):
            terminated = self._terminated(pod)
            if terminated.get("exitCode") == Exit.PUSHED:
                said = str(terminated.get("message") or "").strip()
                return said if DIGEST.fullmatch(said) else ""
        return ""

    @property
    def status(self) -> int | None:
        """The exit status of the last pod, None when nobody knows it."""
        code = self._terminated(self.found[-1]).get("exitCode") if self.found else None
        return code if isinstance(code, int) else None

    @property
    def started(self) -> float:
        """When the first pod's container began, in seconds since the epoch; 0 when none did."""
        for pod in self.found:
            state = mapping(self._container(pod), "state")
            begun = epoch(mapping(state, "running").get("startedAt")) or epoch(
                mapping(state, "terminated").get("startedAt")
            )
            if begun:
                return begun
        return 0.0

    @property
    def killed(self) -> str:
        """How the last pod was ended by something else than its script, '' when it was not."""
        if not self.found:
            return ""
        about = mapping(self.found[-1], "status")
        if self._terminated(self.found[-1]).get("reason") == "OOMKilled":
            return "out of memory: the build was killed (raise builder.job.limits)"
        if reason := about.get("reason"):
            return words(f"the pod was ended: {reason}", about.get("message"))
        return f"the build was killed (status {self.status})" if self.status is not None else ""

    @property
    def last_words(self) -> str:
        """A failed container's termination message, which is the end of its log."""
        return str(self._terminated(self.found[-1]).get("message") or "") if self.found else ""

    def _obstacle(self, pod: Json) -> str:
        """What a pod waits for."""
        for condition in items(pod, "status", "conditions"):
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return words("waiting for a node", condition.get("message"))
        waiting = mapping(self._container(pod), "state", "waiting")
        reason = str(waiting.get("reason") or "")
        if reason in ("", "ContainerCreating", "PodInitializing"):
            return "starting" if mapping(pod, "spec").get("nodeName") else "waiting for a node"
        return words(reason, waiting.get("message"))

    def _container(self, pod: Json) -> Mapping[str, Any]:
        for container in items(pod, "status", "containerStatuses"):
            if container.get("name") == self.container:
                return container
        return {}

    def _terminated(self, pod: Json) -> Mapping[str, Any]:
        return mapping(self._container(pod), "state", "terminated")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a build failed, as the object tells that it was: `status` is the script's exit status, None when nobody knows
    it; `limit` how many seconds were too few, 0 when that is not why; `message` the object's own words."""

    status: int | None
    limit: int
    message: str


def by_owner(found: Iterable[Json]) -> dict[str, list[Json]]:
    """Pods by the uid of what owns them; the oldest first."""
    owned: dict[str, list[Json]] = {}
    for pod in sorted(found, key=lambda pod: str(metadata(pod).get("creationTimestamp", ""))):
        for owner in items(pod, "metadata", "ownerReferences"):
            owned.setdefault(str(owner.get("uid", "")), []).append(pod)
    return owned


def outcome(ending: Ending, found: Pods, log: str, step: str = "") -> Outcome:
    """How a build failed, from how it ended, its last pod and what that wrote. `step` is what it was last seen doing:
    pods that a deadline ends are gone with their logs."""
    lines = _lines(log) or _lines(found.last_words)
    tail = "\n".join(lines[-_TAIL:])
    status = ending.status
    if status == Exit.DEFINITION:
        return _outcome(Cause.DEFINITION, f"{_instruction(lines) or 'the Containerfile'} failed", tail)
    if status == SECRET_MISSING:
        return _outcome(Cause.MISSING, f"{_step(lines) or 'a Secret is missing'} ({AGAIN})", "")
    if ending.limit:
        at = _step(lines) or step
        headline = f"the build took longer than {ending.limit} s" + (f", at: {at}" if at else "")
        return _outcome(Cause.INFRASTRUCTURE, headline, tail)
    if status is not None and status in set(Exit):
        return _outcome(Cause.INFRASTRUCTURE, _step(lines) or f"the build failed (status {status})", tail)
    return _outcome(Cause.INFRASTRUCTURE, found.killed or ending.message, tail)


def words(headline: str, more: object) -> str:
    """A headline, and what a program said, safe for terminals."""
    text = plain(str(more or "").encode("utf-8", "replace"))
    return f"{headline}: {text}" if text else headline


def _lines(text: str) -> list[str]:
    return [line for each in text.splitlines() if (line := plain(each.encode("utf-8", "replace"))).strip()]


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
