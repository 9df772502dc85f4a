"""Which variable has which value where, and the notes that are taken on the way.

Belongs here: platform arguments, the lookup order of one stage, and the collector of faults, warnings and
needs. Does not belong here: the forms of `${…}` (`expand`), what an instruction does (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from reconciler.core.containerfile.expand import expand
from reconciler.core.containerfile.syntax import Instruction
from reconciler.core.containerfile.values import ExpansionError, Meter, Text, Unknown, literal
from reconciler.core.model import Arch, Dialect, Needs
from reconciler.errors import Fault

SINCE_PLATFORM: Final = (1, 37)
"""From here on FROM knows the platform arguments without a global ARG, and stage names may hold variables."""
SINCE_GLOBAL_PLATFORM: Final = (1, 42)
"""From here on the platform arguments are known before the first FROM without being declared."""
SINCE_INHERITED: Final = (1, 41)
SINCE_INHERITED_EXPANDED: Final = (1, 44)

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of a stage made FROM scratch."""


def platform_arguments(arch: Arch) -> dict[str, Text]:
    """The predefined arguments of a build for `linux/<arch>` on a machine of that architecture."""
    values = {"PLATFORM": arch.platform, "OS": "linux", "ARCH": arch.value, "VARIANT": ""}
    return {side + name: literal(value) for side in ("TARGET", "BUILD") for name, value in values.items()}


@dataclass(slots=True)
class Notes:
    """Everything that is found out about a file apart from its canonical form."""

    path: str
    faults: dict[Fault, None] = field(default_factory=dict)
    warnings: dict[Fault, None] = field(default_factory=dict)
    dialect: dict[Dialect, None] = field(default_factory=dict)
    foreign: dict[str, None] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)
    runs: bool = False

    def fault(self, line: int, message: str, hint: str = "") -> None:
        """A mistake that the user must correct."""
        self.faults[Fault(self.path, line, message, hint)] = None

    def warn(self, line: int, message: str, hint: str = "") -> None:
        """Something that is allowed and probably not meant."""
        self.warnings[Fault(self.path, line, message, hint)] = None

    def needs(self, since: tuple[int, int], line: int, what: str) -> None:
        """Something that buildah reads our way only from version `since` on."""
        self.dialect[Dialect(since, self.path, line, what)] = None

    def differs(self, line: int, what: str) -> None:
        """Something that reads differently on a builder of another architecture."""
        self.foreign[f"{self.path}:{line}: {what}"] = None

    def summary(self) -> Needs:
        """The needs found, in a stable order."""
        return Needs(self.runs, tuple(sorted(self.foreign)), tuple(sorted(self.dialect)))


@dataclass(frozen=True, slots=True)
class WordScope:
    """`expand.Scope` of one instruction."""

    notes: Notes
    line: int
    values: Callable[[str], Text]

    @property
    def meter(self) -> Meter:
        """Counts the work of the whole file."""
        return self.notes.meter

    def lookup(self, name: str) -> Text:
        """The value of a variable here."""
        return self.values(name)

    def needs(self, since: tuple[int, int], what: str) -> None:
        """Note what the words of this instruction use."""
        self.notes.needs(since, self.line, what)

    def expand(self, word: str) -> Text:
        """The value of a word; a word that cannot be expanded is a fault and counts as empty."""
        try:
            return expand(word, self)
        except ExpansionError as error:
            self.notes.fault(self.line, str(error), "see ARG and ENV in containerfile(5)")
            return ()


