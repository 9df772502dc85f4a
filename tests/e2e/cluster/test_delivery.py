"""From a commit to the nodes, on the real API server and upstream's own kinds: what is delivered, how far nodes have
come, and each of four drifts: made by hand, told by `status`, and put right where it is ours.

There is no Machine Config Operator here: what it and its daemons write on nodes and pools, the test writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from reconciler.adapters.clock import SystemClock
from reconciler.adapters.registry import HttpRegistry
from reconciler.core.delivery import machine_config
from reconciler.core.model import Arch
from reconciler.core.status import write_status
from tests.e2e.cluster.conftest import POOLS, Site
from tests.e2e.test_run import edit, reconciled
from tests.e2e.test_run_faults import at_rest, complaints
from tests.servers.daemon import DaemonProcess, wait_for
from tests.servers.stage import Said

pytestmark = [pytest.mark.cluster, pytest.mark.tools]

GROUP = "/apis/machineconfiguration.openshift.io/v1"
CONFIGS = f"{GROUP}/machineconfigs"
NAME = "98-worker-reconciler-osimageurl"
MANIFEST = "status/manifests/worker.yaml"
SCHEMA = json.loads((Path(__file__).parents[3] / "schemas/status.json").read_text())


@pytest.fixture
def rolling(site: Site) -> Iterator[Site]:
    """A site whose images are rolled out by MachineConfigs, in the cluster and in Git."""
    config = site.stage.config
    text = config.read_text()
    assert "deliver: [commit, pool-annotation]" in text
    config.write_text(
        text.replace(
            "pool-annotation]", "pool-annotation, machine-config]\nwriteBack: {manifests: manifests}"
        )
    )
    yield site
    for name in site.workers.names.values():
        annotate(site, name, currentImage=None, desiredImage=None, state=None, reason=None)


def status(site: Site) -> Said:
    return site.stage.reconciler("status", "--config", str(site.stage.config))


def document(site: Site) -> dict[str, Any]:
    """What `status` says, which is as its schema has it."""
    said = site.stage.reconciler("status", "--config", str(site.stage.config), "--output", "json")
    found: dict[str, Any] = json.loads(said.out)
    jsonschema.validate(found, SCHEMA)
    return found


def drifts(site: Site) -> list[tuple[str, str]]:
    return [(drift["where"], drift["message"]) for drift in document(site)["drifts"]]


def delivered(site: Site) -> bool:
    """Whether Git, the registry's tag, and the cluster name one image."""
    record = site.stage.record("worker")
    wanted = machine_config("worker", record.image, record.source_commit, "default")
    found = site.plane.api.find(f"{CONFIGS}/{NAME}")
    if found is None or found["spec"] != wanted["spec"]:
        return False
    about = {key: found["metadata"].get(key) for key in ("name", "labels", "annotations")}
    return (
        about == wanted["metadata"]
        and yaml.safe_load(site.stage.show(MANIFEST)) == wanted
        and site.annotations.get("newestImageEquivalentConfig") == record.image
        and site.annotations.get("source-commit") == record.source_commit
        and tagged(site) == record.image.partition("@")[2]
    )


def registry(site: Site) -> HttpRegistry:
    return HttpRegistry(SystemClock(), insecure=frozenset({site.stage.host}))


def tagged(site: Site) -> str | None:
    with registry(site) as client:
        return client.digest(f"{site.stage.host}/os/worker", "latest")


def annotate(site: Site, node: str, **said: str | None) -> None:
    """Write on a node what the Machine Config Operator or its daemon would."""
    found = {f"machineconfiguration.openshift.io/{key}": text for key, text in said.items()}
    site.plane.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": found}})


@pytest.mark.timeout(600)
def test_from_a_commit_to_the_nodes(rolling: Site) -> None:
    site, stage = rolling, rolling.stage
    with DaemonProcess(stage) as daemon:
        reconciled(stage, stage.tip())
        at_rest(daemon)
        old = stage.record("worker").image
        wait_for("the first delivery", lambda: delivered(site))
        assert stage.git("ls-remote", "origin", "main").split()[0] == stage.tip()
        commit = edit(stage)
        reconciled(stage, commit)
        at_rest(daemon)
        wait_for("the second delivery", lambda: delivered(site))
        tip, found = stage.tip(), site.plane.api.get(f"{CONFIGS}/{NAME}")
        daemon.polled(8)
        assert stage.tip() == tip, "what was written back causes nothing"
        assert site.plane.api.get(f"{CONFIGS}/{NAME}") == found, "what is right is not written"
        assert daemon.stop() == 0
    new = stage.record("worker").image
    assert new != old
    first, *others = sorted(site.workers.names.values())

    # The operator begins with one node, and holds the others.
    site.plane.api.patch(f"{POOLS}/worker", {"spec": {"paused": True}})
    for name in others:
        annotate(site, name, currentImage=old, desiredImage=old, state="Done")
    annotate(site, first, currentImage=old, desiredImage=new, state="Degraded", reason="no space left")
    said = status(site)
    assert said.status == 1, "a node has an error"
    rows = [line.split() for line in said.out.splitlines()]
    short_old, short_new = (f"{image.partition('@')[2][:19]}…" for image in (old, new))
    assert ["worker", "0/4", short_new, "paused", "the", "Machine"] in [row[:6] for row in rows]
    assert [first, short_old, short_new, "Degraded", "no", "space", "left"] in rows
    assert [others[0], short_old, short_old, "Done"] in rows
    assert drifts(site) == [], "a rollout that is held is no drift"

    # It goes on, and is done.
    site.plane.api.patch(f"{POOLS}/worker", {"spec": {"paused": False}})
    for name in (first, *others):
        annotate(site, name, currentImage=new, desiredImage=new, state="Done", reason="")
    said = status(site)
    assert said.status == 0, said.err
    assert ["worker", "4/4", short_new, "done"] in [line.split() for line in said.out.splitlines()]
    (pool,) = document(site)["pools"]
    assert (pool["rollout"]["nodes"], pool["rollout"]["onImage"]) == (4, 4)


