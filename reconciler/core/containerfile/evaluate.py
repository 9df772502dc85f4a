"""What the instructions of one stage do, in order.

Belongs here: ARG, ENV and everything that only changes the image's configuration.
Does not belong here: files (`transfers`), commands (`runs`), which stages count (`stages`).
Rules observed in openshift/imagebuilder `dispatchers.go` and `evaluator.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from reconciler.core.containerfile.expand import expand_words
from reconciler.core.containerfile.runs import run
from reconciler.core.containerfile.scope import check_platform_default, declarations
from reconciler.core.containerfile.state import StageState, encode_set
from reconciler.core.containerfile.syntax import Instruction, Keyword
from reconciler.core.containerfile.transfers import clean_path, transfer
from reconciler.core.containerfile.values import ExpansionError, Text, join, literal, plain, show
from reconciler.core.containerfile.words import SPACE

_SINCE_TRAILING_SLASH: Final = (1, 37)
_SIGNALS: Final = frozenset(
    {
        "ABRT",
        "ALRM",
        "BUF",
        "BUG",
        "BUS",
        "CHLD",
        "CLD",
        "CONT",
        "EMT",
        "FPE",
        "HUP",
        "ILL",
        "INFO",
        "INT",
        "IO",
    }
    | {
        "IOT",
        "KILL",
        "LWP",
        "PIPE",
        "POLL",
        "PROF",
        "PWR",
        "QUIT",
        "RTMAX",
        "RTMIN",
        "SEGV",
        "STKFLT",
        "STOP",
    }
    | {
        "SYS",
        "TERM",
        "THR",
        "TRAP",
        "TSTP",
        "TTIN",
        "TTOU",
        "UNUSED",
        "URG",
        "USR1",
        "USR2",
        "VTALRM",
        "WINCH",
    }
    | {"XCPU", "XFSZ"}
    | {f"RTMIN+{n}" for n in range(1, 16)}
    | {f"RTMAX-{n}" for n in range(1, 15)}
)
_OPERATIONS: Final = (Keyword.ADD, Keyword.COPY, Keyword.RUN, Keyword.WORKDIR)
_DROPPED: Final = "an OCI image cannot hold {}, so it has no effect"


def evaluate(state: StageState) -> None:
    """Go through a stage. The results are in the state and in what its stages share."""
    body = state.stage.text.body
    state.last_run = max((one.line for one in body if one.keyword is Keyword.RUN), default=0)
    for place, instruction in enumerate(body):
        if instruction.keyword in (Keyword.ADD, Keyword.COPY):
            transfer(state, instruction, place)
        else:
            _DO[instruction.keyword](state, instruction)
        if instruction.keyword is Keyword.VOLUME and place == len(body) - 1:
            # buildah 1.28 leaves the folders of a VOLUME in the image when nothing follows it in its stage, and only
            # then (tried): so `VOLUME /a /b` at the end is not the same as `VOLUME /a` and then `VOLUME /b`.
            state.operations.append({"op": "volume", "paths": encode_set(_volumes(state, instruction))})
        if instruction.keyword not in _OPERATIONS and place and body[place - 1].keyword is Keyword.RUN:
            # A RUN may have removed its own working directory; the next instruction brings it back.
            state.ensure_workdir(instruction)


def _arg(state: StageState, instruction: Instruction) -> None:
    known, variables, line = state.build.known, state.variables, instruction.line
    for name, default in declarations(instruction, state.scope(instruction)):
        if name in known.platform:
            check_platform_default(state.notes, line, name, default)
            if name.startswith("BUILD"):
                state.notes.differs(line, f"ARG {name}")
            variables.args[name] = known.platform[name]
            continue
        value = default if default is not None else known.use(name, line)
        if value is None and name in variables.inherited and name not in variables.args:
            value = variables.inherit(name, state.notes, line)
        if value is not None:
            variables.args[name] = value
    if line < state.last_run:
        # Only the environment of a RUN holds it as it is; elsewhere its value shows where it is used.
        state.step(instruction, _shown_arguments(state, instruction))


def _shown_arguments(state: StageState, instruction: Instruction) -> str:
    names = [word.partition("=")[0] for word in instruction.words]
    values = state.variables.args
    return " ".join(f"{name}={show(values[name])}" if name in values else name for name in names)


def _pairs(state: StageState, instruction: Instruction) -> list[tuple[str, Text]]:
    """Names and values of ENV or LABEL; all are expanded before any takes effect."""
    scope = state.scope(instruction)
    found: list[tuple[str, Text]] = []
    for name, value in zip(instruction.words[::2], instruction.words[1::2], strict=True):
        key = plain(scope.expand(name))
        if key:
            found.append((key, scope.expand(value)))
        else:
            message = f"the name {name[:80]!r} in {instruction.keyword} is empty or depends on the base image"
            state.notes.fault(instruction.line, message, "write it out")
    return found


def _shown_pairs(pairs: list[tuple[str, Text]]) -> str:
    return " ".join(f"{name}={show(value)}" for name, value in pairs)


def _env(state: StageState, instruction: Instruction) -> None:
    pairs = _pairs(state, instruction)
    state.variables.env.update(pairs)
    state.step(instruction, _shown_pairs(pairs))


def _label(state: StageState, instruction: Instruction) -> None:
    pairs = _pairs(state, instruction)
    state.config.labels.update(pairs)
    _config_step(state, instruction, _shown_pairs(pairs))


def _config_step(state: StageState, instruction: Instruction, text: str) -> None:
    """Tell of a change that only the result's configuration shows."""
    if state.final:
        state.step(instruction, text)


