"""The agent of test nodes: what a kubelet is to a node, for several nodes at once, with processes for containers.

    with NodeAgent(plane.api, folder, {"quay.io/buildah/stable:v1": BUILDAH}) as agent:
        plane.add_node("a", Arch.ARM64, kubelet_port=agent.port)
        agent.serve("a")

It runs what the scheduler binds to its nodes, reports status, ends what is deleted, and confirms deletions. All of it
happens on this machine, whatever architecture a node says it is: programs are this machine's own, `uname -m` tells so,
and only QEMU runs others (tests.servers.binfmt). Everything ends with this process, kill -9 included; logs stay.

Belongs here: the API server's side. Does not belong here: one pod's life (`run`), which fields are honoured (`spec`).
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Final, Self

import httpx

from tests.controlplane.api import Api, ApiError
from tests.nodes import status
from tests.nodes.logs import LogServer
from tests.nodes.resolve import Image
from tests.nodes.run import PodRun, Surroundings
from tests.nodes.spec import Object
from tests.nodes.supervisor import now

_LOG: Final = logging.getLogger(__name__)
_POLL: Final = 0.2
_PATIENCE: Final = 30.0


class NodeAgent:
    """The agent of the nodes named to `serve`. `images` are all there are: by the names that pods use.

    Works below `directory`, in its own threads, while it is entered. A busy or absent API server only delays it.
    """

    def __init__(self, api: Api, directory: Path, images: Mapping[str, Image]) -> None:
        self._api = api
        self._directory = directory.resolve()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._images = dict(images)
        self._lock = Lock()  # guards the three below
        self._nodes: set[str] = set()
        self._runs: dict[str, PodRun] = {}
        self._unsent: dict[str, status.Seen] = {}
        self._wake = Event()
        self._closed = Event()
        self._logs = LogServer(self._directory, self._log)
        self._thread = Thread(target=self._loop, name="node-agent", daemon=True)

    def __enter__(self) -> Self:
        self._logs.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every pod at once; nothing is reported of that."""
        self._closed.set()
        self._wake.set()
        self._thread.join(_PATIENCE)
        self._logs.close()
        for run in self._known():
            run.vanish()

    @property
    def port(self) -> int:
        """Where the API server asks for logs: the kubelet port to register nodes with."""
        return self._logs.port

    # -- what a test does to nodes

    def serve(self, *nodes: str) -> None:
        """Take care of these nodes from now on, also of ones that were lost: what ran there then has failed."""
        with self._lock:
            self._nodes.update(nodes)
        self._wake.set()

    def lose(self, node: str) -> None:
        """The machine is gone: its processes are, and nothing is heard of it any more. The Node object stays."""
        with self._lock:
            self._nodes.discard(node)
            lost = {uid: run for uid, run in self._runs.items() if run.pod["spec"]["nodeName"] == node}
            for uid in lost:
                del self._runs[uid]
        for uid, run in lost.items():
            run.vanish()
            with self._lock:
                self._unsent.pop(uid, None)

    def evict(
        self, namespace: str, name: str, message: str = "The node was low on resource: memory. "
    ) -> None:
        """End a pod as a kubelet under pressure does: failed, and marked as a disruption. Raises LookupError.

        Evictions by the API (`pods/eviction`) and by taints need no help: they delete the pod.
        """
        run = self._find(namespace, name)
        if run is None:
            raise LookupError(f"no pod {namespace}/{name} here")
        run.stop(0, "Evicted", message, disrupted="TerminationByKubelet")

    def running(self) -> set[str]:
        """The names of pods of which there still is anything: a process, a mount, a thread."""
        return {str(run.pod["metadata"]["name"]) for run in self._known() if run.is_running}

    # -- the loop

    def _loop(self) -> None:
        while not self._closed.is_set():
            self._wake.clear()
            try:
                self._pass()
            except (ApiError, httpx.TransportError) as error:
                _LOG.info("node agent: %s", error)
            self._wake.wait(_POLL)

    def _pass(self) -> None:
        # In one list for all nodes: those of tests hold few pods.
        found = self._api.list("/api/v1/pods", fieldSelector="spec.nodeName!=")
        with self._lock:
            pods = {pod["metadata"]["uid"]: pod for pod in found if pod["spec"]["nodeName"] in self._nodes}
            gone = {uid: run for uid, run in self._runs.items() if uid not in pods}
        for uid, run in gone.items():
            self._forget(uid, run)
        for uid, pod in pods.items():
            if self._closed.is_set():
                return
            try:
                self._look(uid, pod)
            except ApiError as error:
                # Changed or deleted meanwhile: the next list tells.
                _LOG.info("node agent: %s", error)

    def _look(self, uid: str, pod: dict[str, Any]) -> None:
        """Do what one pod needs now."""
        with self._lock:
            run = self._runs.get(uid)
            seen = self._unsent.pop(uid, None)
        deleted = "deletionTimestamp" in pod["metadata"]
        if run is None and not status.is_over(pod):
            seen = self._meet(uid, pod, deleted)
        if run is not None and run.is_running and (deleted or status.is_over(pod)):
            grace = pod["metadata"].get("deletionGracePeriodSeconds")
            run.stop(None if grace is None else float(grace))
        if seen is not None:
            self._send(uid, pod, seen)
        elif deleted and (run is None or not run.is_running) and status.is_over(pod):
            self._confirm(pod)

    def _meet(self, uid: str, pod: dict[str, Any], deleted: bool) -> status.Seen | None:
        """A pod that nothing is known of runs from now on, unless it ran before, or is not wanted any more."""
        known = pod.get("status") or {}
        if not deleted and "startTime" not in known:
            self._start(uid, pod)
            return None
        seen = status.Seen(started=known.get("startTime") or now(), failed=True)
        if "startTime" in known:
            seen.lose(status.names(pod), now())
        return seen

    def _start(self, uid: str, pod: dict[str, Any]) -> None:
        about = pod["metadata"]
        labels = self._api.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")["metadata"].get("labels") or {}

        def look_up(resource: str, name: str) -> Object | None:
            try:
                return self._api.find(f"/api/v1/namespaces/{about['namespace']}/{resource}/{name}")
            except (ApiError, httpx.TransportError):
                return None  # it will be asked for again

        def report(_: Object, seen: status.Seen) -> None:
            with self._lock:
                self._unsent[uid] = copy.deepcopy(seen)
            self._wake.set()

        folder = self._directory / f"{about['namespace']}_{about['name']}_{uid}"
        with self._lock:
            self._runs[uid] = PodRun(pod, Surroundings(labels, self._images, look_up, folder, report))

    def _send(self, uid: str, pod: dict[str, Any], seen: status.Seen) -> None:
        """Write a status. What cannot be sent now is sent later, unless there is newer by then."""
        body = {"metadata": {"uid": uid}, "status": status.status(pod, seen, now())}
        try:
            self._api.patch(f"{_path(pod)}/status", body, kind="strategic")
        except (ApiError, httpx.TransportError) as error:
            if not isinstance(error, ApiError) or error.status not in (404, 409, 422):
                with self._lock:
                    self._unsent.setdefault(uid, seen)
            raise

    def _confirm(self, pod: dict[str, Any]) -> None:
        """Tell the API server that nothing of a deleted pod is left. Finalizers of others may still hold the object."""
        if self._api.get(_path(pod))["metadata"]["uid"] == pod["metadata"]["uid"]:
            self._api.delete(_path(pod), grace=0)

    def _forget(self, uid: str, run: PodRun) -> None:
        """The object is gone, so the pod has to go too."""
        run.silence()
        run.stop(0)
        if not run.is_running:
            with self._lock:
                self._runs.pop(uid, None)
                self._unsent.pop(uid, None)

    # -- looking

    def _known(self) -> list[PodRun]:
        with self._lock:
            return list(self._runs.values())

    def _find(self, namespace: str, name: str) -> PodRun | None:
        for run in reversed(self._known()):  # of two with one name the later
            about = run.pod["metadata"]
            if (about["namespace"], about["name"]) == (namespace, name):
                return run
        return None

    def _log(self, namespace: str, pod: str, container: str) -> Path | None:
        run = self._find(namespace, pod)
        return None if run is None or container not in status.names(run.pod) else run.log(container)


def _path(pod: Object) -> str:
    about = pod["metadata"]
    return f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
