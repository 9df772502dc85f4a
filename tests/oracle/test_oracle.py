"""A small share of the oracle in the suite: hazards first, then what must stay without effect.

The long run is `python -m tests.oracle`. A line in `NEEDLESS` says how many builds of a kind may be needless; a better
reader of commands lowers them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Final

import pytest

from reconciler.core.model import Arch
from tests.oracle.bases import BASE
from tests.oracle.draft import Definition, File, Pair
from tests.oracle.generate import pair, pairs
from tests.oracle.judge import Cell, Verdict, judge
from tests.oracle.kinds import KINDS
from tests.oracle.observe import Builders, Failed
from tests.oracle.report import document, table, tally

SEED: Final = 20
TWO: Final = (Arch.AMD64, Arch.ARM64)
HAZARDS: Final = (
    "alias",
    "arithmetic_assigns",
    "bash_env",
    "default_assigns",
    "exec_trace",
    "exit_in_arm",
    "fall_through",
    "function_uname",
    "ifs",
    "nocasematch",
    "path_by_env",
    "posix_mode",
    "prefix_of_colon",
    "quoted_eval",
    "uname_by_copy",
    "uname_by_run",
    "blanks_listed_by_variable",
)
NEEDLESS: Final[Mapping[str, int]] = {
    "branch/alias_variable": 0,
    "branch/case": 0,
    "branch/if_other": 0,
    "branch/elif_added": 0,
    "config/argument_after_run": 0,
    "config/argument_hidden_by_earlier_env": 0,
    "config/argument_redeclared": 0,
    "config/env_order": 0,
    "config/expose_protocol_said": 0,
    "config/label_split": 0,
    "files/by_arch": 0,
    "files/everything_with_comment": 0,
    "files/glob_hit": 0,
    "files/glob_written_out": 0,
    "files/ignore_comment": 0,
    "files/ignore_exception": 0,
    "files/mode_changed": 0,
    "files/mode_overridden": 0,
    "files/mode_said": 0,
    "files/sources_swapped": 0,
    "machines/encoding": 0,
    "machines/overridden": 0,
    "machines/renamed": 0,
    "machines/other_pool": 0,
    "stages/chosen_by_arch": 0,
    "stages/mounted_changed": 0,
    "stages/renamed": 0,
    "stages/runs_swapped": 0,
    "stages/two_swapped": 0,
    "stages/unused_changed": 0,
    "text/blanks_in_command": 0,
    "text/comment_before_escape": 0,
    "text/comment_in_continuation": 0,
    "text/keyword_case": 0,
}


@pytest.fixture(scope="module")
def builders(tmp_path_factory: pytest.TempPathFactory) -> Builders:
    return Builders(tmp_path_factory.mktemp("oracle"), 2)


def arches_of(kind: str) -> tuple[Arch, ...]:
    """One is enough where nothing depends on it."""
    return TWO if kind.startswith(("branch/", "hazard/")) or "by_arch" in kind else TWO[1:]


@pytest.mark.tools
def test_no_rebuild_is_missed_and_few_are_needless(builders: Builders) -> None:
    kinds = [*(f"hazard/{name}" for name in HAZARDS), *NEEDLESS]
    chosen = [replace(pair(kind, SEED, number), arches=arches_of(kind)) for number, kind in enumerate(kinds)]
    cells = list(judge(chosen, builders))
    report = table(tally(cells))
    assert [cell for cell in cells if cell.verdict is Verdict.MISSED] == [], report
    assert {cell.verdict for cell in cells} == {Verdict.EXACT, Verdict.NEEDLESS}, report
    for kind, bound in NEEDLESS.items():
        needless = [one for one in cells if one.pair.kind == kind and one.verdict is Verdict.NEEDLESS]
        assert len(needless) <= bound, f"{kind}\n{report}"


@pytest.mark.tools
def test_wrong_decisions_are_found(builders: Builders) -> None:
    """Held against a decider that sees no change, and one that sees changes only."""
    chosen = [pair(kind, SEED, 0) for kind in ("files/copied_file", "text/comment_top")]
    chosen = [replace(one, arches=(Arch.ARM64,)) for one in chosen]
    blind = judge(chosen, builders, lambda *_: "same")
    assert [cell.verdict for cell in blind] == [Verdict.MISSED, Verdict.EXACT]
    numbers = map(str, count())
    anxious = judge(chosen, builders, lambda *_: next(numbers))
    assert [cell.verdict for cell in anxious] == [Verdict.EXACT, Verdict.NEEDLESS]


@pytest.mark.tools
def test_builds_show_every_difference_and_no_other(builders: Builders) -> None:
    """Contents, modes, owners, links and configuration count; times, places of layers and order of ENV do not."""
    files = {"f": File("x\n"), "g": File("y\n"), "l": File("f", link=True)}
    with builders.one() as builder:
        head = f"FROM {BASE}\nRUN true\n"
        plain = builder.build(Definition(f"{head}ENV A=1 B=2\nCOPY f l /d/\n", files), Arch.ARM64)
        same = f"{head}RUN mkdir /d && touch /d/f\nCOPY f l /d/\nENV B=2\nENV A=1\n"
        assert builder.build(Definition(same, files), Arch.ARM64) == plain
        for other in (
            "COPY f l /d/\nRUN touch /d/new",
            "COPY f l /d/\nRUN echo >> /d/f",
            "COPY f l /d/\nRUN chmod 4755 /d/f",
            "COPY f l /d/\nRUN chown 1:0 /d/f",
            "COPY f l /d/\nRUN ln -sfn f /d/l && rm /d/f && ln -s /d/l /d/f",
            "COPY f l /d/\nLABEL a=b",
            "COPY f l /d/\nENV C=3",
            "COPY g l /d/",
        ):
            text = f"{head}ENV A=1 B=2\n{other}\n"
            built = builder.build(Definition(text, files), Arch.ARM64)
            assert not isinstance(built, Failed), built
            assert built != plain, other


@pytest.mark.tools
def test_programs_of_a_base_name_its_architecture(builders: Builders) -> None:
    with builders.one() as builder:
        for arch in Arch:
            asked = ["uname -m", "arch", "rpm --eval '%{_arch}'", "apk --print-arch"]
            tests = [f'[ "$({one})" = {arch.machine} ]' for one in asked]
            tests += [f'[ "$(dpkg --print-architecture)" = {arch.debian} ]', f'[ "$TARGETARCH" = {arch} ]']
            text = f"FROM {BASE}\nARG TARGETARCH\nRUN {' && '.join(tests)}\n"
            assert not isinstance(builder.build(Definition(text, {}), arch), Failed), arch


def test_every_kind_makes_pairs_that_a_seed_repeats() -> None:
    for number, kind in enumerate(KINDS):
        once, again = (pair(kind, SEED, number) for _ in range(2))
        assert once == again
        assert once.before != once.after
    assert list(pairs(SEED, 5)) == list(pairs(SEED, 5))
    assert [one.kind for one in pairs(SEED, 5)] != [one.kind for one in pairs(SEED + 1, 5)]


def test_a_missed_rebuild_is_told_with_its_pair() -> None:
    one = pair("branch/case", SEED, 0)
    cells = [Cell(one, Arch.AMD64, Verdict.MISSED, True, "the files differ"), _cell(one, Verdict.NEEDLESS)]
    told = document(SEED, cells)
    assert [found["before"]["Containerfile"] for found in told["missed"]] == [one.before.text]
    assert told["kinds"]["branch/case"] == {
        "pairs": 1,
        "exact": 0,
        "needless": 1,
        "missed": 1,
        "unchanged": 1,
        "notJudged": 0,
    }
    assert table(tally(cells)).splitlines()[-1].split() == ["all", "1", "0", "1", "of", "1", "1", "0"]


def _cell(one: Pair, verdict: Verdict) -> Cell:
    return Cell(one, Arch.ARM64, verdict, False)
