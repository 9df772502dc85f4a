"""One pass: snapshot → observe → plan → apply → record, and what it came to.

Belongs here: the order of the steps. Does not belong here: when passes happen, waiting, printing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reconciler.core.documents import Schedule
from reconciler.core.model import Arch
from reconciler.core.plan import Action, Plan, PoolPlan
from reconciler.core.status import PoolRecord
from reconciler.errors import Disposition, Fault, ReconcilerError
from reconciler.ports.cluster import PoolReport, PoolRollout
from reconciler.reconcile import drift, pending, state
from reconciler.reconcile.isolation import Isolated
from reconciler.reconcile.pending import Ask
from reconciler.reconcile.planning import Planning, World
from reconciler.reconcile.reporting import Reporting, report
from reconciler.reconcile.rollout import Nodes, nodes
from reconciler.reconcile.state import Drift
from reconciler.reconcile.work import AT_REST, BRIEF, Builds, Known, Patience, Work
from reconciler.reconcile.writing import Writing, Written


@dataclass(frozen=True, slots=True)
class Result:
    """What a pass came to.

    `heads` are the commits that it rests on, by revision, with its own commit where it made one; `images` where each
    image stands after it; `work` holds the cells that are not done; `unwanted` are builds that nobody needs any more.
    `schedule` is the repository's for refreshes. `nodes` say how far rollouts have come; None when that was not asked.
    """

    plan: Plan
    work: Mapping[tuple[str, Arch], Work] = field(default_factory=dict)
    written: Written = field(default_factory=Written)
    warnings: tuple[Fault, ...] = ()
    problems: tuple[ReconcilerError, ...] = ()
    heads: Mapping[str, str] = field(default_factory=dict)
    images: tuple[state.Image, ...] = ()
    unwanted: tuple[str, ...] = ()
    schedule: Schedule | None = None
    nodes: tuple[Nodes, ...] | None = None

    @property
    def in_flight(self) -> bool:
        """Whether builds run or wait for their next attempt."""
        return any(work.standing not in AT_REST for work in self.work.values())

    @property
    def settled(self) -> bool:
        """Whether another pass would find nothing left to do or to wait for."""
        return not self.in_flight and not self.written.overtaken

    @property
    def sound(self) -> bool:
        """Whether every image is what the commit asks for."""
        return not (self.work or self.problems or self.plan.errors or self.plan.summary[Action.BLOCKED])

    @property
    def hindered(self) -> bool:
        """Whether the world stood in the way of something, so that another pass may get further with the same commit:
        a registry that did not answer, a base that is not there."""
        blocked = (c for pool in self.plan.pools for c in pool.cells if c.action is Action.BLOCKED)
        return any(error.disposition is Disposition.RETRY for error in self.problems) or any(
            reason.ingredient in ("bases", "image") for cell in blocked for reason in cell.reasons
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """What is recorded, what is wanted, and where the world drifted from the record."""

    plan: Plan
    records: Mapping[str, PoolRecord]
    drifts: tuple[Drift, ...]
    warnings: tuple[Fault, ...]
    problems: tuple[ReconcilerError, ...]
    work: Mapping[tuple[str, Arch], Work] = field(default_factory=dict)
    rollouts: Mapping[str, PoolRollout] = field(default_factory=dict)
    ask: Ask | None = None
    """The pull request that people have to do something about."""

    @property
    def images(self) -> tuple[state.Image, ...]:
        """Where each image stands."""
        return state.images(self.plan, self.records, self.work, self.drifts, self.ask)


class Reconciler:
    """Brings one repository's pools to what its branch says. Holds no state that a pass needs."""

    def __init__(self, world: World, patience: Patience = BRIEF) -> None:
        self._world = world
        self._builds = Builds(world.builder, world.history, world.clock, patience, world.staging)
        self._reporting = Reporting(world.reporters)
        self._requested: Mapping[str, str] | None = None

    def run_pass(
        self,
        announce: Callable[[Plan], None] = lambda _: None,
        *,
        one_commit: bool = False,
        insist: bool = False,
        thorough: bool = True,
    ) -> Result:
        """Do what can be done now; never wait for a build. `announce` gets the plan before it is acted on.

        With `one_commit` nothing is written back while builds are in flight, so that all of them share a commit. With
        `insist` builds that failed for good are tried again. A pass that is not `thorough` takes it that images which
        were there in the last pass still are. Raises only what concerns the repository as a whole (GitUnavailable and
        its kin, UnverifiedCommit).
        """
        if thorough:
            self._world.seen.forget()
            self._reporting.forget()
        try:
            # Builds first, then images: one that ends in between is seen at least once.
            known = self._builds.known()
            planning = self._observe()
            announce(planning.plan)
            work = self._apply(planning, known, insist=insist)
            unwanted = self._builds.unwanted(
                planning.plan, planning.targets, known, planning.problems, clean=planning.catalogue.clean
            )
            writing = Writing(self._world, planning)
            ready = writing.publish()
            held = one_commit and any(w.standing not in AT_REST for w in work.values())
            written = Written() if held else writing.record(ready)
        finally:
            self._world.history.settle()
            self._world.seen.settle()
        records = {**planning.records.pools, **{record.pool: record for record in written.records}}
        self._show(planning, work, known, records)
        rollouts = self._rollouts(planning, planning.problems) if thorough and self._world.rolls_out else None
        return Result(
            planning.plan,
            work,
            written,
            planning.warnings(),
            (*planning.problems, *writing.problems),
            self._heads(planning, written),
            state.images(planning.plan, records, work, ask=written.proposed.ask),
            unwanted,
            planning.catalogue.config.refresh,
            None if rollouts is None else tuple(nodes(rollouts, records)),
        )

    def _heads(self, planning: Planning, written: Written) -> Mapping[str, str]:
        """The commits that a pass rests on, with its own."""
        heads, place = dict(planning.heads), self._world.place
        if written.commit:
            heads[place.write_branch] = written.commit
        if written.proposed.commit:
            heads[place.proposal] = written.proposed.commit
        return heads

    def look(self) -> Survey:
        """What is recorded and what a pass would do, without doing anything."""
        self._world.seen.forget()
        problems: list[ReconcilerError] = []
        try:
            planning = self._observe()
            known, work = self._known_work(planning, problems)
            records = planning.records.pools
            reports = []
            for planned in (pool for pool in planning.plan.pools if pool.cells):
                with Isolated(planned.name, problems):
                    reports.append(self._report(planning, planned, work, known, records.get(planned.name)))
            rollouts = self._rollouts(planning, problems)
            ask = self._ask(planning, problems)
            drifts = drift.find(self._world, planning, reports, rollouts, problems)
        finally:
            self._world.history.settle()
        shown = {doubt.fault for doubt in planning.images.doubts if not doubt.gone}
        return Survey(
            planning.plan,
            records,
            drifts,
            tuple(fault for fault in planning.warnings() if fault not in shown),
            (*planning.problems, *problems),
            {key: one for key, one in work.items() if one.build},
            rollouts,
            ask,
        )

    def _ask(self, planning: Planning, problems: list[ReconcilerError]) -> Ask | None:
        """What people have to do about a pull request of ours."""
        place, forge = self._world.place, self._world.forge
        if forge is None or not place.proposal:
            return None
        wanted = pending.unrecorded(planning.plan, planning.pools, planning.records.pools)
        with Isolated("pull request", problems):
            branches = (place.proposal, place.write_branch)
            return pending.waiting(forge, branches, planning.pending, planning.plan, wanted)
        return None

    def _rollouts(self, planning: Planning, problems: list[ReconcilerError]) -> Mapping[str, PoolRollout]:
        reader = self._world.rollouts
        if reader is not None:
            with Isolated("cluster", problems):
                return reader.look([pool.name for pool in planning.plan.pools])
        return {}

    def _known_work(
        self, planning: Planning, problems: list[ReconcilerError]
    ) -> tuple[Known, dict[tuple[str, Arch], Work]]:
        """The builds that the builder knows of, and how those stand that are wanted."""
        works: dict[tuple[str, Arch], Work] = {}
        known: Known = {}
        with Isolated("builder", problems):
            known = self._builds.known()
            for planned in planning.plan.pools:
                for cell in planned.cells:
                    if cell.action is Action.BUILD:
                        key = (planned.name, cell.arch)
                        works[key] = self._builds.stand(planned.name, planning.targets[key], known)
        return known, works

    def _observe(self) -> Planning:
        return Planning(self._world, self._world.repository.fetch(self._world.place.source))

    def _apply(self, planning: Planning, known: Known, *, insist: bool) -> dict[tuple[str, Arch], Work]:
        """See to it that everything to be built is being built."""
        works: dict[tuple[str, Arch], Work] = {}
        asked = self._asked(planning)
        for planned in planning.plan.pools:
            for cell in planned.cells:
                if cell.action is Action.BUILD:
                    key = (planned.name, cell.arch)
                    with Isolated(planned.name, planning.problems):
                        works[key] = self._builds.stand(
                            planned.name,
                            planning.targets[key],
                            known,
                            insist=insist or planned.name in asked,
                        )
            self._begin(planning, planned, works, known)
        return works

    def _begin(
        self, planning: Planning, planned: PoolPlan, works: Mapping[tuple[str, Arch], Work], known: Known
    ) -> None:
        """Begin the builds of one pool that are due. What shows them is there before they are."""
        mine = (
            (arch, works.get((planned.name, arch))) for arch in sorted(cell.arch for cell in planned.cells)
        )
        due = [(arch, work) for arch, work in mine if work and work.attempt]
        if not due:
            return
        begun = self._report(planning, planned, works, known, planning.records.pools.get(planned.name))
        self._reporting.tell([begun], planning.problems)
        for arch, work in due:
            with Isolated(planned.name, planning.problems):
                self._builds.begin(
                    planning.pools[planned.name],
                    planning.targets[planned.name, arch],
                    planning.source,
                    work,
                    begun.work,
                )

    def _report(
        self,
        planning: Planning,
        planned: PoolPlan,
        works: Mapping[tuple[str, Arch], Work],
        known: Known,
        record: PoolRecord | None,
    ) -> PoolReport:
        """Where a pool stands, with its record if that is this instance's to deliver."""
        ours = record if record and record.instance == self._world.place.instance else None
        found = planning.believed(ours) if ours and self._world.deliveries else ours
        return report(
            planning, planned, works, known, found or ours, believed=found is not None or ours is None
        )

    def _asked(self, planning: Planning) -> frozenset[str]:
        """The pools for which somebody asked on the cluster since the last pass."""
        before = self._requested
        self._requested = {
            name: pool.requested for name, pool in planning.observation.pools.items() if pool.requested
        }
        if before is None:  # who asked before we began has been answered by beginning
            return frozenset()
        return frozenset(name for name, value in self._requested.items() if before.get(name) != value)

    def _show(
        self,
        planning: Planning,
        works: Mapping[tuple[str, Arch], Work],
        known: Known,
        records: Mapping[str, PoolRecord],
    ) -> None:
        """Let the cluster see where every pool stands."""
        cluster, pools = self._world.cluster, planning.plan.pools
        if cluster is None:
            return
        with Isolated("cluster", planning.problems):
            cluster.record(planning.observation)
        for planned in pools:
            if planned.cells:
                with Isolated(planned.name, planning.problems):
                    record = records.get(planned.name)
                    shown = self._report(planning, planned, works, known, record)
                    self._reporting.tell([shown], planning.problems)
        if planning.catalogue.clean:
            self._reporting.keep_only((planned.name for planned in pools), planning.problems)
