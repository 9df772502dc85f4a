"""The README is true: its commands run, its files are read, its links lead somewhere."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli.app import COMMANDS as CLI_COMMANDS
from reconciler.core.catalogue import read
from reconciler.settings import read_settings
from reconciler.web.metrics import Metrics
from tests.fakes import snapshot
from tests.servers.daemon import DaemonProcess
from tests.servers.stage import Stage

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


COMMANDS = [line.strip() for block in blocks("sh") for line in block.splitlines() if line.strip()]


@pytest.mark.tools
def test_every_command_runs_in_the_order_of_the_readme(stage: Stage) -> None:
    stage.create_repository()
    (stage.work / "pools/worker/files/arm64/usr/lib/bootc/kargs.d/20-worker.toml").write_text("kargs = []\n")
    stage.commit("So that HEAD~1 is there")
    shown = [command for command in COMMANDS if command.startswith("reconciler")]
    assert {command.split()[1] for command in shown} == set(CLI_COMMANDS)
    daemon = DaemonProcess(stage)
    with ExitStack() as stack:
        for command in shown:
            words = shlex.split(command)[1:]
            if words[0] == "run":
                stack.enter_context(daemon).wait_for_event("started")
                continue
            if "--config" in words:
                words[words.index("--config") + 1] = str(stage.config)
            said = stage.reconciler(*words, cwd=stage.work)
            assert said.status == 0, f"{command}\n{said.out}{said.err}"
            assert said.out.strip(), command
        assert daemon.stop() == 0


@pytest.mark.tools
def test_the_make_targets_are_there(tmp_path: Path, stage: Stage) -> None:
    targets = [command.split()[1] for command in COMMANDS if command.startswith("make ")]
    assert targets[:2] == ["demo", "test"]
    for target in targets:
        assert stage.run("make", "--dry-run", "--directory", str(ROOT), f"VENV={tmp_path}/venv", target)


def test_the_files_it_shows_are_read_without_a_fault() -> None:
    config, settings, *others = blocks("yaml")
    assert not read(snapshot({"reconciler.yaml": config})).faults
    assert read_settings(settings.encode(), "README.md").source.branch == "main"
    head = "\n".join(line for line in settings.splitlines() if not line.startswith("source"))
    parts = [part for part in others if part.startswith("# part of reconciler-config.yaml")]
    assert len(parts) == 5
    assert read_settings((head + "\n" + "\n".join(parts)).encode(), "README.md").web


def test_every_metric_is_listed_and_alerts_use_no_other() -> None:
    known = {
        name.removesuffix("_total")
        for name in re.findall(r"^# HELP (reconciler_\w+)", _metrics(), re.MULTILINE)
    }
    listed = set(
        re.findall(r"`(reconciler_\w+)`", README.partition("| metric | tells |")[2].partition("\n\n")[0])
    )
    assert known - {"reconciler_build_info", "reconciler_build"} == {
        name.removesuffix("_total") for name in listed
    }
    (rules,) = [block for block in blocks("yaml") if block.startswith("# part of a Prometheus rule file")]
    used = set(re.findall(r"reconciler_\w+", yaml.safe_dump([r["expr"] for r in _rules(rules)])))
    assert {name.removesuffix("_count") for name in used} <= listed


def _rules(text: str) -> list[dict[str, str]]:
    rules: list[dict[str, str]] = yaml.safe_load(text)["groups"][0]["rules"]
    return rules


def _metrics() -> str:
    return Metrics(["a"]).text().decode()


def test_every_key_of_the_configuration_is_listed() -> None:
    cells = re.findall(r"^\| (`[A-Za-z.]+`(?:, `[A-Za-z.]+`)*) \|", README, re.MULTILINE)
    listed = {key for cell in cells for key in re.findall(r"`([A-Za-z.]+)`", cell)}
    assert set(_keys(SCHEMA)) - UNLISTED <= listed


SCHEMA = json.loads((ROOT / "schemas/reconciler-config.json").read_text())
UNLISTED = {"apiVersion", "kind"}
"""They are in the example."""


def _keys(part: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, inner in part["properties"].items():
        if "properties" in inner:
            yield from _keys(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


def test_the_example_in_the_readme_looks_like_the_output() -> None:
    example, *_ = blocks("console")
    assert example.startswith("$ reconciler plan --base HEAD~1\n")
    row = re.compile(r"^(\S+ +| +)(amd64|arm64|ppc64le|s390x) +(build|reuse) +(sha256:[0-9a-f]{12}…)? +\S")
    lines = example.splitlines()[1:]
    assert all(row.match(line) for line in lines[:-1])
    assert lines[-1] == "1 of 4 images would be built."


def test_what_kubectl_shows_has_the_columns_of_our_kind() -> None:
    (crd,) = (ROOT / "deploy/base/crds").glob("*.yaml")
    (version,) = yaml.safe_load(crd.read_text())["spec"]["versions"]
    columns = version["additionalPrinterColumns"]
    titles = ["NAME", *(one["name"].upper() for one in columns if not one.get("priority"))]
    shown = [
        lines[at + 1].split()
        for lines in map(str.splitlines, blocks("console"))
        for at, line in enumerate(lines)
        if line == "$ kubectl get mab"
    ]
    assert shown == [titles, titles]
