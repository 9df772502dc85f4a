from __future__ import annotations

import json

import pytest

from reconciler.core.model import Arch
from tests.unit.containerfile.samples import Link, Program, canonical, last_config, names, recipe

BASE = """FROM q.io/a:1 AS build
ARG V=1
RUN make
FROM q.io/b:1
COPY --from=build /f /g
COPY a /h
ENV X=1
RUN run $X
LABEL l=1
CMD x
"""
FILES = names("a", "b")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("RUN make", "# comment\n\nrun   make   "),
        ("RUN run", "RUN \\\n# c\nrun"),
        ("build", "compile"),
        ("FROM q.io/a:1 AS build", "ARG UNUSED=1\nFROM q.io/a:1 AS build"),
        ("FROM q.io/a:1 AS build", "FROM q.io/z:1 AS unused\nRUN z\nFROM q.io/a:1 AS build"),
        ("--from=build", "--from=0"),
        ("COPY a /h", "COPY ./b/../a //h"),
        ("LABEL l=1", "LABEL l=2\nLABEL l=1"),
        ("ENV X=1\n", "ENV X='1'\n"),
        ("CMD x", "MAINTAINER me\nCMD x"),
        ("CMD x", "HEALTHCHECK CMD y\nONBUILD RUN y\nCMD x"),
        ("CMD x", "CMD y\nCMD x"),
        ("CMD x", 'CMD x\nSHELL ["a"]'),
        ("RUN make", "RUN make\nARG AFTER=1\nLABEL only=build\nEXPOSE 1"),
        ("CMD x", "CMD x\nARG AFTER=1"),
        ("ARG V=1", "ARG V=2\nARG V=1"),
        ("ENV X=1", "ARG X=3\nENV X=1"),
        ("RUN run", "RUN --network=default run"),
    ],
)
def test_what_has_no_effect_is_not_in_the_canonical_form(old: str, new: str) -> None:
    assert canonical(BASE.replace(old, new), FILES) == canonical(BASE, FILES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("RUN make", "RUN  make x"),
        ("RUN run $X", "RUN run  $X"),
        ("RUN make", 'RUN ["make"]'),
        ("RUN make", 'SHELL ["bash", "-c"]\nRUN make'),
        ("ARG V=1", "ARG V=2"),
        ("ARG V=1", "ARG V=1 W=2"),
        ("ENV X=1", "ENV X=2"),
        ("ENV X=1", "ENV X=1\nUSER u"),
        ("ENV X=1", "ENV X=1\nWORKDIR /w"),
        ("ENV X=1", "ENV X=1\nVOLUME /v"),
        ("COPY a /h", "COPY a /h/"),
        ("COPY a /h", "COPY --chown=1 a /h"),
        ("COPY a /h", "COPY --chmod=1 a /h"),
        ("COPY a /h", "ADD a /h"),
        ("COPY a /h", "COPY a b /h/"),
        ("RUN make", "RUN make\nUSER u\nRUN make"),
        ("RUN make", "RUN --mount=type=secret,id=s make"),
        ("RUN make", "RUN --network=none make"),
        ("LABEL l=1", "LABEL l=2"),
        ("LABEL l=1", "LABEL l=1\nSTOPSIGNAL 9"),
        ("CMD x", "CMD x\nENTRYPOINT y"),
        ("q.io/a:1", "q.io/a:2"),
        ("FROM q.io/a:1 AS", "FROM --platform=linux/amd64 q.io/a:1 AS"),
    ],
)
def test_what_has_an_effect_is_in_the_canonical_form(old: str, new: str) -> None:
    assert canonical(BASE.replace(old, new), FILES) != canonical(BASE, FILES)


GLOB = "FROM q.io/a:1\nCOPY d/?.txt /x/"


