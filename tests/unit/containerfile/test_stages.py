from __future__ import annotations

import pytest

from reconciler.core.model import Arch
from tests.unit.containerfile.samples import canonical, faults, names, recipe


def bases(text: str, arch: Arch = Arch.ARM64) -> list[str]:
    return [stage["base"] for stage in canonical(text, names("a"), arch)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM q.io/a:1", ["q.io/a:1"]),
        ("FROM q.io/a:1 AS x\nFROM q.io/b:1", ["q.io/b:1"]),
        ("FROM q.io/a:1 AS x\nFROM x", ["q.io/a:1", "stage:0"]),
        ("FROM q.io/a:1\nFROM 0", ["q.io/a:1", "stage:0"]),
        ("FROM q.io/a:1 AS x\nFROM scratch\nCOPY --from=x /f /g", ["q.io/a:1", "scratch"]),
        ("FROM q.io/a:1 AS x\nFROM scratch\nCOPY --from=0 /f /g", ["q.io/a:1", "scratch"]),
        ("FROM q.io/a:1 AS x\nFROM scratch\nADD a /g", ["scratch"]),
        ("FROM q.io/a:1 AS x\nFROM scratch\nRUN --mount=from=x,target=/m y", ["q.io/a:1", "scratch"]),
        ("FROM q.io/a:1 AS x\nFROM q.io/b:1 AS x\nFROM x", ["q.io/b:1", "stage:0"]),
        ("FROM q.io/a:1 AS x\nFROM x AS x\nFROM x", ["q.io/a:1", "stage:0", "stage:1"]),
        ("FROM q.io/a:1 AS X\nFROM q.io/b:1 AS x\nFROM X", ["q.io/a:1", "stage:0"]),
        ("ARG T=q.io/a\nFROM $T:1", ["q.io/a:1"]),
        ("FROM q.io/a:$TARGETARCH", ["q.io/a:arm64"]),
        ("FROM q.io/a:1 AS s-amd64\nFROM q.io/b:1 AS s-arm64\nFROM s-$TARGETARCH", ["q.io/b:1", "stage:0"]),
        ("FROM q.io/a:1 AS s-${TARGETARCH}\nFROM s-arm64", ["q.io/a:1", "stage:0"]),
        ("FROM q.io/a:1 AS y\nFROM y AS x\nFROM q.io/c:1\nFROM x", ["q.io/a:1", "stage:0", "stage:1"]),
        (
            "FROM q.io/a:1 AS x-arm64\nFROM scratch\nARG TARGETARCH\nCOPY --from=x-$TARGETARCH /f /g",
            ["q.io/a:1", "scratch"],
        ),
        ("FROM configs AS final", ["configs"]),
        ("FROM q.io/a:1 AS configs\nFROM configs", ["q.io/a:1", "stage:0"]),
    ],
)
def test_only_stages_that_the_last_one_needs_count(text: str, expected: list[str]) -> None:
    assert bases(text) == expected


ONE, TWO = "FROM q.io/a:1 AS one\nRUN 1", "FROM q.io/b:1 AS two\nRUN 2"
BOTH = "FROM q.io/c:1\nCOPY --from=two /x /x\nCOPY --from=one /y /y"


