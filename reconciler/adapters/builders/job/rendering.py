"""A `MultiArchBuild` and the Events about it, as JSON, from what a pass reports.

Belongs here: pure functions from values to JSON. Does not belong here: asking or telling the API (`multiarchbuild`),
and `status.failures`, which is the builder's (`failures`).

The words of the conditions are those of upstream's MachineOSBuild (machine-config-operator, pkg/apihelpers); `Ready`
and `Stalled` are for kstatus, by which other tools tell whether an object is done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from reconciler.adapters.builders.job.names import (
    EVENT,
    MANAGER,
    MULTI_ARCH_BUILD,
    items,
    mapping,
    metadata,
    pool_labels,
)
from reconciler.adapters.builders.job.times import timestamp
from reconciler.core.names import shortened
from reconciler.ports import Cause
from reconciler.ports.cluster import ArchReport, BuildState, Json, PoolReport

OWN: Final = (
    "architectures",
    "completionTime",
    "conditions",
    "image",
    "observedGeneration",
    "progress",
    "startTime",
    "state",
)
"""The fields of a status that are written here."""
_UPSTREAM: Final = {
    BuildState.PREPARED: ("Prepared", "Build Prepared and Pending"),
    BuildState.BUILDING: ("Building", "Image Build In Progress"),
    BuildState.FAILED: ("Failed", "Build Failed"),
    BuildState.INTERRUPTED: ("Interrupted", "Build Interrupted"),
    BuildState.SUCCEEDED: ("Ready", "Build Ready"),
}
"""Reason and message of each condition, true or not. All five are always written."""
_BLOCKED: Final = "Blocked"
"""Of those that are prepared, the state where something must be supplied first. MachineOSBuild has no word for it."""
_ENDED: Final = (BuildState.SUCCEEDED, BuildState.FAILED, BuildState.INTERRUPTED)
_MESSAGE_LIMIT: Final = 8192
_EVENT_LIMIT: Final = 1024
_NAME_LIMIT: Final = 200
_EVENTS: Final = {
    BuildState.BUILDING: ("BuildStarted", "Normal"),
    BuildState.SUCCEEDED: ("BuildSucceeded", "Normal"),
    BuildState.FAILED: ("BuildFailed", "Warning"),
    BuildState.INTERRUPTED: ("BuildStale", "Warning"),
}


def is_worth_showing(report: PoolReport) -> bool:
    """Whether there is anything to build: what only points to images that exist needs no object of its own."""
    return bool(report.work) and any(one.state is not BuildState.SUCCEEDED for one in report.architectures)


def has_ended(work: Json) -> bool:
    """Whether a MultiArchBuild has come to its end, as it says itself."""
    return mapping(work, "status").get("state") in {state.value for state in _ENDED}


def body(report: PoolReport, instance: str, namespace: str, owners: Sequence[Mapping[str, Any]]) -> Json:
    """A new MultiArchBuild. Its spec never changes: it says which images were wanted, and who asked first."""
    return {
        "apiVersion": MULTI_ARCH_BUILD.api_version,
        "kind": MULTI_ARCH_BUILD.name,
        "metadata": {
            "name": report.work,
            "namespace": namespace,
            "labels": pool_labels(instance, report.pool),
            "ownerReferences": [dict(owner) for owner in owners],
        },
        "spec": {
            "pool": report.pool,
            "sourceCommit": report.commit,
            "plan": report.plan,
            "architectures": [
                _filled({"arch": a.arch.value, "input": a.input}) for a in report.architectures
            ],
        },
    }


def status(report: PoolReport, work: Json, now: float) -> Json:
    """What a MultiArchBuild's status should be; `work` is how it is."""
    state = _state(report)
    done = [one for one in report.architectures if one.state is BuildState.SUCCEEDED]
    blocked = state is BuildState.PREPARED and any(map(_is_blocked, report.architectures))
    begun = [one.started for one in report.architectures if one.started]
    ended = [one.finished for one in report.architectures if one.finished]
    progress = f"{len(done)}/{len(report.architectures)}"
    return _filled(
        {
            "state": _BLOCKED if blocked else state.value,
            "progress": progress,
            "image": report.image if state is BuildState.SUCCEEDED else "",
            "observedGeneration": metadata(work).get("generation", 1),
            "startTime": timestamp(min(begun)) if begun else "",
            "completionTime": timestamp(max(ended)) if ended and state in _ENDED else "",
            "architectures": [_architecture(one) for one in report.architectures],
            "conditions": _conditions(state, _summary(report, state), work, now, blocked=blocked),
        }
    )


def interrupted(work: Json, by: str, now: float) -> Json:
    """The status of a MultiArchBuild that ends because something else is wanted, which `by` says."""
    found = mapping(work, "status")
    unfinished = {BuildState.PREPARED.value, BuildState.BUILDING.value}
    entries = [
        {**one, "phase": BuildState.INTERRUPTED.value} if one.get("phase") in unfinished else dict(one)
        for one in items(work, "status", "architectures")
    ]
    return {
        **{key: value for key, value in found.items() if key in OWN},
        "state": BuildState.INTERRUPTED.value,
        "observedGeneration": metadata(work).get("generation", 1),
        "completionTime": timestamp(now),
        "architectures": entries,
        "conditions": _conditions(BuildState.INTERRUPTED, by, work, now),
    }


