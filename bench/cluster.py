"""What one commit costs a cluster: from the commit to Jobs, images, a status commit and annotated pools.

Belongs here: the sites, the two ways of building, and their results. Run `python -m bench.cluster --help`.

The API server, the controllers, the scheduler, Git and the registry are real, and the daemon is a process of its own
with the rights of `deploy/`. Kubelets are not (`kubelets`): a build takes a fixed time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from bench import repository
from bench.instant import push_base
from bench.kubelets import Kubelets
from bench.measure import ROOT, described, machine
from bench.script import follow
from reconciler.adapters.builders.job.names import EPHEMERAL
from reconciler.core.model import Arch
from tests.controlplane import ControlPlane, programs
from tests.servers.daemon import DaemonProcess, wait_for
from tests.servers.registry import RegistryServer, docker_registry
from tests.servers.stage import Stage

_RBAC: Final = (ROOT / "deploy/base/rbac.yaml").read_text()
_NAME: Final = "machine-os-reconciler"
_POOLS: Final = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools"
_NODES: Final = "/api/v1/nodes"
_IMAGE: Final = "machineconfiguration.openshift.io/newestImageEquivalentConfig"
_STATE: Final = "reconciler.machineos.dev/build-state"
_LIMIT_MIB: Final = 128
"""What a daemon may hold with `--nodes` nodes."""
_PATIENCE: Final = 3 * 3600.0
_CRD: Final = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machineconfigpools.machineconfiguration.openshift.io}
spec:
  group: machineconfiguration.openshift.io
  scope: Cluster
  names: {kind: MachineConfigPool, listKind: MachineConfigPoolList, plural: machineconfigpools, singular: machineconfigpool}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""  # noqa: E501
"""Stands in for the Machine Config Operator's kind, which is not part of this project."""


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster, a registry with bases, and an empty repository that a daemon is configured for."""

    plane: ControlPlane
    stage: Stage
    namespace: str

    @classmethod
    def make(cls, plane: ControlPlane, registry: RegistryServer, root: Path) -> Site:
        """A site of its own in a shared cluster."""
        root.mkdir()
        namespace = plane.create_namespace()
        plane.apply(_RBAC.replace(_NAME, namespace))
        stage = Stage(root, registry)
        repository.create(stage.bare, 0)
        login = plane.kubeconfig_for(namespace, namespace)
        stage.config.write_text(
            "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: ReconcilerConfig\n"
            f"source: {{url: {stage.bare}, branch: main, interval: 2s}}\n"
            f'registry: {{insecure: ["{registry.host}"]}}\n'
            "builder: {type: job}\n"
            f"cluster: {{mode: kubeconfig, kubeconfig: {login}}}\n"
            "deliver: [commit, pool-annotation]\n"
            'web: {listen: "127.0.0.1:0"}\n'
        )
        return cls(plane, stage, namespace)

    @property
    def jobs(self) -> str:
        """The path of the Jobs."""
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    def has_inputs(self) -> bool:
        """Whether there are inputs of builds."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        return bool(self.plane.api.get(path, limit=1, labelSelector=f"{EPHEMERAL}=true")["items"])

    def count(self, path: str) -> int:
        """How many objects there are; the API server counts."""
        found = self.plane.api.get(path, limit=1)
        return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))

    def add_pools(self, pools: int) -> None:
        """MachineConfigPools without nodes: the repository says which architectures they have."""
        for number in range(pools):
            self.plane.api.create(_POOLS, _pool(repository.pool_name(number)))

    def define(self, pools: int) -> None:
        """The commit: definitions of pools, where there were none."""
        host = self.stage.registry.host
        files = {
            path: text.replace("registry.example.com", host)
            for number in range(pools)
            for path, text in repository.pool_files(number).items()
        }
        repository.commit(self.stage.bare, files, 1)

    def are_annotated(self, pools: int) -> bool:
        """Whether every pool says that it has its image."""
        found = [pool["metadata"].get("annotations") or {} for pool in self.plane.api.list(_POOLS)]
        done = [one for one in found if _IMAGE in one and one.get(_STATE) == "Succeeded"]
        return len(done) == pools


def _pool(name: str, selector: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": name},
        "spec": {"nodeSelector": {"matchLabels": selector or {"example.com/pool": name}}},
    }


def settled(daemon: DaemonProcess) -> bool:
    """Whether a pass has found nothing left to do."""
    return daemon.metric("reconciler_reconcile_duration_seconds_count", outcome="settled") > 0


def counted(daemon: DaemonProcess) -> dict[str, Counter[str]]:
    """The requests that a daemon has made until now, by system and by what it asked."""
    found: dict[str, Counter[str]] = {"kubernetes": Counter(), "git": Counter(), "registry": Counter()}
    names = {f"reconciler_{system}_requests_total": system for system in found}
    for line in daemon.get("/metrics").splitlines():
        series, _, value = line.rpartition(" ")
        name, _, labels = series.partition("{")
        if name in names:
            # The first label that is no outcome says what was asked.
            asked = next(one for one in labels.split(",") if not one.startswith(("code=", "outcome=")))
            found[names[name]][asked.split('"')[1]] += int(float(value))
    return found


