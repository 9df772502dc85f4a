"""Images that exist and may be reused: found by record, by tag and by history, believed by their own annotations.

Belongs here: the rule that a record or a tag counts only if the image in the pool's own repository carries what the
record says (DESIGN §5). Does not belong here: choosing among them (`core.plan`), or writing anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.core.index import Provenance, children, load, provenance
from reconciler.core.model import Arch
from reconciler.core.names import arch_tag, arch_tag_prefix
from reconciler.core.plan import Image, Target
from reconciler.core.pool import Pool
from reconciler.core.status import ArchRecord, PoolRecord
from reconciler.errors import Fault, GitError
from reconciler.ports import Registry
from reconciler.reconcile.history import History
from reconciler.reconcile.seen import Seen

_MOST_TAGS: Final = 200
"""Tags of one pool and architecture that are looked into for another engine's images."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where records of a pool are found: the commit whose status files count, and the path of those."""

    tip: str
    status_path: str
    head: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """A record that was not believed, about one architecture or, with None, about the whole pool. `gone` says that the
    image is: the record may have been right."""

    pool: str
    arch: Arch | None
    fault: Fault
    gone: bool = False


class Images:
    """Looks for images of one pass. `doubts` collects what was not believed."""

    def __init__(
        self, registry: Registry, history: History, seen: Seen | None = None, staging: str = ""
    ) -> None:
        self._registry = registry
        self._staging = staging
        self._seen = seen or Seen()
        self._history = history
        self._known: dict[str, Provenance] = {}
        self._tags: dict[str, tuple[str, ...]] = {}
        self.doubts: list[Doubt] = []

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """What was not believed, for people."""
        return tuple(doubt.fault for doubt in self.doubts)

    @property
    def engine(self) -> str:
        """The engine that candidates are read by."""
        return self._history.engine.version

    def provenance(self, image: str) -> Provenance:
        """What a believed image was built from. Raises KeyError for an image that was not found here."""
        return self._known[image]

    def candidates(
        self, pool: Pool, target: Target, records: Sequence[PoolRecord], origin: Origin
    ) -> Iterator[Image]:
        """Images of this pool and architecture, most trusted first, each looked up only when asked for. `records` are
        what counts of the pool: what is recorded, and what waits to be.

        Raises RegistryUnavailable: when the registry cannot say, nobody may conclude that an image is missing.
        """
        for number, record in enumerate(records):
            yield from self._recorded(pool, record, target.arch, origin, quiet=number > 0)
        if target.input is not None:
            tag = arch_tag(pool.name, target.arch, target.input)
            for repository in self._built_to(pool):
                yield from self._look(pool, repository, tag, target.arch, "tag")
        for earlier in self._earlier(pool, origin):
            yield from self._recorded(pool, earlier, target.arch, origin, quiet=True)
        if not records or records[0].engine != self.engine:
            yield from self._of_other_engines(pool, target.arch)

    def recorded(self, pool: Pool, record: PoolRecord | None, arch: Arch, origin: Origin) -> Image | None:
        """The image that a record names for an architecture, whatever it was built from; None when it is not believed.

        Raises RegistryUnavailable.
        """
        return next(self._recorded(pool, record, arch, origin, quiet=True), None) if record else None

    def believed(self, pool: Pool, record: PoolRecord, origin: Origin, *, quiet: bool = False) -> bool:
        """Whether the index that a record names holds the images that it names, and these are this pool's.

        Raises RegistryUnavailable, RegistryError.
        """
        repository, _, digest = record.image.partition("@")
        wanted = {entry.arch: entry.image for entry in record.architectures}
        if any(self.recorded(pool, record, arch, origin) is None for arch in wanted):
            return False
        held = self.listed(repository, digest)
        if held is not None and {arch: f"{repository}@{child}" for arch, child in held.items()} == wanted:
            return True
        if not quiet:
            problem = f"names the index {digest[:19]}…, which does not hold these images"
            self._doubt(pool, origin, None, problem)
        return False

    def listed(self, repository: str, digest: str) -> Mapping[Arch, str] | None:
        """The digests of the images in an index; None when it is gone. Raises RegistryUnavailable, RegistryError."""
        found = self._seen.listed.get((repository, digest))
        if found is None:
            manifest = self._registry.manifest(repository, digest)
            if manifest is None:
                return None
            found = self._seen.listed[repository, digest] = children(load(manifest.content))
        return found

    def _built_to(self, pool: Pool) -> Iterator[str]:
        """The repositories that builds of a pool push to: what was built before staging was set up counts too."""
        if self._staging:
            yield self._staging
        yield pool.definition.push.repository

    def _earlier(self, pool: Pool, origin: Origin) -> Iterator[PoolRecord]:
        seen = set()
        for record in self._history.earlier(origin.tip, origin.status_path, pool.name):
            if record.image not in seen:
                seen.add(record.image)
                yield record

    def _recorded(
        self, pool: Pool, record: PoolRecord, arch: Arch, origin: Origin, *, quiet: bool
    ) -> Iterator[Image]:
        entry = next((e for e in record.architectures if e.arch == arch), None)
        if entry is None:
            return
        repository, _, digest = entry.image.partition("@")
        if not self._ours(pool, repository, entry, origin):
            if not quiet:
                self._doubt(pool, origin, arch, f"names {repository}, which this pool was never pushed to")
            return
        found = list(self._look(pool, repository, digest, arch, "history" if quiet else "status"))
        if not quiet:
            if not found and self._registry.digest(repository, digest) is None:
                problem = f"names {digest[:19]}…, which is gone from {repository}"
                self._doubt(pool, origin, arch, problem, gone=True)
            elif not found:
                self._doubt(pool, origin, arch, f"names {digest[:19]}…, which is not an image we built")
            elif difference := _difference(record, entry, self._known[entry.image]):
                self._doubt(
                    pool, origin, arch, f"gives another {difference} than the image itself, which is believed"
                )
        yield from found

    def _ours(self, pool: Pool, repository: str, entry: ArchRecord, origin: Origin) -> bool:
        """Whether the pool's images belong in `repository`: now, or (so that a changed push target copies instead of
        building) as its definition said at the commit the image was built from, on this branch."""
        if repository == pool.definition.push.repository:
            return True
        try:
            if not self._history.objects.is_ancestor(entry.source_commit, origin.head):
                return False
        except GitError:
            return False
        then = self._history.pool(entry.source_commit, pool.name)
        return then is not None and then.definition.push.repository == repository

    def _look(self, pool: Pool, repository: str, reference: str, arch: Arch, origin: str) -> Iterator[Image]:
        digest, found = reference, self._seen.provenances.get((repository, reference))
        if found is None:
            manifest = self._registry.manifest(repository, reference)
            found = provenance(load(manifest.content)) if manifest else None
            if manifest is None or found is None:
                return
            digest = manifest.digest
            self._seen.provenances[repository, digest] = found
        image = f"{repository}@{digest}"
        self._known[image] = found
        if found.engine == self.engine:
            yield Image(image, found.definition, found.input, origin)
            return
        # Another engine's digests say nothing; its source commit, read by this one, does (DESIGN §4.5).
        again = self._history.read_again(pool.name, arch, found.source_commit, found.epoch)
        if again:
            yield Image(image, again.inputs.definition, again.inputs.input(found.bases), origin)

    def _of_other_engines(self, pool: Pool, arch: Arch) -> Iterator[Image]:
        """Images that another engine tagged, and so under names that this one cannot know."""
        begin = arch_tag_prefix(pool.name, arch)
        for repository in self._built_to(pool):
            if repository not in self._tags:  # all architectures of a pool are in one
                self._tags[repository] = self._registry.tags(repository)
            tags = [tag for tag in self._tags[repository] if tag.startswith(begin)]
            for tag in tags[:_MOST_TAGS]:
                for image in self._look(pool, repository, tag, arch, "tag"):
                    if self._known[image.image].engine != self.engine:
                        yield image

    def _doubt(
        self, pool: Pool, origin: Origin, arch: Arch | None, problem: str, *, gone: bool = False
    ) -> None:
        path = self._history.path(origin.status_path, f"{pool.name}.yaml")
        hint = "what the images themselves say is believed, and the file is put right"
        record = f"the record of {arch}" if arch else "the record"
        doubt = Doubt(pool.name, arch, Fault(path, 0, f"{record} {problem}", hint), gone)
        if doubt not in self.doubts:
            self.doubts.append(doubt)


def _difference(record: PoolRecord, entry: ArchRecord, found: Provenance) -> str:
    """The first thing a record says otherwise than the image; digests compare within one engine only."""
    pairs = [
        ("sourceCommit", entry.source_commit, found.source_commit),
        ("epoch", entry.epoch, found.epoch),
        ("bases", tuple(sorted(entry.bases)), tuple(sorted(found.bases))),
    ]
    if record.engine == found.engine:
        pairs += [("input", entry.input, found.input), ("definition", entry.definition, found.definition)]
    return next((name for name, said, is_ in pairs if said != is_), "")
