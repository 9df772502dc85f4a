"""Builds under way and ended, seen from the plan: what to start, what to wait for, what has failed.

Belongs here: attempts, names, retry. Does not belong here: how a builder builds, or whether something must be built.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from reconciler.core.index import Provenance, provenance
from reconciler.core.names import arch_tag, build_name
from reconciler.core.plan import Target
from reconciler.core.pool import Pool
from reconciler.ports import Build, Builder, BuildRequest, Cause, Clock
from reconciler.reconcile.history import History

ATTEMPTS = 3
"""How often the infrastructure may fail one build before a person has to look."""
_FIRST_DELAY = 2.0


class Standing(StrEnum):
    """Where the work for one cell stands after a pass."""

    BUILDING = "building"
    WAITING = "waiting"
    """Failed for a reason outside the definition; tried again at its time."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Work:
    """The standing of one cell's build. `build` is the latest attempt."""

    standing: Standing
    build: Build | None = None


class Builds:
    """Asks a builder for what a plan needs."""

    def __init__(self, builder: Builder, history: History, clock: Clock) -> None:
        self._builder = builder
        self._history = history
        self._clock = clock

    def ensure(self, pool: Pool, target: Target, commit: str) -> Work:
        """See to it that the image of a target is being built, and say how that stands.

        A failure of the definition is final for these inputs; one of the infrastructure is tried again, with a
        growing delay. A build that ended well and left no image is one of the infrastructure.
        """
        assert target.input is not None
        known = {build.name: build for build in self._builder.builds()}
        under_way = self._of_another_engine(pool, target, known.values())
        if under_way:
            return Work(Standing.BUILDING, under_way)
        attempt, last = 1, None
        while (name := build_name(pool.name, target.arch, target.input, attempt)) in known:
            last = known[name]
            attempt += 1
        if last is not None:
            if not last.ended:
                return Work(Standing.BUILDING, last)
            if last.cause is Cause.DEFINITION or attempt > ATTEMPTS:
                return Work(Standing.FAILED, last)
            if self._clock.now() < last.finished + _FIRST_DELAY * 4 ** (attempt - 2):
                return Work(Standing.WAITING, last)
        self._builder.ensure(request(self._history, pool, target, commit, attempt))
        return Work(Standing.BUILDING)

    def _of_another_engine(self, pool: Pool, target: Target, builds: Iterable[Build]) -> Build | None:
        """A build of the same inputs that another engine began, under a name that only it knows."""
        for build in builds:
            found = provenance({"annotations": dict(build.annotations)})
            if build.ended or (build.pool, build.arch) != (pool.name, target.arch) or found is None:
                continue
            if found.engine == self._history.engine.version:
                continue
            again = self._history.read_again(pool.name, target.arch, found.source_commit, found.epoch)
            if again and again.inputs.input(found.bases) == target.input:
                return build
        return None


def request(history: History, pool: Pool, target: Target, commit: str, attempt: int) -> BuildRequest:
    """Everything a builder needs for one target: a function of its inputs, but for the commit that is recorded."""
    assert target.inputs is not None
    assert target.bases is not None
    assert target.input is not None
    recipe, blobs = history.recipe(pool, target.arch), history.blobs(pool)
    provenance = Provenance(
        target.input,
        target.inputs.definition,
        history.engine.version,
        commit,
        target.inputs.epoch,
        target.bases,
    )
    return BuildRequest(
        name=build_name(pool.name, target.arch, target.input, attempt),
        pool=pool.name,
        arch=target.arch,
        containerfile=pool.text(target.arch, blobs),
        # Only files that the digest covers are exported, so ignore rules have been applied already. Where a bind
        # mount shows the whole context they are needed again: they hold for COPY, not for mounts.
        ignorefile=pool.ignore_file(target.arch, blobs)[1] if recipe.binds_context else "",
        context=recipe.context,
        bases=target.bases,
        image=f"{pool.definition.push.repository}:{arch_tag(pool.name, target.arch, target.input)}",
        annotations=provenance.annotations(),
    )
