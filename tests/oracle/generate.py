"""Random definitions, and pairs of them that differ by one edit.

Belongs here: chance, and only from a seed. Does not belong here: the edits (`kinds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from reconciler.core.model import Arch
from tests.oracle.bases import BASE, DASH
from tests.oracle.draft import Draft, File, Pair
from tests.oracle.kinds import KINDS
from tests.oracle.kinds.tables import WORDS

_ALL_ARCHES_SHARE = 0.15
_TWO = (Arch.AMD64, Arch.ARM64)


def pairs(seed: int, count: int, kinds: Sequence[str] = ()) -> Iterator[Pair]:
    """`count` pairs over the given kinds, or all. Kinds take turns in an order that the seed decides."""
    names = sorted(kinds or KINDS)
    Random(seed).shuffle(names)  # noqa: S311  (chance, not secrets)
    for number in range(count):
        yield pair(names[number % len(names)], seed, number)


def pair(kind: str, seed: int, number: int) -> Pair:
    """One pair, always the same for the same arguments."""
    rng = Random(f"{kind} {seed} {number}")  # noqa: S311
    draft = scene(rng)
    edit = KINDS[kind](draft, rng)
    next(edit)
    before = draft.definition()
    if next(edit, StopIteration) is not StopIteration:
        raise ValueError(f"kind {kind} yields more than once")
    after = draft.definition()
    if before == after:
        raise ValueError(f"kind {kind} changes nothing")
    arches = tuple(Arch) if rng.random() < _ALL_ARCHES_SHARE else _TWO
    return Pair(kind, seed, number, before, after, arches)


def scene(rng: Random) -> Draft:
    """A definition that builds: at most one build stage, and a last stage that starts with `ARG TARGETARCH`."""
    draft = Draft(files=_files(rng))
    base = BASE if rng.random() < 0.85 else DASH
    if rng.random() < 0.4:
        draft.append(f"ARG VERSION={rng.randint(1, 9)}")
    with_stage = rng.random() < 0.25
    if with_stage:
        draft.append(f"FROM {BASE} AS build", f"RUN echo {rng.choice(WORDS)} > /made")
    draft.append(f"FROM {base}", "ARG TARGETARCH TARGETPLATFORM")
    pieces = [
        f"ENV COLOUR={rng.choice(WORDS)} TREE={rng.choice(WORDS)}",
        f'LABEL org.example.tree="{rng.choice(WORDS)}" org.example.arch=$TARGETARCH',
        "COPY etc/app.conf /etc/app.conf",
        "COPY etc /etc/all/",
        "WORKDIR /srv/app",
        f"EXPOSE {rng.randint(1000, 9000)}",
        f"RUN mkdir -p /var/lib/app && echo {rng.choice(WORDS)} > /var/lib/app/tree",
    ]
    draft.append(*rng.sample(pieces, rng.randint(0, 3)))
    if with_stage:
        draft.append("COPY --from=build /made /opt/made")
    return draft


def _files(rng: Random) -> dict[str, File]:
    files = {
        "etc/app.conf": File(f"tree={rng.choice(WORDS)}\n"),
        "etc/motd": File(f"{rng.choice(WORDS)}\n"),
        "etc/conf.d/10.conf": File("ten\n"),
        "etc/conf.d/20.conf": File("twenty\n"),
        "etc/current": File("app.conf", link=True),
        "tool": File(f"#!/bin/sh\necho {rng.choice(WORDS)}\n", executable=True),
        "README.md": File("Not in any image.\n"),
    }
    return files | {f"bin/{arch}/agent": File(f"agent for {arch}\n", executable=True) for arch in Arch}
