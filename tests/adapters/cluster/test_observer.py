"""What a pass learns of a cluster, and when it is called."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from reconciler.adapters.cluster.nodes import Placement
from reconciler.adapters.cluster.observer import OPERATOR_NAMESPACE, RELEASE_IMAGES, ClusterObserver
from reconciler.core.model import Arch
from reconciler.errors import ClusterError, ClusterUnavailable
from reconciler.ports.cluster import Cluster, PoolNodes, ReleaseImages
from reconciler.settings import JobSettings, Toleration
from tests.adapters.cluster import server as fake
from tests.adapters.cluster.server import ApiServer
from tests.adapters.cluster.support import HASTY, Sleeper, add_node, add_pool, client, eventually
from tests.servers.faults import Before, Refuse
from tests.servers.proxy import FaultProxy

GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def observer(
    url: str, job: JobSettings | None = None, placement: Callable[[], Placement] | None = None
) -> ClusterObserver:
    job = job or JobSettings()
    return ClusterObserver(client(url), "builds", Sleeper(), job, HASTY, placement=placement)


@pytest.fixture
def calls() -> list[int]:
    return []


@pytest.fixture
def watching(server: ApiServer, calls: list[int]) -> Iterator[ClusterObserver]:
    """One that has begun to watch a cluster with one node and one pool."""
    add_pool(server, "worker")
    add_node(server, "a", "amd64")
    made = observer(server.url)
    made.start(lambda: calls.append(1))
    eventually(lambda: server.watching(fake.NODES) and server.watching(fake.POOLS), "watches")
    eventually(lambda: calls, "a first call")
    calls.clear()
    yield made
    made.close()


def test_it_is_what_a_pass_asks_for(server: ApiServer) -> None:
    made: Cluster = observer(server.url)
    assert made.observe().pools == {}


def test_the_images_of_a_release_are_those_of_the_operators_config_map(server: ApiServer) -> None:
    made = observer(server.url)
    assert made.release_images() == ReleaseImages()
    image = f"quay.io/os@sha256:{'1' * 64}"
    data = {"baseOSContainerImage": image, "baseOSExtensionsContainerImage": "no image"}
    place = f"GET /api/v1/namespaces/{OPERATOR_NAMESPACE}/configmaps/{RELEASE_IMAGES}"
    server.answer(place, 200, {"metadata": {"name": RELEASE_IMAGES}, "data": data})
    assert made.release_images() == made.images == ReleaseImages(image)


def test_the_architectures_of_a_pool_are_those_of_its_nodes(server: ApiServer) -> None:
    for name in ("master", "worker", "infra", "empty"):
        add_pool(server, name)
    infra = {"node-role.kubernetes.io/infra": ""}
    for name, arch in [("a", "s390x"), ("b", "amd64"), ("c", "arm64"), ("d", "arm64")]:
        add_node(server, name, arch)
    add_node(server, "i", "ppc64le", labels=infra)
    add_node(server, "m", "amd64", labels={"node-role.kubernetes.io/master": ""})
    found = observer(server.url).observe()
    assert found.pools == {
        "empty": PoolNodes(),
        "infra": PoolNodes((Arch.PPC64LE,)),
        "master": PoolNodes((Arch.AMD64,)),
        "worker": PoolNodes((Arch.AMD64, Arch.ARM64, Arch.S390X)),
    }
    assert found.takes_jobs == set(Arch)
    assert found.warnings == ()


def test_a_node_counts_though_no_build_may_run_there(server: ApiServer) -> None:
    add_pool(server, "worker")
    add_node(server, "a", "amd64", ready="False")
    add_node(server, "b", "arm64", unschedulable=True)
    add_node(server, "c", "s390x", taints=[GPU])
    found = observer(server.url).observe()
    assert found.pools["worker"].architectures == (Arch.AMD64, Arch.ARM64, Arch.S390X)
    assert found.takes_jobs == frozenset()


def test_what_jobs_tolerate_and_select_counts(server: ApiServer) -> None:
    add_node(server, "a", "amd64", taints=[GPU])
    add_node(server, "b", "arm64", labels={"disk": "fast"})
    tolerant = JobSettings(tolerations=(Toleration(key="gpu", operator="Exists"),))
    assert observer(server.url, tolerant).observe().takes_jobs == {Arch.AMD64, Arch.ARM64}
    picky = JobSettings(node_selector=(("disk", "fast"),))
    assert observer(server.url, picky).observe().takes_jobs == {Arch.ARM64}


def test_where_the_cluster_decides_it_is_asked_at_each_look(server: ApiServer) -> None:
    arch = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}
    add_node(server, "a", "amd64")
    add_node(server, "b", "arm64", taints=[arch])
    allowed = [Placement()]
    made = observer(server.url, placement=lambda: allowed[0])
    assert made.observe().takes_jobs == {Arch.AMD64}, "no toleration of its own"
    allowed[0] = Placement((Toleration(key="kubernetes.io/arch", operator="Exists"),))
    assert made.observe().takes_jobs == {Arch.AMD64, Arch.ARM64}


def test_a_change_counts_by_where_the_cluster_lets_builds_run(server: ApiServer, calls: list[int]) -> None:
    arch = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}
    add_node(server, "a", "amd64")
    made = observer(server.url, placement=Placement)
    made.start(lambda: calls.append(1))
    try:
        eventually(lambda: calls, "a call, as nobody has looked yet")
        made.observe()
        add_node(server, "b", "arm64", taints=[arch])
        add_node(server, "c", "s390x")
        eventually(lambda: Arch.S390X in made.takes_jobs(), "the change")
        assert made.takes_jobs() == {Arch.AMD64, Arch.S390X}
    finally:
        made.close()


def test_a_glance_is_what_was_observed_last(server: ApiServer) -> None:
    add_pool(server, "worker")
    made = observer(server.url)
    assert made.glance() is None
    found = made.observe()
    add_node(server, "a", "arm64")
    assert made.glance() == found
    assert made.observe() != found


def test_a_node_that_builds_need_not_be_in_a_pool(server: ApiServer) -> None:
    add_pool(server, "worker")
    add_node(server, "builder", "arm64", labels={"node-role.kubernetes.io/worker": "no"})
    found = observer(server.url).observe()
    assert found.pools["worker"] == PoolNodes()
    assert found.takes_jobs == {Arch.ARM64}


def test_what_is_odd_is_said_and_named(server: ApiServer) -> None:
    add_pool(server, "worker")
    add_pool(server, "gpu")
    add_pool(server, "infra")
    add_pool(server, "odd", selector={"matchExpressions": [{"key": "a", "operator": "Like"}]})
    for number in range(8):
        add_node(server, f"r{number}", "riscv64")
    add_node(server, "new", "")
    add_node(server, "liar", "amd64", labels={"kubernetes.io/arch": "arm64"})
    add_node(server, "both", "amd64", labels={f"node-role.kubernetes.io/{r}": "" for r in ("gpu", "infra")})
    found = observer(server.url).observe()
    assert found.warnings == (
        "the nodeSelector of MachineConfigPool odd has an expression with the unknown operator 'Like', "
        "so it takes no node",
        "nodes both are claimed by several MachineConfigPools (gpu, infra), and so in none",
        "nodes new are in a pool, and do not say yet of which architecture",
        "nodes r0, r1, r2, r3, r4 and 3 more are of the architecture 'riscv64', which is not known here",
        "nodes liar are labelled kubernetes.io/arch=arm64, but are amd64: no build is sent there",
    )
    assert found.pools["worker"].architectures == (Arch.AMD64,), "what the kubelet found decides"
    assert found.takes_jobs == {Arch.AMD64}, "by the node both"


def test_suspending_and_asking_are_seen(server: ApiServer) -> None:
    annotations = {"reconciler.machineos.dev/suspend": "true", "reconciler.machineos.dev/requestedAt": "now"}
    add_pool(server, "worker", annotations=annotations)
    assert observer(server.url).observe().pools["worker"] == PoolNodes((), True, "now")


def test_a_cluster_without_pools_has_its_roles() -> None:
    with ApiServer(fake.NODES, fake.CONFIG_MAPS).running() as server:
        add_node(server, "a", "arm64")
        add_node(server, "b", "amd64", labels={"node-role.kubernetes.io/gpu": ""})
        found = observer(server.url).observe()
        assert found.pools == {"gpu": PoolNodes((Arch.AMD64,)), "worker": PoolNodes((Arch.ARM64,))}
        observer(server.url).record(found)
        assert server.objects[fake.CONFIG_MAPS]["machine-os-architectures"]["data"] == {
            "gpu": "amd64",
            "worker": "arm64",
        }


def test_a_cluster_that_has_pools_but_no_such_pool_has_none(server: ApiServer) -> None:
    add_node(server, "a", "arm64")
    assert observer(server.url).observe().pools == {}


@pytest.mark.parametrize("place", [fake.NODES, fake.POOLS])
def test_what_must_not_be_seen_is_an_error_and_never_nothing(server: ApiServer, place: str) -> None:
    server.answer(f"GET {place}", 403, {"message": "forbidden"})
    with pytest.raises(ClusterError, match="forbidden"):
        observer(server.url).observe()


def test_a_cluster_that_is_gone_is_an_error_and_never_nothing(link: FaultProxy) -> None:
    link.fault = Refuse()
    with pytest.raises(ClusterUnavailable):
        observer(f"http://{link.host}").observe()


def test_a_list_that_was_forgotten_half_way_leaves_nobody_behind(
    server: ApiServer, proxy: FaultProxy
) -> None:
    add_node(server, "a", "s390x")
    for number in range(600):
        add_node(server, f"n{number:04}", "amd64")
    server.expire_pages = 1
    proxy.on(Before(lambda: server.remove(fake.NODES, "a")), path="continue=100")
    assert observer(f"http://{proxy.host}").observe().takes_jobs == {Arch.AMD64}
    server.expire_pages = 1000
    with pytest.raises(ClusterUnavailable, match="forgot"):
        observer(server.url).observe()


# -- watching


def test_a_watched_cluster_is_not_asked(server: ApiServer, watching: ClusterObserver) -> None:
    before = len(server.asked)
    assert watching.observe().pools == {"worker": PoolNodes((Arch.AMD64,))}
    assert len(server.asked) == before


def test_a_difference_calls(server: ApiServer, watching: ClusterObserver, calls: list[int]) -> None:
    watching.observe()
    add_node(server, "b", "arm64")
    eventually(lambda: len(calls) == 1, "a call for a new architecture")
    assert watching.observe().pools["worker"].architectures == (Arch.AMD64, Arch.ARM64)
    add_pool(server, "worker", annotations={"reconciler.machineos.dev/requestedAt": "1"})
    eventually(lambda: len(calls) == 2, "a call for a request")
    add_pool(server, "worker", annotations={"reconciler.machineos.dev/suspend": "true"})
    eventually(lambda: len(calls) == 3, "a call for suspending")
    server.remove(fake.NODES, "b")
    eventually(lambda: len(calls) == 4, "a call for an architecture that vanished")
    assert watching.observe().pools["worker"] == PoolNodes((Arch.AMD64,), True)


def test_what_makes_no_difference_does_not_call(
    server: ApiServer, watching: ClusterObserver, calls: list[int]
) -> None:
    watching.observe()
    add_node(server, "b", "amd64")
    add_pool(server, "worker", annotations={"reconciler.machineos.dev/architectures": "amd64"})
    server.remove(fake.NODES, "b")
    add_pool(server, "new")  # this does
    eventually(lambda: calls, "a call")
    eventually(lambda: set(watching.observe().pools) == {"worker", "new"}, "both pools")
    assert len(calls) == 1


def test_without_watches_that_work_it_looks_itself(server: ApiServer, watching: ClusterObserver) -> None:
    watching.close()
    add_node(server, "b", "arm64")
    fresh = observer(server.url)
    assert fresh.observe().pools["worker"].architectures == (Arch.AMD64, Arch.ARM64)
    fresh.close()


def test_a_thousand_nodes_are_not_kept_as_they_came(server: ApiServer) -> None:
    """Nodes name up to 50 images each, and more."""
    images = [
        {"names": [f"registry.example.com/some/repository@sha256:{n:064x}"], "sizeBytes": n}
        for n in range(50)
    ]
    add_pool(server, "worker")
    for number in range(1000):
        found = add_node(server, f"n{number:04}", ("amd64", "arm64")[number % 2])
        found["status"]["images"] = images
    made = observer(server.url)
    tracemalloc.start()
    try:
        made.start(lambda: None)
        eventually(lambda: server.watching(fake.NODES), "a watch")
        assert made.observe().pools["worker"].architectures == (Arch.AMD64, Arch.ARM64)
        kept = sum(
            stat.size
            for stat in tracemalloc.take_snapshot().statistics("filename")
            if "/reconciler/adapters/cluster/" in stat.traceback[0].filename
        )
    finally:
        tracemalloc.stop()
        made.close()
    assert kept < 2 << 20
