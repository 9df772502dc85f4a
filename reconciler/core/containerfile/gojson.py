"""The JSON form of instructions, with the builder's rule that a JSON *prefix* of the arguments counts.

Belongs here: telling a JSON array of strings from shell text as Go's `encoding/json` does.
Does not belong here: which instruction takes which form (`parser`).
"""

from __future__ import annotations

import json
import math
import re
from typing import Final

from reconciler.core.containerfile.words import SPACE

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MAX_BRACKETS: Final = 200


class NotStrings(ValueError):
    """The text is a JSON array, but not one of strings: the builder refuses that."""


def _number(text: str) -> float:
    """Go refuses a number that no float64 can hold."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _no_constant(text: str) -> None:
    """`NaN` and its kin are Python's extension of JSON."""
    raise ValueError(text)


_DECODER: Final = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_no_constant)


def strings(text: str) -> tuple[str, ...] | None:
    """The strings of the JSON array that `text` starts with; None when it does not start with one.

    What follows the array is dropped, as the builder drops it. Raises NotStrings for arrays of other things.
    """
    text = text.lstrip(SPACE)
    if not text.startswith("["):
        return None
    if text.count("[", 0, 4 * _MAX_BRACKETS) > _MAX_BRACKETS:
        raise NotStrings("brackets are nested too deeply")
    try:
        found, _ = _DECODER.raw_decode(text)
    except RecursionError as error:
        raise NotStrings("brackets are nested too deeply") from error
    except ValueError:
        return None
    if not all(isinstance(item, str) for item in found):
        raise NotStrings("a JSON form takes strings only")
    return tuple(_SURROGATE.sub("\ufffd", item) for item in found)
