"""A pod really builds with buildah and pushes, as the user and with the rights that a cluster would give it."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.model import Arch
from tests.nodes.world import BUILDER, World, container, pod
from tests.servers.binfmt import foreign_programs
from tests.servers.foreign import busybox
from tests.servers.registry import RegistryServer, docker_registry
from tests.servers.stage import Stage

pytestmark = pytest.mark.tools

SCRIPT = """
cp -L /context/* .
mkdir tmp storage && export TMPDIR=$PWD/tmp
tool() { buildah --root "$PWD/storage/root" --runroot "$PWD/storage/run" --storage-driver vfs "$@"; }
tool build --tls-verify=false --platform "linux/$ARCH" --timestamp 0 --iidfile id .
tool push --tls-verify=false --digestfile digest "$(cat id)" "docker://$IMAGE"
cp digest /dev/termination-log
"""
BASE = "FROM scratch\nCOPY --chmod=755 busybox /bin/busybox\n"
RUN = """
RUN ["/bin/busybox", "sh", "-c", "busybox uname -m >/machine; busybox id -u >/user; busybox chown 33:33 /user"]
"""

ROOTLESS: dict[str, Any] = {
    "runAsUser": 1000,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"], "add": ["SETUID", "SETGID"]},
}
ROOT: dict[str, Any] = {
    "capabilities": {"add": ["AUDIT_WRITE", "MKNOD", "NET_RAW", "SETFCAP", "SYS_ADMIN", "SYS_CHROOT"]}
}
"""What RUN is given by buildah, it must have itself."""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryServer]:
    with docker_registry(tmp_path) as server:
        yield server


def build(world: World, registry: RegistryServer, arch: Arch, own: dict[str, Any]) -> str:
    """Run the build; returns the termination message."""
    world.objects["configmaps", "context"] = {
        "data": {"Containerfile": BASE + RUN},
        "binaryData": {"busybox": base64.b64encode(busybox(arch)).decode()},
    }
    image = f"{registry.host}/os/worker:1"
    env = {"ARCH": arch.value, "IMAGE": image, "HOME": "/work"}
    main = container(
        SCRIPT,
        image=BUILDER,
        workingDir="/work",
        env=[{"name": name, "value": value} for name, value in env.items()],
        volumeMounts=[
            {"name": "work", "mountPath": "/work"},
            {"name": "context", "mountPath": "/context", "readOnly": True},
        ],
        securityContext=own,
    )
    volumes = [{"name": "work", "emptyDir": {}}, {"name": "context", "configMap": {"name": "context"}}]
    ended = world.run(pod(main, volumes=volumes, securityContext={"fsGroup": 1000}))
    assert ended.phase == "Succeeded", ended.log()
    message: str = ended.ended()["message"]
    return message


@pytest.mark.parametrize("own", [ROOTLESS, ROOT], ids=["user", "root"])
def test_a_pod_builds_and_pushes(tmp_path: Path, registry: RegistryServer, own: dict[str, Any]) -> None:
    storage = Path("/var/lib/containers")
    before = sorted(path.name for path in storage.iterdir()) if storage.exists() else None
    digest = build(World(tmp_path), registry, Arch.AMD64, own)
    config = Stage(tmp_path, registry).image_config(f"{registry.host}/os/worker@{digest.strip()}")
    assert config["architecture"] == "amd64"
    assert len(config["rootfs"]["diff_ids"]) == 1
    assert before == (sorted(path.name for path in storage.iterdir()) if storage.exists() else None)


def test_a_pod_builds_for_a_foreign_architecture(tmp_path: Path, registry: RegistryServer) -> None:
    arch = Arch.S390X if os.uname().machine != Arch.S390X.machine else Arch.AMD64
    with foreign_programs():
        digest = build(World(tmp_path), registry, arch, ROOTLESS)
    config = Stage(tmp_path, registry).image_config(f"{registry.host}/os/worker@{digest.strip()}")
    assert config["architecture"] == arch.value


def test_without_the_capabilities_it_cannot_build(tmp_path: Path, registry: RegistryServer) -> None:
    """The rights asked for above are needed, so a Job that works here asks for enough."""
    own = {**ROOTLESS, "capabilities": {"drop": ["ALL"]}}
    with pytest.raises(AssertionError):
        build(World(tmp_path), registry, Arch.AMD64, own)
