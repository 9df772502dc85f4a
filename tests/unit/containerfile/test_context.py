from __future__ import annotations

import pytest

from reconciler.core.containerfile import ContextTree, IgnoreRules, effective_ignore, parse, specialise
from reconciler.core.model import Arch
from reconciler.errors import InvalidInput
from tests.unit.containerfile.samples import (
    NAME,
    Files,
    Link,
    canonical,
    context,
    faults,
    names,
    recipe,
    taken,
)

FILES = {
    **names("a", "b.txt", "dir/x", "dir/sub/y", "dir/sub/z.md", "d2/keep", "d2/q/keep", "sp ace", ".hid"),
    "la": Link("a"),
    "ld": Link("dir"),
    "l2": Link("ld/sub"),
    "abs": Link("/dir"),
    "d2/up": Link("../dir"),
}
DIR = ["dir/sub/y", "dir/sub/z.md", "dir/x"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("COPY a /x", ["a"]),
        ("COPY ./a /x", ["a"]),
        ("COPY /a /x", ["a"]),
        ("COPY ../../a /x", ["a"]),
        ("COPY dir /x", DIR),
        ("COPY dir/ /x", DIR),
        ("COPY dir/./sub/../x /x", ["dir/x"]),
        ("COPY *.txt dir/*/*.md /x/", ["b.txt", "dir/sub/z.md"]),
        ("COPY ?.txt /x/", ["b.txt"]),
        ("COPY [a-b]* /x/", None),
        ("COPY a nope* /x/", ["a"]),
        ('COPY ["sp ace", "/x"]', ["sp ace"]),
        ("COPY la /x", ["a", "la"]),
        ("COPY ld /x", [*DIR, "ld"]),
        ("COPY ld/x /x", ["dir/x", "ld"]),
        ("COPY ld/sub/y /x", ["dir/sub/y", "ld"]),
        ("COPY l2 /x", ["dir/sub/y", "dir/sub/z.md", "l2", "ld"]),
        ("COPY d2 /x", ["d2/keep", "d2/q/keep", "d2/up"]),
        ("COPY dir/** /x/", DIR),
        ("COPY **/keep /x/", ["d2/keep", "d2/q/keep"]),
        ("COPY $E /x/", None),
        ("ADD a https://q.io/f /x/", ["a"]),
        ("ADD https://q.io/f /x/", []),
        ("COPY --from=q.io/b:1 a /x", []),
        ("COPY <<A /x\nb\nA", []),
        ("COPY --exclude=x dir /x", DIR),
        ("RUN --mount=type=bind,source=dir/sub,target=/m x", ["dir/sub/y", "dir/sub/z.md"]),
        ("RUN --mount=target=/m,source=/a x", ["a"]),
        ("RUN --mount=type=cache,target=/m x", []),
        ("RUN --mount=type=bind,from=q.io/b:1,source=dir,target=/m x", []),
    ],
)
def test_instructions_take_what_the_builder_takes(line: str, expected: list[str] | None) -> None:
    files = {path: content for path, content in FILES.items() if path != "abs"}
    everything = sorted(path for path in files if path[0] in "ab" or line.startswith("COPY $"))
    assert taken(f"FROM scratch\n{line}", files) == (everything if expected is None else expected)


@pytest.mark.parametrize(
    ("line", "ignore", "expected"),
    [
        ("COPY . /x", "*", []),
        ("COPY . /x", "*\n!dir/sub", ["dir/sub/y", "dir/sub/z.md"]),
        ("COPY dir /x", "dir/sub", ["dir/x"]),
        ("COPY dir/sub /x", "*\n!dir/sub/y", ["dir/sub/y"]),
        ("COPY dir /x", "**/x\n**/*.md", ["dir/sub/y"]),
        ("COPY d2 /x", "**/keep", ["d2/up"]),
        ("COPY . /x", "*\n!**/keep", []),
        ("COPY . /x", "*\n!d2/**/keep", ["d2/keep"]),
        ("COPY dir /x", "# dir\n\n /dir\ndir/x ", ["dir/sub/y", "dir/sub/z.md"]),
        ("COPY dir /x", "!dir/x\ndir/x", ["dir/sub/y", "dir/sub/z.md"]),
        ("COPY dir /x", "dir/x\n!dir/x", DIR),
        ("COPY dir /x", "dir/x\r\n", ["dir/sub/y", "dir/sub/z.md"]),
        ("COPY dir/sub /x", "**/y\n**/*.md", []),
        ("RUN --mount=target=/m,source=dir x", "dir", DIR),
        ("COPY <<A a /x/\nb\nA", "A", ["a"]),
    ],
)
def test_ignore_rules_apply_to_copies_and_not_to_mounts(line: str, ignore: str, expected: list[str]) -> None:
    assert taken(f"FROM scratch\n{line}", {**FILES, ".containerignore": ignore}) == expected


def test_a_bound_context_is_the_whole_context() -> None:
    files = {**names("a", "b/c"), ".dockerignore": "*"}
    found = recipe("FROM q.io/a:1\nRUN --mount=type=bind,target=/m x", files)
    assert found.binds_context
    assert [entry.path for entry in found.context] == [".dockerignore", "a", "b/c"]
    assert taken("FROM q.io/a:1\nRUN --mount=type=bind,source=nope,target=/m x", files) == [
        ".dockerignore",
        "a",
        "b/c",
    ]


