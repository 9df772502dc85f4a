"""Edits of stages: names, reachability, what one takes from another, and the order of commands.

Belongs here: FROM, COPY --from, mounts of stages. Does not belong here: files of the context (`files`).
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from tests.oracle.bases import BASE, DASH, FILES
from tests.oracle.draft import Draft, Edit, Kind
from tests.oracle.kinds.tables import Table, named, words


def _stage(draft: Draft, name: str, *body: str, base: str = BASE) -> int:
    """Put a stage before the last one; give the place of its first instruction."""
    place = draft.final()
    draft.lines[place:place] = [f"FROM {base} AS {name}", *body]
    return place + 1


def renamed(draft: Draft, _rng: Random) -> Edit:
    _stage(draft, "tools", "RUN echo a > /made")
    draft.append("COPY --from=tools /made /f")
    yield
    draft.replace("AS tools", "AS builder")
    draft.replace("--from=tools", "--from=builder")


def last_renamed(draft: Draft, _rng: Random) -> Edit:
    yield
    draft.lines[draft.final()] += " AS final"


def named_by_number(draft: Draft, _rng: Random) -> Edit:
    draft.prepend(f"FROM {BASE} AS tools", "RUN echo a > /made")
    draft.lines[:] = [line for line in draft.lines if "VERSION" not in line]
    draft.append("COPY --from=tools /made /f")
    yield
    draft.replace("--from=tools", "--from=0")


def unused_added(draft: Draft, _rng: Random) -> Edit:
    yield
    _stage(draft, "unused", "RUN echo a > /f", "COPY README.md /x")


def unused_changed(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    _stage(draft, "unused", f"RUN echo {old} > /f")
    yield
    draft.replace(f"RUN echo {old} > /f", f"RUN echo {new} > /f")


def unused_removed(draft: Draft, _rng: Random) -> Edit:
    place = _stage(draft, "unused", "RUN echo a > /f")
    yield
    del draft.lines[place - 1 : place + 1]


def unused_based_on_used(draft: Draft, _rng: Random) -> Edit:
    _stage(draft, "tools", "RUN echo a > /made")
    draft.append("COPY --from=tools /made /f")
    yield
    _stage(draft, "unused", "RUN echo b > /f", base="tools")


def used_changed(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    _stage(draft, "tools", f"RUN echo {old} > /made")
    draft.append("COPY --from=tools /made /f")
    yield
    draft.replace(f"RUN echo {old} > /made", f"RUN echo {new} > /made")


def used_changed_elsewhere(draft: Draft, rng: Random) -> Edit:
    """The stage changes, but not what is taken from it: only a build can tell."""
    old, new = words(rng)
    _stage(draft, "tools", f"RUN echo a > /made; echo {old} > /other")
    draft.append("COPY --from=tools /made /f")
    yield
    draft.replace(f"echo {old} > /other", f"echo {new} > /other")


def other_taken(draft: Draft, _rng: Random) -> Edit:
    _stage(draft, "tools", "RUN echo a > /one; echo b > /two")
    draft.append("COPY --from=tools /one /f")
    yield
    draft.replace("--from=tools /one", "--from=tools /two")


def config_of_other_stage(draft: Draft, rng: Random) -> Edit:
    """Labels of a stage that is only copied from are not in the result."""
    old, new = words(rng)
    _stage(draft, "tools", "RUN echo a > /made", f"LABEL x={old}", "CMD none")
    draft.append("COPY --from=tools /made /f")
    yield
    draft.replace(f"LABEL x={old}", f"LABEL x={new}")


def config_of_parent(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    place = draft.final()
    base = draft.lines[place].split()[1]
    draft.lines[place] = "FROM parent"
    draft.lines[place:place] = [f"FROM {base} AS parent", f"LABEL x={old}", f"ENV OTHER={old}"]
    yield
    draft.lines[place + 1] = f"LABEL x={new}"


def parent_split(draft: Draft, _rng: Random) -> Edit:
    """One stage becomes two, one made from the other."""
    draft.append("ENV A=1", "COPY README.md /f")
    yield
    draft.lines[draft.final()] += " AS first"
    draft.lines[-1:-1] = ["FROM first"]


def two_swapped(draft: Draft, _rng: Random) -> Edit:
    first = [f"FROM {BASE} AS one", "RUN echo 1 > /one"]
    second = [f"FROM {BASE} AS two", "RUN echo 2 > /two"]
    place = draft.final()
    draft.lines[place:place] = first + second
    draft.append("COPY --from=one /one /f", "COPY --from=two /two /g")
    yield
    draft.lines[place : place + 4] = second + first


def two_swapped_with_names(draft: Draft, _rng: Random) -> Edit:
    """Which of two stages has which name counts."""
    first, second = (
        [f"FROM {BASE} AS one", "RUN echo 1 > /made"],
        [f"FROM {BASE} AS two", "RUN echo 2 > /made"],
    )
    place = draft.final()
    draft.lines[place:place] = first + second
    draft.append("COPY --from=one /made /f", "COPY --from=two /made /g")
    yield
    draft.lines[place : place + 4] = [first[0], second[1], second[0], first[1]]


def two_swapped_of_a_third(draft: Draft, _rng: Random) -> Edit:
    """One of the two needs a stage of its own, and the other one too."""
    common = [f"FROM {BASE} AS common", "RUN echo c > /c"]
    first = ["FROM common AS one", "RUN cat /c > /made"]
    second = [f"FROM {BASE} AS two", "COPY --from=common /c /made"]
    place = draft.final()
    draft.lines[place:place] = common + first + second
    draft.append("COPY --from=two /made /f", "COPY --from=one /made /g")
    yield
    draft.lines[place : place + 6] = common + second + first


def same_name_again(draft: Draft, _rng: Random) -> Edit:
    """Of two stages with one name the last counts."""
    _stage(draft, "tools", "RUN echo a > /made")
    draft.append("COPY --from=tools /made /f")
    yield
    _stage(draft, "tools", "RUN echo b > /made")


def chosen_by_arch(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    arches = ("amd64", "arm64", "ppc64le", "s390x")
    base = draft.lines[draft.final()].split()[1]
    draft.lines[draft.final()] = "FROM build-${TARGETARCH}"
    for arch in arches:
        _stage(draft, f"build-{arch}", f"RUN echo {old} for {arch} > /f", base=base)
    draft.prepend("ARG TARGETARCH")
    yield
    draft.replace(f"{old} for arm64", f"{new} for arm64")


def chosen_by_arch_chain(draft: Draft, rng: Random) -> Edit:
    """Only one architecture's stage copies from the stage that changes."""
    old, new = words(rng)
    base = draft.lines[draft.final()].split()[1]
    draft.lines[draft.final()] = "FROM build-${TARGETARCH}"
    _stage(draft, "firmware", f"RUN echo {old} > /firmware")
    # A stage without instructions is its base image, and buildah 1.28 removes that with its own intermediate images.
    _stage(draft, "plain", "LABEL x=1", base=base)
    for arch in ("amd64", "ppc64le", "s390x"):
        _stage(draft, f"build-{arch}", "LABEL x=2", base="plain")
    _stage(draft, "build-arm64", "COPY --from=firmware /firmware /f", base="plain")
    draft.prepend("ARG TARGETARCH")
    yield
    draft.replace(f"echo {old} > /firmware", f"echo {new} > /firmware")


