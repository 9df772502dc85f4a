"""The objects in a document's events: itself, or the items of a list; and which of them could be wanted.

Belongs here: what the top level of a mapping says without resolving anything. Does not belong here: reading text into
events, and events into values (`yaml`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

import yaml

from reconciler.errors import Fault

_MOST_SAID: Final = 10
"""Values of one key; a document that gives more could be anything."""


@dataclass(frozen=True, slots=True)
class _Head:
    """What the top level of a document says. `identities` are all pairs of apiVersion and kind that it may mean: '' for
    one that is not given, None where it cannot be told; `hides` says whether some key could turn out to be any;
    `items` are the places of the first events of what stands under that key."""

    identities: tuple[tuple[str | None, str | None], ...]
    hides: bool
    items: tuple[int, ...]

    @classmethod
    def of(cls, events: list[yaml.Event]) -> _Head:
        said: dict[str, list[int]] = {"apiVersion": [], "kind": [], "items": []}
        hides = False
        for key, place in _top_level(events):
            if isinstance(key, yaml.ScalarEvent) and key.tag is None and not is_merge(key):
                if key.value in said:
                    said[key.value].append(place)
            elif not isinstance(key, yaml.CollectionStartEvent):
                hides = True

        def told(name: str) -> tuple[str | None, ...]:
            values = tuple(dict.fromkeys(_told(events[place]) for place in said[name]))
            if len(values) > _MOST_SAID:
                return (None,)
            return values or (None if hides else "",)

        return cls(tuple(product(told("apiVersion"), told("kind"))), hides, tuple(said["items"]))

    def could_be(self, wanted: Container[tuple[str, str]]) -> bool:
        """Whether the document is wanted, or cannot be told."""
        return any(api is None or kind is None or (api, kind) in wanted for api, kind in self.identities)

    @property
    def is_list(self) -> bool:
        return any(kind == "List" for _, kind in self.identities)

    def is_list_of(self, wanted: Container[tuple[str, str]]) -> bool:
        return any(
            kind and kind.endswith("List") and (api or "", kind[:-4]) in wanted
            for api, kind in self.identities
        )


def objects(
    document: list[yaml.Event], path: str, wanted: Container[tuple[str, str]], faults: list[Fault]
) -> Iterator[list[yaml.Event]]:
    """The events of a document, when it could be wanted, and of what could be in it when it is a list, or a list of
    lists; items that cannot be told are added to `faults`."""
    pending = [(document, False)]
    while pending:
        events, needs_kind = pending.pop()
        head = _Head.of(events)
        if head.could_be(wanted):
            yield events
        elif needs_kind and not any(kind for _, kind in head.identities):
            hint = "give every item its apiVersion and kind"
            faults.append(
                Fault(path, line_of(events[1]), "is an item without a kind in a list of ours", hint)
            )
        typed = head.is_list_of(wanted)
        if not typed and not head.is_list:
            continue
        if head.hides and not head.items:
            faults.append(_hidden_items(path, events[1]))
        for place in head.items:
            if isinstance(events[place], yaml.AliasEvent):
                faults.append(_hidden_items(path, events[place]))
            elif isinstance(events[place], yaml.SequenceStartEvent):
                for item in reversed(_items(events, place)):
                    if isinstance(item[0], yaml.AliasEvent):
                        faults.append(_hidden_items(path, item[0]))
                    else:
                        pending.append(([events[0], *item, events[-1]], typed))


def _items(events: list[yaml.Event], sequence: int) -> list[list[yaml.Event]]:
    """The events of each item of the sequence that begins at this place."""
    found: list[list[yaml.Event]] = []
    depth = 0
    for place in range(sequence + 1, len(events)):
        event = events[place]
        if isinstance(event, yaml.CollectionEndEvent):
            if not depth:
                break
            depth -= 1
        elif not depth:
            found.append([])
        found[-1].append(event)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
    return found


def _hidden_items(path: str, event: yaml.Event) -> Fault:
    return Fault(
        path, line_of(event), "is a list with items that an alias or a merge key hides", "write the items out"
    )


def _told(event: yaml.Event) -> str | None:
    """What a top-level value says without resolving anything; None when it says nothing yet."""
    if isinstance(event, yaml.CollectionStartEvent):
        return ""
    return event.value if isinstance(event, yaml.ScalarEvent) and event.tag is None else None


def _top_level(events: list[yaml.Event]) -> Iterator[tuple[yaml.Event, int]]:
    """The first event of each key of the document's mapping, and the place of its value's; nothing when it is none."""
    if not isinstance(events[1], yaml.MappingStartEvent):
        return
    depth = 0
    key: yaml.Event | None = None
    for place, event in enumerate(events[2:], 2):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            continue
        if depth == 0 and isinstance(event, yaml.NodeEvent):
            if key is None:
                key = event
            else:
                yield key, place
                key = None
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1


def line_of(event: yaml.Event) -> int:
    """The line that an event begins on, from 1; 0 when it has none."""
    return event.start_mark.line + 1 if event.start_mark else 0


def is_plain(event: yaml.ScalarEvent) -> bool:
    """Whether a scalar is written without quotes and indicators, so that it may be more than text."""
    return not event.style


def is_merge(event: yaml.ScalarEvent) -> bool:
    """Whether a key is YAML 1.1's merge key."""
    return is_plain(event) and event.value == "<<"
