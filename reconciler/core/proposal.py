"""A pull request that records images: its title and its text, and what finds it again.

Belongs here: words, made from records alone, so that the same records give the same bytes. Does not belong here: when a
request is opened, updated or closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.core.comment.escape import code
from reconciler.core.comment.fit import Section, fit, plural, size
from reconciler.core.comment.layout import whose
from reconciler.core.inputs import canonical_json, digest_of
from reconciler.core.model import DIGEST, GROUP, Arch
from reconciler.core.status import ArchRecord, PoolRecord

TITLE: Final = 250
"""Characters of a title that every forge takes (GitHub's limit is 256, that of the others 255)."""
_KEY: Final = re.compile(rf"<!-- {re.escape(GROUP)}/write-back:v1:\S+ ({DIGEST.pattern}) -->")
_SHORT: Final = len("sha256:") + 8
_COMMIT: Final = 12
_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one pool's record; `old` is None for a pool that had none."""

    old: PoolRecord | None
    new: PoolRecord


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose request it is (`instance`, and the `folder` of the repository, '' for its root), the `branch` that it is
    for, and the commit of that which the images follow."""

    instance: str
    folder: str
    branch: str
    source: str


Images = Mapping[str, Mapping[Arch, str]]
"""The images of pools by architecture, `repository@digest` each."""


def key(images: Images) -> str:
    """What a request is for: its images. The commit that led to them is not in it: a request that was closed says no to
    images, and goes on saying so when somebody commits something else."""
    return digest_of(
        canonical_json(
            {pool: {arch.value: image for arch, image in found.items()} for pool, found in images.items()}
        )
    )


def images(records: Iterable[PoolRecord]) -> Images:
    """The images that records name."""
    return {record.pool: {entry.arch: entry.image for entry in record.architectures} for record in records}


def key_in(body: str) -> str:
    """The key that a request's text carries; '' for none."""
    found = _KEY.match(body.lstrip())
    return found[1] if found else ""


def title(subject: str) -> str:
    """The title: a commit's subject in one line that is not too long."""
    flat = " ".join(subject.split())
    return flat if len(flat) <= TITLE else flat[: TITLE - 1] + "…"


def body(changes: Sequence[Change], origin: Origin, limit: int) -> str:
    """The text, in at most `limit` bytes of UTF-8; what does not fit is left out in whole lines, and that is said."""
    ordered = sorted(changes, key=lambda change: change.new.pool)
    whom, what = whose(origin.instance, origin.folder), key(images(change.new for change in changes))
    mark = f"<!-- {GROUP}/write-back:v1:{whom} {what} -->\n"
    head = f"{mark}### {_verdict(ordered)}\n\n"
    foot = _foot(ordered, origin)
    rows = [row for change in ordered for row in _rows(change)]
    table = "| pool | architecture | image | before | built from |\n|:--|:--|:--|:--|:--|\n"
    middle, _ = fit([Section(table, rows, len(rows), "line", 1)], limit - size(head) - size(foot))
    return head + middle + foot


def closing(origin: Origin, why: str) -> str:
    """The text of a request that we close ourselves. It carries no key: nobody said no to these images."""
    whom = whose(origin.instance, origin.folder)
    return f"<!-- {GROUP}/write-back:v1:{whom} closed -->\nClosed by the reconciler: {why}.\n"


def _verdict(changes: Sequence[Change]) -> str:
    pools, entries = len(changes), [(change, e) for change in changes for e in change.new.architectures]
    new = sum(_before(change, entry) != entry.image for change, entry in entries)
    verb = "is" if new == 1 else "are"
    return f"{new} of {len(entries)} {plural('image', len(entries))} {verb} new, in {pools} {plural('pool', pools)}"


def _rows(change: Change) -> Iterator[str]:
    """The images, those that are left out, and the index over them."""
    name, old, new = code(change.new.pool, _NAME), change.old, change.new
    for entry in new.architectures:
        before = _before(change, entry)
        was = "unchanged" if before == entry.image else _digest(before) if before else "none"
        yield _row(name, entry.arch, _digest(entry.image), was, entry.source_commit)
    left = {entry.arch for entry in new.architectures}
    for entry in old.architectures if old else ():
        if entry.arch not in left:
            yield _row(name, entry.arch, "left out", _digest(entry.image), entry.source_commit)
    was = "none" if old is None else "unchanged" if old.image == new.image else _digest(old.image)
    yield _row(name, "*index*", _digest(new.image), was, new.source_commit)


def _row(name: str, arch: str, image: str, before: str, commit: str) -> str:
    return f"| {name} | {arch} | {image} | {before} | {code(commit[:_COMMIT])} |\n"


def _before(change: Change, entry: ArchRecord) -> str:
    known = (old.image for old in change.old.architectures if old.arch is entry.arch) if change.old else ()
    return next(iter(known), "")


def _digest(image: str) -> str:
    return code(image.rpartition("@")[2][:_SHORT] + "…")


def _foot(changes: Sequence[Change], origin: Origin) -> str:
    them = "these images" if len(changes) > 1 or len(changes[0].new.architectures) > 1 else "this image"
    return (
        f"The images follow {code(origin.source[:_COMMIT])}. They are built and in the registry; tags and nodes follow"
        f" what {code(origin.branch)} records, so merging this delivers {them}, by whichever way of merging.\n\n"
        "The reconciler keeps this request up to date: it overwrites the branch, and closes the request when nothing is"
        f" left to record. To say no to {them}, close it without merging.\n\n"
        f"Source commit {origin.source}, instance {code(origin.instance)}.\n"
    )
