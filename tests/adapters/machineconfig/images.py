"""A small base image with real programs, stages built on it by real buildah, and what they changed.

The programs are this machine's own, copied with their libraries: the shell, coreutils and systemctl. Belongs here:
building and looking. Does not belong here: what is expected.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.core.machineconfig.stage import Stage
from reconciler.process import Finished, run

TOOLS = ("sh", "rm", "mkdir", "chown", "chmod", "readlink", "cat", "grep", "sed")
PROGRAMS = (*TOOLS, "systemctl")
_LIMIT = 120.0
_LIBRARY = re.compile(r"(/\S+) \(0x")
_LETTER = {tarfile.DIRTYPE: "d", tarfile.REGTYPE: "-", tarfile.SYMTYPE: "l", tarfile.LNKTYPE: "-"}
_NOT_OURS = ("proc", "sys", "dev", "run", "etc/hosts", "etc/resolv.conf", "etc/hostname")
"""Where RUN itself leaves places to mount on, whatever it does."""


@dataclass(frozen=True, slots=True)
class Node:
    """One place of an image. `names` are all that one file has, sorted."""

    kind: str
    mode: int
    owner: str
    content: bytes = b""
    target: str = ""
    names: tuple[str, ...] = ()


class Images:
    """buildah with a store of its own, below a folder that is empty at first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._count = 0
        self._out = root / "tree.tar"
        (root / "tmp").mkdir()

    def buildah(self, *words: str) -> Finished:
        store = ["--root", f"{self.root}/root", "--runroot", f"{self.root}/run", "--storage-driver", "vfs"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root), "TMPDIR": str(self.root / "tmp")}
        return run(["buildah", *store, *words], env=environment, timeout=_LIMIT)

    def build(self, text: str, context: Path, *words: str) -> Finished:
        """As the builders do: nothing pulled, no cache, one time, no ignore rules."""
        ignore = self.root / "ignore"
        ignore.touch()
        file = self.root / "Containerfile"
        file.write_text(text)
        options = (
            "--isolation chroot --format oci --pull=never --layers=false --timestamp 0 --identity-label=false"
        )
        return self.buildah(
            "build", *options.split(), f"--ignorefile={ignore}", *words, f"--file={file}", str(context)
        )

    def base(self, name: str, tree: Iterable[tuple[str, Node]], programs: Iterable[str] = PROGRAMS) -> None:
        """An image of these places, parents first, and programs with their libraries. The last of a path counts."""
        context = self.root / name
        context.mkdir()
        with tarfile.open(context / "tree.tar", "w") as archive:
            for program in programs:
                _pack(archive, program)
            for path, node in tree:
                _put(archive, path, node)
        _must(self.build("FROM scratch\nADD tree.tar /\n", context, f"--tag=localhost/{name}"))

    def stage(self, stage: Stage) -> Finished:
        """Build a stage as an image, `configs`; `built` has then what is in it."""
        self._count += 1
        context = self.root / f"context-{self._count}"
        context.mkdir()
        for file in stage.files:
            place = context / file.path
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(file.content)
        return self.build(
            stage.text, context, "--tag=localhost/configs", f"--output=type=tar,dest={self._out}"
        )

    def built(self) -> dict[str, Node]:
        """The tree of the last stage."""
        return _read(self._out.read_bytes())

    def tree(self, image: str) -> dict[str, Node]:
        """All places of an image but those that RUN makes by itself."""
        _must(
            self.build(f"FROM localhost/{image}\n", self.root / "tmp", f"--output=type=tar,dest={self._out}")
        )
        return _read(self._out.read_bytes())


def _must(done: Finished) -> None:
    assert done.status == 0, done.complaint


def _pack(archive: tarfile.TarFile, program: str) -> None:
    source = shutil.which(program)
    assert source, f"{program} is needed"
    libraries = run(["ldd", source], env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, timeout=_LIMIT)
    for path in (f"/usr/bin/{program}", *_LIBRARY.findall(libraries.stdout.decode())):
        content = Path(source if path.endswith(f"/bin/{program}") else path).read_bytes()
        # A merged /usr, as every base has that MachineConfigs are for.
        _put(archive, re.sub(r"^/(lib|lib64)/", r"/usr/\1/", path), Node("-", 0o755, "0:0", content))


def _put(archive: tarfile.TarFile, path: str, node: Node) -> None:
    info = tarfile.TarInfo(path[1:])
    info.mode = node.mode
    info.uid, info.gid = map(int, node.owner.split(":"))
    info.size = len(node.content)
    info.linkname = node.target
    info.type = {"d": tarfile.DIRTYPE, "-": tarfile.REGTYPE, "l": tarfile.SYMTYPE}[node.kind]
    archive.addfile(info, io.BytesIO(node.content))


def _read(packed: bytes) -> dict[str, Node]:
    found: dict[str, Node] = {}
    links: dict[str, list[str]] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for info in archive:
            path = info.name.rstrip("/")
            if not path or any(path == own or path.startswith(f"{own}/") for own in _NOT_OURS):
                continue
            if info.islnk():
                links.setdefault(info.linkname, [info.linkname]).append(path)
                continue
            file = archive.extractfile(info) if info.isreg() else None
            # One systemd says /lib where another says /usr/lib, which is the same on every base with a merged /usr.
            target = re.sub("^/lib/", "/usr/lib/", info.linkname) if info.issym() else ""
            owner = f"{info.uid}:{info.gid}"
            found[path] = Node(_LETTER[info.type], info.mode, owner, file.read() if file else b"", target)
    for first, names in links.items():
        one = found[first]
        for name in names:
            shared = tuple(sorted(f"/{other}" for other in names))
            found[name] = Node(one.kind, one.mode, one.owner, one.content, one.target, shared)
    return {f"/{path}": node for path, node in found.items()}


def changes(before: Mapping[str, Node], after: Mapping[str, Node]) -> str:
    """What is new, other or gone, as text that people can review: one line a place, and its text below it."""
    lines: list[str] = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        if new is None:
            lines.append(f"gone {path}")
            continue
        target = f" -> {new.target}" if new.target else ""
        names = f" = {' '.join(name for name in new.names if name != path)}" if new.names else ""
        lines.append(f"{new.kind} {new.mode:04o} {new.owner} {path}{target}{names}")
        if old is None or old.content != new.content or old.kind != new.kind:
            lines += _text(new.content)
    return "".join(f"{line}\n" for line in lines)


def _text(content: bytes) -> list[str]:
    try:
        return [f"  |{line}" for line in content.decode().splitlines()]
    except UnicodeDecodeError:
        return [f"  {content!r}"]
