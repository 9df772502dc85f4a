"""COPY and ADD: where files come from and where they go.

Belongs here: one `copy` or `add` operation. Does not belong here: which files a source matches (`context`).
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import Final

from reconciler.core.containerfile.bodies import heredoc_file
from reconciler.core.containerfile.context import SourceError, clean_source
from reconciler.core.containerfile.scope import WordScope
from reconciler.core.containerfile.stages import find
from reconciler.core.containerfile.state import StageState
from reconciler.core.containerfile.syntax import Instruction, Keyword
from reconciler.core.containerfile.values import (
    ExpansionError,
    Json,
    Text,
    encode,
    join,
    literal,
    plain,
    show,
)

_URL: Final = re.compile(r"https?://")
_GIT: Final = re.compile(r"\.git(?:#(.+))?$")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?::.*)?")
_OCTAL: Final = re.compile(r"[0-7]{1,10}")
_CHECKSUM: Final = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")

_SINCE: Final = {
    "--checksum": ((1, 33), "ADD --checksum"),
    "--exclude": ((1, 44), "--exclude"),
    "--link": ((1, 41), "--link"),
    "--parents": ((1, 40), "COPY --parents"),
}
_PLAIN: Final = frozenset(("op", "destination", "sources", "chown", "chmod"))
"""What a copy may consist of, so that the order of its files cannot show."""
_SINCE_FROM_VARIABLE: Final = (1, 37)
_SINCE_DOUBLE_STAR: Final = (1, 38)


@dataclass(slots=True)
class _Transfer:
    """One COPY or ADD while it is read."""

    state: StageState
    instruction: Instruction
    place: int
    scope: WordScope
    operation: dict[str, Json] = field(default_factory=dict)
    origin: str = ""
    parents: bool = False
    checksum: bool = False
    flags: list[str] = field(default_factory=list)
    """Flags and bodies as people see them."""
    bodies: list[str] = field(default_factory=list)

    def fault(self, message: str, hint: str) -> None:
        """Note a fault of this instruction."""
        self.state.notes.fault(self.instruction.line, message, hint)


def transfer(state: StageState, instruction: Instruction, place: int) -> None:
    """Add the operation of one COPY or ADD. `place` is its position in the stage's body."""
    one = _Transfer(state, instruction, place, state.scope(instruction))
    one.operation["op"] = instruction.keyword.lower()
    for flag in instruction.flags:
        _flag(one, flag)
    *sources, destination = (one.scope.expand(word) for word in instruction.words)
    one.operation["destination"] = encode(absolute(destination, state.workdir, one.scope))
    # Without regular sources the builder looks at no context, here-documents being all there is.
    regular = [text for text in sources if not (instruction.heredocs and show(text).startswith("<<"))]
    _heredocs(one)
    _sources(one, regular)
    state.operate(instruction, one.operation, [*sources, destination])
    shown = [*one.flags, *map(show, sources), show(destination)]
    state.step(instruction, " ".join(shown) + "".join(one.bodies))


def _flag(one: _Transfer, flag: str) -> None:
    name, _, word = flag.partition("=")
    text = one.scope.expand(word)
    value = plain(text)
    key = name.removeprefix("--")
    if name in _SINCE:
        since, what = _SINCE[name]
        one.state.notes.needs(since, one.instruction.line, what)
    if name in ("--link", "--parents"):
        on = word != "false"
        one.operation.pop(key, None)
        if on:
            one.operation[key] = "true"
        one.parents = on if name == "--parents" else one.parents
    elif name == "--from":
        one.origin = _origin(one, word)
        text = literal(one.origin)
    elif name == "--exclude":
        listed = one.operation.setdefault(key, [])
        if isinstance(listed, list):
            listed.append(encode(text))
    else:
        _check_value(one, name, value)
        one.checksum = one.checksum or name == "--checksum"
        octal = name == "--chmod" and value is not None and _OCTAL.fullmatch(value)
        one.operation[key] = f"{int(value or '', 8):o}" if octal else encode(text)
    one.flags.append(f"{name}={show(text)}" if word else name)


def _check_value(one: _Transfer, name: str, value: str | None) -> None:
    if value == "":
        one.fault(f"{one.instruction.keyword} {name} has no value", f"write {name}=…")
    elif value is not None and name == "--chmod" and not (_OCTAL.fullmatch(value) and int(value, 8) < 2**32):
        one.fault(f"--chmod={value} is not an octal number", "write --chmod=0755")
    elif name == "--checksum" and (value is None or not _CHECKSUM.fullmatch(value)):
        one.fault("ADD --checksum is not a digest", "write --checksum=sha256:…")


