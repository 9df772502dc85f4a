"""Which stages there are, what each is made from, and which ones the last stage needs.

Belongs here: names, bases and platforms of stages, the edges between them, and reachability.
Does not belong here: what the instructions of a stage do (`evaluate`).
Rules observed in openshift/imagebuilder `NewStages` and buildah `imagebuildah/executor.go`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.core.containerfile.mounts import origins
from reconciler.core.containerfile.scope import SINCE_PLATFORM, Globals, Notes, WordScope
from reconciler.core.containerfile.syntax import Containerfile, Instruction, Keyword, StageText
from reconciler.core.containerfile.values import Text, plain, show
from reconciler.core.model import Arch

SCRATCH: Final = "scratch"
CONFIGS: Final = "configs"
"""The stage that the reconciler supplies from the base OS image and the pool's MachineConfigs."""

_INDEX: Final = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage with its names resolved.

    `base` is the image or stage name after expansion, `parent` the position of that stage, None for an image.
    `platform` is the one of FROM --platform, else the target's. `origins` maps positions in the body to what
    COPY --from means when the builder first looks; `needs` are the positions of all stages named, its parent
    first, the others in the order of their first mention.
    """

    text: StageText
    name: str
    base: str
    parent: int | None
    platform: Arch
    origins: Mapping[int, str]
    needs: tuple[int, ...]


def resolve_stages(containerfile: Containerfile, arch: Arch, known: Globals) -> tuple[Stage, ...]:
    """All stages in order. Faults go to the notes of `known`."""
    stages: list[Stage] = []
    for text in containerfile.stages:
        stages.append(_Resolver(text, arch, known, tuple(stages)).resolve())
    _check_configs(stages, known.notes)
    return tuple(stages)


def find(stages: tuple[Stage, ...] | list[Stage], name: str, *, by_index: bool) -> int | None:
    """The position of the stage that `name` means for a later one: the last of that name.

    With `by_index` (COPY --from) a number means the stage at that place, whatever its name.
    """
    if by_index and _INDEX.fullmatch(name) and 0 <= int(name) < len(stages):
        name = stages[int(name)].name
    return next((stage.text.position for stage in reversed(stages) if stage.name == name), None)


def reachable(stages: tuple[Stage, ...]) -> list[int]:
    """Positions of the stages that the last one needs, itself included, in order. Others are never built."""
    wanted = {len(stages) - 1}
    queue = list(wanted)
    while queue:
        fresh = [position for position in stages[queue.pop()].needs if position not in wanted]
        wanted.update(fresh)
        queue += fresh
    return sorted(wanted)


def numbered(stages: tuple[Stage, ...]) -> dict[int, int]:
    """Canonical numbers of the reachable stages, by position: each after all that it needs, and otherwise in the order
    of mention. Where nothing but files passes between stages it does not show which of two is written first.

    A mount may pass more (what a cache holds, what is written to a bind mount): then they count as written.
    """
    wanted = reachable(stages)
    if any(
        flag.startswith("--mount") for one in wanted for run in stages[one].text.body for flag in run.flags
    ):
        return {position: number for number, position in enumerate(wanted)}
    found: dict[int, int] = {}
    waiting = [(wanted[-1], iter(stages[wanted[-1]].needs))]
    while waiting:
        position, needs = waiting[-1]
        missing = next((one for one in needs if one not in found), None)
        if missing is None:
            found[position] = len(found)
            waiting.pop()
        else:
            waiting.append((missing, iter(stages[missing].needs)))
    return found


def _check_configs(stages: list[Stage], notes: Notes) -> None:
    """`configs` as image means ours only where no stage has that name."""
    if not any(stage.name == CONFIGS for stage in stages):
        return
    for stage in stages:
        if stage.base == CONFIGS and stage.parent is None:
            notes.fault(
                stage.text.head.line,
                "FROM configs comes before the stage configs",
                "give the stage another name",
            )


@dataclass(frozen=True, slots=True)
class _Resolver:
    text: StageText
    arch: Arch
    known: Globals
    earlier: tuple[Stage, ...]

    def resolve(self) -> Stage:
        head = self.text.head
        scope = self.known.in_from(head.line)
        base = self._known(scope.expand(self.text.base), "the image of FROM")
        name = self._name(scope)
        parent = None if base == SCRATCH else find(self.earlier, base, by_index=False)
        froms = self._origins()
        needs = [parent]
        for place, instruction in enumerate(self.text.body):
            if place in froms:
                needs.append(find(self.earlier, froms[place], by_index=True))
            if instruction.keyword is Keyword.RUN:
                for origin in (origin for flag in instruction.flags for origin in origins(flag)):
                    needs.append(find(self.earlier, origin, by_index=True))
        named = tuple(dict.fromkeys(one for one in needs if one is not None))
        return Stage(self.text, name, base, parent, self._platform(scope), froms, named)

    def _known(self, text: Text, what: str) -> str:
        value = plain(text)
        if not value:
            self.known.notes.fault(
                self.text.head.line,
                f"{what} is empty or not known: {show(text)!r}",
                "write it out, or give the ARG before the first FROM a default",
            )
        return value or ""

    def _name(self, scope: WordScope) -> str:
        line, notes = self.text.head.line, self.known.notes
        if not self.text.name:
            return str(self.text.position)
        name = self._known(scope.expand(self.text.name), "the name of the stage")
        if "$" in self.text.name:
            notes.needs(SINCE_PLATFORM, line, "a variable in the name of a stage")
        if _INDEX.fullmatch(name) or name == SCRATCH:
            notes.fault(line, f"a stage cannot be named {name!r}", "use a name with letters")
        return name

    def _platform(self, scope: WordScope) -> Arch:
        line, notes = self.text.head.line, self.known.notes
        arch = self.arch
        for flag in self.text.head.flags:
            text = plain(scope.expand(flag.removeprefix("--platform="))) or ""
            parts = text.lower().split("/")
            try:
                if len(parts) > 1 and parts[0] != "linux":
                    raise ValueError("only linux images are built")
                if len(parts) > 3 or (len(parts) == 3 and parts[2] not in ("", "v8")):
                    raise ValueError("variants are not supported")
                arch = Arch.parse(parts[1] if len(parts) > 1 else parts[0])
            except ValueError as error:
                notes.fault(line, f"FROM --platform={text}: {error}", "use linux/<architecture>")
        return arch

    def _origins(self) -> dict[int, str]:
        """What each COPY --from means in the builder's first look: it knows ARG defaults, but not what they
        are made of, and it knows global and platform arguments that the stage does not declare."""
        local: dict[str, Text] = {}
        found: dict[int, str] = {}
        for place, instruction in enumerate(self.text.body):
            scope = self._first_look(instruction, local)
            if instruction.keyword is Keyword.ARG:
                for word in instruction.words:
                    name, equals, value = word.partition("=")
                    if equals:
                        local[name] = self._platform_only(instruction).expand(value)
            for flag in instruction.flags:
                if flag.startswith("--from="):
                    found[place] = plain(scope.expand(flag.removeprefix("--from="))) or ""
        return found

    def _first_look(self, instruction: Instruction, local: Mapping[str, Text]) -> WordScope:
        values, platform = self.known.values, self.known.platform

        def lookup(name: str) -> Text:
            return next((scope[name] for scope in (local, values, platform) if name in scope), ())

        return WordScope(self.known.notes, instruction.line, lookup)

    def _platform_only(self, instruction: Instruction) -> WordScope:
        return WordScope(self.known.notes, instruction.line, lambda name: self.known.platform.get(name, ()))


def inherited_arguments(stages: tuple[Stage, ...], known: Globals) -> dict[int, dict[str, tuple[Text, bool]]]:
    """For each stage the arguments it gets from the stage it is made from, and whether their text had
    variables.

    The builder goes by the words after FROM and AS as they are written, and expands defaults without ENV.
    """
    by_name: dict[str, dict[str, tuple[Text, bool]]] = {}
    found: dict[int, dict[str, tuple[Text, bool]]] = {}
    for stage in stages:
        mine = found[stage.text.position] = by_name.get(stage.text.base, {})
        everything = dict(mine)
        seen: dict[str, Text] = {}
        for instruction in stage.text.body:
            if instruction.keyword is not Keyword.ARG:
                continue
            for word in instruction.words:
                _declare(everything, seen, known, instruction.line, word)
        for key in (str(stage.text.position), stage.text.name):
            if key:
                by_name[key] = everything
    return found


def _declare(
    everything: dict[str, tuple[Text, bool]], seen: dict[str, Text], known: Globals, line: int, word: str
) -> None:
    """Add what one word of an ARG hands on."""

    def lookup(name: str) -> Text:
        return next((scope[name] for scope in (seen, known.platform, known.values) if name in scope), ())

    text = WordScope(known.notes, line, lookup).expand(word)
    first = text[0] if text else ""
    name, equals, value = (first if isinstance(first, str) else "").partition("=")
    if name in known.platform:
        everything[name] = known.platform[name], False
        return
    seen[name] = (value, *text[1:]) if value else text[1:]
    if equals:
        everything[name] = seen[name], "$" in word
    elif name in known.values:
        everything[name] = known.values[name], False
