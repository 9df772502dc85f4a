"""`reconciler preview` as CI runs it, against a forge of each kind."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.core.comment import marker
from tests.servers.forge import REPOSITORY, PullRequest, Reply, TestForge, running
from tests.servers.stage import Said, Stage

ALL = ("gitea", "github", "gitlab")
WORKER = "pools/worker/Containerfile"


class PullRequestInCI:
    """A clone that stands on the result of merging pull request 7, and the forge."""

    def __init__(self, stage: Stage, forge: TestForge) -> None:
        self.stage = stage
        self.forge = forge
        self.token_file = stage.root / "token"
        self.token_file.write_text(f"{forge.token}\n")
        self.merged = self.push("# a remark\nCOPY files/arm64/ /etc/only-there/\n")

    def push(self, text: str) -> str:
        """Add to the pool's Containerfile on the branch, and merge that into main; returns the merge commit."""
        git, work = self.stage.git, self.stage.work
        git("checkout", "--quiet", "-B", "change", "origin/main")
        (work / WORKER).write_text((work / WORKER).read_text() + text)
        git("commit", "--quiet", "--all", "--message", "Change it")
        self.forge.pulls[7] = PullRequest(7, git("rev-parse", "HEAD"))
        git("checkout", "--quiet", "--detach", "origin/main")
        git("merge", "--quiet", "--no-ff", "--message", "Merge", "change")
        return git("rev-parse", "HEAD")

    def words(self, *more: str, base: str = "HEAD^1", token: bool = True) -> list[str]:
        """The command's words."""
        forge = self.forge
        named = ["--forge", forge.kind, "--url", forge.url, "--repository", REPOSITORY, "--pull", "7"]
        file = ["--token-file", str(self.token_file)] if token else []
        return ["preview", *named, *file, "--base", base, *more]

    def run(self, *more: str, base: str = "HEAD^1", token: bool = True) -> Said:
        """Run it."""
        return self.stage.reconciler(*self.words(*more, base=base, token=token), cwd=self.stage.work)

    def state(self, pool: str = "") -> str:
        """What the status of a pool, or of all, says; in GitHub's words."""
        context = "reconciler/default" + (f"/{pool}" if pool else "")
        return self.forge.standing()[context].replace("failed", "failure")


@pytest.fixture(params=ALL)
def pull(request: pytest.FixtureRequest, tmp_path: Path, definitions: Path) -> Iterator[PullRequestInCI]:
    class Nowhere:
        host = "127.0.0.1:19"

    stage = Stage(tmp_path, Nowhere())  # type: ignore[arg-type]  # only its host is asked for
    stage.create_repository(definitions)
    with running(request.param) as forge:
        yield PullRequestInCI(stage, forge)
        assert forge.faults == []


def test_a_preview_is_posted_and_kept_up_to_date(pull: PullRequestInCI) -> None:
    forge = pull.forge
    for number in range(150):
        forge.say(f"remark {number}", forge.other)
    said = pull.run()
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("comment created")
    body = forge.comments[-1].body
    assert body.splitlines()[:2] == [marker(), "### 2 of 2 images would be built"]
    assert (pull.state(), pull.state("worker")) == ("success", "success")
    again = pull.run()
    assert again.out.startswith("comment unchanged")
    assert (len(forge.comments), forge.comments[-1].edits) == (151, 0)
    pull.push("# a remark\n")
    assert pull.run().out.startswith("comment updated")
    assert (len(forge.comments), forge.comments[-1].edits) == (151, 1)
    assert "\n### 0 of 2 images would be built\n" in forge.comments[-1].body


@pytest.mark.parametrize("pull", ["gitlab"], indirect=True)
def test_the_command_in_the_comment_makes_the_same_comment(pull: PullRequestInCI) -> None:
    for instance in ("default", "prod-east"):
        assert pull.run("--instance", instance).status == 0
        body = pull.forge.comments[-1].body
        command = body.split("```sh\n")[1].split("\n")[0]
        assert command.startswith("reconciler plan ")
        made = pull.stage.reconciler(*shlex.split(command)[1:], cwd=pull.stage.work)
        assert made.out.strip() == body.strip()
    assert len(pull.forge.comments) == 2


