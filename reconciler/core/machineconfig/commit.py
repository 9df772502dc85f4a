"""All MachineConfigs and MachineConfigPools of one commit: sound ones, and what is known of the others.

Belongs here: reading any document of these kinds without ever raising, and which pools one that cannot be read could
belong to. Does not belong here: finding files (`catalogue`), and what the documents say (`documents`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from reconciler.core.machineconfig.documents import (
    ARCH_LABEL,
    KIND,
    OUTPUT_LABEL,
    POOL_KIND,
    read_machine_config,
    read_machine_config_pool,
)
from reconciler.core.machineconfig.selector import Pool, select, takes
from reconciler.core.machineconfig.values import MachineConfig
from reconciler.core.model import Arch
from reconciler.core.yaml import Document
from reconciler.errors import Fault, InvalidInput

_GROUP: Final = "machineconfiguration.openshift.io/"


@dataclass(frozen=True, slots=True)
class Broken:
    """A document, or a whole file, that cannot be read. `kind` and `name` are '' and `labels` None where not even
    these can be told; `arch` None: any."""

    path: str
    faults: tuple[Fault, ...]
    kind: str = ""
    name: str = ""
    labels: Mapping[str, str] | None = None
    arch: Arch | None = None

    def could_belong(self, pool: str, arch: Arch, documents: tuple[Pool, ...]) -> bool:
        """Whether what it was meant to say could enter this pool's image. `documents` are the pool's own."""
        if self.kind == POOL_KIND:
            return self.name in ("", pool)
        if self.labels is None:
            return True
        return self.arch in (None, arch) and takes(pool, self.labels, documents)


@dataclass(frozen=True, slots=True)
class Documents:
    """Those of a file, or of all files of a commit."""

    configs: tuple[MachineConfig, ...] = ()
    pools: tuple[Pool, ...] = ()
    broken: tuple[Broken, ...] = ()

    @property
    def paths(self) -> frozenset[str]:
        """The files that they stand in."""
        configs, pools = (one.at.path for one in self.configs), (one.at.path for one in self.pools)
        return frozenset(chain(configs, pools, (one.path for one in self.broken)))

    def selected(self, pool: str, arch: Arch) -> tuple[MachineConfig, ...]:
        """The pool's MachineConfigs in the order of merging. Raises InvalidInput, also for what cannot be read and
        could be one of them."""
        own = tuple(found for found in self.pools if found.name == pool)
        faults = {f for one in self.broken if one.could_belong(pool, arch, own) for f in one.faults}
        try:
            chosen = select(pool, arch, self.configs, own)
        except InvalidInput as error:
            raise InvalidInput(faults.union(error.faults)) from error
        if faults:
            raise InvalidInput(faults)
        return chosen


def together(parts: Iterable[Documents]) -> Documents:
    """Those of several files."""
    listed = list(parts)
    return Documents(
        tuple(chain.from_iterable(part.configs for part in listed)),
        tuple(chain.from_iterable(part.pools for part in listed)),
        tuple(chain.from_iterable(part.broken for part in listed)),
    )


def is_ours(api_version: str, kind: str) -> bool:
    """Whether a document is one of these, in whatever version: another version is a fault, not another kind."""
    return kind in (KIND, POOL_KIND) and api_version.startswith(_GROUP)


def read(documents: Iterable[Document]) -> Documents:
    """Those among the documents of one file. What carries the label of our own output is none of a user's, sound or
    not."""
    found = Documents()
    for document in documents:
        if is_ours(document.api_version, document.kind) and OUTPUT_LABEL not in (_labels(document) or {}):
            found = together((found, _one(document)))
    return found


def _one(document: Document) -> Documents:
    try:
        if document.kind == POOL_KIND:
            return Documents(pools=(read_machine_config_pool(document),))
        return Documents(configs=(read_machine_config(document),))
    except InvalidInput as error:
        labels = _labels(document)
        # Without any labels nobody knows which were meant: a misspelt key is a fault as well.
        sound = bool(labels) and all(isinstance(text, str) for text in (labels or {}).values())
        name = _metadata(document).get("name")
        return Documents(
            broken=(
                Broken(
                    document.path,
                    error.faults,
                    document.kind,
                    name if isinstance(name, str) else "",
                    labels if sound else None,
                    _arch(labels or {}),
                ),
            )
        )


def _metadata(document: Document) -> Mapping[str, Any]:
    found = document.data.get("metadata")
    return found if isinstance(found, dict) else {}


def _labels(document: Document) -> Mapping[str, Any] | None:
    """As they are written; None when they are nothing that can be looked into."""
    found = _metadata(document).get("labels", {})
    return found if isinstance(found, dict) else None


def _arch(labels: Mapping[str, Any]) -> Arch | None:
    try:
        return Arch.parse(labels[ARCH_LABEL])
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
