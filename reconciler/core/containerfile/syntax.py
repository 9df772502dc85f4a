"""What a Containerfile says, before anything in it is given a value.

Belongs here: frozen values for instructions, stages and the file.
Does not belong here: reading text (`parser`), variables (`expand`), stages that need each other (`stages`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from reconciler.core.model import Dialect


class Keyword(StrEnum):
    """Every instruction that buildah knows."""

    ADD = "ADD"
    ARG = "ARG"
    CMD = "CMD"
    COPY = "COPY"
    ENTRYPOINT = "ENTRYPOINT"
    ENV = "ENV"
    EXPOSE = "EXPOSE"
    FROM = "FROM"
    HEALTHCHECK = "HEALTHCHECK"
    LABEL = "LABEL"
    MAINTAINER = "MAINTAINER"
    ONBUILD = "ONBUILD"
    RUN = "RUN"
    SHELL = "SHELL"
    STOPSIGNAL = "STOPSIGNAL"
    USER = "USER"
    VOLUME = "VOLUME"
    WORKDIR = "WORKDIR"


@dataclass(frozen=True, slots=True)
class Heredoc:
    """One here-document: its lines joined by newlines, leading tabs removed if the `<<-` form asked for it.

    `expand` is false when the delimiter is quoted. `body` starts with a newline unless it is empty: buildah
    hands it on like that.
    """

    name: str
    body: str
    expand: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `line` counts from 1 in the file that holds the text.

    `flags` are the words before the arguments that start with `--`, without quotes. `words` are the arguments
    as the builder splits them: quotes are kept, ENV and LABEL alternate name and value, RUN and its kin in
    shell form have one word. `json` says that the arguments came from a JSON array.
    """

    keyword: Keyword
    line: int
    flags: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    json: bool = False
    heredocs: tuple[Heredoc, ...] = ()


@dataclass(frozen=True, slots=True)
class StageText:
    """A FROM instruction and what follows it. `name` is the text after AS, variables included; '' without
    AS.
    """

    position: int
    head: Instruction
    body: tuple[Instruction, ...]

    @property
    def base(self) -> str:
        """What FROM names, variables included."""
        return self.head.words[0]

    @property
    def name(self) -> str:
        """The text after AS, variables included; '' when there is none."""
        return self.head.words[2] if len(self.head.words) > 2 else ""


@dataclass(frozen=True, slots=True)
class Containerfile:
    """A parsed file: the ARGs before the first FROM, and at least one stage.

    `dialect` lists what an older buildah would split into instructions differently, wherever in the file it
    is.
    """

    path: str
    globals: tuple[Instruction, ...]
    stages: tuple[StageText, ...]
    dialect: tuple[Dialect, ...] = ()