def _origin(one: _Transfer, word: str) -> str:
    """The stage or image of COPY --from. The builder reads its variables in three ways, which must agree."""
    state, line = one.state, one.instruction.line
    readings = {
        plain(one.scope.expand(word)),
        plain(state.variables.arguments(state.notes, line).expand(word)),
        state.stage.origins.get(one.place, ""),
    }
    name = readings.pop()
    if readings or not name or "=" in name:
        one.fault(
            f"cannot tell which stage or image --from={word} means",
            "declare the ARG in this stage before the COPY, and do not set it with ENV",
        )
        return name or "?"
    if "$" in word:
        state.notes.needs(_SINCE_FROM_VARIABLE, line, "a variable in COPY --from")
    earlier = state.build.stages[: state.stage.text.position]
    origin = state.origin(find(earlier, name, by_index=True), name, line)
    one.operation["from"] = origin
    return origin


def absolute(destination: Text, workdir: Text, scope: WordScope) -> Text:
    """A destination from the root, `/` at its end kept: it decides whether a file or a folder is meant."""
    known = plain(destination)
    if known is None:
        first = destination[0]
        if isinstance(first, str) and first.startswith("/"):
            return destination
        # Whether the unknown part starts with a slash is unknown too.
        return join([literal("?"), workdir, literal("/"), destination])
    folder = known == "." or known.endswith(("/", "/."))
    if not known.startswith("/"):
        start = plain(workdir)
        if start is None:
            inside = "/" + known if ".." in known.split("/") else clean_path(known)
            return join([workdir, literal(inside + "/" if folder and not inside.endswith("/") else inside)])
        known = f"{start}/{known}"
    scope.meter.spend(len(known))
    known = clean_path(known)
    return literal(known + "/" if folder and known != "/" else known)


def clean_path(path: str) -> str:
    """A path from the root without `.`, `..` and doubled slashes."""
    return "/" + posixpath.normpath("/" + path).lstrip("/")


def _heredocs(one: _Transfer) -> None:
    files: list[Json] = []
    for heredoc in one.instruction.heredocs:
        try:
            file = heredoc_file(heredoc, one.scope)
        except ExpansionError as error:
            one.fault(str(error), "quote the delimiter: <<'NAME'")
            continue
        files.append(file)
        text = file.get("text")
        one.bodies.append("\n" + text if isinstance(text, str) else heredoc.body)
    if files:
        one.operation["files"] = files


def _sources(one: _Transfer, sources: list[Text]) -> None:
    local: list[Text] = []
    remote: list[Json] = []
    for source in sources:
        if not _URL.match(show(source)):
            local.append(source)
            continue
        remote.append(encode(source))
        _check_remote(one, show(source))
    if remote:
        one.operation["urls"] = remote
    if not local:
        return
    if one.checksum:
        one.fault("ADD --checksum works for URLs only", "remove --checksum")
    if one.origin:
        one.operation["sources"] = [_canonical_source(one, source) for source in local]
    else:
        _from_context(one, local)


def _check_remote(one: _Transfer, url: str) -> None:
    if one.instruction.keyword is Keyword.COPY:
        one.fault("COPY does not take a URL", "use ADD --checksum=sha256:… URL")
        return
    git = _GIT.search(url)
    pinned = bool(git[1] and _COMMIT.fullmatch(git[1])) if git else one.checksum
    if not pinned:
        remedy = "name a full commit id after #" if git else "add --checksum=sha256:…"
        message = f"ADD {url[:200]} can bring something else at any time, which no plan can see"
        one.state.notes.warn(one.instruction.line, message, remedy)


def _canonical_source(one: _Transfer, source: Text) -> Json:
    known = plain(source)
    return encode(source) if known is None or one.parents else clean_source(known)


def _from_context(one: _Transfer, sources: list[Text]) -> None:
    build, line = one.state.build, one.instruction.line
    one.operation["sources"] = [_canonical_source(one, source) for source in sources]
    known = [plain(source) for source in sources]
    if any("**" in (text or "").split("/") for text in known):
        one.state.notes.needs(_SINCE_DOUBLE_STAR, line, "** in a source")
    try:
        if None in known:
            taken = build.context.take(["."])
        else:
            taken = build.context.take([clean_source(text or "") for text in known])
    except SourceError as error:
        one.fault(*map(str, error.args))
        return
    # A mode that is set replaces that of every file and folder; of an archive that ADD unpacks it shows nowhere.
    build.take(line, taken, bare=not isinstance(one.operation.get("chmod"), str))
    build.copies.append((one.operation, taken))
    if None not in known:
        _list_files(one, [clean_source(text or "") for text in known])


def _list_files(one: _Transfer, sources: list[str]) -> None:
    """Name the files themselves, in order, where nothing else can show: each becomes a file of its own name in the
    folder that is the destination, whatever pattern it was found by, and whichever comes first.

    Written twice under one name, the last counts. A destination without a slash may be a file that all are written to.
    Folders may overlap, ADD may unpack, and other flags give names another meaning.
    """
    operation = one.operation
    if operation["op"] != "copy" or not operation.keys() <= _PLAIN or "**" in "/".join(sources).split("/"):
        return
    destination = operation["destination"]
    if not isinstance(destination, str) or not destination.endswith("/"):
        return
    files = one.state.build.context.files(sources)
    if files is not None and len({posixpath.basename(path) for path in files}) == len(files):
        operation["sources"] = [*sorted(files)]
