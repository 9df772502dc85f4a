from __future__ import annotations

import pytest

from reconciler.core.containerfile import Containerfile, Keyword, parse
from reconciler.errors import InvalidInput
from tests.unit.containerfile.samples import NAME


def instructions(text: str) -> list[tuple[str, int, tuple[str, ...]]]:
    file = parse(text, NAME)
    everything = [*file.globals]
    for stage in file.stages:
        everything += [stage.head, *stage.body]
    return [(one.keyword.value, one.line, one.words) for one in everything]


def body(text: str) -> list[tuple[str, int, tuple[str, ...]]]:
    return instructions("FROM x\n" + text)[1:]


def refused(text: str) -> list[tuple[int, str]]:
    with pytest.raises(InvalidInput) as caught:
        parse(text, NAME)
    return [(fault.line, fault.message) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RUN a", [("RUN", 2, ("a",))]),
        ("run  a   b  ", [("RUN", 2, ("a   b",))]),
        ("\tRUN\ta", [("RUN", 2, ("a",))]),
        ("# c\n\n  # d\nRUN a", [("RUN", 5, ("a",))]),
        ("RUN a \\\n  b", [("RUN", 2, ("a   b",))]),
        ("RUN a \\  \t\n b", [("RUN", 2, ("a  b",))]),
        ("RUN a\\\\\nb", [("RUN", 2, ("a\\b",))]),
        ("RUN a \\\n# c \\\n\n   # d\nb\nUSER u", [("RUN", 2, ("a b",)), ("USER", 7, ("u",))]),
        ("RUN a # b", [("RUN", 2, ("a # b",))]),
        ("RUN a \\", [("RUN", 2, ("a",))]),
        ("\\\n\nRUN a", [("RUN", 2, ("a",))]),
        ('RUN ["a", "b"]', [("RUN", 2, ("a", "b"))]),
        ('RUN [ "a" ] && b', [("RUN", 2, ("a",))]),
        ('RUN [ "$X" = a ] && b', [("RUN", 2, ('[ "$X" = a ] && b',))]),
        ("RUN ['a']", [("RUN", 2, ("['a']",))]),
        ('CMD ["\\ud800"]', [("CMD", 2, ("\ufffd",))]),
        ("ENV a=1 b='2 3'", [("ENV", 2, ("a", "1", "b", "'2 3'"))]),
        ("ENV a b c", [("ENV", 2, ("a", "b c"))]),
        ("ENV a=b\\ c d=e", [("ENV", 2, ("a", "b\\ c", "d", "e"))]),
        ('LABEL "a b"=c', [("LABEL", 2, ('"a b"', "c"))]),
        ("ARG a b=1", [("ARG", 2, ("a", "b=1"))]),
        ("EXPOSE 1  2", [("EXPOSE", 2, ("1", "2"))]),
        ("COPY a  b /c", [("COPY", 2, ("a", "b", "/c"))]),
        ('VOLUME ["/a b"]', [("VOLUME", 2, ("/a b",))]),
        ("ONBUILD RUN x", [("ONBUILD", 2, ("RUN x",))]),
        ("HEALTHCHECK --retries=2 CMD x y", [("HEALTHCHECK", 2, ("CMD", "x y"))]),
        ("HEALTHCHECK none", [("HEALTHCHECK", 2, ("none",))]),
        ("CMD", [("CMD", 2, ())]),
        ("ENTRYPOINT []", [("ENTRYPOINT", 2, ())]),
        ("MAINTAINER a b", [("MAINTAINER", 2, ("a b",))]),
        ("USER a\u00a0", [("USER", 2, ("a",))]),
    ],
)
def test_instructions_split_as_the_builder_splits_them(
    text: str, expected: list[tuple[str, int, tuple[str, ...]]]
) -> None:
    assert body(text) == expected


@pytest.mark.parametrize(
    "text", ["FROM x\nUSER u\n", "FROM x\nUSER u", "\ufeffFROM x\r\nUSER u\r\n", "FROM x\r\nUSER u\r"]
)
def test_line_ends_and_a_byte_order_mark_make_no_difference(text: str) -> None:
    assert instructions(text) == [("FROM", 1, ("x",)), ("USER", 2, ("u",))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# escape=`\nFROM x\nRUN a `\n b", ("a  b",)),
        ("  # ESCAPE = ` more\nFROM x\nRUN a `\n b", ("a  b",)),
        ("\ufeff#escape=`\nFROM x\nRUN a `\n b", ("a  b",)),
        ("# escape=`\nFROM x\nRUN a \\", ("a \\",)),
        ("# syntax=s\n# escape=`\nFROM x\nRUN a `", ("a `",)),
        ("\n# escape=`\nFROM x\nRUN a `", ("a `",)),
    ],
)
def test_the_escape_directive_counts_on_the_first_line_only(text: str, words: tuple[str, ...]) -> None:
    assert instructions(text)[-1][2] == words


