"""Which fields of a pod the test nodes honour. Whatever else a pod asks for fails it: nothing is ignored in silence.

Honoured otherwise than on a real node, or only by name:

- `resources`: the scheduler's; not enforced here. `imagePullPolicy`, `imagePullSecrets`: nothing is pulled.
- `dnsPolicy`, `enableServiceLinks`: pods share this machine's network and resolver, and get no service variables.
- `seccompProfile` RuntimeDefault: accepted, and not applied. A cluster's may forbid what works here, such as user
  namespaces (containerd's does, for whoever lacks CAP_SYS_ADMIN).
- `fsGroupChangePolicy`: volumes are new, so it makes no difference.

Does not belong here: what an honoured field means (`resolve`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

Object = Mapping[str, Any]


class Rejected(Exception):
    """The node does not take the pod: it has failed, with this reason and message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


ANY: Final = object()
_FIELD: Final = re.compile(
    r"metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[^']+'\]|spec\.nodeName"
)
SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)(|[kMGT]|[KMGT]i)")
"""A Kubernetes quantity, as people write sizes: number and unit."""
_KEY: Final = {"key": ANY, "path": ANY, "mode": ANY}
_REF: Final = {"name": ANY, "key": ANY, "optional": ANY}
_CONFIG_MAP: Final = {"name": ANY, "items": [_KEY], "optional": ANY}
_WHO: Final = {
    "runAsUser": ANY,
    "runAsGroup": ANY,
    "runAsNonRoot": ANY,
    "seccompProfile": {"type": ("RuntimeDefault", "Unconfined")},
}
_CONTAINER: Final = {
    "name": ANY,
    "image": ANY,
    "imagePullPolicy": ANY,
    "command": ANY,
    "args": ANY,
    "workingDir": ANY,
    "env": [
        {
            "name": ANY,
            "value": ANY,
            "valueFrom": {
                "fieldRef": {"apiVersion": ("v1",), "fieldPath": _FIELD},
                "secretKeyRef": _REF,
                "configMapKeyRef": _REF,
            },
        }
    ],
    "envFrom": [
        {
            "prefix": ANY,
            "configMapRef": {"name": ANY, "optional": ANY},
            "secretRef": {"name": ANY, "optional": ANY},
        }
    ],
    "resources": {"requests": ANY, "limits": ANY},
    "volumeMounts": [{"name": ANY, "mountPath": ANY, "readOnly": ANY, "subPath": ANY}],
    "securityContext": {
        **_WHO,
        "allowPrivilegeEscalation": ANY,
        "readOnlyRootFilesystem": ANY,
        "privileged": (False,),
        "procMount": ("Default",),
        "capabilities": {"add": ANY, "drop": ANY},
    },
    "stdin": (False,),
    "tty": (False,),
    "terminationMessagePath": ANY,
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
}
_POD: Final = {
    "volumes": [
        {
            "name": ANY,
            "emptyDir": {"medium": ("", "Memory"), "sizeLimit": SIZE},
            "configMap": {**_CONFIG_MAP, "defaultMode": ANY},
            "secret": {"secretName": ANY, "items": [_KEY], "optional": ANY, "defaultMode": ANY},
            "projected": {
                "defaultMode": ANY,
                "sources": [{"configMap": _CONFIG_MAP, "secret": _CONFIG_MAP}],
            },
        }
    ],
    "initContainers": [_CONTAINER],
    "containers": [_CONTAINER],
    "securityContext": {
        **_WHO,
        "fsGroup": ANY,
        "fsGroupChangePolicy": ANY,
        "supplementalGroups": ANY,
        "supplementalGroupsPolicy": ("Merge",),
    },
    "restartPolicy": ("Never",),
    "activeDeadlineSeconds": ANY,
    "terminationGracePeriodSeconds": ANY,
    "automountServiceAccountToken": (False,),
    "serviceAccountName": ANY,
    "serviceAccount": ANY,
    "nodeName": ANY,
    "nodeSelector": ANY,
    "affinity": ANY,
    "tolerations": ANY,
    "schedulerName": ANY,
    "priority": ANY,
    "priorityClassName": ANY,
    "preemptionPolicy": ANY,
    "os": {"name": ("linux",)},
    "dnsPolicy": ("ClusterFirst", "Default"),
    "enableServiceLinks": ANY,
    "imagePullSecrets": ANY,
    "hostNetwork": (False,),
    "hostPID": (False,),
    "hostIPC": (False,),
    "hostUsers": (True,),
    "shareProcessNamespace": (False,),
}
_NEEDED: Final = {
    "automountServiceAccountToken": "the pod would get a token of its service account; say false",
    "restartPolicy": "it would be Always; say Never",
}


def admit(pod: Object, labels: Mapping[str, str]) -> None:
    """Take a pod on a node with these labels. Raises Rejected, naming the first field that is not honoured."""
    spec = pod["spec"]
    _check(spec, _POD, "spec")
    for name, consequence in _NEEDED.items():
        if spec.get(name) is None:
            raise Rejected("Unsupported", f"spec.{name} is not set: {consequence}")
    for name, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(name) != value:
            raise Rejected(
                "NodeAffinity", f"spec.nodeSelector: {name} is {labels.get(name)!r} here, not {value!r}"
            )


def _check(value: Any, rule: Any, path: str) -> None:
    if rule is ANY or value is None:
        return
    if isinstance(rule, dict):
        for name, inner in value.items():
            if name in rule:
                _check(inner, rule[name], f"{path}.{name}")
            elif inner is not None:
                raise Rejected("Unsupported", f"{path}.{name}: the test nodes do not honour it")
    elif isinstance(rule, list):
        for number, inner in enumerate(value):
            _check(inner, rule[0], f"{path}[{number}]")
    elif not (rule.fullmatch(value) if isinstance(rule, re.Pattern) else value in rule):
        raise Rejected("Unsupported", f"{path}: the test nodes do not honour {value!r}")
