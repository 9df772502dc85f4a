"""The shape of a MachineConfig's spec: Ignition 3.0 to 3.5, every field known, what no image can do refused by name.

Belongs here: names and types of fields, and rules of one field. Does not belong here: contents (`content`), rules
between fields (`documents`), and between documents (`merge`, `layer`).
Sources: openshift/api `machineconfiguration/v1/types.go`; coreos/ignition `config/v3_5/types/schema.go` and the
`Validate` methods beside it (3.0 to 3.4 have some of the same fields, so one shape serves them all); the Machine Config
Operator's `pkg/controller/common/{helpers,reconcile}.go`: no special bits in a file's mode, no users but `core`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator
from pydantic_core import PydanticKnownError

from reconciler.core.documents.shape import Strict, did_you_mean, one_of, rule, text_of
from reconciler.core.documents.values import image_reference
from reconciler.core.machineconfig import content, packages, paths, unitfile
from reconciler.core.machineconfig.values import KernelType
from reconciler.core.model import ImageRef
from reconciler.core.yaml import shown

VERSIONS: Final = ("3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0")
_OCTAL: Final = re.compile(r"0[0-7]{1,7}")
_DROPIN: Final = re.compile(r"[A-Za-z0-9:_.\\@-]+\.conf")
_ACCOUNT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_MAX_ID: Final = (1 << 32) - 2  # the last one means "leave as it is"
_LAYER: Final = "an image layer cannot do that; set it when nodes are installed"
_OFFLINE: Final = "a build takes everything from Git; put the content into this MachineConfig"
_CORE: Final = "upstream changes only sshAuthorizedKeys and passwordHash of the user core"


def _unsupported(hint: str) -> PlainValidator:
    """A field that Ignition has and no layer can. Empty, as exports write it, it says nothing."""

    def refuse(value: object) -> None:
        if value is not None and value != [] and value != {}:
            raise rule("is not supported", hint)

    return PlainValidator(refuse)


_NoLayer = Annotated[None, _unsupported(_LAYER)]
_NoNetwork = Annotated[None, _unsupported(_OFFLINE)]
_NoAccount = Annotated[None, _unsupported(_CORE)]


def _version(text: str) -> str:
    if text not in VERSIONS:
        hint = f"write one of {', '.join(VERSIONS)}"
        if text.startswith("2."):
            hint = "convert the config to Ignition 3; upstream does so for old clusters' sake only"
        raise rule(f"must be an Ignition version from 3.0.0 to 3.5.0, not {shown(text)}", hint)
    return text


def _path(text: str) -> str:
    if wrong := paths.fault_of(text):
        raise rule(f"{wrong}, not {shown(text)}")
    return text


def _mode(limit: int) -> PlainValidator:
    def mode(value: object) -> int | None:
        """A number, or YAML 1.1's octal (`0644`), which Kubernetes reads as a number and our reader as text."""
        if value is None:
            return None
        if isinstance(value, str) and _OCTAL.fullmatch(value):
            value = int(value, 8)
        if not isinstance(value, int) or isinstance(value, bool):
            raise PydanticKnownError("int_type")
        if not 0 <= value <= limit:
            hint = f"the number is decimal: 420 is 0644; at most {limit} ({limit:#o})"
            raise rule(f"must be permission bits, not {value} (which is {value:#o})", hint)
        return value

    return PlainValidator(mode)


def _account(text: str) -> str:
    if text and not _ACCOUNT.fullmatch(text):
        raise rule(f"must be the name of a user or group, not {shown(text)}", "or give its id")
    return text


def _number(number: int) -> int:
    if not 0 <= number <= _MAX_ID:
        raise rule(f"must be the number of a user or group, not {number}", f"at most {_MAX_ID}")
    return number


def _unit_name(text: str) -> str:
    if not unitfile.is_name(text):
        hint = "letters, digits and :-_.\\@, with an ending as .service or .timer"
        raise rule(f"must be the name of a systemd unit, not {shown(text)}", hint)
    return text


def _dropin_name(text: str) -> str:
    if len(text) > 255 or not _DROPIN.fullmatch(text):
        raise rule(f"must be a file name that ends in .conf, not {shown(text)}")
    return text


def _compression(text: str) -> str:
    if text not in ("", "gzip"):
        raise rule(f"must be gzip or empty, not {shown(text)}")
    return text


def _checksum(text: str) -> str:
    try:
        return content.checksum(text)
    except content.Unreadable as error:
        raise rule(error.message, error.hint) from None


def _core(text: str) -> str:
    if text != "core":
        raise rule(f"must be core, not {shown(text)}", _CORE)
    return text


