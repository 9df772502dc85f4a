"""Jobs on a real control plane, with a node agent that really runs their pods: buildah builds, and a registry holds."""

from __future__ import annotations

import base64
import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.builders.attempt import LocalOptions
from reconciler.adapters.builders.job import JobBuilder, JobOptions
from reconciler.adapters.builders.local import LocalBuilder
from reconciler.adapters.clock import SystemClock
from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.registry import HttpRegistry
from reconciler.core.machineconfig.stage import ContextFile, Stage
from reconciler.core.model import DIGEST, Arch, Base, ImageRef
from reconciler.ports import Build, BuildRequest, Cause, Phase
from reconciler.settings import JobSettings, Privilege
from tests.adapters.builders.conftest import ENV
from tests.adapters.builders.job.support import OTHER, request
from tests.adapters.builders.world import File, Tree, WallClock, pull, until
from tests.adapters.builders.world import ended as waited
from tests.controlplane import ControlPlane
from tests.nodes.fixtures import Workers
from tests.nodes.world import BUILDER
from tests.servers.foreign import busybox
from tests.servers.registry import docker_registry, self_signed

pytestmark = [pytest.mark.cluster, pytest.mark.tools]

NATIVE = Arch.parse(os.uname().machine)
USER, PASSWORD = "push", "canary"
PATIENCE = 120.0
TEXT = """FROM BASE
COPY etc /etc
COPY .wh.kept /kept
RUN ["/bin/busybox", "sh", "-c", "busybox cat /etc/motd; busybox id -u > /user"]
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    with docker_registry(tmp_path, htpasswd=(USER, PASSWORD)) as server:
        yield server.host


@dataclass
class Make:
    """Makes builders that use one registry."""

    kube: KubernetesApi
    namespace: str
    registry: str
    tree: Tree
    folder: Path
    client: HttpRegistry

    def __call__(self, *insecure: str, **settings: Any) -> JobBuilder:
        job = JobSettings(**{"image": BUILDER, "attempts": 1, **settings})
        hosts = frozenset(insecure or {self.registry})
        options = JobOptions(self.namespace, job=job, insecure=hosts, poll=0.5)
        return JobBuilder(self.kube, self.tree, self.client, WallClock(), options, lambda: frozenset(Arch))

    def base(self) -> Base:
        """An image with busybox, in the registry."""
        ref = f"{self.registry}/os/worker:base"
        files: dict[str, File] = {"bin/busybox": ("100755", busybox(NATIVE))}
        text = "FROM scratch\nCOPY . /\n"
        asked = request(self.tree, files, arch=NATIVE, containerfile=text, bases=(), image=ref, digest=OTHER)
        return Base(ref, self.locally(asked))

    def locally(self, wanted: BuildRequest) -> str:
        """What the local builder makes of a request."""
        options = LocalOptions(
            self.folder / "local",
            ENV,
            insecure=frozenset({self.registry}),
            auth_file=self.folder / "auth.json",
        )
        builder = LocalBuilder(self.tree, options, WallClock())
        try:
            builder.ensure(wanted)
            (build,) = waited(builder, wanted.name)
        finally:
            builder.close()
        return build.digest


@pytest.fixture
def make(kube: KubernetesApi, namespace: str, registry: str, tree: Tree, tmp_path: Path) -> Iterator[Make]:
    file = tmp_path / "auth.json"
    file.write_text(json.dumps({"auths": login(registry)}))
    with HttpRegistry(SystemClock(), insecure=frozenset({registry}), auth_file=file) as client:
        yield Make(kube, namespace, registry, tree, tmp_path, client)


@pytest.fixture
def tree() -> Tree:
    return Tree()


def login(registry: str, password: str = PASSWORD) -> dict[str, dict[str, str]]:
    return {registry: {"auth": base64.b64encode(f"{USER}:{password}".encode()).decode()}}


def secret(plane: ControlPlane, namespace: str, registry: str, *, old: bool = False, **about: str) -> None:
    """Credentials of a registry, in the newer or in the older form."""
    logins = login(registry, about.get("password", PASSWORD))
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": about.get("name", "push")},
        "type": "kubernetes.io/dockercfg" if old else "kubernetes.io/dockerconfigjson",
        "stringData": {".dockercfg": json.dumps(logins)}
        if old
        else {".dockerconfigjson": json.dumps({"auths": logins})},
    }
    plane.api.create(f"/api/v1/namespaces/{namespace}/secrets", body)


def wanted(tree: Tree, base: Base, padding: bytes = b"", text: str = TEXT, **fields: Any) -> BuildRequest:
    """A build on a base that has a shell; its image goes beside the base."""
    files: dict[str, File] = {"etc/motd": b"hello\n", ".wh.kept": b"kept", "padding": padding}
    return request(
        tree,
        files,
        arch=NATIVE,
        **{
            "containerfile": text.replace("BASE", base.ref),
            "bases": (base,),
            "image": f"{ImageRef.parse(base.ref).repository}:new",
            **fields,
        },
    )


def ended(builder: JobBuilder) -> Build:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        builder.wait(5.0)
        (build,) = builder.builds()
        if build.ended:
            return build
    raise AssertionError(builder.builds())


def check(make: Make, registry: str, wanted: BuildRequest, build: Build) -> None:
    """The image is what this machine's own builder makes of the same request, to the last bit."""
    assert build.phase is Phase.SUCCEEDED, build.message
    image = pull(f"{USER}:{PASSWORD}@{registry}/os/worker", "new")
    assert image.digest == build.digest
    assert image.config["architecture"] == NATIVE
    assert image.content["etc/motd"] == b"hello\n"
    assert image.content["kept"] == b"kept"
    assert image.content["user"] == b"0\n"
    assert build.digest == make.locally(replace(wanted, image=f"{registry}/os/worker:local"))


