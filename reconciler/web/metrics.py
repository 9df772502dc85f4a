"""What is counted and measured, in Prometheus' words.

Belongs here: every metric, its help and its labels. Does not belong here: deciding when something happened, and HTTP.

Labels come from closed sets, the configured repositories, and the pools of those, of which the number is capped. Never
from commits, branches, error texts or anything that somebody on the network writes.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from reconciler import __version__
from reconciler.core.model import Arch
from reconciler.ports import Cause, Request
from reconciler.reconcile.rollout import Progress
from reconciler.reconcile.state import State
from reconciler.web.pools import OTHER, Pools

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Of what `Metrics.text` returns."""

PASS_OUTCOMES: Final = frozenset({"settled", "working", "failed", "unverified"})
BUILD_OUTCOMES: Final = frozenset({"succeeded", *Cause})
"""One that failed counts by what caused it."""
PREVIEW_OUTCOMES: Final = frozenset({"created", "updated", "unchanged", "superseded", "failed"})
KUBERNETES_VERBS: Final = frozenset({"get", "list", "watch", "create", "patch", "delete", "log"})
NODE_STATES: Final = frozenset(Progress)
IMAGE_STATES: Final = frozenset(state.replace(" ", "_") for state in State)
"""As `reconciler status` names them, with `_` for a space."""
GIT_OPERATIONS: Final = frozenset({"ls-remote", "fetch", "push"})
HTTP_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})

_MOST_SERIES: Final = 5_000
"""Of one metric with pool and architecture in one state each. Beyond it pools are counted together."""
_PLAIN_OUTCOMES: Final = frozenset({"ok", "refused", "unavailable"})
_STATUS: Final = re.compile(r"[1-5][0-9]{2}")
_PASS_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_BUILD_SECONDS: Final = (15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0, 7200.0)


