"""Edits of the context: files, modes, links, ignore rules, and what COPY and mounts take of it.

Does not belong here: copies from stages (`stages`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Final

from tests.oracle.draft import Draft, Edit, File, Kind
from tests.oracle.kinds.tables import Table, named, words


def _write(draft: Draft, path: str, text: str) -> None:
    """Give a file another text, keeping its mode."""
    draft.files[path] = replace(draft.files.get(path, File("")), text=text)


def copied_file(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY etc/motd /etc/motd")
    yield
    _write(draft, "etc/motd", "Changed.\n")


def other_file(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY etc/motd /etc/motd")
    yield
    _write(draft, "README.md", "Changed.\n")


def other_file_added(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY etc/motd /etc/motd")
    yield
    _write(draft, "etc/motd2", "New.\n")
    if any(line.startswith("COPY etc /") for line in draft.lines):
        del draft.files["etc/motd2"]
        _write(draft, "docs/new", "New.\n")


def folder_file_added(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY etc/conf.d /etc/conf.d")
    yield
    _write(draft, "etc/conf.d/30.conf", "thirty\n")


def file_moved(draft: Draft, rng: Random) -> Edit:
    """The same content from another place."""
    place = draft.insert(rng, "COPY README.md /f")
    yield
    draft.files["docs/README"] = draft.files.pop("README.md")
    draft.lines[place] = "COPY docs/README /f"


def glob_hit(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY etc/conf.d/*.conf /etc/conf.d/")
    yield
    _write(draft, "etc/conf.d/30.conf", "thirty\n")


def glob_missed(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY etc/conf.d/*.conf /etc/x/")
    draft.lines[:] = [line for line in draft.lines if not line.startswith("COPY etc /")]
    yield
    _write(draft, "etc/conf.d/notes.txt", "not taken\n")


def glob_written_out(draft: Draft, rng: Random) -> Edit:
    place = draft.insert(rng, "COPY etc/conf.d/?0.conf /etc/x/")
    yield
    draft.lines[place] = "COPY etc/conf.d/20.conf etc/conf.d/10.conf /etc/x/"


def glob_written_out_one(draft: Draft, rng: Random) -> Edit:
    """The last of two files of one name counts."""
    place = draft.insert(rng, "COPY bin/a*/agent /opt/x/")
    yield
    draft.lines[place] = "COPY bin/arm64/agent bin/amd64/agent /opt/x/"


def glob_written_out_as_file(draft: Draft, rng: Random) -> Edit:
    """A glob is one source, so that what is not there yet is a file."""
    place = draft.insert(rng, "COPY etc/conf.d/?0.conf /etc/x")
    yield
    draft.lines[place] = "COPY etc/conf.d/10.conf etc/conf.d/20.conf /etc/x"


def glob_of_names_with_marks(draft: Draft, rng: Random) -> Edit:
    """What is found by a name is looked up by it once more."""
    _write(draft, "marks/[1].conf", "in brackets\n")
    _write(draft, "marks/1.conf", "plain\n")
    place = draft.insert(rng, "COPY marks/*.conf /etc/x/")
    yield
    draft.lines[place] = rng.choice(
        ["COPY marks/[1].conf marks/1.conf /etc/x/", "COPY marks/\\[1].conf marks/1.conf /etc/x/"]
    )


def folders_swapped(draft: Draft, rng: Random) -> Edit:
    """What is in both is there as in the last."""
    _write(draft, "other/motd", "other\n")
    place = draft.insert(rng, "COPY etc other /opt/x/")
    yield
    draft.lines[place] = "COPY other etc /opt/x/"


def mode_changed(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY tool /opt/tool")
    yield
    draft.files["tool"] = replace(draft.files["tool"], executable=False)


def mode_overridden(draft: Draft, rng: Random) -> Edit:
    """With --chmod the file's own mode does not count."""
    draft.insert(rng, "COPY --chmod=0700 tool /opt/tool")
    yield
    draft.files["tool"] = replace(draft.files["tool"], executable=False)


def mode_overridden_and_copied(draft: Draft, rng: Random) -> Edit:
    """Another copy of the same file shows the mode."""
    draft.insert(rng, "COPY --chmod=0700 tool /opt/tool", "COPY tool /opt/bare")
    yield
    draft.files["tool"] = replace(draft.files["tool"], executable=False)


def mode_overridden_and_bound(draft: Draft, rng: Random) -> Edit:
    draft.insert(
        rng,
        "COPY --chmod=0700 tool /opt/tool",
        "RUN --mount=type=bind,source=tool,target=/m/tool ls -l /m/tool | cut -c 1-10 > /f",
    )
    yield
    draft.files["tool"] = replace(draft.files["tool"], executable=False)


def mode_overridden_in_folder(draft: Draft, rng: Random) -> Edit:
    _write(draft, "etc/tool", "#!/bin/sh\n")
    draft.lines[:] = [line for line in draft.lines if not line.startswith("COPY etc /")]
    draft.insert(rng, rng.choice(["COPY", "ADD"]) + " --chmod=750 etc /opt/x/")
    yield
    draft.files["etc/tool"] = replace(draft.files["etc/tool"], executable=True)


