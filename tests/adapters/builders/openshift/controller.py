"""A stand-in for OpenShift's build controller, for Builds of the Custom strategy: it gives each the pod that the real
one would, and tells from that pod how the Build stands.

Facts: openshift-controller-manager 26d20fe, pkg/build/controller/strategy/custom.go and util.go (the pod),
pkg/build/controller/build/build_controller.go (phases, reasons, messages, cancelling).

What differs, as the test nodes do not honour it: a privileged container gets all capabilities instead; an unprivileged
one stays in the node's own user namespace, where CRI-O would make one; no service account's token is mounted; nobody
asks whether SCCs let the pod in. Cluster-wide defaults and overrides of builds are not there, nor are image streams.

Belongs here: what the controller does. Does not belong here: what a node does with the pod (`tests.nodes`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Self

from tests.controlplane import ApiError
from tests.controlplane.api import Api

_LOG: Final = logging.getLogger(__name__)
_POLL: Final = 0.2
_PATIENCE: Final = 30.0
_WEEK: Final = 604800
_CONFIGS: Final = "/var/run/configs/openshift.io"
_SYSTEM: Final = f"{_CONFIGS}/build-system"
_SNIPPET: Final = 5
_ENDS: Final = ("Complete", "Failed", "Error", "Cancelled")

Object = Mapping[str, Any]


class BuildController:
    """Handles the Builds of one namespace while it is entered. `registries` is the cluster's registries.conf."""

    def __init__(self, api: Api, namespace: str, registries: str = "") -> None:
        self._api = api
        self._namespace = namespace
        self._registries = registries
        self._closed = Event()
        self._thread = Thread(target=self._loop, name="build-controller", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._thread.join(_PATIENCE)

    def _loop(self) -> None:
        while not self._closed.wait(_POLL):
            for build in self._api.list(self._at("builds")):
                try:
                    self._handle(build)
                except ApiError as error:
                    _LOG.info("%s: tried again: %s", build["metadata"]["name"], error)

    def _handle(self, build: Object) -> None:
        status = build.get("status") or {}
        phase = status.get("phase", "New")
        if phase in _ENDS or "deletionTimestamp" in build["metadata"]:
            return
        name = build["metadata"]["name"]
        pod = self._api.find(f"{self._at('pods')}/{name}-build")
        if status.get("cancelled"):
            if pod:
                self._api.delete(f"{self._at('pods')}/{name}-build")
            self._tell(build, "Cancelled", "CancelledBuild", "The build was cancelled by the user.")
        elif pod:
            self._follow(build, phase, pod)
        elif phase == "New":
            self._begin(build)
        else:
            gone = "The pod for this build was deleted before the build completed."
            self._tell(build, "Error", "BuildPodDeleted", gone)

    def _begin(self, build: Object) -> None:
        wanted = [each["configMap"]["name"] for each in build["spec"]["source"].get("configMaps", ())]
        missing = [name for name in wanted if self._api.find(f"{self._at('configmaps')}/{name}") is None]
        if missing:
            said = f"These resources do not exist: ConfigMaps [{', '.join(missing)}]"
            if (build.get("status") or {}).get("message") != said:
                self._tell(build, "New", "GenericBuildFailed", said)
            return
        made = self._api.create(self._at("pods"), pod_of(build))
        name = build["metadata"]["name"]
        files = {
            "sys-config": {"registries.conf": self._registries},
            "ca": {"service-ca.crt": ""},
            "global-ca": {"ca-bundle.crt": ""},
        }
        for suffix, data in files.items():
            about = {"name": f"{name}-{suffix}", "ownerReferences": [_owner(made, "v1", "Pod")]}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}
            self._api.create(self._at("configmaps"), body)
        self._tell(build, "Pending")

    def _follow(self, build: Object, phase: str, pod: Object) -> None:
        """What becomes of a Build whose pod is there."""
        about = pod["status"]
        if about.get("phase") == "Running" and phase != "Running":
            self._tell(build, "Running", startTimestamp=about["startTime"])
        elif about.get("phase") == "Succeeded":
            self._tell(build, "Complete", completionTimestamp=_now())
        elif about.get("phase") == "Failed":
            ended = [each["state"].get("terminated", {}) for each in about.get("containerStatuses", ())]
            if any(each.get("reason") == "OOMKilled" for each in ended):
                reason, said = (
                    "OutOfMemoryKilled",
                    "The build pod was killed due to an out of memory condition.",
                )
            elif about.get("reason") == "Evicted":
                reason, said = "BuildPodEvicted", about.get("message", "")
            else:
                reason, said = "GenericBuildFailed", "Generic Build failure - check logs for details."
            words = next((each["message"] for each in ended if each.get("message")), "")
            snippet = "\n".join(words.rstrip("\n").split("\n")[-_SNIPPET:])
            more = {"logSnippet": snippet} if snippet else {}
            self._tell(build, "Failed", reason, said, completionTimestamp=_now(), **more)

    def _tell(self, build: Object, phase: str, reason: str = "", message: str = "", **more: str) -> None:
        name = build["metadata"]["name"]
        status = {"phase": phase, "reason": reason, "message": message, **more}
        about = {"resourceVersion": build["metadata"]["resourceVersion"]}
        self._api.patch(f"{self._at('builds')}/{name}", {"metadata": about, "status": status})

    def _at(self, plural: str) -> str:
        root = "/apis/build.openshift.io/v1" if plural == "builds" else "/api/v1"
        return f"{root}/namespaces/{self._namespace}/{plural}"


