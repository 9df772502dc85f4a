"""A builder whose builds end at once: their images have no layers, and the registry is real.

Belongs here: what stands in for buildah where everything around it is measured. Does not belong here: measuring.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from threading import Condition
from time import time
from typing import Final

import httpx

from reconciler.core.inputs import digest_of
from reconciler.core.model import Arch, Needs
from reconciler.ports import OCI_INDEX, OCI_MANIFEST, Build, BuildRequest, Cause, Phase, Refusal

_CONFIG: Final = "application/vnd.oci.image.config.v1+json"


class InstantBuilder:
    """Implements `ports.Builder`. Of all builds a share `failing` fails, for reasons that `chance` chooses."""

    def __init__(self, registry: str, chance: random.Random, failing: float = 0.0) -> None:
        """`registry` is `host:port`, by HTTP."""
        self._client = httpx.Client(base_url=f"http://{registry}/v2/", timeout=30)
        self._chance = chance
        self.failing = failing
        self._changed = Condition()
        self._builds: dict[str, Build] = {}
        self._ended = 0
        self.pushed: list[str] = []
        """The tags of all images that were ever pushed, in order."""

    def refusal(self, arch: Arch, needs: Needs) -> Refusal | None:  # noqa: ARG002  (it builds everything)
        """Nothing is refused."""
        return None

    def ensure(self, request: BuildRequest) -> None:
        """Build it, now."""
        if request.name in self._builds:
            return
        build = Build(request.name, request.pool, request.arch, Phase.FAILED, started=time(), finished=time())
        cause = self._cause(request)
        message = f"{cause.value} had its turn" if cause else ""
        phase = Phase.FAILED if cause else Phase.SUCCEEDED
        build = replace(build, phase=phase, cause=cause, message=message, annotations=request.annotations)
        with self._changed:
            self._builds[request.name] = build
            self._ended += 1
            self._changed.notify_all()

    def builds(self) -> tuple[Build, ...]:
        """All that are known."""
        with self._changed:
            return tuple(self._builds[name] for name in sorted(self._builds))

    glance = builds

    def discard(self, names: Collection[str]) -> None:
        """Forget them."""
        with self._changed:
            for name in names:
                self._builds.pop(name, None)

    def wait(self, seconds: float) -> bool:
        """Until a build has ended since the last call."""
        with self._changed:
            ended = self._changed.wait_for(lambda: self._ended > 0, timeout=seconds)
            self._ended = 0
            return ended

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def _cause(self, request: BuildRequest) -> Cause | None:
        if self._chance.random() < self.failing:
            return self._chance.choice([Cause.INFRASTRUCTURE, Cause.DEFINITION])
        try:
            push(self._client, request.image, request.arch, request.annotations)
        except httpx.HTTPError:
            return Cause.INFRASTRUCTURE
        self.pushed.append(request.image)
        return None


def push(client: httpx.Client, image: str, arch: Arch, annotations: Mapping[str, str]) -> str:
    """Push an image without layers to `host/repository:tag`, which the client reaches; returns its digest.

    Raises httpx.HTTPError.
    """
    repository, _, tag = image.partition("/")[2].rpartition(":")
    config = json.dumps(
        {"architecture": arch.value, "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}
    ).encode()
    digest = digest_of(config)
    if client.head(f"{repository}/blobs/{digest}").status_code != 200:
        begun = client.post(f"{repository}/blobs/uploads/").raise_for_status()
        place = httpx.URL(begun.headers["location"]).copy_merge_params({"digest": digest})
        client.put(place, content=config).raise_for_status()
    described = {"mediaType": _CONFIG, "digest": digest, "size": len(config)}
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": described,
            "layers": [],
            "annotations": dict(sorted(annotations.items())),
        }
    ).encode()
    answer = client.put(
        f"{repository}/manifests/{tag}", content=manifest, headers={"Content-Type": OCI_MANIFEST}
    )
    answer.raise_for_status()
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


def push_base(client: httpx.Client, tag: str, arches: Sequence[Arch]) -> None:
    """Push `os/base:TAG`, an index of images without layers. Raises httpx.HTTPError."""
    manifests = []
    for arch in arches:
        digest = push(client, f"registry/os/base:{tag}-{arch}", arch, {"tag": tag})
        found = client.head(f"os/base/manifests/{digest}", headers={"Accept": OCI_MANIFEST})
        manifests.append(
            {
                "mediaType": OCI_MANIFEST,
                "digest": digest,
                "size": int(found.headers["content-length"]),
                "platform": {"architecture": arch.value, "os": "linux"},
            }
        )
    index = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests}).encode()
    answer = client.put(f"os/base/manifests/{tag}", content=index, headers={"Content-Type": OCI_INDEX})
    answer.raise_for_status()
