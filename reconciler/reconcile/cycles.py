"""Bases that the repository's own pools push: a stage `configs` must not be made from what is made from it.

Belongs here: which pool is built on which. Does not belong here: where the base of a stage `configs` comes from
(`targets`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.core.model import ImageRef
from reconciler.core.plan import Reason, Target
from reconciler.errors import Fault
from reconciler.reconcile.targets import PoolTargets


def refused(found: list[PoolTargets]) -> list[PoolTargets]:
    """The same targets, those blocked whose base OS image is built, perhaps by way of others, from their own pool's."""
    if not any(target.os_image for pool in found for target in pool.targets):
        return found
    pushers, built_on = _edges(found)
    return [_checked(pool, pushers, built_on) for pool in found]


def configured(found: list[PoolTargets]) -> frozenset[str]:
    """The pools that use the stage `configs`, and all that their images are built on."""
    own = {pool.name for pool in found if pool.uses_configs}
    return frozenset(_reached(own, _edges(found)[1])) if own else frozenset()


def _edges(found: list[PoolTargets]) -> tuple[Mapping[str, set[str]], Mapping[str, set[str]]]:
    """The pools that push to each repository, and those that each is built on."""
    pushers: dict[str, set[str]] = defaultdict(set)
    for pool in found:
        if pool.pool:
            pushers[pool.pool.definition.push.repository].add(pool.name)
    built_on = {
        pool.name: {name for target in pool.targets for name in _named(_references(target), pushers)}
        for pool in found
    }
    return pushers, built_on


def _references(target: Target) -> Iterable[str]:
    return (ref for ref, _ in target.references)


def _named(references: Iterable[str], pushers: Mapping[str, set[str]]) -> set[str]:
    """The pools that push one of these images."""
    found: set[str] = set()
    for ref in references:
        try:
            found |= pushers.get(ImageRef.parse(ref).repository, set())
        except ValueError:
            continue  # no image of a registry
    return found


def _checked(
    pool: PoolTargets, pushers: Mapping[str, set[str]], built_on: Mapping[str, set[str]]
) -> PoolTargets:
    targets, errors = [], set(pool.errors)
    for target in pool.targets:
        supplied = [ref for ref in (target.os_image, target.extensions_image) if ref]
        if pool.pool is None or pool.name not in _reached(_named(supplied, pushers), built_on):
            targets.append(target)
            continue
        definition = pool.pool.definition
        fault = Fault(
            definition.path,
            definition.line,
            f"the base OS image {target.os_image} is made from the image of pool {pool.name} itself",
            "name a base that no pool of this repository pushes",
        )
        errors.add(fault)
        text = f"{fault.message} ({fault.hint})"
        reason = Reason("machineConfig", "invalid", text, fault.path, fault.line)
        targets.append(Target(target.pool, target.arch, None, obstacles=(reason,)))
    return replace(pool, targets=tuple(targets), errors=tuple(sorted(errors)))


def _reached(start: set[str], built_on: Mapping[str, set[str]]) -> set[str]:
    """These pools, and all that they are built on."""
    found = set(start)
    queue = list(start)
    while queue:
        fresh = built_on.get(queue.pop(), set()) - found
        found |= fresh
        queue += fresh
    return found
