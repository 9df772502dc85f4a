"""`MachineOSConfig`: upstream's v1 schema with its CEL rules, and our annotations on it.

Belongs here: what one such document says, or everything that is wrong with it.
Does not belong here: the Containerfiles beside it and rules between documents (`catalogue`), the text of a
Containerfile.
Source of the rules: openshift/api, machineconfiguration/v1/types_machineosconfig.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, PlainValidator
from pydantic.alias_generators import to_camel

from reconciler.core.documents.metadata import ObjectMeta
from reconciler.core.documents.shape import Strict, at_place, check, one_of, rule, text_of
from reconciler.core.documents.values import DnsSubdomain, architecture, architectures, from_text
from reconciler.core.model import GROUP, Arch, ImageRef
from reconciler.core.yaml import Document, shown
from reconciler.errors import Fault, InvalidInput

API_VERSION: Final = "machineconfiguration.openshift.io/v1"
KIND: Final = "MachineOSConfig"

_NO_ARCH: Final = "NoArch"
_CONTENT_LIMIT: Final = 4096
_PUSH_LIMIT: Final = 447
_CONTAINERFILES: Final = 4
# RE2's `$` is the end of the text and its `\d` is ASCII, so these are for fullmatch
_PUSH_HOST: Final = re.compile(
    r"([a-zA-Z0-9-]+\.)+[a-zA-Z0-9-]+(:[0-9]{2,5})?(/[a-zA-Z0-9_-]{1,61})*/[a-zA-Z0-9_.-]+:[a-zA-Z0-9._-]+"
)
_PUSH_SERVICE: Final = re.compile(r"[^.]+\.[^.]+\.svc:[0-9]+/[^/]+/[^/]+:[^/]+")


class BasePolicy(StrEnum):
    """What a base image that has moved means to a pool."""

    FOLLOW = "follow"
    """It is rebuilt on the new one."""
    LOCKED = "locked"
    """It stays on the recorded one until a refresh."""


@dataclass(frozen=True, slots=True)
class InlineText:
    """A Containerfile inside the document; `line` is the file line on which its first line stands."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class MachineOSConfig:
    """A sound definition. `str(push)` is the push spec as written; an absent pull secret is ''.

    `containerfiles`: None is upstream's NoArch. `architectures`: sorted; None when the definition does not
    say. `refresh`: the non-empty refresh tokens by name (`rebuild` is upstream's annotation, `refresh` ours).
    """

    pool: str
    path: str
    line: int
    push: ImageRef
    containerfiles: Mapping[Arch | None, InlineText]
    annotations: Mapping[str, str]
    pull_secret: str
    push_secret: str
    architectures: tuple[Arch, ...] | None
    refresh: Mapping[str, str]
    bases: BasePolicy
    suspended: bool


def read_machine_os_config(document: Document) -> MachineOSConfig:
    """Raises InvalidInput with all faults of the document."""
    wishes, faults = _own_annotations(document)
    definition, more = check(_Definition, document)
    faults += more + _name_fault(document) + _repeated_architectures(document)
    if definition is None or wishes is None or faults:
        raise InvalidInput(set(faults))
    spec = definition.spec
    annotations = definition.metadata.annotations or {}
    texts = {
        item.containerfile_arch: InlineText(
            item.content, document.text_line(("spec", "containerFile", i, "content"))
        )
        for i, item in enumerate(spec.container_file or ())
    }
    tokens = {
        "rebuild": annotations.get("machineconfiguration.openshift.io/rebuild", ""),
        "refresh": wishes.refresh,
    }
    return MachineOSConfig(
        pool=spec.machine_config_pool.name,
        path=document.path,
        line=document.line,
        push=spec.rendered_image_push_spec,
        containerfiles=texts,
        annotations=annotations,
        pull_secret=spec.base_image_pull_secret.name if spec.base_image_pull_secret else "",
        push_secret=spec.rendered_image_push_secret.name,
        architectures=wishes.architectures,
        refresh={name: token for name, token in tokens.items() if token},
        bases=wishes.bases,
        suspended=wishes.suspend,
    )


def _api_version(text: str) -> str:
    if text != API_VERSION:
        raise rule(f"must be {API_VERSION}, not {shown(text)}", f"write apiVersion: {API_VERSION}")
    return text


def _container_arch(value: object) -> Arch | None:
    text = _NO_ARCH if value is None else text_of(value)  # null: pruned, then defaulted
    names: dict[str, Arch | None] = {_NO_ARCH: None} | {arch.upstream: arch for arch in Arch}
    if text in names:
        return names[text]
    try:
        wanted = Arch.parse(text).upstream
    except ValueError:
        wanted = _NO_ARCH if text.strip().lower() == "noarch" else ""
    hint = f"write {wanted}" if wanted else ""
    raise rule(f"must be one of {', '.join(sorted(names))}, not {shown(text)}", hint)


