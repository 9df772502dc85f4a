from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.yaml import MAX_BYTES, MAX_FAULTS, Document, read, shown
from reconciler.errors import Fault, InvalidInput
from reconciler.process import run
from tests.unit.hostile import HEAD, HOSTILE, OURS, HostileCase

ROOT = Path(__file__).parents[2]


def one(body: str) -> Document:
    (document,) = read((HEAD + body).encode(), "a.yaml", OURS)
    return document


def faults(content: str | bytes) -> tuple[Fault, ...]:
    with pytest.raises(InvalidInput) as caught:
        read(content.encode() if isinstance(content, str) else content, "a.yaml", OURS)
    return caught.value.faults


def test_plain_values() -> None:
    document = one('a: {b: [1, "2", 1.5, true, null, no, 1:30, 0123, 2024-01-01]}\n"1": x\n')
    assert document.data == {
        "apiVersion": "v1", "kind": "Mine",
        "a": {"b": [1, "2", 1.5, True, None, "no", "1:30", "0123", "2024-01-01"]}, "1": "x",
    }  # fmt: skip
    assert (document.path, document.line, document.api_version, document.kind) == ("a.yaml", 1, "v1", "Mine")


def test_lines() -> None:
    document = one("a:\n  b:\n  - c: 1\n    d:\n      5\n  - x\n")
    assert document.line_of(()) == 1
    assert document.line_of(("kind",)) == 2
    assert document.line_of(("a", "b")) == 4
    assert document.line_of(("a", "b", 0)) == 5
    assert document.line_of(("a", "b", 0, "d")) == 6
    assert document.line_of(("a", "b", 1)) == 8
    assert document.line_of(("a", "b", 0, "gone", 7)) == 5
    assert document.line_of(("gone",)) == 1


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("a: |\n  x\n", 4),
        ("a: |2-  # why\n   x\n", 4),
        ("a:\n  |\n  x\n", 5),
        ("a: >\n  x\n", 4),
        ("a: |\n\n  x\n", 4),
        ("a: x\n", 3),
        ("a:\n\n  x\n  y\n", 5),
        ('a: "x\n  y"\n', 3),
        ("a:\n  'x'\n", 4),
        ("a: {}\n", 3),
    ],
)
def test_text_lines(body: str, line: int) -> None:
    assert one(body).text_line(("a",)) == line


def test_several_documents_keep_their_lines() -> None:
    content = f"# c\n---\n{HEAD}---\nother: 1\n...\n---\n{HEAD}x: 1\n"
    first, second = read(content.encode(), "a.yaml", OURS)
    assert (first.line, second.line, second.line_of(("x",))) == (3, 9, 11)


def test_a_byte_order_mark_and_other_line_ends_are_tolerated() -> None:
    (document,) = read(("\ufeff" + HEAD + "a: |\n  x\n  y\n").replace("\n", "\r\n").encode(), "a.yaml", OURS)
    assert document.data["a"] == "x\ny\n"
    assert document.line_of(("a",)) == 3


@pytest.mark.parametrize(
    "content", ["", "\n", "# nothing\n", "---\n", "---\n---\n", "text\n", "- a\n", "5\n"]
)
def test_nothing_of_ours(content: str) -> None:
    assert read(content.encode(), "a.yaml", OURS) == ()


