"""What is written back to Git: the new status of a pool, and the words of the commit.

Belongs here: records and messages as values, such that redoing the same thing gives the same bytes.
Does not belong here: committing and pushing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from string import Template

from reconciler.core.model import Arch
from reconciler.core.plan import Image
from reconciler.core.status import ArchRecord, PoolRecord, write_status
from reconciler.reconcile.images import Images


def compose(
    pool: str,
    instance: str,
    index: str,
    source_commit: str,
    chosen: Mapping[Arch, Image],
    images: Images,
) -> PoolRecord:
    """The record of an index. Each architecture keeps the commit, epoch and bases that its image carries."""
    repository = index.partition("@")[0]
    entries = []
    for arch, image in sorted(chosen.items()):
        found = images.provenance(image.image)
        assert image.input is not None
        entries.append(
            ArchRecord(
                arch=arch,
                image=f"{repository}@{image.image.partition('@')[2]}",
                input=image.input,
                definition=image.definition,
                source_commit=found.source_commit,
                epoch=found.epoch,
                bases=tuple(sorted(found.bases)),
            )
        )
    return PoolRecord(pool, instance, images.engine, index, source_commit, tuple(entries))


def first_of(index: str, earlier: Iterable[PoolRecord]) -> PoolRecord | None:
    """The version of a status file that began to name this index; None when the newest does not name it.

    What it says of the commit and the engine is what we wrote, as these never change for an index: by it a lost or
    edited file is restored as it was. `earlier` is the file's history, the newest first.
    """
    found = None
    for record in earlier:
        if record.image != index:
            break
        found = record
    return found


def same_images(old: PoolRecord | None, new: PoolRecord) -> bool:
    """Whether two records name the same index and images: then a file of another engine is left as it is."""
    return (
        old is not None
        and old.image == new.image
        and [(e.arch, e.image) for e in old.architectures] == [(e.arch, e.image) for e in new.architectures]
    )


def message(
    changes: Collection[tuple[PoolRecord | None, PoolRecord]],
    source_commit: str,
    instance: str,
    template: str = "",
) -> str:
    """A commit message that says what became of each image, made from the records alone.

    The subject is `template` with `$pools`, `$count`, `$instance` and `$commit` filled in. What follows it, and the
    trailers that other programs read, are always the same.
    """
    ordered = sorted(changes, key=lambda pair: pair[1].pool)
    names = [new.pool for _, new in ordered]
    pools = ", ".join(names[:3]) + (f" and {len(names) - 3} more pools" if len(names) > 3 else "")
    subject = Template(template or "Update $pools").safe_substitute(
        pools=pools, count=len(names), instance=instance, commit=source_commit[:12]
    )
    lines = [subject, ""]
    for old, new in ordered:
        before = {e.arch: e.image.partition("@")[2] for e in old.architectures} if old else {}
        lines.append(f"{new.pool}: {new.image}")
        for entry in new.architectures:
            digest = entry.image.partition("@")[2]
            was = before.pop(entry.arch, None)
            what = "unchanged" if was == digest else f"was {was[:19]}" if was else "new"
            lines.append(f"  {entry.arch:<8} {digest[:19]}  {what}, from {entry.source_commit[:12]}")
        lines += [f"  {arch:<8} left out" for arch in sorted(before)]
        lines.append("")
    lines += [f"Reconciler-Source-Commit: {source_commit}", f"Reconciler-Instance: {instance}"]
    return "\n".join(lines) + "\n"


def files(path_of: Mapping[str, str], records: Iterable[PoolRecord]) -> dict[str, bytes | None]:
    """The status files to commit, by path."""
    return {path_of[record.pool]: write_status(record) for record in records}
