"""The MachineConfig that rolls an image out: what it says, and which of several the operator takes."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.core import catalogue
from reconciler.core.delivery import machine_config, machine_config_name, manifest
from tests.fakes import snapshot

IMAGE = "registry.example.com/os/worker@sha256:" + "a" * 64
COMMIT = "c" * 40


def test_it_names_the_image_its_pool_and_its_commit() -> None:
    assert machine_config("infra", IMAGE, COMMIT, "east") == {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {
            "name": "99-infra-reconciler-osimageurl",
            "labels": {
                "app.kubernetes.io/managed-by": "machine-os-reconciler",
                "machineconfiguration.openshift.io/role": "infra",
                "reconciler.machineos.dev/instance": "east",
                "reconciler.machineos.dev/output": "machine-config",
                "reconciler.machineos.dev/pool": "infra",
            },
            "annotations": {"reconciler.machineos.dev/source-commit": COMMIT},
        },
        "spec": {"osImageURL": IMAGE},
    }


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True))
def test_a_custom_pools_own_comes_after_that_of_worker_which_it_takes_too(pool: str) -> None:
    if pool != "worker":
        assert sorted([machine_config_name(pool), machine_config_name("worker")])[-1] == (
            machine_config_name(pool)
        )


def test_the_file_is_the_same_document_and_no_definition() -> None:
    text = manifest("worker", IMAGE, COMMIT, "default")
    assert yaml.safe_load(text) == machine_config("worker", IMAGE, COMMIT, "default")
    assert text == manifest("worker", IMAGE, COMMIT, "default")
    assert max(map(len, text.splitlines())) > 80, "an image is on one line, however long"
    found = catalogue.read(snapshot({"anywhere/worker.yaml": text}))
    assert (found.pools, found.faults) == ((), ())


def test_a_commit_of_digits_stays_text() -> None:
    commit = "1" * 40
    found = yaml.safe_load(manifest("worker", IMAGE, commit, "default"))
    assert found["metadata"]["annotations"] == {"reconciler.machineos.dev/source-commit": commit}
