"""The Job of a build, as JSON.

Belongs here: every decision about the Job and its pod. Does not belong here: the ConfigMaps (`inputs`), the API.

Facts: Kubernetes' task "Handling retriable and non-retriable pod failures with Pod failure policy", the Pod Security
Standards, MultiArch facts on the taint kubernetes.io/arch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from reconciler.adapters.builders import script
from reconciler.adapters.builders.job.inputs import TRUST_KEY
from reconciler.adapters.builders.job.names import CONTAINER, IMAGE, JOB, POOL_NAME, WORK, build_labels
from reconciler.adapters.builders.job.options import JobOptions
from reconciler.adapters.builders.script import Exit
from reconciler.ports import BuildRequest, Cause
from reconciler.ports.cluster import Json
from reconciler.settings import Privilege, Toleration

_ROOT: Final = Path("/build")
"""Not below /run: from storage there, buildah 1.28 takes an empty run/.containerenv into images."""
_INPUT: Final = _ROOT / "input"
_WORK: Final = _ROOT / "work"
_SECRETS: Final = _ROOT / "secrets"
_TRUST: Final = _ROOT / "trust"
_EXTRAS: Final = _ROOT / "extras"
_RESULT: Final = "/dev/termination-log"
_USER: Final = 1000
"""The user `build` of buildah's image, which has subordinate ids there."""
_ARCH: Final = "kubernetes.io/arch"
_GRACE: Final = 10
"""Seconds: there is nothing to save."""
_ENTITLEMENT: Final = "etc-pki-entitlement-{pool}"
_GPG: Final = "etc-pki-rpm-gpg"
_REPOSITORIES: Final = "etc-yum-repos-d"
"""Names that the Machine Config Operator gives them."""

_USUAL: Final = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip
"""What container engines give any container: buildah can give `RUN` only what it has."""
_ROOTS: Final = (*_USUAL, "SYS_ADMIN")
"""And mounts, by which buildah isolates it."""
_CAPABILITIES: Final = {
    # What newuidmap and newgidmap need to make the user namespace, in which all else is to be had.
    Privilege.ROOTLESS: ("SETGID", "SETUID"),
    Privilege.USER_NAMESPACE: _ROOTS,
    Privilege.ROOT: _ROOTS,
}


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a build's pod finds its inputs. `config_map` and `trust` (which may be '') are ConfigMaps, `artifact` is
    the large context's `repository@digest`, '' for none; `proxies` are environment variables."""

    config_map: str
    artifact: str = ""
    trust: str = ""
    proxies: Mapping[str, str] = field(default_factory=dict)


def job(
    request: BuildRequest, options: JobOptions, sources: Sources, owners: Sequence[Mapping[str, Any]] = ()
) -> Json:
    """The Job that builds and pushes one image. The same values give the same JSON."""
    labels = build_labels(options.instance, request.pool, request.arch)
    settings = options.job
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.name,
        "metadata": {
            "name": request.name,
            "namespace": options.namespace,
            "labels": labels,
            "annotations": {
                **request.annotations,
                POOL_NAME: request.pool,
                IMAGE: request.image,
                WORK: request.work,
            },
            "ownerReferences": [dict(owner) for owner in owners],
        },
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": max(settings.attempts - 1, 0),
            "activeDeadlineSeconds": max(math.ceil(options.timeout), 1),
            "ttlSecondsAfterFinished": math.ceil(settings.ttl),
            # Never two pods of one build at once, as far as Kubernetes can tell.
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": _failure_rules()},
            "template": {
                "metadata": {
                    "labels": labels,
                    # A build cannot be moved; begun again elsewhere it would only take longer.
                    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
                },
                "spec": _pod(request, options, sources),
            },
        },
    }


def _failure_rules() -> list[Json]:
    """What no other pod would help with fails the Job; what was done to a pod does not count as an attempt."""
    final = sorted(status.value for status in Exit if status.cause is Cause.DEFINITION)
    return [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": final},
        },
    ]


