"""`FROM configs` with a real registry, real buildah and a real repository: MachineConfigs in, images with their files
out, and only what they change is built."""

from __future__ import annotations

import base64
import gzip
import io
import tarfile
from pathlib import Path

import pytest

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.registry import HttpRegistry
from reconciler.core.model import Arch
from tests.e2e.conftest import write_pool
from tests.e2e.test_once import builds
from tests.servers.foreign import busybox
from tests.servers.stage import Stage

pytestmark = pytest.mark.tools

UPSTREAM = "FROM configs AS final\nCOPY . /usr/share/source/\n"
BOOTC = """\
# escape=`
ARG WHERE=/usr/share/bootc
FROM configs AS layer
FROM layer
ARG TARGETARCH
COPY --from=0 /etc/motd.d/worker /usr/share/copied
COPY files/${TARGETARCH}/ `
  /usr/share/bootc/
"""
UNIT = "[Service]\\nExecStart=/usr/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n"


def machine_config(name: str, source: str, *, labels: str = "", path: str = "/etc/motd.d/worker") -> str:
    """A MachineConfig with one file."""
    return f"""\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: {name}
  labels: {{machineconfiguration.openshift.io/role: worker{labels}}}
spec:
  config:
    ignition: {{version: 3.4.0}}
    storage:
      files:
      - path: {path}
        mode: 0640
        contents: {source}
"""


def with_unit(text: str) -> str:
    """The same, with an enabled unit."""
    return f"""{text}    systemd:
      units:
      - {{name: hello.service, enabled: true, contents: "{UNIT}"}}
"""


def encoded(text: str) -> str:
    """A file's contents in another encoding."""
    packed = base64.b64encode(gzip.compress(text.encode())).decode()
    return f'{{source: "data:;base64,{packed}", compression: gzip}}'


def files(stage: Stage, pool: str, arch: str) -> dict[str, tarfile.TarInfo]:
    """The files of a pool's image, by path."""
    image = next(e.image for e in stage.record(pool).architectures if e.arch == arch)
    found: dict[str, tarfile.TarInfo] = {}
    with HttpRegistry(SystemClock(), insecure=frozenset({stage.host})) as registry:
        for layer in stage.manifest(image)["layers"]:
            blob = registry.blob(image.partition("@")[0], layer["digest"], 1 << 24)
            with tarfile.open(fileobj=io.BytesIO(blob)) as archive:
                found |= {f"/{member.name.rstrip('/')}": member for member in archive}
    return found


def write(root: Path, containerfile: str) -> Path:
    """The definitions with that text, a base and two MachineConfigs outside of the pool's folder."""
    write_pool(root, "worker", containerfile)
    base = "baseImage: registry.example.com/os/base:1\n"
    architectures = "architectures: [amd64, arm64]\n"
    head = "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\n"
    (root / "reconciler.yaml").write_text(head + architectures + base)
    machines = root / "machineconfigs"
    machines.mkdir()
    (machines / "motd.yaml").write_text(with_unit(machine_config("50-motd", "{source: 'data:,hello'}")))
    only = ", reconciler.machineos.dev/arch: arm64"
    (machines / "arm.yaml").write_text(
        machine_config("60-arm", "{source: 'data:,1'}", labels=only, path="/etc/arm")
    )
    return root


@pytest.mark.parametrize("containerfile", [UPSTREAM, BOOTC], ids=["upstream", "bootc"])
def test_an_image_has_the_files_of_its_machine_configs(
    stage: Stage, tmp_path: Path, containerfile: str
) -> None:
    stage.create_repository(write(tmp_path / "definitions", containerfile))
    said = stage.once()
    assert said.status == 0, said
    found = files(stage, "worker", "amd64")
    assert (found["/etc/motd.d/worker"].size, found["/etc/motd.d/worker"].mode & 0o7777) == (5, 0o640)
    assert "/etc/systemd/system/multi-user.target.wants/hello.service" in found
    assert "/etc/arm" not in found
    assert "/etc/arm" in files(stage, "worker", "arm64")
    assert not [path for path in found if ".machineconfig" in path or "files.tar" in path]
    if containerfile == BOOTC:
        assert {"/usr/share/copied", "/usr/share/bootc/tuning.conf"} <= found.keys()
    record = stage.record("worker")
    assert [base.ref for base in record.architectures[0].bases] == [f"{stage.host}/os/base:1"]


