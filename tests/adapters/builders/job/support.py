"""What the tests of the job builder share: requests, a cluster in memory, and builders that are pointed at one.

Belongs here: making things. Does not belong here: what is expected of them.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.adapters.builders.job import JobBuilder, JobOptions
from reconciler.core.index import Provenance
from reconciler.core.model import Arch, Base
from reconciler.core.names import build_name
from reconciler.errors import Conflict
from reconciler.ports import Build, BuildRequest
from reconciler.ports.cluster import Json, Kind
from tests.adapters.builders.world import File, Tree
from tests.fakes import FakeClock, FakeRegistry

NAMESPACE = "builds"
INPUT = "sha256:" + "1" * 64
OTHER = "sha256:" + "2" * 64
DIGEST = "sha256:" + "d" * 64
WORK = "worker-1111111111"
NAME = "build-worker-arm64-1111111111-1"
"""The Job of `request`."""
JOB = Kind("batch", "v1", "jobs", "Job")


def request(
    tree: Tree,
    files: Mapping[str, File] | None = None,
    *,
    pool: str = "worker",
    arch: Arch = Arch.ARM64,
    digest: str = INPUT,
    attempt: int = 1,
    **fields: Any,
) -> BuildRequest:
    """A build as a pass asks for one."""
    provenance = Provenance(digest, OTHER, "1", "c" * 40, "", (Base("r.example.com/base:1", DIGEST),))
    return BuildRequest(
        name=build_name(pool, arch, digest, attempt),
        pool=pool,
        arch=arch,
        **{
            "containerfile": "FROM r.example.com/base:1\nCOPY . /\n",
            "ignorefile": "",
            "context": tree.add({"etc/motd": b"hello\n"} if files is None else files),
            "bases": (Base("r.example.com/base:1", DIGEST),),
            "image": f"r.example.com/os/{pool}:{pool}-{arch}-1111",
            "annotations": provenance.annotations(),
            "push_secret": "push",
            **fields,
        },
    )


@dataclass
class FakeApi:
    """Implements `ports.cluster.Api` in memory, with names, versions, uids, labels and merge patches as a server has
    them. `unknown` kinds are not installed. `before` is called with each verb and name, and may raise. Deleting is at
    once; nothing runs."""

    objects: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    logs: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    before: Callable[[str, str, str], None] = lambda *_: None
    after: Callable[[str, str, str], None] = lambda *_: None
    time: str = "2026-01-01T00:00:00Z"
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def get(self, kind: Kind, name: str, namespace: str = "") -> Json | None:
        """As it is."""
        self._ask("get", kind, name)
        found = self.objects.get(self._key(kind, name, namespace))
        return copy.deepcopy(found)

    def list(self, kind: Kind, namespace: str = "", labels: str = "") -> Iterator[Json]:
        """By equality of labels, or by their presence."""
        self._ask("list", kind, labels)
        wanted = [pair.partition("=") for pair in labels.split(",") if pair]
        for (plural, where, _), found in sorted(self.objects.items()):
            has = found["metadata"].get("labels", {})
            here = not kind.namespaced or namespace in ("", where)
            taken = all(has.get(key) == value if sign else key in has for key, sign, value in wanted)
            if plural == kind.plural and here and taken:
                yield copy.deepcopy(found)

    def create(self, kind: Kind, body: Json, namespace: str = "") -> Json | None:
        """None when it exists. A status is dropped, as by a kind with that subresource."""
        name = body["metadata"]["name"]
        self._ask("create", kind, name)
        key = self._key(kind, name, namespace)
        if key in self.objects:
            return None
        made: dict[str, Any] = copy.deepcopy({key: value for key, value in body.items() if key != "status"})
        made["metadata"] |= {
            "uid": f"uid-{next(self._numbers)}",
            "resourceVersion": str(next(self._numbers)),
            "creationTimestamp": self.time,
            "generation": 1,
        }
        self.objects[key] = made
        self.after("create", kind.plural, name)
        return copy.deepcopy(made)

    def patch(
        self, kind: Kind, name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> Json | None:
        """RFC 7386, of one half of the object."""
        self._ask("patch", kind, name)
        found = self.objects.get(self._key(kind, name, namespace))
        if found is None:
            return None
        for known in ("resourceVersion", "uid"):
            if body.get("metadata", {}).get(known) not in (None, found["metadata"][known]):
                raise Conflict(f"{name} has changed")
        halves = {"status"} if subresource == "status" else found.keys() | body.keys() - {"status"}
        changed = _merged(found, {key: value for key, value in body.items() if key in halves})
        found.clear()
        found.update(changed)
        found["metadata"]["resourceVersion"] = str(next(self._numbers))
        return copy.deepcopy(found)

    def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str = "") -> None:
        """At once, with all that nothing else owns."""
        self._ask("delete", kind, name)
        key = self._key(kind, name, namespace)
        if key in self.objects and uid in ("", self.objects[key]["metadata"]["uid"]):
            del self.objects[key]
            self._collect()

    def log(self, namespace: str, pod: str, container: str, lines: int) -> str:  # noqa: ARG002
        """As the test says."""
        self.asked.append(("log", "pods", pod))
        return "".join(self.logs.get(pod, "").splitlines(keepends=True)[-lines:])

    def names(self, plural: str) -> tuple[str, ...]:
        """What there is of a kind."""
        return tuple(sorted(name for kind, _, name in self.objects if kind == plural))

    def one(self, plural: str, name: str = "") -> dict[str, Any]:
        """The object of that name, or the only one; the test may change it."""
        (found,) = [
            body for (kind, _, own), body in self.objects.items() if kind == plural and name in ("", own)
        ]
        return found

    def _collect(self) -> None:
        """Garbage: what had owners and has none any more."""
        present = {found["metadata"]["uid"] for found in self.objects.values()}
        for key, found in list(self.objects.items()):
            owners = found["metadata"].get("ownerReferences")
            if owners and all(owner["uid"] not in present for owner in owners) and key in self.objects:
                del self.objects[key]
                self._collect()

    def _ask(self, verb: str, kind: Kind, name: str) -> None:
        self.asked.append((verb, kind.plural, name))
        self.before(verb, kind.plural, name)

    def _key(self, kind: Kind, name: str, namespace: str) -> tuple[str, str, str]:
        return kind.plural, namespace if kind.namespaced else "", name


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


@dataclass
class Cluster:
    """A cluster in memory with a builder; its Jobs do what the test says."""

    api: FakeApi = field(default_factory=FakeApi)
    tree: Tree = field(default_factory=Tree)
    registry: FakeRegistry = field(default_factory=FakeRegistry)
    clock: FakeClock = field(default_factory=FakeClock)
    options: JobOptions = field(default_factory=lambda: JobOptions(NAMESPACE, poll=0.01))
    takes_jobs: frozenset[Arch] = frozenset(Arch)

    def builder(self) -> JobBuilder:
        """A new one, as after a restart or in another process."""
        return JobBuilder(
            self.api, self.tree, self.registry, self.clock, self.options, lambda: self.takes_jobs
        )

    def condition(self, job: str, kind: str, **fields: str) -> None:
        """Give a Job a condition that is true."""
        status = self.api.one("jobs", job).setdefault("status", {})
        told = {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:10:00Z", **fields}
        status.setdefault("conditions", []).append(told)

    def pod(self, job: str, phase: str, name: str = "pod-1", **status: Any) -> dict[str, Any]:
        """Give a Job a pod."""
        owner = self.api.one("jobs", job)
        pod = {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"uid-of-{name}",
                "labels": dict(owner["metadata"]["labels"]),
                "creationTimestamp": f"2026-01-01T00:00:{len(self.api.names('pods')):02d}Z",
                "ownerReferences": [
                    {"kind": "Job", "name": job, "uid": owner["metadata"]["uid"], "controller": True}
                ],
            },
            "spec": {"nodeName": "a-node"},
            "status": {"phase": phase, **status},
        }
        self.api.objects["pods", NAMESPACE, name] = pod
        return pod

    def ended(self, job: str, code: int, message: str = "", name: str = "pod-1", **fields: Any) -> None:
        """A Job's pod has ended."""
        terminated = {
            "exitCode": code,
            "message": message,
            "startedAt": "2026-01-01T00:01:00Z",
            "finishedAt": "2026-01-01T00:09:00Z",
            **fields,
        }
        states = [{"name": "build", "state": {"terminated": terminated}}]
        self.pod(job, "Failed" if code else "Succeeded", name, containerStatuses=states)

    def fail(self, job: str, code: int = 10, log: str = "STEP 2/2: RUN false\nboom\n") -> None:
        """A Job has failed for good, as its failure policy says."""
        self.ended(job, code, log)
        self.api.logs["pod-1"] = log
        reason = "PodFailurePolicy" if code == 10 else "BackoffLimitExceeded"
        self.condition(job, "Failed", reason=reason, message="Job has failed")

    def succeed(self, job: str, digest: str = DIGEST) -> None:
        """A Job has ended well."""
        self.ended(job, 0, digest)
        self.condition(job, "Complete")

    def work(self, name: str = WORK, pool: str = "worker") -> dict[str, Any]:
        """A MultiArchBuild, as the reporter makes one."""
        kind = Kind("reconciler.machineos.dev", "v1alpha1", "multiarchbuilds", "MultiArchBuild")
        labels = {
            "app.kubernetes.io/managed-by": "machine-os-reconciler",
            "reconciler.machineos.dev/output": "build",
            "reconciler.machineos.dev/instance": "default",
            "reconciler.machineos.dev/pool": pool,
        }
        body = {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": {"pool": pool}}
        self.api.create(kind, body, NAMESPACE)
        return self.api.one("multiarchbuilds", name)


def only(cluster: Cluster) -> Build:
    """What a builder that knows nothing yet finds."""
    (build,) = cluster.builder().builds()
    return build


def foreign(**changes: Any) -> dict[str, Any]:
    """A Job of that name which says less than ours do; it is taken for ours unless `changes` say otherwise."""
    labels = {
        "app.kubernetes.io/managed-by": "machine-os-reconciler",
        "reconciler.machineos.dev/output": "build",
        "reconciler.machineos.dev/instance": "default",
    }
    found = {
        "metadata": {
            "name": NAME,
            "labels": labels,
            "annotations": {"reconciler.machineos.dev/input": INPUT},
        },
        "spec": {"managedBy": "kubernetes.io/job-controller"},
    }
    return found | changes
