from __future__ import annotations

import pytest

from reconciler.core.model import Arch
from tests.unit.containerfile.samples import canonical, faults, labels, last_config, recipe

HEAD = "FROM scratch\nARG TARGETARCH\nENV A=1 B=two E= P=path/to/file.tar.gz\n"


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("$A", "1"),
        ("${A}x", "1x"),
        ("$Ax", ""),
        ("'$A'", "$A"),
        ('"$A"', "1"),
        ("\\$A", "$A"),
        ('"\\$A"', "$A"),
        ('"a\\b"', "a\\b"),
        ("a\\\\b", "a\\b"),
        ("${U:-d}", "d"),
        ("${E:-d}", "d"),
        ("${A:-d}", "1"),
        ("${A:+d}", "d"),
        ("${U:+d}", ""),
        ("${U:-${A}z}", "1z"),
        ("${U:-'a b'}", "a b"),
        ("${A:?no}", "1"),
        ("${U:?d}", "d"),
        ("$1", ""),
        ("$12", "2"),
        ("$", "$"),
        ("${}", ""),
        ("$TARGETARCH", "arm64"),
        ("$BUILDARCH", ""),
        ("$PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("${P#path/}", "to/file.tar.gz"),
        ("${P#*/}", "to/file.tar.gz"),
        ("${P##*.}", "path/to/file.tar.gz"),
        ("${P%.*}", "path/to/file.tar"),
        ("${P%%.*}", "path/to/file"),
        ("${B%o}", "tw"),
        ("${B#two}", "two"),
        ("${P/t/T}", "paTh/to/file.tar.gz"),
        ("${P//t/T}", "paTh/To/file.Tar.gz"),
        ("${P/#path/x}", "x/to/file.tar.gz"),
        ("${P/%gz/x}", "path/to/file.tar.x"),
        ("${P//[aeiou]}", "pth/t/fl.tr.gz"),
        ("${B/[/x}", "two"),
    ],
)
def test_words_expand_as_the_builder_expands_them(word: str, value: str) -> None:
    assert labels(f"{HEAD}LABEL l={word}")["l"] == value


@pytest.mark.parametrize(
    "word",
    ["${x-y}", "${x+y}", "${x:0:2}", "${x^^}", "${x", "'x", '"x', "${U:?}", "${A#}", "${A/}", "${A/#/x}"],
)
def test_forms_that_the_builder_refuses_are_faults(word: str) -> None:
    assert [line for line, _ in faults(f"{HEAD}LABEL l={word}")] == [4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM scratch\nARG A=1 C=${A}\nLABEL l=$A$C", "1"),
        ("FROM scratch\nARG A=1\nARG C=${A}\nLABEL l=$A$C", "11"),
        ("FROM scratch\nENV A=1 C=$A\nLABEL l=$A-$C", "1-"),
        ("FROM scratch\nENV A=env\nARG A=arg\nLABEL l=$A", "env"),
        ("FROM scratch\nARG A=arg\nENV A=env\nLABEL l=$A", "env"),
        ("FROM scratch AS s\nENV A=env\nFROM s\nARG A=arg\nLABEL l=$A", "env"),
        ("ARG A=1\nFROM scratch\nLABEL l=x$A", "x"),
        ("ARG A=1\nFROM scratch\nARG A\nLABEL l=x$A", "x1"),
        ("ARG A=1\nFROM scratch\nARG A=2\nLABEL l=x$A", "x2"),
        ("FROM scratch\nARG A=1\nARG A\nLABEL l=x$A", "x1"),
        ("FROM scratch\nLABEL l=x$TARGETARCH", "x"),
        ("FROM scratch\nARG TARGETARCH=foo\nLABEL l=$TARGETARCH", "arm64"),
        ("FROM scratch\nARG TARGETPLATFORM\nLABEL l=$TARGETPLATFORM", "linux/arm64"),
        ("FROM scratch\nARG BUILDARCH\nLABEL l=$BUILDARCH", "arm64"),
        ("ARG V=x-$TARGETARCH\nFROM scratch\nARG V\nLABEL l=$V", "x-arm64"),
        ("FROM scratch AS s\nARG A=1\nFROM s\nLABEL l=x$A", "x1"),
        ("FROM scratch AS s\nARG A=1\nFROM s\nARG A\nLABEL l=x$A", "x1"),
        ("FROM scratch AS s\nARG A=1 B=$A\nFROM s\nLABEL l=x$B", "x1"),
    ],
)
def test_arguments_and_environment_have_the_builders_scopes(text: str, expected: str) -> None:
    assert labels(text)["l"] == expected


