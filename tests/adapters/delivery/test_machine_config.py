"""What is written as a MachineConfig, and what never is: against an API server in memory. The upstream kinds themselves
take part in `tests/e2e/cluster`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.adapters.delivery.machine_config import (
    MACHINE_CONFIG,
    MACHINE_OS_CONFIG,
    POOL,
    MachineConfigs,
)
from reconciler.core.delivery import machine_config
from reconciler.errors import ClusterError, Conflict
from reconciler.ports.cluster import BuildState, Delivery, PoolReport
from tests.adapters.builders.job.support import FakeApi
from tests.fakes import FakeClock

NAME = "98-worker-reconciler-osimageurl"
INDEX = "registry.example.com/os/worker@sha256:" + "a" * 64
OTHER = "registry.example.com/os/worker@sha256:" + "b" * 64
COMMIT = "c" * 40
REPORT = PoolReport(
    pool="worker",
    work="worker-0123456789",
    commit=COMMIT,
    plan="sha256:" + "b" * 64,
    image=INDEX,
    source_commit=COMMIT,
    state=BuildState.SUCCEEDED,
)
Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.create(POOL, {"metadata": {"name": "worker"}, "spec": {"paused": False}})
    api.asked.clear()
    return api


def delivery(api: FakeApi, clock: FakeClock | None = None, instance: str = "default") -> MachineConfigs:
    return MachineConfigs(api, clock or FakeClock(), instance)


def written(api: FakeApi, name: str = NAME) -> dict[str, Any]:
    found = api.one("machineconfigs", name)
    about = found["metadata"]
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {key: about[key] for key in ("name", "labels", "annotations")},
        "spec": found["spec"],
    }


def writes(api: FakeApi) -> list[str]:
    return [verb for verb, *_ in api.asked if verb in ("create", "patch", "delete")]


def test_it_is_created_patched_and_left_alone(api: FakeApi) -> None:
    made: Delivery = delivery(api)
    made.report(REPORT)
    assert written(api) == machine_config("worker", INDEX, COMMIT, "default")
    made.report(REPORT)
    assert writes(api) == ["create"]
    made.report(replace(REPORT, image=OTHER, source_commit="d" * 40))
    assert written(api) == machine_config("worker", OTHER, "d" * 40, "default")
    assert writes(api) == ["create", "patch"]
    made.keep_only(())
    assert writes(api) == ["create", "patch"], "nodes would be rolled back"


EDITS: dict[str, Edit] = {
    "image": lambda found: found["spec"].update(osImageURL=OTHER),
    "no image": lambda found: found["spec"].pop("osImageURL"),
    "more": lambda found: found["spec"].update(kernelArguments=["quiet"]),
    "role": lambda found: found["metadata"]["labels"].update(
        {"machineconfiguration.openshift.io/role": "infra"}
    ),
    "commit": lambda found: found["metadata"]["annotations"].clear(),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_what_somebody_edits_is_told_and_put_right(api: FakeApi, edit: Edit) -> None:
    made = delivery(api)
    made.report(REPORT)
    assert made.differences(REPORT) == ()
    found = api.one("machineconfigs")
    found["metadata"]["labels"]["example.com/theirs"] = "kept"
    edit(found)
    (told,) = made.differences(REPORT)
    assert NAME in told
    made.report(REPORT)
    wanted = machine_config("worker", INDEX, COMMIT, "default")
    wanted["metadata"]["labels"]["example.com/theirs"] = "kept"
    assert written(api) == wanted
    assert made.differences(REPORT) == ()


def test_one_that_somebody_deletes_is_told_and_made_again(api: FakeApi) -> None:
    made = delivery(api)
    made.report(REPORT)
    api.delete(MACHINE_CONFIG, NAME)
    assert made.differences(REPORT) == (f"MachineConfig {NAME} is not there",)
    made.report(REPORT)
    assert written(api)["spec"] == {"osImageURL": INDEX}


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"app.kubernetes.io/managed-by": "Helm"},
        {"reconciler.machineos.dev/output": "machine-config", "reconciler.machineos.dev/instance": "west"},
    ],
)
def test_somebody_elses_of_that_name_is_left_and_told(api: FakeApi, labels: dict[str, str]) -> None:
    api.create(MACHINE_CONFIG, {"metadata": {"name": NAME, "labels": labels}, "spec": {"osImageURL": OTHER}})
    for act in (delivery(api).report, delivery(api).differences):
        with pytest.raises(ClusterError) as caught:
            act(REPORT)
        assert NAME in caught.value.message
        assert "delete or rename it" in caught.value.hint
    assert api.one("machineconfigs")["spec"] == {"osImageURL": OTHER}


def test_a_pool_that_the_operator_builds_for_is_refused_and_the_others_go_on(api: FakeApi) -> None:
    label = "machineconfiguration.openshift.io/layering-enabled"
    api.create(POOL, {"metadata": {"name": "infra", "labels": {label: ""}}})
    made = delivery(api)
    for act in (made.report, made.differences):
        with pytest.raises(ClusterError) as caught:
            act(replace(REPORT, pool="infra"))
        assert label in caught.value.message
        assert "MachineConfigPool infra" in caught.value.message
        assert f"kubectl label machineconfigpool infra {label}-" in caught.value.hint
    made.report(REPORT)
    assert api.names("machineconfigs") == (NAME,)


@pytest.mark.parametrize("name", ["worker", "old-name"])
def test_a_machine_os_config_in_the_cluster_is_never_competed_with(api: FakeApi, name: str) -> None:
    clock = FakeClock()
    made = delivery(api, clock)
    made.report(REPORT)
    rival = {"metadata": {"name": name}, "spec": {"machineConfigPool": {"name": "worker"}}}
    api.create(MACHINE_OS_CONFIG, rival)
    clock.sleep(60)
    with pytest.raises(ClusterError) as caught:
        made.report(replace(REPORT, image=OTHER))
    assert f"MachineOSConfig {name}" in caught.value.message
    assert f"kubectl delete machineosconfig {name}" in caught.value.hint
    assert written(api)["spec"] == {"osImageURL": INDEX}
    api.delete(MACHINE_OS_CONFIG, name)
    clock.sleep(60)
    made.report(replace(REPORT, image=OTHER))
    assert written(api)["spec"] == {"osImageURL": OTHER}


def test_many_pools_ask_for_machine_os_configs_once(api: FakeApi) -> None:
    made = delivery(api)
    for number in range(20):
        api.create(POOL, {"metadata": {"name": f"pool-{number}"}})
        made.report(replace(REPORT, pool=f"pool-{number}"))
    assert sum(ask[:2] == ("list", "machineosconfigs") for ask in api.asked) == 1


def test_a_paused_pool_gets_its_all_the_same(api: FakeApi) -> None:
    api.one("machineconfigpools")["spec"]["paused"] = True
    delivery(api).report(REPORT)
    assert written(api)["spec"] == {"osImageURL": INDEX}


@pytest.mark.parametrize("report", [replace(REPORT, image=""), replace(REPORT, believed=False)])
def test_without_an_image_that_is_believed_nothing_is_touched(api: FakeApi, report: PoolReport) -> None:
    made = delivery(api)
    made.report(report)
    assert made.differences(report) == ()
    assert not api.names("machineconfigs")


def test_a_pool_that_the_cluster_does_not_have_gets_nothing() -> None:
    api = FakeApi()
    delivery(api).report(REPORT)
    assert delivery(api).differences(REPORT) == ()
    assert not api.names("machineconfigs")


def test_what_outdoes_it_is_told(api: FakeApi) -> None:
    made = delivery(api)
    made.report(REPORT)
    for name, spec in (
        ("00-worker", {"osImageURL": OTHER}),
        ("99-worker-ssh", {"config": {}}),
        ("99-zz", {"osImageURL": OTHER}),
    ):
        api.create(MACHINE_CONFIG, {"metadata": {"name": name}, "spec": spec})
    pool = api.one("machineconfigpools")
    pool["spec"]["configuration"] = {"source": [{"name": "00-worker"}, {"name": "99-worker-ssh"}]}
    (told,) = made.differences(REPORT)
    assert "does not take" in told
    assert "machineConfigSelector" in told
    pool["spec"]["configuration"]["source"].append({"name": NAME})
    assert made.differences(REPORT) == ()
    pool["spec"]["configuration"]["source"].append({"name": "99-zz"})
    assert made.differences(REPORT) == (
        f"MachineConfig 99-zz comes after {NAME}, and its osImageURL {OTHER} counts",
    )


def test_somebody_who_changes_it_meanwhile_loses_nothing(api: FakeApi) -> None:
    made = delivery(api)
    made.report(REPORT)
    turns: list[str] = []
    quiet = FakeApi(objects=api.objects, _numbers=api._numbers)

    def race(verb: str, *_: str) -> None:
        if verb == "patch" and len(turns) < 2:
            turns.append(verb)
            quiet.patch(MACHINE_CONFIG, NAME, {"metadata": {"annotations": {"example.com/theirs": "new"}}})

    api.before = race
    made.report(replace(REPORT, image=OTHER))
    assert written(api)["metadata"]["annotations"]["example.com/theirs"] == "new"
    assert written(api)["spec"] == {"osImageURL": OTHER}
    assert writes(api) == ["create", "patch", "patch", "patch"]


def test_one_that_is_taken_over_meanwhile_is_left_to_its_new_owner(api: FakeApi) -> None:
    made = delivery(api)
    made.report(REPORT)
    quiet = FakeApi(objects=api.objects, _numbers=api._numbers)

    def race(verb: str, *_: str) -> None:
        if verb == "patch":
            labels = {"reconciler.machineos.dev/output": None}
            quiet.patch(MACHINE_CONFIG, NAME, {"metadata": {"labels": labels}})

    api.before = race
    with pytest.raises(ClusterError, match="not ours"):
        made.report(replace(REPORT, image=OTHER))
    assert written(api)["spec"] == {"osImageURL": INDEX}


def test_one_that_appears_while_it_is_created_is_looked_at(api: FakeApi) -> None:
    quiet = FakeApi(objects=api.objects, _numbers=api._numbers)

    def race(verb: str, kind: str, name: str) -> None:
        if verb == "create" and kind == "machineconfigs":
            quiet.create(MACHINE_CONFIG, {"metadata": {"name": name}, "spec": {"osImageURL": OTHER}})

    api.before = race
    with pytest.raises(ClusterError, match="not ours"):
        delivery(api).report(REPORT)
    assert api.one("machineconfigs")["spec"] == {"osImageURL": OTHER}


def test_one_that_changes_all_the_time_is_left_for_the_next_pass(api: FakeApi) -> None:
    delivery(api).report(REPORT)

    def race(verb: str, *_: str) -> None:
        if verb == "patch":
            raise Conflict("changed")

    api.before = race
    with pytest.raises(Conflict):
        delivery(api).report(replace(REPORT, image=OTHER))
