"""Edits of variables and of the runtime configuration.

Belongs here: ARG, ENV, LABEL, EXPOSE, USER, WORKDIR, VOLUME, STOPSIGNAL, CMD, ENTRYPOINT. Does not belong here: stages,
files, commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from tests.oracle.draft import Draft, Edit, Kind
from tests.oracle.kinds.tables import Table, named, words


def global_unused(draft: Draft, _rng: Random) -> Edit:
    yield
    draft.prepend("ARG UNUSED=1")


def global_unused_default(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    draft.prepend(f"ARG UNUSED={old}")
    yield
    draft.lines[0] = f"ARG UNUSED={new}"


def global_redeclared(draft: Draft, rng: Random) -> Edit:
    """A global default counts where a stage asks for it."""
    old, new = words(rng)
    draft.prepend(f"ARG KIND={old}")
    draft.append("ARG KIND", "LABEL kind=$KIND")
    yield
    draft.lines[0] = f"ARG KIND={new}"


def global_redeclared_with_default(draft: Draft, rng: Random) -> Edit:
    """A default of the stage's own wins."""
    old, new = words(rng)
    draft.prepend(f"ARG KIND={old}")
    draft.append("ARG KIND=mine", "LABEL kind=$KIND")
    yield
    draft.lines[0] = f"ARG KIND={new}"


def global_not_redeclared(draft: Draft, rng: Random) -> Edit:
    """A stage that does not ask sees nothing."""
    old, new = words(rng)
    draft.prepend(f"ARG KIND={old}")
    draft.append("LABEL kind=x$KIND")
    yield
    draft.lines[0] = f"ARG KIND={new}"


def argument_lost_across_from(draft: Draft, rng: Random) -> Edit:
    """A stage's arguments end with it; its environment is passed on."""
    old, new = words(rng)
    place = draft.final()
    base = draft.lines[place].split()[1]
    draft.lines[place] = "FROM parent"
    draft.lines[place:place] = [f"FROM {base} AS parent", f"ARG KIND={old}", "ENV OTHER=$KIND"]
    draft.append(rng.choice(["LABEL kind=x$KIND", "LABEL kind=x$OTHER"]))
    yield
    draft.replace(f"ARG KIND={old}", f"ARG KIND={new}")


