"""`plan --output markdown` on real repositories: sound ones, hostile ones and large ones."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from reconciler import process
from reconciler.core.comment import LIMITS
from tests.e2e.conftest import write_pool
from tests.servers.stage import Stage
from tests.unit.comment.html import pages
from tests.unit.hostile import HEAD, HOSTILE

DEFINITION = b"apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineOSConfig\n"
_MEMORY = 1 << 20  # KiB of address space: a gigabyte
_NAMES = (
    "`<script>alert(1)</script>`",
    "@everyone #1 www.evil.example",
    "```\n/merge\n## heading",
    "|---|---|",
    "-->",
    "\u202egnp.x",
    "back\\slash",
)


@pytest.fixture
def author(tmp_path: Path, definitions: Path) -> Stage:
    """A repository without any registry."""
    stage = Stage.alone(tmp_path)
    stage.create_repository(definitions)
    return stage


def planned(author: Stage, *words: str, locale: str = "C.UTF-8") -> tuple[int, bytes]:
    """Status and bytes of the comment on the last commit, made in little memory and not much time."""
    argv = [sys.executable, "-m", "reconciler", "plan", "--base", "HEAD~1", "--output", "markdown", *words]
    limited = f"ulimit -v {_MEMORY}; exec {shlex.join(argv)}"
    env = {**author.env, "LC_ALL": locale}
    done = process.run(["bash", "-c", limited], env=env, timeout=120, cwd=author.work)
    assert b"Traceback" not in done.stderr, done.stderr
    return done.status, done.stdout


def test_the_bytes_depend_on_the_commits_alone(author: Stage, tmp_path: Path) -> None:
    (author.work / "pools/worker/Containerfile").write_text("# größer\nFROM registry.example.com/os/base:2\n")
    author.commit("Take another base")
    status, text = planned(author)
    assert status == 0
    assert text.startswith(
        b"<!-- reconciler.machineos.dev/preview:v1:default:/ -->\n### 2 of 2 images would be built\n"
    )
    assert planned(author, locale="POSIX") == (0, text)
    (command,) = re.findall(r"```sh\n(.*)\n```", text.decode())
    author.env["XDG_CACHE_HOME"] = str(tmp_path / "another")
    said = author.reconciler(*shlex.split(command)[1:], "--repo", str(author.bare))
    assert said.out.encode() == text


def test_options_that_change_the_plan_are_in_the_command(author: Stage) -> None:
    (author.work / "README.md").write_text("hello\n")
    author.commit("Say hello")
    options = ["--forge", "gitlab", "--arch", "x86_64", "--pool", "worker"]
    status, text = planned(author, *options)
    assert status == 0
    assert b" --output markdown --arch amd64 --pool worker --forge gitlab\n" in text
    assert b"### 0 of 1 image would be built\n" in text


def test_without_a_base_it_is_compared_with_what_is_recorded(author: Stage) -> None:
    said = author.reconciler("plan", "--output", "markdown", cwd=author.work)
    assert said.status == 0
    assert "\n### 2 of 2 images would be built\n" in said.out
    assert "compared with the recorded status" in said.out


def test_hostile_names_and_texts_stay_in_code(author: Stage) -> None:
    folder = author.work / "pools/worker"
    for name in _NAMES:
        path = folder / "files/arm64" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    words = " ".join(shlex.quote(name.replace("\n", " ")) for name in _NAMES)
    (folder / "Containerfile").write_text(
        (folder / "Containerfile").read_text() + f"RUN echo {words} ~~~ ``````\n"
    )
    author.commit("Hurt")
    status, raw = planned(author)
    assert status == 0
    for page in pages(raw.decode()):
        assert not {tag.split()[0] for tag in page.tags} & {"script", "a", "img", "h2", "h1"}
        assert len(page.comments) == 1
        assert "everyone" not in page.prose
        assert "alert" not in page.prose
        assert "evil" not in page.prose
        assert page.tags.count("details") == page.tags.count("/details")
        assert any("alert(1)" in code for code in page.codes)
    assert b"\n/merge" not in raw


def test_hostile_documents_are_faults_in_a_comment(author: Stage) -> None:
    for number, case in enumerate(HOSTILE):
        content = case.content.replace(HEAD.encode(), DEFINITION)
        (author.work / f"pools/hostile-{number}.yaml").write_bytes(content)
    (author.work / "pools/worker/files/arm64/out").symlink_to("/etc/shadow")
    author.commit("Hurt")
    status, raw = planned(author)
    assert status == 1
    assert len(raw) <= LIMITS["github"]
    told = set(re.findall(rb"`pools/hostile-(\d+)\.yaml[:`]", raw))
    assert told == {b"%d" % number for number in range(len(HOSTILE))}
    assert b"`pools/worker/files/arm64/out" in raw
    for page in pages(raw.decode()):
        assert set(map(str.strip, page.comments)) == {"reconciler.machineos.dev/preview:v1:default:/"}


def test_a_large_change_gives_a_comment_of_bounded_size(author: Stage) -> None:
    for number in range(60):
        write_pool(author.work, f"pool-{number}", "FROM registry.example.com/os/base:1\nCOPY files/ /\n")
    author.commit("Before")
    with (author.work / "pools/worker/files/arm64/large").open("wb") as file:
        file.truncate(100 << 20)
    for number in range(60):
        folder = author.work / f"pools/pool-{number}"
        for n in range(30):
            (folder / f"files/{n}-{'x' * 200}").write_text("new\n")
        lines = "".join(f"RUN echo {'y' * 3000} {n}\n" for n in range(20))
        (folder / "Containerfile").write_text(f"FROM registry.example.com/os/base:1\nCOPY files/ /\n{lines}")
    author.commit("After")
    status, raw = planned(author)
    assert status == 0
    assert LIMITS["github"] * 0.8 < len(raw) <= LIMITS["github"]
    assert raw.decode().splitlines()[1] == "### 121 of 122 images would be built"
    assert b"Cut to 65,536 bytes" in raw
    for page in pages(raw.decode()):
        assert page.tags.count("tr") == 62
        assert page.tags.count("details") == page.tags.count("/details")


@pytest.mark.parametrize("words", [["--output", "markdown", "--forge", "sourcehut"], ["--output", "html"]])
def test_what_it_does_not_know_is_wrong_usage(author: Stage, words: list[str]) -> None:
    assert author.reconciler("plan", *words, cwd=author.work).status == 2
