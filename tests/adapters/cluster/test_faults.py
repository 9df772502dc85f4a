"""An API server that is slow, busy, gone or half there: every call ends, and nobody floods it."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable

import pytest

from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.cluster.kinds import CONFIG_MAPS, NODES
from reconciler.adapters.cluster.pace import BUDGET, Pace, Retry, retry_after
from reconciler.adapters.cluster.problems import Transient
from reconciler.errors import ClusterUnavailable
from reconciler.ports import Request
from tests.adapters.cluster.server import ApiServer
from tests.adapters.cluster.support import Sleeper, add_node, client
from tests.servers.faults import HALF_OPEN, RESET, SWALLOW, Answer, Cut, DropReply, End, Refuse
from tests.servers.proxy import FaultProxy

BODY = {"metadata": {"name": "one"}}
WRITES: list[Callable[[KubernetesApi], object]] = [
    lambda api: api.create(CONFIG_MAPS, BODY, "builds"),
    lambda api: api.patch(CONFIG_MAPS, "one", BODY, "builds"),
    lambda api: api.delete(CONFIG_MAPS, "one", "builds"),
]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_read_outlives_a_server_that_is_busy(server: ApiServer, proxy: FaultProxy, status: int) -> None:
    made = add_node(server, "n", "amd64")
    proxy.on(Answer(status), "GET", times=3)
    assert client(f"http://{proxy.host}").get(NODES, "n") == made


def test_a_read_that_keeps_failing_ends_and_says_so(server: ApiServer, proxy: FaultProxy) -> None:
    clock = Sleeper()
    proxy.on(Answer(500, body=b'{"message": "etcdserver: no leader"}'), times=None)
    with pytest.raises(ClusterUnavailable, match=r"500 Fault: etcdserver: no leader \(tried 4 times\)"):
        client(f"http://{proxy.host}", clock).get(NODES, "n")
    assert len(proxy.requests()) == 4
    assert len(clock.slept) == 3
    assert server.asked == []


@pytest.mark.parametrize("write", WRITES)
def test_a_write_is_sent_once(proxy: FaultProxy, write: Callable[[KubernetesApi], object]) -> None:
    proxy.on(Answer(503, headers={"Retry-After": "1"}), times=None)
    with pytest.raises(ClusterUnavailable, match="503"):
        write(client(f"http://{proxy.host}"))
    assert len(proxy.requests()) == 1


def test_a_created_object_whose_answer_is_lost_is_there_when_looked_for(proxy: FaultProxy) -> None:
    proxy.on(DropReply(), "POST")
    api = client(f"http://{proxy.host}")
    with pytest.raises(ClusterUnavailable, match="create configmaps"):
        api.create(CONFIG_MAPS, BODY, "builds")
    assert len(proxy.requests("POST")) == 1
    assert api.get(CONFIG_MAPS, "one", "builds") is not None
    assert api.create(CONFIG_MAPS, BODY, "builds") is None


@pytest.mark.parametrize("fault", [HALF_OPEN, SWALLOW])
def test_a_server_that_says_nothing_is_not_waited_for(link: FaultProxy, fault: Cut) -> None:
    link.fault = fault
    told: list[Request] = []
    with pytest.raises(ClusterUnavailable, match="does not answer in time"):
        client(f"http://{link.host}", told=told).get(NODES, "n")
    assert told == [Request("kubernetes", "get nodes", "unavailable")] * 4


@pytest.mark.parametrize(("fault", "said"), [(Refuse(), "refused"), (RESET, "reset")])
def test_a_server_that_is_gone_is_named_so(link: FaultProxy, fault: Refuse | Cut, said: str) -> None:
    link.fault = fault
    with pytest.raises(ClusterUnavailable, match=said):
        client(f"http://{link.host}").get(NODES, "n")


@pytest.mark.parametrize("how", [End.CLOSE, End.RESET])
def test_half_an_answer_is_none(server: ApiServer, proxy: FaultProxy, how: End) -> None:
    made = add_node(server, "n", "amd64")
    proxy.on(Cut(after=20, how=how), "GET", times=2)
    assert client(f"http://{proxy.host}").get(NODES, "n") == made
    assert len(proxy.requests()) == 3


@pytest.mark.parametrize("body", [b"<html>log in here</html>", b"[1]", b'{"a"', b"[" * 100_000])
def test_an_answer_of_somebody_else_is_none(proxy: FaultProxy, body: bytes) -> None:
    proxy.on(Answer(200, body=body), times=None)
    with pytest.raises(ClusterUnavailable, match="JSON"):
        client(f"http://{proxy.host}").get(NODES, "n")


def test_an_answer_that_drips_ends() -> None:
    """Each byte comes in time, and the whole never would."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            try:
                while True:
                    peer, _ = listening.accept()
                    with peer:
                        peer.recv(65536)
                        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                        while not stop.wait(0.05):
                            peer.sendall(b" ")
            except OSError:
                return

        threads = [threading.Thread(target=drip, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        with pytest.raises(ClusterUnavailable, match="did not finish its answer"):
            client(f"http://127.0.0.1:{listening.getsockname()[1]}").get(NODES, "n")
        stop.set()
        listening.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(10)


def test_a_name_that_nobody_knows_is_said() -> None:
    with pytest.raises(ClusterUnavailable, match="nobody knows"):
        client("http://api.invalid").get(NODES, "n")


def test_a_server_that_names_a_time_gets_it(proxy: FaultProxy) -> None:
    clock = Sleeper()
    proxy.on(Answer(429, headers={"Retry-After": "9"}), times=1)
    assert client(f"http://{proxy.host}", clock).get(NODES, "n") is None
    assert clock.slept == [9.0]


def test_a_server_that_wants_too_much_time_is_left_alone(proxy: FaultProxy) -> None:
    clock = Sleeper()
    proxy.on(Answer(429, headers={"Retry-After": "3600"}), times=None)
    with pytest.raises(ClusterUnavailable, match="tried once"):
        client(f"http://{proxy.host}", clock).get(NODES, "n")
    assert clock.slept == []


def test_waits_grow_are_spread_and_end() -> None:
    waits = []
    for seed in range(200):
        clock = Sleeper()
        with pytest.raises(Transient):
            Retry(clock, random.Random(seed)).run(_fail)  # noqa: S311  (a seed)
        waits.append(clock.slept)
    for number, bound in enumerate([0.5, 1.0, 2.0]):
        column = [slept[number] for slept in waits]
        assert all(0 <= wait <= bound for wait in column)
        assert max(column) > bound * 0.9
        assert min(column) < bound * 0.1


def _fail() -> None:
    raise Transient("no")


def test_slow_failures_use_up_the_time_as_well() -> None:
    clock = Sleeper()
    tries = 0

    def slow() -> None:
        nonlocal tries
        tries += 1
        clock.sleep(BUDGET * 0.6)
        _fail()

    with pytest.raises(Transient, match="tried 2 times"):
        Retry(clock, random.Random(1)).run(slow)  # noqa: S311  (a seed)
    assert tries == 2


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("Wed, 21 Oct 2015 07:28:10 GMT", 10.0),
        ("Wed, 21 Oct 2015 07:27:10 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-3", None),
        ("1e9", None),
    ],
)
def test_both_spellings_of_a_wait_are_read(value: str, seconds: float | None) -> None:
    assert retry_after(value, 1445412480.0) == seconds


def test_no_more_requests_go_out_than_are_allowed() -> None:
    now = [1000.0]
    turns = []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    pacing = Pace(sleep, rate=10.0, burst=5, monotonic=lambda: now[0])
    for _ in range(50):
        pacing.wait()
        turns.append(now[0] - 1000.0)
    assert turns[:6] == pytest.approx([0.0] * 6, abs=1e-6)
    assert turns[-1] == pytest.approx(4.4, abs=0.01)
    now[0] += 3600
    before = now[0]
    for _ in range(6):
        pacing.wait()
    assert now[0] == pytest.approx(before, abs=1e-6)
    pacing.wait()
    assert now[0] == pytest.approx(before + 0.1, abs=1e-6)


def test_many_threads_share_one_limit() -> None:
    slept: list[float] = []
    pacing = Pace(slept.append, rate=5.0, burst=1, monotonic=lambda: 50.0)
    threads = [threading.Thread(target=pacing.wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(slept) == pytest.approx([0.2 * n for n in range(1, 19)])
