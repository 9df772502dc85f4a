"""The CI files do what they say: their shell runs here, against repositories on this machine."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler import process
from reconciler.cli.app import COMMANDS
from tests.e2e.ci_steps import ROOT, CompositeAction
from tests.servers.forge import REPOSITORY, Reply, TestForge, running
from tests.servers.forge import PullRequest as OnForge
from tests.servers.stage import Stage

WORKFLOWS = ROOT / "examples-repo/.github/workflows"
KARGS = "pools/worker/files/arm64/tuning.conf"

pytestmark = pytest.mark.tools


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The action's repository as a runner has it, with the action's own installation in `runner`.

    What this project depends on is not installed again: it is found where it is.
    """
    root = tmp_path_factory.mktemp("action")
    for name in ("reconciler", "deploy"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root)
    environment = clean(Stage.alone(root).env)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"  # the same version of Python
    environment["PIP_NO_DEPS"] = "1"
    CompositeAction(root, "deploy/ci/github", root / "runner", environment).install()
    (packages,) = (root / "runner/reconciler/lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(
        f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n"
    )
    return root


def clean(environment: dict[str, str]) -> dict[str, str]:
    """Without what would lead to the checkout under test instead of what was installed."""
    return {name: value for name, value in environment.items() if name != "PYTHONPATH"}


class PullRequest:
    """A repository with pull request 7: its branch changes a file that only arm64 copies; main went on meanwhile."""

    def __init__(self, stage: Stage, installed: Path) -> None:
        self.stage, self.installed = stage, installed
        stage.git("checkout", "--quiet", "-b", "change")
        self.branch = self._commit({KARGS: "vm.nr_hugepages=16\n"}, "Reserve pages")
        stage.git("checkout", "--quiet", "main")
        self.target = self._commit({"README.md": "hello\n"}, "Say hello")
        stage.git("push", "--quiet", "origin", "main")
        self.merge = self.remerge()

    def remerge(self) -> str:
        """Merge the branch into what it is to be merged into, as the forge does; what is checked out is the result."""
        self.stage.git("checkout", "--quiet", "--detach", "main")
        self.stage.git("merge", "--quiet", "--no-ff", "--message", "Merge", self.branch)
        refs = (f"{self.branch}:refs/pull/7/head", "HEAD:refs/pull/7/merge")
        self.stage.git("push", "--quiet", "--force", "origin", *refs)
        return self.stage.git("rev-parse", "HEAD")

    def go_on(self, files: dict[str, str]) -> str:
        """Another commit on the branch of the pull request."""
        self.stage.git("checkout", "--quiet", "change")
        self.branch = self._commit(files, "Go on")
        self.merge = self.remerge()
        return self.branch

    def move_target(self) -> None:
        """Another commit on main."""
        self.stage.git("checkout", "--quiet", "main")
        self.target = self._commit({"README.md": "hello again\n"}, "Say more")
        self.stage.git("push", "--quiet", "origin", "main")
        self.merge = self.remerge()

    def preview(self) -> CompositeAction:
        """The action that plans."""
        return self._action("deploy/ci/github", "preview")

    def comment(self, forge: TestForge) -> CompositeAction:
        """The action that comments."""
        action = self._action("deploy/ci/github/comment", "comment")
        forge.pulls[7] = OnForge(7, self.branch)
        action.values |= {
            "github.token": forge.token,
            "github.api_url": forge.url,
            "github.server_url": f"file://{self.stage.root}",
            "github.repository": REPOSITORY,
            "github.event.workflow_run.head_sha": self.branch,
        }
        (self.stage.root / "acme").mkdir(exist_ok=True)
        here = self.stage.root / "acme/machine-os"
        here.unlink(missing_ok=True)
        here.symlink_to(self.stage.bare)
        return action

    def _action(self, folder: str, name: str) -> CompositeAction:
        runner = self.stage.root / f"runner-{name}"
        shutil.rmtree(runner, ignore_errors=True)
        runner.mkdir()
        (runner / "reconciler").symlink_to(self.installed / "runner/reconciler")
        return CompositeAction(self.installed, folder, runner, clean(self.stage.env))

    def _commit(self, files: dict[str, str], message: str) -> str:
        for name, text in files.items():
            (self.stage.work / name).write_text(text)
        self.stage.git("add", "--all")
        self.stage.git("commit", "--quiet", "--message", message)
        return self.stage.git("rev-parse", "HEAD")


@pytest.fixture
def pull(tmp_path: Path, definitions: Path, installed: Path) -> PullRequest:
    """A pull request, its merge result checked out."""
    stage = Stage.alone(tmp_path)
    stage.create_repository(definitions)
    return PullRequest(stage, installed)


