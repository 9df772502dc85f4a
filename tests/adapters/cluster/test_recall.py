"""What is remembered within a pass: never more than was looked at, and never against what was written."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.adapters.cluster.recall import Recall
from reconciler.adapters.delivery.pool_annotation import IMAGE, PoolAnnotations
from reconciler.errors import ClusterUnavailable, Conflict
from reconciler.ports.cluster import BuildState, Kind, PoolReport
from tests.adapters.builders.job.support import FakeApi

POOL = Kind(
    "machineconfiguration.openshift.io", "v1", "machineconfigpools", "MachineConfigPool", namespaced=False
)
WORK = Kind("reconciler.machineos.dev", "v1alpha1", "multiarchbuilds", "MultiArchBuild")
SECRET = Kind("", "v1", "secrets", "Secret")
NAMES = [f"pool-{number}" for number in range(12)]


@pytest.fixture
def api() -> FakeApi:
    made = FakeApi()
    for name in NAMES:
        made.create(POOL, {"metadata": {"name": name, "managedFields": [{"manager": "x"}]}})
        labels = {"pool": name, "all": "yes"}
        made.create(WORK, {"metadata": {"name": f"{name}-1", "labels": labels}, "spec": {}}, "builds")
    made.asked.clear()
    return made


def recall(api: FakeApi) -> Recall:
    """One that remembers, and has been asked for so many pools that it has listed them."""
    made = Recall(api, (POOL, WORK))
    made.begin()
    for name in NAMES:
        made.get(POOL, name)
    api.asked.clear()
    return made


def asked(api: FakeApi) -> list[str]:
    return [verb for verb, *_ in api.asked]


def report(pool: str, **fields: Any) -> PoolReport:
    image = f"registry.example.com/os/{pool}@sha256:{'1' * 64}"
    fields = {"image": image, "source_commit": "c" * 40, "state": BuildState.SUCCEEDED} | fields
    return PoolReport(pool, f"{pool}-1", "c" * 40, "sha256:1", **fields)


def test_many_pools_are_one_list_and_a_few_are_looked_at_alone(api: FakeApi) -> None:
    made = Recall(api, (POOL, WORK))
    made.begin()
    assert [made.get(POOL, name)["metadata"]["name"] for name in NAMES] == NAMES  # type: ignore[index]
    assert asked(api) == ["get"] * 4 + ["list"]
    assert made.get(POOL, "no-such") is None
    assert "managedFields" not in str(made.get(POOL, NAMES[0]))
    assert len(api.asked) == 5
    made.begin()
    made.get(POOL, NAMES[0])
    assert asked(api)[5:] == ["get"], "another pass looks anew"


def test_lists_are_answered_by_their_labels(api: FakeApi) -> None:
    made = Recall(api, (POOL, WORK))
    made.begin()
    for name in NAMES:
        found = [one["metadata"]["name"] for one in made.list(WORK, "builds", f"all=yes,pool={name}")]
        assert found == [f"{name}-1"]
    assert asked(api) == ["list"] * 5
    assert list(made.list(WORK, "builds", "all=no")) == []
    assert list(made.list(WORK, "elsewhere")) == []
    assert len(list(made.list(WORK, "builds"))) == len(NAMES)


def test_nothing_is_remembered_before_a_pass_or_of_other_kinds(api: FakeApi) -> None:
    made = Recall(api, (POOL,))
    for name in NAMES:
        made.get(POOL, name)
    made.begin()
    for name in NAMES:
        made.get(SECRET, name, "builds")
    assert asked(api) == ["get"] * 24


def test_what_was_written_is_what_is_seen(api: FakeApi) -> None:
    made = recall(api)
    made.patch(POOL, NAMES[0], {"metadata": {"annotations": {"a": "b"}}})
    made.create(POOL, {"metadata": {"name": "new"}})
    made.delete(POOL, NAMES[1])
    api.asked.clear()
    assert made.get(POOL, NAMES[0])["metadata"]["annotations"] == {"a": "b"}  # type: ignore[index]
    assert made.get(POOL, "new") is not None
    assert api.asked == []
    assert made.get(POOL, NAMES[1]) is None
    assert {one["metadata"]["name"] for one in made.list(POOL)} == {"new", *NAMES} - {NAMES[1]}


@pytest.mark.parametrize("arrived", [True, False])
def test_after_a_lost_answer_the_server_is_asked(api: FakeApi, arrived: bool) -> None:
    made = recall(api)

    def lose(*_: str) -> None:
        raise ClusterUnavailable("no answer")

    if arrived:
        api.after = lose
    else:
        api.before = lose
    with pytest.raises(ClusterUnavailable):
        made.create(POOL, {"metadata": {"name": "new"}})
    api.before = api.after = lambda *_: None
    assert (made.get(POOL, "new") is not None) is arrived
    assert len(list(made.list(POOL))) == len(NAMES) + arrived


def test_one_that_somebody_else_created_is_found(api: FakeApi) -> None:
    made = recall(api)
    api.create(POOL, {"metadata": {"name": "new"}, "spec": {"theirs": True}})
    assert made.create(POOL, {"metadata": {"name": "new"}}) is None
    assert made.get(POOL, "new")["spec"] == {"theirs": True}  # type: ignore[index]


def test_a_conflict_is_answered_by_the_server(api: FakeApi) -> None:
    made = recall(api)
    old = made.get(POOL, NAMES[0])
    assert old is not None
    api.patch(POOL, NAMES[0], {"metadata": {"annotations": {"theirs": "yes"}}})
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"], "annotations": {"a": "b"}}}
    with pytest.raises(Conflict):
        made.patch(POOL, NAMES[0], stale)
    assert made.get(POOL, NAMES[0])["metadata"]["annotations"] == {"theirs": "yes"}  # type: ignore[index]


def test_annotating_a_thousand_pools_is_a_list_and_a_write_each(api: FakeApi) -> None:
    made = Recall(api, (POOL, WORK))
    annotations = PoolAnnotations(made)
    made.begin()
    for name in NAMES:
        annotations.report(report(name))
    assert sorted(asked(api)) == ["get"] * 4 + ["list"] + ["patch"] * 12
    api.asked.clear()
    made.begin()
    for name in NAMES:
        annotations.report(report(name))
    assert asked(api) == ["get"] * 4 + ["list"], "another pass finds all as it should be"


def test_one_that_changed_since_the_list_is_annotated_all_the_same(api: FakeApi) -> None:
    made = recall(api)
    api.patch(POOL, NAMES[5], {"metadata": {"annotations": {"theirs": "yes"}}})
    PoolAnnotations(made).report(report(NAMES[5]))
    annotations = api.one("machineconfigpools", NAMES[5])["metadata"]["annotations"]
    assert annotations["theirs"] == "yes"
    assert annotations[IMAGE] == report(NAMES[5]).image
