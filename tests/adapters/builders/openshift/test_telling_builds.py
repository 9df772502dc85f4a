"""Builds as OpenShift's, against a cluster in memory: what is created, and what is said of it. What is the same for
Jobs is tested there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.core.model import Arch
from reconciler.errors import ClusterError, ClusterUnavailable
from reconciler.ports import BuildRequest, Cause, Phase
from reconciler.settings import JobSettings
from tests.adapters.builders.job.support import DIGEST, NAME, NAMESPACE, OTHER, foreign
from tests.adapters.builders.openshift.support import (
    BUILD,
    CONFIG_MAP,
    SECRET,
    OpenShift,
    only,
)


def test_a_build_is_a_config_map_and_then_a_build(cluster: OpenShift, asked: BuildRequest) -> None:
    work = cluster.work()
    cluster.builder().ensure(asked)
    created = [plural for verb, plural, _ in cluster.api.asked if verb == "create"]
    assert created[-2:] == ["configmaps", "builds"]
    build, held = cluster.api.one("builds"), cluster.api.one("configmaps")
    assert build["metadata"]["name"] == NAME
    assert [o["uid"] for o in build["metadata"]["ownerReferences"]] == [work["metadata"]["uid"]]
    (source,) = build["spec"]["source"]["configMaps"]
    assert source == {"configMap": {"name": held["metadata"]["name"]}}
    assert {"start.sh", "job.sh", "build.sh"} <= set(held["data"])


def test_a_build_owns_its_inputs_when_there_is_no_multiarchbuild(
    cluster: OpenShift, asked: BuildRequest
) -> None:
    cluster.builder().ensure(asked)
    (owner,) = cluster.api.one("configmaps")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Build", cluster.api.one("builds")["metadata"]["uid"])


@pytest.mark.parametrize("point", ["configmaps", "builds"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_whatever_is_lost_between_two_writes_is_made_up_for(
    cluster: OpenShift, asked: BuildRequest, point: str, when: str
) -> None:
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
    cluster.builder().ensure(asked)
    assert (len(cluster.api.names("builds")), len(cluster.api.names("configmaps"))) == (1, 1)


def test_a_lost_answer_is_found_by_name(cluster: OpenShift, asked: BuildRequest) -> None:
    def lose(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("create", "builds"):
            raise ClusterUnavailable(f"no answer about {name}")

    cluster.api.after = lose
    cluster.builder().ensure(asked)
    assert cluster.api.names("builds") == (NAME,)


def test_optional_inputs_are_mounted_when_they_are_there(cluster: OpenShift, asked: BuildRequest) -> None:
    cluster.hold(SECRET, "etc-pki-entitlement-worker")
    cluster.hold(CONFIG_MAP, "etc-yum-repos-d")
    cluster.options = replace(cluster.options, job=JobSettings(trust_bundle="not-there"))
    cluster.builder().ensure(asked)
    spec = cluster.api.one("builds")["spec"]
    mounts = {
        each["mountPath"]: each["secretSource"]["name"]
        for each in spec["strategy"]["customStrategy"]["secrets"]
    }
    assert mounts == {
        "/build/secrets/push": "push",
        "/build/extras/entitlement": "etc-pki-entitlement-worker",
    }
    named = [each["configMap"]["name"] for each in spec["source"]["configMaps"]]
    assert named[1:] == ["etc-yum-repos-d"]
    cluster.succeed(NAME)
    cluster.builder().builds()
    assert cluster.api.names("configmaps") == ("etc-yum-repos-d",)


def test_a_missing_secret_is_named_and_found_by_the_next_attempt(
    cluster: OpenShift, asked: BuildRequest
) -> None:
    asked = replace(asked, pull_secret="somewhere")
    builder = cluster.builder()
    builder.ensure(asked)
    (build,) = builder.builds()
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.MISSING)
    assert build.message == (
        "the Secret somewhere is missing in namespace builds (create it; it is looked for again every few minutes)"
    )
    assert cluster.api.names("builds") == cluster.api.names("configmaps") == ()
    cluster.hold(SECRET, "somewhere")
    builder.ensure(replace(asked, name=NAME.replace("-1", "-2")))
    assert len(cluster.api.names("builds")) == 1


def test_somebody_elses_build_is_never_taken_for_ours(cluster: OpenShift, asked: BuildRequest) -> None:
    about = foreign()["metadata"] | {"annotations": {"reconciler.machineos.dev/input": OTHER}}
    cluster.api.create(BUILD, foreign(metadata=about), NAMESPACE)
    with pytest.raises(
        ClusterError, match=f"the Build builds/{NAME} is not ours: it builds from {OTHER}, not"
    ):
        cluster.builder().ensure(asked)


def test_adopting_adds_an_owner(cluster: OpenShift, asked: BuildRequest) -> None:
    cluster.work()
    cluster.builder().ensure(asked)
    second = cluster.work("worker-2222222222")
    cluster.builder().ensure(replace(asked, work="worker-2222222222"))
    owners = cluster.api.one("builds")["metadata"]["ownerReferences"]
    assert (len(owners), owners[1]["uid"]) == (2, second["metadata"]["uid"])


STANDING: list[tuple[str, dict[str, Any], str | None, Phase, str]] = [
    ("New", {}, None, Phase.PENDING, "waiting for a pod"),
    (
        "New",
        {"reason": "GenericBuildFailed", "message": "These resources do not exist: ConfigMaps [x]"},
        None,
        Phase.PENDING,
        "GenericBuildFailed: These resources do not exist: ConfigMaps [x]",
    ),
    ("Pending", {}, "Pending", Phase.PENDING, "starting"),
    ("Pending", {}, "Running", Phase.RUNNING, "building"),
    ("Running", {}, "Running", Phase.RUNNING, "building"),
    ("Running", {}, "Succeeded", Phase.RUNNING, "ending"),
    ("Pending", {}, "Failed", Phase.RUNNING, "ending"),
]


@pytest.mark.parametrize(("phase", "status", "pod", "expected", "step"), STANDING)
def test_phases_of_a_build_that_has_not_ended(
    cluster: OpenShift,
    asked: BuildRequest,
    phase: str,
    status: dict[str, Any],
    pod: str | None,
    expected: Phase,
    step: str,
) -> None:
    cluster.builder().ensure(asked)
    assert only(cluster).phase is Phase.PENDING  # before its controller has seen it
    cluster.told(NAME, phase, **status)
    if pod:
        cluster.pod(NAME, pod)
    build = only(cluster)
    assert (build.phase, build.step, build.finished) == (expected, step, 0.0)
    assert build.log == f"oc -n builds logs build/{NAME}"


def test_success_tells_a_digest_and_clears_the_inputs(cluster: OpenShift, asked: BuildRequest) -> None:
    cluster.work()
    cluster.builder().ensure(asked)
    cluster.succeed(NAME, f"{DIGEST}\n")
    build = only(cluster)
    assert (build.phase, build.digest, build.cause) == (Phase.SUCCEEDED, DIGEST, None)
    assert (build.started, build.finished) == (1767225660.0, 1767226200.0)
    assert (build.name, build.pool, build.arch) == (NAME, "worker", Arch.ARM64)
    assert dict(build.annotations) == asked.annotations
    assert cluster.api.names("configmaps") == ()


def test_the_digest_is_only_a_hint(cluster: OpenShift, asked: BuildRequest) -> None:
    """Pods go when somebody clears them away, and their words are those of strangers."""
    cluster.builder().ensure(asked)
    cluster.succeed(NAME, "sha256:12")
    assert (only(cluster).phase, only(cluster).digest) == (Phase.SUCCEEDED, "")
    del cluster.api.objects["pods", "builds", f"{NAME}-build"]
    assert (only(cluster).phase, only(cluster).digest) == (Phase.SUCCEEDED, "")


def test_an_image_that_does_not_run_the_script_is_a_failure(cluster: OpenShift, asked: BuildRequest) -> None:
    work = cluster.work()
    cluster.builder().ensure(asked)
    cluster.succeed(NAME, "")
    build = only(cluster)
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE)
    assert build.message.startswith("quay.io/buildah/stable:v1.40 ended without building anything")
    assert [entry["job"] for entry in work["status"]["failures"]] == [NAME]


FAILURES: list[tuple[int, dict[str, Any], str, Cause, str]] = [
    (10, {}, "STEP 2/2: RUN false\nboom\n", Cause.DEFINITION, "STEP 2/2: RUN false failed\n"),
    (23, {}, "==> pushing x\n==> cannot push to x\n", Cause.INFRASTRUCTURE, "cannot push to x\n"),
    (137, {"reason": "OOMKilled"}, "STEP 2/2: RUN make\n", Cause.INFRASTRUCTURE, "out of memory"),
    (137, {}, "STEP 2/2: RUN make\n", Cause.INFRASTRUCTURE, "the build was killed (status 137)"),
]


@pytest.mark.parametrize(("code", "fields", "log", "cause", "said"), FAILURES)
def test_failures_mean_what_they_mean_for_a_job(
    cluster: OpenShift,
    asked: BuildRequest,
    code: int,
    fields: dict[str, Any],
    log: str,
    cause: Cause,
    said: str,
) -> None:
    cluster.builder().ensure(asked)
    cluster.ended(NAME, code, "", **fields)
    cluster.api.logs[f"{NAME}-build"] = log
    cluster.told(NAME, "Failed", reason="GenericBuildFailed")
    build = only(cluster)
    assert (build.phase, build.cause) == (Phase.FAILED, cause)
    assert build.message.startswith(said)
    assert log.splitlines()[0] in build.message
    assert ("log", "pods", f"{NAME}-build") in cluster.api.asked


WITHOUT_A_POD: list[tuple[str, dict[str, str], str]] = [
    (
        "Error",
        {"reason": "BuildPodDeleted", "message": "The pod was deleted."},
        "BuildPodDeleted: The pod was",
    ),
    ("Cancelled", {"reason": "CancelledBuild", "message": "By the user."}, "CancelledBuild: By the user."),
    (
        "Failed",
        {"reason": "GenericBuildFailed", "logSnippet": "STEP 1/2: x"},
        "GenericBuildFailed\nSTEP 1/2: x",
    ),
    ("Failed", {}, "the Build failed"),
]


@pytest.mark.parametrize(("phase", "status", "said"), WITHOUT_A_POD)
def test_without_a_pod_the_build_itself_tells(
    cluster: OpenShift, asked: BuildRequest, phase: str, status: dict[str, str], said: str
) -> None:
    cluster.builder().ensure(asked)
    cluster.told(NAME, phase, **status)
    build = only(cluster)
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE)
    assert build.message.startswith(said)


def test_a_failure_outlives_its_build(cluster: OpenShift, asked: BuildRequest) -> None:
    cluster.work()
    cluster.builder().ensure(asked)
    cluster.fail(NAME)
    before = only(cluster)
    del cluster.api.objects["builds", "builds", NAME]
    assert only(cluster) == replace(before, log="")
    assert before.cause is Cause.DEFINITION
