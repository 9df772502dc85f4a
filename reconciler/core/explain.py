"""Words for a decision: what changed and where, or why a change rebuilds nothing.

Belongs here: comparing two definitions for people. Does not belong here: deciding; nothing in here is ever asked
whether to build.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from reconciler.core import explain_configs
from reconciler.core.containerfile import Recipe, Step
from reconciler.core.inputs import Inputs
from reconciler.core.model import Arch, Base, TreeEntry
from reconciler.core.plan import Reason
from reconciler.core.pool import Pool
from reconciler.core.sources import Source

_MOST = 20  # reasons per cell; a rewritten file needs no hundred of them
_FEW = 4  # words that still read well in a table
_WIDTH = 400  # characters of an instruction shown before and after


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one image's definition: its pool, and what its Containerfile's `text` comes to."""

    pool: Pool
    inputs: Inputs
    recipe: Recipe
    text: str

    @property
    def source(self) -> Source | None:
        """Where the text stands."""
        return self.pool.source(self.recipe.arch)


def changes(before: Version, after: Version) -> tuple[Reason, ...]:
    """What differs between two sets of inputs, most telling first. Empty exactly when the definitions are equal."""
    if before.inputs.definition == after.inputs.definition:
        return ()
    reasons = [
        *_steps(before.recipe.steps, after.recipe.steps),
        *_files(before, after),
        *explain_configs.changes(before.inputs.configs, after.inputs.configs),
    ]
    if before.inputs.epoch != after.inputs.epoch:
        definition = after.pool.definition
        reasons.append(
            Reason("refresh", "changed", "a refresh was asked for", definition.path, definition.line)
        )
    return tuple(reasons[:_MOST]) or (_difference(before, after),)


def moved_bases(before: Iterable[Base], after: Iterable[Base]) -> tuple[Reason, ...]:
    """Bases whose digest for this architecture is no longer the one that was built from."""
    known = {base.ref: base.digest for base in before}
    return tuple(
        Reason("bases", "changed", f"base {base.ref} moved", before=known[base.ref], after=base.digest)
        for base in after
        if base.ref in known and known[base.ref] != base.digest
    )


def skipped(
    before: Version, after: Version, users: Mapping[str, Collection[Arch]], affected: Collection[Arch]
) -> tuple[Reason, ...]:
    """For equal inputs: each edit to the definition's files, and why it rebuilds nothing here.

    `users` says which architectures of the pool copy a context file; `affected` are those that the same text is built
    for, and whose inputs it did change.
    """
    reasons: list[Reason] = []
    old, new = before.source, after.source
    if new and before.text != after.text:
        line = new.line + _first_difference(before.text, after.text)
        reasons.append(
            Reason("recipe", "unchanged", _harmless(before.text, after.text, affected), new.path, line)
        )
    elif old and new and old.path != new.path:
        reasons.append(Reason("recipe", "unchanged", "moved, and the same", new.path, new.line))
    used = {entry.path for entry in after.recipe.context}
    own = {posixpath.basename(after.pool.definition.path)}
    if new and not new.inline:
        own.add(posixpath.basename(new.path))
    for path, _ in _tree_changes(before.pool.context, after.pool.context):
        if path in used or path in own:
            continue
        place = posixpath.join(after.pool.folder, path)
        reasons.append(Reason("context", "unchanged", _elsewhere(path, users.get(path, ())), place))
    reasons += explain_configs.unchanged(before.inputs.configs, after.inputs.configs)
    return tuple(reasons[:_MOST])


def _harmless(old: str, new: str, affected: Collection[Arch]) -> str:
    """What kind of edit changed a text and not what it means here."""
    if old.split() == new.split():
        return "white space only"
    if _without_comments(old) == _without_comments(new):
        return "comment only"
    if affected:
        names = " and ".join(sorted(affected))
        return f"only the {names} branch{'' if len(affected) == 1 else 'es'} changed"
    return "nothing that is built changed"


def _without_comments(text: str) -> list[list[str]]:
    lines = (line.split() for line in text.splitlines())
    return [words for words in lines if words and not words[0].startswith("#")]