@pytest.fixture
def forge() -> Iterator[TestForge]:
    """A forge without comments, to which our token is that of an app, as in GitHub Actions."""
    with running("github") as one:
        one.is_app = True
        yield one
        assert one.faults == []


def run_both(pull: PullRequest, forge: TestForge) -> tuple[CompositeAction, CompositeAction]:
    """The untrusted run, and what follows it."""
    preview, comment = pull.preview(), pull.comment(forge)
    assert preview.run(path=str(pull.stage.work)) == 0, preview.said
    comment.run(artefact=preview.values["steps.plan.outputs.folder"])
    return preview, comment


# -- the action that plans


def test_a_pull_request_is_planned_at_its_merge_result(pull: PullRequest) -> None:
    preview = pull.preview()
    assert preview.run(path=str(pull.stage.work)) == 0, preview.said
    folder = Path(preview.values["steps.plan.outputs.folder"])
    assert preview.values["steps.plan.outputs.build"] == "1"
    plan = json.loads((folder / "plan.json").read_text())
    assert (plan["base"], plan["head"]) == (pull.target, pull.merge)
    text = (folder / "comment.md").read_text()
    assert text.splitlines()[1] == "### 1 of 2 images would be built"
    assert (preview.runner / "summary").read_text() == text


def test_the_command_in_the_comment_makes_the_same_comment(pull: PullRequest) -> None:
    preview = pull.preview()
    preview.run(path=str(pull.stage.work))
    text = (preview.runner / "reconciler-preview/comment.md").read_text()
    (command,) = re.findall(r"```sh\n(.*)\n```", text)
    pull.stage.git("checkout", "--quiet", "main")
    again = pull.stage.reconciler(*shlex.split(command)[1:], cwd=pull.stage.work)
    assert again.out == text


def test_what_is_no_merge_result_is_not_planned(pull: PullRequest) -> None:
    pull.stage.git("checkout", "--quiet", "change")
    preview = pull.preview()
    assert preview.run(path=str(pull.stage.work)) == 1
    assert "::error::what is checked out is no merge result" in preview.said
    assert preview.run(path=str(pull.stage.work), base="main") == 0, preview.said


def test_faults_fail_the_run_and_are_in_the_comment(pull: PullRequest) -> None:
    pull.go_on({"pools/worker/Containerfile": "FRM x\n"})
    preview = pull.preview()
    assert preview.run(path=str(pull.stage.work)) == 1
    assert "; 2 blocked; " in (preview.runner / "reconciler-preview/comment.md").read_text().splitlines()[1]
    assert (preview.runner / "reconciler-preview/plan.json").stat().st_size


# -- the action that comments


def test_the_comment_is_made_then_edited(pull: PullRequest, forge: TestForge) -> None:
    for number in range(130):
        forge.say(f"comment {number}", forge.other)
    preview, comment = run_both(pull, forge)
    assert comment.status == 0, comment.said
    text = (preview.runner / "reconciler-preview/comment.md").read_text()
    assert forge.comments[130].body.strip() == text.strip()
    assert set(forge.standing().values()) == {"success"}
    pull.go_on({KARGS: "vm.nr_hugepages=32\n"})
    preview, comment = run_both(pull, forge)
    assert comment.status == 0, comment.said
    assert len(forge.comments) == 131
    second = (preview.runner / "reconciler-preview/comment.md").read_text()
    assert second != text
    assert forge.comments[130].body.strip() == second.strip()


def test_a_comment_of_somebody_else_with_our_marker_is_left_alone(
    pull: PullRequest, forge: TestForge
) -> None:
    first = "<!-- reconciler.machineos.dev/preview:v1:default:/ -->\nforged"
    forge.say(first, forge.other)
    _, comment = run_both(pull, forge)
    assert comment.status == 0, comment.said
    assert len(forge.comments) == 2
    assert forge.comments[0].body == first
    assert forge.comments[1].user.login != forge.other.login


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("comment.md", ""),
        ("comment.md", "@everyone"),
        ("comment.md", "a" * 70_000),
        ("plan.json", ""),
        ("plan.json", "{}"),
        ("plan.json", "[" * 10_000),
        ("plan.json", '{"kind": "Plan", "head": "$(touch x)"}'),
    ],
)
def test_a_forged_artefact_is_refused(pull: PullRequest, forge: TestForge, file: str, content: str) -> None:
    preview, comment = pull.preview(), pull.comment(forge)
    preview.run(path=str(pull.stage.work))
    artefact = Path(preview.values["steps.plan.outputs.folder"])
    (artefact / file).write_text(content)
    assert comment.run(artefact=str(artefact)) != 0
    assert not forge.comments
    assert not forge.asked


