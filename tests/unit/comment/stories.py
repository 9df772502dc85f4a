"""Plans worth a comment: what a pull request does to the example repository, worked out by the real engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from reconciler.core.comment import Origin
from reconciler.core.model import Arch
from reconciler.core.plan import Action, Cell, Plan, PoolPlan, Reason
from reconciler.errors import Fault
from reconciler.reconcile.history import History
from reconciler.reconcile.preview import Preview
from reconciler.reconcile.targets import Scope
from tests.fakes import FakeObjects

_EXAMPLES: Final = Path(__file__).parents[3] / "examples-repo"
_BASE: Final = hashlib.sha1(b"base").hexdigest()  # noqa: S324  (a commit's id, as Git makes them)
_HEAD: Final = hashlib.sha1(b"head").hexdigest()  # noqa: S324
_PACKAGES: Final = """\
RUN dnf install -y chrony-{} && \\
    dnf clean all && \\
    rm -rf /var/cache/dnf && \\
    systemctl enable {}.service
"""


def origin(plan: Plan, forge: str = "github") -> Origin:
    """As the command line would say it."""
    base = ("--base", plan.base) if plan.base else ()
    named = ("--forge", forge) if forge != "github" else ()
    command = ("reconciler", "plan", *base, "--head", plan.head, "--output", "markdown", *named)
    return Origin("0.1.0", "2+shfmt-py-4.2.0", command)


def _examples() -> dict[str, bytes | str]:
    files: dict[str, bytes | str] = {}
    folders = (_EXAMPLES / "pools" / name for name in ("edge", "infra", "worker"))
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        name = path.relative_to(_EXAMPLES).as_posix()
        if path.is_symlink():
            files[name] = f"->{path.readlink()}"
        elif path.is_file():
            files[name] = path.read_text()
    return {"reconciler.yaml": (_EXAMPLES / "reconciler.yaml").read_text(), **files}


def _plan(before: Mapping[str, bytes | str], after: Mapping[str, bytes | str]) -> Plan:
    objects = FakeObjects()
    base, head = objects.add(before), objects.add(after)
    made = Preview(History(objects), Scope()).plan(head, base)
    pools = tuple(
        replace(pool, cells=tuple(_recorded(pool.name, cell) for cell in pool.cells)) for pool in made.pools
    )
    return replace(made, base=_BASE, head=_HEAD, pools=pools)


def _recorded(pool: str, cell: Cell) -> Cell:
    """A cell whose image was built before, as it is once a daemon has run."""
    digest = hashlib.sha256(f"{pool}/{cell.arch}".encode()).hexdigest()
    image = f"registry.example.com/os/{pool}@sha256:{digest}"
    return replace(cell, image=image) if cell.action is Action.REUSE else cell


def one_architecture() -> Plan:
    """A file that only one architecture copies."""
    files = _examples()
    kargs = "pools/worker/files/arm64/usr/lib/bootc/kargs.d/20-worker.toml"
    return _plan(files, files | {kargs: 'kargs = ["hugepages=16"]\n'})


def many_edits() -> Plan:
    """Packages move for one pool, the other edits reach less than they seem to."""
    files = _examples()
    infra, worker = str(files["pools/infra/Containerfile"]), str(files["pools/worker/Containerfile"])
    before = files | {"pools/infra/Containerfile": infra + _PACKAGES.format("4.5-1", "chronyd")}
    return _plan(
        before,
        before
        | {
            "pools/infra/Containerfile": infra + _PACKAGES.format("4.6-2", "chrony-wait"),
            "pools/infra/files/limits.conf": "* soft nofile 131072\n",
            "pools/worker/Containerfile": "# Reviewed in November.\n" + worker,
            "pools/worker/files/s390x/usr/lib/bootc/kargs.d/20-worker.toml": "kargs = []\n",
        },
    )


def nothing() -> Plan:
    """Only comments."""
    files = _examples()
    return _plan(
        files,
        files | {"pools/worker/Containerfile": "# Reviewed.\n" + str(files["pools/worker/Containerfile"])},
    )


def broken() -> Plan:
    """A Containerfile that cannot be read, and YAML that is nobody's."""
    files = _examples()
    bad = str(files["pools/infra/Containerfile"]).replace("COPY files", "CPY files")
    return _plan(files, files | {"pools/infra/Containerfile": bad, "notes.yaml": "a: 1\na: [\n"})


def pools_come_and_go() -> Plan:
    """One pool is new, one gone, one loses an architecture."""
    files = _examples()
    edge = str(files["pools/edge/machineosconfig.yaml"])
    after = {name: text for name, text in files.items() if not name.startswith("pools/infra/")}
    after["pools/edge/machineosconfig.yaml"] = edge.replace("amd64, arm64", "arm64")
    after["pools/storage/machineosconfig.yaml"] = edge.replace("edge", "storage")
    after["pools/storage/files/chrony.conf"] = "pool time.example.com\n"
    return _plan(files, after)


def huge(pools: int = 1000, text: str = "kernel-5.14.0-1.el9 ") -> Plan:
    """A base of all that moves, with everything else a comment can have."""
    made = tuple(_huge_pool(f"pool-{number:04}", text) for number in range(pools))
    faults = tuple(Fault(f"pools/{n:04}/broken.yaml", n + 1, f"is wrong: {text}") for n in range(pools))
    gone = tuple(f"gone-{number:04}" for number in range(pools))
    return Plan(_BASE, _HEAD, made, gone, faults)


def _huge_pool(name: str, text: str) -> PoolPlan:
    path = f"pools/{name}/Containerfile"
    changes = tuple(
        Reason("recipe", "changed", f"RUN: {name} {n}", path, n + 1, f"{text * 9}{n}", f"{text * 9}{n} new")
        for n in range(20)
    )
    return PoolPlan(
        name,
        f"pools/{name}/machineosconfig.yaml",
        (
            Cell(Arch.AMD64, Action.BUILD, changes),
            Cell(Arch.ARM64, Action.BUILD, changes[1:]),
            Cell(Arch.PPC64LE, Action.REUSE, (Reason("recipe", "unchanged", "comment only", path, 7),)),
            Cell(Arch.S390X, Action.BLOCKED, (Reason("bases", "missing", f"no s390x: {text}", path, 2),)),
        ),
        (Fault(path, 3, f"buildah drops this: {text}", "leave it out"),),
    )


STORIES: Final[Mapping[str, Callable[[], Plan]]] = {
    "one-architecture": one_architecture,
    "many-edits": many_edits,
    "nothing": nothing,
    "broken": broken,
    "pools-come-and-go": pools_come_and_go,
}