class Metrics:
    """Everything that is measured, in a registry of its own. Any thread may call any method; none waits or fails.

    `repositories` are the names that the daemon uses for its repositories. Another name counts as `other`.
    """

    def __init__(self, repositories: Iterable[str]) -> None:
        self._repositories = frozenset(repositories)
        self._lock = Lock()
        self._pools = Pools(self._repositories, _MOST_SERIES // len(Arch))
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._info = Info(
            "reconciler_build", "The version of the reconciler that is running.", registry=self._registry
        )
        self._info.info({"version": __version__})
        self._add_requests()
        self._add_passes()
        self._add_builds()
        self._add_previews()
        for repository in self._repositories:
            # A series that is there from the start lets an alert tell "never" from "not scraped".
            self._polls.labels(repository)
            self._queue.labels(repository)
            self._running.labels(repository)

    def _add_requests(self) -> None:
        self._git = self._counter(
            "reconciler_git_requests", "Calls to Git servers that have ended.", "operation", "outcome"
        )
        self._registries = self._counter(
            "reconciler_registry_requests",
            "Requests to container registries that have ended, by HTTP status.",
            "method",
            "code",
        )
        self._kubernetes = self._counter(
            "reconciler_kubernetes_requests",
            "Requests to the Kubernetes API server that have ended, by HTTP status.",
            "verb",
            "code",
        )
        self._forges = self._counter(
            "reconciler_forge_requests",
            "Requests to forges that have ended, by HTTP status.",
            "method",
            "code",
        )
        self._webhooks = self._counter(
            "reconciler_webhooks", "Webhook deliveries, by sender and what became of them.", "type", "outcome"
        )

    def _add_passes(self) -> None:
        self._passes = self._histogram(
            "reconciler_reconcile_duration_seconds",
            "How long passes over a repository took.",
            _PASS_SECONDS,
            "repository",
            "outcome",
        )
        self._polls = self._counter(
            "reconciler_polls", "Looks at the head of a repository's remote.", "repository"
        )
        self._success = self._gauge(
            "reconciler_last_success_timestamp_seconds",
            "When a pass last ended without an error, in seconds since the epoch.",
            "repository",
        )

    def _add_previews(self) -> None:
        self._preview_seconds = self._histogram(
            "reconciler_preview_duration_seconds",
            "How long previews on pull requests took, by what became of the comment.",
            _PASS_SECONDS,
            "repository",
            "outcome",
        )

    def _add_builds(self) -> None:
        self._build_seconds = self._histogram(
            "reconciler_build_duration_seconds",
            "How long builds took, from their start to their end.",
            _BUILD_SECONDS,
            "arch",
            "outcome",
        )
        self._builds = self._counter(
            "reconciler_builds", "Builds that have ended.", "pool", "arch", "outcome"
        )
        self._avoided = self._counter(
            "reconciler_builds_avoided",
            "Images that a new commit left as they are, because nothing in them changes.",
            "pool",
            "arch",
        )
        self._queue = self._gauge("reconciler_queue_depth", "Builds that wait for their turn.", "repository")
        self._running = self._gauge("reconciler_builds_running", "Builds that are running.", "repository")
        self._states = _Tallies(
            "reconciler_image_state",
            "The state that an image is in now: 1, or the number of images where several share a series.",
            "arch",
        )
        self._nodes = _Tallies(
            "reconciler_nodes", "Nodes, by how far they have come with the recorded image of their pool."
        )
        self._registry.register(self._states)
        self._registry.register(self._nodes)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self._registry)

    def request(self, request: Request) -> None:
        """A call to another system has ended; is a `ports.OnRequest`."""
        outcome, operation = request.outcome, request.operation
        if request.system == "git":
            self._git.labels(_of(operation, GIT_OPERATIONS), _of(outcome, _PLAIN_OUTCOMES)).inc()
        elif request.system == "registry":
            code = outcome if _STATUS.fullmatch(outcome) else _of(outcome, _PLAIN_OUTCOMES)
            self._registries.labels(_of(operation, HTTP_METHODS), code).inc()
        elif request.system == "forge":
            code = outcome if _STATUS.fullmatch(outcome) else _of(outcome, _PLAIN_OUTCOMES)
            self._forges.labels(_of(operation, HTTP_METHODS), code).inc()
        elif request.system == "kubernetes":
            code = outcome if _STATUS.fullmatch(outcome) else _of(outcome, _PLAIN_OUTCOMES)
            self._kubernetes.labels(_of(operation.partition(" ")[0], KUBERNETES_VERBS), code).inc()

    def passed(self, repository: str, seconds: float, outcome: str) -> None:
        """A pass has ended, with one of PASS_OUTCOMES."""
        self._passes.labels(self._known(repository), _of(outcome, PASS_OUTCOMES)).observe(seconds)

    def polled(self, repository: str) -> None:
        """Somebody looked at the remote's head."""
        self._polls.labels(self._known(repository)).inc()

    def succeeded(self, repository: str, at: float) -> None:
        """A pass ended without an error, at a time in seconds since the epoch."""
        self._success.labels(self._known(repository)).set(at)

    def built(self, pool: str, arch: str, seconds: float, outcome: str) -> None:
        """A build has ended, with one of BUILD_OUTCOMES."""
        arch, outcome = _of(arch, frozenset(Arch)), _of(outcome, BUILD_OUTCOMES)
        self._build_seconds.labels(arch, outcome).observe(seconds)
        with self._lock:
            self._builds.labels(self._pools.label(pool), arch, outcome).inc()

    def avoided(self, pool: str, arch: str, count: int = 1) -> None:
        """A commit would have had images built by everybody else, and needs none."""
        with self._lock:
            self._avoided.labels(self._pools.label(pool), _of(arch, frozenset(Arch))).inc(count)

    def state(self, repository: str, cells: Mapping[tuple[str, str], str], queued: int, running: int) -> None:
        """How all images of a repository stand: pool and architecture → one of IMAGE_STATES. What is not named any
        more is gone, and the series of pools that no repository has go with it."""
        repository = self._known(repository)
        self._queue.labels(repository).set(queued)
        self._running.labels(repository).set(running)
        with self._lock:
            for pool in self._pools.settle(repository, {pool for pool, _ in cells}):
                for arch in (*Arch, OTHER):
                    self._avoided.remove(pool, arch)
                    for outcome in (*BUILD_OUTCOMES, OTHER):
                        self._builds.remove(pool, arch, outcome)
            tally: Tally[tuple[str, ...]] = Tally()
            for (pool, arch), state in sorted(cells.items()):
                state = _of(state.replace(" ", "_"), IMAGE_STATES)
                tally[self._pools.label(pool), _of(arch, frozenset(Arch)), state] += 1
            self._states.put(repository, tally)

    def nodes(self, repository: str, counts: Mapping[tuple[str, str], int]) -> None:
        """How many nodes are in one of NODE_STATES, by pool and that. What is not named any more is gone."""
        with self._lock:
            tally: Tally[tuple[str, ...]] = Tally()
            for (pool, state), count in sorted(counts.items()):
                tally[self._pools.label(pool), _of(state, NODE_STATES)] += count
            self._nodes.put(self._known(repository), tally)

    def previewed(self, repository: str, seconds: float, outcome: str) -> None:
        """A preview was made or not, with one of PREVIEW_OUTCOMES; `seconds` are those that it took."""
        outcome = _of(outcome, PREVIEW_OUTCOMES)
        self._preview_seconds.labels(self._known(repository), outcome).observe(seconds)

    def webhook(self, sender: str, outcome: str) -> None:
        """A delivery was answered. Both words come from this package's own enums."""
        self._webhooks.labels(sender, outcome).inc()

    def text(self) -> bytes:
        """All of it as Prometheus reads it, of CONTENT_TYPE."""
        return generate_latest(_Lean(self._registry))

    def _known(self, repository: str) -> str:
        return _of(repository, self._repositories)


class _Tallies(Collector):
    """Counts by pool, further labels and state: each scrape sees all of a repository as it was at one moment."""

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self._name = name
        self._text = text
        self._labels = ("repository", "pool", *labels, "state")
        self._tallies: dict[str, Mapping[tuple[str, ...], int]] = {}

    def put(self, repository: str, tally: Mapping[tuple[str, ...], int]) -> None:
        # A new dictionary, so that a scrape under way goes on with the old one.
        self._tallies = {**self._tallies, repository: tally}

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for repository, tally in sorted(self._tallies.items()):
            for labels, count in tally.items():
                family.add_metric((repository, *labels), count)
        yield family


class _Lean(Collector):
    """Leaves out when each series was created: that would be as many lines again, and Prometheus does not need it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def _of(word: str, known: frozenset[str]) -> str:
    return word if word in known else OTHER
