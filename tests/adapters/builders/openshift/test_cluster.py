"""Builds of ours on a real control plane: a stand-in for OpenShift's build controller makes the pods that the real one
would, a node agent really runs them, and a real registry holds what buildah makes."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.builders.job import JobBuilder, JobOptions
from reconciler.adapters.builders.job.form import JOBS, Form
from reconciler.adapters.builders.openshift import BUILDS
from reconciler.adapters.clock import SystemClock
from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.registry import HttpRegistry
from reconciler.core.model import Base
from reconciler.ports import Build, Cause, Phase
from reconciler.settings import JobSettings, Privilege
from tests.adapters.builders.job.test_cluster import (
    NATIVE,
    PASSWORD,
    TEXT,
    USER,
    Make,
    check,
    config_maps,
    ended,
    secret,
    wanted,
)
from tests.adapters.builders.job.test_cluster import login as logins
from tests.adapters.builders.openshift.conftest import IDLE
from tests.adapters.builders.openshift.controller import BuildController
from tests.adapters.builders.world import Tree, WallClock, pull, until
from tests.controlplane import ControlPlane
from tests.nodes.world import BUILDER
from tests.servers.registry import docker_registry

pytestmark = [pytest.mark.cluster, pytest.mark.tools]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    with docker_registry(tmp_path, htpasswd=(USER, PASSWORD)) as server:
        yield server.host


class MakeBuilds(Make):
    """Makes builders of either form that use one registry."""

    def __call__(
        self, *insecure: str, form: Form = BUILDS, timeout: float = 7200.0, **settings: Any
    ) -> JobBuilder:
        job = JobSettings(**{"image": BUILDER, "attempts": 1, **settings})
        options = JobOptions(self.namespace, job=job, timeout=timeout, insecure=frozenset(insecure), poll=0.5)
        takes = lambda: frozenset({NATIVE})  # noqa: E731
        return JobBuilder(self.kube, self.tree, self.client, WallClock(), options, takes, form)


@pytest.fixture
def make(
    kube: KubernetesApi, namespace: str, registry: str, tmp_path: Path, openshift: ControlPlane
) -> Iterator[MakeBuilds]:
    """With a build controller whose cluster knows the registry as one without TLS."""
    file = tmp_path / "auth.json"
    file.write_text(json.dumps({"auths": logins(registry)}))
    known = f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n'
    with (
        HttpRegistry(SystemClock(), insecure=frozenset({registry}), auth_file=file) as client,
        BuildController(openshift.api, namespace, known),
    ):
        yield MakeBuilds(kube, namespace, registry, Tree(), tmp_path, client)


@pytest.mark.parametrize("privilege", [Privilege.ROOTLESS, Privilege.ROOT])
@pytest.mark.usefixtures("workers")
def test_a_build_builds_and_pushes_what_every_builder_does(
    openshift: ControlPlane, namespace: str, registry: str, make: MakeBuilds, privilege: Privilege
) -> None:
    secret(openshift, namespace, registry)
    builder = make(privilege=privilege)
    asked = wanted(make.tree, make.base())
    builder.ensure(asked)
    build = ended(builder)
    check(make, registry, asked, build)
    assert config_maps(openshift, namespace) == []
    (found,) = openshift.api.list(f"/apis/build.openshift.io/v1/namespaces/{namespace}/builds")
    assert found["status"]["phase"] == "Complete"
    # And a Job makes the very same image of it.
    job = make(registry, form=JOBS)
    job.ensure(replace(asked, image=f"{registry}/os/worker:job"))
    assert ended(job).digest == build.digest


@pytest.mark.parametrize("privilege", [Privilege.ROOTLESS, Privilege.ROOT])
@pytest.mark.usefixtures("workers")
def test_a_large_context_comes_as_an_image(
    openshift: ControlPlane, namespace: str, registry: str, make: MakeBuilds, privilege: Privilege
) -> None:
    secret(openshift, namespace, registry, old=True)
    builder = make(registry, privilege=privilege)
    asked = wanted(make.tree, make.base(), random.Random(1).randbytes(2 << 20))  # noqa: S311
    builder.ensure(asked)
    check(make, registry, asked, ended(builder))


@pytest.mark.usefixtures("workers")
def test_a_definition_that_cannot_be_built_is_told_from_its_log(
    openshift: ControlPlane, namespace: str, registry: str, make: MakeBuilds
) -> None:
    secret(openshift, namespace, registry)
    builder = make()
    builder.ensure(wanted(make.tree, make.base(), text=TEXT + 'RUN ["/bin/busybox", "false"]\n'))
    build = ended(builder)
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.DEFINITION)
    assert build.message.startswith('STEP 5/5: RUN ["/bin/busybox", "false"] failed\n')
    assert len(config_maps(openshift, namespace)) == 1


@pytest.mark.usefixtures("workers")
def test_run_sees_entitlements_and_the_image_does_not(
    openshift: ControlPlane, namespace: str, registry: str, make: MakeBuilds
) -> None:
    secret(openshift, namespace, registry)
    held = {"data": {"key.pem": base64.b64encode(b"canary\n").decode()}}
    _hold(openshift, namespace, "Secret", "etc-pki-entitlement-worker", held)
    _hold(openshift, namespace, "ConfigMap", "etc-yum-repos-d", {"data": {"a.repo": "[a]\n"}})
    text = TEXT.replace(
        "busybox cat /etc/motd;",
        "set -e; busybox grep canary /etc/pki/entitlement/key.pem; busybox touch /etc/yum.repos.d/redhat.repo;"
        " busybox cat /etc/yum.repos.d/a.repo;",
    )
    builder = make()
    builder.ensure(wanted(make.tree, make.base(), text=text))
    build = ended(builder)
    assert build.phase is Phase.SUCCEEDED, build.message
    image = pull(f"{USER}:{PASSWORD}@{registry}/os/worker", "new")
    assert not [content for content in image.content.values() if b"canary" in content]
    assert not [name for name in image.files if name.endswith((".pem", ".repo"))]


@pytest.mark.usefixtures("workers")
def test_an_image_with_another_command_is_told(
    openshift: ControlPlane, namespace: str, registry: str, make: MakeBuilds
) -> None:
    secret(openshift, namespace, registry)
    builder = make(image=IDLE)
    base = Base(f"{registry}/os/worker:base", "sha256:" + "a" * 64)
    builder.ensure(wanted(make.tree, base))
    build = ended(builder)
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE)
    assert build.message.startswith(f"{IDLE} ended without building anything")


@pytest.mark.usefixtures("workers")
def test_a_cancelled_build_ends_with_its_pod(
    openshift: ControlPlane, namespace: str, registry: str, make: MakeBuilds
) -> None:
    """As `oc cancel-build` does it; and what is discarded while it runs is gone with its pod."""
    secret(openshift, namespace, registry)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    slow = TEXT.replace("busybox id", "busybox sleep 600; busybox id")
    builder = make()
    asked = wanted(make.tree, make.base(), text=slow)
    second = replace(asked, name=f"{asked.name[:-1]}2")
    builder.ensure(asked)
    _running(builder, 1)
    path = f"/apis/build.openshift.io/v1/namespaces/{namespace}/builds/{asked.name}"
    openshift.api.patch(path, {"status": {"cancelled": True}})
    build = ended(builder)
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE)
    assert build.message.startswith("CancelledBuild: The build was cancelled by the user.")
    until(lambda: openshift.api.list(pods) == [], "its pod is gone")
    builder.ensure(second)
    _running(builder, 1)
    builder.discard([second.name])
    until(lambda: openshift.api.list(pods) == [], "the other's pod is gone")


@pytest.mark.usefixtures("workers")
def test_a_pod_that_takes_too_long_is_told_with_its_step(
    openshift: ControlPlane, namespace: str, registry: str, make: MakeBuilds
) -> None:
    secret(openshift, namespace, registry)
    slow = TEXT.replace("busybox id", "busybox sleep 600; busybox id")
    asked = wanted(make.tree, make.base(), text=slow)
    builder = make(timeout=15.0)
    builder.ensure(asked)
    build = ended(builder)
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE)
    assert build.message.startswith("the build took longer than 15 s, at: ")


def _running(builder: JobBuilder, count: int) -> list[Build]:
    def running() -> list[Build]:
        found = [build for build in builder.builds() if build.phase is Phase.RUNNING]
        return found if len(found) == count else []

    return until(running, "a pod that runs")


def _hold(plane: ControlPlane, namespace: str, kind: str, name: str, held: dict[str, Any]) -> None:
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **held}
    plane.api.create(f"/api/v1/namespaces/{namespace}/{kind.lower()}s", body)
