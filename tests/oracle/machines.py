"""What a definition's MachineConfigs come to: for our digests, and as the image that FROM configs means.

Does not belong here: the edits (`kinds.machines`).
"""

from __future__ import annotations

from reconciler.core import yaml
from reconciler.core.machineconfig import Content, Documents, Supply, commit
from reconciler.core.model import Arch
from tests.oracle.bases import BASE
from tests.oracle.draft import Definition

POOL = "infra"
_PATH = "machines.yaml"


class _Kinds:
    def __contains__(self, pair: object) -> bool:
        return isinstance(pair, tuple) and commit.is_ours(*pair)


def documents(definition: Definition) -> Documents:
    """All that there are. Raises InvalidInput for what is no YAML."""
    return commit.together(
        commit.read(yaml.read(text.encode(), _PATH, _Kinds())) for text in definition.machines
    )


def content(definition: Definition, arch: Arch) -> Content | None:
    """What they put into an image; None without any. Raises InvalidInput."""
    if not definition.machines:
        return None
    return Supply(documents(definition)).content(POOL, arch)


def write_stage(found: Content) -> tuple[str, dict[str, bytes]]:
    """A Containerfile and its context, built before the definition's own."""
    stage = found.stage(BASE)
    return stage.text, {file.path: file.content for file in stage.files}
