from __future__ import annotations

import json
import string
from fnmatch import fnmatchcase

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.containerfile import IgnoreRules, parse, specialise
from reconciler.core.containerfile.globs import BadPattern, Glob
from reconciler.core.model import Arch
from reconciler.errors import InvalidInput
from tests.unit.containerfile.samples import NAME, Link, context, names

TREE = context({**names("a", "b/c", "b/d/e"), "l": Link("b")})
PIECES = [
    *("FROM scratch\n", "FROM q.io/a:1 AS s\n", "FROM s\n", "ARG A=1\n", "ENV A=$A:$B\n", "RUN <<E\nx\nE\n"),
    *(
        "COPY a /x\n",
        "COPY --from=s $A /x\n",
        "RUN --mount=target=/m ",
        "LABEL l=${A:-",
        "}",
        "${A/",
        "# escape=`\n",
    ),
    *(
        "\\\n",
        "'",
        '"',
        "$",
        "${",
        "<<",
        "[",
        "]",
        '["a"',
        " ",
        "\n",
        "\t",
        "#",
        "=",
        "*",
        "**",
        "\r",
        "é",
        "\ufeff",
    ),
]
TEXTS = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=30).map(lambda parts: "FROM q.io/a:1 AS s\n" + "".join(parts)),
)
WORDS = (
    st.text(string.ascii_letters + string.digits + " ./_=$-", min_size=1, max_size=20)
    .map(str.strip)
    .filter(bool)
)
BODIES = st.lists(
    st.one_of(
        WORDS.map("RUN r {}".format),
        WORDS.map("USER u{}".format),
        WORDS.map("LABEL l='{}'".format),
        WORDS.map("ENV E='{}'".format),
        WORDS.map("WORKDIR /w{}".format),
        WORDS.map("ARG A='{}'".format),
        WORDS.map("CMD c {}".format),
    ),
    max_size=8,
)


def outcome(text: str, arch: Arch = Arch.ARM64) -> str:
    try:
        recipe = specialise(parse(text, NAME), arch, TREE)
    except InvalidInput as error:
        return json.dumps([str(fault) for fault in error.faults] or 1 / 0)
    return json.dumps([recipe.canonical, [entry.path for entry in recipe.context]], sort_keys=True)


@given(TEXTS)
@settings(max_examples=600, deadline=None)
def test_any_text_gives_a_recipe_or_faults_and_always_the_same(text: str) -> None:
    assert outcome(text) == outcome(text)


@given(BODIES, st.data())
@settings(max_examples=150, deadline=None)
def test_comments_blank_lines_and_case_of_keywords_have_no_effect(
    body: list[str], data: st.DataObject
) -> None:
    other = []
    for line in body:
        keyword, _, rest = line.partition(" ")
        other += data.draw(st.sampled_from([[], ["# c"], ["", "  # FROM x"]]))
        keyword = data.draw(st.sampled_from([keyword, keyword.lower(), keyword.title()]))
        other.append(
            data.draw(st.sampled_from(["", " ", "\t"]))
            + keyword
            + data.draw(st.sampled_from([" ", " \t "]))
            + rest
        )
    plain, dressed = ("\n".join(["FROM q.io/a:1", *lines]) for lines in (body, other))
    assert outcome(plain) == outcome(dressed)


@given(BODIES)
@settings(max_examples=50, deadline=None)
def test_without_platform_arguments_all_architectures_are_equal(body: list[str]) -> None:
    text = "\n".join(["FROM q.io/a:1", *body])
    assert len({outcome(text, arch) for arch in Arch}) == 1


@given(st.text("ab*?[]!/\\.^-", max_size=12), st.text("ab/.", max_size=12))
@settings(max_examples=300, deadline=None)
def test_patterns_match_or_are_refused(pattern: str, path: str) -> None:
    try:
        rules = IgnoreRules.parse(pattern)
    except InvalidInput:
        return
    assert rules.excludes(path) in (True, False)


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
@settings(max_examples=300, deadline=None)
def test_simple_patterns_match_as_fnmatch_does(pattern: str, text: str) -> None:
    assert Glob(pattern).matches(text) is fnmatchcase(text, pattern)


@given(st.text("[]^-\\ab", max_size=8))
@settings(max_examples=200, deadline=None)
def test_sets_match_or_are_refused(pattern: str) -> None:
    try:
        found = Glob(pattern).matches("a")
    except BadPattern as error:
        found = not str(error)
    assert found in (True, False)
