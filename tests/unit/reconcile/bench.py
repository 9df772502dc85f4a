"""A daemon's surroundings in memory: a repository, a registry with a base image, and builds that end when told."""

from __future__ import annotations

import json

from reconciler.core.engine import Engine
from reconciler.core.plan import Action
from reconciler.core.status import read_status
from reconciler.ports import OCI_INDEX, OCI_MANIFEST
from reconciler.reconcile.history import History
from reconciler.reconcile.planning import Place, World
from reconciler.reconcile.reconciler import Reconciler, Result
from reconciler.reconcile.targets import Scope
from tests.fakes import FakeBuilder, FakeClock, FakeRegistry, FakeRepository, Files
from tests.unit.definitions import config, mosc

BASE = "quay.io/os/base"
REPOSITORY = "registry.example.com/os/worker"
FILES: dict[str, bytes | str] = {
    "reconciler.yaml": config(),
    "p/os.yaml": mosc("worker"),
    "p/Containerfile": f"FROM {BASE}:1\nARG TARGETARCH\nCOPY files/${{TARGETARCH}}/ /\n",
    "p/files/amd64/x": "x",
    "p/files/arm64/x": "x",
}

ENGINE = Engine()


class Bench:
    """One repository, registry and builder, which daemons with different engines work on."""

    def __init__(self) -> None:
        self.repository = FakeRepository()
        self.registry = FakeRegistry()
        self.clock = FakeClock()
        self.builder = FakeBuilder(self.clock)
        self.commit(FILES)
        self.push_base("first")

    def push_base(self, content: str) -> None:
        """Let the base's tag name an index over two new images."""
        manifests = []
        for arch in ("amd64", "arm64"):
            self.push_image(BASE, f"{arch}-{content}", arch, {})
            digest = self.registry.manifests[BASE, f"{arch}-{content}"].digest
            manifests.append({"digest": digest, "platform": {"architecture": arch, "os": "linux"}})
        index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests}
        self.registry.add(BASE, "1", OCI_INDEX, json.dumps(index).encode())

    def commit(self, files: Files) -> None:
        """What an author does: the status files stay."""
        kept = self.repository.commits[-1] if self.repository.commits else {}
        status = {path: text for path, text in kept.items() if path.startswith("status/")}
        self.repository.add({**files, **status})

    def push_image(self, repository: str, reference: str, arch: str, annotations: dict[str, str]) -> None:
        """A single image, as buildah pushes it."""
        blob = self.registry.add_blob(
            repository, json.dumps({"architecture": arch, "os": "linux", "n": reference}).encode()
        )
        manifest = {"mediaType": OCI_MANIFEST, "config": {"digest": blob}, "annotations": annotations}
        self.registry.add(repository, reference, OCI_MANIFEST, json.dumps(manifest).encode())

    def reconciler(self, history: History) -> Reconciler:
        """A daemon that reads with `history`."""
        world = World(
            repository=self.repository,
            registry=self.registry,
            builder=self.builder,
            clock=self.clock,
            history=history,
            place=Place("main", "main"),
            scope=Scope(),
        )
        return Reconciler(world)

    def run(self, engine: Engine = ENGINE) -> Result:
        """One pass of a daemon that has just started."""
        return self.reconciler(History(self.repository, engine=engine)).run_pass()

    def end_builds(self) -> None:
        """Every build that runs ends well, and has pushed its image."""
        for name, build in self.builder.known.items():
            if not build.ended:
                request = self.builder.requests[name]
                repository, _, tag = request.image.rpartition(":")
                self.push_image(repository, tag, request.arch.value, dict(request.annotations))
                self.builder.end(name)

    def settle(self, engine: Engine = ENGINE) -> Result:
        """Passes until nothing is in flight."""
        while (result := self.run(engine)).in_flight:
            self.end_builds()
        return result

    @property
    def started(self) -> int:
        """How many builds were ever begun."""
        return len(self.builder.requests)

    def images(self) -> dict[str, str]:
        """What the status file names now."""
        path = "status/worker.yaml"
        content = self.repository.commits[-1][path]
        assert isinstance(content, bytes)
        return {entry.arch.value: entry.image for entry in read_status(content, path).architectures}


def actions(result: Result) -> set[Action]:
    """The actions of a plan."""
    return {cell.action for pool in result.plan.pools for cell in pool.cells}
