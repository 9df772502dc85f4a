"""Builds of ours against OpenShift's schema on a real API server, which refuses every field that is not in it, with no
more rights than `ROLE` and `CLUSTER_ROLE`."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reconciler.adapters.builders.job import JobBuilder, JobOptions, MultiArchBuilds
from reconciler.adapters.builders.openshift import BUILDS, manifests, overrides
from reconciler.adapters.builders.openshift.limits import Overrides
from reconciler.adapters.clock import SystemClock
from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.core.model import Arch
from reconciler.ports import Phase
from reconciler.ports.cluster import ArchReport, BuildState, PoolReport
from tests.adapters.builders.job.conftest import Login
from tests.adapters.builders.job.support import INPUT, NAME, WORK, request
from tests.adapters.builders.world import Tree, until
from tests.controlplane import ApiError, ControlPlane
from tests.fakes import FakeClock, FakeRegistry
from tests.unit.job.test_manifests import CASES
from tests.unit.openshift_build.test_manifests import EVERYTHING

pytestmark = pytest.mark.cluster

ROLE: list[dict[str, Any]] = [
    {
        "apiGroups": ["build.openshift.io"],
        "resources": ["builds"],
        "verbs": ["get", "list", "create", "patch", "delete"],
    },
    # OpenShift asks for it when a Build of this strategy is created or changed; nobody else does.
    {"apiGroups": ["build.openshift.io"], "resources": ["builds/custom"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
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
    },
    {"apiGroups": ["config.openshift.io"], "resources": ["builds"], "verbs": ["get"]},
]
"""And beyond it."""


@pytest.fixture
def least(openshift: ControlPlane, namespace: str, login: Login) -> Iterator[KubernetesApi]:
    """Our client with these rights and no others."""
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]
    group = "rbac.authorization.k8s.io"
    for kind, scope, rules in (
        ("Role", f"/namespaces/{namespace}", ROLE),
        ("ClusterRole", "", CLUSTER_ROLE),
    ):
        about = {"apiVersion": f"{group}/v1", "metadata": {"name": namespace}}
        root = f"/apis/{group}/v1{scope}/{kind.lower()}"
        openshift.api.create(f"{root}s", {**about, "kind": kind, "rules": rules})
        reference = {"apiGroup": group, "kind": kind, "name": namespace}
        binding = {**about, "kind": f"{kind}Binding", "roleRef": reference, "subjects": subjects}
        openshift.api.create(f"{root}bindings", binding)
    yield login(openshift.kubeconfig_for("default", namespace))
    for kind in ("clusterrolebindings", "clusterroles"):
        openshift.api.delete(f"/apis/{group}/v1/{kind}/{namespace}")


@pytest.fixture
def tree() -> Tree:
    return Tree()


@pytest.fixture
def make(least: KubernetesApi, namespace: str, tree: Tree) -> Callable[..., JobBuilder]:
    def builder(clock: FakeClock | None = None) -> JobBuilder:
        options = JobOptions(namespace, poll=0.1)
        known = clock or SystemClock()
        return JobBuilder(least, tree, FakeRegistry(), known, options, lambda: frozenset(Arch), BUILDS)

    return builder


def at(namespace: str, name: str = "") -> str:
    return f"/apis/build.openshift.io/v1/namespaces/{namespace}/builds" + (f"/{name}" if name else "")


def secret(plane: ControlPlane, namespace: str, name: str = "push") -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"a": "b"}}
    plane.api.create(f"/api/v1/namespaces/{namespace}/secrets", body)


@pytest.mark.parametrize("case", CASES)
def test_every_golden_build_is_taken_as_it_is(openshift: ControlPlane, namespace: str, case: str) -> None:
    asked, options, sources = CASES[case]
    build = copy.deepcopy(dict(manifests.build(asked, options, sources, (), EVERYTHING)))
    build["metadata"] = {**build["metadata"], "namespace": namespace}
    found = openshift.api.create(f"{at(namespace)}?fieldValidation=Strict", build)
    assert found["spec"] == build["spec"]


WRONG: list[tuple[tuple[str | int, ...], Any, str]] = [
    (("tolerations",), [{"operator": "Exists"}], "unknown field"),
    (("source", "configMaps", 0, "optional"), True, "unknown field"),
    (("strategy", "customStrategy", "command"), ["/bin/sh"], "unknown field"),
    (("strategy", "customStrategy", "from", "kind"), "Image", "Unsupported value"),
    (("completionDeadlineSeconds",), 0, "greater than or equal to 1"),
    (("nodeSelector", "kubernetes.io/arch"), 1, "must be of type string"),
]


@pytest.mark.parametrize(("path", "value", "said"), WRONG)
def test_the_schema_is_strict(
    openshift: ControlPlane, namespace: str, path: tuple[str | int, ...], value: Any, said: str
) -> None:
    """Or the test before would say nothing."""
    build = copy.deepcopy(dict(manifests.build(*CASES["usual"])))
    build["metadata"] = {"name": "wrong"}
    inner: Any = build["spec"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(ApiError, match=said):
        openshift.api.create(f"{at(namespace)}?fieldValidation=Strict", build)


def test_a_build_lives_and_dies_with_the_least_rights(
    openshift: ControlPlane,
    namespace: str,
    make: Callable[..., JobBuilder],
    least: KubernetesApi,
    tree: Tree,
) -> None:
    secret(openshift, namespace)
    secret(openshift, namespace, "etc-pki-rpm-gpg")
    reporter = MultiArchBuilds(least, SystemClock(), namespace, form=BUILDS)
    reporter.report(
        PoolReport("worker", WORK, "c" * 40, INPUT, (ArchReport(Arch.ARM64, BuildState.PREPARED, INPUT),))
    )
    asked = request(tree, work=WORK)
    make().ensure(asked)
    make().ensure(asked)
    build = openshift.api.get(at(namespace, NAME))
    assert [owner["name"] for owner in build["metadata"]["ownerReferences"]] == [WORK]
    mounts = [each["secretSource"]["name"] for each in build["spec"]["strategy"]["customStrategy"]["secrets"]]
    assert mounts == ["push", "etc-pki-rpm-gpg"]
    assert [(b.name, b.phase) for b in make().builds()] == [(NAME, Phase.PENDING)]
    make().discard([NAME])
    until(lambda: openshift.api.find(at(namespace, NAME)) is None, "the Build is gone")
    assert make().builds() == ()
    labels = "reconciler.machineos.dev/ephemeral=true"
    assert openshift.api.list(f"/api/v1/namespaces/{namespace}/configmaps", labelSelector=labels) == []


def test_the_spec_never_changes_and_cancelling_is_no_change_of_it(
    openshift: ControlPlane, namespace: str, make: Callable[..., JobBuilder], tree: Tree
) -> None:
    secret(openshift, namespace)
    make().ensure(request(tree))
    with pytest.raises(ApiError, match="spec is immutable"):
        openshift.api.patch(at(namespace, NAME), {"spec": {"completionDeadlineSeconds": 1}})
    make(FakeClock(SystemClock().now() + 7200 + 120)).builds()
    build = openshift.api.get(at(namespace, NAME))
    assert build["status"] == {"cancelled": True}
    (told,) = make().builds()
    assert told.phase is Phase.FAILED
    assert told.message == "the build took longer than 7200 s, at: waiting for a pod"


def test_the_clusters_word_on_builds_may_be_read(least: KubernetesApi) -> None:
    """On a cluster that has none."""
    assert overrides(least) == Overrides()


def test_a_build_survives_a_trip_through_kubectl(openshift: ControlPlane, namespace: str) -> None:
    build = {**manifests.build(*CASES["usual"])}
    build["metadata"] = {**build["metadata"], "namespace": namespace}
    openshift.kubectl("create", "--validate=strict", "-f", "-", stdin=json.dumps(build))
    assert NAME in openshift.kubectl("-n", namespace, "get", "builds.build.openshift.io")
