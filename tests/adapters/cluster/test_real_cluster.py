"""The same against a real API server, with no more rights than the adapter needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest
import yaml

from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.cluster.connect import connect
from reconciler.adapters.cluster.kinds import CONFIG_MAPS, MACHINE_CONFIG_POOLS, NODES
from reconciler.adapters.cluster.observer import ClusterObserver
from reconciler.adapters.cluster.problems import Problem
from reconciler.adapters.cluster.recording import ANNOTATION, CONFIG_MAP
from reconciler.adapters.cluster.watching import Timing
from reconciler.core.model import Arch
from reconciler.errors import ClusterError, ClusterUnavailable, Conflict
from reconciler.ports.cluster import Kind, Observation, PoolNodes
from reconciler.redaction import Redactor
from reconciler.settings import ClusterMode, ClusterSettings, JobSettings
from tests.adapters.cluster.support import HASTY, QUICK, Sleeper, eventually
from tests.controlplane import ControlPlane
from tests.servers.faults import HALF_OPEN, DropReply, Refuse
from tests.servers.proxy import FaultProxy

pytestmark = pytest.mark.cluster

POOLS = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools"
ROLES: Final = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %(namespace)s}
rules:
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [machineconfiguration.openshift.io]
  resources: [machineconfigpools]
  verbs: [get, list, watch, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %(namespace)s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %(namespace)s}
subjects: [{kind: ServiceAccount, name: observer, namespace: %(namespace)s}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: observer, namespace: %(namespace)s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: observer, namespace: %(namespace)s}
rules:
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, patch]
  resourceNames: [machine-os-architectures]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: observer, namespace: %(namespace)s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: observer}
subjects: [{kind: ServiceAccount, name: observer, namespace: %(namespace)s}]
"""


@pytest.fixture
def front(plane: ControlPlane) -> Iterator[FaultProxy]:
    """Between us and the API server."""
    with plane.proxy() as proxy:
        yield proxy


@pytest.fixture
def api(plane: ControlPlane, namespace: str, front: FaultProxy) -> Iterator[KubernetesApi]:
    """Ours, as a service account with the rights above."""
    plane.apply(ROLES % {"namespace": namespace})
    config = plane.kubeconfig_for("observer", namespace, server=f"https://{front.host}")
    settings = ClusterSettings(ClusterMode.KUBECONFIG, str(config))
    connection = connect(settings, {}, Redactor())
    assert connection.namespace == namespace
    yield KubernetesApi(connection, Sleeper(), Redactor(), limits=QUICK)
    connection.close()
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for kind in ("clusterroles", "clusterrolebindings"):
        plane.api.delete(f"{rbac}/{kind}/{namespace}")


def admin(plane: ControlPlane) -> KubernetesApi:
    settings = ClusterSettings(ClusterMode.KUBECONFIG, str(plane.kubeconfig()))
    return KubernetesApi(connect(settings, {}, Redactor()), Sleeper(), Redactor())


def observer(api: KubernetesApi, namespace: str, timing: Timing = HASTY) -> ClusterObserver:
    return ClusterObserver(api, namespace, Sleeper(), JobSettings(), timing)


def add_pool(plane: ControlPlane, name: str, role: str) -> dict[str, Any]:
    found = {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": name},
        "spec": {
            "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}},
            "nodeSelector": {"matchLabels": {f"node-role.kubernetes.io/{role}": ""}},
        },
    }
    return plane.apply(yaml.safe_dump(found))[0]