@pytest.mark.parametrize(
    "content",
    [
        "apiVersion: v2\nkind: Mine\n",
        "kind: Other\napiVersion: v1\n",
        "kind: {a: b}\napiVersion: v1\n",
        "kind: Mine\n",
        ".a: &a {x: 1}\njob: {<<: *a, s: !reference [a, b], 1: 2, x: 1, x: 2}\n",
        "!custom\na: 1\n",
        "kind: Other\napiVersion: v2\n<<: *x\n",
        "spec: {kind: Mine, apiVersion: v1, <<: *x}\n",
        "[kind, apiVersion]: x\n",
        "a: \u2028\n",
    ],
)
def test_foreign_documents_are_not_our_business(content: str) -> None:
    assert read(content.encode(), "a.yaml", OURS) == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x: &x Mine\napiVersion: v1\nkind: *x\n", "alias '*x' is not allowed"),
        ("x: &x {kind: Mine}\n<<: *x\n", "the merge key << is not allowed"),
        ("apiVersion: v1\nkind: !!str Mine\n", "tag 'tag:yaml.org,2002:str' is not allowed"),
        ("apiVersion: v1\n!!str kind: Mine\n", "tag 'tag:yaml.org,2002:str' is not allowed"),
        ("apiVersion: v1\n*k : Mine\n", "alias '*k' is not allowed"),
        ("apiVersion: v1\nkind: Mine\nkind: Other\n", "key 'kind' is given twice (first on line 2)"),
        ("apiVersion: v1\nkind: Other\nkind: Mine\n", "key 'kind' is given twice (first on line 2)"),
    ],
)
def test_what_could_be_ours_is_a_fault(content: str, message: str) -> None:
    assert message in [fault.message for fault in faults(content)]


LIST = "apiVersion: v1\nkind: List\n"


def test_the_items_of_a_list_are_documents_with_their_lines() -> None:
    content = (
        f"{LIST}metadata: {{resourceVersion: ''}}\nitems:\n"
        "- apiVersion: v1\n  kind: Mine\n  a: |\n    x\n"
        "- {apiVersion: v1, kind: Other}\n"
        "- apiVersion: v1\n  kind: Mine\n  b:\n  - c: 1\n"
        f"---\n{HEAD}"
    )
    first, second, third = read(content.encode(), "a.yaml", OURS)
    assert first.data == {"apiVersion": "v1", "kind": "Mine", "a": "x\n"}
    assert (first.line, first.line_of(("a",)), first.text_line(("a",))) == (5, 7, 8)
    assert second.data == {"apiVersion": "v1", "kind": "Mine", "b": [{"c": 1}]}
    assert (second.line, second.line_of(("b", 0, "c"))) == (10, 13)
    assert third.line == 15


@given(
    nested=st.recursive(
        st.fixed_dictionaries(
            {"apiVersion": st.just("v1"), "kind": st.sampled_from(["Mine", "Other"]), "n": st.integers(0, 9)}
        ),
        lambda items: st.fixed_dictionaries(
            {
                "kind": st.sampled_from(["List", "MineList"]),
                "apiVersion": st.just("v1"),
                "items": st.lists(items, max_size=4),
            }
        ),
        max_leaves=10,
    )
)
def test_a_list_says_what_its_items_say_as_documents_of_their_own(nested: dict[str, Any]) -> None:
    def flat(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "items" not in one:
            yield one
        for item in one.get("items", ()):
            yield from flat(item)

    alone = "".join(f"---\n{json.dumps(one)}\n" for one in flat(nested))
    found, expected = (read(text.encode(), "a.yaml", OURS) for text in (json.dumps(nested), alone))
    assert [one.data for one in found] == [one.data for one in expected]


@pytest.mark.parametrize(
    "content",
    [
        f"{LIST}items:\n- {{apiVersion: v1, kind: Other, a: *x, a: 2}}\n",
        f"{LIST}items: []\n",
        f"{LIST}items: none\n",
        f"{LIST}items: [Mine, 5, [a], {{x: 1}}]\n",
        f"{LIST}",
        f"kind: Other\napiVersion: v1\nitems: [{{{HEAD.strip().replace(chr(10), ', ')}}}]\n",
        "kind: OtherList\napiVersion: v1\nitems: *x\n",
        f"{LIST}spec: {{items: [{{{HEAD.strip().replace(chr(10), ', ')}}}]}}\n",
    ],
)
def test_foreign_items_are_not_our_business(content: str) -> None:
    assert read(content.encode(), "a.yaml", OURS) == ()


@pytest.mark.parametrize(
    ("content", "message", "line"),
    [
        (f"{LIST}items: *x\n", "is a list with items that an alias or a merge key hides", 3),
        (f"{LIST}items:\n- *x\n", "is a list with items that an alias or a merge key hides", 4),
        (f"{LIST}<<: *x\n", "is a list with items that an alias or a merge key hides", 1),
        (f"{LIST}items:\n- apiVersion: v1\n  <<: *x\n", "the merge key << is not allowed", 5),
        (f"{LIST}items:\n- apiVersion: v1\n  kind: Mine\n  a: 1\n  a: 2\n", "key 'a' is given twice", 7),
        (
            "apiVersion: v1\nkind: MineList\nitems:\n- a: 1\n",
            "is an item without a kind in a list of ours",
            4,
        ),
        ("x: &x List\napiVersion: v1\nkind: *x\nitems: []\n", "alias '*x' is not allowed", 3),
    ],
)
def test_an_item_that_could_be_ours_is_a_fault(content: str, message: str, line: int) -> None:
    assert [(fault.line, message) for fault in faults(content) if fault.message.startswith(message)] == [
        (line, message)
    ]


class EveryVersion:
    def __contains__(self, pair: object) -> bool:
        return isinstance(pair, tuple) and pair[1] == "Mine"


def test_a_missing_version_is_asked_for_as_empty() -> None:
    (document,) = read(b"kind: Mine\n", "a.yaml", EveryVersion())
    assert (document.api_version, document.kind) == ("", "Mine")


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.name)
def test_hostile_input_is_refused_by_name(case: HostileCase) -> None:
    found = faults(case.content)
    assert case.message in str(found[0])
    assert found[0].line == case.line
    assert found[0].hint


