"""A snapshot that keeps up, and what it does when it cannot."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kubernetes.client import Configuration

from reconciler.adapters.cluster import nodes
from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.cluster.connect import Connection
from reconciler.adapters.cluster.kinds import MACHINE_CONFIG_POOLS, NODES
from reconciler.adapters.cluster.login import Login
from reconciler.adapters.cluster.nodes import Node
from reconciler.adapters.cluster.watching import Timing, Watch
from reconciler.ports import Request
from reconciler.redaction import Redactor
from tests.adapters.cluster import server as fake
from tests.adapters.cluster.server import ApiServer
from tests.adapters.cluster.support import HASTY, Sleeper, add_node, client, eventually
from tests.servers.faults import HALF_OPEN, Answer, Cut, End, Refuse, Toward
from tests.servers.proxy import FaultProxy
from tests.servers.registry import self_signed

PLACE = fake.NODES
Begin = Callable[..., Watch[Node]]


@pytest.fixture
def changes() -> list[float]:
    return []


@pytest.fixture
def begin(changes: list[float]) -> Iterator[Begin]:
    """Starts watches of nodes, and ends them."""
    with ExitStack() as stack:

        def start(url: str, timing: Timing = HASTY, told: list[Request] | None = None) -> Watch[Node]:
            watch = Watch(
                client(url, told=told), NODES, nodes.read, lambda: changes.append(time.monotonic()), timing
            )
            watch.start()
            stack.callback(watch.close)
            return watch

        yield start


def archs(watch: Watch[Node]) -> dict[str, str] | None:
    """What it says, None when it says nothing."""
    found = watch.snapshot()
    return None if found is None else {name: node.architecture for name, node in found.items.items()}


def is_following(server: ApiServer) -> bool:
    return server.watching(PLACE) == 1


def test_it_knows_what_is_there_and_what_comes_changes_and_goes(
    server: ApiServer, begin: Begin, changes: list[float]
) -> None:
    add_node(server, "a", "amd64")
    watch = begin(server.url)
    eventually(lambda: archs(watch) == {"a": "amd64"}, "the list")
    eventually(lambda: is_following(server), "a watch")
    add_node(server, "b", "arm64")
    eventually(lambda: archs(watch) == {"a": "amd64", "b": "arm64"}, "a new node")
    add_node(server, "a", "s390x")
    eventually(lambda: archs(watch) == {"a": "s390x", "b": "arm64"}, "a changed node")
    server.remove(PLACE, "b")
    eventually(lambda: archs(watch) == {"a": "s390x"}, "a node that is gone")
    eventually(lambda: len(changes) == 4, "one call per change")
    (asked,) = server.requests("GET", PLACE, watch="true")
    assert asked.query["allowWatchBookmarks"] == "true"
    assert 400 < int(asked.query["timeoutSeconds"]) <= 500
    assert len(server.requests("GET", PLACE, limit="100")) == 1


def test_what_is_not_kept_is_no_change(server: ApiServer, begin: Begin, changes: list[float]) -> None:
    add_node(server, "a", "amd64")
    watch = begin(server.url)
    eventually(lambda: is_following(server), "a watch")
    server.put(PLACE, "a", **{**add_node(server, "a", "amd64"), "metadata": {"annotations": {"beat": "1"}}})
    server.put(PLACE, "a", metadata={"labels": {"x": "y"}}, status={"nodeInfo": {"architecture": "amd64"}})
    eventually(lambda: (watch.snapshot() or 0) and watch.snapshot().items["a"].labels == {"x": "y"}, "labels")  # type: ignore[union-attr]
    assert len(changes) <= 4


def test_nothing_is_said_before_the_first_list(server: ApiServer, begin: Begin) -> None:
    server.answers += [(f"GET {PLACE}", 403, {}, {})] * 1000
    watch = begin(server.url)
    eventually(lambda: len(server.asked) > 3, "some tries")
    assert watch.snapshot() is None


def test_a_watch_that_ends_in_time_is_taken_up_where_it_ended(
    server: ApiServer, begin: Begin, changes: list[float]
) -> None:
    add_node(server, "a", "amd64")
    watch = begin(server.url)
    eventually(lambda: is_following(server), "a watch")
    add_node(server, "b", "arm64")
    eventually(lambda: len(changes) == 2, "an event")
    version = server.version
    time.sleep(1.1)  # one that ends sooner counts as failed
    server.end_watches()
    eventually(lambda: len(server.requests("GET", PLACE, watch="true")) == 2, "a second watch")
    assert server.requests("GET", PLACE, watch="true")[1].query["resourceVersion"] == str(version)
    assert len(server.requests("GET", PLACE, limit="100")) == 1
    add_node(server, "c", "s390x")
    eventually(lambda: archs(watch) == {"a": "amd64", "b": "arm64", "c": "s390x"}, "an event of the second")


def test_a_bookmark_says_where_to_go_on(server: ApiServer, begin: Begin) -> None:
    watch = begin(server.url)
    eventually(lambda: is_following(server), "a watch")
    server.emit(PLACE, "BOOKMARK", {"metadata": {"resourceVersion": "5000"}})
    server.emit(PLACE, "BOOKMARK", {"metadata": {"resourceVersion": "4000"}})
    time.sleep(1.1)
    server.end_watches()
    eventually(lambda: len(server.requests("GET", PLACE, watch="true")) == 2, "a second watch")
    assert server.requests("GET", PLACE, watch="true")[1].query["resourceVersion"] == "5000"
    assert archs(watch) == {}


def test_what_the_server_forgot_is_listed_again(server: ApiServer, begin: Begin) -> None:
    """410 in the middle of a watch: what happened in between was seen by nobody."""
    add_node(server, "a", "amd64")
    add_node(server, "b", "amd64")
    watch = begin(server.url)
    eventually(lambda: is_following(server), "a watch")
    server.silent = True
    server.remove(PLACE, "a")
    add_node(server, "c", "arm64")
    server.silent = False
    server.emit(PLACE, "ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
    eventually(lambda: archs(watch) == {"b": "amd64", "c": "arm64"}, "a new list")


def test_a_watch_that_is_refused_for_its_age_is_listed_again(server: ApiServer, begin: Begin) -> None:
    server.forgotten = 10_000
    add_node(server, "a", "amd64")
    watch = begin(server.url)
    eventually(lambda: len(server.requests("GET", PLACE, limit="100")) >= 3, "lists")
    server.forgotten = 0
    add_node(server, "b", "arm64")
    eventually(lambda: archs(watch) == {"a": "amd64", "b": "arm64"}, "both")


def test_what_came_twice_or_late_changes_nothing(
    server: ApiServer, begin: Begin, changes: list[float]
) -> None:
    watch = begin(server.url)
    eventually(lambda: is_following(server), "a watch")
    old = add_node(server, "a", "amd64")
    new = add_node(server, "a", "arm64")
    gone = add_node(server, "b", "s390x")
    server.remove(PLACE, "b")
    for event in (old, new, old, gone, new):
        server.emit(PLACE, "MODIFIED", event)
    server.emit(PLACE, "DELETED", old)
    add_node(server, "c", "ppc64le")
    eventually(lambda: archs(watch) == {"a": "arm64", "c": "ppc64le"}, "the last event")
    # list, a, a, b and its end, c; some may have come together
    assert len(changes) <= 6


def test_an_event_from_before_the_list_brings_nobody_back(server: ApiServer, begin: Begin) -> None:
    gone = add_node(server, "a", "amd64")
    stale = {**gone, "metadata": {**gone["metadata"]}}
    server.remove(PLACE, "a")
    watch = begin(server.url)
    eventually(lambda: is_following(server), "a watch")
    server.emit(PLACE, "MODIFIED", stale)
    add_node(server, "b", "arm64")
    eventually(lambda: archs(watch) == {"b": "arm64"}, "only the other one")


def test_events_that_never_came_are_found_by_the_next_list(
    server: ApiServer, begin: Begin, changes: list[float]
) -> None:
    watch = begin(server.url, dataclasses.replace(HASTY, relist=(1.5, 1.5)))
    eventually(lambda: is_following(server), "a watch")
    server.silent = True
    add_node(server, "a", "amd64")
    before = len(changes)
    eventually(lambda: archs(watch) == {"a": "amd64"}, "a new list")
    eventually(lambda: len(changes) == before + 1, "a call")


def test_a_connection_that_died_without_a_word_is_noticed(
    server: ApiServer, link: FaultProxy, begin: Begin
) -> None:
    watch = begin(f"http://{link.host}", dataclasses.replace(HASTY, silence=0.5))
    eventually(lambda: is_following(server), "a watch")
    link.fault = Cut(toward=Toward.CLIENT, how=End.SILENCE)
    add_node(server, "a", "amd64")
    eventually(lambda: len(server.requests("GET", PLACE, limit="100")) > 1, "a list")
    assert archs(watch) == {}
    link.fault = None
    eventually(lambda: archs(watch) == {"a": "amd64"}, "another connection")


def test_signs_of_life_keep_a_quiet_watch(server: ApiServer, begin: Begin) -> None:
    begin(server.url, dataclasses.replace(HASTY, silence=1.0))
    eventually(lambda: is_following(server), "a watch")
    for number in range(12):
        server.emit(PLACE, "BOOKMARK", {"metadata": {"resourceVersion": str(9000 + number)}})
        time.sleep(0.15)
    assert len(server.requests("GET", PLACE, watch="true")) == 1


def test_signs_of_life_confirm_a_snapshot(server: ApiServer, begin: Begin) -> None:
    watch = begin(server.url, dataclasses.replace(HASTY, fresh=1.0))
    eventually(lambda: is_following(server), "a watch")
    eventually(lambda: archs(watch) is None, "no snapshot")
    server.emit(PLACE, "BOOKMARK", {"metadata": {"resourceVersion": "9000"}})
    eventually(lambda: archs(watch) == {}, "a snapshot again")
    assert len(server.requests("GET", PLACE, limit="100")) == 1


def test_a_snapshot_that_nobody_confirms_is_not_given(
    server: ApiServer, link: FaultProxy, begin: Begin
) -> None:
    add_node(server, "a", "amd64")
    watch = begin(f"http://{link.host}", dataclasses.replace(HASTY, silence=0.3, fresh=0.9))
    eventually(lambda: is_following(server), "a watch")
    link.fault = HALF_OPEN
    eventually(lambda: archs(watch) is None, "no snapshot")
    link.fault = None
    eventually(lambda: archs(watch) == {"a": "amd64"}, "a snapshot again")


@pytest.mark.parametrize("how", [End.CLOSE, End.RESET])
def test_an_event_that_breaks_off_is_listed(
    server: ApiServer, proxy: FaultProxy, begin: Begin, how: End
) -> None:
    proxy.on(Cut(after=100, how=how), "GET", "watch=true")
    watch = begin(f"http://{proxy.host}")
    eventually(lambda: is_following(server), "a watch")
    add_node(server, "a", "amd64")
    eventually(lambda: archs(watch) == {"a": "amd64"}, "a new list")
    assert len(server.requests("GET", PLACE, limit="100")) == 2


@pytest.mark.parametrize(
    "event",
    [
        ("UNHEARD", {"metadata": {"name": "x"}}),
        ("ADDED", {"metadata": {}}),
        ("ERROR", {"kind": "Status", "code": 500, "message": "broken"}),
        ("ADDED", []),
    ],
)
def test_an_event_that_nobody_understands_is_listed(
    server: ApiServer, begin: Begin, event: tuple[str, dict[str, object]]
) -> None:
    begin(server.url)
    eventually(lambda: is_following(server), "a watch")
    server.emit(PLACE, *event)
    eventually(lambda: len(server.requests("GET", PLACE, limit="100")) == 2, "a second list")
    eventually(lambda: is_following(server), "a watch again")


def test_whoever_is_told_may_fail(server: ApiServer) -> None:
    calls = []

    def fail() -> None:
        calls.append(1)
        raise RuntimeError("a defect")

    watch = Watch(client(server.url), NODES, nodes.read, fail, HASTY)
    watch.start()
    try:
        eventually(lambda: is_following(server), "a watch")
        add_node(server, "a", "amd64")
        eventually(lambda: len(calls) == 2, "a second call")
        eventually(lambda: archs(watch) == {"a": "amd64"}, "a snapshot")
    finally:
        watch.close()


@pytest.mark.parametrize("fault", ["refused", "forbidden", "ends at once", "always too old"])
def test_no_fault_makes_it_ask_without_end(
    server: ApiServer, link: FaultProxy, begin: Begin, fault: str
) -> None:
    told: list[Request] = []
    if fault == "refused":
        link.fault = Refuse()
    elif fault == "forbidden":
        server.answers += [(f"GET {PLACE}", 403, {}, {})] * 10_000
    elif fault == "ends at once":
        server.answers += [(f"GET {PLACE}", 200, {"metadata": {"resourceVersion": "5"}}, {})] * 10_000
    else:
        server.forgotten = 10**9
    begin(f"http://{link.host}", dataclasses.replace(HASTY, first=0.5, last=2.0), told)
    started = time.monotonic()
    eventually(lambda: len(told) >= 5, "some tries")
    time.sleep(1)
    # A read is four tries, and then comes a wait of 0.25 s at least.
    assert len(told) / (time.monotonic() - started) < 20


def test_a_kind_that_comes_later_is_found(begin: Begin) -> None:
    del begin
    with ApiServer(fake.NODES).running() as server:
        timing = dataclasses.replace(HASTY, fresh=0.6)
        called = threading.Event()
        watch = Watch(client(server.url), MACHINE_CONFIG_POOLS, str, called.set, timing)
        watch.start()
        try:
            assert called.wait(30)
            found = watch.snapshot()
            assert found is not None
            assert not found.known
            called.clear()
            server.objects[fake.POOLS] = {}
            server.put(fake.POOLS, "worker")
            assert called.wait(30)
            eventually(
                lambda: (s := watch.snapshot()) and s.known and list(s.items) == ["worker"], "the pool"
            )
        finally:
            watch.close()


def test_it_ends_at_once_while_it_watches(server: ApiServer, begin: Begin) -> None:
    watch = begin(server.url)
    eventually(lambda: is_following(server), "a watch")
    watch.close()
    assert not [t for t in threading.enumerate() if t.name == "watch-nodes"]
    watch.close()


def test_it_ends_while_it_waits_for_another_try(link: FaultProxy, begin: Begin) -> None:
    link.fault = Refuse()
    watch = begin(f"http://{link.host}", dataclasses.replace(HASTY, first=900.0, last=900.0))
    time.sleep(0.5)
    watch.close()
    assert not [t for t in threading.enumerate() if t.name == "watch-nodes"]


def test_it_ends_at_once_over_tls(server: ApiServer, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    with FaultProxy(server.host, tls=certificate) as secure:

        def log_in() -> Login:
            url = f"https://127.0.0.1:{secure.port}"
            return Login(Configuration(host=url, ssl_ca_cert=str(certificate.cert)))

        api = KubernetesApi(Connection(log_in, Redactor()), Sleeper(), Redactor())
        watch = Watch(api, NODES, nodes.read, lambda: None, HASTY)
        watch.start()
        eventually(lambda: is_following(server), "a watch")
        watch.close()
        assert not [t for t in threading.enumerate() if t.name == "watch-nodes"]


def test_a_server_that_hangs_holds_nobody_who_closes(
    server: ApiServer, proxy: FaultProxy, begin: Begin
) -> None:
    proxy.on(Answer(200, body=b'{"metadata": {"resourceVersion": "1"}, "items": []}'), path="limit")
    proxy.on(Cut(toward=Toward.CLIENT, how=End.SILENCE), path="watch", times=None)
    watch = begin(f"http://{proxy.host}", dataclasses.replace(HASTY, silence=20.0))
    eventually(lambda: proxy.requests(path="watch"), "a watch that hangs")
    del server
    watch.close()