@pytest.mark.parametrize("pull", ["gitea"], indirect=True)
def test_what_happens_in_which_order(pull: PullRequestInCI) -> None:
    pull.run()
    states = [(one.context, one.state) for one in pull.forge.set]
    assert states == [
        ("reconciler/default", "pending"),
        ("reconciler/default/worker", "pending"),
        ("reconciler/default/worker", "success"),
        ("reconciler/default", "success"),
    ]
    writes = pull.forge.writes()
    commented = next(n for n, line in enumerate(writes) if line.endswith(("comments", "notes")))
    assert commented == 2
    assert {one.commit for one in pull.forge.set} == {pull.forge.pulls[7].head}


@pytest.mark.parametrize("pull", ["gitlab"], indirect=True)
def test_a_fault_fails_the_statuses_and_is_in_the_comment(pull: PullRequestInCI) -> None:
    pull.push("FRM x\n")
    said = pull.run()
    assert said.status == 1
    assert (pull.state(), pull.state("worker")) == ("failure", "failure")
    assert "success" not in [one.state for one in pull.forge.set]
    assert f"{WORKER}" in pull.forge.comments[-1].body


@pytest.mark.parametrize("pull", ["github"], indirect=True)
def test_no_plan_is_a_failure_too(pull: PullRequestInCI) -> None:
    said = pull.run(base="nowhere")
    assert said.status == 1
    assert "nowhere" in said.err
    assert pull.state() == "failure"
    assert pull.forge.comments == []


def test_a_comment_of_somebody_else_with_our_marker_is_left_alone(pull: PullRequestInCI) -> None:
    forged = pull.forge.say(f"{marker()}\n### 0 of 2 images would be built", pull.forge.other)
    assert pull.run().out.startswith("comment created")
    assert pull.run().out.startswith("comment unchanged")
    assert pull.forge.comments[0] == forged


@pytest.mark.parametrize("pull", ["gitea"], indirect=True)
def test_of_our_own_comments_the_oldest_is_kept(pull: PullRequestInCI) -> None:
    kept, other = pull.forge.say(f"{marker()}\nold"), pull.forge.say(f"{marker()}\nolder still")
    assert pull.run().out.startswith("comment updated")
    bodies = {said.id: said.body for said in pull.forge.comments}
    assert "2 of 2" in bodies[kept.id]
    assert bodies[other.id].startswith("*Outdated")


@pytest.mark.parametrize("pull", ["github"], indirect=True)
def test_each_instance_and_each_folder_has_its_own(pull: PullRequestInCI) -> None:
    pull.run()
    pull.run("--instance", "other")
    pull.run("--repo", "pools")
    assert [said.body.splitlines()[0] for said in pull.forge.comments] == [
        marker(), marker("other"), marker("default", "pools"),
    ]  # fmt: skip
    assert {"reconciler/default", "reconciler/other", "reconciler/default:pools"} <= set(
        pull.forge.standing()
    )


@pytest.mark.parametrize("pull", ["gitlab"], indirect=True)
def test_what_is_not_the_pull_request_is_not_posted_on_it(pull: PullRequestInCI) -> None:
    said = pull.run("--head", "origin/main", base="origin/main")
    assert said.status == 1
    assert "which is the head of pull request 7" in said.err
    assert pull.forge.writes() == []


@pytest.mark.parametrize("pull", ["gitlab"], indirect=True)
def test_a_pull_request_that_is_not_open_is_left_alone(pull: PullRequestInCI) -> None:
    head = pull.forge.pulls[7].head
    pull.forge.pulls[7] = PullRequest(7, head, open=False)
    said = pull.run()
    assert (said.status, said.out) == (0, "")
    assert "not open" in said.err
    assert pull.forge.writes() == []


