"""What a person meets at the command line: help, errors, exit codes, output off a terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from reconciler.cli.app import COMMANDS as CLI_COMMANDS
from tests.servers.stage import Stage

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/plan.json").read_text())


@pytest.fixture
def author(tmp_path: Path, definitions: Path) -> Stage:
    """A repository without any registry."""

    stage = Stage.alone(tmp_path)
    stage.create_repository(definitions)
    return stage


@pytest.mark.parametrize("command", [[], *[[name] for name in CLI_COMMANDS]])
def test_every_command_has_help_with_an_example(command: list[str], author: Stage) -> None:
    said = author.reconciler(*command, "--help")
    assert said.status == 0
    assert "reconciler " in said.out.split("Usage:")[1].split("\n", 1)[1]


def test_plan_prints_a_table_without_colour_and_nothing_is_cut(author: Stage) -> None:
    said = author.reconciler("plan", cwd=author.work)
    assert said.status == 0
    assert said.err == ""
    assert said.out == (
        "worker  amd64  build    pools/worker/Containerfile:1  no image is recorded for it\n"
        "        arm64  build    pools/worker/Containerfile:1  no image is recorded for it\n"
        "2 of 2 images would be built.\n"
    )


def test_plan_works_from_a_folder_in_the_repository_and_on_a_bare_one(author: Stage) -> None:
    bare = author.reconciler("plan", "--repo", str(author.bare))
    assert bare.status == 0
    assert "2 of 2 images" in bare.out
    below = author.reconciler("plan", "--arch", "x86_64", cwd=author.work / "pools")
    assert "worker  amd64  build    worker/Containerfile:1" in below.out


def test_json_fits_its_schema_and_is_stable(author: Stage) -> None:
    first = author.reconciler("plan", "--output", "json", cwd=author.work)
    Draft202012Validator(SCHEMA).validate(json.loads(first.out))
    assert first.out == author.reconciler("plan", "--output", "json", cwd=author.work).out


def test_exit_codes_of_plan(author: Stage) -> None:
    def status(*words: str) -> int:
        return author.reconciler("plan", *words, cwd=author.work).status

    assert status("--detailed-exitcode") == 2
    assert status("--base", "HEAD", "--detailed-exitcode") == 0
    assert status("--base", "nowhere") == 1
    assert status("--arch", "sparc") == 2
    assert status("--pool", "nobody") == 1
    (author.work / "pools/worker/Containerfile").write_text("FRM x\n")
    author.commit("Break it")
    assert status("--detailed-exitcode") == 1
    broken = author.reconciler("plan", "--output", "json", cwd=author.work)
    Draft202012Validator(SCHEMA).validate(json.loads(broken.out))
    assert json.loads(broken.out)["errors"][0]["path"] == "pools/worker/Containerfile"


def test_validate_shows_every_fault_at_once_with_its_place(author: Stage) -> None:
    definition = author.work / "pools/worker/machineosconfig.yaml"
    definition.write_text(definition.read_text().replace("imageBuilderType: Job", "imageBuilderType: Pod"))
    other = author.work / "pools/infra"
    other.mkdir()
    (other / "machineosconfig.yaml").write_text("a: 1\na: 2\nkind: MachineOSConfig\n")
    (author.work / "notes.yml").write_bytes(b"\xff\xfe")
    said = author.reconciler("validate", cwd=author.work)
    assert said.status == 1
    places = [line.split(": error")[0] for line in said.err.splitlines() if ": error" in line]
    assert "pools/worker/machineosconfig.yaml:6" in places, said.err
    assert any(place.startswith("notes.yml") for place in places)
    assert any(place.startswith("pools/infra/machineosconfig.yaml") for place in places)
    assert "fault" in said.out


def test_validate_needs_no_architectures(author: Stage) -> None:
    (author.work / "reconciler.yaml").unlink()
    assert author.reconciler("validate", str(author.work)).out == "1 pool, no faults.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan", "--repo", "/"], "is not in a Git repository"),
        (["plan", "--head", "v9"], "v9"),
        (["once", "--config", "bad.yaml"], "bad.yaml:2"),
        (["once", "--config", "wrong.yaml"], "brnch"),
        (["frobnicate"], "No such command"),
        (["once"], "Missing option '--config'"),
        (["status", "--config", "elsewhere.yaml"], "nowhere.git"),
    ],
)
def test_errors_say_what_is_wrong_in_a_line_or_two(author: Stage, words: list[str], message: str) -> None:
    (author.work / "bad.yaml").write_text("[\n")
    header = "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: ReconcilerConfig\n"
    (author.work / "wrong.yaml").write_text(header + "source: {url: /srv/x.git, brnch: main}\n")
    (author.work / "elsewhere.yaml").write_text(header + f"source: {{url: {author.root}/nowhere.git}}\n")
    said = author.reconciler(*words, cwd=author.work)
    assert said.status != 0
    assert message in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert len(said.err.splitlines()) <= 5


def test_an_empty_repository_says_so(tmp_path: Path, author: Stage) -> None:
    author.run("git", "init", "--quiet", str(tmp_path / "empty"))
    said = author.reconciler("plan", cwd=tmp_path / "empty")
    assert said.status == 1
    assert "no commits" in said.err
    assert author.reconciler("validate", str(tmp_path / "empty")).status == 0


def test_a_reader_that_goes_away_is_no_crash(author: Stage) -> None:
    command = f"{sys.executable} -m reconciler plan | true"
    said = author.run("bash", "-c", f"set -o pipefail; cd {author.work}; {command}; true")
    assert "Traceback" not in said
