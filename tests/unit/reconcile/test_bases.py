"""Bases against registry contents in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.adapters.shfmt import ShfmtParser, installed
from reconciler.core.engine import Engine
from reconciler.core.inputs import digest_of
from reconciler.core.model import Arch, Base
from reconciler.core.plan import Target
from reconciler.errors import RegistryUnavailable
from reconciler.ports import OCI_INDEX, OCI_MANIFEST
from reconciler.reconcile.bases import Bases
from reconciler.reconcile.history import History
from tests.fakes import FakeObjects, FakeRegistry
from tests.unit.definitions import config, mosc

REPOSITORY = "quay.io/os/base"
TEXT = "FROM quay.io/os/base:1\nARG TARGETARCH\nARG FLAVOUR=a\nCOPY x-${FLAVOUR} /\nRUN true\n"


def target(text: str = TEXT) -> Target:
    objects = FakeObjects()
    head = objects.add(
        {
            "reconciler.yaml": config(),
            "p/os.yaml": mosc("w"),
            "p/Containerfile": text,
            "p/x-a": "x",
            "p/x-b": "x",
        }
    )
    history = History(objects)
    (pool,) = history.catalogue(head).pools
    return Target("w", Arch.ARM64, history.inputs(pool, Arch.ARM64, ""))


def push(registry: FakeRegistry, tag: str, arch: str, **runtime: Any) -> str:
    """Push a single image; returns its digest."""
    settings = json.dumps({"architecture": arch, "os": "linux", "config": runtime}).encode()
    blob = registry.add_blob(REPOSITORY, settings)
    manifest = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": {"digest": blob}, "layers": []}
    return registry.add(REPOSITORY, tag, OCI_MANIFEST, json.dumps(manifest).encode())


def push_index(registry: FakeRegistry, children: Mapping[str, str], note: str = "") -> None:
    """Push an index under tag 1."""
    manifests = [{"digest": d, "platform": {"architecture": a, "os": "linux"}} for a, d in children.items()]
    index = {
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": manifests,
        "annotations": {"note": note},
    }
    registry.add(REPOSITORY, "1", OCI_INDEX, json.dumps(index).encode())


def obstacle(registry: FakeRegistry, text: str = TEXT) -> str:
    (reason,) = Bases(registry).resolve(target(text)).obstacles
    return reason.message


def test_the_child_of_the_architecture_is_the_base() -> None:
    registry = FakeRegistry()
    digest = push(registry, "a", "arm64")
    push_index(registry, {"amd64": push(registry, "b", "amd64"), "arm64": digest})
    assert Bases(registry).resolve(target()).bases == (Base("quay.io/os/base:1", digest),)


def test_an_index_that_moved_with_an_unchanged_child_is_no_change() -> None:
    registry = FakeRegistry()
    arm = push(registry, "a", "arm64")
    push_index(registry, {"amd64": push(registry, "b", "amd64"), "arm64": arm})
    before = Bases(registry).resolve(target()).input
    push_index(registry, {"amd64": push(registry, "c", "amd64", Labels={"new": "1"}), "arm64": arm}, "moved")
    assert Bases(registry).resolve(target()).input == before


def test_a_base_that_lacks_the_architecture_says_what_it_has() -> None:
    registry = FakeRegistry()
    push_index(registry, {"amd64": push(registry, "b", "amd64"), "s390x": push(registry, "c", "s390x")})
    assert obstacle(registry) == "base quay.io/os/base:1 has no image for arm64 (it has amd64, s390x)"


def test_a_single_image_must_be_of_the_architecture() -> None:
    registry = FakeRegistry()
    push(registry, "1", "amd64")
    assert obstacle(registry) == "base quay.io/os/base:1 is an image for amd64, not arm64"


def test_a_base_that_is_not_there() -> None:
    assert obstacle(FakeRegistry()) == "base quay.io/os/base:1 does not exist"


def test_a_short_name_is_nobodys_image() -> None:
    assert "names no registry" in obstacle(FakeRegistry(), "FROM fedora:42\n")


def test_triggers_in_a_base_are_refused() -> None:
    registry = FakeRegistry()
    push(registry, "1", "arm64", OnBuild=["COPY . /"])
    assert "ONBUILD" in obstacle(registry)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (["FLAVOUR=b"], "sets FLAVOUR=b in its environment, which wins over ARG FLAVOUR"),
        (["TARGETARCH=amd64"], "sets TARGETARCH=amd64"),
        (["TARGETARCH=arm64"], None),
        (["PATH=/bin", "OTHER=1"], None),
    ],
)
def test_an_environment_that_wins_over_what_was_assumed(env: list[str], message: str | None) -> None:
    registry = FakeRegistry()
    push(registry, "1", "arm64", Env=env)
    if message is None:
        assert Bases(registry).resolve(target()).bases
    else:
        assert message in obstacle(registry)


def test_a_registry_that_does_not_answer_blocks_and_concludes_nothing() -> None:
    registry = FakeRegistry(error=RegistryUnavailable("quay.io does not answer"))
    resolved = Bases(registry).resolve(target())
    assert resolved.bases is None
    assert "cannot be resolved: quay.io does not answer" in resolved.obstacles[0].message


def test_a_base_is_asked_for_once() -> None:
    registry = FakeRegistry()
    push(registry, "1", "arm64")
    bases = Bases(registry)
    bases.resolve(target())
    asked = registry.requests
    bases.resolve(target())
    assert registry.requests == asked


def test_locked_bases_are_not_asked_for() -> None:
    known = (Base("quay.io/os/base:1", digest_of(b"old")),)
    assert Bases(FakeRegistry()).resolve(target(), known).bases == known


@pytest.mark.parametrize("env", ["SHELLOPTS=xtrace", "BASH_FUNC_uname%%=() { echo arm64; }"])
def test_an_environment_that_changes_the_shell_under_an_evaluated_text(env: str) -> None:
    objects = FakeObjects()
    text = 'FROM quay.io/os/base:1\nRUN if [ "$(uname -m)" = aarch64 ]; then a; else b; fi\n'
    head = objects.add({"reconciler.yaml": config(), "p/os.yaml": mosc("w"), "p/Containerfile": text})
    history = History(objects, engine=Engine(trees=ShfmtParser(installed()).tree))
    (pool,) = history.catalogue(head).pools
    wanted = Target("w", Arch.ARM64, history.inputs(pool, Arch.ARM64, ""))
    registry = FakeRegistry()
    push(registry, "1", "arm64", Env=[env])
    (reason,) = Bases(registry).resolve(wanted).obstacles
    assert reason.ingredient == "bases"
    assert env.split("=")[0] in reason.message