def test_nodes_come_change_and_go(
    plane: ControlPlane,
    namespace: str,
    nodes: dict[Arch, str],
    upstream_crds: list[str],
    api: KubernetesApi,
) -> None:
    assert upstream_crds
    add_pool(plane, "worker", "worker")
    add_pool(plane, "gpu", "gpu")
    called = threading.Event()
    with ExitStack() as stack:
        watching = observer(api, namespace)
        stack.callback(watching.close)
        watching.start(called.set)
        assert called.wait(30)

        def sees(worker: set[Arch], gpu: set[Arch]) -> bool:
            """Whoever looks himself sees it at once; who watches, soon."""
            wanted = {"worker": worker, "gpu": gpu}
            found = [who.observe().pools for who in (observer(api, namespace), watching)]
            assert {name: set(pool.architectures) for name, pool in found[0].items()} == wanted
            return {name: set(pool.architectures) for name, pool in found[1].items()} == wanted

        eventually(lambda: sees(set(Arch), set()), "four architectures")
        assert watching.observe().takes_jobs == set(Arch)
        called.clear()
        plane.remove_node(nodes[Arch.S390X])
        assert called.wait(30)
        eventually(lambda: sees(set(Arch) - {Arch.S390X}, set()), "an architecture that vanished")
        called.clear()
        labels = {"metadata": {"labels": {"node-role.kubernetes.io/gpu": ""}}}
        plane.api.patch(f"/api/v1/nodes/{nodes[Arch.ARM64]}", labels)
        assert called.wait(30)
        eventually(lambda: sees({Arch.AMD64, Arch.PPC64LE}, {Arch.ARM64}), "a node that moved")
        called.clear()
        plane.api.patch(f"/api/v1/nodes/{nodes[Arch.PPC64LE]}", {"spec": {"unschedulable": True}})
        assert called.wait(30)
        eventually(lambda: watching.observe().takes_jobs == {Arch.AMD64, Arch.ARM64}, "a cordoned node")
        called.clear()
        plane.add_node(nodes[Arch.S390X], Arch.S390X)
        assert called.wait(30)
        eventually(lambda: sees({Arch.AMD64, Arch.PPC64LE, Arch.S390X}, {Arch.ARM64}), "a new one")
        called.clear()
        plane.api.patch(
            f"{POOLS}/gpu", {"metadata": {"annotations": {"reconciler.machineos.dev/suspend": "true"}}}
        )
        assert called.wait(30)
        eventually(lambda: watching.observe().pools["gpu"].suspended, "a suspended pool")


def test_a_kind_that_the_server_does_not_have_has_no_objects(plane: ControlPlane, api: KubernetesApi) -> None:
    other = Kind("nobody.example.com", "v1", "machineconfigpools", "MachineConfigPool", namespaced=False)
    everything = admin(plane)
    assert list(everything.list(other)) == []
    assert everything.get(other, "worker") is None
    with pytest.raises(ClusterError, match="forbidden"):
        list(api.list(other))


def test_what_is_recorded_is_accepted_and_written_once(
    plane: ControlPlane, namespace: str, upstream_crds: list[str], api: KubernetesApi
) -> None:
    assert upstream_crds
    add_pool(plane, "worker", "worker")
    seen = Observation({"worker": PoolNodes((Arch.ARM64, Arch.AMD64)), "gone": PoolNodes()})
    who = observer(api, namespace)
    who.record(seen)
    pool = plane.api.get(f"{POOLS}/worker")
    assert pool["metadata"]["annotations"][ANNOTATION] == "amd64,arm64"
    place = f"/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}"
    config_map = plane.api.get(place)
    assert config_map["data"] == {"worker": "amd64,arm64", "gone": ""}
    managers = {entry["manager"] for entry in config_map["metadata"]["managedFields"]}
    assert managers == {"machine-os-reconciler"}
    who.record(seen)
    assert plane.api.get(f"{POOLS}/worker") == pool
    assert plane.api.get(place) == config_map
    who.record(Observation({"worker": PoolNodes((Arch.AMD64,))}))
    assert plane.api.get(place)["data"] == {"worker": "amd64"}
    assert plane.api.get(f"{POOLS}/worker")["metadata"]["annotations"][ANNOTATION] == "amd64"


def test_the_verbs_do_what_they_say(plane: ControlPlane, namespace: str) -> None:
    api = admin(plane)
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "one"},
        "data": {"a": "b", "c": "d"},
    }
    made = api.create(CONFIG_MAPS, body, namespace)
    assert made is not None
    assert api.create(CONFIG_MAPS, body, namespace) is None
    version = made["metadata"]["resourceVersion"]
    conditional = {"metadata": {"resourceVersion": version}, "data": {"a": None}}
    changed = api.patch(CONFIG_MAPS, "one", conditional, namespace)
    assert changed is not None
    assert changed["data"] == {"c": "d"}
    with pytest.raises(Conflict, match="modified"):
        api.patch(CONFIG_MAPS, "one", conditional, namespace)
    with pytest.raises(Conflict, match="uid"):
        api.patch(CONFIG_MAPS, "one", {"metadata": {"uid": "another"}}, namespace)
    (listed,) = [item for item in api.list(CONFIG_MAPS, namespace) if item["metadata"]["name"] == "one"]
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMap", "v1")
    assert list(api.list(CONFIG_MAPS, namespace, "a=b")) == []
    api.delete(CONFIG_MAPS, "one", namespace, uid="00000000-0000-0000-0000-000000000000")
    assert api.get(CONFIG_MAPS, "one", namespace) is not None
    api.delete(CONFIG_MAPS, "one", namespace, uid=made["metadata"]["uid"])
    assert api.get(CONFIG_MAPS, "one", namespace) is None
    assert api.patch(CONFIG_MAPS, "one", {}, namespace) is None
    assert api.log(namespace, "no-such-pod", "c", 5) == ""
    with pytest.raises(ClusterError, match="Invalid value"):
        api.create(CONFIG_MAPS, {**body, "metadata": {"name": "Not A Name"}}, namespace)
    with pytest.raises(ClusterError, match=r"404 .*not found"):
        api.create(CONFIG_MAPS, body, "no-such-namespace")


