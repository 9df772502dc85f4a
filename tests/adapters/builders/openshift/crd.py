"""OpenShift's kind Build for a cluster without OpenShift: a CRD with the fields of the published type that a Build of
ours, and its status, may have. Whatever else is written is refused, where OpenShift might take it.

Facts: openshift/api 2a3d739, build/v1/types.go and openapi/openapi.json (types, names, what is required);
openshift-apiserver 56aa2d9, pkg/build/apis/build/validation (the spec never changes, a phase that is final neither, a
deadline is positive, an image reference has a kind and a name), pkg/build/apiserver/registry/build (no status
subresource; a new Build is New). Unlike there, `status.phase` is not set at creation, and who may use a strategy is not
asked.

Belongs here: the schema. Does not belong here: what the build controller does (`controller`).
"""

from __future__ import annotations

from typing import Any, Final

_TEXT: Final = {"type": "string", "maxLength": 65536}
_TIME: Final = {"type": "string", "format": "date-time"}
_QUANTITIES: Final = {
    "type": "object",
    "maxProperties": 16,
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
}
_REASON: Final = {"type": "string", "pattern": "^[A-Za-z]*$"}


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return {**made, "required": list(required)} if required else made


def _list(of: Any) -> dict[str, Any]:
    return {"type": "array", "maxItems": 128, "items": of}


_NAMED: Final = _object("name", name={"type": "string", "minLength": 1, "maxLength": 253})
_IMAGE: Final = _object(
    "kind",
    "name",
    kind={"type": "string", "enum": ["DockerImage", "ImageStreamTag", "ImageStreamImage"]},
    name={"type": "string", "minLength": 1, "maxLength": 1024},
)
_CUSTOM: Final = _object(
    "from",
    **{"from": _IMAGE},
    env=_list(
        _object("name", name={"type": "string", "pattern": "^[-._a-zA-Z][-._a-zA-Z0-9]*$"}, value=_TEXT)
    ),
    secrets=_list(
        _object(
            "secretSource", "mountPath", secretSource=_NAMED, mountPath={"type": "string", "maxLength": 4096}
        )
    ),
    pullSecret=_NAMED,
    forcePull={"type": "boolean"},
    exposeDockerSocket={"type": "boolean"},
    buildAPIVersion=_TEXT,
)
_SPEC: Final = {
    **_object(
        "strategy",
        serviceAccount=_TEXT,
        source=_object(
            type={"type": "string", "enum": ["Git", "Dockerfile", "Binary", "Image", "None"]},
            configMaps=_list(_object("configMap", configMap=_NAMED, destinationDir=_TEXT)),
            secrets=_list(_object("secret", secret=_NAMED, destinationDir=_TEXT)),
        ),
        strategy=_object(
            "customStrategy", type={"type": "string", "enum": ["Custom"]}, customStrategy=_CUSTOM
        ),
        output=_object(pushSecret=_NAMED),
        resources=_object(requests=_QUANTITIES, limits=_QUANTITIES),
        completionDeadlineSeconds={"type": "integer", "format": "int64", "minimum": 1},
        nodeSelector={"type": "object", "maxProperties": 64, "additionalProperties": {"type": "string"}},
    ),
    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec is immutable"}],
}
_STATUS: Final = _object(
    phase={
        "type": "string",
        "enum": ["New", "Pending", "Running", "Complete", "Failed", "Error", "Cancelled"],
        "x-kubernetes-validations": [
            {
                "rule": "oldSelf in ['New', 'Pending', 'Running'] || self == oldSelf",
                "message": "phase cannot be updated from a terminal state",
            }
        ],
    },
    cancelled={"type": "boolean"},
    reason=_REASON,
    message=_TEXT,
    startTimestamp=_TIME,
    completionTimestamp=_TIME,
    duration={"type": "integer", "format": "int64"},
    logSnippet=_TEXT,
)
CRD: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "builds.build.openshift.io"},
    "spec": {
        "group": "build.openshift.io",
        "names": {"kind": "Build", "plural": "builds", "singular": "build", "listKind": "BuildList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": _object(
                        apiVersion=_TEXT, kind=_TEXT, metadata={"type": "object"}, spec=_SPEC, status=_STATUS
                    )
                },
            }
        ],
    },
}
