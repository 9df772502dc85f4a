"""RUN: the text that the shell gets, and all that it can see.

Belongs here: one `run` operation. Does not belong here: looking into the shell text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from reconciler.core.containerfile.heredoc import is_only_heredoc
from reconciler.core.containerfile.mounts import Mount, read_mount
from reconciler.core.containerfile.shells import residue, script, tidied
from reconciler.core.containerfile.stages import find
from reconciler.core.containerfile.state import StageState, encode_map, encode_set
from reconciler.core.containerfile.syntax import Instruction
from reconciler.core.containerfile.values import Json, encode, plain, show

_NETWORKS: Final = ("default", "host", "none")
_SINCE_NETWORK: Final = (1, 30)
_SINCE_VOLUMES: Final = (1, 37)
_SINCE_VARIANT: Final = (1, 40)
_SINCE_SHELL: Final = (1, 44)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def run(state: StageState, instruction: Instruction) -> None:
    """Add the operation of one RUN."""
    state.notes.runs = True
    command, words = _command(state, instruction)
    operation: dict[str, Json] = {"op": "run", **command}
    shown = _flags(state, instruction, operation)
    variables, config = state.variables, state.config
    args = {name: value for name, value in variables.args.items() if name not in variables.env}
    inherited = {
        name: value
        for name, (value, _) in variables.inherited.items()
        if name not in variables.env and name not in variables.args
    }
    optional: dict[str, Json] = {
        "env": encode_map(variables.env),
        "args": encode_map(args),
        "inherited": encode_map(inherited),
        "volumes": encode_set(config.volumes),
    }
    operation |= {key: value for key, value in optional.items() if value}
    if config.user is not None:
        operation["user"] = encode(config.user)
    if config.workdir is not None:
        operation["workdir"] = encode(config.workdir)
    texts = [*variables.env.values(), *args.values(), *inherited.values(), *config.volumes]
    state.operate(instruction, operation, texts)
    _dialect(state, instruction, inherited)
    state.ensured = None
    state.step(instruction, " ".join([*shown, words]))


def _command(state: StageState, instruction: Instruction) -> tuple[dict[str, Json], str]:
    """What is run: an argv, a shell text or what is left of it here, or a script with its own interpreter; and the
    same for people.
    """
    text, dialect = ("", "exec") if instruction.json else shell_text(instruction)
    found = None if state.shell and not instruction.json else script(instruction, text, dialect)
    left = None if found is None else residue(state, instruction, *found)
    if found is not None and left is not None:
        state.build.evaluated = True
        command: dict[str, Json] = {"dialect": dialect, "sh": left}
        return command | ({"argv": [*found[0]]} if found[0] else {}), _one_line(left)
    if instruction.json:
        return {"dialect": dialect, "argv": list(instruction.words)}, _shown(instruction)
    command = {"dialect": dialect, "text": tidied(state, instruction, text) if dialect == "sh" else text}
    if dialect == "sh" and state.shell:
        command["shell"] = list(state.shell)
    return command, _shown(instruction)


def _one_line(program: str) -> str:
    """A program for people; it need not run."""
    return re.sub(
        r"(^|\b(?:if|then|else|do|in)|[({)]|;;|&&|\|\|);(?= )", r"\1", "; ".join(program.split("\n"))
    )


def shell_text(instruction: Instruction) -> tuple[str, str]:
    """The text of a RUN in shell form and its dialect: `sh` for the shell, `script` for a file with `#!`."""
    text, heredocs = instruction.words[0], instruction.heredocs
    if not heredocs:
        return text, "sh"
    if is_only_heredoc(text):
        body = heredocs[0].body
        return body, "script" if body.startswith("\n#!") else "sh"
    return text + "".join(f"{one.body}\n{one.name}" for one in heredocs), "sh"


def _flags(state: StageState, instruction: Instruction, operation: dict[str, Json]) -> list[str]:
    """Add mounts and network to the operation; give the flags as people see them."""
    mounts: list[Json] = []
    shown: list[str] = []
    scope = state.scope(instruction)
    for flag in instruction.flags:
        name, _, word = flag.partition("=")
        text = scope.expand(word)
        value = plain(text)
        if value is None:
            state.notes.fault(
                instruction.line, f"RUN {name}={show(text)} depends on the base image", "write it out"
            )
        elif name == "--network":
            _network(state, instruction, value, operation)
            shown.append(f"{name}={value}")
        else:
            fields, origin = _mount(state, instruction, value, word)
            mounts.append({"fields": [*fields], "from": origin} if origin else {"fields": [*fields]})
            shown.append(f"{name}={','.join([*fields, f'from={origin}'] if origin else fields)}")
    if mounts:
        operation["mounts"] = mounts
    return shown


def _network(state: StageState, instruction: Instruction, value: str, operation: dict[str, Json]) -> None:
    state.notes.needs(_SINCE_NETWORK, instruction.line, "RUN --network")
    if value not in _NETWORKS:
        state.notes.fault(
            instruction.line, f"RUN --network={value} is not known", "use default, host or none"
        )
    elif value != "default":
        operation["network"] = value
    else:
        operation.pop("network", None)


def _mount(state: StageState, instruction: Instruction, value: str, word: str) -> tuple[tuple[str, ...], str]:
    """The fields of a mount and the stage or image it shows, '' for none; note what it takes of the
    context.
    """
    try:
        mount = read_mount(value)
    except ValueError as error:
        state.notes.fault(instruction.line, *map(str, error.args))
        return (), ""
    if mount.origin:
        return mount.fields, _origin(state, instruction, mount, word)
    if mount.binds_context:
        _bind_context(state, instruction, mount)
    return mount.fields, ""


def _origin(state: StageState, instruction: Instruction, mount: Mount, word: str) -> str:
    earlier = state.build.stages[: state.stage.text.position]
    found = find(earlier, mount.origin, by_index=True)
    if found is not None and "$" in word.partition("from=")[2].partition(",")[0]:
        message = f"buildah does not see that RUN --mount=from={mount.origin} needs that stage"
        state.notes.fault(instruction.line, message, "write the name of the stage without variables")
        return mount.origin
    return state.origin(found, mount.origin, instruction.line)


def _bind_context(state: StageState, instruction: Instruction, mount: Mount) -> None:
    """A bind mount shows files as they are: ignore rules do not apply."""
    context = state.build.context
    source = mount.source.strip("/") or "."
    paths = None if ".." in source.split("/") else context.below(source)
    state.build.binds_context = True
    state.build.take(instruction.line, context.everything() if paths is None else paths)


def _dialect(state: StageState, instruction: Instruction, inherited: Mapping[str, object]) -> None:
    """Note what older versions of buildah do otherwise for this RUN."""
    notes, line = state.notes, instruction.line
    if state.has_volumes:
        notes.needs(_SINCE_VOLUMES, line, "RUN after VOLUME")
    if state.shell and not instruction.json:
        notes.needs(_SINCE_SHELL, line, "RUN after SHELL")
    used = set(_NAME.findall(_shown(instruction)))
    for name in sorted(used & inherited.keys()):
        state.variables.inherit(name, notes, line)
    for name in ("TARGETVARIANT", "BUILDVARIANT"):
        if name in used and name in state.variables.args:
            notes.needs(_SINCE_VARIANT, line, f"{name}, which is set to nothing")


def _shown(instruction: Instruction) -> str:
    if instruction.json:
        words = ", ".join(f'"{word}"' for word in instruction.words)
        return f"[{words}]"
    bodies = "".join(f"{one.body}\n{one.name}" for one in instruction.heredocs)
    return instruction.words[0] + bodies