def test_a_link_in_an_artefact_is_refused(pull: PullRequest, forge: TestForge) -> None:
    preview, comment = pull.preview(), pull.comment(forge)
    preview.run(path=str(pull.stage.work))
    artefact = Path(preview.values["steps.plan.outputs.folder"])
    (artefact / "comment.md").unlink()
    (artefact / "comment.md").symlink_to("/etc/passwd")
    assert comment.run(artefact=str(artefact)) == 1
    assert "::error::the artefact has no comment.md" in comment.said


def test_a_run_that_was_overtaken_comments_nothing(pull: PullRequest, forge: TestForge) -> None:
    preview = pull.preview()
    preview.run(path=str(pull.stage.work))
    overtaken = pull.branch
    pull.go_on({KARGS: "vm.nr_hugepages=64\n"})
    comment = pull.comment(forge)
    artefact = preview.values["steps.plan.outputs.folder"]
    assert comment.run(artefact=artefact, commit=overtaken) == 0, comment.said
    assert "no pull request merges" in comment.said
    # The merge result is not made yet, or cannot be.
    pull.stage.git("push", "--quiet", "--force", "origin", f"{overtaken}:refs/pull/7/head")
    shutil.rmtree(comment.runner / "reconciler-objects.git")
    assert comment.run(artefact=artefact, commit=overtaken) == 0, comment.said
    assert "no pull request merges" in comment.said
    assert not forge.asked


def test_when_the_target_moved_the_comment_is_about_the_new_merge_result(
    pull: PullRequest, forge: TestForge
) -> None:
    preview = pull.preview()
    preview.run(path=str(pull.stage.work))
    pull.move_target()
    comment = pull.comment(forge)
    assert comment.run(artefact=preview.values["steps.plan.outputs.folder"]) == 0, comment.said
    assert "the target branch has moved" in comment.said
    assert f"--head {pull.merge}" in forge.comments[0].body


def test_a_busy_forge_is_asked_again(pull: PullRequest, forge: TestForge) -> None:
    forge.answer(Reply(503, {"message": "busy"}), "comments", times=1)
    _, comment = run_both(pull, forge)
    assert comment.status == 0, comment.said
    assert len(forge.comments) == 1


def test_a_folder_of_a_repository_has_a_comment_of_its_own(pull: PullRequest, forge: TestForge) -> None:
    (pull.stage.work / "pools/reconciler.yaml").write_text((pull.stage.work / "reconciler.yaml").read_text())
    pull.go_on({KARGS: "vm.nr_hugepages=128\n"})
    preview, comment = pull.preview(), pull.comment(forge)
    assert preview.run(path=str(pull.stage.work / "pools")) == 0, preview.said
    folder = preview.values["steps.plan.outputs.folder"]
    assert comment.run(artefact=folder, path="pools") == 0, comment.said
    assert forge.comments[0].body.startswith("<!-- reconciler.machineos.dev/preview:v1:default:pools/ -->\n")


def test_the_token_is_seen_by_the_forge_alone(pull: PullRequest, forge: TestForge) -> None:
    preview, comment = run_both(pull, forge)
    assert forge.comments
    assert forge.token not in preview.said + comment.said
    for path in [*preview.runner.rglob("*"), *comment.runner.rglob("*")]:
        if path.is_file() and not path.is_symlink():
            assert forge.token.encode() not in path.read_bytes(), path


# -- the files themselves


def test_no_step_has_an_expression_in_its_shell() -> None:
    for action in (ROOT / "deploy/ci/github").rglob("action.yml"):
        for step in yaml.safe_load(action.read_text())["runs"]["steps"]:
            assert "${{" not in step["run"], "what is put in by the runner would be run"


def test_only_the_steps_that_speak_to_the_forge_have_its_token() -> None:
    steps = yaml.safe_load((ROOT / "deploy/ci/github/comment/action.yml").read_text())["runs"]["steps"]
    holders = [step["name"] for step in steps if "inputs.token" in str(step.get("env"))]
    assert holders == ["Find the pull request and fetch its merge result", "Comment"]
    assert "steps.plan.outputs" in str(steps[-1]["env"])