def edit_status(site: Site) -> None:
    stage = site.stage
    stage.git("pull", "--quiet", "--rebase")
    record = stage.record("worker")
    one, other, *rest = record.architectures
    edited = replace(record, architectures=(replace(one, image=other.image), other, *rest))
    (stage.work / "status/worker.yaml").write_bytes(write_status(edited))
    stage.commit("Edit a status file by hand")


def edit_manifest(site: Site) -> None:
    site.stage.git("pull", "--quiet", "--rebase")
    file = site.stage.work / MANIFEST
    file.write_text(file.read_text().replace("osImageURL", "osImage"))
    site.stage.commit("Edit a manifest by hand")


def move_tag(site: Site) -> None:
    repository, _, digest = site.stage.record("worker").architectures[0].image.partition("@")
    with registry(site) as client:
        manifest = client.manifest(repository, digest)
        assert manifest
        client.put(repository, "latest", manifest)


def edit_annotation(site: Site) -> None:
    annotations = {"machineconfiguration.openshift.io/newestImageEquivalentConfig": "an image of mine"}
    site.plane.api.patch(f"{POOLS}/worker", {"metadata": {"annotations": annotations}})


def edit_machine_config(site: Site) -> None:
    site.plane.api.patch(f"{CONFIGS}/{NAME}", {"spec": {"osImageURL": "registry.example.com/mine:1"}})


def delete_machine_config(site: Site) -> None:
    site.plane.api.delete(f"{CONFIGS}/{NAME}")


DRIFTS: tuple[tuple[Callable[[Site], None], str, str], ...] = (
    (edit_status, "git", "status/worker.yaml: the record of amd64 "),
    (edit_manifest, "git", f"{MANIFEST} is not there as it was written"),
    (move_tag, "registry", "/os/worker:latest names sha256:"),
    (edit_annotation, "cluster", "newestImageEquivalentConfig an image of mine, not "),
    (edit_machine_config, "cluster", f"MachineConfig {NAME} says registry.example.com/mine:1, not "),
    (delete_machine_config, "cluster", f"MachineConfig {NAME} is not there"),
)


@pytest.mark.timeout(600)
def test_each_drift_is_told_and_put_right_and_nodes_are_left_alone(rolling: Site) -> None:
    site, stage = rolling, rolling.stage
    with DaemonProcess(stage) as daemon:
        reconciled(stage, stage.tip())
        at_rest(daemon)
        wait_for("the delivery", lambda: delivered(site))
        assert daemon.stop() == 0
    record, jobs = stage.record("worker"), site.jobs
    assert drifts(site) == []

    def whole() -> bool:
        return stage.record("worker") == record and delivered(site)

    for make, where, words in DRIFTS:
        make(site)
        assert not whole()
        assert any(place == where and words in text for place, text in drifts(site)), make.__name__
        said = status(site)
        assert said.status == 1
        assert f"worker: drifted ({where}): " in said.err
        with DaemonProcess(stage) as daemon:
            wait_for(f"the repair after {make.__name__}", whole)
            assert daemon.stop() == 0
        assert drifts(site) == [], make.__name__
    assert site.jobs == jobs, "nothing was built for it"

    # A node that runs something else: told, and left to who looks after nodes.
    name = site.workers.names[Arch.S390X]
    other = f"{record.image.partition('@')[0]}@sha256:{'0' * 64}"
    annotate(site, name, currentImage=other, desiredImage=other, state="Done")
    assert drifts(site) == [("nodes", f"{name} runs {other}, not {record.image}")]
    with DaemonProcess(stage) as daemon:
        at_rest(daemon)
        daemon.polled(6)
        assert daemon.stop() == 0
    found = site.plane.api.get(f"/api/v1/nodes/{name}")["metadata"]["annotations"]
    assert found["machineconfiguration.openshift.io/currentImage"] == other
    assert drifts(site) == [("nodes", f"{name} runs {other}, not {record.image}")]


@pytest.mark.timeout(600)
def test_where_the_operator_builds_the_image_too_nothing_is_rolled_out(rolling: Site) -> None:
    site, stage = rolling, rolling.stage
    for arch in (Arch.ARM64, Arch.PPC64LE, Arch.S390X):
        site.leave(arch)
    definition = yaml.safe_load((stage.work / "pools/worker/machineosconfig.yaml").read_text())
    site.plane.api.create(f"{GROUP}/machineosconfigs", definition)
    with DaemonProcess(stage) as daemon:
        reconciled(stage, stage.tip())
        wait_for("the complaint", lambda: complaints(daemon))
        assert "MachineOSConfig worker is in the cluster" in str(complaints(daemon))
        wait_for("the annotation", lambda: site.annotations.get("newestImageEquivalentConfig"))
        assert not site.plane.api.list(CONFIGS)
        said = status(site)
        assert said.status == 1
        assert "kubectl delete machineosconfig worker" in said.err
        site.plane.api.delete(f"{GROUP}/machineosconfigs/worker")
        wait_for("the delivery", lambda: delivered(site))
        assert daemon.stop() == 0
