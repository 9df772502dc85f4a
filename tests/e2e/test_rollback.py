"""`reconciler rollback` in somebody's clone: a commit of theirs, after which nothing is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.conftest import write_pool
from tests.e2e.test_once import builds, index_of
from tests.servers.stage import Stage

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.fixture
def author(tmp_path: Path, definitions: Path) -> Stage:
    """A repository without any registry."""

    stage = Stage.alone(tmp_path)
    write_pool(definitions, "infra")
    stage.create_repository(definitions)
    return stage


def tune(stage: Stage, text: str, pool: str = "worker") -> str:
    (stage.work / f"pools/{pool}/files/arm64/tuning.conf").write_text(text)
    return stage.commit(f"Tune {text.strip()}")


def state(stage: Stage) -> tuple[str, str]:
    return stage.git("rev-parse", "HEAD"), stage.git("status", "--porcelain")


@pytest.mark.tools
def test_it_goes_one_image_back_and_builds_nothing(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    assert stage.once().status == 0
    first, tip = index_of(stage, "worker"), stage.tip()
    extra = stage.work / "pools/worker/files/arm64/extra.conf"
    extra.write_text("new\n")
    tune(stage, "worse\n")
    assert stage.once().status == 0
    assert len(builds(stage)) == 3
    stage.git("pull", "--quiet")
    said = stage.reconciler("rollback", "worker", cwd=stage.work)
    assert said.status == 0, said
    assert "0 of 2 images would be built." in said.out
    assert f"Roll back worker to {tip[:12]}" not in said.err, (
        "it goes to a commit of the source, not to one of ours"
    )
    assert "committed, 2 files changed; now push it" in said.err
    assert not extra.exists()
    assert stage.git("log", "-1", "--format=%an") == "Ada Admin"
    stage.git("push", "--quiet")
    assert stage.once().status == 0
    assert index_of(stage, "worker") == first
    assert len(builds(stage)) == 3


def test_it_goes_to_a_commit_and_touches_no_other_pool(author: Stage) -> None:
    first = author.git("rev-parse", "HEAD")
    tune(author, "worse\n")
    tune(author, "better\n", "infra")
    said = author.reconciler("rollback", "worker", "--to", first, cwd=author.work)
    assert said.status == 0, said
    changed = author.git("diff", "--name-only", "HEAD~1", "HEAD")
    assert changed == "pools/worker/files/arm64/tuning.conf"
    assert author.git("diff", "--name-only", first, "HEAD") == "pools/infra/files/arm64/tuning.conf"
    assert state(author)[1] == ""
    before = state(author)
    again = author.reconciler("rollback", "worker", "--to", first, cwd=author.work)
    assert (again.status, state(author)) == (0, before)
    assert "there is nothing to roll back" in again.out


def test_a_definition_that_has_moved_goes_back_to_where_it_was(author: Stage) -> None:
    first = author.git("rev-parse", "HEAD")
    author.git("mv", "pools/worker", "pools/workers")
    author.commit("Move")
    assert author.reconciler("rollback", "worker", "--to", first, cwd=author.work).status == 0
    assert author.git("diff", "--name-only", first, "HEAD") == ""
    assert not (author.work / "pools/workers").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["worker"], "status/worker.yaml: error: no image is recorded"),
        (["nobody"], "pool nobody is not defined"),
        (["worker", "--to", "nowhere"], "nowhere"),
        (["worker", "--to", "EMPTY"], "is not defined soundly at"),
    ],
)
def test_what_cannot_be_done_changes_nothing(author: Stage, words: list[str], complaint: str) -> None:
    empty = author.git("commit-tree", EMPTY_TREE, "-m", "Nothing yet")
    before = state(author)
    words = [empty if word == "EMPTY" else word for word in words]
    said = author.reconciler("rollback", *words, cwd=author.work)
    assert said.status == 1
    assert complaint in said.err
    assert state(author) == before


def test_what_is_not_committed_is_kept(author: Stage) -> None:
    first = author.git("rev-parse", "HEAD")
    tune(author, "worse\n")
    (author.work / "pools/worker/files/note.txt").write_text("mine\n")
    before = state(author)
    said = author.reconciler("rollback", "worker", "--to", first, cwd=author.work)
    assert said.status == 1
    assert "not committed yet: pools/worker/files/note.txt" in said.err
    assert state(author) == before


def test_a_hook_that_refuses_leaves_everything_as_it_was(author: Stage) -> None:
    first = author.git("rev-parse", "HEAD")
    tune(author, "worse\n")
    hook = author.work / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho not on a Friday >&2\nexit 1\n")
    hook.chmod(0o755)
    (author.work / "pools/infra/Containerfile").write_text("FROM example.com/mine\n")
    author.git("add", "pools/infra")
    before = state(author)
    said = author.reconciler("rollback", "worker", "--to", first, cwd=author.work)
    assert said.status == 1
    assert "not on a Friday" in said.err
    assert state(author) == before


def test_a_pool_in_the_same_folder_is_not_dragged_along(author: Stage) -> None:
    first = author.git("rev-parse", "HEAD")
    author.git("mv", "pools/infra", "pools/worker/infra")
    author.commit("Nest")
    before = state(author)
    said = author.reconciler("rollback", "worker", "--to", first, cwd=author.work)
    assert said.status == 1
    assert (
        "pools/worker/infra/machineosconfig.yaml:1: error: pool infra lies in the folder of pool worker"
        in said.err
    )
    assert state(author) == before
