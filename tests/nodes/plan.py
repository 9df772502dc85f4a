"""What the supervisor of a pod is told to do: everything looked up, nothing left to interpret.

Belongs here: the values, and their form on the wire between two processes.
Does not belong here: reading pod specs (`resolve`), carrying a plan out (`supervisor`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class File:
    """A file of a ConfigMap or Secret volume: its content in base64, and its mode."""

    content: str
    mode: int

    @classmethod
    def of(cls, content: bytes, mode: int) -> File:
        """A file with this content."""
        return cls(base64.b64encode(content).decode(), mode)

    @property
    def data(self) -> bytes:
        """The content itself."""
        return base64.b64decode(self.content)


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of a pod. With `files` it holds those (path to file); else it is an emptyDir.

    `limit` is the most that an emptyDir may hold, in bytes. One in memory is full then; any other has its pod evicted.
    """

    name: str
    files: Mapping[str, File] | None = None
    memory: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Mount:
    """Where a container sees a volume, or a file or folder in it."""

    volume: str
    path: str
    read_only: bool = False
    sub_path: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """A container, ready to run. `capabilities` are all that it may ever have.

    `gid` is None to take the primary group of the user from /etc/passwd, as container runtimes do. `files` are those
    that its image has and this machine's root file system lacks: path to text. `file_capabilities` are programs that
    have a capability in the image where this machine's have set-user-ID: path to capability.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    log: str
    mounts: tuple[Mount, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    file_capabilities: Mapping[str, str] = field(default_factory=dict)
    uid: int = 0
    gid: int | None = None
    groups: tuple[int, ...] = ()
    capabilities: tuple[str, ...] = ()
    no_new_privileges: bool = False
    read_only_root: bool = False
    message_path: str = "/dev/termination-log"
    message_from_log: bool = False


@dataclass(frozen=True, slots=True)
class PodPlan:
    """A pod. `directory` is an empty folder on the machine that the pod's own mounts are put on."""

    directory: str
    hostname: str
    volumes: tuple[Volume, ...]
    init_containers: tuple[Container, ...]
    containers: tuple[Container, ...]
    fs_group: int | None = None

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PodPlan:
        """What `to_json` wrote."""
        raw = json.loads(text)
        return cls(
            **{
                **raw,
                "volumes": tuple(_volume(item) for item in raw["volumes"]),
                "init_containers": tuple(_container(item) for item in raw["init_containers"]),
                "containers": tuple(_container(item) for item in raw["containers"]),
            }
        )


def _volume(raw: dict[str, Any]) -> Volume:
    files = raw["files"]
    return Volume(
        **{**raw, "files": None if files is None else {path: File(**file) for path, file in files.items()}}
    )


def _container(raw: dict[str, Any]) -> Container:
    lists = {name: tuple(raw[name]) for name in ("argv", "groups", "capabilities")}
    return Container(**{**raw, **lists, "mounts": tuple(Mount(**mount) for mount in raw["mounts"])})
