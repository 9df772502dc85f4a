"""The status of a pod, as a kubelet reports it: from what its supervisor told to phase, conditions and containers.

Pure. Does not belong here: sending it (`agent`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.nodes.spec import Object

_LOST: Final = "The container could not be located when the pod was terminated"


@dataclass(slots=True)
class Seen:
    """What is known of a pod here. `states` are container states by name, as in a ContainerStatus.

    `reason` and `message` are the pod's own, `failed` that the node has given it up, whatever its containers say;
    `disrupted` is the reason of a DisruptionTarget condition.
    """

    started: str
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    reason: str = ""
    message: str = ""
    failed: bool = False
    disrupted: str = ""

    def fail(self, reason: str, message: str) -> None:
        """The node gives the pod up. The first reason stays."""
        if not self.failed:
            self.failed, self.reason, self.message = True, reason, message

    def start(self, name: str, at: str) -> None:
        """A container runs."""
        self.states[name] = {"running": {"startedAt": at}}

    def wait(self, name: str, reason: str, message: str) -> None:
        """A container waits."""
        self.states[name] = {"waiting": {"reason": reason, "message": message}}

    def end(self, event: Mapping[str, Any]) -> None:
        """A container has ended, as the supervisor tells it."""
        state = {
            "exitCode": event["status"],
            "reason": event["reason"],
            "startedAt": event["started"],
            "finishedAt": event["at"],
        }
        if event["message"]:
            state["message"] = event["message"]
        self.states[event["container"]] = {"terminated": state}

    def lose(self, names: list[str], at: str) -> None:
        """Nobody knows how these containers ended, if they ran."""
        for name in names:
            if "terminated" not in self.states.get(name, {}):
                lost = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": _LOST}
                self.states[name] = {"terminated": {**lost, "startedAt": at, "finishedAt": at}}


def is_over(pod: Object) -> bool:
    """Whether the API server already has the pod's last phase."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def names(pod: Object, field: str = "") -> list[str]:
    """The containers of a pod by name, all or of one field."""
    fields = (field,) if field else ("initContainers", "containers")
    return [item["name"] for each in fields for item in pod["spec"].get(each) or ()]


def status(pod: Object, seen: Seen, now: str) -> dict[str, Any]:
    """What to write into `status`, by strategic merge patch: conditions of others stay."""
    now_phase = phase(pod, seen)
    first, last = names(pod, "initContainers"), names(pod, "containers")
    made: dict[str, Any] = {
        "phase": now_phase,
        "startTime": seen.started,
        "hostIP": "127.0.0.1",
        "conditions": _conditions(pod, seen, now_phase, now),
        "containerStatuses": [_container(pod, "containers", name, seen) for name in last],
    }
    if first:
        made["initContainerStatuses"] = [_container(pod, "initContainers", name, seen) for name in first]
    if seen.reason:
        made |= {"reason": seen.reason, "message": seen.message}
    return made


def phase(pod: Object, seen: Seen) -> str:
    """The phase. A pod is not over as long as one of its containers runs, even if the node has given it up."""
    if seen.failed and not any("running" in state for state in seen.states.values()):
        return "Failed"
    codes = {
        name: state["terminated"]["exitCode"] for name, state in seen.states.items() if "terminated" in state
    }
    last = names(pod, "containers")
    if any(codes.get(name) for name in names(pod, "initContainers")):
        return "Failed"
    if all(name in codes for name in last):
        return "Failed" if any(codes[name] for name in last) else "Succeeded"
    started = any("waiting" not in seen.states.get(name, {"waiting": {}}) for name in last)
    return "Running" if started else "Pending"


def _conditions(pod: Object, seen: Seen, phase: str, now: str) -> list[dict[str, Any]]:
    initialized = all(_code(seen, name) == 0 for name in names(pod, "initContainers"))
    ready = phase == "Running" and all("running" in seen.states.get(n, {}) for n in names(pod, "containers"))
    why = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
    made = [
        _condition(pod, "Initialized", initialized, "" if initialized else "ContainersNotInitialized", now),
        _condition(pod, "ContainersReady", ready, "" if ready else why, now),
        _condition(pod, "Ready", ready, "" if ready else why, now),
    ]
    if seen.disrupted:
        made.append(_condition(pod, "DisruptionTarget", True, seen.disrupted, now, seen.message))
    return made


def _condition(
    pod: Object, kind: str, value: bool, reason: str, now: str, message: str = ""
) -> dict[str, Any]:
    """A condition; the time of its last transition stays as long as its status does."""
    text = "True" if value else "False"
    before = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or ()}.get(kind, {})
    since = before.get("lastTransitionTime") if before.get("status") == text else None
    return {
        "type": kind,
        "status": text,
        "reason": reason or None,
        "message": message or None,
        "lastTransitionTime": since or now,
    }


def _container(pod: Object, field: str, name: str, seen: Seen) -> dict[str, Any]:
    (image,) = (item["image"] for item in pod["spec"][field] if item["name"] == name)
    waiting = "PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating"
    state = seen.states.get(name) or {"waiting": {"reason": waiting}}
    running = "running" in state
    ran = running or "terminated" in state
    return {
        "name": name,
        "image": image,
        "imageID": image if ran else "",
        "containerID": f"process://{pod['metadata']['uid']}/{name}" if ran else "",
        "restartCount": 0,
        "ready": running if field == "containers" else _code(seen, name) == 0,
        "started": running,
        "state": state,
    }


def _code(seen: Seen, name: str) -> int | None:
    code: int | None = seen.states.get(name, {}).get("terminated", {}).get("exitCode")
    return code