def test_an_unknown_source_takes_everything() -> None:
    assert taken("FROM q.io/a:1\nCOPY x$FOO /y", names("a", "b/c")) == ["a", "b/c"]


def test_files_of_unused_stages_do_not_count() -> None:
    assert taken("FROM scratch AS u\nCOPY nope /x\nFROM scratch\nCOPY a /x", names("a", "b")) == ["a"]


def test_with_a_mount_each_copy_lists_what_it_takes() -> None:
    text = "FROM q.io/a:1\nRUN --mount=source=d,target=/m x\nCOPY d /y"
    before = canonical(text, {**names("d/a", "d/b"), ".containerignore": "d/b"})
    after = canonical(text, {**names("d/a", "d/b"), ".containerignore": "d/c"})
    assert before[0]["ops"][1]["taken"] == ["d/a"]
    assert after[0]["ops"][1]["taken"] == ["d/a", "d/b"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("COPY nope /x", "no such file in the context: 'nope'"),
        ("COPY nope* /x", "no such file in the context: 'nope*'"),
        ("COPY a nope /x", "no such file in the context: 'nope'"),
        ("COPY dangling /x", "leads nowhere"),
        ("COPY loop /x", "leads nowhere"),
        ("COPY out /x", "outside the context"),
        ("COPY abs /x", "outside the context"),
        ("COPY out/f /x", "no such file"),
        ("COPY folder /x", "outside the context"),
        ("COPY a[ /x", "bad pattern"),
        ("COPY https://q.io/f /x", "COPY does not take a URL"),
        ("ADD --checksum=sha256:0 https://q.io/f /x", "not a digest"),
        ("ADD --checksum=sha256:" + "0" * 64 + " a /x", "URLs only"),
        ("COPY --chmod=9 a /x", "octal"),
        ("RUN --mount=source=folder,target=/m x", "outside the context"),
    ],
)
def test_sources_that_cannot_be_built_from_are_faults(line: str, message: str) -> None:
    files: Files = {
        "a": "a",
        "dangling": Link("nope"),
        "loop": Link("loop"),
        "out": Link("../out"),
        "abs": Link("/a"),
        "folder/in": Link("../../out"),
    }
    found = faults(f"FROM scratch\n{line}", files)
    assert [(place, message in text) for place, text in found] == [(2, True)]


def test_an_ignored_source_says_so() -> None:
    with pytest.raises(InvalidInput) as caught:
        recipe("FROM scratch\nCOPY a /x", {**names("a"), ".dockerignore": "a"})
    assert caught.value.faults[0].hint == "is it ignored by .dockerignore?"


def test_submodules_and_lfs_pointers_are_faults_where_they_are_taken() -> None:
    tree = context(names("ok/a", "bad/b"), lfs=("bad/b",), submodules=("bad/sub",))
    file = parse("FROM scratch\nCOPY ok /x\nCOPY bad /x\nCOPY bad/sub /y", NAME)
    with pytest.raises(InvalidInput) as caught:
        specialise(file, Arch.AMD64, tree)
    assert [(fault.line, fault.message.split(" is ")[0]) for fault in caught.value.faults] == [
        (3, "bad/b"),
        (3, "bad/sub"),
    ]
    assert specialise(parse("FROM scratch\nCOPY ok /x", NAME), Arch.AMD64, tree).context


def test_unpinned_downloads_are_volatile() -> None:
    commit = "0" * 40
    text = f"""FROM scratch
ADD https://q.io/f /x
ADD --checksum=sha256:{"0" * 64} https://q.io/f /x
ADD https://q.io/r.git#main /x
ADD https://q.io/r.git#{commit} /x
"""
    assert [one.line for one in recipe(text).warnings] == [2, 4]


@pytest.mark.parametrize(
    ("files", "name", "expected"),
    [
        ([".containerignore", ".dockerignore"], "", ".containerignore"),
        ([".dockerignore"], "Containerfile", ".dockerignore"),
        (
            [".containerignore", "Containerfile.containerignore"],
            "Containerfile",
            "Containerfile.containerignore",
        ),
        (["C.containerignore", "C.dockerignore"], "C", "C.dockerignore"),
        (["C.containerignore"], "", None),
        ([], "C", None),
    ],
)
def test_one_ignore_file_counts(files: list[str], name: str, expected: str | None) -> None:
    assert effective_ignore(files, name) == expected


def test_bad_patterns_are_faults_with_their_lines() -> None:
    with pytest.raises(InvalidInput) as caught:
        IgnoreRules.parse("ok\na[\n!\nc++\n\\d\nb\\\n[z-a]\n", ".dockerignore")
    assert [(fault.path, fault.line) for fault in caught.value.faults] == [
        (".dockerignore", line) for line in (2, 3, 4, 5, 6, 7)
    ]
    assert IgnoreRules.parse("c\\+\\+").excludes("c++")


def test_a_pattern_takes_linear_time() -> None:
    rules = IgnoreRules.parse("*a*a*a*a*a*a*a*a*a*a*a*a*b\n**/a/**/a/**/a/**/a/**/b")
    assert not rules.excludes("a" * 5_000)
    assert not rules.excludes("a/" * 2_000 + "c")


def test_an_empty_context_is_enough_without_sources() -> None:
    assert specialise(parse("FROM scratch\nCOPY . /x", NAME), Arch.AMD64, ContextTree()).context == ()
