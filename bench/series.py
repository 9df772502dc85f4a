"""The commits that every way of building is given, on a small repository that needs no emulation.

Belongs here: the repository, and what each commit changes. Does not belong here: building and judging.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.core.model import Arch
from tests.servers.foreign import busybox
from tests.servers.stage import PLACEHOLDER, Stage

NATIVE = next(arch for arch in Arch if arch.machine == os.uname().machine)
"""RUN is only used for this machine's architecture, in a Containerfile of its own."""

_DEFINITION = """\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineOSConfig
metadata: {{name: {pool}}}
spec:
  machineConfigPool: {{name: {pool}}}
  imageBuilder: {{imageBuilderType: Job}}
  renderedImagePushSecret: {{name: os-push}}
  renderedImagePushSpec: {host}/os/{pool}:latest
"""
_WORKER = f"""\
# Nodes that run workloads.
FROM {PLACEHOLDER}/os/base:1 AS report
COPY report.txt /report.txt

FROM {PLACEHOLDER}/os/base:1
ARG TARGETARCH
COPY files/common/ /etc/worker/
COPY files/${{TARGETARCH}}/ /etc/tuning.d/
LABEL role=worker team=platform
"""
_INFRA = f"""\
FROM {PLACEHOLDER}/os/base:1
COPY limits.conf /etc/limits.conf
"""
_INFRA_NATIVE = (
    _INFRA
    + """\
RUN --mount=type=bind,source=agent.conf,target=/run/agent.conf \\
    ["/bin/busybox", "cp", "/run/agent.conf", "/etc/agent.conf"]
"""
)
_EDGE = """\
FROM {host}/os/base:1
ENV SITE=edge
COPY chrony.conf /etc/chrony.conf
"""


def definitions(root: Path, architectures: Sequence[Arch]) -> Path:
    """Write the first commit's files: two pools."""
    texts = {
        "reconciler.yaml": "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\n"
        f"architectures: [{', '.join(architectures)}]\n",
        "README.md": "# Machine OS images\n",
        "pools/worker/machineosconfig.yaml": _DEFINITION.format(pool="worker", host=PLACEHOLDER),
        "pools/worker/Containerfile": _WORKER,
        "pools/worker/report.txt": "1\n",
        "pools/worker/README.md": "Ask the platform team.\n",
        "pools/worker/files/common/sysctl.conf": "vm.swappiness = 10\n",
        **{f"pools/worker/files/{arch}/tuning.conf": f"# {arch}\n" for arch in Arch},
        "pools/infra/machineosconfig.yaml": _DEFINITION.format(pool="infra", host=PLACEHOLDER),
        "pools/infra/Containerfile": _INFRA,
        f"pools/infra/Containerfile.{NATIVE}": _INFRA_NATIVE,
        "pools/infra/limits.conf": "* soft nofile 65536\n",
        "pools/infra/agent.conf": "interval = 10\n",
    }
    for path, text in texts.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


def base(root: Path, version: int) -> Path:
    """Write the context of the base image; this machine's architecture gets a program to RUN."""
    for arch in Arch:
        folder = root / "programs" / arch
        folder.mkdir(parents=True, exist_ok=True)
        if arch is NATIVE:
            (folder / "busybox").write_bytes(busybox(arch))
            (folder / "busybox").chmod(0o755)
        else:
            # As real bases do, this one differs per architecture: buildah's cache takes one architecture's layer for
            # another's where they do not, and that is not what is compared here.
            (folder / "none").write_text(f"{arch}\n")
    (root / "os-release").write_text(f"ID=example\nVERSION_ID={version}\n")
    (root / "Containerfile").write_text(
        "FROM scratch\nARG TARGETARCH\nCOPY os-release /usr/lib/os-release\nCOPY programs/${TARGETARCH}/ /bin/\n"
    )
    return root


@dataclass(frozen=True, slots=True)
class Step:
    """One commit: what it is, and what it does to the author's clone."""

    title: str
    change: Callable[[Stage], object]


def _write(path: str, text: str) -> Callable[[Stage], object]:
    return lambda stage: (stage.work / path).write_text(text.replace("{host}", stage.registry.host))


def _replace(path: str, old: str, new: str) -> Callable[[Stage], object]:
    def change(stage: Stage) -> None:
        file = stage.work / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return change


def _new_pool(stage: Stage) -> None:
    folder = stage.work / "pools/edge"
    folder.mkdir()
    host = stage.registry.host
    (folder / "machineosconfig.yaml").write_text(_DEFINITION.format(pool="edge", host=host))
    (folder / "Containerfile").write_text(_EDGE.format(host=host))
    (folder / "chrony.conf").write_text("makestep 1.0 3\n")


def _move_base(stage: Stage) -> None:
    """The tag gets new content, and a commit that has nothing to do with it makes everybody look."""
    stage.build_base(context=base(stage.root / "base-2", 2))
    _write("README.md", "# Machine OS images of all sites\n")(stage)


_TUNING = "pools/worker/files/arm64/tuning.conf"
STEPS = (
    Step("first commit, two pools", lambda _: None),
    Step("comment", _replace("pools/worker/Containerfile", "# Nodes that run", "# All nodes that run")),
    Step("white space", _replace("pools/worker/Containerfile", "ARG TARGETARCH\n", "ARG   TARGETARCH\n\n")),
    Step("file of one architecture", _write(_TUNING, "# arm64\npages = 64k\n")),
    Step("revert of that", _write(_TUNING, "# arm64\n")),
    Step(
        "file of all architectures", _write("pools/worker/files/common/sysctl.conf", "vm.swappiness = 20\n")
    ),
    Step("notes beside the definition", _write("pools/worker/README.md", "Ask the platform team first.\n")),
    Step(
        "order of labels",
        _replace("pools/worker/Containerfile", "role=worker team=platform", "team=platform role=worker"),
    ),
    Step("unused stage", _write("pools/worker/report.txt", "2\n")),
    Step("bind-mounted file", _write("pools/infra/agent.conf", "interval = 30\n")),
    Step("new pool", _new_pool),
    Step("file outside of all pools", _write("README.md", "# Machine OS images of two sites\n")),
    Step("base image moved", _move_base),
    Step("comment, after that", _replace("pools/infra/Containerfile", "COPY", "# Limits.\nCOPY")),
)
