"""Our reading of Containerfiles, held against BuildKit's own parser as a second opinion.

buildah is the judge (`test_containerfile_against_buildah`); BuildKit's parser is a close relative of the one in
buildah, quick enough for thousands of texts. Where the two are known to differ is listed here by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adapters.containerfile_grammar import Writer
from tests.adapters.second_opinion import Node, agree, ours, same_bodies, theirs

REALISTIC = sorted((Path(__file__).parent / "containerfiles").glob("*.containerfile"))


def test_the_realistic_files_are_there() -> None:
    assert len(REALISTIC) == 24


@pytest.mark.parametrize("path", REALISTIC, ids=lambda path: path.stem)
def test_realistic_files_are_read_alike(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for variant in (text, text.replace("\n", "\r\n"), text.removesuffix("\n"), "\ufeff" + text):
        mine = same_bodies(ours(variant), buildkit=False)
        assert mine is not None
        assert mine == same_bodies(theirs(variant), buildkit=True)


@given(st.data())
@settings(max_examples=250, deadline=None)
def test_generated_files_are_read_alike(data: st.DataObject) -> None:
    text = Writer(data.draw).text()
    mine = same_bodies(ours(text), buildkit=False)
    assert mine is not None, "the grammar must write sound files only"
    assert mine == same_bodies(theirs(text), buildkit=True)


@pytest.mark.parametrize(
    "text",
    [
        'FROM x\nRUN [ "a" ] && b',  # a JSON prefix is the whole instruction, in both
        'FROM x\nRUN [ "$X" = a ] && b',
        'FROM x\nRUN [ "a" ] <<E\n',
        'FROM x\nCMD ["\\ud800"]',
        "FROM x\nRUN a \\\n# b \\\n\n   # c\nd\nUSER u",
        "FROM x\n\\\n\nRUN a",
        "FROM x\nRUN a \\",
        "FROM x\nRUN echo ${x:-<<y} '<<A' \"<<B\" \\<<C $((1<<2)) <<<d",
        'FROM x\nRUN <<"E F"\na\nE F\nUSER u',
        'FROM x\nCOPY --chown="1:2" --from=a\\b -- --chmod=1 /x',
        "FROM x\nCOPY \u00a0--from=s /a /b",  # white space beyond ASCII ends the flags: this copies `--from=s`
        "FROM x\nUSER\va\u00a0",
        "\n# escape=`\nFROM x\nRUN a `\nUSER u",
        "# a\n# escape=`\nFROM x\nRUN a `\nUSER u",
        "# check=skip=all\n# escape=`\nFROM x\nRUN a `\nUSER u",
    ],
)
def test_odd_texts_are_read_alike(text: str) -> None:
    assert agree(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment",
        'FROM x\nCMD ["a", 1]',
        "FROM x\nENV a",
        "FROM x\nENV a=1 b",
        "# escape=x\nFROM x",
        "# escape=`\n# escape=`\nFROM x",
        "FROM x\nRUN <<A\nb",
    ],
)
def test_what_both_refuse(text: str) -> None:
    assert (ours(text), theirs(text)) == (None, None)


Reading = list[Node] | None
FROM = Node("FROM", 1, (), ("x",), False)


@dataclass(frozen=True)
class Difference:
    """A text that the two read differently, and both readings; None: refused. `why` says who decides so."""

    why: str
    text: str
    ours: Reading
    theirs: Reading


def node(keyword: str, line: int, *words: str, flags: tuple[str, ...] = ()) -> Node:
    return Node(keyword, line, flags, words, False)


def heredoc(keyword: str, line: int, words: tuple[str, ...], name: str, body: str) -> Node:
    return Node(keyword, line, (), words, False, ((name, body),))


DIFFERENCES = [
    # imagebuilder: tried with buildah 1.28.2 and 1.39.3.
    Difference(
        "an escaped escape character continues the line",
        "FROM x\nRUN a\\\\\nUSER b",
        [FROM, node("RUN", 2, "a\\USER b")],
        [FROM, node("RUN", 2, "a\\\\"), node("USER", 3, "b")],
    ),
    Difference(
        "an escaped escape character at the end of the file is cut in half",
        "FROM x\nRUN a\\\\",
        [FROM, node("RUN", 2, "a\\")],
        [FROM, node("RUN", 2, "a\\\\")],
    ),
    Difference(
        "only escape is a directive, and only on the first line",
        "# syntax=s\n# escape=`\nFROM x\nRUN a `\nUSER u",
        [FROM._replace(line=3), node("RUN", 4, "a `"), node("USER", 5, "u")],
        [FROM._replace(line=3), node("RUN", 4, "a USER u")],
    ),
    Difference(
        "what follows the character of escape is no matter",
        "# escape=` more\nFROM x\nRUN a",
        [FROM._replace(line=2), node("RUN", 3, "a")],
        None,
    ),
    Difference(
        "a here-document's body has a newline before each line",
        "FROM x\nRUN <<E\na\nE",
        [FROM, heredoc("RUN", 2, ("<<E",), "E", "\na")],
        [FROM, heredoc("RUN", 2, ("<<E",), "E", "a\n")],
    ),
    Difference(
        "a body loses its carriage returns",
        "FROM x\nCOPY <<E /x\r\na\r\nE\r\n",
        [FROM, heredoc("COPY", 2, ("<<E", "/x"), "E", "\na")],
        [FROM, heredoc("COPY", 2, ("<<E", "/x"), "E", "a\r\n")],
    ),
    Difference(
        "a body of <<- loses its tabs when it is read",
        "FROM x\nRUN <<-E\n\ta\n\tE",
        [FROM, heredoc("RUN", 2, ("<<-E",), "E", "\na")],
        [FROM, heredoc("RUN", 2, ("<<-E",), "E", "\ta\n")],
    ),
    Difference(
        "a line may be longer than 64 KiB",
        f"FROM x\nRUN {'a' * 70_000}",
        [FROM, node("RUN", 2, "a" * 70_000)],
        None,
    ),
    # Ours: versions of buildah differ, or garble it, so that refusing is the only safe reading.
    Difference(
        "a blank after << is a here-document for some versions of buildah only",
        "FROM x\nRUN cat << E\nUSER u",  # the bound BuildKit is older than the change
        None,
        [FROM, node("RUN", 2, "cat << E"), node("USER", 3, "u")],
    ),
    Difference(
        "<< in text that cannot be split into words is refused",
        "FROM x\nRUN echo ' <<E",
        None,
        [FROM, node("RUN", 2, "echo ' <<E")],
    ),
    Difference(
        "a delimiter of several quoted parts is refused",
        "FROM x\nRUN cat <<E'F'\na\nEF",
        None,
        [FROM, heredoc("RUN", 2, ("cat <<E'F'",), "EF", "a\n")],
    ),
    Difference(
        "a flag beyond ASCII is read byte by byte, and refused",
        "FROM x\nCOPY --chown=\u00e9 a /x",
        None,
        [FROM, node("COPY", 2, "a", "/x", flags=("--chown=\u00c3\u00a9",))],
    ),
    Difference(
        "a flag that ends in a no-break space is no flag without it",
        "FROM x\nCOPY --from=s\u00a0/a /b",
        None,
        [FROM, node("COPY", 2, "/a", "/b", flags=("--from=s\u00c2",))],
    ),
    Difference(
        "a byte-order mark inside the text is refused",
        "FROM x\nUSER a\ufeff",
        None,
        [FROM, node("USER", 2, "a\ufeff")],
    ),
    # Ours: an OCI image holds no triggers, so nothing of them is kept but what faults need.
    Difference(
        "flags of ONBUILD itself are dropped",
        "FROM x\nONBUILD --y RUN a",
        [FROM, node("ONBUILD", 2, "RUN a")],
        [FROM, node("ONBUILD", 2, "--y RUN a", flags=("--y",))],
    ),
    # Ours: what a later stage of either builder refuses, we refuse at once. One of each kind.
    Difference("instructions are known", "FROM x\nFOO a", None, [FROM, node("FOO", 2, "")]),
    Difference("keywords are ASCII", "FROM x\nu\u017fer a", None, [FROM, node("u\u017fer", 2, "")]),
    Difference("flags are known", "FROM x\nUSER --y a", None, [FROM, node("USER", 2, "a", flags=("--y",))]),
    Difference("arguments are counted", "FROM x\nCOPY a", None, [FROM, node("COPY", 2, "a")]),
    Difference("there is a FROM first", "USER a", None, [node("USER", 1, "a")]),
]


@pytest.mark.parametrize("case", DIFFERENCES, ids=lambda case: case.why)
def test_documented_differences_are_real(case: Difference) -> None:
    assert case.ours != case.theirs
    assert ours(case.text) == case.ours
    assert theirs(case.text) == case.theirs
