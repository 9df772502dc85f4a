"""Keeping a text within a number of bytes without breaking what it is made of.

Belongs here: which whole items of which section are kept. Does not belong here: what they say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_NOTE: Final = 100  # bytes that a note on what is left out may take
_ENDLESS: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Section:
    """A list of items, each a whole piece of Markdown, between `head` and `tail`.

    `items` may be lazy: no more of them are made than could fit. `count` is how many there are, `noun` what one is
    called. Of all sections together, one gets room by `weight`, and what it does not need goes to the others.
    """

    head: str
    items: Iterable[str]
    count: int
    noun: str
    weight: int
    tail: str = "\n"

    @property
    def frame(self) -> int:
        """Bytes beside the items."""
        return size(self.head) + size(self.tail) + _NOTE


def size(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text.encode())


def fit(sections: Sequence[Section], room: int) -> tuple[str, bool]:
    """The sections in at most `room` bytes, and whether anything was left out. Sections without items are skipped."""
    wanted = [section for section in sections if section.count]
    room -= sum(section.frame for section in wanted)
    made = [_as_many(section.items, room) for section in wanted]
    needs = [
        sum(map(size, items)) if len(items) == section.count else _ENDLESS
        for section, items in zip(wanted, made, strict=True)
    ]
    grants = _grants(needs, [section.weight for section in wanted], room)
    parts, cut = [], False
    for section, items, grant in zip(wanted, made, grants, strict=True):
        kept = _as_many(items, grant)
        missing = section.count - len(kept)
        cut = cut or bool(missing)
        note = f"\n*Left out here: {missing} {plural(section.noun, missing)}.*\n" if missing else ""
        parts.append(section.head + "".join(kept) + note + section.tail)
    return "".join(parts), cut


def plural(noun: str, count: int) -> str:
    """A noun as it goes with a number."""
    return noun if count == 1 else f"{noun}s"


def _as_many(items: Iterable[str], room: int) -> list[str]:
    return list(_fitting(items, room))


def _fitting(items: Iterable[str], room: int) -> Iterator[str]:
    for item in items:
        room -= size(item)
        if room < 0:
            return
        yield item


def _grants(needs: Sequence[int], weights: Sequence[int], room: int) -> list[int]:
    """What each gets of `room`: all that it needs where that is no more than its share, which leaves more to the
    others."""
    grants = [0] * len(needs)
    open_ = set(range(len(needs)))
    while open_:
        total = sum(weights[n] for n in open_)
        shares = {n: max(0, room) * weights[n] // total for n in open_}
        content = {n for n in open_ if needs[n] <= shares[n]}
        for n in content or open_:
            grants[n] = needs[n] if n in content else shares[n]
            room -= grants[n]
        open_ -= content or open_
    return grants
