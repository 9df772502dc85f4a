"""The build stage `configs`: a layer as Containerfile text, and the one file that the text takes from its context.

    built = stage(layer, base, extensions_image)
    # a context folder of exactly `built.files`; no ignore rules; then
    #   buildah build … --file <built.text> --tag localhost/configs <that folder>
    # and the user's text as it is: its `FROM configs AS final` finds that image

Build it as a build of its own, before the user's and in the same store: a base that is built instead of pulled. Then
no ignore rule of the user hides the files, no `COPY .` of theirs takes them along, and their text stays the first of
its file, with its directives. (The text may also stand before theirs in one file. It ends with a line break and
takes nothing but `FOLDER` from the context; but then that folder must get past the ignore rules.)

What the stage needs of the base image: nothing for files, and for units that the MachineConfigs bring and enable;
`/bin/sh` and coreutils for all else; systemctl to enable units of the base; rpm with rpm-ostree or dnf for packages.

What upstream's stage has and this has not, because it would make images that are equal differ, or does nothing:
- Labels with the names of the MachineConfig and the pool, and `/etc/machine-config-daemon/currentconfig`: a name is no
  content, and the daemon writes that file itself. The base image is recorded with the image's inputs.
- `ostree container commit` after every step: it drops what a step left in `/var`, which only packages do here.
- The cluster's trust bundle: it is not in Git.

Belongs here: which instructions, in which order. Does not belong here: what is in the layer (`render`), the text of
package steps (`stage_packages`), building it.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.core.machineconfig import paths, units
from reconciler.core.machineconfig.layer import Entry, Kind, Layer
from reconciler.core.machineconfig.stage_packages import package_steps, wants_packages
from reconciler.core.machineconfig.stage_shell import quoted, run

FOLDER: Final = ".machineconfig"
"""All that a stage takes from its build context lies here."""
NAME: Final = "configs"
"""The stage's name, which a user's text builds on."""

_ARCHIVE: Final = f"{FOLDER}/files.tar"
_BEFORE: Final = (
    "refuse() { printf 'machineconfig: %s is in the base image already, as something else;"
    ' give it overwrite: true\\n\' "$1" >&2; exit 1; }',
    'unmask() { if [ "$(readlink "$1" || :)" = /dev/null ]; then rm -f -- "$1"; fi; }',
    'settle() { if [ -L "$1" ] && [ ! -d "$1" ]; then mkdir -p -- "$2"; fi; }',
    'folder() { if [ -L "$1" ] || { [ -e "$1" ] && [ ! -d "$1" ]; }; then refuse "$1"; fi; mkdir -p -- "$1"; }',
    'free() { if [ -e "$1" ] || [ -L "$1" ]; then refuse "$1"; fi; }',
    'link() { if [ ! -L "$1" ] || [ "$(readlink "$1")" != "$2" ]; then free "$1"; fi; }',
)
_UNITS: Final = (
    'found() { for name in "$@"; do for folder in /etc /usr/local/lib /usr/lib /lib; do'
    ' place="$folder/systemd/system/$name";'
    ' if [ -e "$place" ] || [ -L "$place" ]; then return 0; fi; done; done; return 1; }',
    'turn() { verb=$1; shift; if found "$@"; then systemctl "$verb" "$1";'
    ' else printf \'machineconfig: there is no unit %s to %s\\n\' "$1" "$verb" >&2; fi; }',
)


@dataclass(frozen=True, slots=True)
class ContextFile:
    """One file of the context: its path in it (`FOLDER`/…), and what is in it."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Stage:
    """Containerfile text of one stage named `NAME`, ending with a line break, and the files that it takes."""

    text: str
    files: tuple[ContextFile, ...] = ()


def wants_extensions(layer: Layer) -> bool:
    """Whether the stage uses an extensions image when it is given one, so that it has to be resolved and pulled."""
    return wants_packages(layer)