def config_maps(plane: ControlPlane, namespace: str) -> list[str]:
    found = plane.api.list(
        f"/api/v1/namespaces/{namespace}/configmaps", labelSelector="reconciler.machineos.dev/ephemeral=true"
    )
    return [each["metadata"]["name"] for each in found]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.usefixtures("workers")
def test_a_job_builds_and_pushes(
    plane: ControlPlane, namespace: str, registry: str, make: Make, tree: Tree, old: bool
) -> None:
    secret(plane, namespace, registry, old=old)
    builder = make()
    base = make.base()
    asked = wanted(tree, base)
    if old:  # by way of the image `configs`, too
        stage = Stage(
            f"FROM {base.ref} AS configs\nADD .machineconfig/f /made\n",
            (ContextFile(".machineconfig/f", b"x"),),
        )
        asked = wanted(tree, base, text=TEXT.replace("BASE", "configs"), configs=stage)
    builder.ensure(asked)
    (held,) = config_maps(plane, namespace)
    found = plane.api.get(f"/api/v1/namespaces/{namespace}/configmaps/{held}")
    assert set(found["binaryData"]) == {"context.tar.gz"}
    check(make, registry, asked, ended(builder))
    assert config_maps(plane, namespace) == []


@pytest.mark.parametrize("privilege", [Privilege.ROOTLESS, Privilege.ROOT])
@pytest.mark.usefixtures("workers")
def test_a_large_context_comes_as_an_image(
    plane: ControlPlane, namespace: str, registry: str, make: Make, tree: Tree, privilege: Privilege
) -> None:
    secret(plane, namespace, registry)
    builder = make(privilege=privilege)
    asked = wanted(tree, make.base(), random.Random(1).randbytes(2 << 20))  # noqa: S311
    builder.ensure(asked)
    (held,) = config_maps(plane, namespace)
    assert "binaryData" not in plane.api.get(f"/api/v1/namespaces/{namespace}/configmaps/{held}")
    check(make, registry, asked, ended(builder))


@pytest.mark.usefixtures("workers")
def test_a_definition_that_cannot_be_built_fails_once(
    plane: ControlPlane, namespace: str, registry: str, make: Make, tree: Tree
) -> None:
    secret(plane, namespace, registry)
    builder = make(attempts=3)
    builder.ensure(wanted(tree, make.base(), text=TEXT + 'RUN ["/bin/busybox", "false"]\n'))
    build = ended(builder)
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.DEFINITION)
    assert build.message.startswith('STEP 5/5: RUN ["/bin/busybox", "false"] failed\n')
    assert len(plane.api.list(f"/api/v1/namespaces/{namespace}/pods")) == 1
    assert len(config_maps(plane, namespace)) == 1


@pytest.mark.usefixtures("workers")
def test_a_secret_that_is_not_there_is_named_and_the_next_build_sees_what_there_is_then(
    plane: ControlPlane, namespace: str, registry: str, make: Make, tree: Tree
) -> None:
    builder = make(attempts=3)
    asked = wanted(tree, make.base(), pull_secret="somewhere")
    builder.ensure(asked)
    build = ended(builder)
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.MISSING)
    assert build.message.startswith(f"the Secret push is missing in namespace {namespace} (create it")
    assert len(plane.api.list(f"/api/v1/namespaces/{namespace}/pods")) == 1, "no other pod would find it"
    # One that is there and of no use is told from one that is not there, and each build sees them as they are then.
    secret(plane, namespace, registry)
    about = {"metadata": {"name": "somewhere"}, "stringData": {"password": "x"}}
    place = f"/api/v1/namespaces/{namespace}/secrets"
    plane.api.create(place, {"apiVersion": "v1", "kind": "Secret", **about})
    builder.discard([asked.name])
    asked = replace(asked, name=asked.name[:-1] + "2")
    builder.ensure(asked)
    build = ended(builder)
    assert build.cause is Cause.MISSING
    assert f"the Secret somewhere in namespace {namespace} has neither .dockerconfigjson" in build.message
    logins = {".dockerconfigjson": json.dumps({"auths": login(registry)})}
    plane.api.patch(f"{place}/somewhere", {"stringData": logins})
    builder.discard([asked.name])
    builder.ensure(replace(asked, name=asked.name[:-1] + "3"))
    assert ended(builder).phase is Phase.SUCCEEDED