def test_flags_lose_their_quotes_and_stop_at_a_double_dash() -> None:
    file = parse("FROM x\nCOPY --chown='1:2' --from=a\\b -- --chmod=1 /x", NAME)
    copy = file.stages[0].body[0]
    assert (copy.flags, copy.words) == (("--chown=1:2", "--from=ab"), ("--chmod=1", "/x"))


def heredocs(text: str) -> list[tuple[str, str, bool]]:
    file = parse("FROM x\n" + text, NAME)
    return [(one.name, one.body, one.expand) for one in file.stages[0].body[0].heredocs]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RUN <<EOF\na\nEOF", [("EOF", "\na", True)]),
        ("RUN <<EOF\nEOF", [("EOF", "", True)]),
        ("RUN <<'EOF'\n$a\n#c\n\\\nEOF", [("EOF", "\n$a\n#c\n\\", False)]),
        ('RUN <<"E F"\na\nE F', [("E F", "\na", False)]),
        ("RUN <<-EOF\n\ta\n\t EOF\n\tEOF", [("EOF", "\na\n EOF", True)]),
        ("RUN cat <<A <<B\n1\nA\n2\nB", [("A", "\n1", True), ("B", "\n2", True)]),
        ("RUN cat 3<<A > /x\n1\nA", [("A", "\n1", True)]),
        ("COPY <<A /x\r\nb\r\nA\r\n", [("A", "\nb", True)]),
        ("RUN echo '<<A' \"<<B\" \\<<C", []),
        ("RUN echo $((1<<2))", []),
        ("RUN a <<<b", []),
        ('RUN ["a", "<<b"]', []),
        ("ENV a=<<b", []),
        ("RUN echo ${x:-<<y}", []),
    ],
)
def test_heredocs_are_found_where_the_builder_finds_them(
    text: str, expected: list[tuple[str, str, bool]]
) -> None:
    assert heredocs(text) == expected


def test_a_heredoc_ends_the_instruction_and_needs_a_newer_buildah() -> None:
    file: Containerfile = parse("FROM x\nRUN <<A\nFROM y\nA\nUSER u", NAME)
    assert [one.keyword for one in file.stages[0].body] == [Keyword.RUN, Keyword.USER]
    assert [(one.since, one.line) for one in file.dialect] == [((1, 36), 2)]


