"""Where Builds of OpenShift may run, as the whole tool sees it: the cluster decides which taints they tolerate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reconciler.core.model import Arch
from tests.e2e.cluster.conftest import DEPLOY, NAME, Site
from tests.servers.daemon import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.tools]

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CONFIGS = "/apis/config.openshift.io/v1/builds"
_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: builds.config.openshift.io}
spec:
  group: config.openshift.io
  scope: Cluster
  names: {kind: Build, listKind: BuildList, plural: builds, singular: build}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
_POLICY = """
apiVersion: config.openshift.io/v1
kind: Build
metadata: {name: cluster}
spec:
  buildOverrides:
    tolerations: [{key: kubernetes.io/arch, operator: Exists}]
"""


@pytest.fixture
def policies(site: Site) -> Iterator[str]:
    """The kind that OpenShift keeps its word on builds in; returns their path."""
    site.plane.apply(_CRD)
    wait_for("the kind", lambda: site.plane.api.find(_CONFIGS) is not None)
    site.plane.apply(
        (DEPLOY / "openshift/builds.yaml").read_text().replace(NAME, site.namespace), site.namespace
    )
    yield _CONFIGS
    site.plane.api.delete(f"{_CRDS}/builds.config.openshift.io")
    for kind in ("clusterroles", "clusterrolebindings"):
        site.plane.api.delete(f"/apis/rbac.authorization.k8s.io/v1/{kind}/{site.namespace}-builds")


def test_a_tainted_node_takes_builds_only_where_the_cluster_says_so(site: Site, policies: str) -> None:
    config = site.stage.config
    config.write_text(config.read_text().replace("type: job", "type: openshift"))
    taint = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}
    node = site.workers.names[Arch.ARM64]
    site.plane.api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [taint]}})
    said = site.stage.reconciler("status", "--config", str(config))
    (blocked,) = [line for line in said.out.splitlines() if "blocked" in line]
    assert "no node of arm64 can take a build" in blocked
    assert "spec.buildOverrides.tolerations of builds.config.openshift.io/cluster" in blocked
    assert said.out.count("to build") == len(Arch) - 1
    site.plane.apply(_POLICY)
    wait_for("the policy", lambda: site.plane.api.find(f"{policies}/cluster"))
    said = site.stage.reconciler("status", "--config", str(config))
    assert "blocked" not in said.out
    assert said.out.count("to build") == len(Arch)
