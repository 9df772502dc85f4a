"""Node objects as a kubelet would register them.

Belongs here: what a Node says of its machine. Does not belong here: running anything on it (tests.nodes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reconciler.core.model import Arch
from tests.controlplane.api import Api, ApiError

PATH: Final = "/api/v1/nodes"
_ROOM: Final = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "500"}


def add_node(
    api: Api,
    name: str,
    arch: Arch,
    *,
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
    kubelet_port: int,
) -> dict[str, Any]:
    """Register a node; returns it as it then is, ready for pods.

    The API server taints every new node as not ready; the controller that would take that back is not run, because it
    would also want heart-beats.
    """
    own = {
        "kubernetes.io/arch": arch.value,
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "node-role.kubernetes.io/worker": "",
    }
    about = {"name": name, "labels": {**own, **labels}}
    api.create(
        PATH, {"apiVersion": "v1", "kind": "Node", "metadata": about, "spec": {"taints": list(taints)}}
    )
    api.patch(f"{PATH}/{name}/status", {"status": _status(name, arch, kubelet_port)})
    return api.patch(f"{PATH}/{name}", {"spec": {"taints": list(taints) or None}})


def remove_node(api: Api, name: str) -> None:
    """Delete a node, and at once what is bound to it, as when the machine is gone for good. Safe to repeat."""
    try:
        api.delete(f"{PATH}/{name}")
    except ApiError as error:
        if error.status != 404:
            raise
    for pod in api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={name}"):
        about = pod["metadata"]
        try:
            api.delete(f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}", grace=0)
        except ApiError as error:
            if error.status != 404:
                raise


def _status(name: str, arch: Arch, kubelet_port: int) -> dict[str, Any]:
    return {
        "capacity": _ROOM,
        "allocatable": _ROOM,
        "addresses": [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a test's node"}
        ],
        "nodeInfo": {
            "architecture": arch.value,
            "operatingSystem": "linux",
            "osImage": "Test OS",
            "kernelVersion": "6.1.0",
            "kubeletVersion": "v1.36.0",
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "test://1.0",
            "machineID": name,
            "systemUUID": name,
            "bootID": name,
        },
    }