@pytest.mark.parametrize(
    "copy",
    [
        "COPY d/1.txt d/2.txt /x/",
        "COPY d/2.txt d/1.txt /x/",
        "COPY d/[12].txt /x/",
        "COPY d/2* d/1* /x/",
        'COPY ["./d/2.txt", "d/../d/1.txt", "/x/"]',
    ],
)
def test_files_of_a_copy_are_named_one_by_one_in_order(copy: str) -> None:
    files = names("d/1.txt", "d/2.txt", "d/other")
    assert canonical(f"FROM q.io/a:1\n{copy}", files) == canonical(GLOB, files)
    assert canonical(GLOB, files)[0]["ops"][0]["sources"] == ["d/1.txt", "d/2.txt"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # The last of one name counts.
        ("COPY d/1.txt e/1.txt /x/", "COPY e/1.txt d/1.txt /x/"),
        ("COPY */1.txt /x/", "COPY e/1.txt d/1.txt /x/"),
        # Without a slash all may go to one file.
        ("COPY d/?.txt /x", "COPY d/1.txt d/2.txt /x"),
        ("COPY d/?.txt $HOME", "COPY d/1.txt d/2.txt $HOME"),
        # Folders overlap, archives unpack, parents are kept.
        ("COPY d e /x/", "COPY e d /x/"),
        ("COPY d e/1.txt /x/", "COPY e/1.txt d /x/"),
        ("ADD d/1.txt d/2.txt /x/", "ADD d/2.txt d/1.txt /x/"),
        ("COPY --parents d/?.txt /x/", "COPY --parents d/1.txt d/2.txt /x/"),
        ("COPY --exclude=1.txt d/1.txt d/2.txt /x/", "COPY --exclude=1.txt d/2.txt d/1.txt /x/"),
        # What is found by this name is looked up once more, as a pattern.
        ("COPY [[]1].txt d/1.txt /x/", "COPY d/1.txt [[]1].txt /x/"),
        # Files of images and stages are not known.
        ("COPY --from=q.io/b:1 d/1.txt d/2.txt /x/", "COPY --from=q.io/b:1 d/2.txt d/1.txt /x/"),
        # Two copies look for their folder twice, and the first may have changed the way there.
        ("COPY d/1.txt d/2.txt /x/", "COPY d/1.txt /x/\nCOPY d/2.txt /x/"),
        ("COPY d/1.txt d/2.txt /x/", "COPY --chmod=644 d/1.txt d/2.txt /x/"),
    ],
)
def test_sources_whose_order_or_form_may_show_stay_as_written(one: str, other: str) -> None:
    files = names("d/1.txt", "d/2.txt", "e/1.txt", "[1].txt")
    assert canonical(f"FROM q.io/a:1\n{one}", files) != canonical(f"FROM q.io/a:1\n{other}", files)


@pytest.mark.parametrize(
    ("one", "other", "same"), [("755", "0755", True), ("5", "0000005", True), ("755", "4755", False)]
)
def test_a_mode_is_a_number(one: str, other: str, same: bool) -> None:
    texts = [f"FROM q.io/a:1\nCOPY --chmod={mode} a /h" for mode in (one, other)]
    assert (canonical(texts[0], FILES) == canonical(texts[1], FILES)) is same


@pytest.mark.parametrize(
    ("lines", "counts"),
    [
        ("COPY --chmod=700 a /x", False),
        ("ADD --chmod=700 a /x", False),
        ("COPY --chmod=700 . /x", False),
        ("COPY --chmod=$M a /x", False),
        ("COPY --chmod=700 a /x\nCOPY --chmod=600 a /y", False),
        ("COPY a /x", True),
        ("COPY --chown=1:1 a /x", True),
        ("COPY --chmod=$HOME a /x", True),
        ("COPY --chmod=700 a /x\nCOPY a /y", True),
        ("COPY a /y\nCOPY --chmod=700 a /x", True),
        ("COPY --chmod=700 a /x\nRUN --mount=type=bind,source=a,target=/m x", True),
        ("COPY --chmod=700 a /x\nRUN --mount=type=bind,target=/m x", True),
    ],
)
def test_a_mode_counts_where_a_copy_or_a_mount_shows_it(lines: str, counts: bool) -> None:
    text = f"FROM q.io/a:1\nARG M=755\n{lines}"
    plain, program = (recipe(text, {"a": content}) for content in ("a", Program("a")))
    assert (plain.context != program.context) is counts
    assert plain.canonical == program.canonical


def test_a_link_is_no_file_whatever_the_mode() -> None:
    text = "FROM q.io/a:1\nCOPY --chmod=700 d /x"
    linked, copied = (recipe(text, {"d/a": "a", "d/b": one}) for one in (Link("a"), "a"))
    assert linked.context != copied.context


