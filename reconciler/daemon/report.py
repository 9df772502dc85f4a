"""What the daemon knows of one repository, as a value: for `status`, for the log, and for whoever asks over the web.

Belongs here: how it follows from passes, and its form as JSON (`schemas/daemon-status.json`).
Does not belong here: showing it, and deciding anything by it: a pass finds out for itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from reconciler.core.model import API_VERSION
from reconciler.errors import Fault, ReconcilerError
from reconciler.ports import Build, Phase
from reconciler.reconcile.pending import Ask
from reconciler.reconcile.reconciler import Result
from reconciler.reconcile.rollout import Nodes, Progress
from reconciler.reconcile.state import Image, State

KIND = "DaemonStatus"


@dataclass(frozen=True, slots=True)
class Problem:
    """What stands in the way; `since` is in seconds since the epoch."""

    reason: str
    message: str
    hint: str
    since: float


@dataclass(frozen=True, slots=True)
class Previews:
    """How previews stand: `at` is when the forge was last looked at, 0 for never. Of the `open` pull requests that get
    one, `shown` have it, and `waiting` are held back because their authors had many. `problem` keeps all of them from
    being made, `problems` some."""

    at: float = 0.0
    open: int = 0
    shown: int = 0
    waiting: int = 0
    problem: Problem | None = None
    problems: tuple[str, ...] = ()

    def troubled(self, problem: Problem) -> Previews:
        """What is known when no look went through."""
        return replace(self, problem=problem)


@dataclass(frozen=True, slots=True)
class Report:
    """`head` is the commit of the last pass that went through, which ended at `at`; `written` the last commit made.
    `problem` is what keeps passes from going through, `unreachable` what keeps the heads from being looked up; each is
    there until that succeeds. `problems` are what the last pass met, `ask` is a pull request that people have to do
    something about."""

    name: str
    head: str = ""
    at: float = 0.0
    written: str = ""
    images: tuple[Image, ...] = ()
    builds: tuple[Build, ...] = ()
    problem: Problem | None = None
    unreachable: Problem | None = None
    problems: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    ask: Ask | None = None
    previews: Previews | None = None
    nodes: tuple[Nodes, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether a pass has ever gone through."""
        return self.at > 0

    def after(self, result: Result, now: float) -> Report:
        """What is known after a pass."""
        hints = (f"{e.message} ({e.hint})" if e.hint else e.message for e in result.problems)
        return replace(
            self,
            head=result.plan.head,
            at=now,
            written=result.written.commit or self.written,
            images=result.images,
            problem=None,
            problems=tuple(hints),
            faults=(*result.plan.errors, *result.warnings),
            ask=_open(result.written.proposed.ask),
            nodes=self.nodes if result.nodes is None else result.nodes,
        )

    @property
    def trouble(self) -> Problem | None:
        """What stands in the way now, of passes or at least of looking for new commits."""
        return self.problem or self.unreachable

    def troubled(self, error: ReconcilerError, now: float) -> Report:
        """What is known after a pass that did not go through."""
        return replace(self, problem=_problem(self.problem, error, now))

    def cut_off(self, error: ReconcilerError, now: float) -> Report:
        """What is known when the heads could not be looked up."""
        return replace(self, unreachable=_problem(self.unreachable, error, now))

    def reached(self) -> Report:
        """What is known when the remote answered."""
        return replace(self, unreachable=None) if self.unreachable else self

    def with_builds(self, builds: Iterable[Build]) -> Report:
        """With the builds as they are now; one that waited in the last pass may run by now."""
        known = tuple(builds)
        running = {(build.pool, build.arch) for build in known if build.phase is Phase.RUNNING}
        images = tuple(
            replace(image, state=State.BUILDING)
            if image.state is State.QUEUED and (image.pool, image.arch) in running
            else image
            for image in self.images
        )
        return replace(self, builds=known, images=images)


def _open(ask: Ask | None) -> Ask | None:
    """A request that anybody has to do something about: none waits for one that was closed, and not declined."""
    return ask if ask and ask.pools else None


