"""The text of a systemd unit, as far as enabling it asks: its [Install] section.

Belongs here: syntax, and what `systemctl enable` would link. Does not belong here: which units there are (`units`).
Sources: systemd.syntax(7), systemd.unit(5) "[INSTALL] SECTION OPTIONS" and "SPECIFIERS"; coreos/go-systemd
`unit/deserialize.go`, by which Ignition validates a unit's contents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.core.yaml import shown

_NAME: Final = re.compile(
    r"[A-Za-z0-9:_.\\@-]{1,240}"
    r"\.(?:service|socket|device|mount|automount|swap|target|path|timer|snapshot|slice|scope)"
)
_SECTION: Final = re.compile(r"\[[^\[\]\x00-\x1f]+\]")
_SPECIFIER: Final = re.compile(r"%(.?)", re.DOTALL)
_FOLDERS: Final[Mapping[str, str]] = {"WantedBy": "wants", "RequiredBy": "requires", "UpheldBy": "upholds"}
_LISTS: Final = (*_FOLDERS, "Alias", "Also")


class BadUnit(Exception):
    """A unit that systemd would not read; the message says on which line of it, and why."""


@dataclass(frozen=True, slots=True)
class Install:
    """What an [Install] section asks for. `links`: below the units' folder, in order of the text.

    `also`: other units to enable. `told` is False when only systemctl can tell, on the system itself; the lists are
    empty then. `node`: it can tell on a node only, as a specifier stands for something of that. `given`: there is such
    a section.
    """

    links: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    told: bool = True
    node: bool = False
    given: bool = False


def is_name(text: str) -> bool:
    """Whether this is the name of a unit, of one of the kinds that Ignition takes."""
    return _NAME.fullmatch(text) is not None


def check(text: str) -> None:
    """Raises BadUnit."""
    for _ in options(text):
        pass


def options(text: str) -> Iterator[tuple[str, str, str]]:
    """Section, key and value of each line. Raises BadUnit."""
    section = ""
    for number, line in _logical_lines(text):
        if line.startswith("["):
            if not _SECTION.fullmatch(line):
                raise BadUnit(f"line {number}: is no section, though it begins with '['")
            section = line[1:-1]
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise BadUnit(f"line {number}: is neither a section nor key=value")
        if not section:
            raise BadUnit(f"line {number}: stands before any section")
        yield section, key.strip(), value.strip()


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations and without comments; each with the number of its first."""
    parts: list[str] = []
    first = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if line.startswith(("#", ";")) or (not line and not parts):
            continue
        first = first or number
        if line.endswith("\\"):
            parts.append(line[:-1])
            continue
        parts.append(line)
        if whole := " ".join(parts).strip():
            yield first, whole
        parts, first = [], 0
    if whole := " ".join(parts).strip():
        yield first, whole


def install(name: str, texts: Iterable[str]) -> Install:
    """What enabling the unit `name` does, by its text and those of its drop-ins, in order. Raises BadUnit.

    A template without an instance, and aliases where templates have to do with it, follow rules of their own, which
    differ between versions of systemd: those are not told here.
    """
    lists: dict[str, list[str]] = {key: [] for key in _LISTS}
    given = False
    for text in texts:
        for section, key, value in options(text):
            given = given or section == "Install"
            if section == "Install" and key in lists:
                # An empty value takes back what was said before.
                lists[key] = [*lists[key], *value.split()] if value else []
    values: dict[str, list[str]] = {}
    for key, words in lists.items():
        expanded = [_expanded(word, name) for word in words]
        values[key] = [word for word in expanded if word is not None]
        if len(values[key]) < len(words):
            return Install(told=False, node=True, given=given)
        if strange := next((word for word in values[key] if not is_name(word)), None):
            raise BadUnit(f"[Install] of {name}: {key}= is about {shown(strange)}, which is no unit")
    kind = name.rpartition(".")[2]
    plain = "@" not in name and all("@" not in word and word.endswith(f".{kind}") for word in values["Alias"])
    if "@." in name or (values["Alias"] and not plain):
        return Install(told=False, given=given)
    links = [f"{word}.{folder}/{name}" for key, folder in _FOLDERS.items() for word in values[key]]
    links += [word for word in values["Alias"] if word != name]
    return Install(tuple(dict.fromkeys(links)), tuple(dict.fromkeys(values["Also"])), given=given)


def _expanded(word: str, name: str) -> str | None:
    """The word with its specifiers replaced by what the unit's name says; None if one needs the node."""
    stem = name.rpartition(".")[0]
    prefix, at, instance = stem.partition("@")
    known = {"n": name, "N": stem, "p": prefix, "i": instance if at else "", "%": "%"}
    known["j"] = prefix.rpartition("-")[2]
    found = [match[1] for match in _SPECIFIER.finditer(word)]
    if any(letter not in known for letter in found):
        return None
    return _SPECIFIER.sub(lambda match: known[match[1]], word)