def test_a_directory_that_a_run_removed_comes_back_with_the_next_instruction() -> None:
    assert canonical("FROM q.io/a:1\nWORKDIR /w\nRUN rmdir /w") != canonical(
        "FROM q.io/a:1\nWORKDIR /w\nRUN rmdir /w\nARG x"
    )


def test_a_run_carries_all_that_it_sees() -> None:
    text = """FROM q.io/a:1 AS p
ARG P=1
ENV E=1
FROM p
ARG TARGETARCH
ARG A=2
ENV A=3
VOLUME /v
USER u
WORKDIR w
RUN --mount=type=tmpfs,target=/t --network=host x \\
  y
"""
    assert canonical(text)[1]["ops"][-1] == {
        "op": "run",
        "dialect": "sh",
        "text": "x   y",
        "env": {"A": "3", "E": "1"},
        "args": {"TARGETARCH": "arm64"},
        "inherited": {"P": "1"},
        "user": "u",
        "volumes": ["/v"],
        "workdir": [{"operation": "workdir", "operands": []}, "/w"],
        "mounts": [{"fields": ["type=tmpfs", "target=/t"]}],
        "network": "host",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RUN <<A\na\nb\nA", {"dialect": "sh", "text": "\na\nb"}),
        ("RUN <<'A'\na\nA", {"dialect": "sh", "text": "\na"}),
        ("RUN <<A\n#!/bin/python\na\nA", {"dialect": "script", "text": "\n#!/bin/python\na"}),
        ("RUN cat <<A > /x\na\nA", {"dialect": "sh", "text": "cat <<A > /x\na\nA"}),
        ("RUN cat <<A <<B\na\nA\nb\nB", {"dialect": "sh", "text": "cat <<A <<B\na\nA\nb\nB"}),
        ('RUN ["a", "b"]', {"dialect": "exec", "argv": ["a", "b"]}),
        ('SHELL ["s"]\nRUN a', {"dialect": "sh", "text": "a", "shell": ["s"]}),
        ('SHELL ["s"]\nRUN ["a"]', {"dialect": "exec", "argv": ["a"]}),
    ],
)
def test_the_text_of_a_run_is_what_the_shell_gets(text: str, expected: dict[str, object]) -> None:
    assert canonical("FROM q.io/a:1\n" + text)[0]["ops"] == [{"op": "run", **expected}]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a=$A ${A}", {"text": "a=1 1\n"}),
        ("a='$A' \"$A\" \\$A", {"text": "a='$A' \"1\" \\$A\n"}),
        ("", {"text": "\n"}),
        ("$A${A:-x}$B", {"template": "$A${A:-x}$B\n", "variables": {"A": "1", "B": "", "x": ""}}),
    ],
)
def test_heredoc_files_are_expanded(body: str, expected: dict[str, object]) -> None:
    found = canonical(f"FROM scratch\nENV A=1\nCOPY <<F /x\n{body}\nF")
    assert found[0]["ops"][0]["files"] == [{"name": "F", **expected}]
    quoted = canonical(f"FROM scratch\nENV A=1\nCOPY <<'F' /x\n{body}\nF")
    assert quoted[0]["ops"][0]["files"] == [{"name": "F", "text": body + "\n"}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COPY a /x//y/../z", "/x/z"),
        ("COPY a /x/", "/x/"),
        ("COPY a /x/.", "/x/"),
        ("COPY a x", "/x"),
        ("WORKDIR /w\nCOPY a x/", "/w/x/"),
        ("WORKDIR /w\nCOPY a .", "/w/"),
        ("WORKDIR /w\nCOPY a ./", "/w/"),
        ("WORKDIR /w\nCOPY a ..", "/"),
    ],
)
def test_destinations_are_absolute(text: str, expected: str) -> None:
    assert canonical("FROM scratch\n" + text, FILES)[0]["ops"][-1]["destination"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM q.io/a:1\nCMD a b", {"Cmd": ["/bin/sh", "-c", "a b"]}),
        ('FROM q.io/a:1\nCMD ["a"]', {"Cmd": ["a"]}),
        ("FROM q.io/a:1\nCMD", {"Cmd": ["/bin/sh", "-c"]}),
        ("FROM q.io/a:1\nENTRYPOINT e", {"Cmd": [], "Entrypoint": ["/bin/sh", "-c", "e"]}),
        ('FROM q.io/a:1\nCMD ["c"]\nENTRYPOINT ["e"]', {"Cmd": ["c"], "Entrypoint": ["e"]}),
        ('FROM q.io/a:1 AS s\nCMD ["c"]\nFROM s\nENTRYPOINT ["e"]', {"Cmd": [], "Entrypoint": ["e"]}),
        ("FROM q.io/a:1\nENTRYPOINT", {"Cmd": [], "Entrypoint": []}),
        ("FROM q.io/a:1\nEXPOSE 2 1/udp\nEXPOSE 2/tcp", {"ExposedPorts": ["1/udp", "2/tcp"]}),
        ("FROM q.io/a:1\nVOLUME /b /a\nVOLUME /a", {"Volumes": ["/a", "/b"]}),
        ("FROM q.io/a:1\nUSER u\nUSER v", {"User": "v"}),
        ("FROM q.io/a:1\nWORKDIR /a\nWORKDIR b/../c", {"WorkingDir": "/a/c"}),
        ("FROM q.io/a:1\nSTOPSIGNAL rtmin+3", {"StopSignal": "rtmin+3"}),
        (
            "FROM q.io/a:1 AS s\nLABEL a=1 b=2\nUSER u\nFROM s\nLABEL b=3",
            {"Labels": {"a": "1", "b": "3"}, "User": "u"},
        ),
        ("FROM q.io/a:1 AS s\nLABEL a=1\nFROM q.io/b:1\nCOPY --from=s a b", {}),
    ],
)
def test_the_configuration_of_the_result(text: str, expected: dict[str, object]) -> None:
    assert last_config(text) == expected


