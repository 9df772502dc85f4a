"""How far nodes have come, as their annotations and the rendered MachineConfigs say it."""

from __future__ import annotations

from typing import Any

from reconciler.adapters.cluster.kinds import MACHINE_CONFIG_POOLS, MACHINE_CONFIGS, NODES
from reconciler.adapters.cluster.rollout import RolloutReader
from reconciler.ports.cluster import NodeImage, PoolRollout, Rollouts
from tests.adapters.builders.job.support import FakeApi

OLD = "registry.example.com/os/worker@sha256:" + "a" * 64
NEW = "registry.example.com/os/worker@sha256:" + "b" * 64
ROLE = "node-role.kubernetes.io/"


def add_node(api: FakeApi, name: str, role: str = "worker", **said: str) -> None:
    annotations = {f"machineconfiguration.openshift.io/{key}": text for key, text in said.items()}
    about = {"name": name, "labels": {f"{ROLE}{role}": ""}, "annotations": annotations}
    api.create(NODES, {"metadata": about, "spec": {}})
    api.one("nodes", name)["status"] = {"nodeInfo": {"architecture": "amd64"}}


def add_pool(api: FakeApi, name: str, *conditions: tuple[str, str], **spec: Any) -> None:
    selector = {"matchLabels": {f"{ROLE}{name}": ""}}
    api.create(MACHINE_CONFIG_POOLS, {"metadata": {"name": name}, "spec": {"nodeSelector": selector, **spec}})
    found = [{"type": kind, "status": status} for kind, status in conditions]
    api.one("machineconfigpools", name)["status"] = {"conditions": found}


def test_images_of_the_operator_are_those_of_the_annotations() -> None:
    api = FakeApi()
    add_pool(api, "worker", ("Updated", "False"))
    add_node(api, "b", currentImage=OLD, desiredImage=NEW, state="Degraded", reason="no\nspace \x1b[31mleft")
    add_node(api, "a", currentImage=NEW, desiredImage=NEW, state="Done")
    add_node(api, "m", role="master", currentImage=OLD)
    reader: Rollouts = RolloutReader(api)
    assert reader.look(["worker", "gone"]) == {
        "worker": PoolRollout(
            nodes=(
                NodeImage("a", NEW, NEW, "Done"),
                NodeImage("b", OLD, NEW, "Degraded", "no space [31mleft"),
            ),
            settled=False,
        )
    }
    assert {verb for verb, *_ in api.asked} <= {"get", "list", "create"}


def test_images_of_a_machine_config_are_those_of_the_rendered_ones_each_read_once() -> None:
    api = FakeApi()
    add_pool(api, "worker", ("Updated", "True"), paused=True)
    for name, image in (("rendered-1", OLD), ("rendered-2", NEW)):
        api.create(MACHINE_CONFIGS, {"metadata": {"name": name}, "spec": {"osImageURL": image}})
    for number in range(5):
        add_node(api, f"n{number}", currentConfig="rendered-1", desiredConfig="rendered-2", state="Working")
    add_node(api, "n9", currentConfig="rendered-0", desiredConfig="rendered-2")
    found = RolloutReader(api).look(["worker"])["worker"]
    assert found.paused
    assert found.settled
    assert found.nodes[0] == NodeImage("n0", OLD, NEW, "Working")
    assert found.nodes[-1] == NodeImage("n9", "", NEW), "of a config that is gone nothing is known"
    assert sum(ask[:2] == ("get", "machineconfigs") for ask in api.asked) == 3


def test_many_odd_nodes_do_not_have_everything_read() -> None:
    api = FakeApi()
    add_pool(api, "worker")
    for number in range(300):
        add_node(api, f"n{number}", currentConfig=f"rendered-{number}")
    assert len(RolloutReader(api).look(["worker"])["worker"].nodes) == 300
    assert sum(verb == "get" for verb, *_ in api.asked) == 100


def test_without_pools_roles_say_which_nodes_are_whose() -> None:
    api = FakeApi()
    add_node(api, "a", currentImage=NEW)
    add_node(api, "i", role="infra")
    assert RolloutReader(api).look(["infra"]) == {"infra": PoolRollout((NodeImage("i"),))}
