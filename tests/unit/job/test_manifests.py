"""The Job of a build and its ConfigMaps, as JSON: golden files for the whole, rules for the parts.

To write the golden files anew, run the module: `python -m tests.unit.job.test_manifests`. Then read what changed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.adapters.builders.job import JobOptions, inputs, manifests
from reconciler.adapters.builders.job.manifests import Sources
from reconciler.core.model import Arch
from reconciler.core.names import build_name
from reconciler.ports import BuildRequest
from reconciler.settings import JobSettings, Privilege, StorageDriver, Toleration

GOLDEN = Path(__file__).with_name("golden")
INPUT = "sha256:" + "1" * 64
REQUEST = BuildRequest(
    name="build-worker-arm64-1111111111-1",
    pool="worker",
    arch=Arch.ARM64,
    containerfile="FROM r.example.com/base:1\n",
    ignorefile="",
    context=(),
    bases=(),
    image="r.example.com/os/worker:worker-arm64-1111111111111111",
    annotations={"reconciler.machineos.dev/input": INPUT, "reconciler.machineos.dev/epoch": ""},
    work="worker-abc",
    push_secret="push",
)
OWNER = {
    "apiVersion": "reconciler.machineos.dev/v1alpha1",
    "kind": "MultiArchBuild",
    "name": "worker-abc",
    "uid": "u",
    "controller": True,
    "blockOwnerDeletion": False,
}
USUAL = JobOptions("builds")
ALL = JobOptions(
    "builds",
    "east",
    JobSettings(
        image="quay.io/buildah/stable:v1.43.0",
        service_account="builder",
        privilege=Privilege.USER_NAMESPACE,
        tolerations=(
            Toleration("dedicated", "Equal", "builds", "NoSchedule"),
            Toleration(operator="Exists", effect="NoExecute"),
        ),
        # What pins the pod cannot be configured away.
        node_selector=(("disk", "fast"), ("kubernetes.io/arch", "amd64"), ("kubernetes.io/os", "windows")),
        requests=(("cpu", "2"), ("memory", "4Gi")),
        limits=(("ephemeral-storage", "40Gi"), ("memory", "8Gi")),
        runtime_class="kata",
        priority_class="builds",
        attempts=3,
        ttl=3600.0,
        trust_bundle="our-cas",
    ),
    timeout=1800.5,
    storage_driver=StorageDriver.OVERLAY,
)
CASES: dict[str, tuple[BuildRequest, JobOptions, Sources]] = {
    "usual": (REQUEST, USUAL, Sources("build-worker-arm64-1111111111-1-abcdef01")),
    "all": (
        replace(REQUEST, pull_secret="pull"),
        ALL,
        Sources(
            "build-worker-arm64-1111111111-1-abcdef01",
            f"r.example.com/os/worker@{INPUT}",
            "",
            {"HTTPS_PROXY": "http://proxy.example.com:3128", "NO_PROXY": ".svc"},
        ),
    ),
    "root": (
        REQUEST,
        replace(USUAL, job=JobSettings(privilege=Privilege.ROOT)),
        Sources("build-worker-arm64-1111111111-1-abcdef01", trust="build-worker-arm64-1111111111-1-00000000"),
    ),
}


def rendered(case: str) -> str:
    request, options, sources = CASES[case]
    return json.dumps(manifests.job(request, options, sources, [OWNER]), indent=2) + "\n"


@pytest.mark.parametrize("case", CASES)
def test_a_job_is_as_it_was_read(case: str) -> None:
    assert rendered(case) == (GOLDEN / f"{case}.json").read_text()


def test_every_golden_file_is_a_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("privilege", Privilege)
def test_no_privilege_means_a_privileged_container(privilege: Privilege) -> None:
    options = replace(USUAL, job=JobSettings(privilege=privilege))
    pod = manifests.job(REQUEST, options, Sources("c"))["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"]["privileged"] is False
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert pod["automountServiceAccountToken"] is False
    assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    assert [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")] == ["work"]


def test_the_node_is_of_the_architecture_whatever_is_configured() -> None:
    pod = manifests.job(REQUEST, ALL, Sources("c"))["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {
        "disk": "fast",
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/os": "linux",
    }


@pytest.mark.parametrize(("attempts", "limit"), [(0, 0), (1, 0), (4, 3)])
def test_attempts_are_pods(attempts: int, limit: int) -> None:
    options = replace(USUAL, job=JobSettings(attempts=attempts))
    assert manifests.job(REQUEST, options, Sources("c"))["spec"]["backoffLimit"] == limit


def test_proxies_never_override_what_the_script_is_told() -> None:
    sources = Sources("c", proxies={"BUILD_IMAGE": "elsewhere", "JOB_WORK": "/"})
    job = manifests.job(REQUEST, USUAL, sources)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    told = {each["name"]: each["value"] for each in container["env"]}
    assert (told["BUILD_IMAGE"], told["JOB_WORK"]) == (REQUEST.image, "/build/work")


def every_name(value: Any) -> list[str]:
    """All names and label values in an object."""
    meta = value["metadata"]
    return [meta["name"], *meta["labels"].values()]


@given(
    pool=st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True).filter(
        lambda name: ".." not in name and ".-" not in name and "-." not in name
    ),
    instance=st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True),
    arch=st.sampled_from(Arch),
)
def test_names_and_labels_keep_kubernetes_limits(pool: str, instance: str, arch: Arch) -> None:
    name = build_name(pool, arch, INPUT, 1)
    request = replace(REQUEST, name=name, pool=pool, arch=arch)
    options = replace(USUAL, instance=instance)
    job = manifests.job(request, options, Sources("c"))
    assert len(job["metadata"]["name"]) <= 63
    assert all(len(value) <= 63 and value[-1].isalnum() for value in every_name(job))
    texts = inputs.texts(request, frozenset())
    config_map = inputs.config_map(request, {**texts.small, **texts.large}, instance, "builds", [])
    assert len(config_map["metadata"]["name"]) <= 253
    assert config_map["metadata"]["name"].startswith(f"{name}-")
    assert job["metadata"]["annotations"]["reconciler.machineos.dev/pool-name"] == pool


if __name__ == "__main__":
    for each in CASES:
        (GOLDEN / f"{each}.json").write_text(rendered(each))
