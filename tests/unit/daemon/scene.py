"""What surrounds the threads of a daemon: an engine that does as it is told, and time that passes when it is told.

`Simulation` runs one watch in the test's own thread, where hours pass in no time and everything happens in one order.
`Scene` is a whole daemon with real threads and short intervals.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from threading import Event, Lock, Thread
from typing import Any, Final

from reconciler.core.model import Arch
from reconciler.core.plan import Action, Cell, Plan, PoolPlan, Reason
from reconciler.daemon.daemon import Daemon
from reconciler.daemon.inbox import Inbox, Trigger
from reconciler.daemon.leash import Leash
from reconciler.daemon.poller import Poller, Watched
from reconciler.daemon.watch import Timing, Watch
from reconciler.errors import ReconcilerError
from reconciler.ports import Build, BuildRequest, Phase
from reconciler.reconcile.reconciler import Result
from tests.fakes import FakeBuilder, FakeClock

PATIENCE: Final = 60.0
"""Seconds that anything may take; far longer than it does."""
A, B, C = ("a" * 40, "b" * 40, "c" * 40)
QUICK: Final = Timing(interval=0.05, resync=3600, deadline=3600, wave=0.05, longest_wave=1)

Answer = Result | Exception | Callable[[], Result]


def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens in another thread."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.002)


def result(head: str = A, *pools: PoolPlan, **parts: Any) -> Result:
    """What a pass over a commit came to."""
    return Result(Plan(None, head, pools), **{"heads": {"main": head}, **parts})


def pool(name: str, **actions: Action) -> PoolPlan:
    """A pool's plan by architecture: `pool("worker", amd64=Action.REUSE)`."""
    reason = Reason("bases", "missing", "because")
    return PoolPlan(
        name, f"{name}.yaml", tuple(Cell(Arch(arch), action, (reason,)) for arch, action in actions.items())
    )


def request(name: str, pool: str = "worker", arch: Arch = Arch.AMD64) -> BuildRequest:
    """For a builder that does not look at it."""
    return BuildRequest(name, pool, arch, "", "", (), (), "registry.example.com/os:tag", {})


def build(name: str, phase: Phase = Phase.RUNNING, arch: Arch = Arch.AMD64, **parts: Any) -> Build:
    """A build of the pool `worker`."""
    return Build(name, "worker", arch, phase, **parts)


class HotLoop(BaseException):
    """More passes than anybody can want."""


@dataclass(frozen=True)
class Pass:
    """One that was begun."""

    at: float
    insist: bool
    thorough: bool


class FakeEngine:
    """Implements `watch.Engine`: gives its answers one after the other, then the usual one for ever."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.answers: deque[Answer] = deque()
        self.usual: Answer = result()
        self.passes: list[Pass] = []
        self.overlaps = 0
        self._now = now
        self._busy = Lock()

    def run_pass(
        self,
        announce: Callable[[Plan], None] = lambda _: None,
        *,
        one_commit: bool = False,
        insist: bool = False,
        thorough: bool = True,
    ) -> Result:
        """The next answer."""
        assert not one_commit
        if not self._busy.acquire(blocking=False):
            self.overlaps += 1
            return result()
        try:
            self.passes.append(Pass(self._now(), insist, thorough))
            if len(self.passes) > 10_000:
                raise HotLoop
            answer = self.answers.popleft() if self.answers else self.usual
            if isinstance(answer, Exception):
                raise answer
            found = answer if isinstance(answer, Result) else answer()
            announce(found.plan)
            return found
        finally:
            self._busy.release()

    @property
    def times(self) -> list[float]:
        """When the passes began."""
        return [one.at for one in self.passes]


@dataclass
class Told:
    """Implements `observer.Observer`: remembers everything."""

    polls: int = 0
    outcomes: list[str] = field(default_factory=list)
    successes: list[float] = field(default_factory=list)
    builds: list[tuple[str, str, float, str]] = field(default_factory=list)
    spared: list[tuple[str, str]] = field(default_factory=list)
    rollouts: list[dict[tuple[str, str], int]] = field(default_factory=list)
    states: list[tuple[dict[tuple[str, str], str], int, int]] = field(default_factory=list)

    def polled(self, repository: str) -> None:
        """Counted."""
        assert repository == "repo"
        self.polls += 1

    def passed(self, repository: str, seconds: float, outcome: str) -> None:
        """Kept."""
        assert repository == "repo"
        assert seconds >= 0
        self.outcomes.append(str(outcome))

    def succeeded(self, repository: str, at: float) -> None:
        """Kept."""
        assert repository == "repo"
        self.successes.append(at)

    def built(self, pool: str, arch: str, seconds: float, outcome: str) -> None:
        """Kept."""
        self.builds.append((pool, arch, seconds, outcome))

    def avoided(self, pool: str, arch: str) -> None:
        """Kept."""
        self.spared.append((pool, arch))

    def state(
        self, repository: str, images: Mapping[tuple[str, str], str], queued: int, running: int
    ) -> None:
        """Kept."""
        assert repository == "repo"
        self.states.append((dict(images), queued, running))

    def nodes(self, repository: str, counts: Mapping[tuple[str, str], int]) -> None:
        """Kept."""
        assert repository == "repo"
        self.rollouts.append(dict(counts))


class Hours:
    """Time that passes only while somebody waits, and what happens in it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.clock = FakeClock()
        self._number = count()
        self._events: list[tuple[float, int, Callable[[], object]]] = []

    def at(self, seconds: float, event: Callable[[], object]) -> None:
        """Let something happen when so many seconds have passed since the beginning."""
        heappush(self._events, (seconds, next(self._number), event))

    def every(self, seconds: float, event: Callable[[], object]) -> None:
        """Let something happen again and again."""

        def happen() -> None:
            event()
            self.at(self.now + seconds, happen)

        self.at(self.now + seconds, happen)

    def spend(self, seconds: float) -> None:
        """Time passes, and nothing happens: somebody is busy."""
        self.now += seconds
        self.clock.sleep(seconds)

    def wait(self, seconds: float) -> None:
        """Time passes until something happens, or at most so many seconds."""
        until = self.now + max(0.0, seconds)
        if self._events and self._events[0][0] <= until:
            at, _, event = heappop(self._events)
            self.spend(max(0.0, at - self.now))
            event()
        else:
            self.spend(until - self.now)


