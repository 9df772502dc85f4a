"""Kubelets without machines: what is bound to a node runs at once, and ends well after a fixed delay.

Belongs here: what stands in for nodes and buildah where everything around them is measured. Does not belong here:
measuring. The scheduler, the Job controller and the registry are real.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Final, Self

import httpx

from bench.instant import push
from reconciler.adapters.builders.job.names import ARCH_LABEL, IMAGE, OWN_ANNOTATIONS
from reconciler.adapters.builders.job.times import timestamp
from reconciler.core.model import Arch
from tests.controlplane import Api, ApiError
from tests.controlplane.api import Object
from tests.nodes import status

_POLL: Final = 0.25
_HANDS: Final = 4
_PATIENCE: Final = 60.0


@dataclass(slots=True)
class _Running:
    pod: Object
    job: Object
    seen: status.Seen
    due: float


@dataclass(slots=True)
class Sample:
    """One Job and its ConfigMaps, as they were created: what others are made after."""

    job: Object = field(default_factory=dict)
    config_maps: list[Object] = field(default_factory=list)


class Kubelets:
    """All kubelets of a cluster while it is entered. Each build takes `delay` seconds; its image has no layers.

    `sample` is the first Job that came here.
    """

    def __init__(self, api: Api, registry: str, delay: float) -> None:
        """`registry` is `host:port`, by HTTP."""
        self._api = api
        self._client = httpx.Client(base_url=f"http://{registry}/v2/", timeout=_PATIENCE)
        self._delay = delay
        self._closing = Event()
        self._thread = Thread(target=self._run, name="kubelets")
        self._lock = Lock()  # guards everything below
        self._met: set[str] = set()
        self._running: list[_Running] = []
        self._problem: BaseException | None = None
        self.sample = Sample()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join(_PATIENCE)
        self._client.close()

    def check(self) -> None:
        """Raises what went wrong here, if anything did."""
        with self._lock:
            if self._problem is not None:
                raise RuntimeError("a kubelet failed") from self._problem

    def _run(self) -> None:
        with ThreadPoolExecutor(_HANDS) as hands:
            while not self._closing.wait(_POLL):
                try:
                    self._round(hands)
                except (ApiError, httpx.HTTPError) as error:
                    self._fail(error)

    def _round(self, hands: ThreadPoolExecutor) -> None:
        pending = self._api.list("/api/v1/pods", fieldSelector="status.phase=Pending,spec.nodeName!=")
        now = time.monotonic()
        with self._lock:
            new = [pod for pod in pending if pod["metadata"]["uid"] not in self._met]
            self._met.update(pod["metadata"]["uid"] for pod in new)
            over = [one for one in self._running if one.due <= now]
            self._running = [one for one in self._running if one.due > now]
        for work in (
            *(hands.submit(self._begin, pod) for pod in new),
            *(hands.submit(self._end, one) for one in over),
        ):
            work.add_done_callback(self._done)

    def _begin(self, pod: Object) -> None:
        (owner,) = pod["metadata"]["ownerReferences"]
        namespace = pod["metadata"]["namespace"]
        job = self._api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/{owner['name']}")
        with self._lock:
            first, self.sample.job = not self.sample.job, self.sample.job or job
        if first:
            self.sample.config_maps = [
                self._api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
                for volume in pod["spec"]["volumes"]
                if (name := volume.get("configMap", {}).get("name", "")).startswith(owner["name"])
            ]
        seen = status.Seen(started=timestamp(time.time()))
        seen.start("build", seen.started)
        self._tell(pod, seen)
        with self._lock:
            self._running.append(_Running(pod, job, seen, time.monotonic() + self._delay))

    def _end(self, one: _Running) -> None:
        about = one.job["metadata"]
        annotations: Mapping[str, str] = about["annotations"]
        given = {key: value for key, value in annotations.items() if key not in OWN_ANNOTATIONS}
        arch = Arch(about["labels"][ARCH_LABEL])
        digest = push(self._client, annotations[IMAGE], arch, given)
        event: dict[str, Any] = {
            "container": "build",
            "status": 0,
            "reason": "Completed",
            "started": one.seen.started,
            "at": timestamp(time.time()),
            "message": digest,
        }
        one.seen.end(event)
        self._tell(one.pod, one.seen)

    def _tell(self, pod: Object, seen: status.Seen) -> None:
        about = pod["metadata"]
        made = {"status": status.status(pod, seen, timestamp(time.time()))}
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}/status"
        self._api.patch(path, made, kind="strategic")

    def _done(self, work: Future[None]) -> None:
        error = work.exception()
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._problem = self._problem or error
