"""Synthetic base images: for every architecture one that runs here and says it is the other.

No emulation: the shell and the tools are this machine's, from Debian; the image's configuration, and `uname`, `arch`,
`dpkg`, `rpm` and `apk`, name the architecture that is asked for.
Belongs here: fetching the programs and building the bases. Does not belong here: building on them (`judge`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from reconciler import process
from reconciler.core.model import Arch

BASE: Final = "localhost/oracle/base:1"
"""`/bin/sh` is bash, as on Fedora and RHEL."""
DASH: Final = "localhost/oracle/dash:1"
"""`/bin/sh` is dash, as on Debian."""
FILES: Final = "localhost/oracle/files:1"
"""No programs: files to copy from, others for each architecture."""

_PACKAGES: Final = ("bash-static", "busybox-static", "dash", "libc6")
_APPLETS: Final = (
    "basename cat chmod chown cp cut dirname env find grep head id install ln ls mkdir mknod mv od printenv "
    "readlink rm rmdir sed sleep sort stat tail tee touch tr wc xargs"
)
_LIMIT: Final = 120.0
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CONTAINERFILE: Final = f"FROM scratch\nENV PATH={_PATH}\nCOPY . /\n"


class Store:
    """A buildah store below `root` with one storage driver. Its images live as long as the folder."""

    def __init__(self, root: Path, driver: str) -> None:
        self.root = root
        self.driver = driver

    def run(self, *words: str, offline: bool = False, timeout: float = _LIMIT) -> process.Finished:
        """Run buildah on this store; `offline` takes the network away.

        What it mounts is gone with it, even when it fails or is ended.
        """
        (self.root / "tmp").mkdir(parents=True, exist_ok=True)
        argv = ["unshare", "--mount", *(["--net"] if offline else []), "--"]
        argv += ["buildah", "--root", f"{self.root}/root", "--runroot", f"{self.root}/run"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root), "TMPDIR": str(self.root / "tmp")}
        return process.run([*argv, "--storage-driver", self.driver, *words], env=environment, timeout=timeout)

    def copy_to(self, root: Path) -> Store:
        """The same store in another, new folder: builders that share a store wait for each other."""
        _run(["cp", "--archive", f"{self.root}/.", str(root)], self.root)
        return Store(root, self.driver)


def build_bases(work: Path) -> Store:
    """A store with the bases of all architectures. `work` is an empty folder.

    With overlay a layer is what was written; vfs, for machines that cannot do overlay, compares whole trees and waits
    for the next second each time. Raises RuntimeError when neither works.
    """
    programs = _programs()
    trees = {arch: _trees(work / "trees" / arch, arch, programs) for arch in Arch}
    complaint = ""
    for driver in ("overlay", "vfs"):
        store = Store(work / driver, driver)
        complaint = _build(store, trees)
        if not complaint:
            return store
    raise RuntimeError(f"buildah cannot build a base: {complaint}")


def _build(store: Store, trees: dict[Arch, dict[str, Path]]) -> str:
    """Build every base; give what buildah complains of, or ''."""
    for arch, images in trees.items():
        for image, tree in images.items():
            recipe = tree.with_suffix(".containerfile")
            recipe.write_text(_CONTAINERFILE)
            fixed = [
                "-q",
                "--isolation",
                "chroot",
                "--timestamp",
                "0",
                "--layers=false",
                "--identity-label=false",
            ]
            target = ["--platform", arch.platform, "--manifest", image, "-f", str(recipe), str(tree)]
            done = store.run("bud", *fixed, *target)
            if done.status:
                return done.complaint
    return ""


def _trees(work: Path, arch: Arch, programs: Path) -> dict[str, Path]:
    """The root file systems of one architecture, by image."""
    base, dash, files = work / "base", work / "dash", work / "files"
    for folder in ("bin", "usr/bin", "usr/local/bin", "etc", "tmp", "var/lib", "opt"):
        (base / folder).mkdir(parents=True)
    (base / "tmp").chmod(0o1777)
    (base / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\napp:x:1000:1000:app:/:/bin/sh\n")
    (base / "etc/group").write_text("root:x:0:\napp:x:1000:\n")
    for name in ("bash", "busybox"):
        shutil.copy(programs / name, base / "bin" / name)
    for name in _APPLETS.split():
        (base / "bin" / name).symlink_to("busybox")
    for name, script in _shims(arch):
        (base / "usr/bin" / name).write_text(script)
        (base / "usr/bin" / name).chmod(0o755)
    shutil.copytree(base, dash, symlinks=True)
    (base / "bin/sh").symlink_to("bash")
    shutil.copytree(programs / "dash", dash, symlinks=True, dirs_exist_ok=True)
    (dash / "bin/sh").symlink_to("dash")
    files.mkdir()
    (files / "common").write_text("common\n")
    (files / "machine").write_text(f"{arch.machine}\n")
    return {BASE: base, DASH: dash, FILES: files}


def _shims(arch: Arch) -> Iterable[tuple[str, str]]:
    """Programs that tell the architecture. They run under busybox, which reads no settings of a shell."""
    head, machine = "#!/bin/busybox sh\n", arch.machine
    uname = (
        f'for w in "$@"; do case $w in -m|-p|-i) echo {machine}; exit;; '
        f"-a) echo Linux host 6 {machine}; exit;; esac; done; echo Linux\n"
    )
    yield "uname", head + uname
    yield "arch", f"{head}echo {machine}\n"
    yield "dpkg", f"{head}case $1 in --print-architecture) echo {arch.debian};; *) exit 1;; esac\n"
    yield (
        "rpm",
        f'{head}case "$1 $2" in "--eval %_arch"|"--eval %{{_arch}}") echo {machine};; *) exit 1;; esac\n',
    )
    yield "apk", f"{head}case $1 in --print-arch) echo {machine};; *) exit 1;; esac\n"


def _programs() -> Path:
    """The folder with `bash`, `busybox` and, below `dash`, that shell with its libraries. Fetched once, by apt."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "machine-os-reconciler-oracle"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = cache / "programs"
        if not done.exists():
            for left in ("packages", "unpacked", "new"):
                shutil.rmtree(cache / left, ignore_errors=True)
            _fetch(cache).rename(done)
    return done


def _fetch(cache: Path) -> Path:
    """Download the packages and take what is needed out of them; nothing is installed."""
    packages, unpacked, new = cache / "packages", cache / "unpacked", cache / "new"
    packages.mkdir()
    # Without a user of its own apt does not try to let that user write into our private folder.
    _run(["apt-get", "-qq", "-oAPT::Sandbox::User=root", "download", *_PACKAGES], packages)
    for package in packages.iterdir():
        _run(["dpkg-deb", "--extract", str(package), str(unpacked)], packages)
    (new / "dash/bin").mkdir(parents=True)
    shutil.copy(unpacked / "bin/bash-static", new / "bash")
    shutil.copy(unpacked / "bin/busybox", new / "busybox")
    shutil.copy(unpacked / "bin/dash", new / "dash/bin/dash")
    for pattern in ("lib*/**/libc.so.6", "lib*/**/ld*.so.*"):
        for library in unpacked.glob(pattern):
            target = new / "dash" / library.relative_to(unpacked)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target, follow_symlinks=False)
    return new


def _run(argv: list[str], cwd: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    done = process.run(argv, env=environment, cwd=cwd, timeout=_LIMIT)
    if done.status:
        raise RuntimeError(f"{' '.join(argv)} failed: {done.complaint}")
