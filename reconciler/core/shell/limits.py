"""How much shell text is looked at, and the first glance that saves most texts from being parsed.

Belongs here: bounds that hold before any parser runs. Does not belong here: reading a tree.
"""

from __future__ import annotations

import re
from typing import Final

MAX_BYTES: Final = 48 * 1024
"""Longest text, in bytes of UTF-8: below the 64 KiB that a pipe takes without a reader."""
MAX_OPENERS: Final = 600
"""Most things that can nest. A parser indents its answer by depth, so the answer grows with the square of it."""
MAX_DEPTH: Final = 40
"""Deepest nesting that is read; every walk of a tree is bounded by it."""

_OPENERS: Final = re.compile(r"[({`!|]|&&|\b(?:if|elif|case|while|until|for|do)\b")
# Carriage returns, NUL and other controls: parsers and shells do not agree on them.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
# Arithmetic assigns, nests by every operator and evaluates the values of variables.
_ARITHMETIC: Final = re.compile(r"\(\(|\$\[|\blet\b|\w\[[^\]\n]*\]\+?=|\$\{[#!]?\w+\[|\$\{\w+:[^-+=?]")


def bounded(text: str) -> bool:
    """Whether a parser may see the text: short, flat, and free of what is given up on anyway."""
    return (
        len(text) <= MAX_BYTES
        and not _CONTROLS.search(text)
        and len(text.encode()) <= MAX_BYTES
        and not _ARITHMETIC.search(text)
        and sum(1 for _ in _OPENERS.finditer(text)) <= MAX_OPENERS
    )
