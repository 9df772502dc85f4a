"""What is being built up while a file is specialised: shared by all stages, and per stage.

Belongs here: the mutable state and how it turns canonical. Does not belong here: what instructions do to it
(`evaluate`, `transfers`, `runs`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from reconciler.core.containerfile.context import Context
from reconciler.core.containerfile.recipe import Step
from reconciler.core.containerfile.scope import Globals, Notes, Variables, WordScope
from reconciler.core.containerfile.stages import CONFIGS, Stage
from reconciler.core.containerfile.syntax import Instruction
from reconciler.core.containerfile.values import ExpansionError, Json, Text, Unknown, encode, literal, size
from reconciler.core.model import Arch, ImageRef
from reconciler.core.shell import Dialect

_RESERVED: Final = re.compile(r"stage:[0-9]+")
_SHORT: Final = re.compile(
    r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)

WORKDIR: Final[Text] = (Unknown("", "workdir"),)
"""The base image's working directory."""


@dataclass(slots=True)
class Config:
    """What instructions have set of the image's runtime configuration. None and missing keys are the
    base's.
    """

    labels: dict[str, Text] = field(default_factory=dict)
    ports: set[str] = field(default_factory=set)
    unknown_ports: dict[Text, None] = field(default_factory=dict)
    volumes: dict[Text, None] = field(default_factory=dict)
    cmd: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    user: Text | None = None
    workdir: Text | None = None
    stop_signal: Text | None = None

    def child(self) -> Config:
        """A copy for a stage that is made from this one."""
        return replace(
            self,
            labels=dict(self.labels),
            ports=set(self.ports),
            unknown_ports=dict(self.unknown_ports),
            volumes=dict(self.volumes),
        )

    def canonical(self, env: dict[str, Text]) -> dict[str, Json]:
        """The configuration, by the names of the OCI image specification."""
        ports: list[Json] = [*sorted(self.ports), *encode_set(self.unknown_ports)]
        found: dict[str, Json | None] = {
            "Env": encode_map(env) or None,
            "Labels": encode_map(self.labels) or None,
            "ExposedPorts": ports or None,
            "Volumes": encode_set(self.volumes) or None,
            "Cmd": None if self.cmd is None else list(self.cmd),
            "Entrypoint": None if self.entrypoint is None else list(self.entrypoint),
            "User": None if self.user is None else encode(self.user),
            "WorkingDir": None if self.workdir is None else encode(self.workdir),
            "StopSignal": None if self.stop_signal is None else encode(self.stop_signal),
        }
        return {key: value for key, value in found.items() if value is not None}


def encode_map(values: dict[str, Text]) -> dict[str, Json]:
    """A map in canonical form."""
    return {name: encode(values[name]) for name in sorted(values)}


def encode_set(values: Iterable[Text]) -> list[Json]:
    """A set of texts in canonical form: what is known comes first, in order."""
    return [encode(value) for value in sorted(values, key=lambda text: (len(text) != 1, repr(text)))]


