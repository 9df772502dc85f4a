"""The daemon's own configuration as frozen values (DESIGN §11).

Belongs here: where the repository, registry and builder are, and how often to look; every default of these.
Does not belong here: what decides an image's content (`core.documents.repositoryconfig`), and opening any
file that is named here: paths are kept as written, relative to the folder of the configuration file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainValidator

from reconciler.core.documents.shape import Strict, check, one_of, only_document, rule
from reconciler.core.documents.values import Architectures, DnsLabel, Duration, Folder, distinct, from_text
from reconciler.core.model import API_VERSION, Arch
from reconciler.core.yaml import shown
from reconciler.errors import InvalidInput

KIND: Final = "ReconcilerConfig"


class BuilderType(StrEnum):
    """What runs the builds."""

    LOCAL = "local"


class StorageDriver(StrEnum):
    """How buildah stores layers; `overlay` is faster, and `vfs` works everywhere."""

    VFS = "vfs"
    OVERLAY = "overlay"


class ClusterMode(StrEnum):
    """How a cluster is reached."""

    NONE = "none"


class Delivery(StrEnum):
    """How nodes learn of a new image."""

    COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; an IPv6 host has no brackets here. Port 0 takes any free one."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Source:
    """The watched repository: `path` is a folder in it, '' for its root; `interval` is in seconds."""

    url: str
    branch: str = "main"
    path: str = ""
    interval: float = 60.0


@dataclass(frozen=True, slots=True)
class WriteBack:
    """Where status files are committed."""

    branch: str


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """`insecure`: hosts, with their port, that speak plain HTTP or have a certificate nobody signed."""

    insecure: tuple[str, ...] = ()
    auth_file: str = ""
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class BuilderSettings:
    """`concurrency`: builds at once; `timeout`: seconds that one build may take."""

    type: BuilderType = BuilderType.LOCAL
    concurrency: int = 2
    storage_driver: StorageDriver = StorageDriver.VFS
    timeout: float = 7200.0


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it. `architectures` is empty when the configuration names none; `listen` is None for no web
    server."""

    source: Source
    write_back: WriteBack
    instance: str = "default"
    registry: RegistrySettings = RegistrySettings()
    builder: BuilderSettings = BuilderSettings()
    cluster: ClusterMode = ClusterMode.NONE
    architectures: tuple[Arch, ...] = ()
    deliver: tuple[Delivery, ...] = (Delivery.COMMIT,)
    listen: Address | None = None


def read_settings(content: bytes, path: str) -> Settings:
    """Raises InvalidInput with all faults of the file."""
    file, faults = check(_File, only_document(content, path, API_VERSION, KIND))
    if file is None:
        raise InvalidInput(set(faults))
    source, registry, builder = file.source, file.registry, file.builder
    return Settings(
        source=Source(source.url, source.branch, source.path, source.interval),
        write_back=WriteBack(file.write_back.branch or source.branch),
        instance=file.instance,
        registry=RegistrySettings(tuple(registry.insecure), registry.auth_file, registry.ca_file),
        builder=BuilderSettings(builder.type, builder.concurrency, builder.storage_driver, builder.timeout),
        cluster=file.cluster.mode,
        architectures=tuple(file.architectures),
        deliver=tuple(file.deliver),
        listen=file.web.listen if file.web else None,
    )


_SCP: Final = re.compile(r"(?:(?P<user>[^@:/]+)@)?(?P<host>[^@:/]+):(?P<path>[^/].*|/(?!/).*)")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_URL_HINT: Final = (
    "write https://host/path, ssh://git@host/path, git@host:path, file:///path or an absolute path"
)


def url(text: str) -> str:
    """A URL that is safe to hand to git. Raises pydantic's custom error; the message never repeats a
    credential."""
    if not text or text.startswith("-") or "::" in re.sub(r"\[[^\]/]*\]", "", text):
        raise rule(
            "must not be empty, start with '-' or hold '::'", _URL_HINT
        )  # options, and git's remote helpers
    if not text.isprintable() or " " in text:
        raise rule("must not hold spaces or control characters", _URL_HINT)
    if text.startswith("/"):
        return text
    if "://" not in text:
        return _scp(text)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise rule("is no URL", _URL_HINT) from None
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or len(parts.path) < 2:
            raise rule("must name an absolute path after file://", _URL_HINT)
        return text
    if parts.scheme not in ("https", "ssh", "http"):
        raise rule(f"has the scheme {shown(parts.scheme)}, which is not allowed", _URL_HINT)
    if (
        parts.password is not None
        or parts.query
        or parts.fragment
        or (parts.scheme != "ssh" and "@" in parts.netloc)
    ):
        raise rule(
            "must not hold credentials, a query or a fragment",
            "put credentials in a credential file of git's",
        )
    if parts.scheme == "http" and not _is_loopback(host):
        raise rule("must not be http: anybody on the way could change the source", "use https or ssh")
    _check_ssh_parts(parts.username or "", f"[{host}]" if ":" in host else host, parts.path.lstrip("/"))
    if port == 0:
        raise rule("names port 0", _URL_HINT)
    return text


