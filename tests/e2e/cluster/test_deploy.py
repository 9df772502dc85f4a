"""What lies in `deploy/`: accepted by a real API server, and fit for the program that it runs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.settings import BuilderType, ClusterMode, read_settings
from tests.controlplane import ApiError, ControlPlane
from tests.e2e.cluster.conftest import DEPLOY, NAME, Site
from tests.e2e.test_run import reconciled
from tests.servers.daemon import DaemonProcess

pytestmark = [pytest.mark.cluster, pytest.mark.tools]

GOLDEN = Path(__file__).parents[2] / "unit/job/golden/usual.json"


def objects(plane: ControlPlane, folder: str) -> list[dict[str, Any]]:
    """What kustomize makes of a folder."""
    return [dict(found) for found in yaml.safe_load_all(plane.kubectl("kustomize", str(DEPLOY / folder)))]


def one(found: list[dict[str, Any]], kind: str, name: str = NAME) -> dict[str, Any]:
    """The object of a kind with a name."""
    (match,) = [o for o in found if o["kind"] == kind and o["metadata"]["name"] == name]
    return match


@pytest.fixture(scope="module")
def applied(plane: ControlPlane) -> Iterator[list[dict[str, Any]]]:
    """The base is applied, as the README says."""
    plane.revive()
    plane.kubectl("apply", "-k", str(DEPLOY / "base"))
    found = objects(plane, "base")
    yield found
    for cluster_wide in ("ClusterRole", "ClusterRoleBinding"):
        plane.api.delete(plane.api.path_of(one(found, cluster_wide)))
    plane.delete_namespace(NAME)


@pytest.fixture(scope="module")
def template(applied: list[dict[str, Any]]) -> dict[str, Any]:
    """The pod of the Deployment."""
    return dict(one(applied, "Deployment")["spec"]["template"])


def test_the_base_is_accepted_and_a_second_time_changes_nothing(
    plane: ControlPlane, applied: list[dict[str, Any]]
) -> None:
    assert {found["kind"] for found in applied} >= {"CustomResourceDefinition", "Deployment", "NetworkPolicy"}
    again = plane.kubectl("apply", "-k", str(DEPLOY / "base")).splitlines()
    assert len(again) == len(applied)
    assert [line for line in again if not line.endswith("unchanged")] == []


def test_the_reconciler_is_a_restricted_pod(plane: ControlPlane, template: dict[str, Any]) -> None:
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    plane.api.patch(f"/api/v1/namespaces/{NAME}", level)
    pods = f"/api/v1/namespaces/{NAME}/pods"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", **template["metadata"]}}
    plane.api.create(pods, {**pod, "spec": template["spec"]})
    plane.api.delete(f"{pods}/x", grace=0)
    loose = json.loads(json.dumps(template["spec"]))
    del loose["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(ApiError, match="restricted"):
        plane.api.create(pods, {**pod, "spec": loose})


def test_the_configuration_the_ports_and_the_mounts_fit_together(
    applied: list[dict[str, Any]], template: dict[str, Any]
) -> None:
    (container,) = template["spec"]["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    _, option, path = container["args"]
    folder, _, file = path.rpartition("/")
    config = one(applied, "ConfigMap", volumes[mounts[folder]]["configMap"]["name"])
    settings = read_settings(config["data"][file].encode(), file)
    assert option == "--config"
    assert settings.cluster.mode is ClusterMode.IN_CLUSTER
    assert settings.builder.type is BuilderType.JOB
    assert settings.source.credentials in mounts
    assert settings.registry.auth_file.rpartition("/")[0] in mounts
    assert {env["name"]: env["value"] for env in container["env"]}["XDG_CACHE_HOME"] in mounts
    accounts = {o["metadata"]["name"] for o in applied if o["kind"] == "ServiceAccount"}
    assert accounts == {template["spec"]["serviceAccountName"], settings.builder.job.service_account}
    (port,) = container["ports"]
    assert settings.web
    assert settings.web.listen.port == port["containerPort"]
    (served,) = one(applied, "Service")["spec"]["ports"]
    assert served["targetPort"] == port["name"]


def test_the_network_policy_is_about_builds(applied: list[dict[str, Any]]) -> None:
    pods = json.loads(GOLDEN.read_text())["spec"]["template"]["metadata"]["labels"]
    wanted = one(applied, "NetworkPolicy", "machine-os-builds")["spec"]["podSelector"]["matchLabels"]
    assert wanted.items() <= pods.items()


def test_the_openshift_overlay_leaves_users_to_the_project(plane: ControlPlane) -> None:
    found = objects(plane, "openshift")
    pod = one(found, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    constraints = one(found, "SecurityContextConstraints", "machine-os-builder")
    build = json.loads(GOLDEN.read_text())["spec"]["template"]["spec"]
    (container,) = build["containers"]
    assert constraints["runAsUser"]["uid"] == build["securityContext"]["runAsUser"]
    assert set(container["securityContext"]["capabilities"]["add"]) <= set(constraints["allowedCapabilities"])
    kinds = {next(iter(v.keys() - {"name"})) for v in build["volumes"]}
    assert kinds <= set(constraints["volumes"])


def test_the_daemon_runs_with_these_arguments_and_tells_the_probes(site: Site) -> None:
    found = objects(site.plane, "base")
    (container,) = one(found, "Deployment")["spec"]["template"]["spec"]["containers"]
    command, *_ = container["args"]
    with DaemonProcess(site.stage, module=("reconciler", command)) as daemon:
        reconciled(site.stage, site.stage.tip())
        for probe in ("livenessProbe", "readinessProbe"):
            assert daemon.get(container[probe]["httpGet"]["path"]) == "ok"
        assert daemon.stop() == 0


def test_the_kustomization_of_the_readme_is_one(plane: ControlPlane, tmp_path: Path) -> None:
    readme = (DEPLOY.parent / "README.md").read_text()
    (text,) = re.findall(r"^```yaml\n# kustomization.yaml\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "kustomization.yaml").write_text(text)
    own = (DEPLOY / "base/reconciler-config.yaml").read_text().replace("branch: main", "branch: prod")
    (tmp_path / "reconciler-config.yaml").write_text(own)
    (tmp_path / "auth.json").write_text('{"auths": {}}')
    found = [dict(o) for o in yaml.safe_load_all(plane.kubectl("kustomize", str(tmp_path)))]
    pod = one(found, "Deployment")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "quay.io/acme/machine-os-reconciler:v1"
    (config,) = [o for o in found if o["kind"] == "ConfigMap"]
    assert "branch: prod" in config["data"]["reconciler-config.yaml"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["config"]["configMap"]["name"] == config["metadata"]["name"]
    secrets = {o["metadata"]["name"] for o in found if o["kind"] == "Secret"}
    assert {volumes[name]["secret"]["secretName"] for name in ("git", "registry")} == secrets
