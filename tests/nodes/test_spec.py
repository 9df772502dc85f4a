"""Whatever a pod asks for is honoured or refused by name."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.nodes.spec import Rejected, admit
from tests.nodes.world import LABELS, container, pod


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def context(**fields: Any) -> dict[str, Any]:
    return {"securityContext": fields}


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # the field, what the pod says, what the container says
    ("spec.runtimeClassName", {"runtimeClassName": "gvisor"}, {}),
    ("spec.hostUsers", {"hostUsers": False}, {}),
    ("spec.hostNetwork", {"hostNetwork": True}, {}),
    ("spec.hostPID", {"hostPID": True}, {}),
    ("spec.hostIPC", {"hostIPC": True}, {}),
    ("spec.shareProcessNamespace", {"shareProcessNamespace": True}, {}),
    ("spec.restartPolicy", {"restartPolicy": "OnFailure"}, {}),
    ("spec.restartPolicy", {"restartPolicy": None}, {}),
    ("spec.automountServiceAccountToken", {"automountServiceAccountToken": True}, {}),
    ("spec.automountServiceAccountToken", {"automountServiceAccountToken": None}, {}),
    ("spec.hostAliases", {"hostAliases": [{"ip": "127.0.0.1", "hostnames": ["a"]}]}, {}),
    ("spec.dnsConfig", {"dnsConfig": {"nameservers": ["1.1.1.1"]}}, {}),
    ("spec.dnsPolicy", {"dnsPolicy": "None"}, {}),
    ("spec.hostname", {"hostname": "other"}, {}),
    ("spec.os.name", {"os": {"name": "windows"}}, {}),
    ("spec.ephemeralContainers", {"ephemeralContainers": [{"name": "debug"}]}, {}),
    ("spec.aFieldOfTomorrow", {"aFieldOfTomorrow": False}, {}),
    ("spec.volumes[0].hostPath", volume(hostPath={"path": "/"}), {}),
    ("spec.volumes[0].persistentVolumeClaim", volume(persistentVolumeClaim={"claimName": "c"}), {}),
    ("spec.volumes[0].downwardAPI", volume(downwardAPI={"items": []}), {}),
    ("spec.volumes[0].emptyDir.medium", volume(emptyDir={"medium": "HugePages"}), {}),
    ("spec.volumes[0].emptyDir.sizeLimit", volume(emptyDir={"sizeLimit": "1e3"}), {}),
    (
        "spec.volumes[0].projected.sources[0].serviceAccountToken",
        volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}),
        {},
    ),
    ("spec.securityContext.seLinuxOptions", context(seLinuxOptions={"type": "spc_t"}), {}),
    ("spec.securityContext.sysctls", context(sysctls=[{"name": "a", "value": "b"}]), {}),
    ("spec.securityContext.supplementalGroupsPolicy", context(supplementalGroupsPolicy="Strict"), {}),
    ("spec.securityContext.seccompProfile.type", context(seccompProfile={"type": "Localhost"}), {}),
    ("spec.containers[0].livenessProbe", {}, {"livenessProbe": {"exec": {"command": ["true"]}}}),
    ("spec.containers[0].readinessProbe", {}, {"readinessProbe": {"exec": {"command": ["true"]}}}),
    ("spec.containers[0].startupProbe", {}, {"startupProbe": {"exec": {"command": ["true"]}}}),
    ("spec.containers[0].lifecycle", {}, {"lifecycle": {"preStop": {"exec": {"command": ["true"]}}}}),
    ("spec.containers[0].ports", {}, {"ports": [{"containerPort": 80}]}),
    ("spec.containers[0].restartPolicy", {}, {"restartPolicy": "Always"}),
    ("spec.containers[0].volumeDevices", {}, {"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}),
    ("spec.containers[0].stdin", {}, {"stdin": True}),
    ("spec.containers[0].tty", {}, {"tty": True}),
    ("spec.containers[0].resources.claims", {}, {"resources": {"claims": [{"name": "gpu"}]}}),
    ("spec.containers[0].securityContext.privileged", {}, context(privileged=True)),
    ("spec.containers[0].securityContext.procMount", {}, context(procMount="Unmasked")),
    ("spec.containers[0].terminationMessagePolicy", {}, {"terminationMessagePolicy": "Other"}),
    (
        "spec.containers[0].env[0].valueFrom.resourceFieldRef",
        {},
        {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]},
    ),
    (
        "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath",
        {},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]},
    ),
    (
        "spec.containers[0].volumeMounts[0].mountPropagation",
        {},
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]},
    ),
    (
        "spec.containers[0].volumeMounts[0].subPathExpr",
        {},
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "$(A)"}]},
    ),
]


@pytest.mark.parametrize(("field", "of_pod", "of_container"), REFUSED)
def test_a_field_that_is_not_honoured_is_named(
    field: str, of_pod: dict[str, Any], of_container: dict[str, Any]
) -> None:
    with pytest.raises(Rejected, match=rf"^Unsupported: {re.escape(field)}[: ]"):
        admit(pod(container("true", **of_container), **of_pod), LABELS)


def test_a_field_of_an_init_container_is_refused_too() -> None:
    sidecar = container("true", "side", restartPolicy="Always")
    with pytest.raises(Rejected, match=r"spec\.initContainers\[0\]\.restartPolicy"):
        admit(pod(container("true"), initContainers=[sidecar]), LABELS)


def test_what_a_build_asks_for_is_honoured() -> None:
    admit(
        pod(
            container(
                "true",
                resources={"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
                imagePullPolicy="Always",
                securityContext={
                    "privileged": False,
                    "allowPrivilegeEscalation": True,
                    "capabilities": {"drop": ["ALL"], "add": ["SETUID"]},
                },
            ),
            nodeSelector={"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux"},
            securityContext={
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
                "fsGroup": 1000,
            },
            affinity={"nodeAffinity": {}},
            hostUsers=True,
            imagePullSecrets=[{"name": "pull"}],
        ),
        LABELS,
    )


def test_a_pod_for_another_architecture_is_refused_as_a_kubelet_does() -> None:
    with pytest.raises(Rejected, match=r"^NodeAffinity: .*'arm64' here, not 's390x'"):
        admit(pod(container("true"), nodeSelector={"kubernetes.io/arch": "s390x"}), LABELS)
