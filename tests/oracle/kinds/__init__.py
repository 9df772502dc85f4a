"""All kinds of edits, by name.

A kind is a generator over a draft: what it does until its one `yield` prepares the definition before, what it does
afterwards is the edit. Does not belong here: how often a kind is drawn (`generate`), what it must come to (`judge`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.oracle.draft import Kind
from tests.oracle.kinds import branches, config, files, hazards, machines, stages, text

_GROUPS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "text": text.KINDS,
    "config": config.KINDS,
    "stages": stages.KINDS,
    "files": files.KINDS,
    "branch": branches.KINDS,
    "hazard": hazards.KINDS,
    "machines": machines.KINDS,
}
KINDS: Final[Mapping[str, Kind]] = {
    f"{group}/{name}": kind for group, kinds in _GROUPS.items() for name, kind in kinds.items()
}