def _pod(request: BuildRequest, options: JobOptions, sources: Sources) -> Json:
    settings = options.job
    volumes, mounts = _volumes(request, options, sources)
    wishes = {
        "serviceAccountName": settings.service_account,
        "runtimeClassName": settings.runtime_class,
        "priorityClassName": settings.priority_class,
    }
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": {
            **dict(settings.node_selector),
            _ARCH: request.arch.value,
            "kubernetes.io/os": "linux",
        },
        "tolerations": [{"key": _ARCH, "operator": "Exists"}, *map(_toleration, settings.tolerations)],
        **{key: value for key, value in wishes.items() if value},
        **_pod_security(settings.privilege),
        "containers": [
            {
                "name": CONTAINER,
                "image": settings.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", str(_INPUT / "job.sh")],
                "env": [
                    {"name": name, "value": value} for name, value in _environment(request, options, sources)
                ],
                "resources": {
                    kind: dict(amounts)
                    for kind, amounts in (("requests", settings.requests), ("limits", settings.limits))
                    if amounts
                },
                "securityContext": _security(settings.privilege),
                "terminationMessagePath": _RESULT,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }


def _toleration(toleration: Toleration) -> Json:
    wanted = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {key: value for key, value in wanted.items() if value}


def _pod_security(privilege: Privilege) -> Json:
    if privilege is Privilege.ROOTLESS:
        # No seccomp profile is asked for: the default ones of CRI-O (since 1.25) and containerd keep pods without
        # SYS_ADMIN from making a user namespace, which is all that rootless buildah stands on. The level `baseline`
        # allows an undefined profile.
        return {
            "securityContext": {
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "runAsNonRoot": True,
                "fsGroup": _USER,
            }
        }
    root = {
        "securityContext": {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}}
    }
    return {**root, "hostUsers": False} if privilege is Privilege.USER_NAMESPACE else root


def _security(privilege: Privilege) -> Json:
    return {
        "privileged": False,
        # newuidmap is a set-user-ID program, and RUN may use others.
        "allowPrivilegeEscalation": True,
        "capabilities": {"drop": ["ALL"], "add": list(_CAPABILITIES[privilege])},
    }


def _environment(request: BuildRequest, options: JobOptions, sources: Sources) -> list[tuple[str, str]]:
    own = script.environment(
        request, _WORK / "build", driver=options.storage_driver.value, isolation="chroot", auth=""
    )
    mine = {
        "JOB_INPUT": str(_INPUT),
        "JOB_WORK": str(_WORK),
        "JOB_ARTIFACT": sources.artifact,
        "JOB_PUSH_SECRET": request.push_secret,
        "JOB_PULL_SECRET": request.pull_secret,
        "JOB_SECRETS": str(_SECRETS),
        "JOB_TRUST": str(_TRUST),
        "JOB_EXTRAS": str(_EXTRAS),
        "JOB_RESULT": _RESULT,
    }
    return sorted({**sources.proxies, **own, **mine}.items())


def _volumes(request: BuildRequest, options: JobOptions, sources: Sources) -> tuple[list[Json], list[Json]]:
    """Volumes, and where they are mounted: all but one read-only. What is optional is empty when it is not there."""
    trust = sources.trust or options.job.trust_bundle
    optional = {
        "push": (_SECRETS / "push", _secret(request.push_secret)),
        "pull": (_SECRETS / "pull", _secret(request.pull_secret)),
        "trust": (_TRUST, _bundle(trust)),
        "entitlement": (_EXTRAS / "entitlement", _secret(_ENTITLEMENT.format(pool=request.pool))),
        "rpm-gpg": (_EXTRAS / "rpm-gpg", _secret(_GPG)),
        "repositories": (_EXTRAS / "yum.repos.d", _config_map(_REPOSITORIES)),
    }
    chosen = {name: (path, source) for name, (path, source) in optional.items() if source}
    volumes: list[Json] = [
        {"name": "input", "configMap": {"name": sources.config_map}},
        {"name": "work", "emptyDir": {}},
        *({"name": name, **source} for name, (_, source) in chosen.items()),
    ]
    mounts: list[Json] = [
        {"name": "input", "mountPath": str(_INPUT), "readOnly": True},
        {"name": "work", "mountPath": str(_WORK)},
        *({"name": name, "mountPath": str(path), "readOnly": True} for name, (path, _) in chosen.items()),
    ]
    return volumes, mounts


def _secret(name: str) -> Json:
    """A Secret that need not be there: a missing one is told by the script, at once and in words."""
    return {"secret": {"secretName": name, "optional": True}} if name else {}


def _config_map(name: str) -> Json:
    return {"configMap": {"name": name, "optional": True}}


def _bundle(name: str) -> Json:
    if not name:
        return {}
    items = [{"key": TRUST_KEY, "path": TRUST_KEY}]
    return {"configMap": {"name": name, "optional": True, "items": items}}
