"""What the tests of Builds share: a cluster in memory with a builder whose builds are OpenShift's.

Belongs here: making things. Does not belong here: what is expected of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reconciler.adapters.builders.job import JobBuilder
from reconciler.adapters.builders.openshift import BUILDS
from reconciler.ports import Build
from reconciler.ports.cluster import Kind
from tests.adapters.builders.job.support import NAMESPACE, Cluster

SECRET = Kind("", "v1", "secrets", "Secret")
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
BUILD = Kind("build.openshift.io", "v1", "builds", "Build")
CREATED = 1767225600.0
"""When the API in memory creates everything, in seconds since the epoch."""


@dataclass
class OpenShift(Cluster):
    """A cluster in memory that has Builds, and one Secret named push; its controller does what the test says."""

    def __post_init__(self) -> None:
        self.clock.time = CREATED + 60
        self.hold(SECRET, "push")

    def builder(self) -> JobBuilder:
        """A new one, as after a restart or in another process."""
        return JobBuilder(
            self.api, self.tree, self.registry, self.clock, self.options, lambda: self.takes_jobs, BUILDS
        )

    def hold(self, kind: Kind, name: str) -> None:
        """Make an object whose content does not matter."""
        self.api.create(kind, {"metadata": {"name": name}}, NAMESPACE)

    def told(self, name: str, phase: str, **status: Any) -> None:
        """A Build's status is what its controller says."""
        if phase in ("Complete", "Failed", "Error", "Cancelled"):
            status.setdefault("startTimestamp", "2026-01-01T00:01:00Z")
            status.setdefault("completionTimestamp", "2026-01-01T00:10:00Z")
        self.api.one("builds", name)["status"] = {"phase": phase, **status}

    def pod(self, job: str, phase: str, name: str = "", **status: Any) -> dict[str, Any]:
        """Give a Build its pod."""
        owner = self.api.one("builds", job)
        name = name or f"{job}-build"
        pod = {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"uid-of-{name}",
                "labels": {"openshift.io/build.name": job},
                "creationTimestamp": "2026-01-01T00:00:10Z",
                "ownerReferences": [{"kind": "Build", "name": job, "uid": owner["metadata"]["uid"]}],
            },
            "spec": {"nodeName": "a-node"},
            "status": {"phase": phase, **status},
        }
        self.api.objects["pods", NAMESPACE, name] = pod
        return pod

    def ended(self, job: str, code: int, message: str = "", name: str = "", **fields: Any) -> None:
        """A Build's pod has ended."""
        terminated = {
            "exitCode": code,
            "message": message,
            "startedAt": "2026-01-01T00:01:00Z",
            "finishedAt": "2026-01-01T00:09:00Z",
            **fields,
        }
        states = [{"name": "custom-build", "state": {"terminated": terminated}}]
        self.pod(job, "Failed" if code else "Succeeded", name, containerStatuses=states)

    def fail(self, job: str, code: int = 10, log: str = "STEP 2/2: RUN false\nboom\n") -> None:
        """A Build has failed for good."""
        self.ended(job, code, log)
        self.api.logs[f"{job}-build"] = log
        message = "Generic Build failure - check logs for details."
        self.told(job, "Failed", reason="GenericBuildFailed", message=message, logSnippet=log)

    def succeed(self, job: str, digest: str = "sha256:" + "d" * 64) -> None:
        """A Build has ended well."""
        self.ended(job, 0, digest)
        self.told(job, "Complete")


def only(cluster: OpenShift) -> Build:
    """What a builder that knows nothing yet finds."""
    (build,) = cluster.builder().builds()
    return build
