"""The README is true: its commands run, its files are read, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from reconciler.cli.app import COMMANDS as CLI_COMMANDS
from reconciler.core.catalogue import read
from reconciler.settings import read_settings
from tests.fakes import snapshot
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
    for command in shown:
        words = shlex.split(command)[1:]
        if "--config" in words:
            words[words.index("--config") + 1] = str(stage.config)
        said = stage.reconciler(*words, cwd=stage.work)
        assert said.status == 0, f"{command}\n{said.out}{said.err}"
        assert said.out.strip(), command


@pytest.mark.tools
def test_the_make_targets_are_there(tmp_path: Path, stage: Stage) -> None:
    targets = [command.split()[1] for command in COMMANDS if command.startswith("make ")]
    assert targets[:2] == ["demo", "test"]
    for target in targets:
        assert stage.run("make", "--dry-run", "--directory", str(ROOT), f"VENV={tmp_path}/venv", target)


def test_the_files_it_shows_are_read_without_a_fault() -> None:
    config, settings = blocks("yaml")
    assert not read(snapshot({"reconciler.yaml": config})).faults
    assert read_settings(settings.encode(), "README.md").source.branch == "main"


def test_every_key_of_the_configuration_is_listed() -> None:
    listed = set(re.findall(r"^\| `([A-Za-z.]+)` \|", README, re.MULTILINE))
    text = (
        "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: ReconcilerConfig\n"
        "source: {url: /srv/x.git, branch: main, path: a}\n"
        "writeBack: {branch: b}\ninstance: i\narchitectures: [amd64]\n"
        "registry: {insecure: ['127.0.0.1:5000'], authFile: a, caFile: c}\n"
        "builder: {concurrency: 1, storageDriver: overlay, timeout: 1h}\n"
    )
    assert read_settings(text.encode(), "all.yaml").instance == "i"
    keys = {"source.url", "source.branch", "source.path", "writeBack.branch", "instance", "architectures"}
    keys |= {"registry.insecure", "registry.authFile", "registry.caFile"}
    keys |= {"builder.concurrency", "builder.storageDriver", "builder.timeout"}
    assert keys <= listed


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


def test_the_example_in_the_readme_looks_like_the_output() -> None:
    (example,) = blocks("console")
    assert example.startswith("$ reconciler plan --base HEAD~1\n")
    row = re.compile(r"^(\S+ +| +)(amd64|arm64|ppc64le|s390x) +(build|reuse) +(sha256:[0-9a-f]{12}…)? +\S")
    lines = example.splitlines()[1:]
    assert all(row.match(line) for line in lines[:-1])
    assert lines[-1] == "1 of 4 images would be built."
