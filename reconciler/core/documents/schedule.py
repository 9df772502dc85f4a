"""When images go stale by themselves: `refresh` of the repository's configuration (DESIGN §4.6).

Belongs here: reading a cron expression or an age into plain numbers.
Does not belong here: the clock, and which slot of a schedule a moment lies in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from reconciler.core.documents.shape import rule
from reconciler.core.documents.values import seconds
from reconciler.core.yaml import shown

_MONTHS: Final = {
    **{"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6},
    **{"jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12},
}
_WEEKDAYS: Final = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_LONGEST: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ITEM: Final = re.compile(r"(?:(\*)|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([0-9]{1,2}))?")
_HINT: Final = "write an age like 168h or 7d, or five cron fields like '0 3 * * 1'"


@dataclass(frozen=True, slots=True)
class Age:
    """Refresh what is older than `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cron:
    """Refresh at these times: sorted numbers of each field, Sunday being 0.

    `either_day`: a day counts when its number *or* its weekday fits, as cron has it when both fields are
    restricted.
    """

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    either_day: bool


Schedule = Age | Cron


def schedule(text: str) -> Schedule:
    """Read `168h`, `7d` or a five-field cron expression."""
    fields = text.lower().split()
    if len(fields) == 1:
        return Age(seconds(text))
    if len(fields) != 5:
        raise rule(f"must be an age or a cron expression, not {shown(text)}", _HINT)
    days, months = _numbers(fields[2], 1, 31, {}), _numbers(fields[3], 1, 12, _MONTHS)
    weekdays = tuple(sorted({day % 7 for day in _numbers(fields[4], 0, 7, _WEEKDAYS)}))
    either_day = not fields[2].startswith("*") and not fields[4].startswith("*")
    if not either_day and not any(days[0] <= _LONGEST[month - 1] for month in months):
        raise rule(f"names a day that never comes: {shown(text)}", "name a day that one of the months has")
    minutes, hours = _numbers(fields[0], 0, 59, {}), _numbers(fields[1], 0, 23, {})
    return Cron(text, minutes, hours, days, months, weekdays, either_day)


def _numbers(text: str, low: int, high: int, names: dict[str, int]) -> tuple[int, ...]:
    """One cron field: `*`, `n`, `n-m`, each of the last two with `/step` where it is a range, joined by
    commas."""
    found: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise rule(f"has {shown(item)}, which is no cron field", _HINT)
        star, first, last, step = match.groups()
        start = low if star else _number(first, names)
        stop = high if star else _number(last or first, names)
        if not low <= start <= stop <= high or (step and (int(step) == 0 or not (star or last))):
            raise rule(f"has {shown(item)}, which is no cron field from {low} to {high}", _HINT)
        found.update(range(start, stop + 1, int(step or 1)))
    return tuple(sorted(found))


def _number(text: str, names: dict[str, int]) -> int:
    return int(text) if text.isdecimal() else names.get(text, -1)
