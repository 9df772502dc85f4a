"""Where each pool stands, as a cluster shows it: one report per pool, told to whoever keeps it.

Belongs here: making reports from a pass, and telling those that are new. Does not belong here: what is made of them
(adapters), and the words for people (`state`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.core import render
from reconciler.core.model import Arch
from reconciler.core.names import work_name
from reconciler.core.plan import Action, Cell, PoolPlan
from reconciler.core.status import PoolRecord
from reconciler.errors import ReconcilerError
from reconciler.ports import Build, Phase
from reconciler.ports.cluster import ArchReport, BuildState, PoolReport, Reporter
from reconciler.reconcile.isolation import Isolated
from reconciler.reconcile.planning import Planning
from reconciler.reconcile.work import Known, Standing, Work, attempt_of

Works = Mapping[tuple[str, Arch], Work]


@dataclass(slots=True)
class Reporting:
    """Tells reporters of pools, and remembers what they were told: the same again is told only when asked for."""

    reporters: tuple[Reporter, ...]
    _told: dict[str, PoolReport] = field(default_factory=dict)
    _pools: frozenset[str] | None = None

    def forget(self) -> None:
        """Tell everything again, as somebody may have changed what is shown."""
        self._told.clear()
        self._pools = None

    def tell(self, reports: Iterable[PoolReport], problems: list[ReconcilerError]) -> None:
        """Tell what is new. What goes wrong with one pool is added to `problems`, and told again next time."""
        for report in reports:
            if self.reporters and self._told.get(report.pool) != report:
                self._told.pop(report.pool, None)
                before = len(problems)
                for reporter in self.reporters:
                    with Isolated(report.pool, problems):
                        reporter.report(report)
                if len(problems) == before:
                    self._told[report.pool] = report

    def keep_only(self, pools: Iterable[str], problems: list[ReconcilerError]) -> None:
        """Tell that there are no other pools. What goes wrong is added to `problems`."""
        wanted = frozenset(pools)
        if not self.reporters or wanted == self._pools:
            return
        self._pools = None
        before = len(problems)
        for reporter in self.reporters:
            with Isolated("cluster", problems):
                reporter.keep_only(wanted)
        self._told = {pool: report for pool, report in self._told.items() if pool in wanted}
        if len(problems) == before:
            self._pools = wanted


def work_of(pool: PoolPlan) -> str:
    """The name of a pool's work: that of the images that are wanted now."""
    wanted = {cell.arch: cell.input or cell.definition or "" for cell in pool.cells if _counts(cell)}
    return work_name(pool.name, wanted)


def report(
    planning: Planning,
    pool: PoolPlan,
    works: Works,
    known: Known,
    record: PoolRecord | None,
    *,
    believed: bool,
) -> PoolReport:
    """Where a pool stands. `record` is what the tip's status says of it, which may be `believed` or not; `known` are
    the builds there are."""
    images = tuple(
        _arch(cell, works.get((pool.name, cell.arch)), known.get((pool.name, cell.arch), ()))
        for cell in pool.cells
        if _counts(cell)
    )
    return PoolReport(
        pool=pool.name,
        work=work_of(pool),
        commit=planning.source,
        plan=planning.plan.digest,
        architectures=images,
        image=record.image if record else "",
        source_commit=record.source_commit if record else "",
        state=_state(images, record),
        believed=believed,
    )


def _counts(cell: Cell) -> bool:
    return cell.action is not Action.DROP


def _state(images: tuple[ArchReport, ...], record: PoolRecord | None) -> BuildState:
    """What is under way counts before what failed: the latter is the end only when nothing else happens any more."""
    states = {image.state for image in images}
    for state in (BuildState.BUILDING, BuildState.PREPARED, BuildState.FAILED):
        if state in states:
            return state
    recorded = {entry.arch: _digest(entry.image) for entry in record.architectures} if record else {}
    published = recorded == {image.arch: _digest(image.image) for image in images}
    return BuildState.SUCCEEDED if published else BuildState.BUILDING


def _arch(cell: Cell, work: Work | None, builds: Iterable[Build]) -> ArchReport:
    build = work.build if work else _that_made(cell, builds)
    return ArchReport(
        arch=cell.arch,
        state=_arch_state(cell, work),
        input=cell.input or "",
        image=cell.image or "",
        build=build.name if build else "",
        cause=build.cause.value if build and build.cause else "",
        message=build.message if build and build.cause else _message(cell),
        started=build.started if build else 0.0,
        finished=build.finished if build else 0.0,
    )


def _arch_state(cell: Cell, work: Work | None) -> BuildState:
    if cell.action is Action.REUSE:
        return BuildState.SUCCEEDED
    if work is not None and work.standing is Standing.FAILED:
        return BuildState.FAILED
    running = work is not None and work.build is not None and work.build.phase is Phase.RUNNING
    return BuildState.BUILDING if running else BuildState.PREPARED


def _message(cell: Cell) -> str:
    """Why an image is not built, or not the newest; the reasons for building are in the plan."""
    says = cell.action is Action.BLOCKED or any(
        reason.ingredient == "architectures" for reason in cell.reasons
    )
    return render.why(cell) if says else ""


def _that_made(cell: Cell, builds: Iterable[Build]) -> Build | None:
    """The build that an image comes from, while the builder knows it."""
    made = (b for b in builds if b.phase is Phase.SUCCEEDED and cell.input and attempt_of(b, cell.input))
    return next(made, None)


def _digest(image: str) -> str:
    return image.partition("@")[2]