def test_predefined_arguments_follow_the_architecture() -> None:
    text = "FROM scratch\nARG TARGETARCH\nLABEL l=$TARGETARCH"
    assert {labels(text, arch)["l"] for arch in Arch} == {"amd64", "arm64", "ppc64le", "s390x"}


def test_a_platform_takes_no_default() -> None:
    assert faults("FROM scratch\nARG TARGETPLATFORM=x") == [(2, "TARGETPLATFORM cannot have a default")]
    assert faults("ARG BUILDPLATFORM=x\nFROM scratch") == [(1, "BUILDPLATFORM cannot have a default")]


def test_what_only_the_base_image_knows_stays_symbolic() -> None:
    found = last_config("FROM q.io/a:1\nENV PATH=/opt:$PATH\nLABEL l=${Y:-z} m=${PATH:+x} n=${Y#a}")
    assert found["Env"] == {"PATH": ["/opt:", {"variable": "PATH"}]}
    assert found["Labels"] == {
        "l": [{"operation": ":-", "operands": [[{"variable": "Y"}], "z"]}],
        "m": "x",
        "n": [{"operation": "#", "operands": [[{"variable": "Y"}], "a"]}],
    }


def test_an_escaped_variable_is_not_taken_for_an_unknown_one() -> None:
    assert canonical("FROM q.io/a:1\nLABEL l=\\$X") != canonical("FROM q.io/a:1\nLABEL l=$X")


def test_names_that_the_base_image_may_set_are_told() -> None:
    assert recipe("FROM q.io/a:1\nARG V=1\nLABEL l=$V").assumes == ("V",)
    assert recipe("FROM q.io/a:1\nARG V=1\nRUN x").assumes == ("V",)
    assert recipe("FROM q.io/a:1\nARG V=1\nENV V=2\nLABEL l=$V").assumes == ()
    assert recipe("FROM scratch\nARG V=1\nLABEL l=$V").assumes == ()


def test_expose_splits_what_a_variable_brings() -> None:
    assert last_config('FROM scratch\nENV P="1 2/udp" Q=3\nEXPOSE $P "$Q" 5-7')["ExposedPorts"] == [
        "1/tcp",
        "2/udp",
        "3/tcp",
        "5-7/tcp",
    ]
    assert faults("FROM scratch\nEXPOSE $X") == [(2, "EXPOSE names no port")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FROM scratch\nENV A=xx\n" + "ENV A=$A$A\n" * 30, "longer than"),
        ("FROM q.io/a:1\n" + "ENV A=${A:-x}\n" * 60, "nested too deeply"),
        ("FROM scratch\nLABEL l=" + "${a:-" * 500 + "}" * 500, "nested too deeply"),
        ("FROM scratch\n" + "".join(f"ENV A{n}={'x' * 400}\nRUN a\n" for n in range(900)), "expands to more"),
    ],
)
def test_growth_is_bounded(text: str, message: str) -> None:
    assert message in faults(text)[0][1]


def test_names_must_be_known() -> None:
    assert [line for line, _ in faults("FROM q.io/a:1\nENV $X=1\nLABEL $Y=2\nARG $Z=3")] == [2, 3, 4]
