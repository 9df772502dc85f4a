"""Shell commands as RUN instructions that every supported buildah reads alike.

Belongs here: quoting, and how much fits one instruction. Does not belong here: which commands there are.
Sources: openshift/imagebuilder `dockerfile/parser` (a line that ends with a backslash goes on; from buildah 1.33 on,
`<<` begins a heredoc wherever it stands; a line of the file has at most 64 KiB); Linux `MAX_ARG_STRLEN`: an argument,
which the whole of a RUN becomes, has at most 128 KiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

_ROOM: Final = 32 << 10
_NEXT: Final = "; \\\n    "


def quoted(text: str) -> str:
    """One word of the shell. `text` has no control characters."""
    inner = text.replace("'", "'\\''")
    # Cut in two between each pair, it is the same word, and no heredoc.
    while "<<" in inner:
        inner = inner.replace("<<", "<''<")
    return f"'{inner}'"


def run(functions: Sequence[str], commands: Iterable[str], *, flags: str = "") -> Iterator[str]:
    """RUN instructions for these commands, in order; none without commands. The first that fails ends the build.

    `functions` are definitions, `name() {…}`; each instruction has those that it uses. One may use earlier ones.
    """
    part: list[str] = []
    size = 0
    for command in commands:
        length = len(command.encode())
        if part and size + length > _ROOM:
            yield _instruction(functions, part, flags)
            part, size = [], 0
        part.append(command)
        size += length
    if part:
        yield _instruction(functions, part, flags)


def _instruction(functions: Sequence[str], commands: Sequence[str], flags: str) -> str:
    lines = [*commands]
    for function in reversed(functions):
        name = function.partition("(")[0]
        if any(re.search(rf"(?:^|[^\w'/-]){name} ", line) for line in lines):
            lines.insert(0, function)
    return f"RUN {flags}{_NEXT.join(('set -eu', 'umask 022', *lines))}\n"
