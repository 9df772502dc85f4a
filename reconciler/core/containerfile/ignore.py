"""Ignore files: which one counts, and which paths it takes out of a build context.

Belongs here: the rules of `.containerignore` and `.dockerignore` as buildah applies them.
Does not belong here: which files an instruction takes (`context`).
Rules observed in openshift/imagebuilder `ParseIgnoreReader`, containers/storage `pkg/fileutils`, buildah
`pkg/parse.ContainerIgnoreFile` and `copier`; tried with buildah 1.28.2.
"""

from __future__ import annotations

import posixpath
from collections.abc import Container
from dataclasses import dataclass
from typing import Final, Self

from reconciler.core.containerfile.globs import BadPattern, Glob
from reconciler.errors import Fault, InvalidInput

_MAX_BYTES: Final = 256 * 1024
_MAX_RULES: Final = 1_000


def effective_ignore(names: Container[str], containerfile_name: str) -> str | None:
    """The one ignore file that counts for a Containerfile, or None.

    `names` are the files of the context; `containerfile_name` is the Containerfile's path in it, '' for text
    that is no file of the context.
    """
    own = [f"{containerfile_name}.dockerignore", f"{containerfile_name}.containerignore"]
    candidates = [*(own if containerfile_name else ()), ".containerignore", ".dockerignore"]
    return next((name for name in candidates if name in names), None)


@dataclass(frozen=True, slots=True)
class _Rule:
    glob: Glob
    keeps: bool


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of one ignore file, in order: the last one that matches a path decides."""

    path: str = ""
    rules: tuple[_Rule, ...] = ()

    @classmethod
    def parse(cls, text: str, path: str = ".containerignore") -> Self:
        """Read an ignore file; `path` names it in faults. Raises InvalidInput with every fault."""
        if len(text) > _MAX_BYTES or text.count("\n") > 10 * _MAX_RULES:
            raise InvalidInput(
                [Fault(path, 0, "the ignore file is too large", "write fewer, wider patterns")]
            )
        rules: list[_Rule] = []
        faults: list[Fault] = []
        for number, line in enumerate(text.split("\n"), 1):
            # As the builder does: slashes go before blanks do, so a slash after a leading blank stays.
            pattern = "" if line.startswith("#") else line.strip("/").strip()
            if not pattern:
                continue
            try:
                rules.append(_rule(pattern))
            except BadPattern as error:
                faults.append(
                    Fault(path, number, f"bad pattern {pattern[:80]!r}: {error}", "correct the pattern")
                )
        if len(rules) > _MAX_RULES:
            faults.append(Fault(path, 0, f"more than {_MAX_RULES} patterns", "write fewer, wider patterns"))
        if faults:
            raise InvalidInput(faults)
        return cls(path, tuple(rules))

    def excludes(self, path: str) -> bool:
        """Whether a path relative to the context is left out, looked at by itself."""
        excluded = False
        for rule in self.rules:
            if rule.keeps is excluded and rule.glob.matches(path):
                excluded = not rule.keeps
        return excluded

    def descends(self, folder: str) -> bool:
        """Whether buildah looks for kept files below a folder that is excluded: only if some `!` pattern
        starts with the folder's name, letter by letter."""
        return any(rule.keeps and f"{rule.glob.pattern}/".startswith(folder) for rule in self.rules)

    def names(self, folder: str) -> bool:
        """Whether an excluded folder that a COPY names may still hold kept files."""
        return any(rule.keeps and rule.glob.pattern.startswith(f"{folder}/") for rule in self.rules)


def _rule(pattern: str) -> _Rule:
    pattern = _clean(pattern)
    keeps = pattern.startswith("!")
    if keeps:
        if pattern == "!":
            raise BadPattern("nothing follows the !")
        pattern = _clean(pattern[1:]).removeprefix("/")
    return _Rule(Glob(pattern, ignoring=True), keeps)


def _clean(path: str) -> str:
    """Go's `filepath.Clean`, which knows no leading `//`."""
    return posixpath.normpath("/" + path.lstrip("/") if path.startswith("/") else path)