def test_all_faults_of_a_file_are_told() -> None:
    content = f"---\n{HEAD}a: &a 1\nb: *a\n---\nfoo: bar\n---\n{HEAD}x: 1\nx: 2\n---\n{HEAD}1: 2\n---\na: [\n"
    assert [fault.line for fault in faults(content)] == [4, 5, 12, 16, 19]


def test_faults_are_capped() -> None:
    found = faults(HEAD + "".join(f"a{i}: *a\n" for i in range(1000)))
    assert len(found) == MAX_FAULTS + 1
    assert found[-1] == Fault("a.yaml", 102, "more faults follow, which are not listed", "mend these first")
    assert len(faults(HEAD + "".join(f"a{i}: *a\n" for i in range(MAX_FAULTS)))) == MAX_FAULTS


def test_faults_never_carry_the_input() -> None:
    assert len(str(faults(HEAD + f"? {'k' * 900}\n: 1\n? {'k' * 900}\n: 2\n")[0])) < 200
    assert shown("a\x1b[31m" + "b" * 100) == repr("a\x1b[31m" + "b" * 51 + "...")


@given(
    st.binary(max_size=400)
    | st.text("ab:-[]{}&*!|>%'\"#,?\n\t 1<.~\\ux", max_size=80).map(lambda t: (HEAD + t).encode())
)
@settings(max_examples=400, deadline=None)
def test_any_bytes_give_documents_or_faults(content: bytes) -> None:
    try:
        documents = read(content, "a.yaml", OURS)
    except InvalidInput as error:
        assert error.faults  # noqa: PT017  (either outcome is right)
    else:
        for document in documents:
            assert json.loads(json.dumps(document.data, allow_nan=False)) == document.data
            assert all(
                1 <= line <= content.count(b"\n") + content.count(b"\r") + 1
                for line in document.lines.values()
            )


def test_the_largest_file_is_read() -> None:
    content = HEAD + "a: |\n" + "  x\n" * ((MAX_BYTES - 40) // 4)
    assert len(one(content.removeprefix(HEAD)).data["a"]) == ((MAX_BYTES - 40) // 4) * 2


@pytest.mark.parametrize("parser", ["libyaml", "pure"])
def test_hostile_input_costs_little_and_leaves_the_process_alive(parser: str) -> None:
    """In a process of its own with 400 MiB and a minute of CPU; `pure`: PyYAML without its C extension."""
    argv = [sys.executable, "-m", "tests.unit.hostile", parser]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    finished = run(argv, env=env, timeout=240, cwd=ROOT)
    assert (finished.status, finished.stderr) == (0, b"")
    assert finished.stdout.decode().split() == [parser, str(len(HOSTILE))]
