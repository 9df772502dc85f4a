"""A stage per test, with the base image built once for all of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.registry import docker_registry
from tests.servers.stage import Stage


@pytest.fixture(scope="session")
def base_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The storage folder of a registry that holds the base image."""
    root = tmp_path_factory.mktemp("base")
    with docker_registry(root) as registry:
        Stage(root, registry).build_base()
        return registry.root / "storage"


@pytest.fixture
def stage(tmp_path: Path, base_storage: Path) -> Iterator[Stage]:
    """A registry with the base image; the test makes the repository it wants."""
    with docker_registry(tmp_path) as registry:
        shutil.copytree(base_storage, registry.root / "storage", dirs_exist_ok=True)
        yield Stage(tmp_path, registry)


@pytest.fixture
def definitions(tmp_path: Path) -> Path:
    """A small source of definitions: pool `worker` for amd64 and arm64, with one file per architecture."""
    root = tmp_path / "definitions"
    write_pool(root, "worker")
    (root / "reconciler.yaml").write_text(
        "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\narchitectures: [amd64, arm64]\n"
    )
    return root


def write_pool(root: Path, name: str, containerfile: str = "") -> None:
    """Write a pool's definition with files for two architectures."""
    folder = root / "pools" / name
    for arch in ("amd64", "arm64"):
        (folder / "files" / arch).mkdir(parents=True)
        (folder / "files" / arch / "tuning.conf").write_text(f"# {arch}\n")
    (folder / "machineosconfig.yaml").write_text(
        f"""\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineOSConfig
metadata: {{name: {name}}}
spec:
  machineConfigPool: {{name: {name}}}
  imageBuilder: {{imageBuilderType: Job}}
  renderedImagePushSecret: {{name: push}}
  renderedImagePushSpec: registry.example.com/os/{name}:latest
"""
    )
    (folder / "Containerfile").write_text(
        containerfile
        or """\
FROM registry.example.com/os/base:1
ARG TARGETARCH
COPY files/${TARGETARCH}/ /etc/tuning.d/
"""
    )
