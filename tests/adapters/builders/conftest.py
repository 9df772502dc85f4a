"""One registry for all builder tests, base images with a shell, and builders that are closed in the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.builders.attempt import LocalOptions
from reconciler.adapters.builders.local import LocalBuilder
from reconciler.core.model import Arch, Base
from reconciler.ports import Phase
from tests.adapters.builders.world import File, Recipe, Tree, WallClock, ended
from tests.servers.binfmt import foreign_programs
from tests.servers.foreign import busybox
from tests.servers.registry import docker_registry

ENV = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The host of a plain registry."""
    with docker_registry(tmp_path_factory.mktemp("registry")) as server:
        yield server.host


@pytest.fixture(scope="session")
def foreign() -> Iterator[None]:
    """The kernel runs programs of every architecture."""
    with foreign_programs():
        yield


@dataclass
class Bench:
    """Makes builders that are closed in the end, and builds with them."""

    tree: Tree
    registry: str
    directory: Path
    builders: list[LocalBuilder]

    def builder(self, **options: Any) -> LocalBuilder:
        settings: dict[str, Any] = {
            "directory": self.directory,
            "env": ENV,
            "insecure": frozenset({self.registry}),
        } | options
        made = LocalBuilder(self.tree, LocalOptions(**settings), WallClock())
        self.builders.append(made)
        return made

    def image(self, name: str) -> str:
        return f"{self.registry}/os/{name}:new"

    def close(self) -> None:
        for builder in self.builders:
            builder.close()


@pytest.fixture
def bench(registry: str, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(Tree(), registry, tmp_path / "builds", [])
    yield made
    made.close()


@pytest.fixture(scope="session")
def shell(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Arch], Base]]:
    """A base image with busybox and the file /who, made when first asked for."""
    bench = Bench(Tree(), registry, tmp_path_factory.mktemp("bases"), [])
    builder = bench.builder()
    made: dict[Arch, Base] = {}

    def base(arch: Arch) -> Base:
        if arch not in made:
            files: dict[str, File] = {
                "bin/busybox": ("100755", busybox(arch)),
                "who": b"pinned\n",
                **{
                    f"bin/{name}": ("120000", b"busybox")
                    for name in ("sh", "sleep", "setsid", "uname", "cat", "cp")
                },
            }
            recipe = Recipe("FROM scratch\nCOPY . /\nENV PATH=/bin\n", files, arch)
            ref = f"{registry}/base/{arch}:1"
            builder.ensure(recipe.request(bench.tree, f"base-{arch}", ref))
            (build,) = ended(builder, f"base-{arch}")
            assert build.phase is Phase.SUCCEEDED, build.message
            made[arch] = Base(ref, build.digest)
        return made[arch]

    yield base
    bench.close()
