"""The verdict on a pair: what our digests say of the edit, and what the builds show.

`digest equal ⇒ observed equal` must hold always; where digests differ and nothing was observed, a build was needless.
Does not belong here: the edits (`kinds`), the building (`observe`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from reconciler.adapters.shfmt import ShfmtParser, installed
from reconciler.core.containerfile import (
    ContextTree,
    IgnoreRules,
    Recipe,
    effective_ignore,
    parse,
    specialise,
)
from reconciler.core.inputs import Analysis, Inputs
from reconciler.core.model import Arch, TreeEntry
from reconciler.errors import InvalidInput
from reconciler.reconcile.targets import standing_for_programs
from tests.oracle.draft import Definition, File, Pair
from tests.oracle.machines import content
from tests.oracle.observe import Builder, Builders, Failed, Observed


class Verdict(StrEnum):
    """What became of one pair on one architecture."""

    EXACT = "exact"
    NEEDLESS = "needless"
    MISSED = "missed"
    REFUSED = "refused"
    """We refuse the text, or this buildah would read it otherwise: nothing is decided."""
    UNBUILT = "unbuilt"
    """buildah cannot build it."""
    UNSTEADY = "unsteady"
    """The same text gives another image each time."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One pair on one architecture. `changed` is what the builds showed; None when it is not known."""

    pair: Pair
    arch: Arch
    verdict: Verdict
    changed: bool | None = None
    detail: str = ""


_shfmt = cache(installed)


def recipe_of(definition: Definition, arch: Arch) -> Recipe:
    """What our reader makes of a definition. Raises InvalidInput."""
    entries = [_entry("Containerfile", File(definition.text))]
    entries += [_entry(path, file) for path, file in definition.files.items()]
    links = {path: file.text for path, file in definition.files.items() if file.link}
    name = effective_ignore(definition.files, "Containerfile")
    ignore = IgnoreRules.parse(definition.files[name].text, name) if name else IgnoreRules()
    context = ContextTree(tuple(sorted(entries)), links, frozenset(), ignore)
    # A parser for each: pairs are judged in threads, and a parser remembers answers without a lock.
    trees = ShfmtParser(_shfmt()).tree
    return specialise(parse(definition.text, "Containerfile"), arch, context, trees)


def _entry(path: str, file: File) -> TreeEntry:
    content = file.text.encode()
    mode = "120000" if file.link else "100755" if file.executable else "100644"
    return TreeEntry(path, mode, hashlib.sha1(content, usedforsecurity=False).hexdigest(), len(content))


class Refused(Exception):
    """Nothing is decided about a definition, so that it is not built either."""


Decide = Callable[[Definition, Arch, tuple[int, int]], str]
"""Gives the digest of a definition for an architecture, when it is built by a version of buildah. Raises Refused."""


def decide(definition: Definition, arch: Arch, version: tuple[int, int]) -> str:
    """The definition digest. Raises Refused for what we refuse, and for what this buildah would read otherwise."""
    try:
        recipe = recipe_of(definition, arch)
        configs = content(definition, arch) if recipe.uses_configs else None
    except InvalidInput as error:
        raise Refused(error.faults[0].message) from error
    newer = [one.what for one in recipe.needs.dialect if one.since > version]
    if newer:
        raise Refused(f"another buildah: {newer[0]}")
    inputs = Inputs.of(Analysis.of(recipe), configs=configs)
    if faults := standing_for_programs(inputs):
        raise Refused(faults[0].message)
    return inputs.definition


def judge(pairs: Iterable[Pair], builders: Builders, decider: Decide = decide) -> Iterator[Cell]:
    """Judge pairs, as many at a time as there are builders, in their order."""

    def judged(pair: Pair) -> list[Cell]:
        with builders.one() as builder:
            return [_judge_one(builder, builders.version, pair, arch, decider) for arch in pair.arches]

    with ThreadPoolExecutor(builders.count) as pool:
        for cells in pool.map(judged, pairs):
            yield from cells


def _judge_one(builder: Builder, version: tuple[int, int], pair: Pair, arch: Arch, decider: Decide) -> Cell:
    try:
        old, new = (decider(one, arch, version) for one in (pair.before, pair.after))
    except Refused as error:
        return Cell(pair, arch, Verdict.REFUSED, detail=str(error))
    before, after = (builder.build(one, arch) for one in (pair.before, pair.after))
    if isinstance(before, Failed) and isinstance(after, Failed):
        return Cell(pair, arch, Verdict.UNBUILT, detail=before.complaint)
    changed = before != after
    if changed is (old != new):
        return Cell(pair, arch, Verdict.EXACT, changed)
    if not changed:
        return Cell(pair, arch, Verdict.NEEDLESS, changed)
    again = [builder.build(one, arch) for one in (pair.before, pair.after)]
    if [_comparable(one) for one in again] != [_comparable(one) for one in (before, after)]:
        return Cell(pair, arch, Verdict.UNSTEADY, detail="a second build gives something else")
    return Cell(pair, arch, Verdict.MISSED, changed, _difference(before, after))


def _comparable(outcome: Observed | Failed) -> Observed | None:
    return None if isinstance(outcome, Failed) else outcome


def _difference(before: Observed | Failed, after: Observed | Failed) -> str:
    if isinstance(before, Failed) or isinstance(after, Failed):
        return f"one of them cannot be built: {before} {after}"
    if before.files != after.files:
        return "the files differ"
    return f"{before.config} became {after.config}"
