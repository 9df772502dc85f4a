"""shfmt, the real one: what it reads, what it refuses, and what it is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.adapters.shfmt import ShfmtParser, installed
from reconciler.core.model import Arch
from reconciler.core.shell import MAX_BYTES, Dialect, Known, specialise
from reconciler.errors import ToolMissing

SHFMT = installed()


@pytest.fixture
def parser() -> ShfmtParser:
    return ShfmtParser(SHFMT)


def operators(tree: object) -> list[str]:
    """Every operator in a tree."""
    found: list[str] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found += [str(node["Op"])] if "Op" in node else []
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return found


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("a && b", "&&"), ("a || b", "||"), ("a | b", "|"), ("a > f", ">"), ("a >> f", ">>"), ("a < f", "<"),
        ("a >| f", ">|"), ("a <> f", "<>"), ("a 2>&1", ">&"), ("a <&3", "<&"), ("a <<E\nE", "<<"), ("a <<-E\nE", "<<-"),
        ("case a in b) c;; esac", ";;"), ("case a in b) c; esac", ";;"),
    ],
)  # fmt: skip
def test_operators_are_spelled_as_the_reader_expects(parser: ShfmtParser, text: str, operator: str) -> None:
    assert operators(parser.tree(text, Dialect.SH)) == [operator]


@pytest.mark.parametrize(
    ("text", "operator"), [("[[ a == b ]]", "=="), ("[[ a != b ]]", "!="), ("[[ a = b ]]", "=")]
)
def test_comparisons_are_bash(parser: ShfmtParser, text: str, operator: str) -> None:
    assert operators(parser.tree(text, Dialect.BASH)) == [operator]
    assert operators(parser.tree(text, Dialect.SH)) == []


@pytest.mark.parametrize("text", ["if", "a (", "a <<<b", "f() {", "cat <<E\nx", 'a "'])
def test_what_is_no_program_has_no_tree(parser: ShfmtParser, text: str) -> None:
    assert parser.tree(text, Dialect.SH) is None


@pytest.mark.parametrize(
    "text",
    [
        "a" * (1 << 20), "é" * MAX_BYTES, "(" * 100_000, "$(" * 50_000, "if a; then " * 10_000, "a && " * 10_000,
        "a\0b", "a\rb", "a\x7f", "a \udcff", "$((" + "1+" * 20_000 + "1))", "let " + "1+" * 20_000 + "1",
        "x[" + "1+" * 20_000 + "1]=1", "{ " * 599 + "a",
    ],
    ids=lambda text: f"{text[:5]!r}-{len(text)}",
)  # fmt: skip
@pytest.mark.parametrize("dialect", Dialect)
def test_hostile_texts_have_no_tree(parser: ShfmtParser, text: str, dialect: Dialect) -> None:
    assert parser.tree(text, dialect) is None


def test_deep_texts_are_bearable(parser: ShfmtParser) -> None:
    """As deep as the bounds let a text be: its tree is large, and perhaps deeper than JSON is read."""
    known = Known({}, Arch.AMD64)
    for depth, read in ((30, True), (299, False), (599, False)):
        text = "( " * depth + "a" + " )" * depth
        assert (specialise(parser.tree(text, Dialect.SH), text, known) is not None) is read


def test_answers_are_kept(parser: ShfmtParser) -> None:
    assert parser.tree("a", Dialect.SH) is parser.tree("a", Dialect.SH)
    small = ShfmtParser(SHFMT, keep=1)
    first = small.tree("a", Dialect.SH)
    small.tree("b", Dialect.SH)
    assert small.tree("a", Dialect.SH) is not first


def test_without_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.adapters.shfmt.parser._PACKAGE", "no-such-package")
    with pytest.raises(ToolMissing, match="no-such-package"):
        installed()
    with pytest.raises(ToolMissing):
        ShfmtParser(tmp_path / "shfmt").tree("a", Dialect.SH)


def test_a_program_that_fails_or_floods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "shfmt"
    for body in ("exit 1", "echo no json", "exec 1>&-; exit 3", "exec cat /dev/zero"):
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o700)
        assert ShfmtParser(program).tree("a", Dialect.SH) is None
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr("reconciler.adapters.shfmt.parser._SECONDS", 0.2)
    assert ShfmtParser(program).tree("a", Dialect.SH) is None
