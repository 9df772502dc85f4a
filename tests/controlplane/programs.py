"""Where the control plane's programs come from: this machine, or a build of the published Go modules.

Belongs here: finding them, building them once, and saying exactly why neither was possible. Does not belong here:
running them.

The three servers come as one set, as each must be of the same version: from the folder `KUBEBUILDER_ASSETS`, else from
PATH, else built from `go.mod` beside this file into a cache outside the tree. kubectl is looked for in the same order.
etcd is not built; distributions have it.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Final

from reconciler import process
from reconciler.core.model import Arch
from tests.controlplane import kept

SERVERS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
KUBECTL: Final = "kubectl"
_HERE: Final = Path(__file__).parent
_OLDEST_KUBERNETES: Final = (1, 31)
"""The first whose Jobs have a pod failure policy that is not a preview."""
_OLDEST_GO: Final = (1, 21)
"""From here on Go fetches the toolchain that a go.mod asks for."""
BUILD_SECONDS: Final = 45 * 60.0
"""Cold on two cores it takes eight minutes."""
_TELL_EVERY: Final = 10.0
_ASK_SECONDS: Final = 60.0

Tell = Callable[[str], None]


class Unavailable(Exception):
    """There is no control plane to be had here; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of one control plane."""

    etcd: Path
    apiserver: Path
    controller_manager: Path
    scheduler: Path
    kubectl: Path


def find(tell: Tell | None = None, env: Mapping[str, str] = os.environ) -> Programs:
    """Find the programs, and build what is missing; `tell` hears how that goes.

    Raises Unavailable.
    """
    tell = tell or (lambda _: None)
    etcd = _first("etcd", env)
    if etcd is None:
        raise Unavailable(
            "there is no etcd, neither in KUBEBUILDER_ASSETS nor on PATH: apt-get install etcd-server"
        )
    servers = _set_of_servers(env, tell)
    kubectl = _first(KUBECTL, env)
    missing = [] if servers else list(SERVERS)
    if kubectl is None:
        missing.append(KUBECTL)
    built = _built(missing, env, tell) if missing else Path()
    apiserver, controller_manager, scheduler = servers or [built / name for name in SERVERS]
    return Programs(etcd, apiserver, controller_manager, scheduler, kubectl or built / KUBECTL)


def cache(env: Mapping[str, str] = os.environ) -> Path:
    """The folder of the programs that are built here."""
    base = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "machine-os-reconciler" / "kubernetes" / f"{version()}-linux-{_go_arch()}"


def version() -> str:
    """The version that is built, from go.mod: `v1.N.P`."""
    found = re.search(r"\bk8s\.io/kubernetes (v\S+)", (_HERE / "go.mod").read_text())
    assert found is not None, "go.mod names no version of k8s.io/kubernetes"
    return found[1]


# -- on this machine


def _places(env: Mapping[str, str]) -> list[str]:
    """Search paths, in order."""
    return [place for place in (env.get("KUBEBUILDER_ASSETS", ""), env.get("PATH", "")) if place]


def _first(name: str, env: Mapping[str, str]) -> Path | None:
    for place in _places(env):
        if found := shutil.which(name, path=place):
            return Path(found).absolute()
    return None


def _set_of_servers(env: Mapping[str, str], tell: Tell) -> list[Path] | None:
    """All three servers from one place, of one version that is new enough."""
    for place in _places(env):
        found = [Path(path).absolute() for name in SERVERS if (path := shutil.which(name, path=place))]
        if len(found) != len(SERVERS):
            continue
        versions = {_version_of(path, env) for path in found}
        if len(versions) == 1 and min(versions) >= _OLDEST_KUBERNETES:
            return found
        told = ", ".join(sorted(map(_dotted, versions)))
        tell(
            f"not using the servers in {found[0].parent}: they must all be of one version, 1.31 or newer ({told})"
        )
    return None


def _version_of(program: Path, env: Mapping[str, str]) -> tuple[int, ...]:
    """Major and minor version, (0,) when the program does not say."""
    done = process.run([str(program), "--version"], env=env, timeout=_ASK_SECONDS)
    found = re.search(rb"v(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else (0,)


# -- built


def _go_arch() -> str:
    machine = platform.machine()
    return next((arch.value for arch in Arch if arch.machine == machine), machine)


def _built(names: Sequence[str], env: Mapping[str, str], tell: Tell) -> Path:
    """The cache with these programs in it. Raises Unavailable."""
    target = cache(env)
    if all((target / name).exists() for name in names):
        return target
    go = _go(names, env)
    until = time.monotonic() + BUILD_SECONDS
    try:
        target.mkdir(parents=True, exist_ok=True)
        with _alone(target / "lock", until, tell):
            missing = [name for name in names if not (target / name).exists()]
            if missing:
                _fill(target, go, missing, env, until, tell)
    except OSError as error:
        raise Unavailable(f"{error}: name a folder to keep Kubernetes in (XDG_CACHE_HOME)") from error
    return target


def _fill(
    target: Path, go: str, names: Sequence[str], env: Mapping[str, str], until: float, tell: Tell
) -> None:
    """Build programs into the cache, each of which appears when it is whole. Its lock is held. Raises Unavailable."""
    for left in target.glob("unfinished-*"):  # by one who was killed
        shutil.rmtree(left)
    unfinished = target / f"unfinished-{os.getpid()}"
    try:
        _build(go, names, unfinished, env, until, tell)
        for name in names:
            (unfinished / name).rename(target / name)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _go(names: Sequence[str], env: Mapping[str, str]) -> str:
    """The Go command. Raises Unavailable when there is none that can build, and says what there is instead."""
    go = shutil.which("go", path=env.get("PATH", ""))
    wanted = f"there is no {', '.join(names)} in KUBEBUILDER_ASSETS or on PATH, and to build it"
    if go is None:
        raise Unavailable(f"{wanted} there is no Go here: install Go {_dotted(_OLDEST_GO)} or newer")
    # The installed one answers for itself, and fetches nothing.
    done = process.run(
        [go, "version"], env={**env, "GOTOOLCHAIN": "local"}, timeout=_ASK_SECONDS, cwd=Path("/")
    )
    found = re.search(rb"go(\d+)\.(\d+)", done.stdout)
    if found is None:
        raise Unavailable(f"{wanted} there is no Go that works: {go}: {done.complaint}")
    has = (int(found[1]), int(found[2]))
    if has < _OLDEST_GO:
        raise Unavailable(
            f"{wanted} the Go here is too old: {go} is {_dotted(has)}, "
            f"and only from {_dotted(_OLDEST_GO)} on does it fetch the toolchain that is needed"
        )
    return go


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@contextmanager
def _alone(path: Path, until: float, tell: Tell) -> Iterator[None]:
    """Hold a lock that is free again when its holder is gone, however it ended."""
    with path.open("w") as lock:
        waiting = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Unavailable(
                        f"somebody else has been building for too long: see who holds {path}"
                    ) from None
                if not waiting:
                    tell(f"somebody else is building Kubernetes {version()}; waiting")
                waiting = True
                time.sleep(0.5)
        yield


def _build(
    go: str, names: Sequence[str], into: Path, env: Mapping[str, str], until: float, tell: Tell
) -> None:
    """Build programs from the published modules. Raises Unavailable, with what Go said."""
    tell(f"building Kubernetes {version()}, once: {', '.join(names)}; minutes, kept in {into.parent}")
    ours = {"CGO_ENABLED": "0", "GO111MODULE": "on", "GOWORK": "off", "GOOS": "", "GOARCH": ""}
    setting = {"GOTOOLCHAIN": "auto", **env, **ours}
    packages = [f"k8s.io/kubernetes/cmd/{name}" for name in names]
    whole = _go_run([go, "list", "-mod=readonly", "-deps", *packages], setting, until, _Progress(tell, 0))
    total = whole.count(b"\n")
    argv = [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-v", f"-ldflags={_stamp()}"]
    _go_run([*argv, "-o", f"{into}/", *packages], setting, until, _Progress(tell, total))
    tell(f"built Kubernetes {version()}")


def _stamp() -> str:
    """Linker flags by which the programs know their version, as Kubernetes' own build gives them."""
    major, minor, _ = version().removeprefix("v").split(".")
    known = {"gitMajor": major, "gitMinor": minor, "gitVersion": version(), "gitTreeState": "archive"}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{k}={v}" for k, v in known.items())])


