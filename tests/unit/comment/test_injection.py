"""Whatever a repository holds, a comment says the same things at the same places: only what is in its code differs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.comment import Origin, comment
from reconciler.core.comment.escape import words
from reconciler.core.model import Arch
from reconciler.core.plan import Action, Cell, Plan, PoolPlan, Reason
from reconciler.errors import Fault
from tests.unit.comment.html import pages

_WORST: Final = (
    "`",
    "```",
    "~~~",
    "|",
    "\\",
    "\n",
    "\r",
    "\n\n",
    " ",
    "    ",
    "\t",
    "<!--",
    "-->",
    "<script>",
    "</details>",
    "<img src=x onerror=y>",
    "@octocat",
    "#1",
    "GH-1",
    "!1",
    "&amp;",
    "https://evil.example",
    "www.evil.example",
    "[a](javascript:b)",
    "![a](b)",
    "[1]: https://evil.example",
    "[^1]: x",
    "# a",
    "- [ ] a",
    "1. a",
    "> a",
    "/merge",
    "***",
    "---",
    "| a | b |\n|---|---|",
    "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
    ":tada:",
    "$`x`$",
    "<!-- reconciler.machineos.dev/preview:v1:default:/ -->",
    "\u202e",
    "\u200b",
    "\x00",
    "\udcff",
    "\u2028",
)
TEXTS: Final = st.one_of(
    st.lists(st.sampled_from(_WORST), min_size=1, max_size=8).map("".join),
    st.text(st.characters(), min_size=1, max_size=40),
    st.text("`|\\ \n", min_size=1, max_size=30),
)
NAMES: Final = TEXTS.map(
    lambda text: text.encode("utf-8", "replace").decode()
)  # YAML holds no half characters
LINES: Final = st.integers(0, 3)
FAULTS: Final = st.builds(Fault, TEXTS, LINES, TEXTS, TEXTS)
REASONS: Final = st.builds(
    Reason,
    st.sampled_from(["recipe", "context", "bases", "image", "definition"]),
    st.sampled_from(["added", "removed", "changed", "unchanged", "missing", "invalid"]),
    TEXTS,
    TEXTS,
    LINES,
    st.one_of(st.just(""), TEXTS),
    st.one_of(st.just(""), TEXTS),
)


@st.composite
def cells(draw: st.DrawFn) -> tuple[Cell, ...]:
    arches = draw(st.lists(st.sampled_from(Arch), unique=True, min_size=1))
    return tuple(
        Cell(
            arch,
            draw(st.sampled_from(Action)),
            tuple(draw(st.lists(REASONS, max_size=3))),
            image=draw(st.one_of(st.none(), TEXTS)),
        )
        for arch in sorted(arches)
    )


POOLS: Final = st.builds(PoolPlan, NAMES, TEXTS, cells(), st.lists(FAULTS, max_size=2).map(tuple))
PLANS: Final = st.builds(
    Plan,
    st.one_of(st.none(), st.just("b" * 40)),
    st.just("a" * 40),
    st.lists(POOLS, max_size=3, unique_by=lambda pool: pool.name).map(tuple),
    st.lists(TEXTS, max_size=3).map(tuple),
    st.lists(FAULTS, max_size=3).map(tuple),
)
_ORIGIN: Final = Origin("0.1.0", "2", ("reconciler", "plan"))


@settings(max_examples=150, deadline=None)
@given(PLANS)
def test_nothing_outside_code_depends_on_what_the_repository_says(plan: Plan) -> None:
    mine = comment(plan, _ORIGIN)
    harmless = comment(_harmless(plan), _ORIGIN)
    for page, expected in zip(pages(mine), pages(harmless), strict=True):
        assert page.tags == expected.tags
        assert page.prose == expected.prose
        assert page.comments == expected.comments
    assert len(mine.splitlines()) == len(mine.split("\n")) - 1  # no other line end than ours
    mine.encode()


@settings(max_examples=50, deadline=None)
@given(PLANS, st.sampled_from([8192, 9000, 12_000]))
def test_cut_anywhere_it_is_still_whole(plan: Plan, limit: int) -> None:
    # The same pools many times over, so that something has to be left out of every part.
    pools = tuple(replace(pool, name=f"{n}{pool.name}") for n in range(30) for pool in plan.pools)
    text = comment(
        replace(plan, pools=pools, errors=plan.errors * 40, removed=plan.removed * 40), _ORIGIN, limit
    )
    assert len(text.encode()) <= limit
    _every_line_begins_with_ours(text)
    for page in pages(text):
        assert {tag.split()[0].strip("/") for tag in page.tags} <= _TAGS
        assert page.comments == [" reconciler.machineos.dev/preview:v1:default:/ "]
        assert page.codes[-1] == "reconciler plan\n"


_TAGS: Final = set("h3 p table thead tbody tr th td ol ul li code pre details summary em hr".split())  # noqa: SIM905
_BEGINS: Final = re.compile(
    r"<!-- reconciler|### \d|Merged, |\| |\|:--|\d+\. |- |Gone from|Faults:|</?details>|<summary>|`|\*Left out here: \d"
    r"|\*Cut to|@@|\+ |  |---|Head `|Nothing changes|reconciler plan"
)


def _every_line_begins_with_ours(text: str) -> None:
    """Forges look for commands at the beginning of lines, whatever Markdown says: `/merge`."""
    for line in text.split("\n"):
        assert not line or _BEGINS.match(line), line


@settings(max_examples=50, deadline=None)
@given(PLANS)
def test_no_line_begins_with_what_the_repository_says(plan: Plan) -> None:
    _every_line_begins_with_ours(comment(plan, _ORIGIN))


def _harmless(plan: Plan) -> Plan:
    """The same plan with other texts: equal ones stay equal, and their order stays."""
    known: dict[str, str] = {}

    def other(text: str) -> str:
        if not text or (words(text) == text):
            return text
        return known.setdefault(text, f"T{len(known)}")

    return Plan(
        plan.base,
        plan.head,
        tuple(
            PoolPlan(
                other(pool.name),
                other(pool.path),
                tuple(_cell(cell, other) for cell in pool.cells),
                pool.warnings,
            )
            for pool in plan.pools
        ),
        tuple(map(other, plan.removed)),
        tuple(_fault(fault, other) for fault in plan.errors),
    )


def _cell(cell: Cell, other: Callable[[str], str]) -> Cell:
    reasons = tuple(
        replace(
            reason,
            message=other(reason.message),
            path=other(reason.path),
            before=other(reason.before),
            after=other(reason.after),
        )
        for reason in cell.reasons
    )
    return replace(cell, reasons=reasons, image=other(cell.image or "") or None)


def _fault(fault: Fault, other: Callable[[str], str]) -> Fault:
    return Fault(other(fault.path), fault.line, other(fault.message), other(fault.hint))