def pod_of(build: Object) -> dict[str, Any]:
    """The pod of a Build of the Custom strategy."""
    spec, name = build["spec"], build["metadata"]["name"]
    custom = spec["strategy"]["customStrategy"]
    told = {each["name"]: each.get("value", "") for each in custom.get("env", ())}
    volumes, mounts = _mounts(name, spec)
    env = [
        {"name": "BUILD", "value": json.dumps(build).replace("$", "$$")},
        {"name": "LANG", "value": "C.utf8"},
        *custom.get("env", ()),
        {"name": "OPENSHIFT_CUSTOM_BUILD_BASE_IMAGE", "value": custom["from"]["name"]},
        {"name": "BUILD_REGISTRIES_CONF_PATH", "value": f"{_SYSTEM}/registries.conf"},
        {"name": "BUILD_REGISTRIES_DIR_PATH", "value": f"{_SYSTEM}/registries.d"},
        {"name": "BUILD_SIGNATURE_POLICY_PATH", "value": f"{_SYSTEM}/policy.json"},
        {"name": "BUILD_STORAGE_CONF_PATH", "value": f"{_SYSTEM}/storage.conf"},
    ]
    privileged = told.get("BUILD_PRIVILEGED", "true") not in ("false", "0")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-build",
            "labels": {"openshift.io/build.name": name},
            "annotations": {} if privileged else _UNPRIVILEGED,
            "ownerReferences": [_owner(build, "build.openshift.io/v1", "Build")],
        },
        "spec": {
            "serviceAccountName": spec.get("serviceAccount", "default"),
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "nodeSelector": spec.get("nodeSelector"),
            "activeDeadlineSeconds": spec.get("completionDeadlineSeconds", _WEEK),
            "containers": [
                {
                    "name": "custom-build",
                    "image": custom["from"]["name"],
                    "imagePullPolicy": "IfNotPresent",
                    "env": env,
                    "resources": spec.get("resources", {}),
                    "securityContext": _security(privileged),
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": mounts,
                }
            ],
            "volumes": volumes,
        },
    }


_UNPRIVILEGED: Final = {
    "io.openshift.builder": "",
    "io.kubernetes.cri-o.userns-mode": "auto:size=65536",
    "io.kubernetes.cri-o.Devices": "/dev/fuse:rwm",
}


def _security(privileged: bool) -> dict[str, Any]:
    profile = {"type": "Unconfined"}
    if privileged:
        return {
            "capabilities": {"add": ["ALL"]},
            "seccompProfile": profile,
            "runAsUser": 0,
            "runAsGroup": 0,
        }
    return {"capabilities": {"add": ["SETFCAP"], "drop": ["KILL", "MKNOD"]}, "seccompProfile": profile}


def _mounts(name: str, spec: Object) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volumes by the controller's rules, and where they are mounted: the same Secret twice is one volume."""
    volumes: dict[str, dict[str, Any]] = {}
    mounts: list[dict[str, Any]] = []

    def mount(volume: str, path: str, source: dict[str, Any], *, read_only: bool = True) -> None:
        volume = volume.replace(".", "-")[-63:]
        volumes.setdefault(volume, {"name": volume, **source})
        mounts.append({"name": volume, "mountPath": path, **({"readOnly": True} if read_only else {})})

    for each in spec["source"].get("configMaps", ()):
        held = each["configMap"]["name"]
        source: dict[str, Any] = {"configMap": {"name": held, "defaultMode": 0o600}}
        mount(f"{held}-build", f"{_CONFIGS}/build/{held}", source)
    for each in spec["strategy"]["customStrategy"].get("secrets", ()):
        held = each["secretSource"]["name"]
        source = {"secret": {"secretName": held, "defaultMode": 0o600}}
        mount(f"{held}-secret", each["mountPath"], source)
    mount("build-system-configs", _SYSTEM, {"configMap": {"name": f"{name}-sys-config"}})
    items = [{"key": "service-ca.crt", "path": "certs.d/registry.svc/ca.crt"}]
    mount("build-ca-bundles", f"{_CONFIGS}/certs", {"configMap": {"name": f"{name}-ca", "items": items}})
    items = [{"key": "ca-bundle.crt", "path": "tls-ca-bundle.pem"}]
    source = {"configMap": {"name": f"{name}-global-ca", "items": items}}
    mount("build-proxy-ca-bundles", f"{_CONFIGS}/pki", source)
    mount("container-storage-root", "/var/lib/containers", {"emptyDir": {}}, read_only=False)
    mount("container-storage-run", "/var/run/containers", {"emptyDir": {}}, read_only=False)
    return list(volumes.values()), mounts


def _owner(found: Object, version: str, kind: str) -> dict[str, Any]:
    about = found["metadata"]
    return {
        "apiVersion": version,
        "kind": kind,
        "name": about["name"],
        "uid": about["uid"],
        "controller": True,
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