def _content(text: str) -> str:
    if len(text) > _CONTENT_LIMIT:
        message = f"has {len(text)} characters; upstream allows {_CONTENT_LIMIT}"
        raise rule(message, "move the text to a file Containerfile beside this one, which has no such limit")
    return text


def _push_spec(text: str) -> ImageRef:
    if not 1 <= len(text) <= _PUSH_LIMIT:
        raise rule(f"must have 1 to {_PUSH_LIMIT} characters, not {len(text)}")
    hint = (
        "write host[:port]/path/name:tag with a dot in the host, or service.namespace.svc:port/path/name:tag"
    )
    if not (_PUSH_HOST.fullmatch(text) or _PUSH_SERVICE.fullmatch(text)):
        raise rule(f"is no push spec: {shown(text)}", hint)
    try:
        return ImageRef.parse(text)
    except ValueError:
        hint = (
            "a repository is lower-case letters and digits, joined by '.', '_' or '-'; a tag has at most 128"
        )
        raise rule(f"names a repository that no registry takes: {shown(text)}", hint) from None


def _at_most_four(items: list[Any]) -> list[Any]:
    if len(items) > _CONTAINERFILES:
        raise rule(
            f"has {len(items)} items; upstream allows {_CONTAINERFILES}",
            "put the others into files beside this one",
        )
    return items


class _Builder(StrEnum):
    JOB = "Job"


class _Kind(StrEnum):
    MACHINE_OS_CONFIG = KIND


class _Named(Strict):
    name: DnsSubdomain


class _ImageBuilder(Strict):
    image_builder_type: Annotated[_Builder, PlainValidator(one_of(_Builder))]


class _ContainerFile(Strict):
    containerfile_arch: Annotated[Arch | None, PlainValidator(_container_arch)] = None
    content: Annotated[str, AfterValidator(_content)]


class _Spec(Strict):
    machine_config_pool: _Named
    image_builder: _ImageBuilder
    base_image_pull_secret: _Named | None = None
    rendered_image_push_secret: _Named
    rendered_image_push_spec: Annotated[ImageRef, from_text(_push_spec)]
    container_file: Annotated[list[_ContainerFile], AfterValidator(_at_most_four)] | None = None


class _Definition(Strict):
    api_version: Annotated[str, AfterValidator(_api_version)]
    kind: Annotated[_Kind, PlainValidator(one_of(_Kind))]
    metadata: ObjectMeta
    spec: _Spec
    status: dict[str, Any] | None = None  # a cluster's own; Git exports carry it


def _architecture_list(text: str) -> tuple[Arch, ...]:
    return architectures([architecture(word) for word in text.replace(",", " ").split()])


class _Bool(StrEnum):
    TRUE = "true"
    FALSE = "false"


def _flag(value: object) -> bool:
    return one_of(_Bool)(value) is _Bool.TRUE


class _Wishes(Strict):
    """Our annotations on a definition."""

    model_config = ConfigDict(alias_generator=lambda name: f"{GROUP}/{to_camel(name)}")

    architectures: Annotated[tuple[Arch, ...] | None, from_text(_architecture_list)] = None
    bases: Annotated[BasePolicy, PlainValidator(one_of(BasePolicy))] = BasePolicy.FOLLOW
    refresh: str = ""
    requested_at: str = ""
    suspend: Annotated[bool, PlainValidator(_flag)] = False


def _own_annotations(document: Document) -> tuple[_Wishes | None, list[Fault]]:
    given = _mapping(_mapping(document.data, "metadata"), "annotations")
    own = {key: value for key, value in given.items() if key.startswith(f"{GROUP}/")}
    return check(_Wishes, document, own, ("metadata", "annotations"))


def _name_fault(document: Document) -> list[Fault]:
    """Upstream's CEL rule on the whole object."""
    name = _mapping(document.data, "metadata").get("name")
    pool = _mapping(_mapping(document.data, "spec"), "machineConfigPool").get("name")
    if not isinstance(name, str) or not isinstance(pool, str) or name == pool:
        return []
    message = f"is {shown(name)}, but spec.machineConfigPool.name is {shown(pool)}"
    return [at_place(document, ("metadata", "name"), message, "give both the pool's name")]


def _repeated_architectures(document: Document) -> list[Fault]:
    """Upstream's list is a map keyed by the architecture."""
    items = _mapping(document.data, "spec").get("containerFile")
    seen: dict[str, int] = {}
    faults = []
    for i, item in enumerate(items if isinstance(items, list) else ()):
        arch = item.get("containerfileArch") if isinstance(item, dict) else ""
        arch = _NO_ARCH if arch is None else arch
        if not isinstance(arch, str) or not isinstance(item, dict):
            continue
        place = ("spec", "containerFile", i)
        if arch in seen:
            message = f"is a second entry for {shown(arch)} (the first is on line {seen[arch]})"
            faults.append(at_place(document, place, message, "keep one entry per architecture"))
        seen.setdefault(arch, document.line_of(place))
    return faults


def _mapping(data: dict[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}