def test_which_of_two_stages_is_written_first_does_not_count() -> None:
    written = [f"{ONE}\n{TWO}\n{BOTH}", f"{TWO}\n{ONE}\n{BOTH}"]
    assert canonical(written[0]) == canonical(written[1])
    assert [stage["base"] for stage in canonical(written[0])] == ["q.io/b:1", "q.io/a:1", "q.io/c:1"]
    steps = [step.text for step in recipe(written[0]).steps if step.keyword == "RUN"]
    assert steps == ["RUN 1", "RUN 2"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Names are exchanged, not places.
        (f"{ONE}\n{TWO}\n{BOTH}", f"{ONE.replace('one', 'two')}\n{TWO.replace('two', 'one')}\n{BOTH}"),
        # The order of copies.
        (
            f"{ONE}\n{TWO}\n{BOTH}",
            f"{ONE}\n{TWO}\nFROM q.io/c:1\nCOPY --from=one /y /y\nCOPY --from=two /x /x",
        ),
        # What a cache holds goes from one to the other.
        (
            f"{ONE.replace('RUN', 'RUN --mount=type=cache,target=/c')}\n{TWO}\n{BOTH}",
            f"{TWO}\n{ONE.replace('RUN', 'RUN --mount=type=cache,target=/c')}\n{BOTH}",
        ),
        # Of two stages of one name the last counts.
        (f"{ONE}\n{ONE}2\n{TWO}\n{BOTH}", f"{ONE}2\n{ONE}\n{TWO}\n{BOTH}"),
    ],
)
def test_what_stages_hand_on_counts(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


def test_stages_that_share_one_come_after_it() -> None:
    common = "FROM q.io/z:1 AS common\nRUN z"
    one, two = ONE.replace("q.io/a:1", "common"), f"{TWO}\nCOPY --from=common /z /z"
    texts = [f"{common}\n{one}\n{two}\n{BOTH}", f"{common}\n{two}\n{one}\n{BOTH}"]
    assert canonical(texts[0]) == canonical(texts[1])
    assert [stage["base"] for stage in canonical(texts[0])] == ["q.io/z:1", "q.io/b:1", "stage:0", "q.io/c:1"]


def test_outside_images_are_listed_once_and_sorted() -> None:
    found = recipe(
        "FROM q.io/unused:1 AS u\nFROM q.io/b:1 AS x\nRUN --mount=type=bind,from=q.io/m:1,target=/m y\n"
        "FROM q.io/a:1\nCOPY --from=x /f /g\nCOPY --from=q.io/c:1 /f /g\nCOPY --from=q.io/c:1 /h /i\n"
    )
    assert found.bases == tuple((f"q.io/{name}:1", Arch.ARM64) for name in "abcm")
    assert not found.uses_configs


def test_configs_is_no_base() -> None:
    found = recipe("FROM configs AS final\nRUN x")
    assert (found.bases, found.uses_configs) == ((), True)
    assert recipe("FROM scratch\nCOPY --from=configs /f /g").uses_configs
    assert faults("FROM --platform=linux/s390x configs")[0][1].startswith(
        "configs is used for s390x in an image"
    )
    assert (
        faults("FROM configs\nFROM scratch AS configs")[0][1] == "FROM configs comes before the stage configs"
    )


def test_a_platform_of_its_own() -> None:
    text = "FROM --platform=linux/x86_64 q.io/a:1 AS x\nFROM q.io/b:1\nCOPY --from=x /f /g"
    found = recipe(text)
    assert found.bases == (("q.io/a:1", Arch.AMD64), ("q.io/b:1", Arch.ARM64))
    assert canonical(text)[0] == {"base": "q.io/a:1", "platform": "linux/amd64"}
    assert (1, 40) in {one.since for one in found.needs.dialect}
    assert canonical("FROM --platform=$TARGETPLATFORM q.io/a:1") == canonical("FROM q.io/a:1")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("FROM --platform=windows/amd64 q.io/a:1", 1, "only linux"),
        ("FROM --platform=linux/arm/v7 q.io/a:1", 1, "variants"),
        ("FROM --platform=linux/riscv64 q.io/a:1", 1, "unknown architecture"),
        ("FROM --platform=amd64 q.io/a:1 AS x\nFROM q.io/a:1\nCOPY --from=x /f /g", 2, "is used for"),
        ("FROM --platform=amd64 q.io/a:1", 1, "the image would be for amd64, not for arm64"),
        ("FROM $X", 1, "is empty or not known"),
        ("ARG X\nFROM $X", 2, "is empty or not known"),
        ("FROM q.io/a:1 AS $X", 1, "is empty or not known"),
        ("FROM q.io/a:1 AS 1", 1, "cannot be named"),
        ("FROM q.io/a:1 AS x\nFROM 0", 2, "there is no stage 0"),
        ("FROM scratch\nCOPY --from=0 /f /g", 2, "there is no stage 0"),
        ("FROM Q.io/A", 1, "no image of a registry"),
        ("FROM stage:0", 1, "no image of a registry"),
        ("FROM oci-archive:x.tar", 1, None),
        ("FROM q.io/a:1 AS s\nFROM scratch\nCOPY --from=$X /f /g", 3, "cannot tell which stage"),
        ("FROM q.io/a:1 AS s\nFROM scratch\nENV X=s\nCOPY --from=$X /f /g", 4, "cannot tell which stage"),
        ("ARG X=s\nFROM q.io/a:1 AS s\nFROM scratch\nCOPY --from=$X /f /g", 4, "cannot tell which stage"),
        ("FROM q.io/a:1 AS s\nFROM scratch\nARG X=s\nRUN --mount=from=$X,target=/m y", 4, "does not see"),
        ("FROM q.io/b:1\nRUN --mount=from=$X,target=/m y", 2, "depends on the base"),
        ("FROM scratch\nRUN --mount=type=foo,target=/m y", 2, "unknown type"),
        ("FROM scratch\nRUN --mount=type=cache y", 2, "no target"),
        ("FROM scratch\nRUN --network=foo y", 2, "is not known"),
    ],
)
def test_stages_and_images_that_cannot_be_built(text: str, line: int, message: str | None) -> None:
    found = faults(text)
    if message is None:
        assert found == []
        assert "short name" in recipe(text).warnings[0].message
    else:
        assert [(place, message in text) for place, text in found] == [(line, True)]


