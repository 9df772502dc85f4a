"""What a daemon holds after many passes with random faults, and what it needs when idle.

Belongs here: the faults, the passes, and what is sampled. Run `python -m bench.soak --help`.

Everything is real but the builds: threads, git and its mirror, the registry behind a fault proxy, the web server.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx

from bench import repository
from bench.instant import InstantBuilder, push_base
from bench.measure import described, machine
from reconciler.adapters.clock import SystemClock
from reconciler.adapters.git.mirror import Mirror
from reconciler.adapters.registry import HttpRegistry
from reconciler.cli import logs
from reconciler.cli.local import engine
from reconciler.core.model import Arch
from reconciler.daemon.daemon import Daemon
from reconciler.daemon.inbox import Trigger
from reconciler.daemon.leash import Leash
from reconciler.daemon.poller import Poller, Watched
from reconciler.daemon.watch import Timing, Watch
from reconciler.reconcile.history import History
from reconciler.reconcile.planning import Place, World
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.state import State
from reconciler.reconcile.targets import Scope
from reconciler.reconcile.work import ENDLESS
from reconciler.redaction import Redactor
from reconciler.settings import Address
from reconciler.web.app import application
from reconciler.web.metrics import Metrics
from reconciler.web.server import WebServer
from reconciler.web.webhook import Hooks
from tests.servers.faults import RESET, Cut, Delay, Refuse
from tests.servers.proxy import FaultProxy
from tests.servers.registry import docker_registry

_NEVER: Final = 86400.0
_PATIENCE: Final = 300.0


class HastyClock(SystemClock):
    """Time that goes by as usual, and waits that end soon: faults are over quickly here."""

    def sleep(self, seconds: float) -> None:
        """A hundredth of it."""
        time.sleep(seconds / 100)


class Counting(Metrics):
    """Metrics that also say how many passes there were."""

    def __init__(self, repositories: Sequence[str]) -> None:
        super().__init__(repositories)
        self.passes: Counter[str] = Counter()

    def passed(self, repository: str, seconds: float, outcome: str) -> None:
        """As `Metrics.passed`."""
        super().passed(repository, seconds, outcome)
        self.passes[outcome] += 1


class Soak:
    """A daemon over `pools` pools, and all that it needs."""

    def __init__(self, stack: ExitStack, root: Path, pools: int, arches: Sequence[Arch], seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311  (a seed makes a run repeatable)
        self.pools = pools
        self.turn = 2
        self.faults: Counter[str] = Counter()
        self._registry = stack.enter_context(docker_registry(root))
        self.proxy = stack.enter_context(FaultProxy(self._registry.host))
        self.bare = root / "machine-os.git"
        self._prepare(arches)
        clock = HastyClock()
        self.metrics = Counting(["soak"])
        self.mirrors = root / "mirrors"
        mirror = Mirror(str(self.bare), self.mirrors, on_request=self.metrics.request)
        registry = stack.enter_context(
            HttpRegistry(
                clock,
                insecure=frozenset({self.proxy.host}),
                on_request=self.metrics.request,
            )
        )
        self.builder = InstantBuilder(self._registry.host, self.chance)
        stack.callback(self.builder.close)
        leash = Leash()
        world = World(
            repository=leash.hold(mirror),
            registry=leash.hold(registry),
            builder=self.builder,
            clock=clock,
            history=History(mirror, engine=engine()),
            place=Place("main", "main"),
            scope=Scope(),
        )
        timing = Timing(interval=0.5, resync=_NEVER, wave=0.01, longest_wave=0.1)
        self.watch = Watch(
            "soak", Reconciler(world, ENDLESS), self.builder, clock, timing, leash, self.metrics
        )
        poll = Leash()
        poller = Poller(poll.hold(mirror), [Watched(self.watch, ("main",))], poll)
        self.daemon = Daemon([(self.watch, self.builder)], [poller])
        redactor = Redactor()
        hooks = Hooks((), lambda _: None, self.metrics, redactor, clock)
        self.web = WebServer(
            application(self.daemon, self.metrics, dict, hooks, redactor), Address("127.0.0.1", 0)
        )

    def start(self) -> None:
        """Begin, and wait until every image is there."""
        self.web.start()
        self.daemon.start()
        self.settle()

    def stop(self) -> bool:
        """End; says whether every thread did."""
        ended = self.daemon.stop(60)
        self.web.stop(5)
        return ended

    def one_pass(self, trigger: Trigger = Trigger.ASKED) -> None:
        """One more pass, whatever happens to it."""
        before = self.metrics.passes.total()
        self.watch.put(trigger)
        _until(lambda: self.metrics.passes.total() > before, "a pass")

    def settle(self) -> None:
        """Pass until every image is what the branch asks for."""
        until = time.monotonic() + _PATIENCE
        while not self.is_settled():
            if time.monotonic() > until:
                raise RuntimeError(f"not settled: {Counter(i.state for i in self.watch.report.images)}")
            self.one_pass()

    def is_settled(self) -> bool:
        """Whether the last pass left nothing to do."""
        report = self.watch.report
        return report.ready and all(image.state is State.CURRENT for image in report.images)

    def disturb(self) -> None:
        """Something happens, or nothing."""
        kind = self.chance.choice(list(_FAULTS))
        self.faults[kind] += 1
        _FAULTS[kind](self)

    def heal(self) -> None:
        """No more faults."""
        self.proxy.heal()

    def edit(self) -> None:
        """A person changes one file of one pool."""
        pool = repository.pool_name(self.chance.randrange(self.pools))
        self.turn += 1
        text = f"# amd64\nturn = {self.turn}\n"
        repository.commit(self.bare, {f"pools/{pool}/files/amd64/tuning.conf": text}, self.turn)

    def rewrite(self) -> None:
        """Somebody forces the branch back by a few commits."""
        count = int(repository.process_git(self.bare, "rev-list", "--count", "main"))
        back = min(self.chance.randrange(1, 4), count - 3)
        if back > 0:
            repository.process_git(self.bare, "update-ref", "refs/heads/main", f"main~{back}")

    def _prepare(self, arches: Sequence[Arch]) -> None:
        """The repository, pointed at the proxy, and the bases that it is built from."""
        repository.create(self.bare, self.pools)
        changed = {"reconciler.yaml": _config(arches)}
        for number in range(self.pools):
            for path, text in repository.pool_files(number).items():
                if "registry.example.com" in text:
                    changed[path] = text.replace("registry.example.com", self.proxy.host)
        repository.commit(self.bare, changed, 1)
        with httpx.Client(base_url=f"http://{self._registry.host}/v2/", timeout=30) as client:
            for minor in range(4):
                push_base(client, f"9.{minor}", arches)


def _config(arches: Sequence[Arch]) -> str:
    return (
        "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\n"
        f"architectures: [{', '.join(arches)}]\n"
    )


def _cut(soak: Soak) -> None:
    soak.proxy.fault = Cut(after=soak.chance.randrange(1, 20_000))


def _failing_builds(soak: Soak) -> None:
    soak.edit()
    soak.builder.failing = soak.chance.random()


def _without_mirror(soak: Soak) -> None:
    for folder in soak.mirrors.iterdir():
        shutil.rmtree(folder, ignore_errors=True)


def _without_remote(soak: Soak) -> None:
    soak.bare.rename(soak.bare.with_suffix(".away"))
    try:
        soak.one_pass()
    finally:
        soak.bare.with_suffix(".away").rename(soak.bare)


def _fault(fault: Any) -> Callable[[Soak], None]:
    def strike(soak: Soak) -> None:
        soak.proxy.fault = fault

    return strike


_FAULTS: Final[Mapping[str, Callable[[Soak], None]]] = {
    "nothing": lambda _: None,
    "commit": Soak.edit,
    "branch rewritten": Soak.rewrite,
    "registry breaks off": _cut,
    "registry refuses": _fault(Refuse()),
    "registry resets": _fault(RESET),
    "registry slow": _fault(Delay(0.002)),
    "builds fail": _failing_builds,
    "mirror deleted": _without_mirror,
    "remote gone": _without_remote,
}


def sample() -> dict[str, int]:
    """What this process holds now."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    children = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            children += len((task / "children").read_text().split())
        except FileNotFoundError:  # the thread has ended
            continue
    return {
        "rss_kib": int(status["VmRSS"].split()[0]),
        "handles": len(list(Path("/proc/self/fd").iterdir())),
        "threads": int(status["Threads"]),
        "children": children,
    }


