"""What the stage `configs` is made from at one commit, and what of it is an input of one image.

Belongs here: the layer of one pool and architecture with the images that it is laid on, as far as Git names them, and
its digest. Does not belong here: the cluster's own images (`targets`), and how the stage is built (`stage`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from reconciler.core.documents import MachineConfigPolicy
from reconciler.core.machineconfig import paths
from reconciler.core.machineconfig.commit import Documents
from reconciler.core.machineconfig.layer import Kind, Layer
from reconciler.core.machineconfig.render import render
from reconciler.core.machineconfig.stage import Stage, stage, wants_extensions
from reconciler.core.machineconfig.values import MachineConfig, Place
from reconciler.core.model import Arch, ImageRef
from reconciler.core.shell import PROBES, SHELLS
from reconciler.errors import Fault

_NONE: Final = Documents()
_PROGRAM_FOLDERS: Final = frozenset({"bin", "sbin"})


@dataclass(frozen=True)
class Content:
    """What the MachineConfigs of one pool put into one architecture's image, if its recipe uses `configs`.

    `base` and `extensions_image` are None where Git does not say: then the cluster's are used. `configs` are in the
    order of merging.
    """

    configs: tuple[MachineConfig, ...]
    layer: Layer
    policy: MachineConfigPolicy
    base: ImageRef | None

    @property
    def extensions_image(self) -> ImageRef | None:
        """Where packages come from, if any are asked for and a MachineConfig says it."""
        return self.layer.extensions_image if self.wants_extensions else None

    @cached_property
    def wants_extensions(self) -> bool:
        """Whether the stage takes packages from an extensions image, where there is one."""
        return wants_extensions(self.layer)

    @cached_property
    def canonical(self) -> dict[str, Any]:
        """What of it decides whether an image is built anew, as JSON. Which of two files names the base is no
        difference."""
        return self.layer.canonical(self.policy) | {"osImageURL": str(self.base or "")}

    @cached_property
    def runs(self) -> bool:
        """Whether making the stage runs programs of the base."""
        text = self.stage("registry.example.com/base:1").text
        return any(line.startswith("RUN ") for line in text.splitlines())

    def stage(self, os_image: str, extensions_image: str = "") -> Stage:
        """How it is built on these images."""
        return stage(self.layer, os_image, extensions_image or None)

    def replaced(self) -> Iterator[Fault]:
        """Entries that stand where a shell, or a program that tells the architecture, would be found."""
        for entry in self.layer.entries:
            folder, _, name = entry.path.rpartition("/")
            if name in PROBES | SHELLS and folder.rpartition("/")[2] in _PROGRAM_FOLDERS:
                yield self.place_of(entry.path).fault(
                    f"{entry.path} may stand for a program that RUN instructions are read by",
                    "COPY it in the Containerfile, after the last RUN that looks at the architecture",
                )
            elif entry.kind is not Kind.FILE and name in _PROGRAM_FOLDERS and entry.target:
                yield self.place_of(entry.path).fault(
                    f"{entry.path} may lead to programs that RUN instructions are read by",
                    "make the link in the Containerfile, after the last RUN that looks at the architecture",
                )

    def place_of(self, path: str) -> Place:
        """Where the last MachineConfig stands that gives this path, or the unit that is behind it; of what several make
        together, the last of all."""
        for config in reversed(self.configs):
            for node in config.ignition.nodes:
                if paths.settled(node.path) == path:
                    return node.at
            for unit in config.ignition.units:
                if path.endswith(f"/{unit.name}"):
                    return unit.at
                for dropin in unit.dropins:
                    if path.endswith(f"/{unit.name}.d/{dropin.name}"):
                        return dropin.at
        return self.configs[-1].at if self.configs else Place("", 0)

    def place_of_field(self, name: str) -> Place | None:
        """Where a field of the spec was last given; None when it was nowhere."""
        return next((config.places[name] for config in reversed(self.configs) if name in config.places), None)


@dataclass(frozen=True)
class Supply:
    """A commit's documents, and what reconciler.yaml says of them."""

    documents: Documents = _NONE
    policy: MachineConfigPolicy = MachineConfigPolicy.IMAGE
    base_image: ImageRef | None = None
    _known: dict[tuple[str, Arch], Content] = field(default_factory=dict, compare=False, repr=False)

    def content(self, pool: str, arch: Arch) -> Content:
        """What one image takes. Raises InvalidInput with all that is wrong with what it would take."""
        found = self._known.get((pool, arch))
        if found is None:
            configs = self.documents.selected(pool, arch)
            layer = render(configs, arch)
            base = layer.os_image or self.base_image
            found = self._known[pool, arch] = Content(configs, layer, self.policy, base)
        return found


NOTHING: Final = Supply()
"""Of a commit without MachineConfigs and without a configuration."""
