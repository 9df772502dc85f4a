"""A place to try the whole tool in: a registry with a base, a bare repository, an author's clone, a configuration.

Used by the demo and by end-to-end tests. Does not belong here: what is told or checked.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from reconciler import process
from reconciler.adapters.clock import SystemClock
from reconciler.adapters.registry import HttpRegistry
from reconciler.core.index import load
from reconciler.core.status import PoolRecord, read_status
from tests.servers.registry import RegistryServer

EXAMPLES = Path(__file__).parents[2] / "examples-repo"
PLACEHOLDER = "registry.example.com"
_PLATFORMS = "linux/amd64,linux/arm64,linux/ppc64le,linux/s390x"
_LIMIT = 4 << 20


@dataclass(frozen=True, slots=True)
class Said:
    """What a command came to."""

    status: int
    out: str
    err: str


class _Nowhere:
    """Stands where a stage has its registry."""

    host = "127.0.0.1:19"


class Stage:
    """Everything lies below `root`; the author works in `work`, the reconciler watches `bare`.

    `host` is where the registry is reached, when that is not at its own address.
    """

    def __init__(self, root: Path, registry: RegistryServer, host: str = "") -> None:
        self.root = root
        self.registry = registry
        self.host = host or registry.host
        self.work = root / "machine-os"
        self.bare = root / "machine-os.git"
        self.config = root / "reconciler-config.yaml"
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "XDG_CACHE_HOME": str(root / "cache"),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ada Admin",
            "GIT_AUTHOR_EMAIL": "ada@example.com",
            "GIT_COMMITTER_NAME": "Ada Admin",
            "GIT_COMMITTER_EMAIL": "ada@example.com",
        }

    @classmethod
    def alone(cls, root: Path) -> Self:
        """One without a registry, for what asks none; nobody answers at its `host`."""
        return cls(root, _Nowhere())  # type: ignore[arg-type]  # only its host is asked for

    # -- setting it up

    def build_base(self, tag: str = "1", context: Path = EXAMPLES / "base") -> None:
        """Push a base image for four architectures; it stands in for a bootc image from the internet."""
        storage = self.root / "base-storage"
        tool = [
            "buildah",
            "--root",
            f"{storage}/root",
            "--runroot",
            f"{storage}/run",
            "--storage-driver",
            "vfs",
        ]
        build = ["build", "--quiet", "--isolation", "chroot", "--timestamp", "0", "--platform", _PLATFORMS]
        self.run(*tool, *build, "--manifest", f"base-{tag}", str(context))
        target = f"docker://{self.host}/os/base:{tag}"
        self.run(*tool, "manifest", "push", "--all", "--tls-verify=false", f"base-{tag}", target)
        self.run(*tool, "manifest", "rm", f"base-{tag}")
        self.run(*tool, "rmi", "--all", "--force")
        shutil.rmtree(storage, ignore_errors=True)

    def create_repository(self, source: Path = EXAMPLES) -> None:
        """A bare repository with the definitions of `source`, pointed at our registry, and a configuration for it."""
        shutil.copytree(source, self.work, symlinks=True)
        for path in self.work.rglob("*"):
            if path.is_file() and not path.is_symlink() and PLACEHOLDER in (text := path.read_text()):
                path.write_text(text.replace(PLACEHOLDER, self.host))
        self.run("git", "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("remote", "add", "origin", str(self.bare))
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Define machine OS images")
        self.git("push", "--quiet", "--set-upstream", "origin", "main")
        self.config.write_text(
            "apiVersion: reconciler.machineos.dev/v1alpha1\n"
            "kind: ReconcilerConfig\n"
            f"source: {{url: {self.bare}, branch: main}}\n"
            f'registry: {{insecure: ["{self.host}"]}}\n'
        )

    # -- doing things

    def run(self, *argv: str, cwd: Path | None = None, timeout: float = 240) -> str:
        """Run a program that has to succeed; returns its standard output."""
        done = process.run(argv, env=self.env, timeout=timeout, cwd=cwd)
        if done.status:
            raise RuntimeError(f"{' '.join(argv)} failed:\n{done.complaint}")
        return done.stdout.decode()

    def git(self, *words: str) -> str:
        """Run git in the author's clone."""
        return self.run("git", *words, cwd=self.work).strip()

    def commit(self, message: str) -> str:
        """Commit everything and push it; returns the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        self.push()
        return self.git("rev-parse", "HEAD")

    def push(self) -> None:
        """Push the author's branch, on top of what the reconciler committed."""
        self.git("pull", "--quiet", "--rebase")
        self.git("push", "--quiet", "origin", "main")

    def reconciler(self, *words: str, cwd: Path | None = None, timeout: float = 240) -> Said:
        """Run the command line as a user would."""
        argv = [sys.executable, "-m", "reconciler", *words]
        done = process.run(argv, env=self.env, timeout=timeout, cwd=cwd or self.root)
        return Said(done.status, done.stdout.decode(), done.stderr.decode())

    def once(self) -> Said:
        """One run to the end."""
        return self.reconciler("once", "--config", str(self.config))

    # -- looking at it

    def tip(self) -> str:
        """The commit at the tip of the watched branch."""
        return self.run("git", "--git-dir", str(self.bare), "rev-parse", "main").strip()

    def show(self, path: str, revision: str = "main") -> bytes:
        """A file on the watched branch."""
        return self.run("git", "--git-dir", str(self.bare), "show", f"{revision}:{path}").encode()

    def record(self, pool: str, revision: str = "main") -> PoolRecord:
        """A pool's status file on the watched branch."""
        path = f"status/{pool}.yaml"
        return read_status(self.show(path, revision), path)

    def elsewhere(self) -> Stage:
        """The same stage on another machine: with a cache of its own."""
        other = Stage(self.root, self.registry, self.host)
        other.env = {**self.env, "XDG_CACHE_HOME": str(self.root / "other-cache")}
        return other

    def manifest(self, image: str) -> dict[str, Any]:
        """A manifest or index of the registry; `image` is `repository@digest` or `repository:tag`."""
        repository, reference = _split(image)
        with HttpRegistry(SystemClock(), insecure=frozenset({self.host})) as registry:
            found = registry.manifest(repository, reference)
        if found is None:
            raise LookupError(image)
        return load(found.content)

    def image_config(self, image: str) -> dict[str, Any]:
        """The configuration of a single image."""
        repository, _ = _split(image)
        digest = self.manifest(image)["config"]["digest"]
        with HttpRegistry(SystemClock(), insecure=frozenset({self.host})) as registry:
            return load(registry.blob(repository, digest, _LIMIT))

    def pushed_images(self) -> list[str]:
        """Tags of arch images in the order their manifests were pushed, repeated pushes included: from the log."""
        found = []
        for line in self.registry.log.read_text().splitlines():
            if '"PUT /v2/' in line and "/manifests/" in line:
                found.append(line.split("/manifests/")[1].split()[0])
        return found


def _split(image: str) -> tuple[str, str]:
    repository, at, digest = image.partition("@")
    if at:
        return repository, digest
    repository, _, tag = image.rpartition(":")
    return repository, tag
