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
from reconciler.adapters.builders.job.names import (
    CONTAINER,
    ENTITLEMENT,
    GPG,
    IMAGE,
    JOB,
    POOL_NAME,
    REPOSITORIES,
    SECRET_MISSING,
    WORK,
    build_labels,
)
from reconciler.adapters.builders.job.options import JobOptions
from reconciler.adapters.builders.script import Exit
from reconciler.ports import BuildRequest, Cause
from reconciler.ports.cluster import Json
from reconciler.settings import Privilege, Toleration

_ROOT: Final = Path("/build")
"""Not below /run: from storage there, buildah 1.28 takes an empty run/.containerenv into images."""
_RESULT: Final = "/dev/termination-log"
_USER: Final = 1000
"""The user `build` of buildah's image, which has subordinate ids there."""
_ARCH: Final = "kubernetes.io/arch"
_GRACE: Final = 10
"""Seconds: there is nothing to save."""

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
class Places:
    """The folders of a pod in which `job.sh` finds what it is given; `work` is empty and writable."""

    input: Path = _ROOT / "input"
    work: Path = _ROOT / "work"
    secrets: Path = _ROOT / "secrets"
    trust: Path = _ROOT / "trust"
    extras: Path = _ROOT / "extras"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a build's pod finds its inputs. `config_map` and `trust` (which may be '') are ConfigMaps, `artifact` is
    the large context's `repository@digest`, '' for none; `proxies` are environment variables."""

    config_map: str
    artifact: str = ""
    trust: str = ""
    proxies: Mapping[str, str] = field(default_factory=dict)


_PLACES: Final = Places()


def job(
    request: BuildRequest, options: JobOptions, sources: Sources, owners: Sequence[Mapping[str, Any]] = ()
) -> Json:
    """The Job that builds and pushes one image. The same values give the same JSON."""
    labels = build_labels(options.instance, request.pool, request.arch)
    settings = options.job
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.name,
        "metadata": metadata(request, options, owners),
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": max(settings.attempts - 1, 0),
            "activeDeadlineSeconds": deadline(options),
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


def metadata(request: BuildRequest, options: JobOptions, owners: Sequence[Mapping[str, Any]]) -> Json:
    """The metadata of a build's object, of whatever kind."""
    return {
        "name": request.name,
        "namespace": options.namespace,
        "labels": build_labels(options.instance, request.pool, request.arch),
        "annotations": {
            **request.annotations,
            POOL_NAME: request.pool,
            IMAGE: request.image,
            WORK: request.work,
        },
        "ownerReferences": [dict(owner) for owner in owners],
    }


def node_selector(request: BuildRequest, options: JobOptions) -> dict[str, str]:
    """Pins a build to nodes of its architecture, whatever is configured."""
    return {
        **dict(options.job.node_selector),
        _ARCH: request.arch.value,
        "kubernetes.io/os": "linux",
    }


def resources(options: JobOptions) -> Json:
    """What the container that builds asks for, and may use."""
    settings = options.job
    return {
        kind: dict(amounts)
        for kind, amounts in (("requests", settings.requests), ("limits", settings.limits))
        if amounts
    }


def deadline(options: JobOptions) -> int:
    """Seconds that a build may take."""
    return max(math.ceil(options.timeout), 1)


def _failure_rules() -> list[Json]:
    """What no other pod would help with fails the Job; what was done to a pod does not count as an attempt."""
    final = sorted({SECRET_MISSING, *(each.value for each in Exit if each.cause is Cause.DEFINITION)})
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
        "nodeSelector": node_selector(request, options),
        "tolerations": [{"key": _ARCH, "operator": "Exists"}, *map(_toleration, settings.tolerations)],
        **{key: value for key, value in wishes.items() if value},
        **_pod_security(settings.privilege),
        "containers": [
            {
                "name": CONTAINER,
                "image": settings.image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", str(_PLACES.input / "job.sh")],
                "env": environment(request, options, sources),
                "resources": resources(options),
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


def environment(
    request: BuildRequest, options: JobOptions, sources: Sources, places: Places = _PLACES, **more: str
) -> list[Json]:
    """The variables of the container that builds, with `more` of them; none is made from a proxy's."""
    own = script.environment(
        request, places.work / "build", driver=options.storage_driver.value, isolation="chroot", auth=""
    )
    mine = {
        "JOB_INPUT": str(places.input),
        "JOB_WORK": str(places.work),
        "JOB_ARTIFACT": sources.artifact,
        "JOB_NAMESPACE": options.namespace,
        "JOB_PUSH_SECRET": request.push_secret,
        "JOB_PULL_SECRET": request.pull_secret,
        "JOB_SECRETS": str(places.secrets),
        "JOB_TRUST": str(places.trust),
        "JOB_EXTRAS": str(places.extras),
        "JOB_RESULT": _RESULT,
    }
    told = {**sources.proxies, **own, **mine, **more}
    return [{"name": name, "value": value} for name, value in sorted(told.items())]


def _volumes(request: BuildRequest, options: JobOptions, sources: Sources) -> tuple[list[Json], list[Json]]:
    """Volumes, and where they are mounted: all but one read-only. What is optional is empty when it is not there."""
    trust = sources.trust or options.job.trust_bundle
    optional = {
        "push": (_PLACES.secrets / "push", _secret(request.push_secret)),
        "pull": (_PLACES.secrets / "pull", _secret(request.pull_secret)),
        "trust": (_PLACES.trust, _bundle(trust)),
        "entitlement": (_PLACES.extras / "entitlement", _secret(ENTITLEMENT.format(pool=request.pool))),
        "rpm-gpg": (_PLACES.extras / "rpm-gpg", _secret(GPG)),
        "repositories": (_PLACES.extras / "yum.repos.d", _config_map(REPOSITORIES)),
    }
    chosen = {name: (path, source) for name, (path, source) in optional.items() if source}
    volumes: list[Json] = [
        {"name": "input", "configMap": {"name": sources.config_map}},
        {"name": "work", "emptyDir": {}},
        *({"name": name, **source} for name, (_, source) in chosen.items()),
    ]
    mounts: list[Json] = [
        {"name": "input", "mountPath": str(_PLACES.input), "readOnly": True},
        {"name": "work", "mountPath": str(_PLACES.work)},
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
