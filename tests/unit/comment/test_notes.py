"""Notes: where they stand in a comment, and that nothing but notes is ever replaced."""

from __future__ import annotations

import pytest

from reconciler.core.comment import LIMITS, NOTES, comment, noted
from tests.unit.comment.html import pages
from tests.unit.comment.stories import STORIES, origin

FORGES = sorted(LIMITS)


@pytest.mark.parametrize("name", sorted(STORIES))
def test_notes_come_and_go_and_nothing_else_changes(name: str) -> None:
    plan = STORIES[name]()
    plain = comment(plan, origin(plan))
    one = noted(plain, ["first note", "second note"])
    assert one.splitlines()[:4] == plain.splitlines()[:4]
    assert one.index("first note") < one.index("second note") < len(one) - len(plain.split("\n", 5)[5])
    assert noted(one, ["other"]) == noted(plain, ["other"])
    assert noted(one, []) == plain == noted(plain, [])
    assert noted(one.replace("\n", "\r\n"), []) == plain  # as some forges give it back


def test_notes_are_seen_above_the_matrix() -> None:
    plan = STORIES["one arch"]() if "one arch" in STORIES else next(iter(STORIES.values()))()
    plain, one = comment(plan, origin(plan)), noted(comment(plan, origin(plan)), ["a **note**"])
    for before, after in zip(pages(plain), pages(one), strict=True):
        assert "a note" not in before.prose
        assert "a note" in after.prose
        assert [tag for tag in after.tags if tag not in before.tags] == ["strong", "/strong"]


def test_what_looks_like_notes_further_down_is_left_alone() -> None:
    text = "marker\n### 1 of 2\n\noutcome.\n\n| `<!-- reconciler.machineos.dev/notes -->` |\n"
    fake = (
        text
        + "<!-- reconciler.machineos.dev/notes -->\nx\n<!-- reconciler.machineos.dev/end of notes -->\n\n"
    )
    assert noted(fake, []) == fake
    assert noted(noted(fake, ["a"]), []) == fake
    without_end = "marker\n### 1\n\nout.\n\n<!-- reconciler.machineos.dev/notes -->\nrest\n"
    assert noted(without_end, []) == without_end


def test_a_text_that_is_none_of_ours_is_kept() -> None:
    for text in ("", "x", "a\nb", "a\nb\nc\nd\ne\nf"):
        assert noted(text, []) == text
        for line in text.split("\n"):
            assert line in noted(text, ["n"])


def test_notes_keep_to_their_room() -> None:
    plain = "marker\n### 1 of 2\n\noutcome.\n\nrest\n"
    long = noted(plain, ["a" * 1_000] * 10)
    assert len(long.encode()) <= len(plain.encode()) + NOTES
    assert long.count("a" * 1_000) == 4
    assert noted(plain, ["ä" * NOTES]) == plain