def _argument(text: str) -> str:
    if _CONTROL.search(text):
        raise rule("holds a control character", "remove it")
    if text.count('"') % 2:
        raise rule("opens a quote that it does not close", "close it in the same item")
    return text


def _extension(text: str) -> str:
    if text not in packages.EXTENSIONS:
        raise rule(
            f"must be an extension that upstream knows, not {shown(text)}",
            did_you_mean(text, packages.EXTENSIONS),
        )
    return text


def _image(value: object) -> ImageRef | None:
    text = "" if value is None else text_of(value)
    return image_reference(text) if text else None


def _kernel(value: object) -> KernelType:
    return KernelType.DEFAULT if value in ("", None) else one_of(KernelType)(value)


Argument = Annotated[str, AfterValidator(_argument)]
_Path = Annotated[str, AfterValidator(_path)]


class Verification(Strict):
    """`verification`."""

    hash: Annotated[str, AfterValidator(_checksum)] | None = None


class Resource(Strict):
    """`contents`, and one of `append`."""

    source: str | None = None
    compression: Annotated[str, AfterValidator(_compression)] | None = None
    verification: Verification | None = None
    http_headers: _NoNetwork = None


class Account(Strict):
    """`user` and `group`."""

    id: Annotated[int, AfterValidator(_number)] | None = None
    name: Annotated[str, AfterValidator(_account)] | None = None


class _Node(Strict):
    path: _Path
    user: Account | None = None
    group: Account | None = None
    overwrite: bool | None = None


class File(_Node):
    """One of `storage.files`."""

    mode: Annotated[int | None, _mode(0o777)] = None
    contents: Resource | None = None
    append: list[Resource] | None = None


class Directory(_Node):
    """One of `storage.directories`."""

    mode: Annotated[int | None, _mode(0o7777)] = None


class Link(_Node):
    """One of `storage.links`."""

    target: str | None = None
    hard: bool | None = None


class _Storage(Strict):
    files: list[File] | None = None
    directories: list[Directory] | None = None
    links: list[Link] | None = None
    disks: _NoLayer = None
    filesystems: _NoLayer = None
    luks: _NoLayer = None
    raid: _NoLayer = None


class Dropin(Strict):
    """One of a unit's `dropins`."""

    name: Annotated[str, AfterValidator(_dropin_name)]
    contents: str | None = None


class Unit(Strict):
    """One of `systemd.units`."""

    name: Annotated[str, AfterValidator(_unit_name)]
    contents: str | None = None
    enabled: bool | None = None
    mask: bool | None = None
    dropins: list[Dropin] | None = None


class _Systemd(Strict):
    units: list[Unit] | None = None


class User(Strict):
    """One of `passwd.users`."""

    name: Annotated[str, AfterValidator(_core)]
    ssh_authorized_keys: list[str] | None = None
    password_hash: str | None = None
    gecos: _NoAccount = None
    groups: _NoAccount = None
    home_dir: _NoAccount = None
    no_create_home: _NoAccount = None
    no_log_init: _NoAccount = None
    no_user_group: _NoAccount = None
    primary_group: _NoAccount = None
    shell: _NoAccount = None
    should_exist: _NoAccount = None
    system: _NoAccount = None
    uid: _NoAccount = None


class _Passwd(Strict):
    users: list[User] | None = None
    groups: _NoAccount = None


class _Header(Strict):
    version: Annotated[str, AfterValidator(_version)]
    config: _NoNetwork = None
    proxy: _NoNetwork = None
    security: _NoNetwork = None
    timeouts: _NoNetwork = None


class _Arguments(Strict):
    should_exist: list[Argument] | None = None
    should_not_exist: _NoLayer = None


class Config(Strict):
    """An Ignition config."""

    ignition: _Header
    storage: _Storage | None = None
    systemd: _Systemd | None = None
    passwd: _Passwd | None = None
    kernel_arguments: _Arguments | None = None


def _config(value: object) -> Any:
    return None if value == {} else value  # upstream takes a config that says nothing at all


class Spec(Strict):
    """A MachineConfig's `spec`."""

    config: Annotated[Config | None, BeforeValidator(_config)] = None
    kernel_arguments: list[Argument] | None = None
    extensions: list[Annotated[str, AfterValidator(_extension)]] | None = None
    kernel_type: Annotated[KernelType, PlainValidator(_kernel)] = KernelType.DEFAULT
    fips: bool | None = None
    os_image: Annotated[ImageRef | None, PlainValidator(_image)] = Field(default=None, alias="osImageURL")
    extensions_image: Annotated[ImageRef | None, PlainValidator(_image)] = Field(
        default=None, alias="baseOSExtensionsContainerImage"
    )
