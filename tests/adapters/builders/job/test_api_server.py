"""What we write is what a real API server takes: every kind of Job, ConfigMaps, MultiArchBuilds and Events, with no
more rights than `ROLE` and `CLUSTER_ROLE`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from reconciler.adapters.builders.job import JobBuilder, JobOptions, MultiArchBuilds, inputs, manifests
from reconciler.adapters.builders.job.manifests import Sources
from reconciler.adapters.clock import SystemClock
from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.core.model import Arch
from reconciler.errors import ClusterError
from reconciler.ports import Cause, Phase
from reconciler.ports.cluster import ArchReport, BuildState, PoolReport
from reconciler.settings import Privilege
from tests.adapters.builders.job.conftest import Login
from tests.adapters.builders.job.support import INPUT, OTHER, WORK, request
from tests.adapters.builders.world import Tree, until
from tests.controlplane import ApiError, ControlPlane
from tests.fakes import FakeRegistry
from tests.unit.job.test_manifests import ALL, CASES

pytestmark = pytest.mark.cluster

IMAGE = "r.example.com/os/worker@sha256:" + "a" * 64
NAME = "build-worker-arm64-1111111111-1"
ROLE: list[dict[str, Any]] = [
    {
        "apiGroups": ["batch"],
        "resources": ["jobs"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {
        "apiGroups": ["reconciler.machineos.dev"],
        "resources": ["multiarchbuilds"],
        "verbs": ["get", "list", "create", "delete"],
    },
    {
        "apiGroups": ["reconciler.machineos.dev"],
        "resources": ["multiarchbuilds/status"],
        "verbs": ["patch"],
    },
]
"""All that the builder and the reporter do in the namespace of the builds."""
CLUSTER_ROLE: list[dict[str, Any]] = [
    {
        "apiGroups": ["machineconfiguration.openshift.io"],
        "resources": ["machineconfigpools", "controllerconfigs"],
        "verbs": ["get"],
    }
]
"""And beyond it."""


@pytest.fixture
def least(plane: ControlPlane, namespace: str, login: Login) -> Iterator[KubernetesApi]:
    """Our client with these rights and no others."""
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]
    group = "rbac.authorization.k8s.io"
    for kind, scope, rules in (
        ("Role", f"/namespaces/{namespace}", ROLE),
        ("ClusterRole", "", CLUSTER_ROLE),
    ):
        about = {"apiVersion": f"{group}/v1", "metadata": {"name": namespace}}
        root = f"/apis/{group}/v1{scope}/{kind.lower()}"
        plane.api.create(f"{root}s", {**about, "kind": kind, "rules": rules})
        reference = {"apiGroup": group, "kind": kind, "name": namespace}
        plane.api.create(
            f"{root}bindings", {**about, "kind": f"{kind}Binding", "roleRef": reference, "subjects": subjects}
        )
    yield login(plane.kubeconfig_for("default", namespace))
    for kind in ("clusterrolebindings", "clusterroles"):
        plane.api.delete(f"/apis/{group}/v1/{kind}/{namespace}")


Make = Callable[[], JobBuilder]


@pytest.fixture
def tree() -> Tree:
    return Tree()


@pytest.fixture
def make(least: KubernetesApi, namespace: str, tree: Tree) -> Make:
    def builder() -> JobBuilder:
        return JobBuilder(
            least,
            tree,
            FakeRegistry(),
            SystemClock(),
            JobOptions(namespace, poll=0.1),
            lambda: frozenset(Arch),
        )

    return builder


def report(state: BuildState = BuildState.PREPARED, **fields: Any) -> PoolReport:
    arch = ArchReport(Arch.ARM64, state, INPUT, **fields)
    return PoolReport("worker", WORK, "c" * 40, INPUT, (arch,), IMAGE, "c" * 40, state)


@pytest.mark.parametrize("case", CASES)
def test_every_golden_job_is_taken_as_it_is(plane: ControlPlane, namespace: str, case: str) -> None:
    asked, options, sources = CASES[case]
    # A priority class that does not exist is refused by admission, whatever the rest is like.
    options = replace(options, namespace=namespace, job=replace(options.job, priority_class=""))
    job = dict(manifests.job(asked, options, sources))
    if options.job.runtime_class:
        runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "kata"}
        plane.api.apply(json.dumps({**runtime, "metadata": {"name": options.job.runtime_class}}))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs?fieldValidation=Strict"
    found = plane.api.create(path, job)
    assert covers(found["spec"], job["spec"]) == []
    # The pod is judged only when the Job's controller makes it.
    pod = {"metadata": {"name": "probe"}, **{"spec": job["spec"]["template"]["spec"]}}
    plane.api.create(
        f"/api/v1/namespaces/{namespace}/pods?fieldValidation=Strict&dryRun=All",
        {"apiVersion": "v1", "kind": "Pod", **pod, **_without_account(pod)},
    )


def _without_account(pod: dict[str, Any]) -> dict[str, Any]:
    """A service account that does not exist would be all that is said."""
    return {"spec": {key: value for key, value in pod["spec"].items() if key != "serviceAccountName"}}


def covers(found: Any, wanted: Any, at: str = "") -> list[str]:
    """Where the server has something else than it was given; its defaults do not count."""
    if isinstance(wanted, dict):
        told = {
            key: value for key, value in wanted.items() if value not in ("", {}, [], False) or key in found
        }
        return [gap for key, value in told.items() for gap in covers(found.get(key), value, f"{at}.{key}")]
    if isinstance(wanted, list):
        return [gap for n, value in enumerate(wanted) for gap in covers(found[n], value, f"{at}[{n}]")]
    return [] if found == wanted else [f"{at}: {found!r} is not {wanted!r}"]


@pytest.mark.parametrize("privilege", Privilege)
def test_what_the_pod_security_levels_say(plane: ControlPlane, namespace: str, privilege: Privilege) -> None:
    """Rootless builds pass where the level `baseline` is enforced, which is what the documentation promises."""
    label = {"pod-security.kubernetes.io/enforce": "baseline"}
    plane.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": label}})
    options = replace(ALL, namespace=namespace, job=replace(JobOptions("").job, privilege=privilege))
    job = manifests.job(CASES["usual"][0], options, Sources("c"))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": job["spec"]["template"]["spec"],
    }
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    if privilege is Privilege.ROOTLESS:
        plane.api.create(path, pod)
    else:
        with pytest.raises(ApiError, match="non-default capabilities"):
            plane.api.create(path, pod)


def test_the_largest_config_map_that_we_make_is_taken(
    plane: ControlPlane, namespace: str, tree: Tree
) -> None:
    asked = request(tree)
    files = {**inputs.texts(asked, frozenset()).small, "Containerfile": b'"' * (inputs.LIMIT // 2)}
    rest = inputs.LIMIT - inputs.size_of(files) - len("context.tar.gz")
    files["context.tar.gz"] = b"\xff" * rest
    body = inputs.config_map(asked, files, "default", namespace, [])
    found = plane.api.create(f"/api/v1/namespaces/{namespace}/configmaps?fieldValidation=Strict", dict(body))
    with pytest.raises(ApiError, match="immutable"):
        plane.api.patch(
            f"/api/v1/namespaces/{namespace}/configmaps/{found['metadata']['name']}", {"data": {"bases": "x"}}
        )


def test_a_build_lives_and_dies_with_the_least_rights(
    plane: ControlPlane, namespace: str, make: Make, least: KubernetesApi, tree: Tree
) -> None:
    root = f"/apis/batch/v1/namespaces/{namespace}"
    reporter = MultiArchBuilds(least, SystemClock(), namespace)
    reporter.report(report())
    asked = request(tree, work=WORK)
    make().ensure(asked)
    make().ensure(asked)
    job = plane.api.get(f"{root}/jobs/{NAME}")
    assert [owner["name"] for owner in job["metadata"]["ownerReferences"]] == [WORK]
    told = until(
        lambda: [b.phase for b in make().builds() if b.step.startswith("waiting for a node: ")],
        "the scheduler's words",
    )
    assert told == [Phase.PENDING]
    make().discard([NAME])
    until(lambda: plane.api.find(f"{root}/jobs/{NAME}") is None, "the Job is gone")
    assert make().builds() == ()
    until(lambda: not plane.api.list(f"/api/v1/namespaces/{namespace}/pods"), "its pod is gone too")
    labels = "reconciler.machineos.dev/ephemeral=true"
    assert plane.api.list(f"/api/v1/namespaces/{namespace}/configmaps", labelSelector=labels) == []


def test_many_daemons_at_once_make_one_job(
    plane: ControlPlane, namespace: str, make: Make, least: KubernetesApi, tree: Tree
) -> None:
    MultiArchBuilds(least, SystemClock(), namespace).report(report())
    asked = request(tree, work=WORK)
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(builder.ensure, asked) for builder in [make() for _ in range(8)]]:
            done.result()
    (job,) = plane.api.list(f"/apis/batch/v1/namespaces/{namespace}/jobs")
    assert [owner["name"] for owner in job["metadata"]["ownerReferences"]] == [WORK]
    labels = "reconciler.machineos.dev/ephemeral=true"
    assert len(plane.api.list(f"/api/v1/namespaces/{namespace}/configmaps", labelSelector=labels)) == 1


def test_a_failure_outlives_its_job_on_a_real_server(
    plane: ControlPlane, namespace: str, make: Make, least: KubernetesApi, tree: Tree
) -> None:
    reporter = MultiArchBuilds(least, SystemClock(), namespace)
    reporter.report(report())
    builder = make()
    builder.ensure(replace(request(tree, work=WORK)))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{NAME}"
    # A deadline that has passed: the real controller fails the Job.
    plane.api.patch(path, {"spec": {"activeDeadlineSeconds": 1}})
    assert builder.wait(60)
    (build,) = builder.builds()
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE)
    assert build.message.startswith("the build took longer than 1 s")
    builder.discard(["another"])
    plane.api.delete(path)
    until(lambda: plane.api.find(path) is None, "the Job is gone")
    (remembered,) = make().builds()
    assert remembered == replace(build, log="", message=remembered.message)
    make().discard([NAME])
    assert make().builds() == ()


def test_a_multiarchbuild_reads_well(plane: ControlPlane, namespace: str, least: KubernetesApi) -> None:
    reporter = MultiArchBuilds(least, SystemClock(), namespace)
    reporter.report(report())
    reporter.report(report(BuildState.BUILDING, build=NAME, started=1767225600.0))
    reporter.report(
        report(BuildState.SUCCEEDED, build=NAME, image=IMAGE, started=1767225600.0, finished=1767225660.0)
    )
    table = plane.kubectl("-n", namespace, "get", "mab").splitlines()
    assert table[0].split() == ["NAME", "POOL", "STATE", "ARCHITECTURES", "AGE"]
    assert re.fullmatch(rf"{WORK} +worker +Succeeded +1/1 +\w+ *", table[1])
    wide = plane.kubectl("-n", namespace, "get", "mab", "-o", "wide")
    assert IMAGE in wide
    plane.kubectl("-n", namespace, "wait", "--for=condition=Ready", f"mab/{WORK}", "--timeout=10s")
    told = plane.api.list(f"/api/v1/namespaces/{namespace}/events")
    reasons = {each["reason"] for each in told if each["involvedObject"]["name"] == WORK}
    assert reasons == {"BuildStarted", "BuildSucceeded"}
    described = plane.kubectl("-n", namespace, "describe", "mab", WORK)
    assert "BuildSucceeded" in described


def test_a_failed_one_and_one_that_is_superseded_are_taken(
    plane: ControlPlane, namespace: str, least: KubernetesApi
) -> None:
    reporter = MultiArchBuilds(least, SystemClock(), namespace)
    reporter.report(
        report(BuildState.FAILED, build=NAME, cause="definition", message="x" * 20_000, finished=1767225660.0)
    )
    reporter.report(replace(report(), work="worker-2"))
    reporter.report(replace(report(), work="worker-3"))
    root = f"/apis/reconciler.machineos.dev/v1alpha1/namespaces/{namespace}/multiarchbuilds"
    states = {each["metadata"]["name"]: each["status"]["state"] for each in plane.api.list(root)}
    assert states == {WORK: "Failed", "worker-2": "Interrupted", "worker-3": "Prepared"}


BAD: list[dict[str, Any]] = [
    {"spec": {"sourceCommit": "d" * 40}},
    {"spec": {"pool": "infra"}},
    {"spec": {"architectures": [{"arch": "arm64", "input": OTHER}]}},
]


@pytest.mark.parametrize("change", BAD)
def test_a_spec_never_changes(
    plane: ControlPlane, namespace: str, least: KubernetesApi, change: dict[str, Any]
) -> None:
    MultiArchBuilds(least, SystemClock(), namespace).report(report())
    path = f"/apis/reconciler.machineos.dev/v1alpha1/namespaces/{namespace}/multiarchbuilds/{WORK}"
    with pytest.raises(ApiError, match="is immutable"):
        plane.api.patch(path, change)


def test_a_pool_owns_its_builds(
    plane: ControlPlane, namespace: str, upstream_crds: list[str], least: KubernetesApi
) -> None:
    assert upstream_crds
    kind = {"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool"}
    plane.api.apply(json.dumps({**kind, "metadata": {"name": "worker"}, "spec": {}}))
    MultiArchBuilds(least, SystemClock(), namespace).report(report())
    path = f"/apis/reconciler.machineos.dev/v1alpha1/namespaces/{namespace}/multiarchbuilds/{WORK}"
    (owner,) = plane.api.get(path)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("MachineConfigPool", "worker")
    plane.api.delete("/apis/machineconfiguration.openshift.io/v1/machineconfigpools/worker")
    until(lambda: plane.api.find(path) is None, "it goes with its pool")


def test_without_rights_the_server_says_no(
    namespace: str, login: Login, plane: ControlPlane, tree: Tree
) -> None:
    nobody = login(plane.kubeconfig_for("default", namespace))
    options = JobOptions(namespace)
    builder = JobBuilder(nobody, tree, FakeRegistry(), SystemClock(), options, lambda: frozenset(Arch))
    with pytest.raises(ClusterError):
        builder.ensure(request(tree))
    assert not builder.wait(0)
