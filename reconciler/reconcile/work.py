"""Builds under way and ended, seen from the plan: what to start, what to wait for, what has failed.

Belongs here: attempts, names, retry. Does not belong here: how a builder builds, or whether something must be built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from reconciler.core.index import Provenance, provenance
from reconciler.core.model import Arch
from reconciler.core.names import arch_tag, build_name
from reconciler.core.plan import Action, Cell, Plan, Target
from reconciler.core.pool import Pool
from reconciler.errors import ReconcilerError
from reconciler.ports import Build, Builder, BuildRequest, Cause, Clock, Phase
from reconciler.reconcile.history import History
from reconciler.reconcile.isolation import Isolated


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and when a build is tried again after the infrastructure failed it.

    `attempts` in all, None for no end; `first` is the delay after the first failure in seconds, which grows four-fold
    up to `longest`.
    """

    attempts: int | None = 3
    first: float = 2.0
    longest: float = 900.0

    def exhausted(self, attempts: int) -> bool:
        """Whether a person has to look, after so many attempts."""
        return self.attempts is not None and attempts >= self.attempts

    def delay(self, attempts: int) -> float:
        """Seconds to wait after so many attempts."""
        return min(self.first * 4.0 ** min(attempts - 1, 20), self.longest)


BRIEF: Final = Patience()
"""For a run that somebody waits for."""
ENDLESS: Final = Patience(attempts=None)
"""For a daemon."""


class Standing(StrEnum):
    """Where the work for one cell stands after a pass."""

    BUILDING = "building"
    WAITING = "waiting"
    """Failed for a reason outside the definition; tried again at its time."""
    FAILED = "failed"
    BLOCKED = "blocked"
    """Something that a person has to supply was missing; looked for again at its time."""


AT_REST: Final = frozenset({Standing.FAILED, Standing.BLOCKED})
"""Where nothing goes on until somebody does something."""
_BLOCK: Final = (30.0, 300.0)
"""Bounds of the seconds after which what was missing is looked for again: a person has to supply it."""


@dataclass(frozen=True, slots=True)
class Work:
    """The standing of one cell's build. `build` is the latest attempt that is known; `until` is when the next one
    begins, for one that waits for it. `attempt` is to be begun now; 0 for none."""

    standing: Standing
    build: Build | None = None
    until: float = 0.0
    attempt: int = 0


Known = Mapping[tuple[str, Arch], list[Build]]


