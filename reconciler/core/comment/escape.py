"""Text of the repository as Markdown shows it and nothing more.

Names, paths and instructions are whatever the author of a pull request wrote. They appear only in code spans and
fences, where no forge looks for markup, HTML, links, mentions, references to issues, or commands.
Belongs here: making such text visible, short and inert. Does not belong here: what is said with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

WIDTH: Final = 300
"""Characters of one text that are shown."""

# Controls, blanks other than the space, what turns the direction of writing, what is not seen at all, and what UTF-8
# does not have. Spelled out, because Python's own tables differ between its versions and the bytes may not.
_HIDDEN: Final = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    "\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\U000e0000-\U000e0fff]"
)
_TICKS: Final = re.compile("`+")
_MOST_TICKS: Final = 8  # cmark gives up on code spans whose marks are longer than 80

_WORD: Final = re.compile(r"[a-z0-9]+")
# Of messages that no name has gone into. Made of these words alone, nobody can say anything with them.
_OURS: Final = frozenset(
    _WORD.findall(
        "a added again amd64 and architecture are arm64 asked before believed branch branches built by canonical "
        "changed comment copied copies file for form from gone has image inputs is it its longer moved no not nothing "
        "of only or pool ppc64le reachable recorded refresh removed s390x same space stage text that the them this to "
        "was were white any"
    )
)
_PROSE: Final = re.compile(r"[a-z0-9]+(?:,? [a-z0-9]+)*")


def visible(text: str, width: int = WIDTH) -> str:
    """One line of at most `width` characters of `text`, in which what could not be seen is spelled as `\\u202e`."""
    if len(text) > width:
        text = text[: width - 1] + "…"
    text = _HIDDEN.sub(_spelled, text)
    return _TICKS.sub(lambda m: m[0] if len(m[0]) <= _MOST_TICKS else "\\x60" * len(m[0]), text)


def _spelled(match: re.Match[str]) -> str:
    number = ord(match[0])
    if 0xDC80 <= number <= 0xDCFF:  # a byte of a file's name that is not UTF-8
        number -= 0xDC00
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def code(text: str, width: int = WIDTH) -> str:
    """`text` as a code span, whatever is in it. Usable in tables too."""
    # Parsers disagree about when a backslash before a bar keeps a cell together; without bars they need not agree.
    shown = visible(text, width).replace("|", "\\x7c")
    if not shown.strip(" "):
        shown = f'"{shown}"'
    mark = "`" * (1 + max((len(run) for run in _TICKS.findall(shown)), default=0))
    pad = " " if shown[0] in " `" or shown[-1] in " `" else ""
    return f"{mark}{pad}{shown}{pad}{mark}"


def place(path: str, line: int, width: int = WIDTH) -> str:
    """`path:line` in one code span. Of a long path the end is kept, for it tells more."""
    if len(path) > width:
        path = "…" + path[1 - width :]
    return code(f"{path}:{line}" if line else path, width + 20)


def words(message: str) -> str:
    """A message as prose when it is one of ours throughout, else as a code span."""
    if len(message) <= WIDTH and _PROSE.fullmatch(message) and _OURS.issuperset(_WORD.findall(message)):
        return message
    return code(message)


def fence(lines: Sequence[str], language: str) -> str:
    """A fenced block. Each line must begin with a character of ours, and must have been made visible."""
    longest = max((len(run) for line in lines for run in _TICKS.findall(line)), default=0)
    mark = "`" * max(3, longest + 1)
    return "\n".join((mark + language, *lines, mark)) + "\n"
