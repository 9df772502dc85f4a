"""What builder tests share: a Git repository in memory, a clock, and reading back what was pushed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from reconciler.core.model import Arch, Base, TreeEntry
from reconciler.ports import Build, Builder, BuildRequest

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
PATIENCE = 60.0

T = TypeVar("T")
File = bytes | tuple[str, bytes]


@dataclass
class Tree:
    """An `Objects` over blobs in memory. Only what builders may use works."""

    content: dict[str, bytes] = field(default_factory=dict)

    def add(self, files: Mapping[str, File]) -> tuple[TreeEntry, ...]:
        """Store files (bytes, or mode and bytes) and return their entries."""
        made = []
        for path, file in sorted(files.items()):
            mode, content = file if isinstance(file, tuple) else ("100644", file)
            oid = hashlib.sha1(content, usedforsecurity=False).hexdigest()
            self.content[oid] = content
            made.append(TreeEntry(path, mode, oid, len(content)))
        return tuple(made)

    def blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        return ((oid, self.content[oid]) for oid in oids if oid in self.content)

    def resolve(self, revision: str) -> str:
        raise AssertionError(revision)

    def tree(
        self, commit: str, under: str = "", only: Collection[str] | None = None
    ) -> tuple[TreeEntry, ...]:
        raise AssertionError(commit, under, only)

    def changes(self, old: str, new: str, under: str = "") -> frozenset[str]:
        raise AssertionError(old, new, under)

    def committed_at(self, commit: str) -> int:
        raise AssertionError(commit)

    def has(self, commit: str) -> bool:
        raise AssertionError(commit)

    def history(self, commit: str, path: str) -> tuple[str, ...]:
        raise AssertionError(commit, path)

    def is_ancestor(self, older: str, newer: str) -> bool:
        raise AssertionError(older, newer)

    def parents(self, commit: str) -> tuple[str, ...]:
        raise AssertionError(commit)


class WallClock:
    """Real time."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True)
class Recipe:
    """The parts of a request that tests vary."""

    containerfile: str
    files: Mapping[str, File] = field(default_factory=dict)
    arch: Arch = Arch.AMD64
    bases: tuple[Base, ...] = ()
    ignorefile: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)

    def request(self, tree: Tree, name: str, image: str) -> BuildRequest:
        return BuildRequest(
            name=name,
            pool="worker",
            arch=self.arch,
            containerfile=self.containerfile,
            ignorefile=self.ignorefile,
            context=tree.add(self.files),
            bases=self.bases,
            image=image,
            annotations=self.annotations,
        )


def ended(builder: Builder, *names: str) -> tuple[Build, ...]:
    """Wait for builds to end, and return them in the order of their names."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = {build.name: build for build in builder.builds() if build.name in names}
        if all(build.ended for build in found.values()):
            return tuple(found[name] for name in names)
        builder.wait(1.0)
    raise AssertionError(f"still running: {builder.builds()}")


def until(look: Callable[[], T], what: str) -> T:
    """Look until there is something to see."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if seen := look():
            return seen
        time.sleep(0.02)
    raise AssertionError(f"never seen: {what}")


def running(marker: str) -> list[int]:
    """Processes that have this among their arguments, as RUN steps of a test do."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if marker.encode() in arguments and int(path.parts[2]) != os.getpid():
            found.append(int(path.parts[2]))
    return found


@dataclass(frozen=True)
class Image:
    """A pushed image, read back."""

    digest: str
    manifest: dict[str, Any]
    config: dict[str, Any]
    files: dict[str, tarfile.TarInfo]
    content: dict[str, bytes]


def pull(repository: str, reference: str) -> Image:
    """Read an image from a registry, with the files of all its layers."""
    host, _, path = repository.partition("/")
    url = f"http://{host}/v2/{path}"
    answer = httpx.get(f"{url}/manifests/{reference}", headers={"Accept": MANIFEST}).raise_for_status()
    manifest = answer.json()
    config = httpx.get(f"{url}/blobs/{manifest['config']['digest']}").raise_for_status().json()
    files: dict[str, tarfile.TarInfo] = {}
    content: dict[str, bytes] = {}
    for layer in manifest["layers"]:
        blob = httpx.get(f"{url}/blobs/{layer['digest']}").raise_for_status().content
        with tarfile.open(fileobj=io.BytesIO(blob)) as archive:
            for member in archive:
                files[member.name] = member
                file = archive.extractfile(member) if member.isreg() else None
                content[member.name] = file.read() if file else b""
    return Image("sha256:" + hashlib.sha256(answer.content).hexdigest(), manifest, config, files, content)


def push_index(repository: str, tag: str, children: Mapping[Arch, str]) -> str:
    """Put a manifest list over images of the same repository; return its digest."""
    host, _, path = repository.partition("/")
    url = f"http://{host}/v2/{path}/manifests"
    manifests = []
    for arch, digest in sorted(children.items()):
        size = len(httpx.get(f"{url}/{digest}", headers={"Accept": MANIFEST}).raise_for_status().content)
        platform = {"architecture": arch.value, "os": "linux"}
        manifests.append({"mediaType": MANIFEST, "digest": digest, "size": size, "platform": platform})
    content = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).encode()
    httpx.put(f"{url}/{tag}", content=content, headers={"Content-Type": INDEX}).raise_for_status()
    return "sha256:" + hashlib.sha256(content).hexdigest()
