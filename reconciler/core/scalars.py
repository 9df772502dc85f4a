"""Plain YAML scalars as values: the YAML 1.2 core schema, less what is not safe to carry on.

Belongs here: what an unquoted word is. Where readers disagree (`no`, `1:30`, `0123`, `1_000`, dates) it is
text.
Does not belong here: anything with structure (`yaml`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

MAX_DIGITS: Final = 18
"""Every decimal of 18 digits fits 64 bits. Python answers one of 5,000 digits with a bare ValueError."""
_MAX_FLOAT: Final = 64

_WORDS: Final[Mapping[str, bool | None]] = (
    dict.fromkeys(("", "~", "null", "Null", "NULL"))
    | dict.fromkeys(("true", "True", "TRUE"), True)
    | dict.fromkeys(("false", "False", "FALSE"), False)
)
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?(?:0|[1-9][0-9]*)[eE][-+]?[0-9]+"
)
_NO_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class UnsafeNumber(Exception):
    """A number that some reader would round, refuse or choke on; the message says which rule it breaks."""


def plain(text: str) -> str | int | float | bool | None:
    """The value of an unquoted scalar. Raises UnsafeNumber."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        if len(text.lstrip("+-")) > MAX_DIGITS:
            raise UnsafeNumber(f"has more than {MAX_DIGITS} digits")
        return int(text, 0)
    if _NO_NUMBER.fullmatch(text):
        raise UnsafeNumber("is not finite")
    if _FLOAT.fullmatch(text):
        if len(text) > _MAX_FLOAT:
            raise UnsafeNumber(f"has more than {_MAX_FLOAT} characters")
        if not math.isfinite(float(text)):
            raise UnsafeNumber("is not finite")
        return float(text)
    return text