def held_mib(pid: int, what: str) -> float:
    """What a process holds: VmHWM is the most that it ever did, VmRSS what it does now."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return round(int(status[what].split()[0]) / 1024, 1)


def reconcile(site: Site, pools: int, kubelets: Kubelets) -> dict[str, Any]:
    """One commit that defines pools, until all of them have their image."""
    wanted = pools * len(repository.ARCHITECTURES)
    with DaemonProcess(site.stage) as daemon:
        wait_for("an idle daemon", lambda: settled(daemon))
        before, idle = counted(daemon), held_mib(daemon.pid, "VmHWM")
        began = time.monotonic()
        site.define(pools)
        _wait(lambda: site.count(site.jobs) >= wanted, kubelets, daemon)
        created = time.monotonic() - began
        _wait(lambda: site.are_annotated(pools), kubelets, daemon)
        annotated = time.monotonic() - began
        asked = {system: count - before[system] for system, count in counted(daemon).items()}
        peak = held_mib(daemon.pid, "VmHWM")
        # What is left to be cleared away is work too, though nobody waits for it.
        _wait(lambda: not site.has_inputs() and is_quiet(daemon), kubelets, daemon)
        after = counted(daemon)["kubernetes"] - before["kubernetes"]
        if daemon.stop():
            raise RuntimeError("the daemon did not end well")
    return {
        "jobs_s": round(created, 1),
        "annotated_s": round(annotated, 1),
        "requests": asked["kubernetes"].total(),
        "requests_after": (after - asked["kubernetes"]).total(),
        "requests_per_image": round(asked["kubernetes"].total() / wanted, 2),
        "kubernetes": dict(sorted(asked["kubernetes"].items())),
        "git": dict(sorted(asked["git"].items())),
        "registry": dict(sorted(asked["registry"].items())),
        "idle_mib": idle,
        "peak_mib": peak,
    }


def is_quiet(daemon: DaemonProcess) -> bool:
    """Whether it asks the API server for nothing but what it looks at from time to time."""
    before = counted(daemon)["kubernetes"].total()
    time.sleep(2)
    return counted(daemon)["kubernetes"].total() - before <= 2


def measure(plane: ControlPlane, root: Path, pools: int, delay: float) -> Iterator[dict[str, Any]]:
    """A commit of so many pools, done by the daemon, and then by the script as well."""
    with docker_registry(root) as registry:
        with httpx.Client(base_url=f"http://{registry.host}/v2/", timeout=60) as client:
            for minor in range(4):
                push_base(client, f"9.{minor}", list(Arch))
        site = Site.make(plane, registry, root / f"site-{pools}")
        site.add_pools(pools)
        with Kubelets(plane.api, registry.host, delay) as kubelets:
            ours = reconcile(site, pools, kubelets)
            yield {"pools": pools, "reconciler": ours}
            plane.delete_namespace(site.namespace)
            other = plane.create_namespace()
            script = follow(plane, other, kubelets.sample, pools, registry.host, kubelets.check)
        plane.delete_namespace(other)
        plane.api.delete(_POOLS)
    ratio = {name: round(ours[name] / script[name], 2) for name in ("jobs_s", "annotated_s", "requests")}
    yield {"pools": pools, "reconciler": ours, "script": script, "ratio": ratio}


def observe(plane: ControlPlane, root: Path, nodes: int) -> dict[str, Any]:
    """What a daemon holds that watches so many nodes."""
    with docker_registry(root) as registry:
        site = Site.make(plane, registry, root / "site-nodes")
        names = [repository.pool_name(number) for number in range(4)]
        for name in names:
            plane.api.create(_POOLS, _pool(name))
        alone = _observing(site)
        for number in range(nodes):
            _add_node(plane, number, names[number % 4])
        with DaemonProcess(site.stage) as daemon:
            wait_for("an idle daemon", lambda: settled(daemon))
            recorded = plane.api.get(
                f"/api/v1/namespaces/{site.namespace}/configmaps/machine-os-architectures"
            )["data"]
            time.sleep(5)
            held = {"peak_mib": held_mib(daemon.pid, "VmHWM"), "resident_mib": held_mib(daemon.pid, "VmRSS")}
            if daemon.stop():
                raise RuntimeError("the daemon did not end well")
        size = len(json.dumps(plane.api.get(f"{_NODES}/node-0000")))
        plane.api.delete(_NODES)
        plane.api.delete(_POOLS)
        plane.delete_namespace(site.namespace)
    return {
        "nodes": nodes,
        "node_bytes": size,
        "pools": len(names),
        "architectures": recorded[names[0]].split(","),
        "without_mib": alone,
        **held,
        "limit_mib": _LIMIT_MIB,
        "within_limit": held["peak_mib"] < _LIMIT_MIB,
    }


def _observing(site: Site) -> float:
    """The peak of a daemon whose pools have no nodes."""
    with DaemonProcess(site.stage) as daemon:
        wait_for("an idle daemon", lambda: settled(daemon))
        peak = held_mib(daemon.pid, "VmHWM")
        daemon.stop()
    return peak


def _add_node(plane: ControlPlane, number: int, pool: str) -> None:
    """A node as large as real ones are: kubelets list fifty images, and operators write annotations."""
    name = f"node-{number:04}"
    arch = repository.ARCHITECTURES[number // 4 % 4]
    labels = {"example.com/pool": pool, **{f"example.com/label-{n}": f"value-{n}" for n in range(20)}}
    images = [
        {
            "names": [
                f"registry.example.com/namespace/image-{n}@sha256:{n:064x}",
                f"registry.example.com/i:{n}",
            ],
            "sizeBytes": 10**8 + n,
        }
        for n in range(50)
    ]
    plane.add_node(name, Arch(arch), labels=labels)
    plane.api.patch(f"{_NODES}/{name}/status", {"status": {"images": images}})


def _wait(condition: Callable[[], bool], kubelets: Kubelets, daemon: DaemonProcess) -> None:
    until = time.monotonic() + _PATIENCE
    while not condition():
        kubelets.check()
        if daemon.poll() is not None:
            raise RuntimeError(f"the daemon has ended:\n{daemon.log.read_text()[-2000:]}")
        if time.monotonic() > until:
            raise RuntimeError(f"not within {_PATIENCE:g} s:\n{daemon.log.read_text()[-2000:]}")
        time.sleep(0.25)


def run(sizes: Iterable[int], nodes: int, delay: float, root: Path) -> Iterator[dict[str, Any]]:
    """Measure everything, and give the result so far after every step; it is documented in README.md."""
    result: dict[str, Any] = {
        "benchmark": "cluster",
        "machine": machine(("git", "docker-registry")),
        "runs": 1,
        "architectures": len(repository.ARCHITECTURES),
        "delay_s": delay,
        "commits": [],
    }
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(root / "plane", programs.find(_say)))
        plane.install_ours()
        plane.apply(_CRD)
        wait_for("the kind", lambda: plane.api.find(_POOLS) is not None)
        if nodes:
            _say(f"{nodes} nodes")
            result["observing"] = observe(plane, root / "nodes", nodes)
            yield result
        for arch in Arch:
            plane.add_node(f"node-{arch}", arch)
        for pools in sizes:
            _say(f"{pools} pools")
            before = result["commits"]
            for one in measure(plane, root / f"pools-{pools}", pools, delay):
                result["commits"] = [*before, one]
                yield result


def table(result: Mapping[str, Any]) -> str:
    """The result as Markdown, for README.md."""
    lines = [
        described(result),
        "",
        "| pools | all Jobs created, s | all pools annotated, s | API requests | per image | of the script |"
        " Git | registry | peak MiB |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for one in result["commits"]:
        ours, script, ratio = one["reconciler"], one["script"], one["ratio"]
        lines.append(
            f"| {one['pools']} | {ours['jobs_s']} ({ratio['jobs_s']} times {script['jobs_s']})"
            f" | {ours['annotated_s']} ({ratio['annotated_s']} times {script['annotated_s']})"
            f" | {ours['requests']} + {ours['requests_after']} | {ours['requests_per_image']}"
            f" | {ratio['requests']} times {script['requests']}"
            f" | {sum(ours['git'].values())} | {sum(ours['registry'].values())} | {ours['peak_mib']} |"
        )
    if found := result.get("observing"):
        lines += [
            "",
            f"- {found['nodes']} nodes of {len(found['architectures'])} architectures and {found['node_bytes']} bytes"
            f" each: peak {found['peak_mib']} MiB, {found['resident_mib']} MiB afterwards; without nodes"
            f" {found['without_mib']} MiB; limit {found['limit_mib']} MiB",
        ]
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(words: Sequence[str]) -> None:
    """Measure, print the table, and write the JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.cluster", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--pools", type=int, nargs="*", default=[100, 500, 1000], metavar="N")
    parser.add_argument("--nodes", type=int, default=2000, metavar="N", help="nodes to observe; 0 for none")
    parser.add_argument("--delay", type=float, default=30.0, metavar="SECONDS", help="how long a build takes")
    parser.add_argument("--runs", type=int, default=1, help="always one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    chosen = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="reconciler-bench-", ignore_cleanup_errors=True) as root:
        for result in run(chosen.pools, chosen.nodes, chosen.delay, Path(root)):
            if chosen.json:
                chosen.json.parent.mkdir(parents=True, exist_ok=True)
                chosen.json.write_text(json.dumps(result, indent=2) + "\n")
    print(table(result))


if __name__ == "__main__":
    main(sys.argv[1:])
