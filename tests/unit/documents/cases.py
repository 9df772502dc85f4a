"""Documents that are accepted and refused, for the tests of the readers and of the schemas alike.

Each case changes one thing in a sound document. `schema` says whether a JSON Schema can express the rule.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Good:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Bad:
    """`line` and `message` are what the first fault says."""

    name: str
    text: str
    line: int
    message: str
    schema: bool = True


def changed(text: str, old: str, new: str) -> str:
    """`text` with one thing changed; a change that finds nothing would test nothing."""
    assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
    return text.replace(old, new)
