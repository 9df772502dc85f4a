"""The comments that people have read and found pleasant; `python -m tests.unit.comment.goldens` writes them anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reconciler.core.comment import LIMITS, comment
from tests.unit.comment.stories import STORIES, huge, origin

FOLDER: Final = Path(__file__).parent / "golden"
_SMALL: Final = 8192  # what a comment has room for in the golden files that are cut


def comments() -> Iterator[tuple[str, str]]:
    """Every golden comment: its file below FOLDER, and its text as it is made now."""
    for forge, limit in LIMITS.items():
        for name, story in STORIES.items():
            plan = story()
            yield f"{forge}/{name}.md", comment(plan, origin(plan, forge), limit)
    plan = huge(30)
    yield "cut.md", comment(plan, origin(plan), _SMALL)


if __name__ == "__main__":
    for file, text in comments():
        FOLDER.joinpath(file).parent.mkdir(parents=True, exist_ok=True)
        FOLDER.joinpath(file).write_text(text)
