"""`RepositoryConfig`: `reconciler.yaml` at the root of the watched repository (DESIGN §3).

Belongs here: all that a plan needs to know beside the definitions, so that a plan made anywhere is the same.
Does not belong here: credentials and where things run (`settings`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, PlainValidator

from reconciler.core.documents.schedule import Schedule, schedule
from reconciler.core.documents.shape import Strict, check, one_of
from reconciler.core.documents.values import Architectures, Folder, Glob, Image, from_text
from reconciler.core.model import API_VERSION, Arch, ImageRef
from reconciler.core.yaml import Document
from reconciler.errors import InvalidInput

KIND: Final = "RepositoryConfig"


class MachineConfigPolicy(StrEnum):
    """What of a pool's MachineConfigs is an input of its image."""

    IMAGE = "image"
    """All that enters the image."""
    UPSTREAM = "upstream"
    """Only what the Machine Config Operator rebuilds for."""


class Probes(StrEnum):
    """Whether `uname -m` and its kin are known to print the architecture that is built for."""

    TRUSTED = "trusted"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class RepositoryConfig:
    """The configuration; as it stands here when the repository has none.

    `architectures` is None when it does not say; `include` and `exclude` are patterns for `core.globs`, an
    empty `include` taking every path; `base_image` and `refresh` are None when not given.
    """

    architectures: tuple[Arch, ...] | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    status_path: str = "status"
    base_image: ImageRef | None = None
    refresh: Schedule | None = None
    machine_config: MachineConfigPolicy = MachineConfigPolicy.IMAGE
    probes: Probes = Probes.TRUSTED


_DEFAULT: Final = RepositoryConfig()


class _ApiVersion(StrEnum):
    V1ALPHA1 = API_VERSION


class _Kind(StrEnum):
    REPOSITORY_CONFIG = KIND


class _Config(Strict):
    api_version: Annotated[_ApiVersion, PlainValidator(one_of(_ApiVersion))]
    kind: Annotated[_Kind, PlainValidator(one_of(_Kind))]
    architectures: Architectures | None = None
    include: list[Glob] = Field(default_factory=list)
    exclude: list[Glob] = Field(default_factory=list)
    status_path: Folder = _DEFAULT.status_path
    base_image: Image | None = None
    refresh: Annotated[Schedule | None, from_text(schedule)] = None
    machine_config: Annotated[MachineConfigPolicy, PlainValidator(one_of(MachineConfigPolicy))] = (
        _DEFAULT.machine_config
    )
    probes: Annotated[Probes, PlainValidator(one_of(Probes))] = _DEFAULT.probes


def read_repository_config(document: Document) -> RepositoryConfig:
    """Raises InvalidInput with all faults of the document."""
    config, faults = check(_Config, document)
    if config is None:
        raise InvalidInput(set(faults))
    return RepositoryConfig(
        architectures=None if config.architectures is None else tuple(config.architectures),
        include=tuple(config.include),
        exclude=tuple(config.exclude),
        status_path=config.status_path,
        base_image=config.base_image,
        refresh=config.refresh,
        machine_config=config.machine_config,
        probes=config.probes,
    )