@dataclass(slots=True)
class Build:
    """What all stages of one file share. `numbers` maps positions of reachable stages to their canonical
    numbers.
    """

    arch: Arch
    notes: Notes
    known: Globals
    stages: tuple[Stage, ...]
    context: Context
    numbers: dict[int, int]
    bases: dict[str, Arch] = field(default_factory=dict)
    uses_configs: bool = False
    taken: set[str] = field(default_factory=set)
    bare: set[str] = field(default_factory=set)
    """Of what is taken, the paths whose own mode shows: others are taken by copies that set a mode alone."""
    binds_context: bool = False
    copies: list[tuple[dict[str, Json], frozenset[str]]] = field(default_factory=list)
    """Copies from the context, with what each takes."""
    steps: list[Step] = field(default_factory=list)
    trees: Callable[[str, Dialect], object | None] | None = None
    """Parses shell text; None: shell text is not looked into."""
    probes: bool = False
    """Whether `uname -m` and its kin are believed."""
    evaluated: bool = False
    """Whether some shell text was evaluated."""

    def image(self, name: str, platform: Arch, line: int) -> str:
        """Note the use of an outside image, and give its canonical name."""
        if name == CONFIGS:
            self.uses_configs = True
            if platform is not self.arch:
                message = f"configs is used for {platform} in an image for {self.arch}"
                self.notes.fault(line, message, "leave out --platform: it is made for each architecture")
            return name
        if self.bases.setdefault(name, platform) is not platform:
            message = f"{name} is used for {self.bases[name]} and for {platform}"
            self.notes.fault(
                line, message, "give one of them another tag or a digest: images are pinned by name"
            )
        self._check_image(name, line)
        return name

    def _check_image(self, name: str, line: int) -> None:
        if name.isdecimal():
            message, hint = f"there is no stage {name} before this one", "name stages, and write their names"
            self.notes.fault(line, message, hint)
            return
        try:
            ImageRef.parse(name)
        except ValueError:
            if not _SHORT.fullmatch(name) or _RESERVED.fullmatch(name) or "//" in name:
                self.notes.fault(line, f"{name[:200]!r} is no image of a registry", "write host/path:tag")
            else:
                message = f"the short name {name!r} can mean another image on another machine"
                self.notes.warn(line, message, "write the image with its registry: host/path:tag")

    def take(self, line: int, paths: frozenset[str], *, bare: bool = True) -> None:
        """Note that an instruction takes files of the context; `bare`: with their own modes."""
        self.bare |= paths if bare else frozenset()
        for path in sorted(paths - self.taken):
            fault = self.context.fault_of(path)
            if fault is not None:
                self.notes.fault(line, *fault)
        self.taken |= paths


@dataclass(slots=True)
class StageState:
    """One stage in the making. `final`: its configuration becomes that of the result."""

    build: Build
    stage: Stage
    variables: Variables
    config: Config
    final: bool
    operations: list[Json] = field(default_factory=list)
    cmd_set: bool = False
    shell: tuple[str, ...] = ()
    has_volumes: bool = False
    last_run: int = 0
    """The line of the last RUN of the stage."""
    ensured: tuple[Text | None, Text | None] | None = None
    """The working directory and user of the last operation that made sure the directory exists."""

    @property
    def notes(self) -> Notes:
        """Where faults go."""
        return self.build.notes

    @property
    def workdir(self) -> Text:
        """The working directory; of an image that is not here yet, unknown."""
        if self.config.workdir is not None:
            return self.config.workdir
        return literal("/") if self.variables.scratch else WORKDIR

    def scope(self, instruction: Instruction) -> WordScope:
        """What the words of an instruction see here."""
        return self.variables.scope(self.notes, instruction.line)

    def operate(
        self, instruction: Instruction, operation: dict[str, Json], texts: Iterable[Text] = ()
    ) -> None:
        """Add an operation; `texts` is what it carries, for the meter."""
        try:
            self.notes.meter.spend(sum(size(text) + 8 for text in texts))
        except ExpansionError as error:
            self.notes.fault(instruction.line, str(error), "use fewer or shorter variables")
            return
        self.operations.append(operation)

    def step(self, instruction: Instruction, text: str) -> None:
        """Tell what an instruction does."""
        line = f"{instruction.keyword} {text}".rstrip().replace("\n", "\\n")
        self.build.steps.append(Step(self.notes.path, instruction.line, instruction.keyword.value, line))

    def ensure_workdir(self, instruction: Instruction) -> None:
        """The builder makes sure before every instruction that the working directory exists, owned by the
        user.
        """
        workdir, user = self.config.workdir, self.config.user
        if workdir is None or workdir == literal("/") or self.ensured == (workdir, user):
            return
        self.ensured = (workdir, user)
        operation: dict[str, Json] = {"op": "workdir", "path": encode(workdir)}
        if user is not None:
            operation["user"] = encode(user)
        self.operate(instruction, operation, (workdir, user or ()))

    def origin(self, found: int | None, name: str, line: int) -> str:
        """The canonical name of a stage at a position, or of the image `name` when there is none."""
        if found is not None:
            return f"stage:{self.build.numbers[found]}"
        return self.build.image(name, self.stage.platform, line)
