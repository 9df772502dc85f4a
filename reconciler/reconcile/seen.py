"""What was seen to be so, in a registry or in Git's history, so that the next pass asks only for what may be otherwise.

Belongs here: which facts may be remembered from pass to pass. Does not belong here: asking, and when to ask again.

Content that is named by its digest never changes; it can only be gone, and so can the tag that keeps it. Whoever wants
to know of that calls `forget` first. What other tags name, and what was not there, is never remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.core.index import Child, Provenance
from reconciler.core.model import Arch
from reconciler.core.status import PoolRecord
from reconciler.reconcile.recent import Recent


@dataclass(slots=True)
class Seen:
    """Facts about images, by repository and digest. `provenances` are what they carry; `children` were verified for an
    architecture and have a tag that keeps them; `indexes` are there, and have one too; `listed` are the digests that an
    index holds; `records` are those whose source commit is the one that their history tells, which never changes."""

    provenances: Recent[tuple[str, str], Provenance] = field(default_factory=Recent)
    children: Recent[tuple[str, str, Arch], Child] = field(default_factory=Recent)
    indexes: Recent[tuple[str, str], bool] = field(default_factory=Recent)
    listed: Recent[tuple[str, str], Mapping[Arch, str]] = field(default_factory=Recent)

    records: Recent[PoolRecord, bool] = field(default_factory=Recent)

    def forget(self) -> None:
        """Have everything in the registry asked for again."""
        self.provenances, self.children = Recent(), Recent()
        self.indexes, self.listed = Recent(), Recent()

    def settle(self) -> None:
        """Forget what was not of use since the last call."""
        for memory in (self.provenances, self.children, self.indexes, self.listed, self.records):
            memory.settle()
