"""What is kept of finished work between runs, as bytes: readings of files, records, analyses of pools, and baselines.

Belongs here: writing and reading these values, and the keys they are found by. A key covers all input that the value
depends on; that the code is the same is up to the port that keeps the bytes. What cannot be read counts as absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from reconciler.core.catalogue import FileReading
from reconciler.core.documents import BasePolicy, InlineText, MachineOSConfig
from reconciler.core.inputs import Analysis, canonical_json, digest_of
from reconciler.core.machineconfig import Documents
from reconciler.core.model import Arch, Base, Dialect, ImageRef, Needs, TreeEntry
from reconciler.core.plan import Action, Cell, PoolPlan
from reconciler.core.pool import Pool
from reconciler.core.status import ArchRecord, PoolRecord
from reconciler.errors import Fault
from reconciler.reconcile.baseline import Baseline, Standing

Analyses = Mapping[Arch, Analysis]

_ARCHITECTURES: Final = {
    arch.value: arch for arch in Arch
}  # quicker than the enum, which counts in thousands


def file_key(entry: TreeEntry) -> str:
    """The key of a file's reading."""
    return f"file/{entry.oid}/{entry.path}"


def pool_key(pool: Pool, engine: str) -> str:
    """The key of a pool's analyses."""
    return f"pool/{engine}/{pool.fingerprint}"


def write_reading(reading: FileReading) -> bytes | None:
    """A sound reading as bytes; None for one with faults, which is rare and cheap to repeat, and for one with
    MachineConfigs, whose contents are best kept where they are."""
    if reading.broken or reading.doubts or reading.machines != Documents():
        return None
    return canonical_json([_definition(one) for one in reading.definitions])


def read_reading(content: bytes) -> FileReading | None:
    """The reverse of `write_reading`."""
    try:
        return FileReading(tuple(_read_definition(value) for value in _loads(content)))
    except (ValueError, TypeError, KeyError):
        return None


def record_key(entry: TreeEntry) -> str:
    """The key of a status file's record."""
    return f"status/{entry.oid}/{entry.path}"


def write_record(record: PoolRecord) -> bytes:
    """A record as bytes: quicker to read than the status file, which is YAML."""
    return canonical_json(asdict(record))


def read_record(content: bytes) -> PoolRecord | None:
    """The reverse of `write_record`."""
    try:
        value = _loads(content)
        entries = tuple(
            ArchRecord(
                _ARCHITECTURES[one["arch"]],
                one["image"],
                one["input"],
                one["definition"],
                one["source_commit"],
                one["epoch"],
                tuple(Base(base["ref"], base["digest"]) for base in one["bases"]),
            )
            for one in value["architectures"]
        )
        return PoolRecord(
            value["pool"],
            value["instance"],
            value["engine"],
            value["image"],
            value["source_commit"],
            entries,
        )
    except (ValueError, TypeError, KeyError):
        return None


def write_analyses(analyses: Analyses) -> bytes:
    """A pool's analyses as bytes."""
    return canonical_json({arch.value: _analysis(found) for arch, found in analyses.items()})


