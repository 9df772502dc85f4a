"""Tells the story of five commits: the first builds everything, the rest as little as possible."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler import process
from tests.servers.registry import docker_registry
from tests.servers.stage import Stage


class Storyteller(Stage):
    """A stage on which commands are run as the reader would, and shown."""

    def show_run(self, *argv: str, cwd: Path | None = None) -> None:
        """Show a command and what it says."""
        words = [word.replace(f"{self.root}/", "") for word in argv]
        print(f"$ {' '.join(words)}", flush=True)
        program = [sys.executable, "-m", *argv] if argv[0] == "reconciler" else list(argv)
        child = process.start(
            program, env=self.env, cwd=cwd, stdout=sys.stdout.fileno(), stderr=sys.stderr.fileno()
        )
        try:
            status = child.wait(timeout=300)
        finally:
            process.kill(child)
        if status:
            raise SystemExit(f"{argv[0]} ended with status {status}")

    def plan(self) -> None:
        """What the last commit causes."""
        self.show_run("reconciler", "plan", "--repo", str(self.work), "--base", "HEAD~1")

    def reconcile(self) -> None:
        """One run of the reconciler."""
        self.show_run("reconciler", "once", "--config", str(self.config))


def heading(text: str) -> None:
    """A chapter."""
    print(f"\n\033[1m== {text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def append(path: Path, text: str) -> None:
    """Add to a file, as an editor would."""
    path.write_text(path.read_text() + text)


def tell(stage: Storyteller) -> None:
    """The five commits."""
    heading("1. The first commit: every image is built")
    stage.reconcile()

    heading("2. A kernel argument for arm64 workers: one image is built, the rest is reused")
    kargs = stage.work / "pools/worker/files/arm64/usr/lib/bootc/kargs.d/20-worker.toml"
    append(kargs, 'match-architectures = ["aarch64"]\n')
    stage.commit("Match arm64 workers only")
    stage.show_run("git", "--no-pager", "show", "--stat", "--format=%h %s", cwd=stage.work)
    stage.plan()
    stage.reconcile()

    heading("3. A comment: nothing is built, nothing is written")
    append(stage.work / "pools/infra/Containerfile", "# Reviewed by the platform team.\n")
    stage.commit("Note the review")
    stage.plan()
    stage.reconcile()

    heading("4. A MachineConfig for arm64: built are the arm64 images that start FROM configs")
    huge = stage.work / "machineconfigs/51-worker-arm64.yaml"
    huge.write_text(huge.read_text().replace("64%0A", "128%0A"))
    stage.commit("More huge pages on arm64")
    stage.plan()
    stage.reconcile()

    heading("5. The change of step 2 is reverted: the earlier image is pointed to again")
    changed = stage.git("log", "--format=%H", "--grep=Match arm64", "-1")
    stage.git("revert", "--no-edit", changed)
    stage.push()
    stage.reconcile()


def conclude(stage: Storyteller) -> None:
    """What is there now, and how to go on."""
    stage.git("pull", "--quiet", "--rebase")
    heading("The manifest list of pool worker, as the registry has it")
    image = stage.record("worker").image
    host, _, path = image.partition("/")
    name, _, digest = path.partition("@")
    accept = "Accept: application/vnd.oci.image.index.v1+json"
    print(f"$ curl -H '{accept}' http://{host}/v2/{name}/manifests/{digest}")
    print(json.dumps(stage.manifest(image), indent=2))
    heading("The reconciler's own commits")
    stage.show_run("git", "--no-pager", "log", "--format=%h %an: %s", "--", "status", cwd=stage.work)
    heading("Your own repository")
    print(
        "Write reconciler-config.yaml:\n\n"
        "  apiVersion: reconciler.machineos.dev/v1alpha1\n"
        "  kind: ReconcilerConfig\n"
        "  source: {url: https://git.example.com/acme/machine-os.git, branch: main}\n\n"
        "then look first, and build when you like what you see:\n\n"
        "  .venv/bin/reconciler validate path/to/clone\n"
        "  .venv/bin/reconciler plan --repo path/to/clone --base HEAD~1\n"
        "  .venv/bin/reconciler once --config reconciler-config.yaml"
    )


@contextmanager
def folder() -> Iterator[Path]:
    """A temporary folder that is gone afterwards, whatever happened."""
    path = Path(tempfile.mkdtemp(prefix="reconciler-demo-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def main() -> None:
    """Tell the story."""
    started = time.monotonic()
    with folder() as root, docker_registry(root / "registry") as registry:
        stage = Storyteller(root, registry)
        print(f"A registry listens on {registry.host}; a bare repository lies in {stage.bare}.")
        stage.build_base()
        stage.create_repository()
        tell(stage)
        conclude(stage)
    print(f"\nDone in {time.monotonic() - started:.0f} s. Everything it made is gone again.")


if __name__ == "__main__":
    main()
