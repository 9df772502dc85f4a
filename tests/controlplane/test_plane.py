"""What tests rely on: that the control plane is a real one, with its API server, controllers and scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.model import Arch
from tests.controlplane import ApiError, ControlPlane
from tests.controlplane.api import Object
from tests.servers.daemon import wait_for
from tests.servers.faults import DropReply

pytestmark = pytest.mark.cluster
_POOLS = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools"


def job(name: str, arch: Arch, **spec: Any) -> Object:
    """A Job of one pod that an architecture has to run."""
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/arch": arch.value, "kubernetes.io/os": "linux"},
        "containers": [{"name": "main", "image": "example.com/main:1"}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}, **spec},
    }


def jobs(namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def bound(plane: ControlPlane, namespace: str, name: str) -> Object:
    """The pod of a Job, once the scheduler has bound it."""

    def look() -> Object | None:
        found = plane.api.list(pods(namespace), labelSelector=f"job-name={name}")
        return found[0] if found and found[0]["spec"].get("nodeName") else None

    return wait_for(f"a bound pod of {name}", look)


def finish(plane: ControlPlane, pod: Object) -> None:
    """Say that a pod has succeeded, as its kubelet would."""
    about = pod["metadata"]
    ended = {"exitCode": 0, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}
    container = {
        "name": "main",
        "image": "",
        "imageID": "",
        "restartCount": 0,
        "ready": False,
        "state": {"terminated": ended},
    }
    status = {"phase": "Succeeded", "containerStatuses": [container]}
    plane.api.patch(f"{pods(about['namespace'])}/{about['name']}/status", {"status": status})


def test_it_says_which_version_it_is(plane: ControlPlane) -> None:
    said = plane.api.get("/version")
    assert (said["major"], int(said["minor"]) >= 31) == ("1", True)
    assert said["gitVersion"].startswith(f"v1.{said['minor']}.")


@pytest.mark.parametrize("arch", Arch)
def test_the_scheduler_binds_a_pinned_job_to_its_architecture(
    plane: ControlPlane, namespace: str, nodes: dict[Arch, str], arch: Arch
) -> None:
    plane.api.create(jobs(namespace), job("pinned", arch))
    assert bound(plane, namespace, "pinned")["spec"]["nodeName"] == nodes[arch]


def test_a_taint_keeps_a_pod_away_until_it_is_tolerated(plane: ControlPlane, namespace: str) -> None:
    taint = {"key": "kubernetes.io/arch", "value": "s390x", "effect": "NoSchedule"}
    plane.add_node(namespace, Arch.S390X, taints=[taint], labels={"example.com/rack": "7"})
    try:
        assert plane.api.get(f"/api/v1/nodes/{namespace}")["metadata"]["labels"]["example.com/rack"] == "7"
        plane.api.create(jobs(namespace), job("plain", Arch.S390X))
        tolerant = job("tolerant", Arch.S390X)
        tolerant["spec"]["template"]["spec"]["tolerations"] = [taint]
        plane.api.create(jobs(namespace), tolerant)
        assert bound(plane, namespace, "tolerant")["spec"]["nodeName"] == namespace

        def refused() -> bool:
            (pod,) = plane.api.list(pods(namespace), labelSelector="job-name=plain")
            return any(c.get("reason") == "Unschedulable" for c in pod["status"].get("conditions", []))

        wait_for("the scheduler's word on the other", refused)
    finally:
        plane.remove_node(namespace)


def test_a_second_job_of_the_same_name_is_a_conflict(plane: ControlPlane, namespace: str) -> None:
    plane.api.create(jobs(namespace), job("twice", Arch.AMD64))
    with pytest.raises(ApiError) as caught:
        plane.api.create(jobs(namespace), job("twice", Arch.AMD64))
    assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")


def test_a_service_account_may_do_what_its_role_says_and_no_more(plane: ControlPlane, namespace: str) -> None:
    plane.apply(
        f"""
        apiVersion: v1
        kind: ServiceAccount
        metadata: {{name: reader}}
        ---
        apiVersion: rbac.authorization.k8s.io/v1
        kind: Role
        metadata: {{name: reader}}
        rules: [{{apiGroups: [batch], resources: [jobs], verbs: [list]}}]
        ---
        apiVersion: rbac.authorization.k8s.io/v1
        kind: RoleBinding
        metadata: {{name: reader}}
        roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}}
        subjects: [{{kind: ServiceAccount, name: reader, namespace: {namespace}}}]
        """,
        namespace,
    )
    reader = plane.api_for("reader", namespace)
    wait_for("the role", lambda: _status(lambda: reader.list(jobs(namespace))) == 200)
    assert _status(lambda: reader.create(jobs(namespace), job("not-mine", Arch.AMD64))) == 403
    assert _status(lambda: reader.list(jobs("default"))) == 403
    assert _status(lambda: reader.list("/api/v1/nodes")) == 403
    kubeconfig = plane.kubeconfig_for("reader", namespace)
    assert plane.kubectl("get", "jobs", "-o", "name", kubeconfig=kubeconfig) == ""
    with pytest.raises(RuntimeError, match="forbidden"):
        plane.kubectl("get", "nodes", kubeconfig=kubeconfig)


def test_a_finished_job_is_gone_after_its_ttl(
    plane: ControlPlane, namespace: str, nodes: dict[Arch, str]
) -> None:
    assert nodes
    plane.api.create(jobs(namespace), job("short", Arch.PPC64LE, ttlSecondsAfterFinished=0))
    finish(plane, bound(plane, namespace, "short"))
    wait_for("the Job's end", lambda: plane.api.find(f"{jobs(namespace)}/short") is None)


def test_what_an_object_owns_goes_with_it(plane: ControlPlane, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = plane.api.create(maps, {"metadata": {"name": "owner"}})["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    plane.api.create(maps, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    plane.api.create(maps, {"metadata": {"name": "free"}})
    plane.api.delete(f"{maps}/owner")
    wait_for("the end of what it owned", lambda: plane.api.find(f"{maps}/owned") is None)
    assert plane.api.find(f"{maps}/free") is not None


def test_the_upstream_kinds_take_what_is_valid_only(plane: ControlPlane, upstream_crds: list[str]) -> None:
    assert "machineconfigpools.machineconfiguration.openshift.io" in upstream_crds
    pool = {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": "worker"},
        "spec": {"nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}}, "paused": False},
    }
    assert plane.api.create(_POOLS, pool)["metadata"]["generation"] == 1
    wrong = {**pool, "metadata": {"name": "wrong"}, "spec": {"paused": "perhaps"}}
    with pytest.raises(ApiError, match=r"spec\.paused") as caught:
        plane.api.create(_POOLS, wrong)
    assert caught.value.status == 422


def test_a_namespace_can_be_deleted_whatever_is_in_it(
    plane: ControlPlane, namespace: str, nodes: dict[Arch, str]
) -> None:
    assert nodes
    plane.api.create(jobs(namespace), job("running", Arch.AMD64))
    pod = bound(plane, namespace, "running")["metadata"]["name"]
    plane.api.patch(f"{pods(namespace)}/{pod}/status", {"status": {"phase": "Running"}})
    plane.delete_namespace(namespace)
    wait_for("its end", lambda: plane.api.find(f"/api/v1/namespaces/{namespace}") is None)


def test_a_removed_node_takes_its_pods_along(
    plane: ControlPlane, namespace: str, nodes: dict[Arch, str]
) -> None:
    plane.api.create(jobs(namespace), job("lost", Arch.ARM64))
    pod = bound(plane, namespace, "lost")["metadata"]["name"]
    plane.remove_node(nodes[Arch.ARM64])
    plane.remove_node(nodes[Arch.ARM64])
    wait_for("the pod's end", lambda: plane.api.find(f"{pods(namespace)}/{pod}") is None)


def test_a_proxy_sees_every_exchange_and_can_lose_a_reply(plane: ControlPlane, namespace: str) -> None:
    with plane.proxy() as proxy:
        kubeconfig = plane.kubeconfig(server=f"https://{proxy.host}")
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        proxy.on(DropReply(), "POST", maps)
        with pytest.raises(RuntimeError):
            plane.kubectl("create", "configmap", "lost", f"--namespace={namespace}", kubeconfig=kubeconfig)
        assert plane.api.get(f"{maps}/lost")
        with pytest.raises(RuntimeError, match="already exists"):
            plane.kubectl("create", "configmap", "lost", f"--namespace={namespace}", kubeconfig=kubeconfig)
        assert len(proxy.requests("POST", maps)) == 2


def test_a_watch_goes_through_the_proxy_line_by_line(plane: ControlPlane, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    with plane.proxy() as proxy:
        through = plane.api_at(f"https://{proxy.host}")
        lines = through.watch(maps, fieldSelector="metadata.name=seen")
        plane.api.create(maps, {"metadata": {"name": "seen"}})
        assert b'"ADDED"' in next(lines)
        plane.api.delete(f"{maps}/seen")
        assert b'"DELETED"' in next(lines)
        lines.close()


def test_a_crashed_server_is_back_with_what_it_knew(plane: ControlPlane, namespace: str) -> None:
    at = plane.server
    for server in (plane.apiserver, plane.etcd, plane.scheduler, plane.controller_manager):
        server.kill()
    assert not plane.apiserver.is_running
    plane.revive()
    assert plane.server == at
    assert plane.api.get(f"/api/v1/namespaces/{namespace}")["metadata"]["name"] == namespace
    plane.add_node(namespace, Arch.AMD64)
    try:
        plane.api.create(jobs(namespace), job("after", Arch.AMD64))
        assert bound(plane, namespace, "after")
    finally:
        plane.remove_node(namespace)


def _status(call: Any) -> int:
    try:
        call()
    except ApiError as error:
        return error.status
    return 200
