"""Text that somebody else wrote, as code spans and fences: it is shown, and does nothing."""

from __future__ import annotations

import pytest

from reconciler.core.comment.escape import code, fence, place, visible, words
from tests.unit.comment.html import pages


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "a ` b",
        "``` a",
        "ends in `",
        "` both `",
        " blanks ",
        "  two  ",
        "back\\",
        "\\`",
        "<img src=x>",
        "</summary>",
        "@everyone",
        "#1",
        "https://evil.example",
        "[a](b)",
        "*a* ~~b~~ $c$",
        ":smile:",
        "&lt;",
        "~~~",
    ],
)
def test_a_code_span_shows_the_text_itself(text: str) -> None:
    for page in pages(f"before {code(text)} after"):
        assert page.codes == [text]
        assert page.prose.split() == ["before", "·", "after"]


@pytest.mark.parametrize("text", ["a|b", "|", "a\\|b", "\\", "a\\\\|", "`|`", "| --- | --- |"])
def test_no_text_leaves_its_cell(text: str) -> None:
    for page in pages(f"| a | b |\n|---|---|\n| {code(text)} | end |\n"):
        assert page.cells == [text.replace("|", "\\x7c"), "end"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a\\x0ab"),
        ("a\r\n\tb", "a\\x0d\\x0a\\x09b"),
        ("\0", "\\x00"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb", "a\\u200bb"),
        ("a\u00a0b", "a\\xa0b"),
        ("\U000e0041", "\\U000e0041"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), "caf\\xe9"),
        ("\ud800", "\\ud800"),
        ("größe 磁盘", "größe 磁盘"),
        ("`" * 9, "\\x60" * 9),
        ("`" * 8, "`" * 8),
    ],
)
def test_what_could_not_be_seen_is_spelled(text: str, shown: str) -> None:
    assert visible(text) == shown
    for page in pages(code(text)):
        assert page.codes == [shown]


def test_a_span_of_nothing_is_still_seen() -> None:
    assert code("") == '`""`'
    assert code("  ") == '`"  "`'


def test_long_texts_are_cut_and_paths_keep_their_end() -> None:
    assert visible("a" * 1000, 10) == "a" * 9 + "…"
    assert visible("\u202e" * 10**6, 10) == "\\u202e" * 9 + "…"
    assert place("a/" * 1000 + "Containerfile", 7, 30) == "`…" + "a/" * 8 + "Containerfile:7`"[0:]
    assert place("a", 0) == "`a`"


@pytest.mark.parametrize(
    "message", ["file changed", "only arm64 copies it", "only the arm64 and s390x branches changed"]
)
def test_our_own_words_are_prose(message: str) -> None:
    assert words(message) == message


@pytest.mark.parametrize(
    "message",
    [
        "",
        "file changed ",
        "file  changed",
        "RUN: changed",
        "deadbeef",
        "it is gone: @all",
        "file\nchanged",
        "a" * 400,
    ],
)
def test_all_other_words_are_code(message: str) -> None:
    assert words(message).startswith("`")


def test_a_fence_is_longer_than_what_is_in_it() -> None:
    lines = ["- ````", "  ```", "+ `````sh"]
    text = fence(lines, "diff")
    assert text.startswith("``````diff\n")
    for page in pages(text + "\n*after*\n"):
        assert page.codes == ["\n".join(lines) + "\n"]
        assert "/em" in page.tags
