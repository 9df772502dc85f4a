"""The `job` builder against a cluster in memory: what it creates, and what it takes for its own."""

from __future__ import annotations

import base64
import io
import tarfile
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from reconciler.adapters.builders.job import inputs
from reconciler.adapters.builders.job.names import CONTROLLER_CONFIG
from reconciler.core.machineconfig.stage import ContextFile, Stage
from reconciler.core.model import Arch
from reconciler.core.names import build_name
from reconciler.errors import ClusterError, ClusterUnavailable, RegistryUnavailable
from reconciler.ports import BuildRequest, Cause, Phase
from reconciler.ports.cluster import Kind
from tests.adapters.builders.job.support import (
    INPUT,
    JOB,
    NAME,
    OTHER,
    WORK,
    Cluster,
    foreign,
    only,
    request,
)


def noisy(size: int) -> bytes:
    """Bytes that do not shrink."""
    return b"".join(
        bytes([value * value % 251, value % 256, value * 7919 % 241]) for value in range(size // 3)
    )


def test_a_build_is_a_config_map_and_then_a_job(cluster: Cluster, asked: BuildRequest) -> None:
    work = cluster.work()
    cluster.builder().ensure(asked)
    created = [plural for verb, plural, _ in cluster.api.asked if verb == "create"]
    assert created[-2:] == ["configmaps", "jobs"]
    job, held = cluster.api.one("jobs"), cluster.api.one("configmaps")
    assert job["metadata"]["name"] == NAME
    assert job["metadata"]["annotations"].items() >= asked.annotations.items()
    assert [(o["uid"], o["controller"]) for o in job["metadata"]["ownerReferences"]] == [
        (work["metadata"]["uid"], True)
    ]
    assert held["metadata"]["labels"]["reconciler.machineos.dev/ephemeral"] == "true"
    assert [o["uid"] for o in held["metadata"]["ownerReferences"]] == [work["metadata"]["uid"]]
    volumes = {each["name"]: each for each in job["spec"]["template"]["spec"]["volumes"]}
    assert volumes["input"]["configMap"]["name"] == held["metadata"]["name"]
    packed = base64.b64decode(held["binaryData"]["context.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(packed)) as found:
        assert "context/etc/motd" in found.getnames()


def test_asking_twice_changes_nothing(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.work()
    cluster.builder().ensure(asked)
    before = str(cluster.api.objects)
    cluster.builder().ensure(asked)
    assert str(cluster.api.objects) == before


@pytest.mark.parametrize("point", ["configmaps", "jobs"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_whatever_is_lost_between_two_writes_is_made_up_for(
    cluster: Cluster, asked: BuildRequest, point: str, when: str
) -> None:
    """Killed before or after either write; another process then finds the rest to do."""

    class Killed(BaseException):
        pass

    def strike(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("create", point):
            raise Killed(name)

    cluster.work()
    setattr(cluster.api, when, strike)
    with pytest.raises(Killed):
        cluster.builder().ensure(asked)
    setattr(cluster.api, when, lambda *_: None)
    cluster.builder().ensure(asked)
    assert (len(cluster.api.names("jobs")), len(cluster.api.names("configmaps"))) == (1, 1)


def test_a_lost_answer_is_found_by_name(cluster: Cluster, asked: BuildRequest) -> None:
    def lose(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("create", "jobs"):
            raise ClusterUnavailable(f"no answer about {name}")

    cluster.api.after = lose
    cluster.builder().ensure(asked)
    assert cluster.api.names("jobs") == (NAME,)


def test_a_request_that_never_arrived_is_told(cluster: Cluster, asked: BuildRequest) -> None:
    def refuse(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("create", "jobs"):
            raise ClusterUnavailable(f"cannot reach it for {name}")

    cluster.api.before = refuse
    with pytest.raises(ClusterUnavailable):
        cluster.builder().ensure(asked)
    assert cluster.api.names("jobs") == ()


def test_a_job_owns_its_inputs_when_there_is_no_multiarchbuild(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    job = cluster.api.one("jobs")
    assert "ownerReferences" not in job["metadata"] or job["metadata"]["ownerReferences"] == []
    (owner,) = cluster.api.one("configmaps")["metadata"]["ownerReferences"]
    assert owner["uid"] == job["metadata"]["uid"]


def test_a_large_context_goes_to_the_registry(cluster: Cluster) -> None:
    asked = request(
        cluster.tree,
        {"blob": noisy(inputs.LIMIT + 3000)},
        containerfile="FROM r.example.com/base:1\n# large\n",
    )
    cluster.builder().ensure(asked)
    (reference,) = [ref for repo, ref in cluster.registry.manifests if ref.startswith("context-")]
    manifest = cluster.registry.manifests["r.example.com/os/worker", reference]
    (container,) = cluster.api.one("jobs")["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    assert env["JOB_ARTIFACT"] == f"r.example.com/os/worker@{manifest.digest}"
    held = cluster.api.one("configmaps")
    assert "binaryData" not in held
    assert set(held["data"]) == {"annotations", "bases", "build.sh", "job.sh"}
    layers = [content for content in cluster.registry.stored.values() if len(content) > inputs.LIMIT]
    with tarfile.open(fileobj=io.BytesIO(layers[0])) as outer:
        inner = outer.extractfile("context.tar.gz")
        assert inner is not None
        with tarfile.open(fileobj=io.BytesIO(inner.read())) as found:
            assert {"Containerfile", "ignore", "context/blob"} <= set(found.getnames())


@pytest.mark.parametrize("size", [1, inputs.LIMIT + 3000])
def test_what_configs_is_built_from_goes_where_the_context_goes(cluster: Cluster, size: int) -> None:
    stage = Stage("FROM x AS configs\n", (ContextFile(".machineconfig/files.tar", b"tar"),))
    asked = replace(request(cluster.tree, {"blob": noisy(size)}), configs=stage)
    cluster.builder().ensure(asked)
    (container,) = cluster.api.one("jobs")["spec"]["template"]["spec"]["containers"]
    env = {each["name"]: each["value"] for each in container["env"]}
    assert env["BUILD_CONFIGS"].endswith("/configs")
    held = cluster.api.one("configmaps").get("binaryData", {}).get("context.tar.gz")
    if held is None:
        layers = [content for content in cluster.registry.stored.values() if len(content) > inputs.LIMIT]
        with tarfile.open(fileobj=io.BytesIO(layers[0])) as outer:
            inner = outer.extractfile("context.tar.gz")
            assert inner is not None
            packed = inner.read()
    else:
        packed = base64.b64decode(held)
    with tarfile.open(fileobj=io.BytesIO(packed)) as found:
        files = {member.name for member in found if member.isfile()}
    assert {"configs/Containerfile", "configs/context/.machineconfig/files.tar", "context/blob"} <= files


def test_a_registry_that_fails_leaves_no_job(cluster: Cluster) -> None:
    cluster.registry.error = RegistryUnavailable("down")
    with pytest.raises(RegistryUnavailable):
        cluster.builder().ensure(request(cluster.tree, {"blob": noisy(inputs.LIMIT + 3000)}))
    assert cluster.api.names("jobs") == ()


def test_what_cannot_be_built_is_a_failed_build_of_the_definition(cluster: Cluster) -> None:
    asked = request(cluster.tree, {"out": ("120000", b"/etc/passwd")})
    builder = cluster.builder()
    builder.ensure(asked)
    (build,) = builder.builds()
    assert (build.name, build.phase, build.cause) == (asked.name, Phase.FAILED, Cause.DEFINITION)
    assert "symlinks lead out of the build context: out" in build.message
    assert dict(build.annotations) == asked.annotations
    assert builder.wait(0)
    assert cluster.api.names("jobs") == cluster.api.names("configmaps") == ()
    cluster.api.asked.clear()
    builder.ensure(asked)
    assert cluster.api.asked == []
    builder.discard([asked.name])
    assert builder.builds() == ()


def test_the_clusters_proxy_and_certificates_reach_the_pod(cluster: Cluster, asked: BuildRequest) -> None:
    kind = Kind(
        "machineconfiguration.openshift.io", "v1", "controllerconfigs", "ControllerConfig", namespaced=False
    )
    bundle = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
    spec = {
        "proxy": {"httpProxy": "", "httpsProxy": "http://p.example.com", "noProxy": ".svc"},
        "additionalTrustBundle": bundle,
    }
    cluster.api.create(kind, {"metadata": {"name": "cluster"}, "spec": spec})
    cluster.options = replace(
        cluster.options, proxies={"HTTPS_PROXY": "http://old", "HTTP_PROXY": "http://mine"}
    )
    cluster.builder().ensure(asked)
    pod = cluster.api.one("jobs")["spec"]["template"]["spec"]
    env = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    assert {name: value for name, value in env.items() if "PROXY" in name.upper()} == {
        "HTTP_PROXY": "http://mine",
        "HTTPS_PROXY": "http://p.example.com",
        "https_proxy": "http://p.example.com",
        "NO_PROXY": ".svc",
        "no_proxy": ".svc",
    }
    trust = next(each for each in pod["volumes"] if each["name"] == "trust")["configMap"]["name"]
    assert cluster.api.one("configmaps", trust)["data"] == {"ca-bundle.crt": "-----BEGIN CERTIFICATE-----\n"}
    cluster.succeed(NAME)
    cluster.builder().builds()
    assert cluster.api.names("configmaps") == ()


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (
            foreign(metadata={"name": NAME, "labels": {"app.kubernetes.io/managed-by": "Helm"}}),
            "managed-by is 'Helm'",
        ),
        (foreign(metadata={"name": NAME}), "managed-by is None"),
        (foreign(spec={"managedBy": "kueue.x-k8s.io/multikueue"}), "'kueue.x-k8s.io/multikueue' manages it"),
        (
            foreign(
                metadata=foreign()["metadata"] | {"annotations": {"reconciler.machineos.dev/input": OTHER}}
            ),
            f"it builds from {OTHER}, not from {INPUT}",
        ),
    ],
)
def test_somebody_elses_job_is_never_taken_for_ours(
    cluster: Cluster, asked: BuildRequest, job: dict[str, Any], said: str
) -> None:
    cluster.api.create(JOB, job, "builds")
    before = str(cluster.api.objects)
    with pytest.raises(ClusterError, match=f"builds/{NAME} is not ours: .*{said}") as refused:
        cluster.builder().ensure(asked)
    assert refused.value.hint
    assert str(cluster.api.objects) == before


def test_another_instances_job_is_not_ours(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    cluster.options = replace(cluster.options, instance="west")
    with pytest.raises(ClusterError, match="belongs to the instance 'default'"):
        cluster.builder().ensure(asked)
    assert cluster.builder().builds() == ()


def test_adopting_adds_an_owner_and_keeps_the_first(cluster: Cluster, asked: BuildRequest) -> None:
    first = cluster.work()
    cluster.builder().ensure(asked)
    second = cluster.work("worker-2222222222")
    cluster.builder().ensure(replace(asked, work="worker-2222222222"))
    owners = cluster.api.one("jobs")["metadata"]["ownerReferences"]
    assert [(o["uid"], o["controller"]) for o in owners] == [
        (first["metadata"]["uid"], True),
        (second["metadata"]["uid"], False),
    ]


def test_two_daemons_make_one_job(cluster: Cluster, asked: BuildRequest) -> None:
    """The other one is quicker, just before our own create."""
    cluster.work()
    other = cluster.builder()

    def race(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("create", "jobs"):
            cluster.api.before = lambda *_: None
            other.ensure(asked)
            assert name == NAME

    cluster.api.before = race
    cluster.builder().ensure(asked)
    assert (len(cluster.api.names("jobs")), len(cluster.api.names("configmaps"))) == (1, 1)


def test_a_job_that_is_being_deleted_is_left_to_a_later_call(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    cluster.api.one("jobs")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster.api.one("jobs")["metadata"]["annotations"]["reconciler.machineos.dev/input"] = OTHER
    cluster.builder().ensure(asked)
    assert cluster.builder().builds() == ()
    del cluster.api.objects["jobs", "builds", NAME]
    cluster.builder().ensure(asked)
    assert only(cluster).phase is Phase.PENDING


def test_a_pass_asks_only_for_what_it_cannot_know(cluster: Cluster) -> None:
    """Four images of one pool: each is a ConfigMap and a Job, and what they share is asked for once."""
    cluster.work()
    builder = cluster.builder()
    assert builder.builds() == ()
    cluster.api.asked.clear()
    for arch in Arch:
        builder.ensure(request(cluster.tree, arch=arch, work=WORK))
    verbs = Counter((verb, plural) for verb, plural, _ in cluster.api.asked)
    assert verbs == {
        ("get", "multiarchbuilds"): 1,
        ("get", "controllerconfigs"): 1,
        ("create", "configmaps"): 4,
        ("create", "jobs"): 4,
    }


def test_another_pass_asks_again(cluster: Cluster, asked: BuildRequest) -> None:
    """Whoever changes the proxy, or makes the MultiArchBuild anew, is heard by the next pass."""
    builder = cluster.builder()
    builder.ensure(asked)
    builder.builds()
    work = cluster.work()
    spec = {"proxy": {"httpProxy": "http://proxy.example.com:3128"}}
    cluster.api.create(CONTROLLER_CONFIG, {"metadata": {"name": "cluster"}, "spec": spec})
    builder.ensure(request(cluster.tree, digest=OTHER, work=WORK))
    job = cluster.api.one("jobs", build_name("worker", Arch.ARM64, OTHER, 1))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert {"name": "HTTP_PROXY", "value": "http://proxy.example.com:3128"} in container["env"]
    assert job["metadata"]["ownerReferences"][0]["uid"] == work["metadata"]["uid"]


def test_a_build_that_came_after_the_last_look_is_adopted(cluster: Cluster, asked: BuildRequest) -> None:
    """And what was sent for it in vain is cleared away with it."""
    builder = cluster.builder()
    builder.builds()
    cluster.builder().ensure(asked)
    cluster.succeed(NAME)
    cluster.builder().builds()
    assert cluster.api.names("configmaps") == ()
    builder.ensure(asked)
    (build,) = builder.builds()
    assert (build.name, build.phase) == (NAME, Phase.SUCCEEDED)
    assert cluster.api.names("configmaps") == ()
