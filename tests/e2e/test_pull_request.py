"""Write-back to a protected branch: a real repository that refuses pushes, a real registry, real builds, a forge."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from reconciler import process
from tests.e2e.test_once import builds, index_of
from tests.servers.forge import REPOSITORY, PullRequest, Reply, TestForge, running
from tests.servers.stage import Said, Stage

pytestmark = pytest.mark.tools

BRANCH = "reconciler/default/main"
_PROTECTED = """\
#!/bin/sh
while read -r old new ref; do
  if [ "$ref" = refs/heads/main ] && [ "$GIT_AUTHOR_NAME" != "Ada Admin" ]; then
    echo "main is a protected branch" >&2
    exit 1
  fi
done
"""


class Protected:
    """A stage whose main takes pushes from authors only, and its forge."""

    def __init__(self, stage: Stage, forge: TestForge) -> None:
        self.stage = stage
        self.forge = forge
        hook = stage.bare / "hooks" / "pre-receive"
        hook.write_text(_PROTECTED)
        hook.chmod(0o755)
        forge.tip_of = self.tip
        (stage.root / "token").write_text(forge.token)
        self.plain = stage.config.read_text()
        stage.config.write_text(
            f"{self.plain}"
            "writeBack: {pullRequest: {}}\n"
            f"forge: {{type: {forge.kind}, url: {forge.url}, repository: {REPOSITORY}, tokenFile: token}}\n"
        )

    def tip(self, branch: str) -> str:
        """The commit at a branch's tip; '' for no such branch."""
        argv = [
            "git",
            "--git-dir",
            str(self.stage.bare),
            "rev-parse",
            "--verify",
            "--quiet",
            f"refs/heads/{branch}",
        ]
        return process.run(argv, env=self.stage.env, timeout=60).stdout.decode().strip()

    def ours(self) -> list[PullRequest]:
        """The requests from our branch."""
        return [pull for _, pull in sorted(self.forge.pulls.items()) if pull.branch == BRANCH]

    def merge(self) -> None:
        """As the button does that squashes and deletes the branch."""
        (pull,) = (pull for pull in self.ours() if pull.open)
        git = self.stage.git
        git("pull", "--quiet", "--rebase")
        git("merge", "--quiet", "--squash", f"origin/{BRANCH}")
        git("commit", "--quiet", "--message", f"{pull.title} (#{pull.number})")
        git("push", "--quiet", "origin", "main", f":{BRANCH}")
        self.forge.pulls[pull.number] = replace(pull, open=False, merged=self.tip("main"))

    def tag(self) -> bool:
        """Whether the pool's tag names what main records."""
        stage = self.stage
        named = stage.manifest(f"{stage.registry.host}/os/worker:latest")
        return named == stage.manifest(stage.record("worker").image)

    def status(self, *words: str) -> Said:
        """The command."""
        return self.stage.reconciler("status", "--config", str(self.stage.config), *words)


@pytest.fixture
def protected(request: pytest.FixtureRequest, stage: Stage, definitions: Path) -> Iterator[Protected]:
    stage.create_repository(definitions)
    with running(request.param) as forge:
        yield Protected(stage, forge)
        assert forge.faults == []


@pytest.mark.parametrize("protected", ["github"], indirect=True)
def test_it_is_opened_updated_in_place_and_the_tag_follows_the_merge(protected: Protected) -> None:
    stage, forge = protected.stage, protected.forge
    asking = stage.config.read_text()
    stage.config.write_text(protected.plain)
    refused = stage.once()
    assert refused.status == 1
    assert "main is a protected branch" in refused.err
    assert "writeBack.pullRequest" in refused.err

    stage.config.write_text(asking)
    main = stage.tip()
    opened = stage.once()
    assert (opened.status, opened.err.count("waiting for the merge of #1")) == (0, 1), opened
    assert "pull request #1 opened" in opened.out
    assert (stage.tip(), len(builds(stage))) == (main, 2)
    assert "latest" not in stage.pushed_images()
    assert stage.once().status == 0
    assert forge.writes() == ["POST /pulls"]
    shown = protected.status()
    assert shown.status == 1
    assert "waiting for the merge of #1: https://forge.example.com/acme/machine-os/pull/1" in shown.err
    document = json.loads(protected.status("--output", "json").out)
    schema = json.loads((Path(__file__).parents[2] / "schemas/status.json").read_text())
    Draft202012Validator(schema).validate(document)
    assert document["pullRequest"]["pools"] == ["worker"]
    assert document["pools"][0]["architectures"]["arm64"]["state"] == "to merge"

    (stage.work / "pools/worker/files/arm64/tuning.conf").write_text("vm.swappiness=10\n")
    stage.commit("Tune arm64")
    assert stage.once().status == 0
    (pull,) = protected.ours()
    arm64 = next(e for e in stage.record("worker", BRANCH).architectures if e.arch == "arm64")
    assert arm64.image.partition("@")[2][:15] in pull.body
    assert (len(builds(stage)), forge.writes()) == (3, ["POST /pulls", "PATCH /pulls/1"])

    protected.merge()
    delivered = stage.once()
    assert (delivered.status, delivered.out.count("pull request")) == (0, 0), delivered
    assert protected.tag()
    assert list(index_of(stage, "worker")) == ["amd64", "arm64"]
    assert protected.status().status == 0
    assert (len(builds(stage)), protected.tip(BRANCH), len(protected.ours())) == (3, "", 1)


@pytest.mark.parametrize("protected", ["gitlab"], indirect=True)
def test_killed_between_any_two_of_its_steps_it_opens_one(protected: Protected) -> None:
    stage, forge = protected.stage, protected.forge
    forge.answer(Reply(401, {"message": "not yet"}), times=1000)
    unasked = stage.once()  # builds and publishes; nothing but the request is left
    assert (unasked.status, protected.tip(BRANCH)) == (1, "")
    assert "the token is not valid there" in unasked.err
    forge.rules.clear()

    def killed_at(number: int) -> None:
        argv = [sys.executable, "-m", "tests.e2e.killed", str(stage.config), str(number)]
        assert process.run(argv, env=stage.env, timeout=120).status == -signal.SIGKILL

    for step in (0, 1, 2):  # around the commit, and before the push
        killed_at(step)
        assert protected.tip(BRANCH) == ""
    killed_at(3)
    branch = protected.tip(BRANCH)
    assert branch
    killed_at(2)  # pushed already: before it is opened
    assert protected.ours() == []
    killed_at(3)
    assert stage.once().status == 0
    assert protected.tip(BRANCH) == branch
    assert forge.writes() == ["POST /merge_requests"]
    protected.merge()
    assert stage.once().status == 0
    assert protected.tag()
    assert len(builds(stage)) == 2


@pytest.mark.parametrize("protected", ["gitea"], indirect=True)
def test_a_lost_answer_opens_no_second_one(protected: Protected) -> None:
    stage, forge = protected.stage, protected.forge
    forge.answer(Reply(hang_up=True), "POST /pulls", after=True)
    said = stage.once()
    assert (said.status, "pull request #1 opened" in said.out) == (0, True), said
    assert len(protected.ours()) == 1
    assert forge.writes() == ["POST /pulls"]
    forge.pulls[1] = replace(forge.pulls[1], open=False)
    again = stage.once()
    assert again.status == 0
    assert "#1 was closed without a merge" in again.err
    assert len(protected.ours()) == 1
