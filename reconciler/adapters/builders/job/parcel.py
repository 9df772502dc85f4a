"""Brings a build's inputs to where its pod finds them: into ConfigMaps, and a large context into the registry.

Belongs here: which way they go, and creating what carries them. Does not belong here: the Job (`builder`), bytes and
JSON (`archive`, `inputs`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final

from reconciler.adapters.builders import script
from reconciler.adapters.builders.job import archive, inputs
from reconciler.adapters.builders.job.manifests import Sources
from reconciler.adapters.builders.job.names import CONFIG_MAP, metadata
from reconciler.adapters.builders.job.options import JobOptions
from reconciler.adapters.builders.job.surroundings import Surroundings
from reconciler.core.model import ImageRef
from reconciler.ports import BuildRequest, Objects, Registry
from reconciler.ports.cluster import Api

_IN_MEMORY: Final = 4 * 2**20
"""Bytes of an archive that are kept in memory before it becomes a file."""

Owners = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends inputs. The same request gives the same objects, so sending again changes nothing."""

    api: Api
    objects: Objects
    registry: Registry
    options: JobOptions
    beside: Mapping[str, bytes] = field(default_factory=dict)
    """Small files that the pod is given too."""

    def send(self, request: BuildRequest, owners: Owners, around: Surroundings) -> Sources:
        """Create the ConfigMaps of a build, with these owners, and store its context when that is too large for them.

        Raises UnusableRequest, OSError when a disk is full or content is missing, and what the API, the registry and
        `objects.blobs` raise.
        """
        texts = inputs.texts(request, self.options.insecure, self.beside)
        with _scratch() as packed:
            archive.write(request.context, self.objects, script.configs_files(request), packed)
            if inputs.fits(texts, archive.size_of(packed)):
                files = {**texts.small, **texts.large, archive.NAME: archive.content_of(packed)}
                artifact = ""
            else:
                files = dict(texts.small)
                artifact = self._store(request, texts.large)
        trust = ""
        if around.bundle and not self.options.job.trust_bundle:
            trust = self._create(request, {inputs.TRUST_KEY: around.bundle}, owners)
        return Sources(self._create(request, files, owners), artifact, trust, around.proxies)

    def _create(self, request: BuildRequest, files: Mapping[str, bytes], owners: Owners) -> str:
        """Create a ConfigMap unless it is there, and return its name."""
        body = inputs.config_map(request, files, self.options.instance, self.options.namespace, owners)
        self.api.create(CONFIG_MAP, body, self.options.namespace)
        return str(metadata(body)["name"])

    def _store(self, request: BuildRequest, beside: Mapping[str, bytes]) -> str:
        """Store the context as an image beside the one that is built, and return how to pull it."""
        repository = ImageRef.parse(request.image).repository
        with _scratch() as packed, _scratch() as layer:
            beside = {**beside, **script.configs_files(request)}
            archive.write(request.context, self.objects, beside, packed)
            artifact = archive.wrap(packed, layer, request.arch)
            self.registry.put_blob(repository, layer)
            with _scratch() as config:
                config.write(artifact.config)
                self.registry.put_blob(repository, config)
        self.registry.put(repository, artifact.tag, artifact.manifest)
        return f"{repository}@{artifact.manifest.digest}"

    def undo(self, config_maps: Sequence[str]) -> None:
        """Delete the ConfigMaps that were made for a build."""
        for name in config_maps:
            self.api.delete(CONFIG_MAP, name, self.options.namespace)

    def hand_over(self, config_maps: Sequence[str], owner: Mapping[str, Any]) -> None:
        """Let a build's object own its ConfigMaps, when nothing else does."""
        for name in config_maps:
            change = {"metadata": {"ownerReferences": [dict(owner)]}}
            self.api.patch(CONFIG_MAP, name, change, self.options.namespace)


def _scratch() -> IO[bytes]:
    return tempfile.SpooledTemporaryFile(_IN_MEMORY)
