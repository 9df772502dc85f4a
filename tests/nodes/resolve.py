"""Turns a pod, and the ConfigMaps and Secrets it names, into a plan, as the kubelet and a container runtime do it.

Pure but for `find`, which looks an object up. Does not belong here: which fields are honoured (`spec`); environment
variables (`environment`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Final

from tests.nodes import environment, linux
from tests.nodes.plan import Container, File, Mount, PodPlan, Volume
from tests.nodes.spec import SIZE, Object

Find = Callable[[str, str], Object | None]
"""Looks up an object of the pod's namespace by resource, such as `secrets`, and name; None when there is none."""

DEFAULT_CAPABILITIES: Final = (
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETPCAP", "SETUID",
)  # fmt: skip
"""What CRI-O gives a container that asks for nothing. Others give more, so what works with these works there."""
_MODE: Final = 0o644
_FACTORS: Final = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


class NotYet(Exception):
    """A container cannot be started as things are; the kubelet would say so and try again."""

    def __init__(self, reason: str, message: str, container: str = "") -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.container = container


@dataclass(frozen=True, slots=True)
class Image:
    """What is taken from a container image: its configuration, and the files in which it differs from this machine."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    uid: int = 0
    files: Mapping[str, str] = field(default_factory=dict)
    file_capabilities: Mapping[str, str] = field(default_factory=dict)


BUILDAH: Final = Image(
    env={"BUILDAH_ISOLATION": "chroot", "_BUILDAH_STARTED_IN_USERNS": ""},
    files={
        "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nbuild:x:1000:1000::/home/build:/bin/sh\n",
        "/etc/group": "root:x:0:\ntty:x:5:\nbuild:x:1000:\n",
        "/etc/subuid": "build:1:999\nbuild:1001:64535\n",
        "/etc/subgid": "build:1:999\nbuild:1001:64535\n",
    },
    file_capabilities={"/usr/bin/newuidmap": "SETUID", "/usr/bin/newgidmap": "SETGID"},
)
"""quay.io/buildah/stable, as its Containerfile makes it: user `build`, its ranges, and programs with capabilities."""


def resolve(pod: Object, images: Mapping[str, Image], find: Find, directory: Path, logs: Path) -> PodPlan:
    """The plan of an admitted pod: `directory` is its mount point, `logs` the folder for its logs.

    Raises NotYet.
    """
    spec = pod["spec"]
    context = spec.get("securityContext") or {}
    maker = _Maker(pod, images, find, logs)
    volumes = tuple(_volume(volume, find) for volume in spec.get("volumes") or ())
    return PodPlan(
        directory=str(directory),
        hostname=pod["metadata"]["name"][:63],
        volumes=volumes,
        init_containers=tuple(maker.container(item) for item in spec.get("initContainers") or ()),
        containers=tuple(maker.container(item) for item in spec["containers"]),
        fs_group=context.get("fsGroup"),
    )


@dataclass(frozen=True, slots=True)
class _Maker:
    pod: Object
    images: Mapping[str, Image]
    find: Find
    logs: Path

    def container(self, spec: Object) -> Container:
        image = self.images.get(spec["image"])
        name = spec["name"]
        if image is None:
            raise NotYet("ErrImagePull", f"the test nodes have no image {spec['image']}", name)
        shared, own = self.pod["spec"].get("securityContext") or {}, spec.get("securityContext") or {}
        context = {**shared, **{key: value for key, value in own.items() if value is not None}}
        uid = context.get("runAsUser", image.uid)
        if context.get("runAsNonRoot") and uid == 0:
            why = "container has runAsNonRoot and would run as root"
            raise NotYet("CreateContainerConfigError", why, name)
        try:
            env = environment.resolve(self.pod, spec, image.env, self.find)
        except environment.Missing as error:
            raise NotYet("CreateContainerConfigError", str(error), name) from error
        groups = [*(shared.get("supplementalGroups") or ())]
        if shared.get("fsGroup") is not None:
            groups.append(shared["fsGroup"])
        return Container(
            name=name,
            argv=_argv(spec, image, env),
            env=env,
            cwd=spec.get("workingDir") or image.cwd,
            log=str(self.logs / f"{name}.log"),
            mounts=tuple(self._mount(mount) for mount in spec.get("volumeMounts") or ()),
            files=image.files,
            file_capabilities=image.file_capabilities,
            uid=uid,
            gid=context.get("runAsGroup"),
            groups=tuple(groups),
            capabilities=_capabilities(context.get("capabilities") or {}),
            no_new_privileges=context.get("allowPrivilegeEscalation") is False,
            read_only_root=bool(context.get("readOnlyRootFilesystem")),
            message_path=spec.get("terminationMessagePath") or "/dev/termination-log",
            message_from_log=spec.get("terminationMessagePolicy") == "FallbackToLogsOnError",
        )

    def _mount(self, mount: Object) -> Mount:
        (volume,) = (v for v in self.pod["spec"]["volumes"] if v["name"] == mount["name"])
        return Mount(
            volume=mount["name"],
            path=mount["mountPath"],
            read_only=bool(mount.get("readOnly")) or "emptyDir" not in volume,
            sub_path=mount.get("subPath") or "",
        )


def _argv(spec: Object, image: Image, env: Mapping[str, str]) -> tuple[str, ...]:
    command, args = spec.get("command") or (), spec.get("args") or ()
    words = (*command, *args) if command else (*image.entrypoint, *(args or image.command))
    if not words:
        raise NotYet("CreateContainerError", "no command specified", spec["name"])
    return tuple(environment.expand(word, env) for word in words)


def _capabilities(asked: Object) -> tuple[str, ...]:
    """Those of CRI-O with `add`, then without `drop`. ALL stands for all, and to drop all comes first."""
    add, drop = set(asked.get("add") or ()), set(asked.get("drop") or ())
    base = set() if "ALL" in drop else set(DEFAULT_CAPABILITIES)
    more = set(linux.CAPABILITIES) if "ALL" in add else add
    return tuple(sorted((base | more) - drop))


def _volume(spec: Object, find: Find) -> Volume:
    name = spec["name"]
    if "emptyDir" in spec:
        empty = spec["emptyDir"] or {}
        limit = empty.get("sizeLimit")
        return Volume(
            name, None, empty.get("medium") == "Memory", None if limit is None else quantity(str(limit))
        )
    files: dict[str, File] = {}
    if config_map := spec.get("configMap"):
        files.update(_files("configmaps", config_map["name"], config_map, config_map, find))
    elif secret := spec.get("secret"):
        files.update(_files("secrets", secret["secretName"], secret, secret, find))
    elif projected := spec.get("projected"):
        for source in projected.get("sources") or ():
            for kind, resource in (("configMap", "configmaps"), ("secret", "secrets")):
                if chosen := source.get(kind):
                    files.update(_files(resource, chosen["name"], chosen, projected, find))
    return Volume(name, files)


def _files(resource: str, name: str, chosen: Object, modes: Object, find: Find) -> Iterable[tuple[str, File]]:
    """The files that a volume takes of one object. Raises NotYet for what is not there and not optional."""
    mode = modes.get("defaultMode")
    mode = _MODE if mode is None else mode
    data = content(resource, find(resource, name))
    if data is None:
        if chosen.get("optional"):
            return
        raise NotYet("ContainerCreating", f'{resource[:-1]} "{name}" not found')
    if not chosen.get("items"):
        yield from ((key, File.of(value, mode)) for key, value in sorted(data.items()))
    for item in chosen.get("items") or ():
        if item["key"] in data:
            own = item.get("mode")
            yield item["path"], File.of(data[item["key"]], mode if own is None else own)
        elif not chosen.get("optional"):
            raise NotYet("ContainerCreating", f"{resource[:-1]} {name} has no key {item['key']}")


def content(resource: str, found: Object | None) -> dict[str, bytes] | None:
    """What a ConfigMap or Secret holds, by key."""
    if found is None:
        return None
    if resource == "secrets":
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
    text = {key: value.encode() for key, value in (found.get("data") or {}).items()}
    return text | {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}


def quantity(text: str) -> int:
    """Bytes of a Kubernetes quantity, such as 64Mi; `spec` admits no other spellings."""
    match = SIZE.fullmatch(text)
    assert match is not None
    return int(Decimal(match[1]) * _FACTORS[match[2]])
