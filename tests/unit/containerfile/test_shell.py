"""RUN texts in a recipe: evaluated where a parser is given, and only where the file around them allows it."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.core.containerfile import Recipe, parse, specialise
from reconciler.core.model import Arch
from tests.unit.containerfile.samples import NAME, NOTHING, Files, context
from tests.unit.shell.texts import PARSER

IF = 'if [ "$TARGETARCH" = arm64 ]; then a; else b; fi'
UNAME = 'if [ "$(uname -m)" = aarch64 ]; then a; else b; fi'


def recipe(text: str, arch: Arch = Arch.ARM64, files: Files = NOTHING, *, probes: bool = True) -> Recipe:
    return specialise(parse(text, NAME), arch, context(files), PARSER.tree, probes=probes)


def last_run(text: str, files: Files = NOTHING, *, probes: bool = True) -> Any:
    """The last operation of the last stage, for arm64."""
    canonical: Any = recipe(text, files=files, probes=probes).canonical
    return canonical[-1]["ops"][-1]


def test_an_edit_in_the_branch_of_one_architecture_changes_no_other() -> None:
    before = f"FROM scratch\nARG TARGETARCH\nRUN {IF}; c"
    after = before.replace("then a;", "then a --new;")
    assert recipe(before, Arch.AMD64).canonical == recipe(after, Arch.AMD64).canonical
    assert recipe(before, Arch.ARM64).canonical != recipe(after, Arch.ARM64).canonical
    assert [step.text for step in recipe(after).steps][-1] == "RUN a --new; c"
    assert recipe(before, Arch.AMD64).steps == recipe(after, Arch.AMD64).steps


def test_without_a_parser_texts_count_whole() -> None:
    text = f"FROM scratch\nARG TARGETARCH\nRUN {IF}"
    assert specialise(parse(text, NAME), Arch.ARM64, context()).steps[-1].text == f"RUN {IF}"


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (f"ARG TARGETARCH\nRUN {IF}", "a"),
        (f"ENV TARGETARCH=arm64\nRUN {IF}", "a"),
        (f"ARG TARGETARCH\nENV TARGETARCH=amd64\nRUN {IF}", "b"),
        (f"RUN {UNAME}", "a"),
        (f"ARG TARGETARCH\nRUN <<E\n{IF}\nE", "a"),
        (f"ARG V=1\nRUN if [ $V = 2 ]; then a; fi; {UNAME}", "a"),
        (f"RUN set -ex; \\\n  # why\n  {UNAME}", "set -ex\na"),
    ],
)
def test_what_is_known_decides(lines: str, left: str) -> None:
    assert last_run(f"FROM example.com/base:1\n{lines}")["sh"] == left


def test_blanks_between_the_words_of_a_kept_text_do_not_count() -> None:
    indented = last_run("FROM example.com/base:1\nRUN a 'x  y' \\\n    && b")
    assert indented == last_run("FROM example.com/base:1\nRUN a  'x  y' && b")
    assert indented["text"] == "a 'x  y' && b"
    assert indented != last_run("FROM example.com/base:1\nRUN a 'x y' && b")
    assert "SHELLOPTS" in recipe("FROM example.com/base:1\nRUN a  b").assumes


@pytest.mark.parametrize(
    "lines",
    [
        'SHELL ["/bin/bash", "-c"]\nRUN a  b',
        'RUN ["a  b"]',
        "RUN <<E\na  b\nE",
        "RUN cat <<E  > /f\na\nE",
        "COPY f /bin/sh\nRUN a  b",
        "ENV SHELLOPTS=allexport\nRUN a  b",
        "ENV BASH_FUNC_a%%=x\nRUN a  b",
        "RUN --mount=type=tmpfs,target=/usr/bin a  b",
    ],
)
def test_blanks_count_where_the_shell_is_not_known(lines: str) -> None:
    found = last_run(f"FROM example.com/base:1\n{lines}", {"f": "f"})
    assert "  " in found["text"] if "text" in found else found["argv"] == ["a  b"]


def test_without_a_parser_blanks_count() -> None:
    text = "FROM scratch\nRUN a  b"
    whole: Any = specialise(parse(text, NAME), Arch.ARM64, context()).canonical
    assert whole[-1]["ops"][-1]["text"] == "a  b"


def test_the_exec_form_of_sh() -> None:
    found = last_run(f'FROM scratch\nRUN ["/bin/sh", "-ec", "{UNAME.replace(chr(34), chr(92) + chr(34))}"]')
    assert (found["argv"], found["sh"]) == (["/bin/sh", "-ec"], "a")


@pytest.mark.parametrize(
    "lines",
    [
        f"RUN {IF}", f"ARG TARGETARCH\nSHELL [\"/bin/bash\", \"-c\"]\nRUN {IF}",
        f"ARG TARGETARCH\nENV IFS=6\nRUN {IF}",
        f"ARG TARGETARCH\nENV BASH_ENV=/x\nRUN {IF}", f"ARG TARGETARCH\nENV TARGETARCH=$X\nRUN {IF}", "RUN a && b",
        f"ARG TARGETARCH\nRUN <<E\n#!/bin/sh\n{IF}\nE", f"ENV PATH=/x:$PATH\nRUN {UNAME}",
        f"ARG PATH=/x\nRUN {UNAME}",
        f"RUN --mount=type=tmpfs,target=/usr/bin {UNAME}", f"COPY f /usr/bin/uname\nRUN {UNAME}",
        f"RUN cp x /usr/bin/uname\nRUN {UNAME}", f"ADD f '/x/uname'\nRUN {UNAME}",
        f"ARG TARGETARCH\nCOPY f /bin/sh\nRUN {IF}", f"ARG TARGETARCH\nRUN ln -sf /x /bin/sh\nRUN {IF}",
        f"ARG TARGETARCH\nRUN rm /bin/sh; cp /x /bin/sh\nRUN {IF}", f"RUN cd /bin && cp /x uname\nRUN {UNAME}",
        f"COPY --from=example.com/tools:1 / /\nRUN {UNAME}",
        f"COPY --from=example.com/tools:1 /out/ /usr/local/bin/\nRUN {UNAME}",
        f"ARG TARGETARCH\nRUN --mount=type=bind,from=example.com/tools:1,dst=/usr {IF}",
    ],
)  # fmt: skip
def test_what_is_not_known_decides_nothing(lines: str) -> None:
    found = last_run(f"FROM example.com/base:1\n{lines}", {"f": "f"})
    assert "text" in found or "if" in found.get("sh", "if")


@pytest.mark.parametrize(
    "lines",
    [
        f"COPY --from=example.com/tools:1 /cosign /usr/bin/cosign\nRUN {UNAME}",
        f"RUN --mount=type=bind,target=/ctx {UNAME}",
        f"RUN useradd -s /bin/bash core\nRUN apt-get install -y bash dpkg\nRUN {UNAME}",
    ],
)
def test_what_replaces_no_program_is_no_obstacle(lines: str) -> None:
    assert last_run(f"FROM example.com/base:1\n{lines}", {"f": "f"})["sh"] in ("a", "b")


def test_a_context_with_a_program_of_that_name_is_not_believed() -> None:
    assert "text" in last_run(f"FROM scratch\nCOPY . /usr/\nRUN {UNAME}", {"bin/uname": "x"})


def test_probes_can_be_declared_opaque() -> None:
    assert "text" in last_run(f"FROM scratch\nRUN {UNAME}", probes=False)


def test_a_base_may_not_change_the_shell_of_what_was_evaluated() -> None:
    run = f"ARG TARGETARCH\nRUN {IF}"
    assert {"SHELLOPTS", "TARGETARCH"} <= set(recipe(f"FROM example.com/base:1\n{run}").assumes)
    assert "SHELLOPTS" not in recipe(f"FROM scratch\n{run}").assumes
    assert "SHELLOPTS" not in recipe("FROM example.com/base:1\nRUN a").assumes