def _expose(state: StageState, instruction: Instruction) -> None:
    ports: list[Text] = []
    for word in instruction.words:
        try:
            ports += expand_words(word, state.scope(instruction))
        except ExpansionError as error:
            state.notes.fault(instruction.line, str(error), "write EXPOSE port[/protocol]")
            return
    if not ports:
        state.notes.fault(instruction.line, "EXPOSE names no port", "write EXPOSE port[/protocol]")
    for port in ports:
        known = plain(port)
        if known is None:
            state.config.unknown_ports[port] = None
            continue
        number, _, protocol = known.partition("/")
        state.config.ports.add(f"{number}/{protocol.partition('/')[0] or 'tcp'}")
    _config_step(state, instruction, " ".join(map(show, ports)))


def _volumes(state: StageState, instruction: Instruction) -> Iterator[Text]:
    scope = state.scope(instruction)
    for word in instruction.words:
        volume = scope.expand(word)
        known = plain(volume)
        yield volume if known is None else literal(known.strip(SPACE))


def _volume(state: StageState, instruction: Instruction) -> None:
    for volume in _volumes(state, instruction):
        if not volume:
            state.notes.fault(instruction.line, "VOLUME is empty", "write VOLUME /path")
            continue
        state.config.volumes[volume] = None
        state.has_volumes = True
    state.step(instruction, " ".join(instruction.words))


def _user(state: StageState, instruction: Instruction) -> None:
    state.config.user = state.scope(instruction).expand(instruction.words[0])
    state.step(instruction, show(state.config.user))


def _workdir(state: StageState, instruction: Instruction) -> None:
    text = state.scope(instruction).expand(instruction.words[0])
    known = plain(text)
    first = text[0] if text else ""
    if isinstance(first, str) and first.startswith("/"):
        path = text
        if known is not None and known != "/" and known.endswith("/"):
            state.notes.needs(_SINCE_TRAILING_SLASH, instruction.line, "WORKDIR with a slash at its end")
            path = literal(known[:-1])
    else:
        current = state.workdir
        start = plain(current)
        if known is None or start is None:
            path = join([current, literal("/"), text])
        else:
            path = literal(clean_path(f"{start}/{known}"))
    state.config.workdir = path
    state.ensure_workdir(instruction)
    state.step(instruction, show(path))


def _stop_signal(state: StageState, instruction: Instruction) -> None:
    signal = state.scope(instruction).expand(instruction.words[0])
    known = plain(signal)
    if known is not None:
        number = known.removeprefix("-").removeprefix("+")
        valid = number.isascii() and number.isdecimal() and int(number[:9]) != 0
        if not valid and known.upper().removeprefix("SIG") not in _SIGNALS:
            state.notes.fault(instruction.line, f"{known[:80]!r} is no signal", "write STOPSIGNAL SIGTERM")
    state.config.stop_signal = signal
    _config_step(state, instruction, show(signal))


def _command(instruction: Instruction) -> tuple[str, ...]:
    return instruction.words if instruction.json else ("/bin/sh", "-c", *instruction.words)


def _cmd(state: StageState, instruction: Instruction) -> None:
    state.config.cmd = _command(instruction)
    state.cmd_set = state.cmd_set or bool(instruction.words)
    _config_step(state, instruction, " ".join(instruction.words))


def _entrypoint(state: StageState, instruction: Instruction) -> None:
    state.config.entrypoint = _command(instruction) if instruction.words else ()
    if not state.cmd_set:
        # A CMD of the base was meant for the base's entrypoint.
        state.config.cmd = ()
    _config_step(state, instruction, " ".join(instruction.words))


def _shell(state: StageState, instruction: Instruction) -> None:
    state.shell = instruction.words
    message = "an OCI image cannot hold SHELL: it counts for the RUNs after it, from buildah 1.44 on"
    state.notes.warn(instruction.line, message, "call the shell in RUN, or write RUN in JSON form")


def _dropped(state: StageState, instruction: Instruction) -> None:
    state.notes.warn(instruction.line, _DROPPED.format(instruction.keyword), "remove it")


def _nothing(state: StageState, instruction: Instruction) -> None:
    """MAINTAINER sets the author, which is not part of what an image is."""


_DO: Final[dict[Keyword, Callable[[StageState, Instruction], None]]] = {
    Keyword.ARG: _arg,
    Keyword.CMD: _cmd,
    Keyword.ENTRYPOINT: _entrypoint,
    Keyword.ENV: _env,
    Keyword.EXPOSE: _expose,
    Keyword.HEALTHCHECK: _dropped,
    Keyword.LABEL: _label,
    Keyword.MAINTAINER: _nothing,
    Keyword.ONBUILD: _dropped,
    Keyword.RUN: run,
    Keyword.SHELL: _shell,
    Keyword.STOPSIGNAL: _stop_signal,
    Keyword.USER: _user,
    Keyword.VOLUME: _volume,
    Keyword.WORKDIR: _workdir,
}
