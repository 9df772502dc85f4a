"""What this machine can build: the buildah it has, the architectures it can run, the user it works as.

Belongs here: looking, and putting into words what is missing and how to get it.
Does not belong here: building.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reconciler import process
from reconciler.adapters.builders import binfmt
from reconciler.core.model import Arch, Needs
from reconciler.errors import Timeout, ToolMissing
from reconciler.ports import Refusal

OLDEST: Final = (1, 28)
"""Older ones build unused stages too, whose bases nobody resolved."""

_VERSION: Final = re.compile(r"buildah version ((\d+)\.(\d+)\S*)")
_EMULATION: Final = (
    "install qemu-user-static (Debian, Fedora), or as root run an image that registers QEMU with binfmt_misc,"
    " such as docker.io/tonistiigi/binfmt --install all"
)


@dataclass(frozen=True, slots=True)
class Host:
    """Where to look: `machine` as `uname -m` says, the effective user, and the kernel's proc file system."""

    machine: str
    user: int
    proc: Path = Path("/proc")

    @classmethod
    def here(cls) -> Host:
        """The machine that this process runs on."""
        return cls(os.uname().machine, os.geteuid())

    @property
    def arch(self) -> Arch | None:
        """Its architecture; None when it is none that images are built for."""
        try:
            return Arch.parse(self.machine)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Version:
    """buildah's version: for people, and the part that decides."""

    text: str
    number: tuple[int, int]


class Machine:
    """Answers whether a recipe can be built here; asks buildah for its version once."""

    def __init__(self, host: Host, env: Mapping[str, str]) -> None:
        self._host = host
        self._env = env
        self._version: Version | None = None

    def refusal(self, arch: Arch, needs: Needs) -> Refusal | None:
        """All reasons why a recipe cannot be built here, or None."""
        version = self._buildah()
        if isinstance(version, Refusal):
            return version
        found = [*self._dialect(version, needs), *self._foreign(arch, needs), *self._rootless()]
        if not found:
            return None
        hints = dict.fromkeys(refusal.hint for refusal in found if refusal.hint)
        return Refusal("; ".join(refusal.message for refusal in found), "; ".join(hints))

    def _buildah(self) -> Version | Refusal:
        """The installed version, or why there is none to work with."""
        if self._version is None:
            try:
                done = process.run(["buildah", "--version"], env=self._env, timeout=60)
            except (ToolMissing, Timeout) as error:
                return Refusal(
                    error.message, "install buildah 1.28 or later: apt install buildah, dnf install buildah"
                )
            match = _VERSION.match(done.stdout.decode("utf-8", "replace"))
            if match is None:
                return Refusal(
                    f"buildah --version failed: {done.complaint}", "repair the installation of buildah"
                )
            self._version = Version(match[1], (int(match[2]), int(match[3])))
        if self._version.number < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            return Refusal(
                f"buildah {self._version.text} is too old",
                f"install {oldest} or later: older ones also build the stages that nothing uses",
            )
        return self._version

    def _dialect(self, version: Version, needs: Needs) -> Iterator[Refusal]:
        for construct in needs.dialect:
            if construct.since > version.number:
                since = ".".join(map(str, construct.since))
                yield Refusal(
                    f"{construct.path}:{construct.line}: {construct.what} needs buildah {since},"
                    f" here is {version.text}",
                    "upgrade buildah, or build where it is newer",
                )

    def _foreign(self, arch: Arch, needs: Needs) -> Iterator[Refusal]:
        if arch is self._host.arch:
            return
        if needs.foreign:
            yield Refusal(
                f"built on {self._host.machine}, this would read differently than on {arch}: "
                + ", ".join(needs.foreign),
                f"build it on a machine of {arch}, or declare what it needs by TARGETARCH in the stage",
            )
        if needs.runs:
            obstacle = binfmt.obstacle(arch, self._host.proc / "sys/fs/binfmt_misc")
            if obstacle:
                yield Refusal(
                    f"RUN cannot be executed for {arch} on {self._host.machine}: {obstacle}", _EMULATION
                )

    def _rootless(self) -> Iterator[Refusal]:
        if self._host.user == 0:
            return
        lacking = [
            name
            for name in ("newuidmap", "newgidmap")
            if not shutil.which(name, path=self._env.get("PATH", ""))
        ]
        if lacking:
            yield Refusal(
                f"buildah cannot work without root here: there is no {' and no '.join(lacking)}",
                "install uidmap (Debian) or shadow-utils (Fedora), and give the user ranges in"
                " /etc/subuid and /etc/subgid",
            )
