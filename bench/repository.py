"""A Git repository of N pools for four architectures, always the same bytes and commit ids for the same N.

Belongs here: what a realistic repository looks like, and commits that change one file of it.
Does not belong here: measuring. Run it to look at one: `python -m bench.repository FOLDER --pools 10 --recorded`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from reconciler import process

ARCHITECTURES = ("amd64", "arm64", "ppc64le", "s390x")
FILES_PER_POOL = 9
_AUTHOR = "Ada Admin <ada@example.com>"
_EPOCH = 1_700_000_000
_LIMIT = 300.0
GIT_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}

_CONFIG = f"""\
apiVersion: reconciler.machineos.dev/v1alpha1
kind: RepositoryConfig
architectures: [{", ".join(ARCHITECTURES)}]
statusPath: status
"""

_DEFINITION = """\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineOSConfig
metadata:
  name: {pool}
spec:
  machineConfigPool:
    name: {pool}
  imageBuilder:
    imageBuilderType: Job
  renderedImagePushSecret:
    name: os-push
  renderedImagePushSpec: registry.example.com/os/{pool}:latest
"""

_CONTAINERFILE = """\
# Machine OS of pool {pool}.
ARG OS_VERSION=9.{minor}
FROM registry.example.com/os/base:${{OS_VERSION}} AS base

FROM base AS tools
COPY files/common/ /tools/

FROM base
ARG TARGETARCH
COPY files/common/sysctl.conf /etc/sysctl.d/90-{pool}.conf
COPY files/${{TARGETARCH}}/ /etc/tuning.d/
# Packages that only one architecture has.
RUN case "$(uname -m)" in \\
      x86_64) install -d /etc/modprobe.d && echo "options kvm_intel nested=1" > /etc/modprobe.d/kvm.conf ;; \\
      s390x) install -d /etc/zipl ;; \\
      *) true ;; \\
    esac && \\
    if [ "$TARGETARCH" = arm64 ]; then echo 64k > /etc/page-size; fi
RUN install -m 0644 /etc/tuning.d/tuning.conf /etc/{pool}.conf
COPY --from=tools /tools/motd /etc/motd
ENV NODE_ROLE={pool}
LABEL org.opencontainers.image.title="{pool}" \\
      org.opencontainers.image.description="Nodes of pool {pool}"
