"""Edits of how a Containerfile is written: most must change nothing, and some look as if they did not.

Belongs here: comments, blanks, case, line breaks, directives. Does not belong here: what instructions say (`config`,
`stages`, `files`, `shell`).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from tests.oracle.draft import Draft, Edit, Kind
from tests.oracle.kinds.tables import Table, named, words


def comment_top(draft: Draft, _rng: Random) -> Edit:
    yield
    draft.prepend("# The operating system of the workers", "#")


def comment_between(draft: Draft, rng: Random) -> Edit:
    yield
    for place in sorted(rng.sample(range(1, len(draft.lines) + 1), 2), reverse=True):
        draft.lines.insert(place, rng.choice(["# note", "   # note\\", "#"]))


def comment_changed(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    place = draft.insert(rng, f"# {old}")
    yield
    draft.lines[place] = f"# {new}"


def comment_in_continuation(draft: Draft, rng: Random) -> Edit:
    place = draft.insert(rng, "RUN echo a > /f && \\\n    echo b > /g")
    yield
    draft.lines[place] = rng.choice(
        [
            "RUN echo a > /f && \\\n# why\n    echo b > /g",
            "RUN echo a > /f && \\\n  # why \\\n    echo b > /g",
            "RUN echo a > /f && \\\n\n# why\n\n    echo b > /g",
        ]
    )


def comment_before_escape(draft: Draft, _rng: Random) -> Edit:
    """The directive stops being one, and one label becomes two."""
    draft.prepend("# escape=`")
    draft.append("LABEL a b`\nLABEL c d")
    yield
    draft.prepend("# By the way")


def syntax_before_escape(draft: Draft, _rng: Random) -> Edit:
    draft.prepend("# escape=`")
    draft.append("LABEL a b`\nLABEL c d")
    yield
    draft.prepend("# syntax=docker.io/docker/dockerfile:1")


def comment_after_escape(draft: Draft, _rng: Random) -> Edit:
    draft.prepend("# escape=`")
    draft.append("LABEL a=b `\n  c=d")
    yield
    draft.lines.insert(1, "# By the way")


def escape_character(draft: Draft, _rng: Random) -> Edit:
    place = draft.append("LABEL a=b \\\n  c=d")
    yield
    draft.lines[place] = "LABEL a=b `\n  c=d"
    draft.prepend("# escape=`")


def blank_lines(draft: Draft, rng: Random) -> Edit:
    yield
    for place in sorted(rng.sample(range(len(draft.lines) + 1), 3), reverse=True):
        draft.lines.insert(place, rng.choice(["", "   ", "\t"]))


def keyword_case(draft: Draft, rng: Random) -> Edit:
    draft.append("LABEL case=kept")
    yield
    for place, line in enumerate(draft.lines):
        keyword, blank, rest = line.partition(" ")
        draft.lines[place] = rng.choice([keyword.lower(), keyword.title()]) + blank + rest


def from_as_case(draft: Draft, _rng: Random) -> Edit:
    draft.lines[draft.final()] += " AS final"
    yield
    draft.replace(" AS final", "  as  final")


def instruction_blanks(draft: Draft, rng: Random) -> Edit:
    draft.append("LABEL a=b")
    yield
    for place, line in enumerate(draft.lines):
        keyword, _, rest = line.partition(" ")
        draft.lines[place] = (
            rng.choice(["", "  ", "\t"]) + keyword + rng.choice(["  ", "\t", " \t "]) + rest + "  "
        )


def arguments_blanks(draft: Draft, rng: Random) -> Edit:
    place = draft.insert(rng, "COPY tool README.md /opt/t/")
    draft.append("EXPOSE 80 443", "LABEL a=b c=d")
    yield
    draft.lines[place] = "COPY   tool\tREADME.md   /opt/t/"
    draft.lines[-2:] = ["EXPOSE  80\t443", "LABEL  a=b \t c=d"]


def continuation_wrapped(draft: Draft, rng: Random) -> Edit:
    place = draft.insert(rng, "RUN echo a > /f && echo b > /g")
    draft.append("LABEL a=b c=d")
    yield
    draft.lines[place] = "RUN echo a > /f && \\\necho b > /g"
    draft.lines[-1] = "LABEL a=b \\\n c=d"


def continuation_trailing_blanks(draft: Draft, rng: Random) -> Edit:
    place = draft.insert(rng, "RUN echo a > /f && \\\n    echo b > /g")
    yield
    draft.lines[place] = "RUN echo a > /f && \\  \n    echo b > /g"


def continuation_doubled(draft: Draft, rng: Random) -> Edit:
    r"""This builder continues after `\\` too, and leaves one backslash."""
    place = draft.insert(rng, "RUN echo a > /f && echo 'x\\\ny' > /g")
    yield
    draft.lines[place] = "RUN echo a > /f && echo 'x\\\\\ny' > /g"


def continuation_indent(draft: Draft, rng: Random) -> Edit:
    """Blanks at the start of a continued line are part of the text."""
    place = draft.insert(rng, "RUN echo 'a\\\nb' > /f")
    yield
    draft.lines[place] = "RUN echo 'a\\\n  b' > /f"


def line_ends(draft: Draft, _rng: Random) -> Edit:
    draft.append("LABEL a=b \\\n  c=d")
    yield
    draft.lines[:] = [line.replace("\n", "\r\n") + "\r" for line in draft.lines]


def last_line_end(draft: Draft, _rng: Random) -> Edit:
    draft.append("LABEL a=b")
    yield
    draft.lines[-1] += " \\"


def maintainer(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    place = draft.insert(rng, f"MAINTAINER {old}")
    yield
    draft.lines[place] = f"MAINTAINER {new}"


def byte_order_mark(draft: Draft, _rng: Random) -> Edit:
    yield
    draft.lines[0] = "\ufeff" + draft.lines[0]


_TABLE: Final = Table(
    {
        "comment_after_command": ("RUN echo a > /f", "RUN echo a > /f # why"),
        "comment_mark_in_label": ("LABEL a=b", "LABEL a=b#c"),
        "blanks_in_command": ("RUN echo a > /f  &&  echo b > /g", "RUN echo a > /f && echo b > /g"),
        "blanks_of_indent": (
            "RUN mkdir /x && \\\n  echo 'a  b' > /x/f && \\\n  if [ -d /x ]; then cp /x/f \"/x/g\"; fi",
            "RUN mkdir /x \\\n\t&& echo 'a  b' > /x/f \\\n\t&& if [ -d /x ]; then cp /x/f \"/x/g\"; fi",
        ),
        "blanks_in_quotes": ("RUN echo 'a  b' > /f", "RUN echo 'a b' > /f"),
        "json_blanks": ('RUN ["/bin/sh", "-c", "echo a > /f"]', 'RUN ["/bin/sh","-c","echo a > /f"]'),
        "json_tail": ('RUN ["/bin/touch", "/f"] && echo a', 'RUN ["/bin/touch", "/f"] && echo b'),
        "json_broken": ('CMD ["run", "all"]', "CMD ['run', 'all']"),
    }
)

KINDS: Final[Mapping[str, Kind]] = {
    **named(
        comment_top,
        comment_between,
        comment_changed,
        comment_in_continuation,
        comment_before_escape,
        syntax_before_escape,
        comment_after_escape,
        escape_character,
        blank_lines,
        keyword_case,
        from_as_case,
        instruction_blanks,
        arguments_blanks,
        continuation_wrapped,
        continuation_trailing_blanks,
        continuation_doubled,
        continuation_indent,
        line_ends,
        last_line_end,
        maintainer,
        byte_order_mark,
    ),
    **_TABLE,
}
