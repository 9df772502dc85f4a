"""Our own image, really built from the Containerfile and run.

Its base stands in for docker.io's `debian:trixie-slim`: the same distribution, put together by debootstrap, as no
registry need be reachable here. What this machine trusts counts in the build too, since packages come through it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reconciler.adapters import shfmt

pytestmark = [pytest.mark.tools, pytest.mark.timeout(900)]

PROJECT = Path(__file__).parents[2]
BASE = "docker.io/library/debian:trixie-slim"
IMAGE = "localhost/reconciler:test"
MIRROR = "http://deb.debian.org/debian"
TRUST = Path("/etc/ssl/certs/ca-certificates.crt")


class Store:
    """A storage of buildah's own, and one container of the image in it: with vfs each is a whole copy."""

    def __init__(self, root: Path) -> None:
        self._options = [
            "--root",
            str(root / "store"),
            "--runroot",
            str(root / "run"),
            "--storage-driver",
            "vfs",
        ]
        self._container = ""

    def buildah(self, *words: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            ["buildah", *self._options, *words], capture_output=True, text=True, timeout=800, check=False
        )
        assert done.returncode == 0, f"buildah {words[0]}: {(done.stdout + done.stderr)[-3000:]}"
        return done.stdout.strip()

    def run(self, *argv: str, mount: str = "") -> str:
        """What a program in the image prints."""
        self._container = self._container or self.buildah("from", "--pull-never", IMAGE)
        volume = ["--volume", mount] if mount else []
        return self.buildah("run", "--isolation", "chroot", *volume, self._container, "--", *argv)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The image, built."""
    root = tmp_path_factory.mktemp("image")
    store = Store(root)
    container = store.buildah("from", "scratch")
    store.buildah("add", "--quiet", container, str(_debian()), "/")
    store.buildah("commit", "--quiet", "--rm", container, BASE)
    context = root / "context"
    shutil.copytree(
        PROJECT / "reconciler", context / "reconciler", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("Containerfile", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, context)
    # Volumes of a build are not in the image.
    trust = ["--volume", f"{TRUST}:/usr/local/share/ca-certificates/machine.crt:ro"] if TRUST.exists() else []
    store.buildah("build", "--isolation", "chroot", "--pull-never", *trust, "--tag", IMAGE, str(context))
    yield store
    shutil.rmtree(root)


def _debian() -> Path:
    """An archive of Debian's smallest installation, made once and kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "machine-os-reconciler"
    archive = cache / "debian-trixie.tar"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            root, made = Path(scratch, "root"), Path(scratch, archive.name)
            _run(["debootstrap", "--variant=minbase", "trixie", str(root), MIRROR])
            _run(["tar", "--create", "--file", str(made), "--directory", str(root), "."])
            made.replace(archive)
    return archive


def _run(argv: Sequence[str]) -> None:
    """Run what needs root, Debian's tools and its mirror: where there are none, a test cannot be made."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
        problem = (done.stdout + done.stderr)[-1000:] if done.returncode else ""
    except OSError as error:
        problem = str(error)
    if not problem:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, and the image has to be built: {argv[0]}: {problem}", pytrace=False)
    pytest.skip(f"Debian cannot be put together here by {argv[0]}: {problem}")


def _git(repository: Path, *words: str) -> None:
    identity = ["-c", "user.name=Ada Admin", "-c", "user.email=ada@example.com"]
    subprocess.run(["git", "-C", str(repository), *identity, *words], timeout=60, check=True)


def test_it_runs_the_command_as_nobody_in_particular(store: Store) -> None:
    assert store.run("reconciler", "--version").startswith("reconciler, version ")
    assert store.run("id", "-u") == "1000"
    config = json.loads(store.buildah("inspect", "--type", "image", IMAGE))["OCIv1"]["config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == ("1000", ["reconciler"], ["--help"])


def test_it_has_all_programs_that_are_called(store: Store) -> None:
    programs = ["git", "buildah", "gpg", "ssh", "ssh-keygen", "shfmt", "newuidmap", "crun"]
    found = store.run("sh", "-c", f"for one in {' '.join(programs)}; do command -v $one; done")
    assert [Path(line).name for line in found.splitlines()] == programs


def test_it_plans_what_this_tree_plans(store: Store, tmp_path: Path) -> None:
    repository = tmp_path / "machine-os"
    shutil.copytree(PROJECT / "examples-repo", repository)
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Begin"]):
        _git(repository, *words)
    argv = ["plan", "--arch", "s390x", "--arch", "arm64", "--output", "json"]
    here = subprocess.run(
        [sys.executable, "-m", "reconciler", *argv, "--repo", str(repository)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    there = store.run("reconciler", *argv, "--repo", "/repository", mount=f"{repository}:/repository:ro")
    assert json.loads(there) == json.loads(here.stdout)


def test_elsewhere_it_takes_the_shfmt_of_the_wheels() -> None:
    text = (PROJECT / "Containerfile").read_text()
    program = shfmt.installed()
    edition = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert f"mvdan.cc/sh/v3/cmd/shfmt@{edition.stdout.strip()}" in text
    assert f" {shfmt.edition().replace('shfmt-py-', 'shfmt-py==')}\n" in text