def _scp(text: str) -> str:
    match = _SCP.fullmatch(text)
    if match is None:
        raise rule(f"is neither a URL nor an absolute path: {shown(text.rpartition('@')[2])}", _URL_HINT)
    _check_ssh_parts(match["user"] or "", match["host"], match["path"].lstrip("/"))
    return text


def _check_ssh_parts(user: str, host: str, path: str) -> None:
    """Nothing that ssh or the program at the other end could take as an option."""
    if user.startswith("-") or path.startswith("-") or not path or not _HOST.fullmatch(host):
        raise rule("has no sound user, host or path", _URL_HINT)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


_BAD_IN_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def branch(text: str) -> str:
    """A branch name by the rules of git-check-ref-format(1) with `--branch`. Raises pydantic's custom
    error."""
    parts = text.split("/")
    if (
        _BAD_IN_REF.search(text)
        or any(part.startswith(".") or part.endswith(".lock") or not part for part in parts)
        or text.endswith(".")
        or text.startswith("-")
        or text in ("@", "HEAD")
    ):
        hint = "write the branch's name alone, like main or release/4.20"
        raise rule(f"must be a branch name, not {shown(text)}", hint)
    return text


_AUTHORITY: Final = re.compile(rf"({_HOST.pattern})(?::([0-9]{{1,5}}))?")


def _registry_host(text: str) -> str:
    match = _AUTHORITY.fullmatch(text)
    if match is None or not 1 <= int(match[2] or 1) <= 65535:
        raise rule(f"must be host or host:port, not {shown(text)}", "leave out the scheme and the path")
    return text


def _address(text: str) -> Address:
    match = _AUTHORITY.fullmatch(text)
    if match is None or match[2] is None or int(match[2]) > 65535:
        raise rule(f"must be host:port, not {shown(text)}", "write it like 127.0.0.1:8080 or [::1]:8080")
    return Address(match[1].strip("[]"), int(match[2]))


def _at_once(count: int) -> int:
    if not 1 <= count <= 64:
        raise rule(f"must be from 1 to 64, not {count}")
    return count


def _file_name(text: str) -> str:
    if not text or not text.isprintable():
        raise rule(f"must be a path, not {shown(text)}", "leave the field out for none")
    return text


class _ApiVersion(StrEnum):
    V1ALPHA1 = API_VERSION


class _Kind(StrEnum):
    RECONCILER_CONFIG = KIND


_Branch = Annotated[str, AfterValidator(branch)]
_FileName = Annotated[str, AfterValidator(_file_name)]
_Type = Annotated[BuilderType, PlainValidator(one_of(BuilderType, later=("job", "openshift")))]
_Mode = Annotated[ClusterMode, PlainValidator(one_of(ClusterMode, later=("in-cluster", "kubeconfig")))]
_Deliver = Annotated[
    Delivery, PlainValidator(one_of(Delivery, later=("pool-annotation", "machine-config", "nodepool")))
]


class _Source(Strict):
    url: Annotated[str, AfterValidator(url)]
    branch: _Branch = "main"
    path: Folder = ""
    interval: Duration = 60.0


class _WriteBack(Strict):
    branch: _Branch = ""


class _Registry(Strict):
    insecure: list[Annotated[str, AfterValidator(_registry_host)]] = Field(default_factory=list)
    auth_file: _FileName = ""
    ca_file: _FileName = ""


class _Builder(Strict):
    type: _Type = BuilderType.LOCAL
    concurrency: Annotated[int, AfterValidator(_at_once)] = 2
    storage_driver: Annotated[StorageDriver, PlainValidator(one_of(StorageDriver))] = StorageDriver.VFS
    timeout: Duration = 7200.0


class _Cluster(Strict):
    mode: _Mode = ClusterMode.NONE


class _Web(Strict):
    listen: Annotated[Address, from_text(_address)]


class _File(Strict):
    api_version: Annotated[_ApiVersion, PlainValidator(one_of(_ApiVersion))]
    kind: Annotated[_Kind, PlainValidator(one_of(_Kind))]
    source: _Source
    instance: DnsLabel = "default"
    write_back: _WriteBack = _WriteBack()
    registry: _Registry = _Registry()
    builder: _Builder = _Builder()
    cluster: _Cluster = _Cluster()
    architectures: Architectures = Field(default_factory=list)
    deliver: Annotated[list[_Deliver], AfterValidator(distinct)] = Field(
        default_factory=lambda: [Delivery.COMMIT]
    )
    web: _Web | None = None