def argument_used_by_run(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    draft.append(f"ARG KIND={old}", "RUN echo $KIND > /f")
    yield
    draft.lines[-2] = f"ARG KIND={new}"


def argument_after_run(draft: Draft, rng: Random) -> Edit:
    """An argument that is declared after every RUN and used nowhere."""
    old, new = words(rng)
    draft.append("RUN echo a > /f", f"ARG KIND={old}")
    yield
    draft.lines[-1] = f"ARG KIND={new}"


def argument_moved_before_run(draft: Draft, _rng: Random) -> Edit:
    draft.append("RUN echo x$KIND > /f", "ARG KIND=1")
    yield
    draft.lines[-2:] = reversed(draft.lines[-2:])


def user(draft: Draft, _rng: Random) -> Edit:
    """At the end, since a RUN of this user could write nowhere."""
    draft.append("USER app")
    yield
    draft.lines[-1] = "USER 1000"


_TABLE: Final = Table(
    {
        # LABEL and EXPOSE are maps
        "label_value": "LABEL a=@",
        "label_value_by_arch": ("LABEL a=x-$TARGETARCH", "LABEL a=x-amd64"),
        "label_order": ("LABEL a=1 b=2\nLABEL c=3", "LABEL c=3\nLABEL b=2 a=1"),
        "label_split": ("LABEL a=1 b=2", "LABEL a=1\nLABEL b=2"),
        "label_overridden": "LABEL zz=@\nLABEL zz=2",
        "label_last_wins": ("LABEL zz=1\nLABEL zz=2", "LABEL zz=2\nLABEL zz=1"),
        "label_quotes": ("LABEL a=b c='d e'", 'LABEL "a"="b" c=d\\ e'),
        "label_old_form": ("LABEL a=b", "LABEL a b"),
        "label_name": ("LABEL a=b", "LABEL b=b"),
        "expose_order": ("EXPOSE 80 443", "EXPOSE 443 80"),
        "expose_split": ("EXPOSE 80 443", "EXPOSE 80\nEXPOSE 443"),
        "expose_protocol_said": ("EXPOSE 80", "EXPOSE 80/tcp"),
        "expose_protocol": ("EXPOSE 80", "EXPOSE 80/udp"),
        "expose_port": ("EXPOSE 8080", "EXPOSE 9090"),
        "expose_variable": ("EXPOSE 8443", "ENV P=8443\nEXPOSE $P"),
        # ENV
        "env_value": "ENV A=@",
        "env_value_in_run": "ENV A=@\nRUN echo $A > /f",
        "env_split": ("ENV A=1 B=2", "ENV A=1\nENV B=2"),
        "env_split_self_reference": ("ENV A=0\nENV A=1 B=$A", "ENV A=0\nENV A=1\nENV B=$A"),
        "env_order": ("ENV A=1 B=2", "ENV B=2 A=1"),
        "env_overridden": "ENV A=@\nENV A=2",
        "env_quotes": ("ENV A=b", 'ENV A="b"'),
        "env_single_quotes": ("ENV A=1\nENV B=$A", "ENV A=1\nENV B='$A'"),
        "env_escaped_dollar": ("ENV A=1\nENV B=$A", "ENV A=1\nENV B=\\$A"),
        "env_old_form": ("ENV A=b", "ENV A b"),
        "env_after_run": ("ENV A=1\nRUN echo x$A > /f", "RUN echo x$A > /f\nENV A=1"),
        "env_emptied": ("ENV A=1\nENV A=", "ENV A=1\nENV A=2"),
        # ARG against ENV, and the forms of expansion
        "argument_in_label": "ARG A=@\nLABEL a=$A",
        "argument_braces": ("ARG A=1\nLABEL a=$A", "ARG A=1\nLABEL a=${A}"),
        "argument_inlined": ("ARG A=1\nLABEL a=$A", "LABEL a=1"),
        "argument_unused_by_run": "ARG A=@\nRUN echo a > /f",
        "argument_hidden_by_env": "ARG A=@\nENV A=2\nLABEL a=$A\nRUN echo $A > /f",
        "argument_hidden_by_earlier_env": "ENV A=2\nARG A=@\nLABEL a=$A\nRUN echo $A > /f",
        "argument_redeclared": "ARG A=@\nARG A=2\nLABEL a=$A",
        "argument_made_of_argument": "ARG A=@\nARG B=$A-x\nLABEL b=$B",
        "argument_made_of_itself_on_a_line": "ARG A=@ B=x$A\nLABEL b=$B",
        "argument_name_prefix": "ARG A=@\nARG AB=2\nLABEL a=$AB",
        "platform_default_ignored": "ARG TARGETOS=@\nLABEL a=$TARGETOS",
        "platform_undeclared": ("LABEL a=x$TARGETVARIANT", "LABEL a=x$TARGETOS"),
        "platform_hidden_by_env": "ENV TARGETARCH=@\nLABEL a=$TARGETARCH",
        "default_taken": "LABEL a=${NONE:-@}",
        "default_not_taken": "ARG A=1\nLABEL a=${A:-@}",
        "default_for_empty": "ARG A=\nLABEL a=${A:-@}",
        "alternative_taken": "ARG A=1\nLABEL a=${A:+@}",
        "alternative_not_taken": "LABEL a=${NONE:+@}",
        "default_nested": "ARG B=@\nLABEL a=${NONE:-$B}",
        "default_by_arch": ("LABEL a=${TARGETARCH:-none}", "LABEL a=${TARGETARCH:-nothing}"),
        "variable_in_label_name": "ARG A=@\nLABEL x-$A=1",
        # The rest of the configuration
        "workdir": "WORKDIR /srv/@",
        "workdir_before_run": "WORKDIR /srv/@\nRUN pwd > /f",
        "workdir_relative": ("WORKDIR /a\nWORKDIR b", "WORKDIR /a\nWORKDIR /a/b"),
        "workdir_relative_moved": ("WORKDIR /a\nWORKDIR b", "WORKDIR b\nWORKDIR /a"),
        "workdir_cleaned": ("WORKDIR /a/b", "WORKDIR /a/./c/../b"),
        "workdir_by_copy": ("WORKDIR /a\nCOPY README.md .", "WORKDIR /a\nCOPY README.md /a/"),
        "user_before_run": ("USER 0\nRUN id -u > /tmp/f\nUSER 0", "USER 1000\nRUN id -u > /tmp/f\nUSER 0"),
        "user_by_number": ("USER app\nUSER 0", "USER 1000\nUSER 0"),
        "user_overridden": ("USER app\nUSER 0", "USER root\nUSER 0"),
        "volume": "VOLUME /data/@",
        "volume_form": ("VOLUME /a /b", 'VOLUME ["/b", "/a"]'),
        "volume_split": ("VOLUME /a /b", "VOLUME /a\nVOLUME /b"),
        "stop_signal": ("STOPSIGNAL SIGTERM", "STOPSIGNAL SIGINT"),
        "stop_signal_number": ("STOPSIGNAL SIGTERM", "STOPSIGNAL 15"),
        "cmd": "CMD run @",
        "cmd_overridden": "CMD run @\nCMD run",
        "cmd_form": ("CMD run all", 'CMD ["run", "all"]'),
        "cmd_form_written_out": ("CMD run all", 'CMD ["/bin/sh", "-c", "run all"]'),
        "cmd_is_not_expanded": ("ENV A=1\nCMD run $A", "ENV A=1\nCMD run 1"),
        "entrypoint": "ENTRYPOINT run @",
        "entrypoint_form": ('ENTRYPOINT ["run"]', "ENTRYPOINT run"),
        "entrypoint_after_cmd": ("CMD a\nENTRYPOINT b", "ENTRYPOINT b\nCMD a"),
        "entrypoint_twice": "ENTRYPOINT @\nENTRYPOINT run",
        "healthcheck_dropped": "HEALTHCHECK CMD @",
        "onbuild_dropped": "ONBUILD RUN echo @",
        "shell_dropped": ('SHELL ["/bin/sh", "-c"]', 'SHELL ["/bin/bash", "-c"]'),
    }
)

KINDS: Final[Mapping[str, Kind]] = {
    **named(
        global_unused,
        global_unused_default,
        global_redeclared,
        global_redeclared_with_default,
        global_not_redeclared,
        argument_lost_across_from,
        argument_used_by_run,
        argument_after_run,
        argument_moved_before_run,
        user,
    ),
    **_TABLE,
}
