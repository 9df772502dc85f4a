"""The Build of an image as JSON: golden files for the whole, rules for the parts, and what it shares with a Job.

To write the golden files anew, run the module: `python -m tests.unit.openshift_build.test_manifests`. Then read what
changed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.adapters.builders.job import manifests as jobs
from reconciler.adapters.builders.job.manifests import Sources
from reconciler.adapters.builders.openshift import inapplicable, manifests
from reconciler.settings import JobSettings, Privilege, Toleration
from tests.unit.job.test_manifests import ALL, OWNER, REQUEST, USUAL
from tests.unit.job.test_manifests import CASES as JOB_CASES

GOLDEN = Path(__file__).with_name("golden")
EVERYTHING = frozenset({"etc-pki-entitlement-worker", "etc-pki-rpm-gpg", "etc-yum-repos-d", "our-cas"})
PRESENT = {"all": EVERYTHING}


def made(case: str) -> Any:
    request, options, sources = JOB_CASES[case]
    return manifests.build(request, options, sources, [OWNER], PRESENT.get(case, frozenset()))


def rendered(case: str) -> str:
    return json.dumps(made(case), indent=2) + "\n"


def env(build: Any) -> dict[str, str]:
    return {each["name"]: each["value"] for each in build["spec"]["strategy"]["customStrategy"]["env"]}


@pytest.mark.parametrize("case", JOB_CASES)
def test_a_build_is_as_it_was_read(case: str) -> None:
    assert rendered(case) == (GOLDEN / f"{case}.json").read_text()


def test_every_golden_file_is_a_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(JOB_CASES)


@pytest.mark.parametrize("case", JOB_CASES)
def test_a_job_of_the_same_request_says_the_same(case: str) -> None:
    """Names, labels, annotations, node, image and time are equal; so are the script's variables, but for where things
    lie."""
    request, options, sources = JOB_CASES[case]
    build, job = made(case), jobs.job(request, options, sources, [OWNER])
    assert build["metadata"] == job["metadata"]
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert build["spec"]["nodeSelector"] == pod["nodeSelector"]
    assert build["spec"]["strategy"]["customStrategy"]["from"]["name"] == container["image"]
    assert build["spec"]["completionDeadlineSeconds"] == job["spec"]["activeDeadlineSeconds"]
    assert build["spec"]["resources"] == container["resources"]
    assert build["spec"].get("serviceAccount") == pod.get("serviceAccountName")
    told = {each["name"]: each["value"] for each in container["env"]}
    other = {name for name, value in env(build).items() if told.get(name) != value}
    places = {"JOB_INPUT", "JOB_WORK", "JOB_TRUST"} | {name for name in told if "/build/work" in told[name]}
    assert other - places == {"BASH_ENV", "BUILD_PRIVILEGED"} | ({"JOB_REPOSITORIES"} & other)
    assert told.keys() - env(build).keys() == set()


@pytest.mark.parametrize(
    ("privilege", "told"),
    [(Privilege.ROOTLESS, "false"), (Privilege.USER_NAMESPACE, "false"), (Privilege.ROOT, "true")],
)
def test_only_root_is_privileged(privilege: Privilege, told: str) -> None:
    options = replace(USUAL, job=JobSettings(privilege=privilege))
    assert env(manifests.build(REQUEST, options, Sources("c")))["BUILD_PRIVILEGED"] == told


def test_openshift_pushes_nothing_itself() -> None:
    spec = made("all")["spec"]
    assert "output" not in spec
    assert "pullSecret" not in spec["strategy"]["customStrategy"]


def test_what_is_not_there_is_not_mounted() -> None:
    """A Build waits forever for what it names."""
    request, options, sources = JOB_CASES["all"]
    spec = manifests.build(request, options, sources)["spec"]
    assert spec["source"]["configMaps"] == [{"configMap": {"name": sources.config_map}}]
    mounted = [each["secretSource"]["name"] for each in spec["strategy"]["customStrategy"]["secrets"]]
    assert mounted == ["push", "pull"]
    told = env({"spec": spec})
    assert (told["JOB_REPOSITORIES"], told["JOB_TRUST"]) == ("", "/build/trust")


def test_one_secret_may_be_for_both() -> None:
    spec = manifests.build(replace(REQUEST, pull_secret="push"), USUAL, Sources("c"))["spec"]
    mounts = spec["strategy"]["customStrategy"]["secrets"]
    assert [(each["secretSource"]["name"], each["mountPath"]) for each in mounts] == [
        ("push", "/build/secrets/push"),
        ("push", "/build/secrets/pull"),
    ]


def test_proxies_never_override_what_the_script_is_told() -> None:
    forged = {"BUILD_IMAGE": "elsewhere", "BASH_ENV": "/forged", "BUILD_PRIVILEGED": "true"}
    told = env(manifests.build(REQUEST, USUAL, Sources("c", proxies=forged)))
    assert (told["BUILD_IMAGE"], told["BUILD_PRIVILEGED"]) == (REQUEST.image, "false")
    assert told["BASH_ENV"] == "/var/run/configs/openshift.io/build/c/start.sh"


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        (JobSettings(), ()),
        (JobSettings(attempts=1), ()),
        (JobSettings(attempts=3), ("attempts",)),
        (JobSettings(tolerations=(Toleration("a"),)), ("tolerations",)),
        (ALL.job, ("tolerations", "runtimeClass", "priorityClass", "attempts")),
    ],
)
def test_settings_that_a_build_has_no_place_for(settings: JobSettings, keys: tuple[str, ...]) -> None:
    assert inapplicable(settings) == keys


if __name__ == "__main__":
    for each in JOB_CASES:
        (GOLDEN / f"{each}.json").write_text(rendered(each))
