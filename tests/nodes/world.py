"""Pods run without a cluster, for tests: given as an API server would hand them out, with the objects they name.

Belongs here: making pods, running one to its end, and what it came to. Does not belong here: what is expected of it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

from tests.nodes import status
from tests.nodes.resolve import BUILDAH, Image
from tests.nodes.run import PodRun, Surroundings
from tests.nodes.spec import Object

PATIENCE: Final = 60.0
IMAGE: Final = "registry.example.com/tools/host:1"
BUILDER: Final = "quay.io/buildah/stable:v1.40"
IMAGES: Final = {IMAGE: Image(), BUILDER: BUILDAH}
LABELS: Final = {"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux"}


def container(script: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {"name": name, "image": IMAGE, "command": ["/bin/sh", "-euc", script], **fields}


def pod(*containers: Mapping[str, Any], name: str = "a-pod", **spec: Any) -> dict[str, Any]:
    """A pod with these containers, and the fields that an API server sets by default."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "builds",
            "uid": f"uid-of-{name}",
            "labels": {"app": "build", "example.com/pool": "worker"},
            "annotations": {"example.com/input": "sha256:1"},
        },
        "spec": {
            "containers": list(containers),
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "nodeName": "a-node",
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "terminationGracePeriodSeconds": 30,
            "securityContext": {},
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            **spec,
        },
    }


@dataclass(slots=True)
class World:
    """A node without an API server. `objects` are ConfigMaps and Secrets by resource and name."""

    root: Path
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=lambda: IMAGES)
    reports: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def start(self, pod: Object) -> PodRun:
        """Start a pod; `reports` then grows with what it tells, by its name."""
        name = pod["metadata"]["name"]

        def report(of: Object, seen: status.Seen) -> None:
            with self._lock:
                self.reports.append((name, copy.deepcopy(status.status(of, seen, "2026-01-01T00:00:00Z"))))

        def find(resource: str, wanted: str) -> Object | None:
            return self.objects.get((resource, wanted))

        return PodRun(pod, Surroundings(LABELS, self.images, find, self.root / name, report))

    def run(self, pod: Object) -> Outcome:
        """Run a pod to its end."""
        run = self.start(pod)
        run.wait(PATIENCE)
        return self.outcome(run)

    def outcome(self, run: PodRun) -> Outcome:
        """What a pod has come to by now."""
        name = run.pod["metadata"]["name"]
        return Outcome([body for of, body in self.reports if of == name], run)


@dataclass(slots=True)
class Outcome:
    """All that a pod reported."""

    reports: list[dict[str, Any]]
    run: PodRun

    @property
    def last(self) -> dict[str, Any]:
        """The pod's status."""
        return self.reports[-1]

    @property
    def phase(self) -> str:
        """The pod's phase."""
        text: str = self.last["phase"]
        return text

    def state(self, name: str = "main") -> dict[str, Any]:
        """A container's state."""
        found = [*self.last.get("initContainerStatuses", ()), *self.last["containerStatuses"]]
        (state,) = (item["state"] for item in found if item["name"] == name)
        assert isinstance(state, dict)
        return state

    def ended(self, name: str = "main") -> dict[str, Any]:
        """How a container ended."""
        ended: dict[str, Any] = self.state(name)["terminated"]
        return ended

    def log(self, name: str = "main") -> str:
        """What a container printed."""
        return self.run.log(name).read_text()
