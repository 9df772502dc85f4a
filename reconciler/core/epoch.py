"""Refresh epochs: how a user says that the outside world changed (DESIGN §4.6).

Belongs here: when a token or a schedule starts an epoch, and the text an epoch is recorded as.
Does not belong here: the clock; the time comes in.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlencode

from reconciler.core.documents import Age, Cron, Schedule

_COUNT = "n"
_SLOT = "slot"
_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_DAYS_BACK = 8 * 366  # 29 February can be eight years away, around a century that has none


def next_epoch(recorded: str, tokens: Mapping[str, str], slot: str = "") -> str:
    """The epoch wanted now, given the one recorded last ('' when none ever was), today's tokens by name, and the
    schedule's current slot.

    A non-empty token that differs from the one recorded under its name starts an epoch, and so does a later slot; a
    token that is gone or empty starts none, and neither does a clock that went back. Epochs are counted, so that going
    back to an earlier token is a new epoch and never matches the image built when the token was first set.
    """
    known = dict(parse_qsl(recorded))
    count = int(known.pop(_COUNT)) if known.get(_COUNT, "").isdecimal() else 0
    fresh = {name: token for name, token in tokens.items() if token and known.get(name) != token}
    if slot > known.get(_SLOT, ""):
        fresh[_SLOT] = slot
    if not fresh:
        return recorded
    return urlencode([(_COUNT, str(count + 1)), *sorted((known | fresh).items())])


def epoch_number(epoch: str) -> int:
    """Which epoch it is, counted from 1; 0 for none."""
    number = dict(parse_qsl(epoch)).get(_COUNT, "")
    return int(number) if number.isdecimal() else 0


def slot(schedule: Schedule | None, now: float) -> str:
    """The schedule's slot that `now` (seconds since the epoch) lies in, as the UTC time at which it began. Slots of
    one schedule sort by time. '' for no schedule, and for a cron expression that has never fired in eight years."""
    match schedule:
        case Age():
            begun = datetime.fromtimestamp(now // schedule.seconds * schedule.seconds, UTC)
        case Cron():
            fired = _last_fired(schedule, datetime.fromtimestamp(now // 60 * 60, UTC))
            if fired is None:
                return ""
            begun = fired
        case _:
            return ""
    return begun.strftime(_FORMAT)


def _last_fired(cron: Cron, now: datetime) -> datetime | None:
    """The latest minute, not after `now`, at which a cron expression fires."""
    midnight = now.replace(hour=0, minute=0)
    for days in range(_DAYS_BACK):
        day = midnight - timedelta(days=days)
        if not _is_day(cron, day):
            continue
        for hour in reversed(cron.hours):
            for minute in reversed(cron.minutes):
                moment = day.replace(hour=hour, minute=minute)
                if moment <= now:
                    return moment
    return None


def _is_day(cron: Cron, day: datetime) -> bool:
    by_number = day.day in cron.days
    by_weekday = day.isoweekday() % 7 in cron.weekdays
    fits = (by_number or by_weekday) if cron.either_day else (by_number and by_weekday)
    return fits and day.month in cron.months
