"""What buildah makes of a definition: files and runtime configuration, without what does not count.

Belongs here: building, and reducing an image to what equality means (DESIGN §4.1): no times, no history, no layers, and
the environment as a map. Does not belong here: our own digests (`judge`).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from reconciler.core.model import Arch
from reconciler.errors import Timeout
from tests.oracle.bases import Store, build_bases
from tests.oracle.draft import Definition
from tests.oracle.machines import content, write_stage

_FLAGS: Final = (
    *("-q", "--isolation", "chroot", "--pull=never", "--timestamp", "0", "--layers=false"),
    *("--omit-history", "--identity-label=false", "--force-rm"),
)
_LIMIT: Final = 60.0
_BUILDS_PER_STORE: Final = 40
"""A store grows slower with its images; a new copy is cheaper than removing them."""


@dataclass(frozen=True, slots=True)
class Observed:
    """An image as far as it counts: the digest of its files, and its configuration as canonical JSON."""

    files: str
    config: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A build that ended without an image. `complaint` is not compared: it may name random folders."""

    complaint: str


class Builder:
    """Builds one definition at a time, in a store of its own below `folder`."""

    def __init__(self, bases: Store, folder: Path) -> None:
        self._bases = bases
        self._folder = folder
        self._store: Store | None = None
        self._builds = 0
        self._seen: dict[str, Observed] = {}

    def build(self, definition: Definition, arch: Arch) -> Observed | Failed:
        """Build and look at the result. Without network; no definition may take longer than a minute.

        What fails is tried again in a new store: some builds of buildah 1.28 leave a store that others fail in.
        """
        outcome = self._build(definition, arch)
        if isinstance(outcome, Failed) and self._builds > 1:
            self._store = None
            outcome = self._build(definition, arch)
        return outcome

    def _build(self, definition: Definition, arch: Arch) -> Observed | Failed:
        store = self._fresh_store()
        context, image, files = (self._folder / name for name in ("context", "image", "files.tar"))
        shutil.rmtree(context, ignore_errors=True)
        write_context(definition, context)
        if failed := self._supply(store, definition, arch):
            return failed
        target = ["--platform", arch.platform, "--iidfile", str(image), "--output", f"type=tar,dest={files}"]
        source = ["-f", f"{context}/Containerfile", str(context)]
        try:
            done = store.run("bud", *_FLAGS, *target, *source, offline=True, timeout=_LIMIT)
        except Timeout as error:
            return Failed(str(error))
        if done.status:
            return Failed(done.complaint)
        return self._look(store, image.read_text(), files)

    def _supply(self, store: Store, definition: Definition, arch: Arch) -> Failed | None:
        """Build what FROM configs means, as `build.sh` does."""
        supplied = content(definition, arch)
        if supplied is None:
            return None
        text, files = write_stage(supplied)
        folder = self._folder / "configs"
        shutil.rmtree(folder, ignore_errors=True)
        for path, data in files.items():
            (folder / "context" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "context" / path).write_bytes(data)
        (folder / "context").mkdir(parents=True, exist_ok=True)
        (folder / "Containerfile").write_text(text)
        target = ["--platform", arch.platform, "--tag", "localhost/configs:latest"]
        source = ["-f", f"{folder}/Containerfile", f"{folder}/context"]
        done = store.run("bud", *_FLAGS, *target, *source, offline=True, timeout=_LIMIT)
        return Failed(done.complaint) if done.status else None

    def _look(self, store: Store, image: str, files: Path) -> Observed:
        """An image's id is the digest of its configuration and layers: the same id needs no second look."""
        if image not in self._seen:
            found = store.run("inspect", "--type", "image", image)
            if found.status:
                raise RuntimeError(f"cannot inspect what was built: {found.complaint}")
            config = _canonical_config(json.loads(found.stdout)["OCIv1"])
            self._seen[image] = Observed(_digest_of_files(files), config)
        return self._seen[image]

    def _fresh_store(self) -> Store:
        if self._store is None or self._builds >= _BUILDS_PER_STORE:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(parents=True)
            self._store, self._builds = self._bases.copy_to(self._folder / "store"), 0
        self._builds += 1
        return self._store


class Builders:
    """As many builders as may work at once; `work` is an empty folder for all that they need."""

    def __init__(self, work: Path, count: int) -> None:
        bases = build_bases(work / "bases")
        self.count = count
        self.version = _version(bases)
        self._idle: SimpleQueue[Builder] = SimpleQueue()
        for number in range(count):
            self._idle.put(Builder(bases, work / f"builder-{number}"))

    @contextmanager
    def one(self) -> Iterator[Builder]:
        """Wait for an idle builder, and use it."""
        builder = self._idle.get()
        try:
            yield builder
        finally:
            self._idle.put(builder)


def write_context(definition: Definition, folder: Path) -> None:
    """Write a context as Git would check it out under umask 022."""
    folder.mkdir(parents=True, mode=0o755)
    (folder / "Containerfile").write_bytes(definition.text.encode())
    for path, file in definition.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.link:
            target.symlink_to(file.text)
        else:
            target.write_bytes(file.text.encode())
            target.chmod(0o755 if file.executable else 0o644)


def _digest_of_files(archive: Path) -> str:
    """Everything about every file but its times and its place in the archive."""
    found: list[list[object]] = []
    with tarfile.open(archive) as tar:
        for one in tar:
            content = tar.extractfile(one) if one.isreg() else None
            digest = hashlib.sha256(content.read()).hexdigest() if content else ""
            attributes = sorted((k, v) for k, v in one.pax_headers.items() if k.startswith("SCHILY.xattr."))
            device = [one.devmajor, one.devminor] if one.isdev() else []
            about = [one.name, int(one.type), one.mode, one.uid, one.gid, one.linkname, device, attributes]
            found.append([*about, digest])
    return hashlib.sha256(json.dumps(sorted(found, key=repr)).encode()).hexdigest()


def _canonical_config(image: dict[str, Any]) -> str:
    config = {key: value for key, value in image.get("config", {}).items() if value}
    if "Env" in config:
        config["Env"] = dict(entry.partition("=")[::2] for entry in config["Env"])
    platform = {key: image.get(key, "") for key in ("architecture", "os", "variant")}
    return json.dumps(platform | config, sort_keys=True)


def _version(store: Store) -> tuple[int, int]:
    words = store.run("--version").stdout.decode().split()
    major, minor = words[2].split(".")[:2]
    return int(major), int(minor)
