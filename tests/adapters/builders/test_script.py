"""The contract between `build.sh` and what Python says about it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.adapters.builders import script
from reconciler.adapters.builders.script import Exit, UnusableRequest
from reconciler.core.machineconfig.stage import ContextFile, Stage
from reconciler.core.model import Arch, Base
from reconciler.ports import BuildRequest, Cause

DIGEST = "sha256:" + "1" * 64
OTHER = "sha256:" + "2" * 64
REQUEST = BuildRequest(
    "n", "p", Arch.ARM64, "FROM x\r\n", "*\n", (), (), "r/i:t", {"b": "2", "a": " x=1, y "}
)
CONFIGS = Stage("FROM x AS configs\n", (ContextFile(".machineconfig/files.tar", b"tar"),))


def header() -> str:
    return script.PATH.read_text().split("set -eu", 1)[0]


def test_the_header_tells_every_variable_and_status() -> None:
    request = replace(REQUEST, configs=CONFIGS)
    values = script.environment(request, Path("/f"), driver="vfs", isolation="chroot", auth="")
    assert set(re.findall(r"^#   (BUILD_\w+) ", header(), re.M)) == set(values)
    assert {int(code) for code in re.findall(r"^#   (\d+) ", header(), re.M)} == set(Exit)
    assert set(re.findall(r"\$\{?(BUILD_\w+)", script.PATH.read_text())) == set(values)
    assert set(map(int, re.findall(r"fail (\d+) ", script.PATH.read_text()))) == set(Exit) - {Exit.PUSHED}


def test_what_configs_is_built_from_lies_apart_from_the_context() -> None:
    assert script.configs_files(REQUEST) == {}
    assert "BUILD_CONFIGS" not in script.environment(
        REQUEST, Path("/f"), driver="vfs", isolation="chroot", auth=""
    )
    assert script.configs_files(replace(REQUEST, configs=CONFIGS)) == {
        "configs/Containerfile": b"FROM x AS configs\n",
        "configs/context/.machineconfig/files.tar": b"tar",
    }


def test_only_the_definitions_own_failure_is_its_fault() -> None:
    assert [status for status in Exit if status.cause is Cause.DEFINITION] == [Exit.DEFINITION]


def test_files_hold_the_request_byte_for_byte() -> None:
    assert script.files(REQUEST) == {
        "Containerfile": "FROM x\r\n",
        "ignore": "*\n",
        "annotations": "a= x=1, y \nb=2\n",
        "bases": "",
    }


@pytest.mark.parametrize(
    ("ref", "line"),
    [
        ("h.io/b", f"h.io/b@{DIGEST} h.io/b:latest\n"),
        ("h.io:5000/a/b:1", f"h.io:5000/a/b@{DIGEST} h.io:5000/a/b:1\n"),
        (f"h.io/b@{OTHER}", f"h.io/b@{DIGEST} h.io/b@{OTHER}\n"),
        (f"h.io/b:1@{OTHER}", f"h.io/b@{DIGEST} h.io/b@{OTHER}\n"),
    ],
)
def test_bases_are_listed_as_buildah_will_look_for_them(ref: str, line: str) -> None:
    assert script.bases_file((Base(ref, DIGEST), Base(ref, DIGEST))) == line


@pytest.mark.parametrize(
    ("bases", "said"),
    [
        ((Base("h.io/b", DIGEST), Base("h.io/b:latest", OTHER)), "h.io/b:latest would be two images"),
        ((Base("fedora:42", DIGEST),), "'fedora:42' is not a fully qualified"),
    ],
)
def test_bases_that_cannot_be_told_apart_are_refused(bases: tuple[Base, ...], said: str) -> None:
    with pytest.raises(UnusableRequest, match=said):
        script.bases_file(bases)


@pytest.mark.parametrize("annotation", [{"a": "1\n2"}, {"a\n": ""}, {"a=b": "c"}, {"a": "\0"}])
def test_annotations_that_a_line_cannot_carry_are_refused(annotation: dict[str, str]) -> None:
    with pytest.raises(UnusableRequest, match="annotation"):
        script.annotations_file(annotation)


def test_insecure_registries_are_listed_and_no_others() -> None:
    assert script.registries_conf(frozenset({"b:1", "a"})) == (
        '[[registry]]\nlocation = "a"\ninsecure = true\n[[registry]]\nlocation = "b:1"\ninsecure = true\n'
    )
