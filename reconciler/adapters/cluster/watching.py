"""Keeps a snapshot of one kind up to date, so that nobody has to ask.

Belongs here: following events in a thread of its own, and beginning anew when that fails. Does not belong here: what is
kept of an object, and what a change means.

A watch only saves time. Events may be lost, come twice or late; connections may die without a word; so the server is
asked for bookmarks as a sign of life, everything is listed again from time to time, and a reader who finds the snapshot
too old lists by himself.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Final, Generic

from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.cluster.listing import Item, Snapshot, snapshot
from reconciler.adapters.cluster.parts import name_of, version_of
from reconciler.adapters.cluster.problems import Expired, Refused, Transient
from reconciler.adapters.cluster.wire import Stream
from reconciler.ports.cluster import Json, Kind

_SHORT: Final = 1.0
"""Seconds below which a watch that ended has failed."""
_PATIENCE: Final = 3.0


@dataclass(frozen=True, slots=True)
class Timing:
    """In seconds. `relist`: bounds of the time between two lists. `stretch`: of one watch. `silence`: without a byte,
    after which a watch is dead; servers send a bookmark each minute. `first` and `last` bound the waits after failures.
    `fresh`: how old a snapshot may be."""

    relist: tuple[float, float] = (300.0, 600.0)
    stretch: tuple[float, float] = (180.0, 300.0)
    silence: float = 75.0
    first: float = 1.0
    last: float = 60.0
    fresh: float = 90.0


USUAL: Final = Timing()


class Watch(Generic[Item]):
    """Watches all objects of a kind that has no namespaces. `keep` says what is kept of one; `on_change` is called, in
    the watch's own thread, when that changed for any."""

    def __init__(
        self,
        api: KubernetesApi,
        kind: Kind,
        keep: Callable[[Json], Item],
        on_change: Callable[[], None],
        timing: Timing = USUAL,
    ) -> None:
        self._api = api
        self._kind = kind
        self._keep = keep
        self._on_change = on_change
        self._timing = timing
        self._jitter = random.Random()  # noqa: S311  (spreads waits, guards nothing)
        self._closing = Event()
        self._thread = Thread(target=self._run, name=f"watch-{kind.plural}", daemon=True)
        self._lock = Lock()  # guards everything below
        self._items: dict[str, Item] = {}
        self._versions: dict[str, str] = {}
        self._known = False
        self._confirmed = float("-inf")
        self._stream: Stream | None = None
        self._version = ""  # of the latest that was heard
        self._listed = ""

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def end(self) -> None:
        """Let it end; returns at once."""
        self._closing.set()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.end()

    def close(self) -> None:
        """End it, and wait for that a few seconds at most: what hangs then is left to its own time limit."""
        self.end()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)

    def snapshot(self) -> Snapshot[Item] | None:
        """How it is now; None when that is not sure any more."""
        with self._lock:
            if time.monotonic() - self._confirmed > self._timing.fresh:
                return None
            return Snapshot(dict(self._items), self._known)

    # -- the thread

    def _run(self) -> None:
        failures = 0
        while not self._closing.is_set():
            started = time.monotonic()
            try:
                self._list()
                self._follow(started + self._jitter.uniform(*self._timing.relist))
                failures = 0
            except (
                Exception
            ):  # of ours or of whoever we tell: a thread that is gone would watch nothing any more
                # Long life means that it was well until now.
                failures = failures + 1 if time.monotonic() - started < self._timing.last else 1
                self._pause(failures)

    def _list(self) -> None:
        """Begin anew. Raises ClusterError."""
        started = time.monotonic()
        found = snapshot(self._api, self._kind, self._keep)
        with self._lock:
            changed = (found.known, found.items) != (self._known, self._items)
            changed = changed or self._confirmed == float("-inf")
            self._items, self._known = dict(found.items), found.known
            self._versions = dict(found.versions or {})
            self._version = self._listed = found.version
            self._confirmed = started
        if changed:
            self._on_change()

    def _follow(self, until: float) -> None:
        """Keep up with what changes, for so long. Raises Problem, ClusterError."""
        if not self._known:
            # It may come any time, and there is nothing to watch until then.
            self._closing.wait(min(self._timing.fresh / 2, until - time.monotonic()))
            return
        while not self._closing.is_set() and (left := until - time.monotonic()) > 0:
            started = time.monotonic()
            seconds = min(left, self._jitter.uniform(*self._timing.stretch))
            try:
                with self._api.watch(self._kind, self._version, seconds, self._timing.silence) as stream:
                    self._consume(stream)
            except Refused as problem:
                if problem.status == 410:
                    raise Expired(problem.message) from problem
                raise
            if time.monotonic() - started < min(_SHORT, seconds):
                raise Transient("ends every watch at once")

    def _consume(self, stream: Stream) -> None:
        with self._lock:
            self._stream = stream
        try:
            if self._closing.is_set():
                return
            for lines in stream:
                if self._apply(lines):
                    self._on_change()
        finally:
            with self._lock:
                self._stream = None

    def _apply(self, lines: list[bytes]) -> bool:
        """Take in some events; says whether anything that is kept changed. Raises Problem."""
        changed = False
        for line in lines:
            kind, found = _event(line)
            with self._lock:
                changed = self._take(kind, found) or changed
                self._confirmed = time.monotonic()
        return changed

    def _take(self, kind: str, found: Json) -> bool:
        name, version = name_of(found), version_of(found)
        if kind == "BOOKMARK":
            self._version = self._version if _is_older(version, self._version) else version
            return False
        if kind not in ("ADDED", "MODIFIED", "DELETED") or not name:
            raise Transient(f"sent an event of the unknown type {kind!r}")
        # An event that comes late tells of a time that is over. What is gone keeps its version for that.
        known = self._versions.get(name, self._listed)
        if _is_older(version, known) or (version == known and kind != "DELETED"):
            return False
        self._version = self._version if _is_older(version, self._version) else version
        self._versions[name] = version
        before = self._items.get(name)
        if kind == "DELETED":
            return self._items.pop(name, None) is not None
        after = self._items[name] = self._keep(found)
        return before != after

    def _pause(self, failures: int) -> None:
        bound = min(self._timing.last, self._timing.first * 2 ** min(failures - 1, 20))
        # Never at once: a server that refuses at once would be asked without end.
        self._closing.wait(self._jitter.uniform(bound / 2, bound))


def _event(line: bytes) -> tuple[str, Json]:
    """An event's type and object. Raises Expired and Transient for those that are errors."""
    found = None
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
    if not isinstance(found, dict) or not isinstance(found.get("object"), dict):
        raise Transient("sent an event that cannot be read")
    kind, thing = str(found.get("type", "")), found["object"]
    if kind == "ERROR":
        if thing.get("code") == 410:
            raise Expired("forgot what happened since")
        raise Transient(f"ended the watch: {thing.get('message', '')}")
    return kind, thing


def _is_older(one: str, other: str) -> bool:
    """Whether a resourceVersion is before another; they are numbers since Kubernetes has them in etcd."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)