def stage(layer: Layer, base: str, extensions_image: str | None) -> Stage:
    """The stage for one pool and the architecture that the layer was rendered for.

    `base` and `extensions_image` are written as given: names under which the build finds them. Without an extensions
    image, packages come from the repositories that the base image and the layer name. The same layer and names give
    the same bytes.

    Files come before packages, as upstream has it (a repository or a proxy may be among them), and once more after
    them, so that no package's own file stays in the place of one of the layer. Owners that are names, and units, come
    last: packages bring users and units too.
    """
    archive = _archive(layer.entries)
    add = [f"ADD {_ARCHIVE} /\n"] if archive else []
    packages = package_steps(layer, extensions_image)
    steps = [
        *run(_BEFORE, _before(layer)),
        *add,
        *packages,
        *(add if packages else ()),
        *run((), _owners(layer.entries)),
        *run(_UNITS, _units(layer)),
    ]
    files = (ContextFile(_ARCHIVE, archive),) if archive else ()
    return Stage(f"FROM {base} AS {NAME}\n{''.join(steps)}", files)


def _before(layer: Layer) -> Iterator[str]:
    """What is made ready in the base before files come. Folders are made here: in an archive one would set the mode of
    a folder that is there, or take the place of a link."""
    for path in layer.removals:
        yield f"rm -rf -- {quoted(path)}"
    for path in layer.unmasked:
        yield f"unmask {quoted(path)}"
    doubts = {paths.doubt_of(entry.path) for entry in layer.entries} - {("", "")}
    for root, target in sorted(doubts):
        yield f"settle {quoted(root)} {quoted(target)}"
    for entry in layer.entries:
        if entry.kind is Kind.DIRECTORY:
            yield f"folder {quoted(entry.path)}"
        elif entry.kind is Kind.SYMLINK and not entry.path.startswith(f"{units.FOLDER}/"):
            # Ignition takes nothing's place with a link. Units' links replace what is there, as masks have to.
            yield f"link {quoted(entry.path)} {quoted(entry.target)}"
        elif entry.kind is Kind.HARDLINK:
            yield f"free {quoted(entry.path)}"


def _archive(entries: Iterable[Entry]) -> bytes:
    """Files and links as a tar archive, which ADD unpacks by itself: no program of the base image is needed, modes and
    owners are exact, and folders that are missing become root's with 0755. b'' if there are none."""
    wanted = [entry for entry in entries if entry.kind is not Kind.DIRECTORY]
    if not wanted:
        return b""
    files = {entry.path: entry for entry in wanted if entry.kind is Kind.FILE}
    packed: list[bytes] = []
    # Hard links come last: each needs its file to be there.
    for entry in sorted(wanted, key=lambda entry: entry.kind is Kind.HARDLINK):
        # A hard link is one more name of its file: it must say the same of it.
        same = files[entry.target] if entry.kind is Kind.HARDLINK else entry
        info = tarfile.TarInfo(entry.path[1:])
        info.mode = 0o777 if same.mode is None else same.mode
        info.uid, info.gid = _number(same.user), _number(same.group)
        info.size = len(entry.content)
        if entry.kind is Kind.SYMLINK:
            info.type, info.linkname = tarfile.SYMTYPE, entry.target
        elif entry.kind is Kind.HARDLINK:
            info.type, info.linkname = tarfile.LNKTYPE, entry.target[1:]
        header = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
        packed += [header, entry.content, bytes(-len(entry.content) % tarfile.BLOCKSIZE)]
    return b"".join([*packed, bytes(2 * tarfile.BLOCKSIZE)])


def _owners(entries: Iterable[Entry]) -> Iterator[str]:
    """Owners that are names, which only the image itself can look up; and all that is said of folders."""
    for entry in entries:
        given = entry.kind is Kind.DIRECTORY and (entry.user or entry.group)
        if given or _named(entry.user) or _named(entry.group):
            owner = (entry.user or "") + (f":{entry.group}" if entry.group else "")
            yield f"chown -h {owner} {quoted(entry.path)}"
        if entry.kind is Kind.DIRECTORY and entry.mode is not None:
            # Five digits: with fewer, chmod leaves a folder the special bits that it has.
            yield f"chmod {entry.mode:05o} {quoted(entry.path)}"


def _named(owner: str | None) -> bool:
    return bool(owner) and not str(owner).isdecimal()


def _number(owner: str | None) -> int:
    return int(owner) if owner and not _named(owner) else 0


def _units(layer: Layer) -> Iterator[str]:
    for verb, names in (("enable", layer.enabled), ("disable", layer.disabled)):
        for name in names:
            prefix, at, rest = name.partition("@")
            template = [quoted(f"{prefix}@.{rest.rpartition('.')[2]}")] if at else []
            yield " ".join(("turn", verb, quoted(name), *template))
