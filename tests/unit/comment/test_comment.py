"""The comment of a plan: what it says, in which order, and what is left of it when there is little room."""

from __future__ import annotations

import re
import shlex
import tracemalloc
from dataclasses import replace

import pytest

from reconciler.core.comment import LIMITS, Origin, comment, marker
from reconciler.core.model import Arch
from reconciler.core.plan import Plan
from tests.unit.comment.goldens import FOLDER, comments
from tests.unit.comment.html import pages
from tests.unit.comment.stories import STORIES, huge, many_edits, nothing, one_architecture, origin

GOLDEN = dict(comments())


@pytest.mark.parametrize("file", GOLDEN)
def test_comments_are_as_they_were_read(file: str) -> None:
    assert GOLDEN[file] == (FOLDER / file).read_text()


def test_there_is_no_golden_file_that_nobody_compares() -> None:
    assert {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.md")} == GOLDEN.keys()


def made(plan: Plan, limit: int = LIMITS["github"]) -> str:
    return comment(plan, origin(plan), limit)


def test_the_first_line_that_is_seen_is_the_verdict() -> None:
    first, second, *_ = made(one_architecture()).splitlines()
    assert first == marker()
    assert second == "### 1 of 10 images would be built"
    assert made(nothing()).splitlines()[1] == "### 0 of 10 images would be built"


@pytest.mark.parametrize("name", STORIES)
def test_the_matrix_has_every_cell_and_begins_with_its_action(name: str) -> None:
    plan = STORIES[name]()
    rows = re.findall(r"^\| `(\S+)` \| (.*) \|$", made(plan), re.MULTILINE)
    assert [pool for pool, _ in rows] == [pool.name for pool in plan.pools]
    for pool, (_, row) in zip(plan.pools, rows, strict=True):
        actions = {cell.arch: str(cell.action) for cell in pool.cells}
        shown = [arch for arch in Arch if any(cell.arch is arch for p in plan.pools for cell in p.cells)]
        assert [text.split()[0] for text in row.split(" | ")] == [actions.get(arch, "-") for arch in shown]


def test_every_cell_that_does_not_stay_has_a_reason_with_its_place() -> None:
    text = made(many_edits())
    cells = re.findall(
        r"(?:build|blocked|drop)(?: \[(\d+)\])?", "\n".join(re.findall(r"^\|.*$", text, re.MULTILINE))
    )
    listed = dict(re.findall(r"^(\d+)\. `([^`]+)`: ", text, re.MULTILINE))
    assert set(cells) == set(listed)
    assert listed["1"] == "pools/infra/Containerfile:6"


def test_the_same_plan_gives_the_same_bytes() -> None:
    assert made(many_edits()) == made(many_edits())


def test_it_names_commits_plan_engine_and_the_command() -> None:
    plan = one_architecture()
    text = made(plan)
    assert plan.base
    for digest in (plan.head, plan.base, plan.digest.removeprefix("sha256:")):
        assert f"`{digest[:12]}`" in text
    assert "reconciler `0.1.0`, engine `2+shfmt-py-4.2.0`" in text
    assert f"```sh\n{shlex.join(origin(plan).command)}\n```\n" in text
    assert text.endswith("```\n")


def test_without_a_base_it_says_what_it_was_compared_with() -> None:
    plan = replace(one_architecture(), base=None)
    assert "compared with the recorded status" in made(plan)


def test_where_registries_were_asked_it_says_so() -> None:
    plan = one_architecture()
    assert "as registries had them" in comment(plan, replace(origin(plan), resolved=True))


def test_a_plan_of_nothing_is_a_comment_too() -> None:
    assert "### 0 of 0 images would be built\n" in made(Plan(None, "a" * 40, ()))


def test_comments_of_two_reconcilers_and_two_folders_are_told_apart() -> None:
    names = [("a", ""), ("b", ""), ("a", "b"), ("a:b", ""), ("a", "b" * 500), ("a", "b" * 501)]
    assert len({marker(*name) for name in names}) == len(names)


@pytest.mark.parametrize("name", ["-->", "--!>", "->", "\n", "é", "\udcff", "<!--", "a--b", "x" * 5000])
def test_nothing_in_a_name_ends_the_marker(name: str) -> None:
    for text in (marker(name, "f"), marker("i", name)):
        assert re.fullmatch(r"<!-- [\w./:%-]+ -->", text)
        assert len(text) < 400
        assert "--" not in text[4:-3]
        for page in pages(f"{text}\n### seen\n"):
            assert len(page.comments) == 1
            assert page.prose.strip() == "seen"


@pytest.mark.parametrize("limit", [8192, 20_000, 65_536, 100_000, 1_000_000])
@pytest.mark.parametrize("text", ["kernel-5.14.0-1.el9 ", "``` ", "磁盘", "\u202e\n", "` | "])
def test_no_comment_is_larger_than_it_may_be_nor_broken(limit: int, text: str) -> None:
    whole = made(huge(300, text), limit)
    assert len(whole.encode()) <= limit
    for page in pages(whole):  # every tag is closed, or this fails
        assert page.tags.count("details") == page.tags.count("/details") == 3
        assert page.tags.count("hr") == 1


def test_of_what_is_too_large_the_verdict_the_matrix_and_the_command_stay() -> None:
    text = made(huge())
    assert "### 2000 of 4000 images would be built; 1000 blocked; 1000 pools gone; 1000 faults\n" in text
    assert len(re.findall(r"^\| `pool-\d+` \| build \[", text, re.MULTILINE)) > 300
    left_out = dict(map(reversed, re.findall(r"^\*Left out here: (\d+) (\w+)\.\*$", text, re.MULTILINE)))
    assert left_out.keys() == {"pools", "reasons", "faults", "lines", "diffs", "warnings"}
    assert "*Cut to 65,536 bytes. `reconciler plan --output json` leaves nothing out.*" in text
    assert text.rstrip("`\n").endswith(shlex.join(origin(huge(0)).command))


def test_most_of_the_room_is_used() -> None:
    for limit in LIMITS.values():
        assert len(made(huge(), limit).encode()) > limit * 0.9


def test_what_was_left_out_is_counted_right() -> None:
    text = made(huge())
    rows = len(re.findall(r"^\| `pool-", text, re.MULTILINE))
    assert f"*Left out here: {1000 - rows} pools.*" in text


def test_a_limit_that_nothing_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="8192"):
        made(nothing(), 8191)


def test_pools_in_which_nothing_changes_are_counted_when_there_are_many() -> None:
    quiet = [pool for pool in nothing().pools if not any(cell.reasons for cell in pool.cells)]
    many = tuple(replace(quiet[0], name=f"quiet-{n:02}") for n in range(30))
    plan = one_architecture()
    text = made(replace(plan, pools=plan.pools + many))
    assert "Nothing changes in 32 other pools." in text
    assert re.findall(r"^\| `(.*?)`", text, re.MULTILINE) == ["worker"]
    assert "- `quiet-07` amd64, arm64: nothing that goes into it changed" in text


def test_a_large_plan_takes_little_memory() -> None:
    plan = huge()
    tracemalloc.start()
    made(plan)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 << 20


def test_an_origin_with_hostile_words_stays_in_its_code() -> None:
    plan = nothing()
    bad = "`\n```\n<b>@all"
    text = comment(plan, Origin(bad, bad, ("reconciler", bad), bad, bad))
    sound = comment(plan, Origin("1", "1", ("reconciler", "x"), "x", "x"))
    for page, expected in zip(pages(text), pages(sound), strict=True):
        assert page.tags == expected.tags
        assert page.prose == expected.prose
