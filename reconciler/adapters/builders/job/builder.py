"""Builds images in a cluster, each as an object there; as Jobs: the `job` builder.

Belongs here: making sure that builds exist, and finding out how they stand.
Does not belong here: what their objects look like and say (`form`), how their inputs travel (`parcel`), or what is done
about those that are given up (`clearing`).

Nothing is kept here that a restart may not lose. An object's name is the compare-and-swap: whoever creates it second
adopts it. A mark or a record on the cluster's objects outlives us.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from threading import Event, Lock
from typing import Final

from reconciler.adapters.builders.job import adoption, failures, pods, reading, refusals
from reconciler.adapters.builders.job.clearing import Clearing
from reconciler.adapters.builders.job.form import JOBS, Form, Unready
from reconciler.adapters.builders.job.glimpse import Glimpse, slim
from reconciler.adapters.builders.job.names import (
    MULTI_ARCH_BUILD,
    POD,
    items,
    metadata,
    owner,
    selector,
)
from reconciler.adapters.builders.job.options import JobOptions
from reconciler.adapters.builders.job.parcel import Sender
from reconciler.adapters.builders.job.pods import Outcome, Pods
from reconciler.adapters.builders.script import UnusableRequest
from reconciler.core.model import Arch, Needs
from reconciler.errors import ClusterError, ClusterUnavailable, Conflict
from reconciler.ports import Build, BuildRequest, Cause, Clock, Objects, Phase, Refusal, Registry
from reconciler.ports.cluster import Api, Json

_LOG: Final = logging.getLogger(__name__)
_LINES: Final = 200
"""Lines of a failed build's log that are looked at."""
_PAUSE: Final = 10.0
"""Looking at all builds may take one part in so many of the time."""
_LONGEST_PAUSE: Final = 30.0