class Builds:
    """Asks a builder for what a plan needs, and tells what nobody needs any more."""

    def __init__(
        self,
        builder: Builder,
        history: History,
        clock: Clock,
        patience: Patience = BRIEF,
        staging: str = "",
    ) -> None:
        self._builder = builder
        self._staging = staging
        self._history = history
        self._clock = clock
        self._patience = patience

    def known(self) -> Known:
        """The builds that the builder knows now, by what they are of."""
        found: dict[tuple[str, Arch], list[Build]] = {}
        for build in self._builder.builds():
            found.setdefault((build.pool, build.arch), []).append(build)
        return found

    def begin(self, pool: Pool, target: Target, commit: str, work: Work, name: str = "") -> None:
        """Have the attempt begun that is due, if one is, as part of the pool's work of that name."""
        if work.attempt:
            asked = request(self._history, pool, target, commit, work.attempt, self._staging)
            self._builder.ensure(replace(asked, work=name))

    def stand(self, pool: str, target: Target, known: Known, *, insist: bool = False) -> Work:
        """How building the image of a target stands, and whether an attempt is to be begun.

        A failure of the definition is final for these inputs; one of the infrastructure is tried again, with a
        growing delay; what was missing is looked for again, however often it was not there. A build that ended well
        and left no image is one of the infrastructure. With `insist` somebody asks for another attempt now, whatever
        the last one failed of.
        """
        assert target.input is not None
        builds = known.get((pool, target.arch), ())
        under_way = next((b for b in builds if not b.ended and self._is_other_engines(b, target)), None)
        if under_way:
            return Work(Standing.BUILDING, under_way)
        numbered = {attempt_of(build, target.input): build for build in builds}
        attempts = max(numbered, default=0)
        last = numbered[attempts] if attempts else None
        if last is not None and not last.ended:
            return Work(Standing.BUILDING, last)
        if last is not None and not insist:
            blocked = last.cause is Cause.MISSING
            if last.cause is Cause.DEFINITION or (self._patience.exhausted(attempts) and not blocked):
                return Work(Standing.FAILED, last)
            delay = self._patience.delay(attempts)
            if blocked:
                delay = min(max(delay, _BLOCK[0]), _BLOCK[1])
            # A clock that was set back since must not make the wait longer.
            if 0 <= self._clock.now() - last.finished < delay:
                standing = Standing.BLOCKED if blocked else Standing.WAITING
                return Work(standing, last, last.finished + delay)
        return Work(Standing.BUILDING, attempt=attempts + 1)

    def unwanted(
        self,
        plan: Plan,
        targets: Mapping[tuple[str, Arch], Target],
        known: Known,
        problems: list[ReconcilerError],
        *,
        clean: bool,
    ) -> tuple[str, ...]:
        """The builds that a plan has no use for: of other inputs, of images that exist, of pools and architectures
        that are gone, and attempts that others followed. What the plan could not decide keeps its builds; so does a
        pool that is not in it, unless the whole tree could be read (`clean`). What goes wrong with one pool is added to
        `problems`."""
        planned = {pool.name: pool for pool in plan.pools}
        found: list[str] = []
        for (name, arch), builds in sorted(known.items()):
            pool = planned.get(name)
            if pool is None:
                found += (build.name for build in builds if clean)
            elif pool.cells:  # without any it is suspended, or nothing is known of it
                cell = next((cell for cell in pool.cells if cell.arch is arch), None)
                target = targets.get((name, arch))
                with Isolated(name, problems):
                    found += [
                        build.name
                        for build in builds
                        if not self._is_wanted(build, cell, target) or _is_followed(build, builds, target)
                    ]
        return tuple(found)

    def _is_wanted(self, build: Build, cell: Cell | None, target: Target | None) -> bool:
        if cell is None:
            return False
        if cell.action is Action.BLOCKED:  # perhaps before it had a target
            return True
        # Where the image is there, a build of the same inputs may be the one that made it, a moment before its end.
        ending = cell.action is Action.REUSE and build.phase is Phase.RUNNING
        if target is None or not (cell.action is Action.BUILD or ending):
            return False
        found = provenance({"annotations": dict(build.annotations)})
        if found is not None and found.engine == self._history.engine.version:
            return found.input == target.input
        return self._is_other_engines(build, target)

    def _is_other_engines(self, build: Build, target: Target) -> bool:
        """Whether a build is of the same inputs, begun by another engine under a name that only it knows."""
        found = provenance({"annotations": dict(build.annotations)})
        if found is None or found.engine == self._history.engine.version:
            return False
        again = self._history.read_again(build.pool, build.arch, found.source_commit, found.epoch)
        return again is not None and again.inputs.input(found.bases) == target.input


def attempt_of(build: Build, input_digest: str) -> int:
    """Which attempt at these inputs a build is, counted from 1; 0 for one at others."""
    number = build.name.rpartition("-")[2]
    if not number.isdecimal() or build.name != build_name(build.pool, build.arch, input_digest, int(number)):
        return 0
    return int(number)


def _is_followed(build: Build, builds: Iterable[Build], target: Target | None) -> bool:
    """Whether a build has ended and a later attempt is known: then nothing depends on it any more."""
    if target is None or target.input is None or not build.ended:
        return False
    own = attempt_of(build, target.input)
    return 0 < own < max(attempt_of(other, target.input) for other in builds)


def request(
    history: History, pool: Pool, target: Target, commit: str, attempt: int, staging: str = ""
) -> BuildRequest:
    """Everything a builder needs for one target: a function of its inputs, but for the commit that is recorded.

    The image goes to the repository `staging`, '' for the pool's own.
    """
    assert target.inputs is not None
    content = target.inputs.configs
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
        image=f"{staging or pool.definition.push.repository}:{arch_tag(pool.name, target.arch, target.input)}",
        annotations=provenance.annotations(),
        push_secret=pool.definition.push_secret,
        pull_secret=pool.definition.pull_secret,
        configs=content.stage(target.os_image, target.extensions_image) if content else None,
    )