def test_the_workflows_ask_for_no_more_than_they_need() -> None:
    plan, comment = (
        yaml.load((WORKFLOWS / name).read_text(), yaml.BaseLoader)  # noqa: S506  (texts only; `on` stays a text)
        for name in ("image-preview.yml", "image-preview-comment.yml")
    )
    assert set(plan["on"]) == {"pull_request"}
    assert plan["permissions"] == {"contents": "read"}
    assert plan["jobs"]["plan"].keys().isdisjoint({"permissions", "secrets"})
    checkout = plan["jobs"]["plan"]["steps"][0]["with"]
    assert checkout == {"fetch-depth": "0", "persist-credentials": "false"}
    assert comment["on"] == {"workflow_run": {"workflows": [plan["name"]], "types": ["completed"]}}
    assert comment["permissions"] == {}
    assert comment["jobs"]["comment"]["permissions"] == {
        "actions": "read",
        "contents": "read",
        "pull-requests": "write",
        "statuses": "write",
    }
    assert "checkout" not in str(comment["jobs"])
    assert not [
        path
        for path in ROOT.joinpath("deploy/ci").rglob("*.yml")
        if "pull_request_target" in path.read_text()
    ]


def test_the_examples_use_files_that_are_there() -> None:
    for path in WORKFLOWS.glob("*.yml"):
        for folder in re.findall(r"uses: machine-os/reconciler/(\S+)@", path.read_text()):
            action: Any = yaml.safe_load((ROOT / folder / "action.yml").read_text())
            assert action["runs"]["using"] == "composite"
    (included,) = yaml.safe_load((ROOT / "examples-repo/.gitlab-ci.yml").read_text())["include"]
    spec, _ = yaml.safe_load_all((ROOT / included["file"].lstrip("/")).read_text())
    assert set(included["inputs"]) <= set(spec["spec"]["inputs"])
    assert {n for n, given in spec["spec"]["inputs"].items() if "default" not in given} <= set(
        included["inputs"]
    )
    (repository,) = yaml.safe_load((ROOT / "examples-repo/.pre-commit-config.yaml").read_text())["repos"]
    hooks = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert {hook["id"] for hook in repository["hooks"]} == hooks


# -- GitLab and pre-commit


def gitlab(pull: PullRequest, **variables: str) -> process.Finished:
    """Run the component's job as a runner does that has fetched and checked out nothing."""
    text = (ROOT / "deploy/ci/gitlab/templates/image-preview.yml").read_text().split("\n---\n")[1]
    job = yaml.safe_load(re.sub(r"\$\[\[ inputs\.path \]\]", ".", text).replace("$[[ inputs.job ]]", "job"))[
        "job"
    ]
    folder = pull.stage.root / "gitlab"
    shutil.rmtree(folder, ignore_errors=True)
    pull.stage.run("git", "clone", "--quiet", "--no-checkout", f"file://{pull.stage.bare}", str(folder))
    path = f"{pull.installed}/runner/reconciler/bin:{pull.stage.env['PATH']}"
    environment = {**clean(pull.stage.env), **job["variables"], **variables, "PATH": path}
    (script,) = job["script"]
    return process.run(["sh", "-c", script], env=environment, timeout=240, cwd=folder)


def test_the_gitlab_component_plans_the_merge_result(pull: PullRequest) -> None:
    pull.stage.git("push", "--quiet", "origin", f"{pull.merge}:refs/merge-requests/7/merge")
    fetched = gitlab(pull, CI_MERGE_REQUEST_IID="7", CI_COMMIT_SHA=pull.branch)
    assert fetched.status == 0, fetched.stderr
    text = (pull.stage.root / "gitlab/image-preview.md").read_text()
    assert text.splitlines()[1] == "### 1 of 2 images would be built"
    assert f"--base {pull.target} --head {pull.merge} --output markdown --forge gitlab\n" in text
    assert fetched.stdout.decode() == text
    pull.stage.git("push", "--quiet", "origin", f"{pull.merge}:refs/heads/result")
    merged = gitlab(pull, CI_MERGE_REQUEST_EVENT_TYPE="merged_result", CI_COMMIT_SHA=pull.merge)
    assert merged.stdout == fetched.stdout


def test_the_gitlab_component_refuses_a_branch_that_is_not_merged(pull: PullRequest) -> None:
    pull.stage.git("push", "--quiet", "origin", "change")
    said = gitlab(pull, CI_MERGE_REQUEST_EVENT_TYPE="merged_result", CI_COMMIT_SHA=pull.branch)
    assert said.status == 1
    assert b"is no merge result" in said.stderr


def test_the_pre_commit_hooks_are_commands_that_run(pull: PullRequest) -> None:
    pull.stage.git("remote", "set-head", "origin", "main")
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()):
        entry: list[str] = shlex.split(hook["entry"])
        (program, command), words = entry, hook["args"]
        assert program == "reconciler"
        assert command in COMMANDS
        assert pull.stage.reconciler(command, *words, cwd=pull.stage.work).status == 0