def test_a_long_line_needs_a_newer_buildah() -> None:
    file = parse("FROM x\nRUN " + "a" * 70_000, NAME)
    assert [(one.since, one.line) for one in file.dialect] == [((1, 33), 2)]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 0, "no instructions"),
        ("# x\n", 0, "no instructions"),
        ("ARG a\n", 1, "no FROM"),
        ("LABEL a=b\nFROM x", 1, "before the first FROM"),
        ("FROM x\nFOO a", 2, "unknown instruction 'FOO'"),
        ("FROM x\n\\\n", 2, "unknown instruction ''"),
        ("FROM", 1, "FROM takes an image"),
        ("FROM x AS", 1, "FROM takes an image"),
        ("FROM x as a b", 1, "FROM takes an image"),
        ("FROM x\nRUN", 2, "RUN has no command"),
        ("FROM x\nRUN []", 2, "RUN has no command"),
        ("FROM x\nCOPY a", 2, "a source and a destination"),
        ("FROM x\nENV a", 2, "a name without a value"),
        ("FROM x\nENV a=1 b", 2, "is not of the form"),
        ("FROM x\nENV =1", 2, "without a name"),
        ("FROM x\nLABEL", 2, "needs an argument"),
        ("FROM x\nARG", 2, "needs an argument"),
        ("FROM x\nARG =a", 2, "without a name"),
        ("FROM x\nUSER", 2, "needs an argument"),
        ("FROM x\nVOLUME []", 2, "needs an argument"),
        ("FROM x\nSHELL sh", 2, "JSON array"),
        ("FROM x\nSHELL []", 2, "JSON array"),
        ('FROM x\nCMD ["a", 1]', 2, "strings only"),
        ("FROM x\nCMD " + "[" * 5000 + "]" * 5000, 2, "nested too deeply"),
        ("FROM x\nONBUILD", 2, "no instruction"),
        ("FROM x\nONBUILD FROM y", 2, "ONBUILD trigger"),
        ("FROM x\nONBUILD ONBUILD RUN y", 2, "ONBUILD trigger"),
        ("FROM x\nHEALTHCHECK", 2, "CMD or NONE"),
        ("FROM x\nHEALTHCHECK FOO", 2, "does not know"),
        ("FROM x\nHEALTHCHECK CMD", 2, "no command"),
        ("FROM x\nHEALTHCHECK NONE x", 2, "no arguments"),
        ("FROM x\nHEALTHCHECK --interval=5 CMD x", 2, "not a time"),
        ("FROM x\nHEALTHCHECK --interval=0s CMD x", 2, "not a time"),
        ("FROM x\nHEALTHCHECK --retries=0 CMD x", 2, "not a number"),
        ("FROM x\nCOPY --bogus a /x", 2, "does not know the flag"),
        ("FROM x\nCOPY --from a /x", 2, "has no value"),
        ("FROM x\nCOPY --from= a /x", 2, "has no value"),
        ("FROM x\nCOPY --link=no a /x", 2, "does not know the flag"),
        ("FROM x\nADD --keep-git-dir a /x", 2, "does not know the flag"),
        ("FROM x\nRUN --security=insecure a", 2, "does not know the flag"),
        ("FROM x\nENV --x a=b", 2, "does not know the flag"),
        ("FROM --after=y x", 1, "does not know the flag"),
        ("FROM x\nCOPY --chown=é a /x", 2, "outside ASCII"),
        ("FROM x\nRUN <<A\nb", 2, "does not end"),
        ("FROM x\nRUN cat << A\nb\nA", 2, "followed by a blank"),
        ("FROM x\nRUN echo $((1 <<2))", 2, "does not end"),
        ("FROM x\nRUN echo ' <<A", 2, "cannot split into words"),
        ("FROM x\nRUN cat <<a'b'\nab", 2, "as a delimiter"),
        ("# escape=x\nFROM x", 1, "invalid escape character"),
        ("# escape=`\n# escape=`\nFROM x", 2, "second escape"),
        ("FROM x\nUSER a\0", 2, "NUL"),
        ("FROM x\nUSER \ufeffa", 2, "byte-order mark"),
        ("FROM \ud800", 0, "not UTF-8"),
        ("FROM x\n" + "#" * (1 << 20), 0, "larger than"),
        ("FROM x\n" + "\n" * 30_000, 0, "lines"),
        ("FROM x\n" + "USER a\n" * 3_000, 2001, "instructions"),
    ],
)
def test_what_the_builder_refuses_is_a_fault(text: str, line: int, message: str) -> None:
    found = refused(text)
    assert [place for place, _ in found] == [line]
    assert message in found[0][1]


def test_all_faults_come_together_with_their_lines() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse("FROM x\nFOO\nUSER\n\nCOPY a\n", "machineosconfig.yaml", 10)
    assert [(fault.path, fault.line) for fault in caught.value.faults] == [
        ("machineosconfig.yaml", 11),
        ("machineosconfig.yaml", 12),
        ("machineosconfig.yaml", 14),
    ]
    assert all(fault.hint for fault in caught.value.faults)


def test_a_preprocessed_file_is_refused() -> None:
    with pytest.raises(InvalidInput, match="preprocessor"):
        parse("FROM x", "a/Containerfile.in")


def test_stages_and_globals_are_told_apart() -> None:
    file = parse("ARG a\nARG b\nFROM x AS one\nUSER u\nFROM one\n", NAME, 5)
    assert [one.line for one in file.globals] == [5, 6]
    assert [(one.position, one.base, one.name, len(one.body)) for one in file.stages] == [
        (0, "x", "one", 1),
        (1, "one", "", 0),
    ]


def test_a_trigger_may_hold_a_heredoc() -> None:
    assert body("ONBUILD RUN <<A\nFOO\nA\nUSER u") == [("ONBUILD", 2, ("RUN <<A",)), ("USER", 5, ("u",))]
    assert body("ONBUILD ENV a=<<A\nUSER u") == [("ONBUILD", 2, ("ENV a=<<A",)), ("USER", 3, ("u",))]