def _problem(known: Problem | None, error: ReconcilerError, now: float) -> Problem:
    since = known.since if known and known.message == error.message else now
    return Problem(error.reason, error.message, error.hint, since)


def changes(before: Report, after: Report, result: Result) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """What a log says of a pass: level, message and fields, only of what is new."""
    if before.problem:
        yield logging.INFO, "recovered", {"from": before.problem.message}
    for text in after.problems:
        if text not in before.problems:
            yield logging.WARNING, text, {}
    for fault in after.faults:
        if fault not in before.faults:
            yield logging.WARNING, str(fault), {"path": fault.path, "line": fault.line}
    known = {(image.pool, image.arch): image for image in before.images}
    for image in after.images:
        old = known.get((image.pool, image.arch))
        # A build that failed is told of when it ends.
        if image.state is State.BLOCKED and (old is None or (old.state, old.why) != (image.state, image.why)):
            fields = {"pool": image.pool, "arch": image.arch.value, "state": image.state.value}
            yield logging.WARNING, image.why, fields
    yield from _failing(before.nodes, after.nodes)
    if result.written.commit:
        pools = [record.pool for record in result.written.records]
        yield logging.INFO, "committed", {"commit": result.written.commit, "pools": pools}
    proposed = result.written.proposed
    if proposed.did and (ask := proposed.ask):
        told = {"request": ask.name, "url": ask.url, "pools": sorted(ask.pools)}
        yield logging.INFO, f"{proposed.did} a pull request", told
    if after.ask and after.ask.declined and after.ask != before.ask:
        yield logging.WARNING, after.ask.why, {"url": after.ask.url, "pools": sorted(after.ask.pools)}
    for pool in result.written.tagged:
        yield logging.INFO, "tagged", {"pool": pool}


def _failing(before: Iterable[Nodes], after: Iterable[Nodes]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Nodes that have failed since, and pools that have none any more."""
    known = {found.pool: found.failed for found in before}
    for found in after:
        old = known.get(found.pool, ())
        yield from ((logging.WARNING, text, {"pool": found.pool}) for text in found.failed if text not in old)
        if old and not found.failed:
            yield logging.INFO, "no node of the pool fails any more", {"pool": found.pool}


def document(reports: Iterable[Report], pid: int, version: str) -> dict[str, Any]:
    """All repositories of a daemon as JSON values."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "pid": pid,
        "version": version,
        "repositories": [_repository(report) for report in reports],
    }


def _repository(report: Report) -> dict[str, Any]:
    return {
        "name": report.name,
        "head": report.head or None,
        "reconciledAt": report.at or None,
        "written": report.written or None,
        "problem": asdict(report.trouble) if report.trouble else None,
        "pullRequest": report.ask.document() if report.ask else None,
        "problems": list(report.problems),
        "faults": [asdict(fault) for fault in report.faults],
        "images": [
            {
                "pool": image.pool,
                "arch": image.arch.value,
                "state": image.state.value,
                "recorded": image.recorded or None,
                "why": image.why,
            }
            for image in report.images
        ],
        "builds": [_build(build) for build in report.builds],
        "nodes": [
            {
                "pool": found.pool,
                **{how.value: found.counts.get(how, 0) for how in Progress},
                "problems": list(found.failed),
            }
            for found in report.nodes
        ],
        "previews": _previews(report.previews) if report.previews else None,
    }


def _previews(previews: Previews) -> dict[str, Any]:
    return {
        "lookedAt": previews.at or None,
        "open": previews.open,
        "shown": previews.shown,
        "waiting": previews.waiting,
        "problem": asdict(previews.problem) if previews.problem else None,
        "problems": list(previews.problems),
    }


def _build(build: Build) -> dict[str, Any]:
    return {
        "name": build.name,
        "pool": build.pool,
        "arch": build.arch.value,
        "phase": build.phase.value,
        "step": build.step,
        "cause": build.cause.value if build.cause else None,
        "message": build.message,
        "log": build.log,
        "started": build.started or None,
        "finished": build.finished or None,
    }
