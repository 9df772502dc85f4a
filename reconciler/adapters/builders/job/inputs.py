"""The ConfigMaps that a build's inputs travel in, as JSON.

Belongs here: what goes into them, how they are named, and how much fits. Does not belong here: creating them, and
the archive of the context (`archive`).

A ConfigMap's name ends in a hash of its content, so one that is there already is the right one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from reconciler.adapters.builders import script
from reconciler.adapters.builders.job import archive
from reconciler.adapters.builders.job.names import CONFIG_MAP, EPHEMERAL, INPUT, build_labels
from reconciler.core.inputs import canonical_json
from reconciler.ports import BuildRequest
from reconciler.ports.cluster import Json

LIMIT: Final = 900_000
"""Bytes of content in one ConfigMap. The API server takes 1 MiB of it, and etcd 1.5 MiB with all around it."""
TRUST_KEY: Final = "ca-bundle.crt"
JOB_SCRIPT: Final = Path(__file__).with_name("job.sh")
_LARGE: Final = ("Containerfile", "ignore")
"""The files that users may make as long as they like."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The small files of a build. Those that may be `large` go where the context goes; the others never fill a
    ConfigMap."""

    small: Mapping[str, bytes]
    large: Mapping[str, bytes]

    @property
    def size(self) -> int:
        """Bytes of names and content."""
        return size_of({**self.small, **self.large})


def texts(
    request: BuildRequest, insecure: frozenset[str], beside: Mapping[str, bytes] = MappingProxyType({})
) -> Texts:
    """What the pod is given beside the context, with more small files. Raises UnusableRequest."""
    given = {name: text.encode("utf-8", "surrogateescape") for name, text in script.files(request).items()}
    given |= {"build.sh": script.PATH.read_bytes(), "job.sh": JOB_SCRIPT.read_bytes(), **beside}
    if insecure:
        given["registries.conf"] = script.registries_conf(insecure).encode()
    return Texts(
        {name: content for name, content in given.items() if name not in _LARGE},
        {name: content for name, content in given.items() if name in _LARGE},
    )


def size_of(files: Mapping[str, bytes]) -> int:
    """What these files take up in a ConfigMap, in bytes."""
    return sum(len(name) + len(content) for name, content in files.items())


def fits(given: Texts, archived: int) -> bool:
    """Whether a build's files and an archive of so many bytes go into one ConfigMap together."""
    return given.size + len(archive.NAME) + archived <= LIMIT


def config_map(
    request: BuildRequest,
    files: Mapping[str, bytes],
    instance: str,
    namespace: str,
    owners: Sequence[Mapping[str, Any]],
) -> Json:
    """A ConfigMap with these files. Nobody can change it: it can only be deleted."""
    data, binary = {}, {}
    for name, content in sorted(files.items()):
        try:
            data[name] = content.decode()
        except UnicodeDecodeError:
            binary[name] = base64.b64encode(content).decode()
    held = {"data": data, "binaryData": binary}
    body = {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.name,
        "metadata": {
            "name": f"{request.name}-{hashlib.sha256(canonical_json(held)).hexdigest()[:8]}",
            "namespace": namespace,
            "labels": {**build_labels(instance, request.pool, request.arch), EPHEMERAL: "true"},
            "annotations": {INPUT: request.annotations.get(INPUT, "")},
            "ownerReferences": [dict(owner) for owner in owners],
        },
        "immutable": True,
    }
    return {**body, **{key: value for key, value in held.items() if value}}