def test_a_busy_forge_is_waited_for(pull: PullRequestInCI) -> None:
    pull.forge.answer(Reply(502, {"message": "Bad Gateway"}))
    pull.forge.answer(Reply(429, {"message": "slow down"}, {"Retry-After": "1"}), "POST ")
    pull.forge.answer(Reply(hang_up=True), "7/notes" if pull.forge.kind == "gitlab" else "7/comments")
    assert pull.run().status == 0
    assert pull.state() == "success"
    assert len(pull.forge.comments) == 1


@pytest.mark.parametrize("pull", ["gitlab"], indirect=True)
def test_statuses_that_are_refused_are_an_error_beside_the_comment(pull: PullRequestInCI) -> None:
    pull.forge.answer(Reply(403, {"message": "403 Forbidden"}), "POST /statuses", times=99)
    said = pull.run()
    assert (said.status, said.out) == (1, "comment created\n")
    assert "status 'reconciler/default' of" in said.err
    assert "answered 403" in said.err
    assert len(pull.forge.comments) == 1


def test_a_dry_run_asks_nobody_and_needs_no_token(pull: PullRequestInCI) -> None:
    forge = pull.forge
    said = pull.run("--dry-run", token=False)
    assert (said.status, said.err) == (0, "")
    assert forge.asked == []
    planned = [line.split(" ")[:2] for line in said.out.splitlines()]
    assert pull.run().status == 0
    base = "/api/v4" if forge.kind == "gitlab" else "/api/v1" if forge.kind == "gitea" else ""
    sent = [[a.method, a.path.removeprefix(base) + (f"?{a.query}" if a.query else "")] for a in forge.asked]
    for one in (planned, sent):
        for line in one:
            line[1] = line[1].replace(forge.pulls[7].head, "HEAD").replace(pull.merged, "HEAD")
            line[1] = line[1].replace("ref=change", "ref=BRANCH")
    assert planned == sent
    bodies = [json.loads(line.split(" ", 2)[2]) for line in said.out.splitlines() if line.count(" ") > 1]
    comment = next(body["body"] for body in bodies if "body" in body)
    assert comment.startswith(f"{marker()}\n### 2 of 2")
    assert comment.endswith(" bytes)")
    assert len(comment) < 250


@pytest.mark.parametrize("pull", ["github"], indirect=True)
def test_wrong_usage_is_said(pull: PullRequestInCI) -> None:
    assert "--token-file is needed" in pull.run(token=False).err
    for words, message in (
        (["--instance", "a -->"], "is not a DNS label"),
        (["--pull", "0"], "0 is not in the range"),
        (["--repository", "acme"], "is no repository's name"),
        (["--url", "http://git.example.com"], "not an HTTPS address"),
        (["--token-file", "nowhere"], "nowhere cannot be read"),
    ):
        said = pull.run(*words)
        assert said.status in (1, 2)
        assert message in said.err
        assert "Traceback" not in said.err
    assert pull.forge.asked == []


def test_the_token_is_nowhere_but_in_the_requests(pull: PullRequestInCI) -> None:
    forge = pull.forge
    echo = {"message": f"you said Authorization: {forge.token}"}
    runs = [
        pull.run(),
        pull.run("--dry-run"),
        *(_broken(pull, Reply(status, echo)) for status in (400, 401, 403, 404, 422)),
    ]
    assert [said.status for said in runs] == [0, 0, 1, 1, 1, 1, 1]
    shown = "".join(said.out + said.err for said in runs)
    assert "you said" in shown
    assert forge.token not in shown
    assert all(forge.token not in json.dumps([a.path, a.query, a.body]) for a in forge.asked)
    assert all(forge.token in a.headers["authorization"] for a in forge.asked)
    cache = pull.stage.root / "cache"
    kept = [path for path in (*cache.rglob("*"), *pull.stage.work.rglob("*")) if path.is_file()]
    assert kept
    assert not [path for path in kept if forge.token.encode() in path.read_bytes()]


def _broken(pull: PullRequestInCI, reply: Reply) -> Said:
    pull.forge.answer(reply)
    return pull.run()
