"""The `job` builder against a cluster in memory: what it says of builds, and remembers of failures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.core.model import Arch
from reconciler.ports import BuildRequest, Cause, Phase
from reconciler.ports.cluster import Kind
from reconciler.settings import JobSettings
from tests.adapters.builders.job.support import DIGEST, JOB, NAME, NAMESPACE, OTHER, Cluster, foreign, only

WAITING: list[tuple[dict[str, Any], str]] = [
    (
        {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/4 nodes are available: 4 Insufficient cpu.",
                }
            ]
        },
        "waiting for a node: 0/4 nodes are available: 4 Insufficient cpu.",
    ),
    (
        {
            "containerStatuses": [
                {
                    "name": "build",
                    "state": {
                        "waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling\x1b[31m"}
                    },
                }
            ]
        },
        "ImagePullBackOff: Back-off pulling",
    ),
    (
        {"containerStatuses": [{"name": "build", "state": {"waiting": {"reason": "ContainerCreating"}}}]},
        "starting",
    ),
    ({"containerStatuses": None, "conditions": None}, "starting"),
]


@pytest.mark.parametrize(("status", "step"), WAITING)
def test_a_pod_that_waits_says_for_what(
    cluster: Cluster, asked: BuildRequest, status: dict[str, Any], step: str
) -> None:
    cluster.builder().ensure(asked)
    assert (only(cluster).phase, only(cluster).step) == (Phase.PENDING, "waiting for a pod")
    cluster.pod(NAME, "Pending", **status)
    assert (only(cluster).phase, only(cluster).step) == (Phase.PENDING, step)


def test_a_running_pod_builds(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    state = {"running": {"startedAt": "2026-01-01T00:01:00Z"}}
    cluster.pod(NAME, "Running", containerStatuses=[{"name": "build", "state": state}])
    build = only(cluster)
    assert (build.phase, build.step, build.started) == (Phase.RUNNING, "building", 1767225660.0)
    assert (build.name, build.pool, build.arch) == (NAME, "worker", Arch.ARM64)
    assert dict(build.annotations) == asked.annotations
    assert build.log == f"kubectl -n builds logs job/{NAME}"


def test_a_pod_that_is_done_is_a_build_about_to_end(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    cluster.pod(NAME, "Succeeded")
    build = only(cluster)
    assert (build.phase, build.step, build.ended) == (Phase.RUNNING, "ending", False)


def test_a_job_with_failed_pods_has_not_failed(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    cluster.ended(NAME, 22)
    cluster.api.one("jobs")["status"] = {"failed": 1, "conditions": [{"type": "Failed", "status": "False"}]}
    build = only(cluster)
    assert (build.phase, build.step) == (Phase.PENDING, "waiting for another attempt")


def test_success_tells_a_digest_and_clears_the_inputs(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.work()
    cluster.builder().ensure(asked)
    cluster.succeed(NAME, f"{DIGEST}\n")
    build = only(cluster)
    assert (build.phase, build.digest, build.cause) == (Phase.SUCCEEDED, DIGEST, None)
    assert (build.started, build.finished) == (1767225660.0, 1767226200.0)
    assert cluster.api.names("configmaps") == ()


def test_inputs_are_cleared_once(cluster: Cluster, asked: BuildRequest) -> None:
    builder = cluster.builder()
    builder.ensure(asked)
    cluster.succeed(NAME)
    for _ in range(3):
        builder.builds()
    assert [plural for verb, plural, _ in cluster.api.asked if verb == "delete"] == ["configmaps"]


def test_what_people_made_is_never_cleared(cluster: Cluster, asked: BuildRequest) -> None:
    kind = Kind("", "v1", "configmaps", "ConfigMap")
    for name in ("etc-yum-repos-d", "our-cas"):
        cluster.api.create(kind, {"metadata": {"name": name}}, "builds")
    cluster.options = replace(cluster.options, job=JobSettings(trust_bundle="our-cas"))
    cluster.builder().ensure(asked)
    cluster.succeed(NAME)
    cluster.builder().builds()
    assert cluster.api.names("configmaps") == ("etc-yum-repos-d", "our-cas")


@pytest.mark.parametrize("forged", ["", "sha256:12", f"{DIGEST} and more", "x" * 4096, f"{DIGEST}\n{DIGEST}"])
def test_only_a_digest_is_taken_for_one(cluster: Cluster, asked: BuildRequest, forged: str) -> None:
    cluster.builder().ensure(asked)
    cluster.succeed(NAME, forged)
    build = only(cluster)
    assert (build.phase, build.digest) == (Phase.SUCCEEDED, "")


def test_the_digest_is_that_of_the_pod_that_succeeded(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    cluster.ended(NAME, 22, OTHER.replace("2", "e"), name="pod-0")
    cluster.succeed(NAME)
    assert only(cluster).digest == DIGEST


def test_a_pod_that_failed_has_no_say_about_the_digest(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    cluster.succeed(NAME)
    cluster.ended(NAME, 22, OTHER.replace("2", "e"), name="pod-2")
    assert only(cluster).digest == DIGEST


def test_a_failed_definition_keeps_its_inputs_and_tells_the_log(
    cluster: Cluster, asked: BuildRequest
) -> None:
    cluster.work()
    cluster.builder().ensure(asked)
    cluster.fail(
        NAME, log="==> building x\nSTEP 1/2: FROM b\n\x1b[31mSTEP 2/2: RUN false\nboom\n==> the definition\n"
    )
    build = only(cluster)
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.DEFINITION)
    assert build.message == (
        "STEP 2/2: RUN false failed\n==> building x\nSTEP 1/2: FROM b\nSTEP 2/2: RUN false\nboom\n==> the definition"
    )
    assert len(cluster.api.names("configmaps")) == 1


FAILURES: list[tuple[int, dict[str, Any], str, str]] = [
    (23, {}, "==> pushing x\nError: denied\n==> cannot push to x\n", "cannot push to x\n"),
    (137, {"reason": "OOMKilled"}, "STEP 2/2: RUN make\n", "out of memory: the build was killed"),
    (137, {}, "STEP 2/2: RUN make\n", "the build was killed (status 137)"),
]


@pytest.mark.parametrize(("code", "fields", "log", "said"), FAILURES)
def test_other_failures_are_the_infrastructures(
    cluster: Cluster, asked: BuildRequest, code: int, fields: dict[str, Any], log: str, said: str
) -> None:
    cluster.builder().ensure(asked)
    cluster.ended(NAME, code, "", **fields)
    cluster.api.logs["pod-1"] = log
    cluster.condition(NAME, "Failed", reason="BackoffLimitExceeded")
    build = only(cluster)
    assert build.cause is Cause.INFRASTRUCTURE
    assert build.message.startswith(said)
    assert log.splitlines()[0] in build.message


@pytest.mark.parametrize("reason", ["PodFailurePolicy", "BackoffLimitExceeded"])
def test_a_missing_secret_is_something_that_is_missing(
    cluster: Cluster, asked: BuildRequest, reason: str
) -> None:
    cluster.work()
    cluster.builder().ensure(asked)
    cluster.ended(NAME, 24, "")
    cluster.api.logs["pod-1"] = "==> the Secret push is missing in namespace builds\n"
    cluster.condition(NAME, "Failed", reason=reason)
    build = only(cluster)
    assert build.cause is Cause.MISSING
    assert build.message == (
        "the Secret push is missing in namespace builds (create it; it is looked for again every few minutes)"
    )
    cluster.api.delete(JOB, NAME, NAMESPACE)
    assert only(cluster).cause is Cause.MISSING, "its MultiArchBuild remembers"


def test_without_its_pod_the_condition_tells(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.builder().ensure(asked)
    message = "Container build for pod builds/x failed with exit code 10 matching FailJob rule at index 1"
    cluster.condition(NAME, "Failed", reason="PodFailurePolicy", message=message)
    assert (only(cluster).cause, only(cluster).message) == (Cause.DEFINITION, "the Containerfile failed")


def test_a_deadline_tells_what_the_build_was_last_seen_doing(cluster: Cluster, asked: BuildRequest) -> None:
    builder = cluster.builder()
    builder.ensure(asked)
    cluster.pod(NAME, "Pending", **WAITING[0][0])
    builder.builds()
    del cluster.api.objects["pods", "builds", "pod-1"]
    cluster.condition(
        NAME, "Failed", reason="DeadlineExceeded", message="Job was active longer than specified"
    )
    (build,) = builder.builds()
    assert build.cause is Cause.INFRASTRUCTURE
    assert build.message == (
        "the build took longer than 7200 s, at: waiting for a node: 0/4 nodes are available: 4 Insufficient cpu."
    )


def test_the_termination_message_stands_in_for_a_log_that_is_gone(
    cluster: Cluster, asked: BuildRequest
) -> None:
    cluster.builder().ensure(asked)
    cluster.fail(NAME, log="STEP 2/2: RUN false\nboom\n")
    cluster.api.logs.clear()
    assert only(cluster).message == "STEP 2/2: RUN false failed\nSTEP 2/2: RUN false\nboom"


def test_jobs_of_others_and_broken_ones_are_no_builds(cluster: Cluster) -> None:
    cluster.api.create(JOB, foreign(), "builds")
    cluster.api.create(JOB, {"metadata": {"name": "a-job"}, "spec": {}}, "builds")
    assert cluster.builder().builds() == ()


def test_a_failure_outlives_its_job(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.work()
    cluster.builder().ensure(asked)
    cluster.fail(NAME)
    before = only(cluster)
    del cluster.api.objects["jobs", "builds", NAME]
    del cluster.api.objects["pods", "builds", "pod-1"]
    assert only(cluster) == replace(before, log="")


def test_a_failure_is_written_down_once(cluster: Cluster, asked: BuildRequest) -> None:
    work = cluster.work()
    builder = cluster.builder()
    builder.ensure(asked)
    cluster.fail(NAME)
    builder.builds()
    version = work["metadata"]["resourceVersion"]
    cluster.api.asked.clear()
    builder.builds()
    cluster.builder().builds()
    assert work["metadata"]["resourceVersion"] == version
    assert [entry["job"] for entry in work["status"]["failures"]] == [NAME]
    assert not [asked for asked in cluster.api.asked if asked[0] == "log"]


def test_a_conflict_only_delays_writing_it_down(cluster: Cluster, asked: BuildRequest) -> None:
    work = cluster.work()
    cluster.builder().ensure(asked)
    cluster.fail(NAME)

    def somebody(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("patch", "multiarchbuilds"):
            cluster.api.one(plural, name)["metadata"]["resourceVersion"] = "another"

    cluster.api.before = somebody
    builder = cluster.builder()
    assert [build.phase for build in builder.builds()] == [Phase.FAILED]
    assert "status" not in work
    cluster.api.before = lambda *_: None
    builder.builds()
    assert [entry["job"] for entry in work["status"]["failures"]] == [NAME]


def test_only_the_owner_remembers(cluster: Cluster, asked: BuildRequest) -> None:
    cluster.work()
    other = cluster.work("worker-2222222222")
    cluster.builder().ensure(asked)
    cluster.fail(NAME)
    cluster.builder().builds()
    assert "status" not in other


def test_a_job_that_was_made_anew_takes_the_place_of_its_namesake(
    cluster: Cluster, asked: BuildRequest
) -> None:
    work = cluster.work()
    cluster.builder().ensure(asked)
    cluster.fail(NAME)
    cluster.builder().builds()
    cluster.api.one("jobs")["metadata"]["uid"] = "another"
    cluster.pod(NAME, "Failed", "pod-3")
    build = only(cluster)
    assert build.cause is Cause.INFRASTRUCTURE
    assert [(entry["uid"], entry["cause"]) for entry in work["status"]["failures"]] == [
        ("another", "infrastructure")
    ]


def test_two_failures_of_one_work_are_both_written_down(cluster: Cluster, asked: BuildRequest) -> None:
    work = cluster.work()
    other = replace(asked, name=NAME.replace("arm64", "s390x"), arch=Arch.S390X)
    for each in (asked, other):
        cluster.builder().ensure(each)
        cluster.condition(each.name, "Failed", reason="BackoffLimitExceeded", message="no more")
    cluster.builder().builds()
    assert {entry["job"] for entry in work["status"]["failures"]} == {NAME, other.name}


def test_the_reporters_part_of_a_status_is_left_alone(cluster: Cluster, asked: BuildRequest) -> None:
    work = cluster.work()
    work["status"] = {"state": "Building", "architectures": [{"arch": "arm64", "phase": "Building"}]}
    cluster.builder().ensure(asked)
    cluster.fail(NAME)
    cluster.builder().builds()
    assert work["status"].keys() == {"state", "architectures", "failures"}


def test_nonsense_in_a_status_is_not_there(cluster: Cluster) -> None:
    work = cluster.work()
    work["status"] = {"failures": [{"job": "x", "arch": "vax", "cause": "definition"}, "text", None]}
    assert cluster.builder().builds() == ()
    work["status"] = {"failures": "text"}
    assert cluster.builder().builds() == ()