class WaitingInbox(Inbox):
    """An inbox whose reader waits in `Hours`."""

    def __init__(self, hours: Hours) -> None:
        super().__init__()
        self._hours = hours

    def take(self, seconds: float) -> frozenset[Trigger]:
        """As `Inbox.take`."""
        end = self._hours.now + seconds
        while not (found := super().take(0)) and self._hours.now < end and not self._closed:
            self._hours.wait(end - self._hours.now)
        return found


class Simulation:
    """One watch in one thread, with the default timing."""

    def __init__(self, timing: Timing | None = None) -> None:
        self.hours = Hours()
        self.told = Told()
        self.engine = FakeEngine(lambda: self.hours.now)
        self.builder = FakeBuilder(self.hours.clock)
        self.leash = Leash(lambda: self.hours.now)
        self.inbox = WaitingInbox(self.hours)
        self.watch = Watch(
            "repo",
            self.engine,
            self.builder,
            self.hours.clock,
            timing or Timing(),
            self.leash,
            self.told,
            self.inbox,
        )

    def poll(self, head: str = A) -> None:
        """A poll finds this head."""
        self.watch.seen({"main": head})

    def run(self, seconds: float) -> list[float]:
        """Let the watch work for so long; returns when passes began."""
        self.hours.at(seconds, self.watch.end)
        self.watch.run()
        return self.engine.times


@dataclass
class FakeRemote:
    """Implements `poller.Remote`."""

    found: Mapping[str, str] = field(default_factory=lambda: {"main": A})
    error: Exception | None = None
    asked: list[Collection[str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    now: Callable[[], float] = time.monotonic
    meanwhile: Callable[[], object] = lambda: None

    def heads(self, revisions: Collection[str]) -> Mapping[str, str]:
        """What was found."""
        self.asked.append(revisions)
        self.times.append(self.now())
        if len(self.times) > 10_000:
            raise HotLoop
        self.meanwhile()
        if self.error:
            raise self.error
        return {name: head for name, head in self.found.items() if name in revisions}


class QuickBuilder(FakeBuilder):
    """A builder that is never waited for long, so that a daemon ends quickly."""

    def wait(self, seconds: float) -> bool:
        """As `FakeBuilder.wait`."""
        return super().wait(min(seconds, 0.02))


class Scene:
    """A daemon with one repository and real threads, which makes a pass for everything that is news."""

    def __init__(self, timing: Timing = QUICK, engine: Any = None) -> None:
        self.told = Told()
        self.engine: Any = engine or FakeEngine()
        self.builder = QuickBuilder()
        self.offset = 0.0
        self.leash = Leash(lambda: time.monotonic() + self.offset)
        self.remote = FakeRemote()
        self.watch = Watch(
            "repo", self.engine, self.builder, self.builder.clock, timing, self.leash, self.told
        )
        self.poll_leash = Leash(lambda: time.monotonic() + self.offset)
        self.poller = Poller(self.remote, [Watched(self.watch, ("main",))], self.poll_leash)
        self.daemon = Daemon([(self.watch, self.builder)], [self.poller])
        self.blocked = Event()
        self.release = Event()

    def block(self) -> Result:
        """An answer that is not given before `release`."""
        self.blocked.set()
        assert self.release.wait(PATIENCE)
        return result()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Between its start and its end."""
        self.daemon.start()
        try:
            yield
        finally:
            self.release.set()
            assert self.daemon.stop(PATIENCE)


def together(*bodies: Callable[[], object]) -> None:
    """Call all at once, each in its own thread, and wait for them. Raises the first error of any."""
    errors: list[BaseException] = []

    def caught(body: Callable[[], object]) -> None:
        try:
            body()
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=caught, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    for error in errors:
        raise error


class Broken(ReconcilerError):
    """An error that only a person can mend."""
