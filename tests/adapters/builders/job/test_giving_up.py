"""The `job` builder against a cluster in memory: giving builds up, waiting for them, and refusing them."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread
from time import sleep

import pytest

from reconciler.core.model import Arch, Dialect, Needs
from reconciler.errors import ClusterUnavailable
from reconciler.ports import BuildRequest, Phase
from reconciler.settings import JobSettings
from tests.adapters.builders.job.support import DIGEST, NAME, Cluster, only, request

DISCARDED = "reconciler.machineos.dev/discarded"


def test_a_discarded_build_that_runs_is_deleted_with_its_inputs(
    cluster: Cluster, asked: BuildRequest
) -> None:
    cluster.work()
    builder = cluster.builder()
    builder.ensure(asked)
    builder.discard(["unknown"])
    assert cluster.api.names("jobs") == (NAME,)
    builder.discard([NAME, "unknown"])
    assert cluster.api.names("jobs") == cluster.api.names("configmaps") == ()


@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_a_discarded_build_that_ended_is_marked_and_may_be_wanted_again(
    cluster: Cluster, asked: BuildRequest, end: str
) -> None:
    cluster.work()
    builder = cluster.builder()
    builder.ensure(asked)
    getattr(cluster, end)(NAME)
    before = only(cluster)
    builder.discard([NAME])
    assert DISCARDED in cluster.api.one("jobs")["metadata"]["annotations"]
    assert builder.builds() == cluster.builder().builds() == ()
    builder.ensure(asked)
    assert DISCARDED not in cluster.api.one("jobs")["metadata"]["annotations"]
    assert only(cluster) == before


def test_a_success_that_nobody_looked_at_leaves_no_inputs(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.work()
    cluster.builder().ensure(asked)
    cluster.succeed(NAME)
    cluster.builder().discard([NAME])
    assert cluster.api.names("configmaps") == ()


def test_inputs_that_are_gone_are_not_deleted_again(cluster: Cluster, asked: BuildRequest) -> None:
    builder = cluster.builder()
    builder.ensure(asked)
    cluster.succeed(NAME)
    builder.builds()
    cluster.api.asked.clear()
    builder.discard([NAME])
    assert [verb for verb, *_ in cluster.api.asked if verb != "list"] == ["patch"]


def test_what_succeeded_at_the_last_look_is_put_away_without_another(
    cluster: Cluster, asked: BuildRequest
) -> None:
    """There may be thousands of others, and each list has them all."""
    builder = cluster.builder()
    builder.ensure(asked)
    cluster.succeed(NAME)
    builder.builds()
    cluster.api.asked.clear()
    builder.discard([NAME])
    assert [verb for verb, *_ in cluster.api.asked] == ["patch"]
    assert builder.builds() == ()


def test_another_job_that_has_taken_the_name_is_not_put_away(cluster: Cluster, asked: BuildRequest) -> None:
    """Its inputs may have the same names, too."""
    builder = cluster.builder()
    builder.ensure(asked)
    builder.ensure(replace(asked, name="build-that-runs"))
    cluster.succeed(NAME)
    assert builder.wait(0)  # looks, and clears nothing away
    job = cluster.api.one("jobs", NAME)
    job["metadata"]["uid"] = "another"
    inputs = cluster.api.names("configmaps")
    builder.discard([NAME])
    assert DISCARDED not in job["metadata"].get("annotations", {})
    assert cluster.api.names("configmaps") == inputs
    assert len(inputs) == 2


def test_many_are_cleared_some_at_a_time(cluster: Cluster) -> None:
    builder = cluster.builder()
    names = []
    for number in range(50):
        one = request(cluster.tree, pool=f"pool-{number}")
        builder.ensure(one)
        names.append(one.name)
        cluster.succeed(one.name)
    builder.builds()
    left = len(cluster.api.names("configmaps"))
    assert 0 < left < 50
    builder.builds()
    assert cluster.api.names("configmaps") == ()
    assert len(cluster.api.names("jobs")) == len(names)


def test_only_the_job_that_was_seen_is_deleted(cluster: Cluster, asked: BuildRequest) -> None:
    """Between the look and the deletion, somebody puts another in its place."""
    cluster.work()
    cluster.builder().ensure(asked)

    def replaced(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("delete", "jobs"):
            cluster.api.one(plural, name)["metadata"]["uid"] = "another"

    cluster.api.before = replaced
    cluster.builder().discard([NAME])
    assert cluster.api.names("jobs") == (NAME,)


def test_a_failure_without_its_job_is_forgotten_when_discarded(cluster: Cluster, asked: BuildRequest) -> None:
    work = cluster.work()
    cluster.builder().ensure(asked)
    cluster.fail(NAME)
    cluster.builder().builds()
    del cluster.api.objects["jobs", "builds", NAME]
    cluster.builder().discard([NAME])
    assert work["status"]["failures"] == []
    assert cluster.builder().builds() == ()


def test_waiting_ends_with_a_build_and_tells_of_each_once(cluster: Cluster, asked: BuildRequest) -> None:
    builder = cluster.builder()
    builder.ensure(asked)
    assert not builder.wait(0)
    cluster.succeed(NAME)
    assert builder.wait(10)
    assert not builder.wait(0.05)


def test_a_discarded_end_is_no_news(cluster: Cluster, asked: BuildRequest) -> None:
    builder = cluster.builder()
    builder.ensure(asked)
    cluster.succeed(NAME)
    builder.discard([NAME])
    assert not builder.wait(0.05)


def test_nobody_looks_at_the_cluster_more_often_than_asked(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.options = replace(cluster.options, poll=3600.0)
    builder = cluster.builder()
    builder.ensure(asked)
    cluster.api.asked.clear()
    for _ in range(20):
        assert not builder.wait(0)
    # Which Jobs have ended; and, as one has not, how it stands.
    assert [plural for _, plural, _ in cluster.api.asked] == ["jobs", "multiarchbuilds", "pods"]
    assert [build.name for build in builder.glance()] == [NAME]


def test_a_look_that_takes_long_is_not_soon_repeated(cluster: Cluster, asked: BuildRequest) -> None:
    builder = cluster.builder()
    builder.ensure(asked)
    cluster.api.before = lambda *_: sleep(0.4)
    assert not builder.wait(0)
    cluster.api.asked.clear()
    assert not builder.wait(10 * cluster.options.poll)
    assert cluster.api.asked == []


def test_a_wake_up_makes_it_look_at_once(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.options = replace(cluster.options, poll=3600.0)
    builder = cluster.builder()
    builder.ensure(asked)
    assert not builder.wait(0)
    told: list[bool] = []
    waiting = Thread(target=lambda: told.append(builder.wait(60)))
    waiting.start()
    cluster.succeed(NAME)
    builder.wake()
    waiting.join(30)
    assert told == [True]


def test_a_cluster_that_is_away_has_no_news(cluster: Cluster, asked: BuildRequest) -> None:
    builder = cluster.builder()
    builder.ensure(asked)

    def away(*_: str) -> None:
        raise ClusterUnavailable("away")

    cluster.api.before = away
    assert not builder.wait(0.05)
    cluster.api.before = lambda *_: None
    cluster.succeed(NAME)
    assert builder.wait(10)


def test_closing_ends_no_job(cluster: Cluster, asked: BuildRequest) -> None:
    builder = cluster.builder()
    builder.ensure(asked)
    builder.close()
    builder.close()
    assert only(cluster).phase is Phase.PENDING


NEW = Needs(dialect=(Dialect((1, 40), "pools/w/Containerfile", 3, "COPY --parents"),))


@pytest.mark.parametrize(
    ("arch", "image", "said"),
    [
        (Arch.ARM64, "quay.io/buildah/stable:v1.43.0", None),
        (Arch.S390X, "quay.io/buildah/stable:v1.43.0", "no node of s390x can take a build"),
        (
            Arch.ARM64,
            "quay.io/buildah/stable:v1.39.2",
            "pools/w/Containerfile:3: COPY --parents needs buildah 1.40, not quay.io/buildah/stable:v1.39.2",
        ),
        (
            Arch.ARM64,
            "quay.io/containers/buildah:v1.27.0@" + DIGEST,
            "is too old: buildah 1.28 is the oldest",
        ),
        (Arch.ARM64, "quay.io/buildah/stable:latest", None),
        (Arch.ARM64, "registry.redhat.io/rhel9/buildah:9.4-1", None),
        (Arch.ARM64, "r.example.com:5000/tools/builder:1.2", None),
    ],
)
def test_refusals(cluster: Cluster, arch: Arch, image: str, said: str | None) -> None:
    cluster.takes_jobs = frozenset({Arch.ARM64})
    cluster.options = replace(cluster.options, job=JobSettings(image=image))
    refusal = cluster.builder().refusal(arch, NEW)
    if said is None:
        assert refusal is None
    else:
        assert refusal is not None
        assert said in refusal.message
        assert refusal.hint
