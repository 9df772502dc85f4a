"""The architectures of each pool, where jobs and people read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.adapters.cluster.observer import ClusterObserver
from reconciler.core.model import Arch
from reconciler.errors import ClusterError, ClusterUnavailable, Conflict
from reconciler.ports.cluster import Observation, PoolNodes
from tests.adapters.cluster import server as fake
from tests.adapters.cluster.server import ApiServer
from tests.adapters.cluster.support import HASTY, Sleeper, add_pool, client
from tests.servers.faults import Before, DropReply
from tests.servers.proxy import FaultProxy

KEY = "reconciler.machineos.dev/architectures"
MAPS = fake.CONFIG_MAPS
MAP = "machine-os-architectures"
BOTH = Observation({"worker": PoolNodes((Arch.ARM64, Arch.AMD64)), "infra": PoolNodes((Arch.S390X,))})


@pytest.fixture
def observer(proxy: FaultProxy) -> Iterator[ClusterObserver]:
    made = ClusterObserver(client(f"http://{proxy.host}"), "builds", Sleeper(), timing=HASTY)
    yield made
    made.close()


def annotation(server: ApiServer, pool: str) -> str | None:
    about = server.objects[fake.POOLS][pool]["metadata"]
    found: str | None = about.get("annotations", {}).get(KEY)
    return found


def data(server: ApiServer) -> dict[str, str]:
    found: dict[str, str] = server.objects[MAPS][MAP]["data"]
    return found


def writes(server: ApiServer) -> list[tuple[str, str]]:
    return [(a.method, a.path) for a in server.asked if a.method not in ("GET",)]


def test_both_places_say_the_same(server: ApiServer, observer: ClusterObserver) -> None:
    add_pool(server, "worker", annotations={"other": "stays"})
    add_pool(server, "infra")
    observer.record(BOTH)
    assert (annotation(server, "worker"), annotation(server, "infra")) == ("amd64,arm64", "s390x")
    assert server.objects[fake.POOLS]["worker"]["metadata"]["annotations"]["other"] == "stays"
    assert data(server) == {"worker": "amd64,arm64", "infra": "s390x"}
    assert server.objects[MAPS][MAP]["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "machine-os-reconciler",
        "reconciler.machineos.dev/output": "architectures",
    }


def test_what_is_there_already_is_not_written(server: ApiServer, observer: ClusterObserver) -> None:
    add_pool(server, "worker")
    add_pool(server, "infra")
    observer.record(BOTH)
    before = writes(server)
    observer.record(BOTH)
    assert writes(server) == before


def test_only_what_differs_is_written(server: ApiServer, observer: ClusterObserver) -> None:
    add_pool(server, "worker")
    add_pool(server, "infra")
    observer.record(BOTH)
    server.asked.clear()
    observer.record(Observation({**BOTH.pools, "worker": PoolNodes((Arch.AMD64,))}))
    assert writes(server) == [("PATCH", f"{fake.POOLS}/worker"), ("PATCH", f"{MAPS}/{MAP}")]
    assert server.requests("PATCH", f"{MAPS}/{MAP}")[0].body["data"] == {"worker": "amd64"}


def test_a_pool_that_is_gone_disappears(server: ApiServer, observer: ClusterObserver) -> None:
    add_pool(server, "worker")
    observer.record(BOTH)
    observer.record(Observation({"worker": PoolNodes()}))
    assert data(server) == {"worker": ""}
    assert annotation(server, "worker") == ""


def test_what_somebody_changed_is_put_right(server: ApiServer, observer: ClusterObserver) -> None:
    add_pool(server, "worker")
    add_pool(server, "infra")
    observer.record(BOTH)
    server.put(MAPS, MAP, metadata={"labels": {"theirs": "1"}}, data={"worker": "amd64,arm64", "infra": "x"})
    add_pool(server, "worker", annotations={KEY: "nonsense"})
    observer.record(BOTH)
    assert annotation(server, "worker") == "amd64,arm64"
    assert data(server) == {"worker": "amd64,arm64", "infra": "s390x"}
    assert server.objects[MAPS][MAP]["metadata"]["labels"].keys() >= {
        "theirs",
        "reconciler.machineos.dev/output",
    }


def test_a_pool_that_changes_meanwhile_is_looked_at_again(
    server: ApiServer, proxy: FaultProxy, observer: ClusterObserver
) -> None:
    add_pool(server, "worker")

    def interfere() -> None:
        add_pool(server, "worker", annotations={"theirs": "1"})

    proxy.on(Before(interfere), "PATCH", fake.POOLS, times=2)
    observer.record(Observation({"worker": PoolNodes((Arch.AMD64,))}))
    assert server.objects[fake.POOLS]["worker"]["metadata"]["annotations"] == {"theirs": "1", KEY: "amd64"}
    patches = server.requests("PATCH", f"{fake.POOLS}/worker")
    assert len(patches) == 3
    assert len({patch.body["metadata"]["resourceVersion"] for patch in patches}) == 3


def test_a_map_that_changes_or_appears_meanwhile_is_looked_at_again(
    server: ApiServer, proxy: FaultProxy, observer: ClusterObserver
) -> None:
    def interfere(**found: Any) -> None:
        server.put(MAPS, MAP, data={"theirs": "gone", **found})

    proxy.on(Before(interfere), "POST", MAPS)
    proxy.on(Before(interfere), "PATCH", MAPS)
    observer.record(BOTH)
    assert data(server) == {"worker": "amd64,arm64", "infra": "s390x"}


def test_somebody_who_is_always_faster_is_an_error(
    server: ApiServer, proxy: FaultProxy, observer: ClusterObserver
) -> None:
    proxy.on(Before(lambda: add_pool(server, "worker")), "PATCH", fake.POOLS, times=None)
    add_pool(server, "worker")
    with pytest.raises(Conflict):
        observer.record(BOTH)
    assert len(server.requests("PATCH", f"{fake.POOLS}/worker")) == 5


def test_a_pool_that_vanishes_meanwhile_is_no_error(
    server: ApiServer, proxy: FaultProxy, observer: ClusterObserver
) -> None:
    add_pool(server, "worker")
    proxy.on(Before(lambda: server.remove(fake.POOLS, "worker")), "PATCH", fake.POOLS)
    observer.record(BOTH)
    assert data(server)["worker"] == "amd64,arm64"


def test_a_write_whose_answer_was_lost_is_right_in_the_end(
    server: ApiServer, proxy: FaultProxy, observer: ClusterObserver
) -> None:
    proxy.on(DropReply(), "POST")
    with pytest.raises(ClusterUnavailable):
        observer.record(BOTH)
    observer.record(BOTH)
    assert data(server) == {"worker": "amd64,arm64", "infra": "s390x"}
    assert len(server.requests("POST", MAPS)) == 1


def test_what_may_not_be_written_says_which_verb_is_missing(
    server: ApiServer, observer: ClusterObserver
) -> None:
    add_pool(server, "worker")
    server.answer(
        f"PATCH {fake.POOLS}/worker", 403, {"message": 'cannot patch resource "machineconfigpools"'}
    )
    with pytest.raises(ClusterError, match=r"patch machineconfigpools: .*403.*cannot patch") as caught:
        observer.record(BOTH)
    assert "deploy/" in caught.value.hint