def test_only_what_a_machine_config_changes_is_built(stage: Stage, tmp_path: Path) -> None:
    stage.create_repository(write(tmp_path / "definitions", UPSTREAM.replace("COPY", "# COPY")))
    assert stage.once().status == 0
    assert len(builds(stage)) == 2
    arm = stage.work / "machineconfigs/arm.yaml"
    text = arm.read_text()

    arm.write_text(text.replace("data:,1", "data:,2"))
    changed = stage.commit("Change a file for arm64")
    said = stage.once()
    assert "machineconfigs/arm.yaml:11" in said.out, said.out
    assert [tag.split("-")[1] for tag in builds(stage)[2:]] == ["arm64"]

    arm.write_text(text.replace("{source: 'data:,1'}", encoded("2")))
    motd = stage.work / "machineconfigs/motd.yaml"
    (stage.work / "machineconfigs/other.yaml").write_text("# moved\n" + motd.read_text())
    motd.unlink()
    stage.commit("Encode it otherwise, and move the other")
    plan = stage.reconciler("plan", "--repo", str(stage.work), "--base", "HEAD~1")
    assert plan.out.endswith("0 of 2 images would be built.\n"), plan.out
    assert "machineconfigs/other.yaml:2" in plan.out
    assert "0 built, 2 reused" in stage.once().out
    assert len(builds(stage)) == 3

    stage.git("revert", "--no-edit", "HEAD", changed)
    stage.push()
    assert stage.once().status == 0
    assert len(builds(stage)) == 3

    arm.write_text(text.replace("/etc/arm", "/var/arm"))
    motd.write_text(text.replace("storage:", "disks:"))
    said = stage.reconciler("validate", str(stage.work))
    assert said.status == 1
    assert "machineconfigs/motd.yaml:9" in said.out + said.err
    motd.unlink()
    said = stage.reconciler("validate", str(stage.work))
    assert said.status == 0, said
    assert "machineconfigs/arm.yaml:11" in said.out + said.err


TOOL = '#!/bin/sh\nmkdir -p /usr/share/told\necho "${0##*/} $*" >> /usr/share/told/tools\n'
"""A stand-in for each of the programs that a node's image is changed with."""
DOCUMENTED = {
    "packages": "FROM configs AS final\nRUN dnf install -y cowsay && dnf clean all && ostree container commit\n",
    "repository": (
        "# A repository, a package of it, and no trace of either's caches\n"
        "FROM configs AS final\n"
        "RUN rpm-ostree install https://example.com/release-latest-9.noarch.rpm && \\\n"
        "    rpm-ostree install htop && \\\n"
        "    rpm-ostree cleanup -m && \\\n"
        "    ostree container commit\n"
    ),
    "driver": (
        "FROM registry.example.com/os/base:tools AS builder\n"
        "RUN mkdir /out && echo module > /out/driver.ko\n"
        "FROM configs AS final\n"
        "COPY --from=builder /out/driver.ko /usr/lib/modules/driver.ko\n"
        "RUN ostree container commit\n"
    ),
}
"""The forms that upstream's documentation shows: packages, a repository, and a stage of one's own before."""


def test_the_forms_that_upstream_documents_build_as_they_are(stage: Stage, tmp_path: Path) -> None:
    rootfs = tmp_path / "base/rootfs"
    for name in ("bin/sh", "usr/bin/dnf", "usr/bin/rpm-ostree", "usr/bin/ostree"):
        program = rootfs / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_bytes(busybox(Arch.AMD64) if name == "bin/sh" else TOOL.encode())
        program.chmod(0o755)
    for applet in ("mkdir", "echo"):
        (rootfs / "bin" / applet).symlink_to("sh")
    (tmp_path / "base/Containerfile").write_text("FROM scratch\nCOPY rootfs/ /\n")
    stage.build_base("tools", tmp_path / "base")
    root = tmp_path / "definitions"
    for pool, text in DOCUMENTED.items():
        (root / pool).mkdir(parents=True)
        indented = "".join(f"      {line}\n" for line in text.splitlines())
        (root / pool / "mosc.yaml").write_text(
            f"""\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineOSConfig
metadata: {{name: {pool}}}
spec:
  machineConfigPool: {{name: {pool}}}
  containerFile:
  - containerfileArch: NoArch
    content: |
{indented}  imageBuilder: {{imageBuilderType: Job}}
  baseImagePullSecret: {{name: global-pull-secret-copy}}
  renderedImagePushSecret: {{name: builder-dockercfg}}
  renderedImagePushSpec: registry.example.com/os/{pool}:latest
"""
        )
    (root / "reconciler.yaml").write_text(
        "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\n"
        "architectures: [amd64]\nbaseImage: registry.example.com/os/base:tools\n"
    )
    (root / "motd.yaml").write_text(machine_config("50-motd", "{source: 'data:,hello'}"))
    stage.create_repository(root)
    said = stage.once()
    assert said.status == 0, said
    for pool in DOCUMENTED:
        found = files(stage, pool, "amd64")
        assert "/etc/motd.d/worker" in found, "a custom pool takes those of worker"
        assert "/usr/share/told/tools" in found
    assert "/usr/lib/modules/driver.ko" in files(stage, "driver", "amd64")
