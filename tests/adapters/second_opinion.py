"""Two readings of one Containerfile in one form: ours, and that of BuildKit's own parser.

The package `dockerfile` binds BuildKit's parser. It knows lines, words and here-documents; which instructions and
flags there are BuildKit asks later, so texts that we refuse for that are none of its business.
"""

from __future__ import annotations

from typing import NamedTuple

import dockerfile  # type: ignore[import-not-found]  # a compiled module without stubs

from reconciler.core.containerfile import Instruction, Keyword, parse
from reconciler.errors import InvalidInput
from tests.unit.containerfile.samples import NAME


class Node(NamedTuple):
    """An instruction; here-documents are `(name, body)`. ONBUILD has its trigger's text as its one word."""

    keyword: str
    line: int
    flags: tuple[str, ...]
    words: tuple[str, ...]
    json: bool
    heredocs: tuple[tuple[str, str], ...] = ()


def ours(text: str) -> list[Node] | None:
    """Our reading; None when we refuse the text."""
    try:
        file = parse(text, NAME)
    except InvalidInput:
        return None
    stages = (one for stage in file.stages for one in (stage.head, *stage.body))
    return [_ours(one) for one in (*file.globals, *stages)]


def _ours(one: Instruction) -> Node:
    heredocs = tuple((found.name, found.body) for found in one.heredocs)
    return Node(one.keyword.value, one.line, one.flags, one.words, one.json, heredocs)


def theirs(text: str) -> list[Node] | None:
    """BuildKit's reading; None when it refuses the text."""
    try:
        found = dockerfile.parse_string(text)
    except dockerfile.GoParseError:
        return None
    return [_theirs(one) for one in found]


def _theirs(one: dockerfile.Command) -> Node:
    keyword = one.cmd.upper() if one.cmd.isascii() else one.cmd
    words, heredocs = one.value, one.heredocs
    if keyword == Keyword.ONBUILD:
        # The trigger comes apart, without its flags; the whole text is there beside it.
        words = tuple(one.original.split("\n")[0].split(maxsplit=1)[1:])
        heredocs = ()  # we read over them: an OCI image holds no triggers
    bodies = tuple((found.name, found.content) for found in heredocs)
    return Node(keyword, one.start_line, one.flags, words, one.json, bodies)


def same_bodies(nodes: list[Node] | None, *, buildkit: bool) -> list[Node] | None:
    """The nodes with bodies as bare lines: the documented differences of form taken out.

    buildah puts a newline before each line and drops tabs (`<<-`) and carriage returns at once; BuildKit puts
    the newline after it and leaves the rest to the shell.
    """
    if nodes is None:
        return None
    part = slice(None, -1) if buildkit else slice(1, None)

    def bare(body: str) -> str:
        return "\n".join(line.lstrip("\t").removesuffix("\r") + ";" for line in body.split("\n")[part])

    return [node._replace(heredocs=tuple((n, bare(body)) for n, body in node.heredocs)) for node in nodes]


def agree(text: str) -> bool:
    """Whether both take the text, and for the same."""
    mine = same_bodies(ours(text), buildkit=False)
    return mine is not None and mine == same_bodies(theirs(text), buildkit=True)
