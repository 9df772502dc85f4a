"""Jobs of a real control plane, run by the agent: what a kubelet has to do for the Job controller and for kubectl."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.model import Arch
from tests.controlplane import ApiError, ControlPlane
from tests.controlplane.api import Object
from tests.nodes.fixtures import Workers
from tests.nodes.test_build import BASE, ROOTLESS, RUN, SCRIPT
from tests.nodes.world import BUILDER, container
from tests.servers.daemon import wait_for
from tests.servers.foreign import busybox
from tests.servers.registry import docker_registry
from tests.servers.stage import Stage

pytestmark = [pytest.mark.cluster, pytest.mark.tools]
UNTIL_ENDED = "trap 'echo asked; exit 143' TERM; echo up; sleep 1000 & wait"


class Cluster:
    """What the tests ask of a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.api = plane.api
        self.namespace = namespace
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def create(
        self,
        script: str,
        *,
        arch: Arch = Arch.ARM64,
        pod: Object | None = None,
        main: Object | None = None,
        **job: Any,
    ) -> None:
        """A Job `build` of one container, pinned to an architecture."""
        spec = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "nodeSelector": {"kubernetes.io/arch": arch.value, "kubernetes.io/os": "linux"},
            "terminationGracePeriodSeconds": 5,
            "containers": [container(script, **(main or {}))],
            **(pod or {}),
        }
        body = {"backoffLimit": 0, "template": {"spec": spec}, **job}
        made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "build"}, "spec": body}
        self.api.create(self.jobs, made)

    def ended(self) -> dict[str, str]:
        """The Job's last condition, once it has one: its type and reason."""

        def look() -> dict[str, str] | None:
            status = self.api.get(f"{self.jobs}/build")["status"]
            last = {c["type"]: c for c in status.get("conditions", ()) if c["status"] == "True"}
            found = last.get("Complete") or last.get("Failed")
            return {"type": found["type"], "reason": found.get("reason", "")} if found else None

        return wait_for("the end of the Job", look)

    def all(self) -> list[Object]:
        """The pods, oldest first."""
        return sorted(self.api.list(self.pods), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def pod(self, accept: Callable[[Object], bool] = lambda _: True) -> Object:
        """The newest pod that is accepted, once there is one."""
        return wait_for("a pod", lambda: next((pod for pod in reversed(self.all()) if accept(pod)), None))

    def log(self, **query: str | int) -> str:
        return self.api.text(f"{self.pods}/{self.pod()['metadata']['name']}/log", **query)

    def up(self) -> Object:
        """A pod that runs and has said so."""

        def look() -> Object | None:
            found = self.pod(is_running)
            return found if "up" in self.log() else None

        return wait_for("a pod that is up", look)


def is_running(pod: Object) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def ended(pod: Object) -> Object:
    state: Object = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return state


@pytest.fixture
def cluster(plane: ControlPlane, namespace: str, workers: Workers) -> Cluster:
    del workers  # they are there, and that is enough
    return Cluster(plane, namespace)


@pytest.mark.parametrize("arch", Arch)
def test_a_pinned_job_runs_on_its_node_and_completes(cluster: Cluster, workers: Workers, arch: Arch) -> None:
    cluster.create("echo sha256:1 >/dev/termination-log", arch=arch)
    assert cluster.ended()["type"] == "Complete"
    (pod,) = cluster.all()
    assert pod["spec"]["nodeName"] == workers.names[arch]
    assert (pod["status"]["phase"], ended(pod)["message"]) == ("Succeeded", "sha256:1\n")
    assert "job-tracking" not in str(pod["metadata"].get("finalizers"))


def test_logs_reach_the_api_and_kubectl(cluster: Cluster, plane: ControlPlane) -> None:
    cluster.create("seq 1 100; exit 1")
    cluster.ended()
    assert cluster.log() == "".join(f"{n}\n" for n in range(1, 101))
    assert cluster.log(tailLines=2) == "99\n100\n"
    assert cluster.log(tailLines=2, limitBytes=4) == "99\n1"
    name = cluster.pod()["metadata"]["name"]
    assert plane.kubectl("--namespace", cluster.namespace, "logs", name, "--tail=1") == "100\n"
    with pytest.raises(ApiError, match="do not honour sinceSeconds"):
        cluster.log(sinceSeconds=10)


def test_an_exit_status_can_fail_the_job_at_once(cluster: Cluster) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [10]}}
    cluster.create("exit 10", backoffLimit=3, podFailurePolicy={"rules": [rule]})
    assert cluster.ended() == {"type": "Failed", "reason": "PodFailurePolicy"}
    (pod,) = cluster.all()
    assert ended(pod)["exitCode"] == 10