def test_architectures_differ_only_where_the_text_says_so() -> None:
    forms = {json.dumps(canonical(BASE, FILES, arch)) for arch in Arch}
    assert len(forms) == 1
    text = BASE.replace("CMD x", "ARG TARGETARCH\nCMD x")
    assert len({json.dumps(canonical(text, FILES, arch)) for arch in Arch}) == 1
    text = BASE.replace("ENV X=1", "ARG TARGETARCH\nENV X=1")
    assert len({json.dumps(canonical(text, FILES, arch)) for arch in Arch}) == 4


def test_steps_tell_what_counts_for_the_architecture() -> None:
    text = """ARG T=1
FROM q.io/u:1 AS unused
RUN u
FROM q.io/a:$T AS build
ARG TARGETARCH
LABEL inert=1
RUN --mount=from=q.io/m:1,target=/m make \\
  $TARGETARCH
ARG INERT
FROM q.io/b:1
ARG TARGETARCH
COPY --from=build /f-$TARGETARCH /g
MAINTAINER me
LABEL l=$TARGETARCH
"""
    assert [(step.line, step.keyword, step.text) for step in recipe(text).steps] == [
        (4, "FROM", "FROM q.io/a:1"),
        (5, "ARG", "ARG TARGETARCH=arm64"),
        (7, "RUN", "RUN --mount=target=/m,from=q.io/m:1 make   $TARGETARCH"),
        (10, "FROM", "FROM q.io/b:1"),
        (12, "COPY", "COPY --from=stage:0 /f-arm64 /g"),
        (14, "LABEL", "LABEL l=arm64"),
    ]


def test_what_an_image_cannot_hold_is_warned_about() -> None:
    text = 'FROM q.io/a:1\nHEALTHCHECK NONE\nONBUILD RUN x\nSHELL ["a"]\n'
    assert [
        (one.line, one.message.partition(" hold ")[2].split(",")[0].split(":")[0])
        for one in recipe(text).warnings
    ] == [
        (2, "HEALTHCHECK"),
        (3, "ONBUILD"),
        (4, "SHELL"),
    ]
    assert recipe("FROM q.io/a:1 AS u\nHEALTHCHECK NONE\nFROM q.io/a:1").warnings == ()


def test_a_volume_at_the_end_of_a_stage_leaves_its_folders() -> None:
    split, joined = "FROM q.io/a:1\nVOLUME /a\nVOLUME /b", "FROM q.io/a:1\nVOLUME /a /b"
    assert canonical(split) != canonical(joined)
    assert canonical(f"{split}\nLABEL x=1") == canonical(f"{joined}\nLABEL x=1")
    assert canonical(f"{joined}\nLABEL x=1") != canonical("FROM q.io/a:1\nLABEL x=1\nVOLUME /a /b")
