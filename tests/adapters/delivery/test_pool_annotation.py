"""What is written onto a MachineConfigPool, and how: against an API server in memory. The upstream kind itself accepts
it in `tests/e2e/cluster`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.adapters.delivery.pool_annotation import IMAGE, POOL, SOURCE, STATE, PoolAnnotations
from reconciler.core.model import Arch
from reconciler.errors import Conflict
from reconciler.ports.cluster import ArchReport, BuildState, Delivery, PoolReport
from tests.adapters.builders.job.support import FakeApi

INDEX = "registry.example.com/os/worker@sha256:" + "a" * 64
REPORT = PoolReport(
    pool="worker",
    work="worker-0123456789",
    commit="c" * 40,
    plan="sha256:" + "b" * 64,
    architectures=(ArchReport(Arch.AMD64, BuildState.SUCCEEDED),),
    image=INDEX,
    source_commit="c" * 40,
    state=BuildState.SUCCEEDED,
)


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    about = {"name": "worker", "annotations": {"example.com/theirs": "kept"}}
    api.create(POOL, {"metadata": about, "spec": {"paused": False}})
    api.asked.clear()
    return api


def shown(api: FakeApi) -> dict[str, Any]:
    found = api.get(POOL, "worker")
    assert found
    return dict(found["metadata"]["annotations"])


def patches(api: FakeApi) -> int:
    return sum(verb == "patch" for verb, *_ in api.asked)


def test_the_image_its_commit_and_the_state_are_written_and_nothing_else_is_touched(api: FakeApi) -> None:
    PoolAnnotations(api).report(REPORT)
    assert shown(api) == {
        "example.com/theirs": "kept",
        IMAGE: INDEX,
        SOURCE: "c" * 40,
        STATE: "Succeeded",
    }


def test_what_is_right_is_not_written_again(api: FakeApi) -> None:
    PoolAnnotations(api).report(REPORT)
    PoolAnnotations(api).report(REPORT)
    assert patches(api) == 1


def test_before_the_first_image_there_is_a_state_alone(api: FakeApi) -> None:
    first = PoolReport("worker", "w", "c" * 40, "p", state=BuildState.BUILDING)
    PoolAnnotations(api).report(first)
    assert shown(api) == {"example.com/theirs": "kept", STATE: "Building"}


def test_a_pool_that_the_cluster_does_not_have_is_left_out() -> None:
    api = FakeApi(unknown={"machineconfigpools"})
    PoolAnnotations(api).report(REPORT)
    assert patches(api) == 0


def test_somebody_who_changes_the_pool_meanwhile_loses_nothing(api: FakeApi) -> None:
    turns: list[str] = []

    def race(verb: str, *_: str) -> None:
        if verb == "patch" and len(turns) < 2:
            turns.append(verb)
            FakeApi.patch(quiet, POOL, "worker", {"metadata": {"annotations": {"example.com/theirs": "new"}}})

    quiet = FakeApi(objects=api.objects, _numbers=api._numbers)
    api.before = race
    PoolAnnotations(api).report(REPORT)
    assert shown(api)["example.com/theirs"] == "new"
    assert shown(api)[IMAGE] == INDEX
    assert patches(api) == 3


def test_one_that_changes_all_the_time_is_left_for_the_next_pass(api: FakeApi) -> None:
    def race(verb: str, *_: str) -> None:
        if verb == "patch":
            raise Conflict("changed")

    api.before = race
    with pytest.raises(Conflict):
        PoolAnnotations(api).report(REPORT)
    assert patches(api) == 4
    PoolAnnotations(api).keep_only({"infra"})


def test_what_somebody_changes_is_told(api: FakeApi) -> None:
    shows: Delivery = PoolAnnotations(api)
    assert len(shows.differences(REPORT)) == 2
    shows.report(REPORT)
    assert shows.differences(REPORT) == ()
    other = INDEX.replace("a" * 64, "d" * 64)
    FakeApi.patch(api, POOL, "worker", {"metadata": {"annotations": {IMAGE: other, SOURCE: None}}})
    image, source = shows.differences(REPORT)
    assert image == f"MachineConfigPool worker has the annotation {IMAGE} {other}, not {INDEX}"
    assert source == f"MachineConfigPool worker has the annotation {SOURCE} missing, not {'c' * 40}"
    assert shown(api)[IMAGE] == other, "looking changes nothing"
    shows.report(REPORT)
    assert shows.differences(REPORT) == ()
    assert PoolAnnotations(FakeApi()).differences(REPORT) == ()


def test_an_image_that_is_not_believed_is_not_shown_and_the_last_one_stays(api: FakeApi) -> None:
    PoolAnnotations(api).report(REPORT)
    doubted = replace(
        REPORT, image=INDEX.replace("a" * 64, "d" * 64), believed=False, state=BuildState.BUILDING
    )
    PoolAnnotations(api).report(doubted)
    assert (shown(api)[IMAGE], shown(api)[STATE]) == (INDEX, "Building")
