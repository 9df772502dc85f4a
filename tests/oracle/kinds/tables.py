"""What modules of kinds share: above all kinds that are nothing but text, instructions before and after.

Does not belong here: any kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.oracle.draft import Draft, Edit, File, Kind

WORDS = ("ash", "birch", "cedar", "elm", "fir", "larch", "maple", "oak", "pine", "rowan", "spruce", "yew")

_PROBES = (
    ("$TARGETARCH", ("amd64", "arm64", "ppc64le", "s390x")),
    ("${TARGETARCH}", ("amd64", "arm64", "ppc64le", "s390x")),
    ("$TARGETPLATFORM", ("linux/amd64", "linux/arm64", "linux/ppc64le", "linux/s390x")),
    ("$(uname -m)", ("x86_64", "aarch64", "ppc64le", "s390x")),
    ("`uname -m`", ("x86_64", "aarch64", "ppc64le", "s390x")),
    ("$(arch)", ("x86_64", "aarch64", "ppc64le", "s390x")),
    ("$(dpkg --print-architecture)", ("amd64", "arm64", "ppc64el", "s390x")),
    ("$(rpm --eval %_arch)", ("x86_64", "aarch64", "ppc64le", "s390x")),
    ("$(rpm --eval '%{_arch}')", ("x86_64", "aarch64", "ppc64le", "s390x")),
    ("$(apk --print-arch)", ("x86_64", "aarch64", "ppc64le", "s390x")),
)
_TEXTS = {
    "<if-arm64>": 'if [ "$TARGETARCH" = arm64 ]; then echo @ > /f; else echo a > /f; fi',
    "<if-aarch64>": 'if [ "$(uname -m)" = aarch64 ]; then echo @ > /f; else echo a > /f; fi',
}
_SHIMS = {
    "shim/uname": File("#!/bin/busybox sh\necho aarch64\n", executable=True),
    "shim/program": File("#!/bin/busybox sh\necho aarch64\n", executable=True),
    "shim/shell": File('#!/bin/bash\nTARGETARCH=arm64; eval "$2"\n', executable=True),
    "shim/env.sh": File("TARGETARCH=arm64\nTARGETPLATFORM=linux/arm64\n"),
}
_MARKS = ("<amd64>", "<arm64>", "<ppc64le>", "<s390x>")


def words(rng: Random) -> tuple[str, str]:
    """Two different words: what is edited, before and after."""
    old, new = rng.sample(WORDS, 2)
    return old, new


def named(*kinds: Kind) -> dict[str, Kind]:
    """Kinds by the names of their functions."""
    return {kind.__name__: kind for kind in kinds}


class Table(dict[str, "Row"]):
    """Kinds by name, made from texts of instructions, one a line.

    `@` is a word that the edit changes; instead, a row may be a text before and one after. `<probe>` is some way
    to ask for the architecture, `<amd64>`, `<arm64>`, … its answers. `<if-arm64>` and `<if-aarch64>` are commands that
    write the word only there. Words are chosen by chance. A row that names files of `shim/`, or all of it, gets
    them in its context: programs and settings that lie about the architecture.
    """

    def __init__(self, rows: Mapping[str, str | tuple[str, str]]) -> None:
        super().__init__({name: Row(row) for name, row in rows.items()})


class Row:
    """One kind that is nothing but text."""

    def __init__(self, row: str | tuple[str, str]) -> None:
        self._before, self._after = (row, row) if isinstance(row, str) else row

    def __call__(self, draft: Draft, rng: Random) -> Edit:
        """Insert the text before, then change it to the text after."""
        old, new = words(rng)
        probe, answers = rng.choice(_PROBES)

        def fill(text: str, word: str) -> list[str]:
            for mark, command in _TEXTS.items():
                text = text.replace(mark, command)
            text = text.replace("<probe>", probe).replace("@", word)
            for mark, answer in zip(_MARKS, answers, strict=True):
                text = text.replace(mark, answer)
            return text.strip().splitlines()

        before, after = fill(self._before, old), fill(self._after, new)
        place = draft.insert(rng, *before)
        if "shim" in self._before:
            draft.files |= {path: file for path, file in _SHIMS.items() if path in self._before} or _SHIMS
        yield
        draft.lines[place : place + len(before)] = after