class _Progress:
    """Turns the lines that Go prints into one every few seconds, and keeps those that are complaints."""

    def __init__(self, tell: Tell, total: int) -> None:
        self.complaints: list[str] = []
        self._tell = tell
        self._total = total
        self._fetched = self._compiled = 0
        self._began = self._told = time.monotonic()

    def line(self, text: str) -> None:
        """Take one line of Go's standard error."""
        if text.startswith("go: downloading "):
            self._fetched += 1
        elif self._total and re.fullmatch(r"[\w.~/+-]+", text):
            self._compiled += 1
        elif text:
            self.complaints.append(text)
        now = time.monotonic()
        if now - self._told >= _TELL_EVERY:
            self._told = now
            what = (
                f"{self._compiled} of at most {self._total} packages"
                if self._total
                else f"{self._fetched} modules"
            )
            self._tell(f"  {'compiled' if self._total else 'fetched'} {what} in {now - self._began:.0f} s")


def _go_run(argv: list[str], env: Mapping[str, str], until: float, progress: _Progress) -> bytes:
    """Run Go beside its go.mod; returns what it printed. Raises Unavailable."""
    seconds = max(until - time.monotonic(), 1.0)
    with tempfile.TemporaryFile() as out:
        running = kept.start(argv, env=env, cwd=_HERE, stdout=out.fileno(), stderr=subprocess.PIPE)
        limit = Timer(seconds, kept.end, args=[running])
        limit.start()
        try:
            assert running.stderr is not None
            for line in running.stderr:
                progress.line(line.decode("utf-8", "replace").strip())
            status = running.wait()
        finally:
            limit.cancel()
            kept.end(running)
        if status:
            said = "\n".join(progress.complaints[-8:]) or f"ended after {seconds:.0f} s without finishing"
            raise Unavailable(f"Kubernetes {version()} could not be built with {argv[0]}: {said}")
        out.seek(0)
        return out.read()