@pytest.mark.usefixtures("workers")
def test_run_sees_entitlements_and_the_image_does_not(
    plane: ControlPlane, namespace: str, registry: str, make: Make, tree: Tree
) -> None:
    secret(plane, namespace, registry)
    held = {"key.pem": "canary\n"}
    about = {"metadata": {"name": "etc-pki-entitlement-worker"}, "stringData": held}
    plane.api.create(
        f"/api/v1/namespaces/{namespace}/secrets", {"apiVersion": "v1", "kind": "Secret", **about}
    )
    about = {"metadata": {"name": "etc-yum-repos-d"}, "data": {"a.repo": "[a]\n"}}
    plane.api.create(
        f"/api/v1/namespaces/{namespace}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", **about}
    )
    text = TEXT.replace(
        "busybox cat /etc/motd;",
        "set -e; busybox grep canary /etc/pki/entitlement/key.pem; busybox touch /etc/yum.repos.d/redhat.repo;"
        " busybox cat /etc/yum.repos.d/a.repo;",
    )
    builder = make()
    builder.ensure(wanted(tree, make.base(), text=text))
    build = ended(builder)
    assert build.phase is Phase.SUCCEEDED, build.message
    image = pull(f"{USER}:{PASSWORD}@{registry}/os/worker", "new")
    assert not [content for content in image.content.values() if b"canary" in content]
    assert not [name for name in image.files if name.endswith((".pem", ".repo"))]


@pytest.mark.usefixtures("workers")
def test_each_credential_is_for_its_own_registry(
    plane: ControlPlane, namespace: str, registry: str, make: Make, tree: Tree, tmp_path: Path
) -> None:
    """Bases come from a registry that the pull secret knows, and from the one that the push secret is for."""
    secret(plane, namespace, registry)
    with docker_registry(tmp_path, htpasswd=(USER, "another")) as server:
        secret(plane, namespace, server.host, name="pull", password="another")
        other = replace(make, registry=server.host, folder=tmp_path / "other")
        other.folder.mkdir()
        (other.folder / "auth.json").write_text(json.dumps({"auths": login(server.host, "another")}))
        bases = make.base(), other.base()
        text = f"FROM {bases[1].ref} AS one\nFROM BASE\nCOPY --from=one /bin/busybox /both\n"
        builder = make(registry, server.host)
        asked = wanted(tree, bases[0], text=text, pull_secret="pull", bases=bases)
        builder.ensure(asked)
        build = ended(builder)
    assert build.phase is Phase.SUCCEEDED, build.message
    assert "both" in pull(f"{USER}:{PASSWORD}@{registry}/os/worker", "new").files


@pytest.mark.usefixtures("workers")
def test_a_bundle_of_certificates_is_trusted(
    plane: ControlPlane, namespace: str, make: Make, tree: Tree, tmp_path: Path
) -> None:
    pair = self_signed(tmp_path)
    about = {"metadata": {"name": "our-cas"}, "data": {"ca-bundle.crt": pair.cert.read_text()}}
    plane.api.create(
        f"/api/v1/namespaces/{namespace}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", **about}
    )
    see = "busybox grep -q BEGIN /run/secrets/trust/ca-bundle.crt && busybox"
    with docker_registry(tmp_path, htpasswd=(USER, PASSWORD), tls=pair) as server:
        secret(plane, namespace, server.host)
        (tmp_path / "auth.json").write_text(json.dumps({"auths": login(server.host)}))
        base = replace(make, registry=server.host).base()
        builder = make("nowhere.example.com", trust_bundle="our-cas")
        builder.ensure(wanted(tree, base, text=TEXT.replace("busybox cat", f"{see} cat")))
        build = ended(builder)
    assert build.phase is Phase.SUCCEEDED, build.message
    assert DIGEST.fullmatch(build.digest)


@pytest.mark.usefixtures("workers")
def test_an_eviction_costs_no_attempt(
    plane: ControlPlane, namespace: str, registry: str, make: Make, tree: Tree, workers: Workers
) -> None:
    """The pod is disrupted while it builds; there is only one attempt, and yet another pod takes over."""
    secret(plane, namespace, registry)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    slow = TEXT.replace("busybox id", "busybox sleep 4; busybox id")
    builder = make()
    asked = wanted(tree, make.base(), text=slow)
    builder.ensure(asked)
    until(lambda: [b for b in builder.builds() if b.phase is Phase.RUNNING], "a pod that runs")
    (pod,) = plane.api.list(pods)
    workers.agent.evict(namespace, pod["metadata"]["name"])
    build = ended(builder)
    check(make, registry, asked, build)
    assert len(plane.api.list(pods)) == 2
