"""Static programs of every architecture, for test images: Debian's busybox.

Belongs here: fetching them once, into a cache outside the repository.
Does not belong here: making the kernel run them (`binfmt`).
"""

from __future__ import annotations

import fcntl
import io
import os
import tarfile
from pathlib import Path

from reconciler import process
from reconciler.core.model import Arch

_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SOURCE = f"deb [signed-by={_KEYS}] http://deb.debian.org/debian bookworm main\n"
_ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C"}


def busybox(arch: Arch) -> bytes:
    """A static busybox for Linux on this architecture. The first call for any needs the network."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "machine-os-reconciler-tests"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        program = cache / f"busybox-{arch}"
        if not program.exists():
            _download(cache)
        return program.read_bytes()


def _download(cache: Path) -> None:
    """Fetch the packages with apt in a state of its own: the machine's is neither needed nor touched."""
    apt = cache / "apt"
    for folder in ("state/lists/partial", "cache/archives/partial", "packages"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    (apt / "sources.list").write_text(_SOURCE)
    settings = {
        "Dir::State": str(apt / "state"),
        "Dir::State::status": "/dev/null",
        "Dir::Cache": str(apt / "cache"),
        "Dir::Etc::sourcelist": str(apt / "sources.list"),
        "Dir::Etc::sourceparts": "/dev/null",
        "APT::Sandbox::User": "root",
        "Acquire::Retries": "3",
        "APT::Architecture": Arch.AMD64.debian,
    }
    options = [f"-o{name}={value}" for name, value in settings.items()]
    options += [f"-oAPT::Architectures::={arch.debian}" for arch in Arch]
    _run(["apt-get", "-qq", *options, "update"], apt)
    _run(
        ["apt-get", "-qq", *options, "download", *(f"busybox-static:{a.debian}" for a in Arch)],
        apt / "packages",
    )
    for arch in Arch:
        (package,) = (apt / "packages").glob(f"busybox-static_*_{arch.debian}.deb")
        files = _run(["dpkg-deb", "--fsys-tarfile", str(package)], apt)
        with tarfile.open(fileobj=io.BytesIO(files)) as archive:
            member = archive.extractfile("./bin/busybox")
            assert member is not None
            (cache / f"busybox-{arch}").write_bytes(member.read())


def _run(argv: list[str], cwd: Path) -> bytes:
    done = process.run(argv, env=_ENV, cwd=cwd, timeout=120)
    if done.status != 0:
        raise RuntimeError(f"{argv[0]} failed: {done.complaint}")
    return done.stdout