def read_analyses(content: bytes) -> dict[Arch, Analysis]:
    """The reverse of `write_analyses`; empty when it cannot be read."""
    try:
        return {
            _ARCHITECTURES[arch]: _read_analysis(_ARCHITECTURES[arch], value)
            for arch, value in _loads(content).items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def baseline_key(
    repository: str,
    folder: str,
    engine: str,
    architectures: Iterable[Arch],
    fallback: Iterable[Arch],
    cluster: str = "",
) -> str:
    """The key of a baseline: all that its plans depend on but for the commit, which stands in it. A repository has one
    at a time. `cluster` tells what was known of one."""
    asked = [repository, folder, engine, [*architectures], [*fallback], cluster]
    return f"baseline/{digest_of(canonical_json(asked))}"


def write_baseline(baseline: Baseline) -> bytes:
    """A baseline as bytes. Only cells of unchanged images are in one."""
    pools = [
        [
            pool.name,
            pool.folder,
            pool.push,
            pool.recorded,
            pool.plan
            and [
                pool.plan.path,
                [[cell.arch, cell.definition, cell.image] for cell in pool.plan.cells],
                [[w.path, w.line, w.message, w.hint] for w in pool.plan.warnings],
            ],
        ]
        for pool in baseline.pools
    ]
    beside = [sorted(baseline.configured), sorted(baseline.machines)]
    return canonical_json([baseline.commit, baseline.status_path, pools, *beside])


def read_baseline(content: bytes) -> Baseline | None:
    """The reverse of `write_baseline`."""
    try:
        commit, status_path, pools, configured, machines = _loads(content)
        if not (isinstance(commit, str) and isinstance(status_path, str)):
            return None
        standings = tuple(_read_standing(*pool) for pool in pools)
        return Baseline(commit, status_path, standings, frozenset(configured), frozenset(machines))
    except (ValueError, TypeError, KeyError):
        return None


def _read_standing(
    name: str,
    folder: str,
    push: str,
    recorded: bool,
    plan: tuple[str, list[list[Any]], list[list[Any]]] | None,
) -> Standing:
    if plan is None:
        return Standing(name, folder, push, recorded, None)
    path, cells, warnings = plan
    unchanged = tuple(
        Cell(_ARCHITECTURES[arch], Action.REUSE, (), definition, definition, None, image)
        for arch, definition, image in cells
    )
    return Standing(
        name, folder, push, recorded, PoolPlan(name, path, unchanged, tuple(Fault(*w) for w in warnings))
    )


def _loads(content: bytes) -> Any:
    """The reverse of `canonical_json`: file names need not be UTF-8."""
    return json.loads(content.decode("utf-8", "surrogateescape"))


def _definition(one: MachineOSConfig) -> dict[str, Any]:
    return {
        "pool": one.pool,
        "path": one.path,
        "line": one.line,
        "push": [one.push.repository, one.push.tag, one.push.digest],
        "containerfiles": [
            [arch.value if arch else "", text.text, text.line] for arch, text in one.containerfiles.items()
        ],
        "annotations": dict(one.annotations),
        "pull_secret": one.pull_secret,
        "push_secret": one.push_secret,
        "architectures": None if one.architectures is None else [arch.value for arch in one.architectures],
        "refresh": dict(one.refresh),
        "bases": one.bases.value,
        "suspended": one.suspended,
    }


def _read_definition(value: Mapping[str, Any]) -> MachineOSConfig:
    architectures = value["architectures"]
    return MachineOSConfig(
        pool=value["pool"],
        path=value["path"],
        line=value["line"],
        push=ImageRef(*value["push"]),
        containerfiles={
            Arch(arch) if arch else None: InlineText(text, line)
            for arch, text, line in value["containerfiles"]
        },
        annotations=value["annotations"],
        pull_secret=value["pull_secret"],
        push_secret=value["push_secret"],
        architectures=None if architectures is None else tuple(Arch(arch) for arch in architectures),
        refresh=value["refresh"],
        bases=BasePolicy(value["bases"]),
        suspended=value["suspended"],
    )


def _analysis(found: Analysis) -> list[Any]:
    return [
        found.content,
        [[ref, arch.value] for ref, arch in found.bases],
        found.uses_configs,
        [
            found.needs.runs,
            list(found.needs.foreign),
            [[list(d.since), d.path, d.line, d.what] for d in found.needs.dialect],
        ],
        list(found.assumes),
        [[w.path, w.line, w.message, w.hint] for w in found.warnings],
    ]


def _read_analysis(arch: Arch, value: list[Any]) -> Analysis:
    content, bases, uses_configs, (runs, foreign, dialect), assumes, warnings = value
    return Analysis(
        arch,
        content,
        tuple((ref, Arch(of)) for ref, of in bases),
        uses_configs,
        Needs(
            runs,
            tuple(foreign),
            tuple(Dialect((since[0], since[1]), path, line, what) for since, path, line, what in dialect),
        ),
        tuple(assumes),
        tuple(Fault(*warning) for warning in warnings),
    )