def test_another_exit_status_is_tried_again(cluster: Cluster) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [10]}}
    cluster.create("exit 20", backoffLimit=1, podFailurePolicy={"rules": [rule]})
    assert cluster.ended() == {"type": "Failed", "reason": "BackoffLimitExceeded"}
    assert [ended(pod)["exitCode"] for pod in cluster.all()] == [20, 20]


@pytest.mark.parametrize("how", ["kubelet", "api"])
def test_a_disruption_is_no_failure_of_the_job(cluster: Cluster, workers: Workers, how: str) -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    cluster.create(UNTIL_ENDED, podFailurePolicy={"rules": [rule]})
    first = cluster.up()["metadata"]
    if how == "kubelet":
        workers.agent.evict(cluster.namespace, first["name"])
    else:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": first["name"]}}
        cluster.api.create(f"{cluster.pods}/{first['name']}/eviction", eviction)
    second = cluster.pod(lambda pod: is_running(pod) and pod["metadata"]["uid"] != first["uid"])
    assert second["metadata"]["name"] != first["name"]
    assert "failed" not in cluster.api.get(f"{cluster.jobs}/build")["status"]


def test_the_deadline_of_a_job_ends_its_pod(cluster: Cluster, workers: Workers) -> None:
    cluster.create(UNTIL_ENDED, activeDeadlineSeconds=2)
    assert cluster.ended() == {"type": "Failed", "reason": "DeadlineExceeded"}
    wait_for("the end of the pod", lambda: not workers.agent.running())


def test_the_deadline_of_a_pod_fails_it(cluster: Cluster) -> None:
    cluster.create(UNTIL_ENDED, pod={"activeDeadlineSeconds": 1})
    assert cluster.ended() == {"type": "Failed", "reason": "BackoffLimitExceeded"}
    assert cluster.pod()["status"]["reason"] == "DeadlineExceeded"


def test_deleting_the_job_ends_the_process_and_the_pod(
    cluster: Cluster, workers: Workers, tmp_path: Path
) -> None:
    cluster.create(UNTIL_ENDED)
    cluster.up()
    assert workers.agent.running()
    cluster.api.delete(f"{cluster.jobs}/build")
    wait_for("the end of the process", lambda: not workers.agent.running())
    wait_for("the end of the pod", lambda: not cluster.all())
    (log,) = tmp_path.glob("nodes/*/logs/main.log")
    assert log.read_text() == "up\nasked\n"


def test_a_pod_deleted_by_force_is_ended_too(cluster: Cluster, workers: Workers) -> None:
    cluster.create(UNTIL_ENDED)
    name = cluster.up()["metadata"]["name"]
    cluster.api.patch(f"{cluster.pods}/{name}", {"metadata": {"finalizers": None}})
    cluster.api.delete(f"{cluster.pods}/{name}", grace=0)
    wait_for("the end of the first", lambda: all(pod["metadata"]["name"] != name for pod in cluster.all()))
    wait_for("the end of its process", lambda: name not in workers.agent.running())


def test_what_is_not_honoured_fails_the_job_by_name(cluster: Cluster) -> None:
    cluster.create("true", pod={"automountServiceAccountToken": True})
    assert cluster.ended()["type"] == "Failed"
    status = cluster.pod()["status"]
    assert status["reason"] == "Unsupported"
    assert "serviceAccountToken" in status["message"] or "automountServiceAccountToken" in status["message"]