"""


def pool_name(number: int) -> str:
    """The name of a pool; they sort in the order of their numbers."""
    return f"pool-{number:04}"


def pool_files(number: int) -> dict[str, str]:
    """A pool's files by path below the root. Every pool's content differs, as it does in real repositories."""
    pool = pool_name(number)
    folder = f"pools/{pool}"
    files = {
        "machineosconfig.yaml": _DEFINITION.format(pool=pool),
        "Containerfile": _CONTAINERFILE.format(pool=pool, minor=number % 4),
        ".containerignore": "*.md\n",
        "files/common/sysctl.conf": f"net.ipv4.tcp_keepalive_time = {300 + number}\nvm.swappiness = 10\n",
        "files/common/motd": f"Welcome to {pool}.\n",
        **{f"files/{arch}/tuning.conf": f"# {arch}\nrole = {pool}\n" for arch in ARCHITECTURES},
    }
    assert len(files) == FILES_PER_POOL
    return {f"{folder}/{path}": text for path, text in files.items()}


def all_files(pools: int) -> Iterator[tuple[str, str]]:
    """Every file of the repository."""
    yield "reconciler.yaml", _CONFIG
    yield "README.md", "# Machine OS images\n"
    for number in range(pools):
        yield from pool_files(number).items()


def edit(pools: int, turn: int) -> dict[str, str]:
    """The files that one-file commit number `turn` changes: a file for arm64 of a pool in the middle."""
    path = f"pools/{pool_name(pools // 2)}/files/arm64/tuning.conf"
    return {path: f"# arm64\nturn = {turn}\n"}


def create(folder: Path, pools: int) -> None:
    """A bare repository with two commits: everything, and one file changed."""
    process_git(folder.parent, "init", "--quiet", "--bare", "--initial-branch=main", str(folder))
    with tempfile.TemporaryFile() as stream:
        _write_commit(stream, "Define machine OS images", all_files(pools), 0)
        _write_commit(stream, "Tune arm64", edit(pools, 0).items(), 1)
        _import(folder, stream)


def commit(folder: Path, files: Mapping[str, str], turn: int) -> None:
    """One more commit on main. `turn` numbers the commits and gives the date."""
    with tempfile.TemporaryFile() as stream:
        _write_commit(stream, f"Change {turn}", files.items(), turn + 1, parent="refs/heads/main^0")
        _import(folder, stream)


def record(folder: Path) -> None:
    """Commit the status files that a reconciler would have written for the tip of main.

    The images in them do not exist: an offline plan asks nobody.
    """
    # Only here: a process that measures others stays small without them (see `own_peak_mib`).
    from reconciler.cli.local import engine
    from reconciler.core.model import Arch, Base
    from reconciler.core.status import ArchRecord, PoolRecord, write_status

    tip = process_git(folder, "rev-parse", "main")
    argv = [sys.executable, "-m", "reconciler", "plan", "--output", "json"]
    with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as cache:
        env = {**GIT_ENV, "PYTHONPATH": str(Path(__file__).parents[1]), "XDG_CACHE_HOME": cache}
        done = process.run(argv, env=env, timeout=_LIMIT, cwd=folder)
    if done.status:
        raise RuntimeError(f"reconciler plan failed:\n{done.complaint}")
    version, written = engine().version, {}
    for number, pool in enumerate(json.loads(done.stdout)["pools"]):
        name = pool["name"]
        repository = f"registry.example.com/os/{name}"
        ref = f"registry.example.com/os/base:9.{number % 4}"
        entries = []
        for arch, cell in pool["architectures"].items():
            image = f"{repository}@{_digest(f'{name} {arch}')}"
            bases = (Base(ref, _digest(f"{ref} {arch}")),)
            made = _digest(f"{cell['definition']} {bases}")
            entries.append(ArchRecord(Arch(arch), image, made, cell["definition"], tip, "", bases))
        index = f"{repository}@{_digest(name)}"
        written[f"status/{name}.yaml"] = write_status(
            PoolRecord(name, "default", version, index, tip, tuple(entries))
        ).decode()
    commit(folder, written, 1)
    commit(folder, edit(len(written), 2), 2)


def process_git(cwd: Path, *words: str) -> str:
    """Run git, which has to succeed, and give what it printed."""
    done = process.run(["git", *words], env=GIT_ENV, timeout=_LIMIT, cwd=cwd)
    if done.status:
        raise RuntimeError(f"git {' '.join(words)} failed:\n{done.complaint}")
    return done.stdout.decode().strip()


def _import(folder: Path, stream: IO[bytes]) -> None:
    stream.seek(0)  # flushes too; git reads on from the same offset
    argv = ["git", "fast-import", "--quiet"]
    child = process.start(argv, env=GIT_ENV, cwd=folder, stdin=stream.fileno())
    done = process.finish(child, argv, timeout=_LIMIT)
    if done.status:
        raise RuntimeError(f"git fast-import failed:\n{done.complaint}")


def _write_commit(
    stream: IO[bytes], message: str, files: Iterable[tuple[str, str]], turn: int, parent: str = ""
) -> None:
    """A commit in the language of git-fast-import(1). Without `parent` it follows the stream's last one."""
    when = f"{_AUTHOR} {_EPOCH + 60 * turn} +0000"
    stream.write(f"commit refs/heads/main\nauthor {when}\ncommitter {when}\n".encode())
    stream.write(_data(message.encode()))
    if parent:
        stream.write(f"from {parent}\n".encode())
    for path, text in files:
        stream.write(f"M 100644 inline {path}\n".encode() + _data(text.encode()))
    stream.write(b"\n")


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    """Make one."""
    parser = argparse.ArgumentParser(prog="bench.repository", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pools", type=int, default=10)
    parser.add_argument("--recorded", action="store_true", help="with a status file per pool")
    chosen = parser.parse_args()
    create(chosen.folder, chosen.pools)
    if chosen.recorded:
        record(chosen.folder)


if __name__ == "__main__":
    main()