def _until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError(f"{what}: not within {_PATIENCE:g} s")
        time.sleep(0.002)


def run(passes: int, pools: int, arches: Sequence[Arch], seed: int, root: Path) -> dict[str, Any]:
    """All of it; returns the result."""
    logs.begin("text", "error", Redactor())
    with ExitStack() as stack:
        soak = Soak(stack, root, pools, arches, seed)
        began = time.monotonic()
        soak.start()
        first = time.monotonic() - began
        time.sleep(2)
        idle = sample()
        samples: list[dict[str, int]] = []
        while soak.metrics.passes.total() < passes:
            soak.disturb()
            # Every image is looked at again by one in ten, as by one in every ten minutes of a real daemon.
            soak.one_pass(soak.chance.choices((Trigger.ASKED, Trigger.REFRESH), (1, 9))[0])
            soak.heal()
            soak.builder.failing = 0.0
            if soak.metrics.passes.total() >= passes * (len(samples) + 1) // 40:
                soak.settle()
                samples.append({"passes": soak.metrics.passes.total(), **sample()})
        soak.settle()
        children = sample()["children"]
        ended = soak.stop()
    if not ended:
        raise RuntimeError("a thread did not end")
    return {
        "benchmark": "soak",
        "machine": machine(("git", "docker-registry")),
        "runs": 1,
        "seed": seed,
        "pools": pools,
        "architectures": len(arches),
        "passes": dict(sorted(soak.metrics.passes.items())),
        "faults": dict(sorted(soak.faults.items())),
        "built": len(soak.builder.pushed),
        "built_twice": len(soak.builder.pushed) - len(set(soak.builder.pushed)),
        "first_pass_s": round(first, 1),
        "idle": idle,
        "children_at_the_end": children,
        "held": _quarters(samples),
    }