def _elsewhere(path: str, users: Collection[Arch]) -> str:
    if users:
        return (
            f"only {', '.join(sorted(users))} copies it"
            if len(users) == 1
            else f"only copied for {', '.join(sorted(users))}"
        )
    suffix = path.removeprefix("Containerfile.")
    if suffix != path and suffix in {arch.value for arch in Arch}:
        return f"only {suffix} is built from it"
    if path == "Containerfile":
        return "not the text of this architecture"
    return "not copied by any reachable stage"


def _steps(before: tuple[Step, ...], after: tuple[Step, ...]) -> Iterator[Reason]:
    matcher = SequenceMatcher(
        None, [(s.keyword, s.text) for s in before], [(s.keyword, s.text) for s in after], autojunk=False
    )
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        olds, news = before[old_start:old_end], after[new_start:new_end]
        for number in range(max(len(olds), len(news))):
            old = olds[number] if number < len(olds) else None
            new = news[number] if number < len(news) else None
            step = new or old
            assert step is not None
            change = "changed" if old and new else "added" if new else "removed"
            yield Reason(
                "recipe",
                change,
                f"{step.keyword}: {_words(old, new)}",
                step.path,
                step.line,
                *_excerpts(old.text if old else "", new.text if new else ""),
            )


def _words(old: Step | None, new: Step | None) -> str:
    """The words that differ between two texts of an instruction, when they are few; else that it changed."""
    if old is None or new is None:
        return f"{'added' if new else 'removed'}"
    left, right = old.text.split(), new.text.split()
    while left and right and left[0] == right[0]:
        left, right = left[1:], right[1:]
    while left and right and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    if len(left) > _FEW or len(right) > _FEW or len("".join(left + right)) > _WIDTH:
        return "changed"
    return f"{' '.join(left) or '(nothing)'} → {' '.join(right) or '(nothing)'}"


def _files(before: Version, after: Version) -> Iterator[Reason]:
    for path, change in _tree_changes(before.recipe.context, after.recipe.context):
        yield Reason("context", change, f"file {change}", posixpath.join(after.pool.folder, path))


def _tree_changes(before: Iterable[TreeEntry], after: Iterable[TreeEntry]) -> Iterator[tuple[str, str]]:
    old = {entry.path: (entry.mode, entry.oid) for entry in before}
    new = {entry.path: (entry.mode, entry.oid) for entry in after}
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) != new.get(path):
            yield path, "added" if path not in old else "removed" if path not in new else "changed"


def _difference(before: Version, after: Version) -> Reason:
    """Where the canonical forms differ although no instruction does: a last resort, so that no build is unexplained."""
    from deepdiff import DeepDiff  # deepdiff takes longer to import than most plans take to make

    found = DeepDiff(before.recipe.canonical, after.recipe.canonical).pretty().splitlines()
    source = after.source
    return Reason(
        "recipe",
        "changed",
        _clip(found[0]) if found else "the canonical form changed",
        source.path if source else after.pool.definition.path,
        source.line if source else after.pool.definition.line,
    )


def _first_difference(before: str, after: str) -> int:
    """Number of the first line, from 0, that is not the same."""
    old, new = before.splitlines(), after.splitlines()
    for number, (left, right) in enumerate(zip(old, new, strict=False)):
        if left != right:
            return number
    return max(0, min(len(old), len(new) - 1))


def _excerpts(old: str, new: str) -> tuple[str, str]:
    """Two texts on a line each; where they are too long, from a little before they begin to differ."""
    left, right = " ".join(old.split()), " ".join(new.split())
    start = 0
    if max(len(left), len(right)) > _WIDTH:
        same = len(posixpath.commonprefix([left, right]))
        start = left.rfind(" ", 0, max(0, same - _WIDTH // 4)) + 1
    return _clip(left, start), _clip(right, start)


def _clip(text: str, start: int = 0) -> str:
    flat = ("…" if start else "") + " ".join(text[start:].split())
    return flat if len(flat) <= _WIDTH else flat[: _WIDTH - 1] + "…"