def test_a_short_name_is_warned_about() -> None:
    warnings = recipe("FROM fedora:42").warnings
    assert [(one.line, "another machine" in one.message) for one in warnings] == [(1, True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM q.io/a:1\nRUN x", set()),
        ("FROM q.io/a:1\nRUN --network=none x", {(1, 30)}),
        ("FROM q.io/a:1\nRUN <<A\nx\nA", {(1, 36)}),
        ("FROM q.io/a:1\nVOLUME /v\nRUN x", {(1, 37)}),
        ("FROM q.io/a:1\nRUN x\nVOLUME /v", set()),
        ("FROM q.io/a:1 AS v\nVOLUME /v\nFROM v\nRUN x", {(1, 37)}),
        ("FROM q.io/a:1\nLABEL l=${x#y}", {(1, 37)}),
        ("FROM q.io/a:1\nENV x=1\nLABEL l=${x:?}", {(1, 30)}),
        ("FROM q.io/a:$TARGETARCH", {(1, 37)}),
        ("ARG TARGETARCH\nFROM q.io/a:$TARGETARCH", set()),
        ("ARG V=$TARGETARCH\nFROM q.io/a:$V", {(1, 42)}),
        ("FROM q.io/a:1\nWORKDIR /x/", {(1, 37)}),
        ("FROM q.io/a:1\nCOPY --parents a /x/", {(1, 40)}),
        ("FROM q.io/a:1\nCOPY --link a /x/", {(1, 41)}),
        ("FROM q.io/a:1\nCOPY --exclude=b a /x/", {(1, 44)}),
        ("FROM q.io/a:1\nCOPY ** /x/", {(1, 38)}),
        ("FROM q.io/a:1\nADD --checksum=sha256:" + "0" * 64 + " https://x/y /x", {(1, 33)}),
        ('FROM q.io/a:1\nSHELL ["bash","-c"]\nRUN x', {(1, 44)}),
        ('FROM q.io/a:1\nRUN x\nSHELL ["bash","-c"]', set()),
        ("FROM q.io/a:1 AS s\nARG A=1\nFROM s\nRUN echo $A", {(1, 41)}),
        ("FROM q.io/a:1 AS s\nARG A=1\nFROM s\nRUN echo", set()),
        ("FROM q.io/a:1 AS s\nARG A=1 B=$A\nFROM s\nLABEL l=$B", {(1, 44)}),
        ("FROM q.io/a:1 AS s\nFROM scratch\nARG V=s\nCOPY --from=$V /f /g", {(1, 37)}),
        ("FROM q.io/a:1\nARG TARGETVARIANT\nRUN echo $TARGETVARIANT", {(1, 40)}),
    ],
)
def test_what_older_builders_read_otherwise(text: str, expected: set[tuple[int, int]]) -> None:
    assert {one.since for one in recipe(text, names("a")).needs.dialect} == expected


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("FROM q.io/a:1\nARG TARGETARCH\nRUN x", 0),
        ("FROM q.io/a:1\nARG BUILDARCH\nRUN x", 1),
        ("FROM --platform=$BUILDPLATFORM q.io/a:1", 1),
        ("ARG TARGETARCH\nARG V=$TARGETARCH\nFROM q.io/a:$V", 1),
        ("ARG TARGETARCH\nARG V=$TARGETARCH\nARG W=$V\nFROM q.io/a:1\nARG W", 1),
        ("ARG V=$TARGETARCH\nFROM q.io/a:1", 0),
        ("FROM q.io/a:1 AS u\nARG BUILDARCH\nFROM q.io/a:1", 0),
    ],
)
def test_what_reads_otherwise_on_a_foreign_builder(text: str, count: int) -> None:
    assert len(recipe(text).needs.foreign) == count


def test_whether_anything_is_run() -> None:
    assert recipe("FROM q.io/a:1\nRUN x").needs.runs
    assert not recipe("FROM q.io/a:1 AS u\nRUN x\nFROM q.io/a:1\nCOPY --from=q.io/b:1 a b").needs.runs