def base_by_argument(draft: Draft, _rng: Random) -> Edit:
    draft.lines[draft.final()] = f"FROM {BASE}"
    yield
    draft.lines[draft.final()] = "FROM $OS"
    draft.prepend(f"ARG OS={BASE}")


def base_changed(draft: Draft, _rng: Random) -> Edit:
    draft.lines[draft.final()] = f"FROM {BASE}"
    yield
    draft.lines[draft.final()] = f"FROM {DASH}"


def platform_said(draft: Draft, _rng: Random) -> Edit:
    draft.prepend("ARG TARGETPLATFORM")
    yield
    place = draft.final()
    draft.lines[place] = draft.lines[place].replace("FROM ", "FROM --platform=$TARGETPLATFORM ", 1)


def mounted_changed(draft: Draft, rng: Random) -> Edit:
    old, new = words(rng)
    _stage(draft, "tools", f"RUN echo {old} > /made")
    draft.append("RUN --mount=type=bind,from=tools,target=/m cat /m/made > /f")
    yield
    draft.replace(f"RUN echo {old} > /made", f"RUN echo {new} > /made")


def mounted_renamed(draft: Draft, _rng: Random) -> Edit:
    _stage(draft, "tools", "RUN echo a > /made")
    draft.append("RUN --mount=type=bind,from=tools,target=/m cat /m/made > /f")
    yield
    draft.replace("AS tools", "AS builder")
    draft.replace("from=tools", "from=builder")


_TABLE: Final = Table(
    {
        "image_copied_from": (f"COPY --from={FILES} /common /f", f"COPY --from={FILES} /machine /f"),
        "image_copied_from_moved": (
            f"COPY --from={FILES} /common /f",
            f"COPY --from={FILES} /common /g",
        ),
        "runs_swapped": ("RUN echo a > /f\nRUN echo b > /f", "RUN echo b > /f\nRUN echo a > /f"),
        "runs_swapped_apart": ("RUN echo a > /f\nRUN echo b > /g", "RUN echo b > /g\nRUN echo a > /f"),
        "runs_joined": ("RUN echo a > /f\nRUN echo b > /g", "RUN echo a > /f && echo b > /g"),
        "run_repeated": ("RUN echo a > /f", "RUN echo a > /f\nRUN echo a > /f"),
        "run_removed": ("RUN echo a > /f\nRUN echo b > /g", "RUN echo a > /f"),
        "run_form": ("RUN echo a > /f", 'RUN ["/bin/sh", "-c", "echo a > /f"]'),
        "run_before_copy": ("RUN ls /etc > /f\nCOPY tool /etc/tool", "COPY tool /etc/tool\nRUN ls /etc > /f"),
        "mount_of_cache": (
            "RUN --mount=type=tmpfs,target=/m echo a > /f",
            "RUN --mount=type=tmpfs,target=/n echo a > /f",
        ),
    }
)

KINDS: Final[Mapping[str, Kind]] = {
    **named(
        renamed,
        last_renamed,
        named_by_number,
        unused_added,
        unused_changed,
        unused_removed,
        unused_based_on_used,
        used_changed,
        used_changed_elsewhere,
        other_taken,
        config_of_other_stage,
        config_of_parent,
        parent_split,
        two_swapped,
        two_swapped_with_names,
        two_swapped_of_a_third,
        same_name_again,
        chosen_by_arch,
        chosen_by_arch_chain,
        base_by_argument,
        base_changed,
        platform_said,
        mounted_changed,
        mounted_renamed,
    ),
    **_TABLE,
}
