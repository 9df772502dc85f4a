"""The whole tool on a real control plane: nodes that run Jobs, a registry, a repository, and a daemon that has the
rights of `deploy/`."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.model import Arch
from tests.controlplane import ControlPlane
from tests.controlplane.fixtures import (  # noqa: F401
    namespace,
    nodes,
    plane,
    pytest_collection_finish,
    upstream_crds,
)
from tests.nodes.fixtures import Workers, workers  # noqa: F401
from tests.nodes.world import BUILDER
from tests.servers.daemon import wait_for
from tests.servers.stage import Stage

DEPLOY = Path(__file__).parents[3] / "deploy"
NAME = "machine-os-reconciler"
"""What everything in `deploy/` is called; in a test, as its namespace."""
MEMBER = "example.com/member"
POOLS = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools"


@dataclass(frozen=True)
class Site:
    """A cluster with one pool, whose images a stage's repository defines."""

    stage: Stage
    plane: ControlPlane
    namespace: str
    workers: Workers

    @property
    def pool(self) -> dict[str, Any]:
        """The MachineConfigPool."""
        return dict(self.plane.api.get(f"{POOLS}/worker"))

    @property
    def annotations(self) -> dict[str, str]:
        """Those of the MachineConfigPool that are ours, without what stands before the slash."""
        found = self.pool["metadata"].get("annotations", {})
        return {key.rpartition("/")[2]: value for key, value in found.items()}

    def objects(self, kind: str, group: str = "apis/batch/v1") -> list[dict[str, Any]]:
        """All objects of a kind in the namespace."""
        return [dict(one) for one in self.plane.api.list(f"/{group}/namespaces/{self.namespace}/{kind}")]

    @property
    def jobs(self) -> list[str]:
        """The names of all Jobs."""
        return sorted(job["metadata"]["name"] for job in self.objects("jobs"))

    @property
    def works(self) -> list[dict[str, Any]]:
        """All MultiArchBuilds, oldest first."""
        found = self.objects("multiarchbuilds", "apis/reconciler.machineos.dev/v1alpha1")
        return sorted(found, key=lambda one: one["metadata"]["creationTimestamp"])

    def join(self, *arches: Arch) -> None:
        """Let nodes of these architectures be of the pool."""
        for arch in arches:
            self._label(arch, self.namespace)

    def leave(self, arch: Arch) -> None:
        """Let a node be of no pool."""
        self._label(arch, None)

    def _label(self, arch: Arch, value: str | None) -> None:
        name = self.workers.names[arch]
        self.plane.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {MEMBER: value}}})

    def configure(self, server: str = "", job: str = "", rest: str = "") -> None:
        """Write the daemon's configuration; it reaches the cluster at `server` when one is named."""
        login = self.plane.kubeconfig_for(self.namespace, self.namespace, server=server)
        text = self.stage.config.read_text().partition("builder:")[0]
        text = text.replace("branch: main}", "branch: main, interval: 1s, resync: 5s}")
        self.stage.config.write_text(
            f"{text}"
            f"builder: {{type: job, timeout: 5m, job: {{image: {BUILDER}, attempts: 1{job}}}}}\n"
            f"cluster: {{mode: kubeconfig, kubeconfig: {login}{rest}}}\n"
            "deliver: [commit, pool-annotation]\n"
            'web: {listen: "127.0.0.1:0"}\n'
        )


@pytest.fixture
def site(
    stage: Stage,
    definitions: Path,
    plane: ControlPlane,  # noqa: F811
    namespace: str,  # noqa: F811
    workers: Workers,  # noqa: F811
    upstream_crds: list[str],  # noqa: F811, ARG001
) -> Iterator[Site]:
    """All four architectures are in the pool, and nothing was done yet."""
    (definitions / "reconciler.yaml").unlink()
    for arch in Arch:
        folder = definitions / "pools/worker/files" / arch
        folder.mkdir(exist_ok=True)
        (folder / "tuning.conf").write_text(f"# {arch}\n")
    stage.create_repository(definitions)
    plane.apply((DEPLOY / "base/rbac.yaml").read_text().replace(NAME, namespace))
    empty = base64.b64encode(json.dumps({"auths": {}}).encode()).decode()
    plane.api.create(
        f"/api/v1/namespaces/{namespace}/secrets",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "push"},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": empty},
        },
    )
    plane.api.create(POOLS, _pool(namespace))
    site = Site(stage, plane, namespace, workers)
    site.join(*Arch)
    site.configure()
    yield site
    plane.revive()
    plane.api.delete(f"{POOLS}/worker")
    wait_for("the pool to be gone", lambda: not list(plane.api.list(POOLS)))
    for kind in ("clusterroles", "clusterrolebindings"):
        plane.api.delete(f"/apis/rbac.authorization.k8s.io/v1/{kind}/{namespace}")


def _pool(namespace: str) -> dict[str, Any]:  # noqa: F811
    return {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": "worker"},
        "spec": {
            "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}},
            "nodeSelector": {"matchLabels": {MEMBER: namespace}},
        },
    }