@dataclass(slots=True)
class Globals:
    """The arguments before the first FROM, as FROM and the stages see them."""

    notes: Notes
    platform: dict[str, Text]
    values: dict[str, Text] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    """The platform arguments that are declared before the first FROM."""
    foreign: dict[str, str] = field(default_factory=dict)
    """Arguments whose default the builder makes from its own architecture: name to explanation."""

    def declare(self, instruction: Instruction) -> None:
        """Evaluate one ARG before the first FROM."""
        touched: list[str] = []

        def values(name: str) -> Text:
            if name in self.platform or name in self.foreign:
                touched.append(name)
            if name in self.platform and name not in self.declared:
                self.notes.needs(SINCE_GLOBAL_PLATFORM, instruction.line, f"{name} in a global ARG")
            return self.platform.get(name) or self.values.get(name, ())

        scope = WordScope(self.notes, instruction.line, values)
        for name, value in declarations(instruction, scope):
            if name in self.platform:
                check_platform_default(self.notes, instruction.line, name, value)
                self.declared.add(name)
            elif value is not None:
                self.values[name] = value
                if touched:
                    self.foreign[name] = f"the default of ARG {name} is made from {touched[0]}"

    def use(self, name: str, line: int) -> Text | None:
        """The value of a global argument that a FROM or a stage uses; None when it has none."""
        if name in self.foreign:
            self.notes.differs(line, self.foreign[name])
        return self.values.get(name)

    def in_from(self, line: int) -> WordScope:
        """What FROM sees."""

        def values(name: str) -> Text:
            if name not in self.platform:
                return self.use(name, line) or ()
            if name not in self.declared:
                self.notes.needs(SINCE_PLATFORM, line, f"{name} in FROM without a global ARG")
            if name.startswith("BUILD"):
                self.notes.differs(line, f"FROM uses {name}")
            return self.platform[name]

        return WordScope(self.notes, line, values)


def declarations(instruction: Instruction, scope: WordScope) -> list[tuple[str, Text | None]]:
    """Names and defaults (None: no default) of one ARG. All words are expanded before any takes effect."""
    found: list[tuple[str, Text | None]] = []
    for word in instruction.words:
        text = scope.expand(word)
        first = text[0] if text else ""
        name, equals, value = (first if isinstance(first, str) else "").partition("=")
        if not name or (not equals and len(text) > 1):
            scope.notes.fault(
                instruction.line, f"cannot tell the name in ARG {word[:80]}", "write ARG name=value"
            )
            continue
        found.append((name, (*literal(value), *text[1:]) if equals else None))
    return found


def check_platform_default(notes: Notes, line: int, name: str, value: Text | None) -> None:
    """The builder refuses a default for the two platforms, and ignores one for their parts."""
    if value is not None and name.endswith("PLATFORM"):
        notes.fault(line, f"{name} cannot have a default", f"write ARG {name}")


@dataclass(slots=True)
class Variables:
    """The variables of one stage at one point of it. ENV wins over ARG, in whatever order they come.

    `inherited` are the arguments of the stage that this one is made from, which buildah hands on since 1.41.
    `scratch`: no base image can bring variables of its own.
    """

    scratch: bool
    env: dict[str, Text] = field(default_factory=dict)
    args: dict[str, Text] = field(default_factory=dict)
    inherited: dict[str, tuple[Text, bool]] = field(default_factory=dict)
    assumed: set[str] = field(default_factory=set)

    def scope(self, notes: Notes, line: int) -> WordScope:
        """What the words of an instruction see."""

        def values(name: str) -> Text:
            if name in self.env:
                return self.env[name]
            if name in self.args:
                if not self.scratch:
                    self.assumed.add(name)
                return self.args[name]
            if name in self.inherited:
                if not self.scratch:
                    self.assumed.add(name)
                return self.inherit(name, notes, line)
            return () if self.scratch or not name else (Unknown(name),)

        return WordScope(notes, line, values)

    def arguments(self, notes: Notes, line: int) -> WordScope:
        """What the builder sees where it looks at arguments only: the name of a stage in COPY --from."""

        def values(name: str) -> Text:
            if name in self.args:
                return self.args[name]
            return self.inherit(name, notes, line) if name in self.inherited else ()

        return WordScope(notes, line, values)

    def inherit(self, name: str, notes: Notes, line: int) -> Text:
        """Use an argument of the stage this one is made from."""
        value, computed = self.inherited[name]
        since = SINCE_INHERITED_EXPANDED if computed else SINCE_INHERITED
        notes.needs(since, line, f"ARG {name} of the stage that this one is made from")
        return value
