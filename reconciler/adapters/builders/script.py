"""The build script's contract: the names it reads, the files it is given, and what its exit status means.

Belongs here: all that a builder must agree on with `build.sh`, whether it runs it here or in a cluster.
Does not belong here: starting it, or finding the values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Final

from reconciler.core.model import Base, ImageRef
from reconciler.errors import ReconcilerError
from reconciler.ports import BuildRequest, Cause

PATH: Final = Path(__file__).with_name("build.sh")

REGISTRIES_CONF: Final = "CONTAINERS_REGISTRIES_CONF"
"""The variable by which buildah finds its registry settings."""

CONFIGS: Final = "configs"
"""The folder with what the image `configs` is built from."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class UnusableRequest(ReconcilerError):
    """A build was asked for that cannot be carried out as it stands; only another definition helps."""

    reason = "UnusableRequest"


class Exit(IntEnum):
    """The script's exit status. Anything else means that it was killed: the infrastructure's fault."""

    PUSHED = 0
    DEFINITION = 10
    MACHINE = 20
    PULL = 21
    RESOURCES = 22
    PUSH = 23

    @property
    def cause(self) -> Cause:
        """Whose fault a failure with this status is."""
        return Cause.DEFINITION if self is Exit.DEFINITION else Cause.INFRASTRUCTURE


def bases_file(bases: tuple[Base, ...]) -> str:
    """What to pull, and the name that the Containerfile uses for it, one per line.

    Raises UnusableRequest when one name should mean two images, or is not fully qualified.
    """
    lines: dict[str, str] = {}
    for base in bases:
        try:
            ref = ImageRef.parse(base.ref)
        except ValueError as error:
            raise UnusableRequest(str(error), hint="write the registry's host in front") from error
        pinned = f"{ref.repository}@{base.digest}"
        name = f"{ref.repository}@{ref.digest}" if ref.digest else f"{ref.repository}:{ref.tag}"
        if lines.setdefault(name, pinned) != pinned:
            raise UnusableRequest(
                f"{name} would be two images in one build: {lines[name]} and {pinned}",
                hint="give each platform's base a tag or digest of its own",
            )
    return "".join(f"{pinned} {name}\n" for name, pinned in sorted(lines.items()))


def annotations_file(annotations: Mapping[str, str]) -> str:
    """`KEY=VALUE` lines, sorted. Raises UnusableRequest for what a line cannot carry."""
    for key, value in annotations.items():
        if _CONTROL.search(key + value) or "=" in key:
            raise UnusableRequest(f"annotation {key!r} cannot be written on one line: {value!r}")
    return "".join(f"{key}={value}\n" for key, value in sorted(annotations.items()))


def registries_conf(insecure: frozenset[str]) -> str:
    """Registry settings (TOML) that allow plain HTTP and unknown certificates for these hosts only."""
    return "".join(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n' for host in sorted(insecure))


def environment(
    request: BuildRequest, files: Path, *, driver: str, isolation: str, auth: str
) -> dict[str, str]:
    """The script's variables for a build whose files lie in one folder under their usual names."""
    configs = {"BUILD_CONFIGS": str(files / CONFIGS)} if request.configs else {}
    return configs | {
        "BUILD_ARCH": request.arch.value,
        "BUILD_IMAGE": request.image,
        "BUILD_CONTEXT": str(files / "context"),
        "BUILD_CONTAINERFILE": str(files / "Containerfile"),
        "BUILD_IGNOREFILE": str(files / "ignore"),
        "BUILD_ANNOTATIONS": str(files / "annotations"),
        "BUILD_BASES": str(files / "bases"),
        "BUILD_DIGESTFILE": str(files / "digest"),
        "BUILD_STORAGE": str(files / "storage"),
        "BUILD_DRIVER": driver,
        "BUILD_ISOLATION": isolation,
        "BUILD_AUTHFILE": auth,
        "BUILD_PUSH_AUTHFILE": "",
        "BUILD_VOLUMES": "",
    }


def configs_files(request: BuildRequest) -> dict[str, bytes]:
    """What the image `configs` is built from, by path in a build's files. Empty where none is needed."""
    if request.configs is None:
        return {}
    listed = {f"{CONFIGS}/context/{file.path}": file.content for file in request.configs.files}
    return {f"{CONFIGS}/Containerfile": request.configs.text.encode(), **listed}


def files(request: BuildRequest) -> dict[str, str]:
    """The small text files that the script reads, by name; the context is apart. Raises UnusableRequest."""
    return {
        "Containerfile": request.containerfile,
        "ignore": request.ignorefile,
        "annotations": annotations_file(request.annotations),
        "bases": bases_file(request.bases),
    }