def _quarters(samples: Sequence[Mapping[str, int]]) -> dict[str, list[float]]:
    """The median of each quantity in each quarter of the run."""
    size = max(1, len(samples) // 4)
    parts = [samples[at : at + size] for at in range(0, size * 4, size)]
    names = [name for name in samples[0] if name != "passes"] if samples else []
    return {name: [statistics.median(s[name] for s in part) for part in parts if part] for name in names}


def table(result: Mapping[str, Any]) -> str:
    """The result for people."""
    lines = [
        described(result),
        "",
        f"{sum(result['passes'].values())} passes over {result['pools']} pools of {result['architectures']}"
        f" architectures, {sum(n for k, n in result['faults'].items() if k != 'nothing')} faults and commits,"
        f" {result['built']} builds of which {result['built_twice']} were of inputs that had been built",
        "",
        "| held | idle at first | first quarter | second | third | last |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, values in result["held"].items():
        scale = 1024 if name == "rss_kib" else 1
        label = "memory (RSS), MiB" if name == "rss_kib" else name
        cells = [result["idle"][name], *values]
        lines.append(f"| {label} | " + " | ".join(f"{value / scale:.0f}" for value in cells) + " |")
    return "\n".join(lines)


def main(words: Sequence[str]) -> None:
    """Parse, run, show."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description="Soak a daemon in faults.")
    parser.add_argument("--passes", type=int, default=2000)
    parser.add_argument("--pools", type=int, default=100)
    parser.add_argument("--arch", nargs="+", type=Arch, default=[Arch.AMD64])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1, help="always one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as root:
        result = run(chosen.passes, chosen.pools, chosen.arch, chosen.seed, Path(root))
    print(table(result))
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