def patch(work: Json, wanted: Json) -> Json | None:
    """The patch that makes our part of a status what is wanted; None when it is that."""
    found = mapping(work, "status")
    changes: dict[str, Any] = {key: wanted[key] for key in wanted if found.get(key) != wanted[key]}
    changes |= {key: None for key in OWN if key in found and key not in wanted}
    if not changes:
        return None
    return {"metadata": {"resourceVersion": metadata(work)["resourceVersion"]}, "status": changes}


def events(report: PoolReport, work: Json, now: float) -> Iterator[Json]:
    """What has happened since a MultiArchBuild was last written. The same happening gives the same name, so that none
    is told twice."""
    before = {one.get("arch"): one for one in items(work, "status", "architectures")}
    for one in report.architectures:
        known = before.get(one.arch.value, {})
        if _is_blocked(one) and known.get("message") != _cut(one.message):
            yield event(work, "BuildBlocked", "Warning", f"{one.arch}: {one.message}", now)
        if one.state not in _EVENTS or (known.get("phase"), known.get("job", "")) == (
            one.state.value,
            one.build,
        ):
            continue
        if one.state is BuildState.SUCCEEDED and not one.build:
            continue  # it was there before
        reason, kind = _EVENTS[one.state]
        yield event(work, reason, kind, _told(one), now)


def event(work: Json, reason: str, kind: str, message: str, now: float) -> Json:
    """An Event about a MultiArchBuild."""
    about = metadata(work)
    if len(message) > _EVENT_LIMIT:  # the start says what, the end of a log says why
        head = message.partition("\n")[0][:200]
        message = f"{head}\n…{message[len(head) + 2 - _EVENT_LIMIT :]}"
    mark = hashlib.sha256("\0".join((str(about["uid"]), reason, message)).encode()).hexdigest()[:16]
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {
            "name": f"{shortened(str(about['name']), _NAME_LIMIT)}.{mark}",
            "namespace": about["namespace"],
        },
        "involvedObject": {
            "apiVersion": MULTI_ARCH_BUILD.api_version,
            "kind": MULTI_ARCH_BUILD.name,
            "name": about["name"],
            "namespace": about["namespace"],
            "uid": about["uid"],
        },
        "reason": reason,
        "message": message,
        "type": kind,
        "count": 1,
        "firstTimestamp": timestamp(now),
        "lastTimestamp": timestamp(now),
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "reportingInstance": MANAGER,
    }


def _state(report: PoolReport) -> BuildState:
    if report.state is not None:
        return report.state
    states = {one.state for one in report.architectures}
    for state in (BuildState.FAILED, BuildState.BUILDING, BuildState.PREPARED, BuildState.INTERRUPTED):
        if state in states:
            return state
    return BuildState.SUCCEEDED


def _architecture(one: ArchReport) -> Json:
    return _filled(
        {
            "arch": one.arch.value,
            "phase": one.state.value,
            "job": one.build,
            "image": one.image,
            "input": one.input,
            "startTime": timestamp(one.started) if one.started else "",
            "completionTime": timestamp(one.finished) if one.finished else "",
            "cause": one.cause,
            "message": _cut(one.message),
        }
    )


def _summary(report: PoolReport, state: BuildState) -> str:
    """What people should know at once: which architectures the state is about."""
    if state is BuildState.SUCCEEDED:
        return report.image or _UPSTREAM[state][1]
    about = [one for one in report.architectures if one.state is state]
    told = [
        f"{one.arch}: {one.message.partition(chr(10))[0]}" if one.message else str(one.arch) for one in about
    ]
    return _cut(f"{_UPSTREAM[state][1]}: {'; '.join(told)}" if told else _UPSTREAM[state][1])


def _is_blocked(one: ArchReport) -> bool:
    """Whether an image waits for something that a person has to supply."""
    return one.state is BuildState.PREPARED and bool(one.message) and one.cause in ("", Cause.MISSING.value)


def _conditions(
    state: BuildState, summary: str, work: Json, now: float, *, blocked: bool = False
) -> list[Json]:
    wanted = [
        (each.value, each is state, word, summary if each is state else message)
        for each, (word, message) in _UPSTREAM.items()
    ]
    reason = _BLOCKED if blocked else _UPSTREAM[state][0]
    wanted.append(("Ready", state is BuildState.SUCCEEDED, reason, summary))
    if blocked or state is BuildState.FAILED:
        wanted.append(("Stalled", True, reason, summary))
    before = {found.get("type"): found for found in items(work, "status", "conditions")}
    conditions: list[Json] = []
    for kind, holds, reason, message in wanted:
        known = before.get(kind, {})
        value = "True" if holds else "False"
        since = known.get("lastTransitionTime") if known.get("status") == value else None
        conditions.append(
            {
                "type": kind,
                "status": value,
                "reason": reason,
                "message": message,
                "lastTransitionTime": since or timestamp(now),
                "observedGeneration": metadata(work).get("generation", 1),
            }
        )
    return conditions


def _told(one: ArchReport) -> str:
    what = {
        BuildState.BUILDING: f"{one.arch}: {one.build} builds",
        BuildState.SUCCEEDED: f"{one.arch}: {one.build} built {one.image}",
        BuildState.FAILED: f"{one.arch}: {one.build or 'nothing'} failed",
        BuildState.INTERRUPTED: f"{one.arch}: the image is stale",
    }[one.state]
    return f"{what}: {one.message}" if one.message and one.state is not BuildState.BUILDING else what


def _filled(found: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is empty: an absent field and an empty one would be told apart by whoever compares."""
    return {key: value for key, value in found.items() if value not in ("", None)}


def _cut(text: str) -> str:
    return text if len(text) <= _MESSAGE_LIMIT else f"…{text[1 - _MESSAGE_LIMIT :]}"
