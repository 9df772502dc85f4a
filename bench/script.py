"""What a plain script does for the same images: it creates each ConfigMap and Job, waits, and annotates the pools.

Belongs here: the script. Does not belong here: the reconciler. It looks at nothing first, plans nothing, assembles no
index and writes no status: what is left is the floor for whoever has Jobs built in a cluster, at the same pace.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from bench import repository
from bench.kubelets import Sample
from reconciler.adapters.builders.job.names import ARCH_LABEL, CONFIG_MAP, IMAGE, JOB, POOL
from reconciler.adapters.builders.job.reading import end
from reconciler.adapters.clock import SystemClock
from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.cluster.connect import connect
from reconciler.redaction import Redactor
from reconciler.settings import ClusterMode, ClusterSettings
from tests.controlplane import ControlPlane
from tests.controlplane.api import Object

_ANNOTATION: Final = "example.com/image"
_POLL: Final = 5.0
_PATIENCE: Final = 3 * 3600.0


def follow(
    plane: ControlPlane, namespace: str, sample: Sample, pools: int, registry: str, check: Callable[[], None]
) -> dict[str, Any]:
    """Have the images of so many pools built by Jobs like `sample`. `check` raises when there is no point in waiting.

    The client is the reconciler's own, with its limit of requests per second.
    """
    requests: list[str] = []
    redactor = Redactor()
    settings = ClusterSettings(mode=ClusterMode.KUBECONFIG, kubeconfig=str(plane.kubeconfig()))
    connection = connect(settings, dict(os.environ), redactor)
    api = KubernetesApi(
        connection, SystemClock(), redactor, on_request=lambda request: requests.append(request.operation)
    )
    began = time.monotonic()
    try:
        for number in range(pools):
            for arch in repository.ARCHITECTURES:
                _create(api, namespace, sample, repository.pool_name(number), arch, registry)
        created = time.monotonic() - began
        wanted = pools * len(repository.ARCHITECTURES)
        while sum(end(job) is not None for job in api.list(JOB, namespace)) < wanted:
            check()
            if time.monotonic() - began > _PATIENCE:
                raise RuntimeError(f"the script's Jobs did not end within {_PATIENCE:g} s")
            time.sleep(_POLL)
        for number in range(pools):
            name = repository.pool_name(number)
            annotations = {_ANNOTATION: f"{registry}/script/{name}"}
            api.patch(POOL, name, {"metadata": {"annotations": annotations}})
        annotated = time.monotonic() - began
    finally:
        connection.close()
    return {"jobs_s": round(created, 1), "annotated_s": round(annotated, 1), "requests": len(requests)}


def _create(api: KubernetesApi, namespace: str, sample: Sample, pool: str, arch: str, registry: str) -> None:
    """A build like the sample."""
    name = f"build-{pool}-{arch}"
    renamed: dict[str, str] = {}
    for found in sample.config_maps:
        renamed[found["metadata"]["name"]] = made = f"{name}-{len(renamed)}"
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": made}}
        body |= {key: found[key] for key in ("data", "binaryData") if key in found}
        api.create(CONFIG_MAP, body, namespace)
    api.create(JOB, _job(sample.job, name, pool, arch, registry, renamed), namespace)


def _job(
    found: Object, name: str, pool: str, arch: str, registry: str, renamed: Mapping[str, str]
) -> dict[str, Any]:
    about, spec = found["metadata"], found["spec"]
    pod = spec["template"]["spec"]
    volumes = [_volume(volume, renamed) for volume in pod["volumes"]]
    selector = {**pod["nodeSelector"], "kubernetes.io/arch": arch}
    template = {
        "metadata": {"annotations": spec["template"]["metadata"].get("annotations", {})},
        "spec": {**pod, "volumes": volumes, "nodeSelector": selector},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {**about["labels"], ARCH_LABEL: arch},
            "annotations": {**about["annotations"], IMAGE: f"{registry}/script/{pool}:{arch}"},
        },
        "spec": {**{key: value for key, value in spec.items() if key != "selector"}, "template": template},
    }


def _volume(volume: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    held = volume.get("configMap")
    if not held or held.get("name") not in renamed:
        return dict(volume)
    return {**volume, "configMap": {**held, "name": renamed[held["name"]]}}
