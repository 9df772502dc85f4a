"""The form of each instruction: how its arguments split, which flags it knows, how many arguments it takes.

Belongs here: all that can be said about one instruction without knowing any variable.
Does not belong here: lines and here-documents (`parser`), values (`evaluate`).
Rules observed in openshift/imagebuilder `line_parsers.go` and `dispatchers.go`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from reconciler.core.containerfile import gojson
from reconciler.core.containerfile.syntax import Instruction, Keyword
from reconciler.core.containerfile.words import (
    BLANKS,
    split_flags,
    split_keyword,
    split_pairs,
    split_words,
)

_FLAGS: Final[dict[Keyword, tuple[str, ...]]] = {
    Keyword.ADD: (
        "--chmod=",
        "--chown=",
        "--checksum=",
        "--exclude=",
        "--link",
        "--link=true",
        "--link=false",
    ),
    Keyword.COPY: (
        "--chmod=",
        "--chown=",
        "--exclude=",
        "--from=",
        "--link",
        "--link=true",
        "--link=false",
        "--parents",
        "--parents=true",
        "--parents=false",
    ),
    Keyword.FROM: ("--platform=",),
    Keyword.HEALTHCHECK: ("--interval=", "--retries=", "--start-interval=", "--start-period=", "--timeout="),
    Keyword.RUN: ("--mount=", "--network="),
}
_DURATION: Final = re.compile(r"\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+")
_NOT_TRIGGERS: Final = (Keyword.ONBUILD, Keyword.MAINTAINER, Keyword.FROM)


def read_instruction(line: str, number: int, escape: str) -> Instruction:
    """Read one logical line.

    Raises ValueError with a message and, as a second argument, a hint.
    """
    name, rest = split_keyword(line)
    try:
        keyword = Keyword(name)
    except ValueError:
        raise ValueError(f"unknown instruction {name[:40]!r}", "see containerfile(5)") from None
    flags, rest = split_flags(rest)
    if keyword is Keyword.ONBUILD:
        return _onbuild(rest, number, escape)
    words, is_json = _arguments(keyword, rest, escape)
    instruction = Instruction(keyword, number, flags, words, is_json)
    _check_flags(instruction)
    _CHECKS[keyword](instruction)
    return instruction


def _arguments(keyword: Keyword, rest: str, escape: str) -> tuple[tuple[str, ...], bool]:
    """The arguments as the builder splits them, and whether they are a JSON array."""
    if keyword is Keyword.HEALTHCHECK:
        kind, *command = rest.split(maxsplit=1)[:2] or [""]
        words, is_json = _maybe_json("".join(command), ())
        return ((kind, *words) if kind else ()), is_json
    if keyword in (Keyword.ENV, Keyword.LABEL):
        return split_pairs(rest, escape), False
    if keyword is Keyword.ARG:
        return tuple(split_words(rest, escape)), False
    if keyword in (Keyword.EXPOSE, Keyword.FROM):
        return tuple(BLANKS.split(rest)) if rest else (), False
    if keyword in (Keyword.ADD, Keyword.COPY, Keyword.VOLUME):
        return _maybe_json(rest, tuple(BLANKS.split(rest)) if rest else ())
    if keyword in (Keyword.CMD, Keyword.ENTRYPOINT, Keyword.RUN, Keyword.SHELL):
        return _maybe_json(rest, (rest,) if rest else ())
    return ((rest,) if rest else ()), False


def _maybe_json(rest: str, otherwise: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    found = gojson.strings(rest)
    if found is not None:
        return found, True
    return otherwise or ((rest,) if rest else ()), False


def _check_flags(instruction: Instruction) -> None:
    known = _FLAGS.get(instruction.keyword, ())
    for flag in instruction.flags:
        if flag in known and not flag.endswith("="):
            continue
        name, equals, value = flag.partition("=")
        if f"{name}=" not in known or (equals and name in known):
            listed = ", ".join(known) or "none"
            raise ValueError(f"{instruction.keyword} does not know the flag {flag!r}", f"it knows {listed}")
        if not value:
            raise ValueError(f"{instruction.keyword} {name} has no value", f"write {name}=…")


def _onbuild(rest: str, number: int, escape: str) -> Instruction:
    """ONBUILD keeps no arguments: an OCI image cannot hold triggers. The trigger must be readable all the
    same.
    """
    if not rest:
        raise ValueError("ONBUILD has no instruction", "remove it")
    trigger = split_keyword(rest)[0]
    if trigger in _NOT_TRIGGERS:
        raise ValueError(f"{trigger} cannot be an ONBUILD trigger", "remove it")
    inner = read_instruction(rest, number, escape)
    return Instruction(Keyword.ONBUILD, number, words=(rest,), json=inner.json)


def _at_least(count: int) -> Callable[[Instruction], None]:
    def check(instruction: Instruction) -> None:
        if len(instruction.words) < count:
            arguments = "an argument" if count == 1 else "a source and a destination"
            raise ValueError(
                f"{instruction.keyword} needs {arguments}", f"see {instruction.keyword} in containerfile(5)"
            )

    return check


def _check_from(instruction: Instruction) -> None:
    words = instruction.words
    if len(words) == 1 or (len(words) == 3 and words[1].lower() == "as"):
        return
    raise ValueError("FROM takes an image, or an image, AS and a name", "write FROM image [AS name]")


def _check_run(instruction: Instruction) -> None:
    if not instruction.words or instruction.words == ("",):
        raise ValueError("RUN has no command", "remove it")


def _check_shell(instruction: Instruction) -> None:
    if not instruction.words or not instruction.json:
        raise ValueError("SHELL needs a JSON array", 'write SHELL ["/bin/bash", "-c"]')


def _check_healthcheck(instruction: Instruction) -> None:
    if not instruction.words:
        raise ValueError("HEALTHCHECK needs CMD or NONE", "write HEALTHCHECK CMD command")
    kind = instruction.words[0].upper()
    if kind == "NONE":
        if len(instruction.words) > 1:
            raise ValueError("HEALTHCHECK NONE takes no arguments", "remove them")
        return
    if kind != "CMD":
        raise ValueError(
            f"HEALTHCHECK does not know {instruction.words[0]!r}", "write HEALTHCHECK CMD command"
        )
    if len(instruction.words) < 2:
        raise ValueError("HEALTHCHECK CMD has no command", "write HEALTHCHECK CMD command")
    for flag in instruction.flags:
        name, _, value = flag.partition("=")
        if name == "--retries":
            if not value.isascii() or not value.isdecimal() or not 1 <= int(value[:12]) < 2**31:
                raise ValueError(f"HEALTHCHECK {flag} is not a number above 0", "write --retries=3")
        elif not _DURATION.fullmatch(value) or not re.search("[1-9]", value):
            raise ValueError(f"HEALTHCHECK {flag} is not a time above 0", f"write {name}=30s")


def _check_arg(instruction: Instruction) -> None:
    _at_least(1)(instruction)
    if any(word.startswith("=") for word in instruction.words):
        raise ValueError("ARG without a name", "write ARG name=value")


def _check_pairs(instruction: Instruction) -> None:
    _at_least(1)(instruction)
    if any(not name.strip("\"'") for name in instruction.words[::2]):
        raise ValueError(f"{instruction.keyword} without a name", f"write {instruction.keyword} name=value")


def _no_check(_: Instruction) -> None:
    """CMD and ENTRYPOINT may be empty."""


_CHECKS: Final[dict[Keyword, Callable[[Instruction], None]]] = {
    Keyword.ADD: _at_least(2),
    Keyword.ARG: _check_arg,
    Keyword.CMD: _no_check,
    Keyword.COPY: _at_least(2),
    Keyword.ENTRYPOINT: _no_check,
    Keyword.ENV: _check_pairs,
    Keyword.EXPOSE: _at_least(1),
    Keyword.FROM: _check_from,
    Keyword.HEALTHCHECK: _check_healthcheck,
    Keyword.LABEL: _check_pairs,
    Keyword.MAINTAINER: _at_least(1),
    Keyword.RUN: _check_run,
    Keyword.SHELL: _check_shell,
    Keyword.STOPSIGNAL: _at_least(1),
    Keyword.USER: _at_least(1),
    Keyword.VOLUME: _at_least(1),
    Keyword.WORKDIR: _at_least(1),
}