def test_an_image_that_is_not_there(cluster: Cluster, workers: Workers) -> None:
    cluster.create("true", main={"image": "registry.example.com/none:1"})

    def why(pod: Object) -> bool:
        statuses = pod["status"].get("containerStatuses") or [{"state": {}}]
        return bool(statuses[0]["state"].get("waiting", {}).get("reason") == "ErrImagePull")

    assert cluster.pod(why)["status"]["phase"] == "Pending"
    cluster.api.delete(f"{cluster.jobs}/build")
    wait_for("the end of the pod", lambda: not cluster.all())
    assert not workers.agent.running()


def test_a_lost_node_is_silent_and_its_pod_has_failed_when_it_is_back(
    cluster: Cluster, workers: Workers, tmp_path: Path
) -> None:
    cluster.create(UNTIL_ENDED, backoffLimit=1)
    first = cluster.up()
    node = first["spec"]["nodeName"]
    workers.agent.lose(node)
    assert not list(tmp_path.glob("nodes/*/mounts"))  # it goes with the last process
    assert is_running(cluster.pod())  # nobody has said otherwise
    workers.agent.serve(node)
    second = cluster.pod(lambda pod: is_running(pod) and pod["metadata"]["uid"] != first["metadata"]["uid"])
    assert second["spec"]["nodeName"] == node
    lost = next(pod for pod in cluster.all() if pod["metadata"]["uid"] == first["metadata"]["uid"])
    assert (lost["status"]["phase"], ended(lost)["reason"]) == ("Failed", "ContainerStatusUnknown")


def test_an_api_server_that_crashes_only_delays(
    cluster: Cluster, plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="tests.nodes.agent")
    cluster.create("echo up; sleep 2; echo sha256:1 >/dev/termination-log")
    cluster.up()
    plane.apiserver.kill()
    wait_for("polls that fail", lambda: "node agent: " in caplog.text)
    plane.apiserver.start()
    assert cluster.ended()["type"] == "Complete"
    assert ended(cluster.pod())["message"] == "sha256:1\n"


def test_a_job_builds_on_a_base_and_pushes(cluster: Cluster, tmp_path: Path) -> None:
    """The whole path: scheduler, agent, buildah as a user, registry, digest in the termination message."""
    context = tmp_path / "context"
    context.mkdir()
    (context / "busybox").write_bytes(busybox(Arch.AMD64))
    (context / "Containerfile").write_text(BASE)
    with docker_registry(tmp_path) as registry:
        stage = Stage(tmp_path, registry)
        stage.build_base(context=context)
        image = f"{registry.host}/os/worker:1"
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "context"},
            "data": {"Containerfile": f"FROM {registry.host}/os/base:1\n{RUN}"},
        }
        cluster.api.create(f"/api/v1/namespaces/{cluster.namespace}/configmaps", config_map)
        env = {"ARCH": "amd64", "IMAGE": image, "HOME": "/work"}
        volumes = [{"name": "work", "emptyDir": {}}, {"name": "context", "configMap": {"name": "context"}}]
        main = {
            "image": BUILDER,
            "workingDir": "/work",
            "env": [{"name": name, "value": value} for name, value in env.items()],
            "securityContext": ROOTLESS,
            "volumeMounts": [
                {"name": "work", "mountPath": "/work"},
                {"name": "context", "mountPath": "/context", "readOnly": True},
            ],
        }
        pod = {"volumes": volumes, "securityContext": {"fsGroup": 1000}}
        cluster.create(SCRIPT, arch=Arch.AMD64, pod=pod, main=main)
        assert cluster.ended()["type"] == "Complete", cluster.log()
        digest = ended(cluster.pod())["message"].strip()
        config = stage.image_config(f"{registry.host}/os/worker@{digest}")
        assert (config["architecture"], len(config["rootfs"]["diff_ids"])) == ("amd64", 2)