def test_long_lists_come_in_pages(plane: ControlPlane, namespace: str) -> None:
    api = admin(plane)
    for number in range(12):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"n{number:02}", "labels": {"x": "y"}},
        }
        api.create(CONFIG_MAPS, body, namespace)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("reconciler.adapters.cluster.api.PAGE", 5)
        pages = [len(page.items) for page in api.pages(CONFIG_MAPS, namespace, "x=y")]
        assert pages == [5, 5, 2]
        names = [item["metadata"]["name"] for item in api.list(CONFIG_MAPS, namespace, "x=y")]
    assert names == [f"n{number:02}" for number in range(12)]


def test_what_is_not_allowed_names_what_is_missing(namespace: str, api: KubernetesApi) -> None:
    with pytest.raises(ClusterError, match=r"get configmaps: .* 403 .*cannot get resource") as caught:
        api.get(CONFIG_MAPS, "another", namespace)
    assert "deploy/" in caught.value.hint
    with pytest.raises(ClusterError, match='cannot delete resource "nodes"'):
        api.delete(NODES, "any")


def test_a_token_that_is_none_is_refused(plane: ControlPlane, namespace: str, front: FaultProxy) -> None:
    del namespace
    config = plane.kubeconfig(server=f"https://{front.host}")
    found = yaml.safe_load(config.read_text())
    found["users"][0]["user"]["token"] = "nobodys-token"
    config.write_text(yaml.safe_dump(found))
    connection = connect(ClusterSettings(ClusterMode.KUBECONFIG, str(config)), {}, Redactor())
    with pytest.raises(ClusterError, match="401 Unauthorized") as caught:
        KubernetesApi(connection, Sleeper(), Redactor()).get(NODES, "any")
    assert "credentials" in caught.value.hint
    assert "nobodys-token" not in caught.value.message


def test_an_object_whose_answer_was_lost_is_found(
    plane: ControlPlane, namespace: str, front: FaultProxy, api: KubernetesApi
) -> None:
    front.on(DropReply(), "POST")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}}
    with pytest.raises(ClusterUnavailable):
        api.create(CONFIG_MAPS, body, namespace)
    assert api.create(CONFIG_MAPS, body, namespace) is None
    assert plane.api.find(f"/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}") is not None


@pytest.mark.parametrize("fault", [Refuse(), HALF_OPEN])
def test_a_watch_comes_back(
    plane: ControlPlane,
    namespace: str,
    upstream_crds: list[str],
    front: FaultProxy,
    api: KubernetesApi,
    fault: Any,
) -> None:
    assert upstream_crds
    add_pool(plane, "worker", "worker")
    quick = Timing(
        relist=(1000.0, 1000.0), stretch=(500.0, 500.0), silence=2.0, first=0.05, last=0.2, fresh=3.0
    )
    called = threading.Event()
    with ExitStack() as stack:
        watching = observer(api, namespace, quick)
        stack.callback(watching.close)
        watching.start(called.set)
        assert called.wait(30)
        front.fault = fault
        called.clear()
        stack.callback(plane.remove_node, f"{namespace}-late")
        plane.add_node(f"{namespace}-late", Arch.S390X)
        with pytest.raises(ClusterUnavailable):
            observer(api, namespace).observe()
        front.fault = None
        assert called.wait(60)
        found = watching.observe().pools["worker"].architectures
        assert Arch.S390X in found


def test_a_version_that_never_was_is_no_watch(plane: ControlPlane) -> None:
    """What a client does who remembers more than the server, as after a restored backup."""
    with pytest.raises(Problem), admin(plane).watch(MACHINE_CONFIG_POOLS, "nonsense", 5, 5) as stream:
        next(iter(stream))