def link_in_folder(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY etc /etc/x/")
    yield
    draft.files["etc/current"] = File("motd", link=True)


def link_named(draft: Draft, rng: Random) -> Edit:
    """A link that is named is followed: its target's content counts."""
    draft.insert(rng, "COPY etc/current /f")
    yield
    _write(draft, "etc/app.conf", "changed\n")


def link_named_same_content(draft: Draft, rng: Random) -> Edit:
    draft.files["etc/copy"] = draft.files["etc/app.conf"]
    draft.insert(rng, "COPY etc/current /f")
    draft.lines[:] = [line for line in draft.lines if not line.startswith("COPY etc /")]
    yield
    draft.files["etc/current"] = File("copy", link=True)


def link_becomes_file(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY etc /etc/x/")
    yield
    draft.files["etc/current"] = draft.files["etc/app.conf"]


def everything_with_comment(draft: Draft, rng: Random) -> Edit:
    """`COPY .` takes the Containerfile along: a comment is a change of content."""
    draft.insert(rng, "COPY . /src/")
    yield
    draft.prepend("# note")


def everything_without_containerfile(draft: Draft, rng: Random) -> Edit:
    _write(draft, ".containerignore", "Containerfile\n")
    draft.insert(rng, "COPY . /src/")
    yield
    draft.prepend("# note")


def everything_with_ignored(draft: Draft, rng: Random) -> Edit:
    _write(draft, ".containerignore", "*.md\n")
    draft.insert(rng, "COPY . /src/")
    yield
    _write(draft, "README.md", "Changed.\n")


def ignore_comment(draft: Draft, rng: Random) -> Edit:
    _write(draft, ".containerignore", "*.md\n")
    draft.insert(rng, "COPY etc /src/")
    yield
    _write(draft, ".containerignore", "# no documents\n*.md\n\n")


def ignore_comment_copied(draft: Draft, rng: Random) -> Edit:
    _write(draft, ".containerignore", "*.md\n")
    draft.insert(rng, "COPY . /src/")
    yield
    _write(draft, ".containerignore", "# no documents\n*.md\n")


def ignore_pattern_without_effect(draft: Draft, rng: Random) -> Edit:
    _write(draft, ".containerignore", "*.md\n")
    draft.insert(rng, "COPY etc /src/")
    yield
    _write(draft, ".containerignore", "*.md\n*.bak\nshim\n")


def ignore_pattern_with_effect(draft: Draft, rng: Random) -> Edit:
    _write(draft, ".containerignore", "*.md\n")
    draft.insert(rng, "COPY etc /src/")
    yield
    _write(
        draft,
        ".containerignore",
        rng.choice(["**/20.conf\n", "etc/conf.d\n", "etc/*\n!etc/motd\n!etc/app.conf\n"]),
    )


def ignore_exception(draft: Draft, rng: Random) -> Edit:
    _write(draft, ".containerignore", "etc/conf.d/*\n")
    draft.insert(rng, "COPY etc /src/")
    yield
    _write(draft, ".containerignore", "etc/conf.d/*\n!etc/conf.d/20.conf\n")


def ignore_order(draft: Draft, rng: Random) -> Edit:
    _write(draft, ".containerignore", "!etc/conf.d/20.conf\netc/conf.d/20.conf\n")
    draft.insert(rng, "COPY etc /src/")
    yield
    _write(draft, ".containerignore", "etc/conf.d/20.conf\n!etc/conf.d/20.conf\n")


def ignore_of_lower_rank(draft: Draft, rng: Random) -> Edit:
    """Only one ignore file is read."""
    _write(draft, ".containerignore", "*.md\n")
    _write(draft, ".dockerignore", "*.md\n")
    draft.insert(rng, "COPY etc /src/")
    yield
    _write(draft, ".dockerignore", "etc/conf.d\n")


def ignore_of_higher_rank(draft: Draft, rng: Random) -> Edit:
    _write(draft, ".dockerignore", "etc/conf.d\n")
    draft.insert(rng, "COPY etc /src/")
    yield
    name = rng.choice([".containerignore", "Containerfile.containerignore", "Containerfile.dockerignore"])
    _write(draft, name, "*.md\n")


def bound_context_read(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "RUN --mount=type=bind,target=/m cat /m/README.md > /f")
    yield
    _write(draft, "README.md", "Changed.\n")


def bound_context_not_read(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "RUN --mount=type=bind,target=/m cat /m/README.md > /f")
    yield
    _write(draft, "unread", "New.\n")


def bound_context_ignored(draft: Draft, rng: Random) -> Edit:
    """Ignore rules do not hold for mounts."""
    _write(draft, ".containerignore", "*.md\n")
    draft.insert(rng, "RUN --mount=type=bind,target=/m cat /m/README.md > /f")
    yield
    _write(draft, "README.md", "Changed.\n")


def bound_context_by_path(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "RUN --mount=type=bind,source=etc,target=/m cat /m/motd > /f")
    yield
    _write(draft, rng.choice(["etc/motd", "README.md"]), "Changed.\n")


def bound_context_comment(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "RUN --mount=type=bind,target=/m cat /m/Containerfile > /f")
    yield
    draft.prepend("# note")


def by_arch(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY bin/$TARGETARCH/agent /usr/local/bin/agent")
    yield
    _write(draft, f"bin/{rng.choice(['amd64', 'arm64'])}/agent", "changed\n")


def by_arch_folder(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY bin/${TARGETARCH}/ /opt/bin/")
    yield
    _write(draft, f"bin/{rng.choice(['amd64', 'arm64'])}/more", "new\n")


def by_arch_written_out(draft: Draft, rng: Random) -> Edit:
    place = draft.insert(rng, "COPY bin/$TARGETARCH/agent /opt/agent")
    yield
    draft.lines[place] = "COPY bin/amd64/agent /opt/agent"


def by_arch_glob(draft: Draft, rng: Random) -> Edit:
    draft.insert(rng, "COPY bin/*/agent /opt/")
    _write(draft, "bin/s390x/agent", "last\n")
    yield
    _write(draft, "bin/amd64/agent", "changed, and overwritten\n")


def shadowed_copy(draft: Draft, rng: Random) -> Edit:
    """What is copied is overwritten by the next copy: only a build can tell."""
    old, new = words(rng)
    _write(draft, "first", f"{old}\n")
    draft.insert(rng, "COPY first /f", "COPY README.md /f")
    yield
    _write(draft, "first", f"{new}\n")


_TABLE: Final = Table(
    {
        "destination": ("COPY tool /opt/a", "COPY tool /opt/b"),
        "destination_cleaned": ("COPY tool /opt/a", "COPY tool /opt/./x/../a"),
        "destination_folder": ("COPY tool /opt/a", "COPY tool /opt/a/"),
        "source_cleaned": ("COPY etc/motd /f", "COPY ./etc/../etc/motd /f"),
        "source_rooted": ("COPY etc/motd /f", "COPY /etc/motd /f"),
        "sources_swapped": ("COPY tool README.md /opt/x/", "COPY README.md tool /opt/x/"),
        "sources_split": ("COPY tool README.md /opt/x/", "COPY tool /opt/x/\nCOPY README.md /opt/x/"),
        "json_form": ("COPY tool README.md /opt/x/", 'COPY ["tool", "README.md", "/opt/x/"]'),
        "add_or_copy": ("COPY tool /opt/tool", "ADD tool /opt/tool"),
        "owner": ("COPY --chown=1000:1000 tool /opt/t", "COPY --chown=0:0 tool /opt/t"),
        "owner_by_name": ("COPY --chown=1000:1000 tool /opt/t", "COPY --chown=app:app tool /opt/t"),
        "mode_said": ("COPY --chmod=755 tool /opt/t", "COPY --chmod=0755 tool /opt/t"),
        "mode_of_one_digit": ("COPY --chmod=5 tool /opt/t", "COPY --chmod=0000005 tool /opt/t"),
        "mode_with_more": ("COPY --chmod=755 tool /opt/t", "COPY --chmod=4755 tool /opt/t"),
        "sources_swapped_of_one_name": (
            "COPY bin/amd64/agent bin/arm64/agent /opt/x/",
            "COPY bin/arm64/agent bin/amd64/agent /opt/x/",
        ),
        "copies_swapped": ("COPY tool /f\nCOPY README.md /f", "COPY README.md /f\nCOPY tool /f"),
        "folder_or_content": ("COPY etc/conf.d /opt/x/", "COPY etc/conf.d/* /opt/x/"),
    }
)

KINDS: Final[Mapping[str, Kind]] = {
    **named(
        copied_file,
        other_file,
        other_file_added,
        folder_file_added,
        file_moved,
        glob_hit,
        glob_missed,
        glob_written_out,
        glob_written_out_one,
        glob_written_out_as_file,
        glob_of_names_with_marks,
        folders_swapped,
        mode_changed,
        mode_overridden,
        mode_overridden_and_copied,
        mode_overridden_and_bound,
        mode_overridden_in_folder,
        link_in_folder,
        link_named,
        link_named_same_content,
        link_becomes_file,
        everything_with_comment,
        everything_without_containerfile,
        everything_with_ignored,
        ignore_comment,
        ignore_comment_copied,
        ignore_pattern_without_effect,
        ignore_pattern_with_effect,
        ignore_exception,
        ignore_order,
        ignore_of_lower_rank,
        ignore_of_higher_rank,
        bound_context_read,
        bound_context_not_read,
        bound_context_ignored,
        bound_context_by_path,
        bound_context_comment,
        by_arch,
        by_arch_folder,
        by_arch_written_out,
        by_arch_glob,
        shadowed_copy,
    ),
    **_TABLE,
}
