"""What is said about a preview beside its plan, and changes while the plan does not: other pull requests, the outcome.

Belongs here: where notes stand in a comment, and finding them again in what a forge gives back. Does not belong here:
what they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reconciler.core.comment.fit import size
from reconciler.core.model import GROUP

NOTES: Final = 4_096
"""Bytes that a comment must leave free for its notes."""
_BEGIN: Final = f"<!-- {GROUP}/notes -->"
_END: Final = f"<!-- {GROUP}/end of notes -->"
_ABOVE: Final = 4
"""Lines above the notes: marker, verdict, an empty one, outcome. No text of the repository is in them."""


def noted(text: str, notes: Sequence[str]) -> str:
    """A comment with these notes, each a line of Markdown, in place of those that it has. Notes that do not fit into
    `NOTES` bytes are left out, the last first.

    `text` is as it was made, or as a forge gives it back.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    above, below = lines[: _ABOVE + 1], lines[_ABOVE + 1 :]
    if below[:1] == [_BEGIN] and _END in below:
        below = below[below.index(_END) + 2 :]
    return "\n".join((*above, *_block(notes), *below))


def _block(notes: Sequence[str]) -> list[str]:
    kept: list[str] = []
    room = NOTES - size(f"{_BEGIN}\n{_END}\n\n")
    for note in notes:
        room -= size(note) + 2
        if room < 0:
            break
        kept += [note, ""]
    return [_BEGIN, *kept, _END, ""] if kept else []