class JobBuilder:
    """The `Builder` that runs each build as an object of a cluster on a node of its architecture: as a Kubernetes Job,
    or in another `form`. Safe to share between threads. These objects belong to the cluster: they go on when it is
    closed, and another one finds them.
    """

    def __init__(
        self,
        api: Api,
        objects: Objects,
        registry: Registry,
        clock: Clock,
        options: JobOptions,
        takes_jobs: Callable[[], frozenset[Arch]],
        form: Form = JOBS,
    ) -> None:
        self._api = api
        self._clock = clock
        self._options = options
        self._takes_jobs = takes_jobs
        self._form = form
        self._sender = Sender(api, objects, registry, options, form.files)
        self._clearing = Clearing(api, form, options.namespace, self._sender)
        self._glimpse = Glimpse(api, options)
        self._woken = Event()
        self._next_look = 0.0
        self._lock = Lock()  # guards everything below
        self._unusable: dict[str, Build] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._steps: dict[str, str] = {}
        self._announced: frozenset[str] = frozenset()
        self._last: tuple[Build, ...] = ()

    def refusal(self, arch: Arch, needs: Needs) -> Refusal | None:
        """Why a recipe with these needs cannot be built here, or None."""
        image = self._options.job.image
        return refusals.refusal(arch, needs, self._takes_jobs(), image, self._form.tolerations)

    def ensure(self, request: BuildRequest) -> None:
        """Make sure that a build exists, whoever created it. A second call with the same name does nothing.

        What cannot be built as it stands is a failed build, as with every builder. Raises ClusterUnavailable,
        ClusterError (also for somebody else's object of that name), RegistryUnavailable and RegistryError while a large
        context is stored, and what reading the repository raises.
        """
        with self._lock:
            if request.name in self._unusable:
                return
        # What was not in the last list is not asked for first: if it is there all the same, its name will tell.
        if self._glimpse.may_have(request.name):
            found = self._get(request.name)
            if found is not None:
                self._adopt(request, found)
                return
        try:
            self._create(request)
        except (UnusableRequest, Unready, OSError) as error:
            failed = _stillborn(request, error, self._clock.now())
            with self._lock:
                self._unusable[request.name] = failed

    def builds(self) -> tuple[Build, ...]:
        """All builds of this instance, by name: its objects, and the failures that outlived theirs.

        Raises ClusterUnavailable, ClusterError.
        """
        self._glimpse.forget()
        jobs = self._jobs()
        known = self._look(jobs)
        self._clearing.clear([job for job in jobs if not reading.is_discarded(job)])
        return known

    def _look(self, found_jobs: Collection[Json]) -> tuple[Build, ...]:
        """All builds, from what was just listed."""
        jobs = [job for job in found_jobs if not reading.is_discarded(job)]
        works = self._works()
        remembered = {(build.name, uid): build for work in works for uid, build in failures.builds(work, "")}
        owned = self._pods() if any(self._needs_pods(job, remembered) for job in jobs) else {}
        found = {build.name: build for build in remembered.values()}
        failed = []
        for job in jobs:
            mine = Pods(owned.get(str(metadata(job)["uid"]), []), self._form.container)
            build = self._read(job, mine, remembered)
            if build is not None:
                found[build.name] = build
                if build.phase is Phase.FAILED:
                    failed.append((job, build))
        for work in works:
            self._write(work, failures.added(work, failed))
        self._clearing.saw(jobs, {build.name for build in remembered.values()})
        with self._lock:
            found = self._unusable | found
            self._last = known = tuple(found[name] for name in sorted(found))
        self._tidy(jobs, remembered)
        self._forget(jobs)
        return known

    def glance(self) -> tuple[Build, ...]:
        """What was known when the Jobs were looked at last; while any runs, that is each `poll` at the latest."""
        with self._lock:
            return self._last

    def discard(self, names: Collection[str]) -> None:
        """Nobody wants these builds any more: delete the Jobs that have not ended, mark those that have.

        Raises ClusterUnavailable, ClusterError.
        """
        unwanted = frozenset(names)
        if not unwanted:
            return
        with self._lock:
            self._unusable = {name: b for name, b in self._unusable.items() if name not in unwanted}
        if self._clearing.put_away(unwanted):
            return
        for job in self._jobs():
            if metadata(job)["name"] in unwanted and not reading.is_discarded(job):
                self._clearing.give_up(job)
        for work in self._works():
            self._write(work, failures.without(work, unwanted))

    def wait(self, seconds: float) -> bool:
        """Block until some build has ended since the last call, at most `seconds`; say whether one has.

        A cluster that cannot be asked has no news. Those that had ended before the first call count once.
        """
        end = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            if self._woken.is_set() or now >= self._next_look:
                self._woken.clear()
                self._next_look = now + self._options.poll
                news = self._news()
                # Where there are thousands of Jobs, a look costs others of their requests.
                spent = time.monotonic() - now
                self._next_look = now + max(self._options.poll, min(_PAUSE * spent, _LONGEST_PAUSE))
                if news:
                    return True
            left = min(end, self._next_look) - time.monotonic()
            if left > 0:
                self._woken.wait(left)
            if time.monotonic() >= end:
                return False

    def wake(self) -> None:
        """Look at the Jobs now: somebody saw one of them change. Too often is only dear, never wrong."""
        self._woken.set()

    def close(self) -> None:
        """Nothing ends: the Jobs belong to the cluster, and are found again."""
        self._woken.set()

    def _get(self, name: str) -> Json | None:
        return self._api.get(self._form.kind, name, self._options.namespace)

    def _jobs(self) -> list[Json]:
        wanted = selector(self._options.instance)
        found = [slim(job) for job in self._api.list(self._form.kind, self._options.namespace, wanted)]
        self._glimpse.listed(str(metadata(job)["name"]) for job in found)
        return found

    def _works(self) -> list[Json]:
        return list(
            self._api.list(MULTI_ARCH_BUILD, self._options.namespace, selector(self._options.instance))
        )

    def _pods(self) -> Mapping[str, list[Json]]:
        found = self._api.list(POD, self._options.namespace, self._form.pods(self._options))
        return pods.by_owner(map(slim, found))

    def _create(self, request: BuildRequest) -> None:
        present = self._form.look(self._api, self._options, request)
        work = self._glimpse.work(request.work)
        owners = [owner(MULTI_ARCH_BUILD, work)] if work else []
        sources = self._sender.send(request, owners, self._glimpse.surroundings())
        controller = [owner(MULTI_ARCH_BUILD, work, controller=True)] if work else []
        body = self._form.body(request, self._options, sources, controller, present)
        try:
            made = self._api.create(self._form.kind, body, self._options.namespace)
        except ClusterUnavailable:
            # Perhaps it was created and only the answer was lost: its name tells.
            found = self._get(request.name)
            if found is None:
                raise
            self._adopt(request, found)
            return
        self._glimpse.listed([request.name], more=True)
        if made is None:
            if found := self._get(request.name):
                self._adopt(request, found)
        elif work is None:
            self._sender.hand_over(self._form.config_maps(made), owner(self._form.kind, made))

    def _adopt(self, request: BuildRequest, found: Json) -> None:
        """Take an object of that name as the one that is asked for, if it is. One that is on its way out is left to a
        later call. Raises ClusterError, Conflict."""
        if "deletionTimestamp" in metadata(found):
            return
        problem = adoption.obstacle(request, found, self._options.instance)
        if problem:
            raise ClusterError(
                f"the {self._form.kind.name} {self._options.namespace}/{request.name} is not ours: {problem}",
                hint="delete it, or let another namespace or instance name keep the two apart",
            )
        patch = adoption.patch(found, self._glimpse.work(request.work))
        if patch:
            self._api.patch(self._form.kind, request.name, patch, self._options.namespace)

    def _needs_pods(self, job: Json, remembered: Mapping[tuple[str, str], Build]) -> bool:
        """Whether only pods can tell how a build stands."""
        if self._form.end(job) is not Phase.FAILED:
            return True
        uid = str(metadata(job)["uid"])
        return uid not in self._outcomes and (str(metadata(job)["name"]), uid) not in remembered

    def _read(self, job: Json, mine: Pods, remembered: Mapping[tuple[str, str], Build]) -> Build | None:
        """An object as a build. The failure of one is told once, by its pod, and then remembered."""
        name, uid = str(metadata(job)["name"]), str(metadata(job)["uid"])
        where = self._form.log(self._options.namespace, name)
        if self._form.end(job) is not Phase.FAILED:
            build = self._form.build(job, mine, None, where)
            with self._lock:
                self._steps[uid] = build.step if build else ""
            return build
        known = remembered.get((name, uid))
        with self._lock:
            found = self._outcomes.get(uid)
            step = self._steps.get(uid, "")
        if found is None and known is not None and known.cause is not None:
            found = Outcome(known.cause, known.message)
        if found is None:
            log = ""
            if mine.last:
                log = self._api.log(self._options.namespace, mine.last, self._form.container, _LINES)
            found = self._form.outcome(job, mine, log, step)
        with self._lock:
            self._outcomes[uid] = found
        return self._form.build(job, mine, found, where)

    def _write(self, work: Json, patch: Json | None) -> None:
        """Change a MultiArchBuild's status; who comes second looks again next time."""
        if patch:
            name = str(metadata(work)["name"])
            with suppress(Conflict):
                self._api.patch(MULTI_ARCH_BUILD, name, patch, self._options.namespace, subresource="status")

    def _tidy(self, jobs: Collection[Json], remembered: Mapping[tuple[str, str], Build]) -> None:
        """End what takes too long, and delete what ended long ago, where the cluster does neither. Failures wait until
        they have been read back from where they are remembered."""
        now = self._clock.now()
        for job in jobs:
            about = metadata(job)
            name, uid = str(about["name"]), str(about["uid"])
            with self._lock:
                step = self._steps.get(uid, "")
            if patch := self._form.overdue(job, self._options, now, step):
                self._api.patch(self._form.kind, name, patch, self._options.namespace)
            elif self._form.is_outdated(job, self._options, now):
                told = self._form.end(job) is not Phase.FAILED or (name, uid) in remembered
                if told or reading.is_discarded(job) or not items(job, "metadata", "ownerReferences"):
                    self._api.delete(self._form.kind, name, self._options.namespace, uid=uid)

    def _forget(self, jobs: Collection[Json]) -> None:
        """Keep in mind only what is still there."""
        present = {str(metadata(job)["uid"]) for job in jobs}
        with self._lock:
            self._outcomes = {uid: found for uid, found in self._outcomes.items() if uid in present}
            self._steps = {uid: step for uid, step in self._steps.items() if uid in present}

    def _news(self) -> bool:
        """Whether a build ended that nobody was told of."""
        try:
            listed = self._jobs()
            known = [job for job in listed if not reading.is_discarded(job)]
            jobs = [job for job in known if self._form.end(job) is not None]
            if len(jobs) < len(known):
                self._look(listed)  # for those who glance
        except ClusterError as error:
            _LOG.warning("cannot look at the builds: %s", error)
            return False
        with self._lock:
            ended = {str(metadata(job)["uid"]) for job in jobs} | self._unusable.keys()
            new = ended - self._announced
            self._announced = frozenset(ended)
        return bool(new)


def _stillborn(request: BuildRequest, error: UnusableRequest | Unready | OSError, now: float) -> Build:
    """A build that failed before there was anything of it."""
    hint = "" if isinstance(error, OSError) else error.hint
    return Build(
        name=request.name,
        pool=request.pool,
        arch=request.arch,
        phase=Phase.FAILED,
        cause=_cause(error),
        message=f"{error} ({hint})" if hint else str(error),
        started=now,
        finished=now,
        annotations=dict(request.annotations),
    )


def _cause(error: UnusableRequest | Unready | OSError) -> Cause:
    match error:
        case UnusableRequest():
            return Cause.DEFINITION
        case Unready():
            return Cause.MISSING
    return Cause.INFRASTRUCTURE
