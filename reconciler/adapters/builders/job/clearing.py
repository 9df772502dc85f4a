"""Gives builds up, and clears away what they leave.

Belongs here: which of a build's objects goes, and which only gets a mark. Does not belong here: which builds nobody
wants any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from reconciler.adapters.builders.job.form import Form
from reconciler.adapters.builders.job.names import DISCARDED, metadata
from reconciler.adapters.builders.job.parcel import Sender
from reconciler.errors import Conflict
from reconciler.ports import Phase
from reconciler.ports.cluster import Api, Json

_AT_ONCE: Final = 40
"""Builds whose inputs are deleted in one look."""


@dataclass(frozen=True, slots=True)
class _Traces:
    """What there is of a build: its object, and the ConfigMaps that were made for it."""

    name: str
    uid: str
    config_maps: tuple[str, ...]


class Clearing:
    """Of one builder, for any thread. All methods but `saw` raise ClusterUnavailable and ClusterError."""

    def __init__(self, api: Api, form: Form, namespace: str, sender: Sender) -> None:
        self._api = api
        self._form = form
        self._namespace = namespace
        self._sender = sender
        self._lock = Lock()  # guards everything below
        self._done: dict[str, _Traces] = {}
        self._cleared: frozenset[str] = frozenset()

    def saw(self, jobs: Iterable[Json], remembered: Collection[str]) -> None:
        """These are the objects of all builds that count now. Of those whose names are `remembered` more is kept
        elsewhere."""
        done = [self._of(job) for job in jobs if self._form.end(job) is Phase.SUCCEEDED]
        with self._lock:
            self._done = {one.name: one for one in done if one.name not in remembered}

    def put_away(self, names: Collection[str]) -> bool:
        """Give these builds up, if all had succeeded when they were seen last; says whether that is so. What succeeded
        stays as it is: nobody has to look at thousands of Jobs for it."""
        with self._lock:
            done = [self._done[name] for name in names if name in self._done]
        if len(done) < len(names):
            return False
        for one in done:
            self._put_away(one)
        return True

    def give_up(self, job: Json) -> None:
        """Delete a build that has not ended, with its inputs; mark one that has. Those of a failed one stay, for people
        to look at."""
        one, end = self._of(job), self._form.end(job)
        if end is Phase.SUCCEEDED:
            self._put_away(one)
        elif end is not None:
            self._mark(one)
        else:
            self._api.delete(self._form.kind, one.name, self._namespace, uid=one.uid)
            self._sender.undo(one.config_maps)

    def clear(self, jobs: Iterable[Json]) -> None:
        """Delete the inputs of builds that succeeded, some at a time: others wait for us. The rest goes with the next
        looks, or when the build is given up."""
        done = [self._of(job) for job in jobs if self._form.end(job) is Phase.SUCCEEDED]
        with self._lock:
            due = [one for one in done if one.uid not in self._cleared][:_AT_ONCE]
        for one in due:
            self._sender.undo(one.config_maps)
        with self._lock:
            known = self._cleared.intersection(one.uid for one in done)
            self._cleared = known.union(one.uid for one in due)

    def _of(self, job: Json) -> _Traces:
        about = metadata(job)
        return _Traces(str(about["name"]), str(about["uid"]), self._form.config_maps(job))

    def _put_away(self, one: _Traces) -> None:
        marked = self._mark(one)
        with self._lock:
            cleared = one.uid in self._cleared
        # Another build that has taken the name may have inputs of the same names too.
        if marked and not cleared:
            self._sender.undo(one.config_maps)

    def _mark(self, one: _Traces) -> bool:
        """Let everybody see that nobody wants a build any more, if no other has its name; says whether that is so."""
        mark = {"metadata": {"uid": one.uid, "annotations": {DISCARDED: "true"}}}
        try:
            self._api.patch(self._form.kind, one.name, mark, self._namespace)
        except Conflict:
            return False
        return True
