"""A parsed Containerfile, an architecture and a context to a recipe.

Belongs here: the order of the parts. Does not belong here: any rule of the builder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from reconciler.core.containerfile.context import Context, ContextTree
from reconciler.core.containerfile.evaluate import evaluate
from reconciler.core.containerfile.recipe import Recipe
from reconciler.core.containerfile.scope import DEFAULT_PATH, Globals, Notes, Variables, platform_arguments
from reconciler.core.containerfile.shells import ASSUMED, Trees, replaced_programs
from reconciler.core.containerfile.stages import (
    SCRATCH,
    Stage,
    inherited_arguments,
    numbered,
    resolve_stages,
)
from reconciler.core.containerfile.state import Build, Config, StageState
from reconciler.core.containerfile.syntax import Containerfile, Keyword
from reconciler.core.containerfile.values import ExpansionError, Json, literal
from reconciler.core.model import Arch, TreeEntry
from reconciler.core.shell import PROBES, SHELLS
from reconciler.errors import InvalidInput

_ANY_MODE: Final = "100644"
_SINCE_RESET_PLATFORM: Final = (1, 40)
"""Before, a FROM --platform held for the stages after it as well."""


def specialise(
    containerfile: Containerfile,
    arch: Arch,
    context: ContextTree,
    trees: Trees | None = None,
    *,
    probes: bool = True,
) -> Recipe:
    """What the file comes to for one architecture, built natively with `--platform linux/<arch>`.

    `trees` parses shell text (`ports.ShellParser.tree`); without it every RUN counts whole. `probes`: whether
    `uname -m` and its kin are believed. Raises InvalidInput with every fault found.
    """
    notes = Notes(containerfile.path)
    notes.dialect.update(dict.fromkeys(containerfile.dialect))
    known = Globals(notes, platform_arguments(arch))
    try:
        for instruction in containerfile.globals:
            known.declare(instruction)
        stages = resolve_stages(containerfile, arch, known)
        if notes.faults:
            raise InvalidInput(notes.faults)
        replaced = replaced_programs(containerfile, context)
        reading = _Reading(None if replaced & SHELLS else trees, probes and not replaced & PROBES)
        build, states = _evaluate_all(stages, arch, known, Context(context), reading)
    except ExpansionError as error:
        notes.fault(0, str(error), "make the file smaller")
        raise InvalidInput(notes.faults) from error
    if notes.faults:
        raise InvalidInput(notes.faults)
    return _recipe(build, states, bool(context.ignore.rules))


@dataclass(frozen=True, slots=True)
class _Reading:
    """How shell text is read."""

    trees: Trees | None
    probes: bool


def _evaluate_all(
    stages: tuple[Stage, ...], arch: Arch, known: Globals, context: Context, reading: _Reading
) -> tuple[Build, list[StageState]]:
    """Evaluate the reachable stages in order, and give them in the order of their canonical numbers."""
    build = Build(arch, known.notes, known, stages, context, numbered(stages))
    build.trees, build.probes = reading.trees, reading.probes
    inherited = inherited_arguments(stages, known)
    finals = _chain(stages)
    states: dict[int, StageState] = {}
    for position in sorted(build.numbers):
        stage = stages[position]
        parent = None if stage.parent is None else states[stage.parent]
        variables, config = _start(stage, parent)
        variables.inherited = inherited[position]
        state = states[position] = StageState(build, stage, variables, config, position in finals)
        state.has_volumes = parent is not None and parent.has_volumes
        _from(state)
        evaluate(state)
    return build, [states[position] for position in build.numbers]


def _chain(stages: tuple[Stage, ...]) -> set[int]:
    """The last stage and those it is made from: their configuration ends up in the result."""
    found: set[int] = set()
    position: int | None = len(stages) - 1
    while position is not None:
        found.add(position)
        position = stages[position].parent
    return found


def _start(stage: Stage, parent: StageState | None) -> tuple[Variables, Config]:
    """Variables and configuration before the first instruction."""
    if parent is not None:
        return Variables(parent.variables.scratch, dict(parent.variables.env)), parent.config.child()
    if stage.base == SCRATCH:
        return Variables(True, {"PATH": literal(DEFAULT_PATH)}), Config()
    return Variables(False), Config()


def _from(state: StageState) -> None:
    """Note the base of a stage."""
    stage, notes = state.stage, state.notes
    line = stage.text.head.line
    if stage.platform is not state.build.arch:
        notes.needs(_SINCE_RESET_PLATFORM, line, "FROM --platform other than the target's")
        if state.final:
            notes.fault(
                line,
                f"the image would be for {stage.platform}, not for {state.build.arch}",
                "leave --platform out of the last stage and those it is made from",
            )
    base = _base(state)
    state.step(
        stage.text.head,
        base if stage.platform is state.build.arch else f"--platform={stage.platform.platform} {base}",
    )


def _base(state: StageState) -> str:
    if state.stage.base == SCRATCH and state.stage.parent is None:
        return SCRATCH
    return state.origin(state.stage.parent, state.stage.base, state.stage.text.head.line)


def _canonical(build: Build, states: list[StageState], ignoring: bool) -> Json:
    if build.binds_context and ignoring:
        # A mount shows ignored files too, so the list of all files does not tell what each copy takes.
        for operation, taken in build.copies:
            operation["taken"] = [*sorted(taken)]
    stages: list[Json] = []
    for state in states:
        stage: dict[str, Json] = {"base": _base(state)}
        if state.stage.platform is not build.arch:
            stage["platform"] = state.stage.platform.platform
        if state.operations:
            stage["ops"] = state.operations
        stages.append(stage)
        if state is states[-1]:
            stage["config"] = state.config.canonical(state.variables.env)
    return stages


def _recipe(build: Build, states: list[StageState], ignoring: bool) -> Recipe:
    notes = build.notes
    assumed = set().union(*(state.variables.assumed for state in states))
    if any(_runs_with_arguments(state) for state in states):
        assumed |= {name for state in states if not state.variables.scratch for name in state.variables.args}
    if build.evaluated and not all(state.variables.scratch for state in states):
        assumed |= set(ASSUMED)
    return Recipe(
        arch=build.arch,
        canonical=_canonical(build, states, ignoring),
        bases=tuple(sorted(build.bases.items())),
        uses_configs=build.uses_configs,
        context=tuple(sorted(_entry(build, path) for path in build.taken)),
        binds_context=build.binds_context,
        needs=notes.summary(),
        assumes=tuple(sorted(assumed)),
        warnings=tuple(sorted(notes.warnings)),
        steps=tuple(build.steps),
    )


def _entry(build: Build, path: str) -> TreeEntry:
    """A context file; without its mode where every copy of it sets one."""
    entry = build.context.entry(path)
    return replace(entry, mode=_ANY_MODE) if entry.is_file and path not in build.bare else entry


def _runs_with_arguments(state: StageState) -> bool:
    return bool(state.variables.args) and any(one.keyword is Keyword.RUN for one in state.stage.text.body)
