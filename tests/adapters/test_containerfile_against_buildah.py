"""Our reading of Containerfiles and ignore files, held against the real buildah (1.28 or later).

What buildah 1.28 reads otherwise than the default profile is left out here; the unit tests hold it as `dialect`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.model import Arch
from reconciler.errors import InvalidInput
from reconciler.process import run
from tests.unit.containerfile.samples import NOTHING, Files, Link, Program, names, recipe

pytestmark = pytest.mark.tools


@dataclass(frozen=True)
class Buildah:
    """buildah with a store of its own."""

    root: Path

    def _run(self, *arguments: str) -> bytes | None:
        store = ["--root", f"{self.root}/root", "--runroot", f"{self.root}/run", "--storage-driver", "vfs"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root), "TMPDIR": str(self.root)}
        done = run(["buildah", *store, *arguments], env=environment, timeout=60)
        return done.stdout if done.status == 0 else None

    def _build(self, text: str, files: Files, arch: Arch, *options: str) -> Path | None:
        """Build in a new folder, so that nothing is left over, and give it; None when buildah refuses."""
        here = self.root / f"build-{len(list(self.root.iterdir()))}"
        (here / "context").mkdir(parents=True)
        for path, content in files.items():
            target = here / "context" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Link):
                target.symlink_to(content.target)
            else:
                told, mode = (content.content, 0o755) if isinstance(content, Program) else (content, 0o644)
                target.write_bytes(told.encode())
                target.chmod(mode)
        (here / "Containerfile").write_bytes(text.encode())
        common = [
            "-q",
            "--isolation",
            "chroot",
            "--timestamp",
            "0",
            "--layers=false",
            "--platform",
            arch.platform,
        ]
        source = ["--iidfile", f"{here}/id", "-f", f"{here}/Containerfile", f"{here}/context"]
        return (
            None
            if self._run("bud", *common, *(f"{one}={here}/out" for one in options), *source) is None
            else here
        )

    def config(self, text: str, files: Files = NOTHING, arch: Arch = Arch.ARM64) -> dict[str, Any] | None:
        """The configuration of the image that the text builds, in the form of `same_form`."""
        here = self._build(text, files, arch)
        if here is None:
            return None
        inspected = self._run("inspect", "--type", "image", (here / "id").read_text())
        assert inspected is not None
        return same_form(json.loads(inspected)["OCIv1"]["config"])

    def files(self, text: str, files: Files) -> dict[str, str | Link] | None:
        """The files of the image that the text builds, by path."""
        here = self._build(text, files, Arch.ARM64, "--output=type=local,dest")
        return None if here is None else _files(here / "out")


def _files(root: Path) -> dict[str, str | Link]:
    found: dict[str, str | Link] = {}
    for path in root.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(root))] = Link(str(path.readlink()))
        elif path.is_file():
            found[str(path.relative_to(root))] = path.read_bytes().decode()
    return found


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Buildah:
    return Buildah(tmp_path_factory.mktemp("buildah"))


def ours(text: str, files: Files = NOTHING, arch: Arch = Arch.ARM64) -> Any:
    """The recipe, or None when it is refused."""
    try:
        return recipe(text, files, arch)
    except InvalidInput:
        return None


def same_form(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as maps and sorted sets, empty parts left out, without buildah's own label."""
    found = dict(config)
    found["Labels"] = {
        key: value for key, value in found.get("Labels", {}).items() if key != "io.buildah.version"
    }
    if isinstance(found.get("Env"), list):
        found["Env"] = dict(item.split("=", 1) for item in found["Env"])
    for key in ("ExposedPorts", "Volumes"):
        found[key] = sorted(found.get(key, ()))
    return {key: value for key, value in found.items() if value}


FILES: Files = {
    **names(
        "a", "b.txt", "dir/x", "dir/sub/y", "dir/sub/z.md", "d2/keep", "d2/q/keep", "sp ace", ".hid", "c++"
    ),
    "la": Link("a"),
    "ld": Link("dir"),
    "l2": Link("ld/sub"),
    "d2/up": Link("../dir"),
}
COPIES = """COPY . /x/
COPY ../a /x
COPY /../../dir /x
COPY ./dir/./sub/../x /x
COPY dir/ /x
COPY $E /x/
COPY a dir /x/
COPY a nope* /x/
COPY a nope /x/
COPY nope /x
COPY nope* /x/
COPY a[ /x/
COPY [!b]* /x/
COPY [^b]* /x/
COPY [a-c]* /x/
COPY *.txt dir/*/*.md /x/
COPY ["sp ace","/x/"]
COPY d* /x/
COPY * /x/
COPY .* /x/
COPY ld /x
COPY la /x
COPY l2 /x/
COPY ld/x /x
COPY ld/sub/y /x/
COPY ld/* /x/
COPY d2 /x
COPY d2/up /x/
COPY d2/up/x /x
ADD a dir /x/
COPY http://q.io/f /x/""".splitlines()
IGNORES = [
    ("COPY dir /x/", "dir/sub"),
    ("COPY dir /x/", "dir"),
    ("COPY . /x/", "*"),
    ("COPY . /x/", "*\n!dir/sub"),
    ("COPY dir /x/", "*\n!dir/sub"),
    ("COPY dir/sub /x/", "*\n!dir/sub/y"),
    ("COPY dir/* /x/", "*\n!dir/sub/y"),
    ("COPY dir/sub /x/", "**/y\n**/*.md"),
    ("COPY a b.txt /x/", "a"),
    ("COPY * /x/", "a\ndir"),
    ("COPY ld /x/", "dir/x"),
    ("COPY ld /x/", "ld"),
    ("COPY ld /x/", "dir"),
    ("COPY la /x/", "a"),
    ("COPY . /x/", "*\n!**/keep"),
    ("COPY . /x/", "*\n!d2/**/keep"),
    ("COPY . /x/", "*\n!d2/**"),
    ("COPY . /x/", "d2\n!d2/q/keep"),
    ("COPY . /x/", "d2/*\n!d2/q"),
    ("COPY . /x/", " /a\n/b.txt\n dir/x "),
    ("COPY . /x/", "# a\n#b\n\n a"),
    ("COPY . /x/", "./dir/../a"),
    ("COPY . /x/", "!a\na"),
    ("COPY . /x/", "a\n!a"),
    ("COPY . /x/", "**\n!dir/x"),
    ("COPY . /x/", "*/*/y"),
    ("COPY . /x/", "*.txt\r\ndir\r\n"),
    ("COPY . /x/", "[^a]"),
    ("COPY . /x/", "c\\+\\+"),
    ("COPY . /x/", "**/x/**"),
    ("COPY . /x/", "**dir"),
    ("COPY . /x/", "dir**"),
    ("COPY . /x/", "a["),
    ("COPY . /x/", "!"),
    ("COPY d2 /x/", "d2\n!d2/*/keep"),
    ("COPY . /x/", "*\n!*/q/keep"),
    ("COPY . /x/", "."),
    ("COPY . /x/", "/"),
    ("COPY nope* a /x/", "a"),
]


@pytest.mark.parametrize(("line", "ignore"), [(line, "") for line in COPIES] + IGNORES)
def test_copies_take_what_buildah_takes(buildah: Buildah, line: str, ignore: str) -> None:
    files = {**FILES, ".containerignore": ignore} if ignore else FILES
    text = f"FROM scratch\nENV E=\n{line}\n"
    built, found = buildah.files(text, files), ours(text, files)
    assert (built is None) == (found is None)
    if built is not None:
        taken = {files[entry.path] for entry in found.context}
        assert {content for content in built.values() if isinstance(content, str)} == {
            content for content in taken if isinstance(content, str)
        }
        assert {content for content in built.values() if isinstance(content, Link)} <= taken


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ([".containerignore", ".dockerignore"], ".containerignore"),
        ([".dockerignore"], ".dockerignore"),
    ],
)
def test_one_ignore_file_counts(buildah: Buildah, files: list[str], name: str) -> None:
    """Each ignore file hides the file that has its name without the dot."""
    everything = {**names("containerignore", "dockerignore"), **{file: file[1:] for file in files}}
    built = buildah.files("FROM scratch\nCOPY *ignore /x/\n", everything)
    assert built is not None
    hidden = {"containerignore", "dockerignore"} - {path.removeprefix("x/") for path in built}
    assert hidden == {name[1:]}


HEAD = """ARG G=g
ARG GG=${G}2
FROM scratch
ARG TARGETARCH
ARG TARGETVARIANT
ARG G
ARG GG
ARG S=$G-$TARGETARCH
ARG AA=1 BB=${AA}
ENV A=1 B=two E= C=$A
ENV D=$A A=3 F=$A
ENV old style $A value
ENV Q='single $A' R="dq $A"
ARG A=arg
"""
WORDS = r"""$A
${A}
'$A'
"$A"
\$A
"\$A"
$A$B
${A}x$Bx
${U:-d}
${A:-d}
${U:+d}
${A:+d}
${U:-$A}
${U:-${A}z}
${E:-e}
${E:+e}
$1
$12
$
$$
${}
a\\b
'a\b'
"a\b"
"a\"b"
$A_
"$A"'$A'$A
$TARGETARCH
$BUILDARCH
$TARGETVARIANT
$PATH
${A:-\}}
{$A}
$A:$B
$G
$H
$S
$GG
$BB
$C
$D
$F
$old
$Q
$R
a#b
#x
$(x)
`x`
~
x\ y
'x y'
${U:-'a b'}""".splitlines()


@pytest.mark.parametrize("arch", [Arch.AMD64, Arch.ARM64])
def test_variables_have_the_values_that_buildah_gives_them(buildah: Buildah, arch: Arch) -> None:
    text = HEAD + "".join(f"LABEL l{place}={word}\n" for place, word in enumerate(WORDS))
    built = buildah.config(text, arch=arch)
    assert built is not None
    assert same_form(ours(text, arch=arch).canonical[-1]["config"]) == built


BODIES = r"""EXPOSE 80 90/udp 80/tcp
ENV P='1 2' Q=3⏎EXPOSE $P "$Q" 5-7/udp
EXPOSE a/b/c
EXPOSE $X
VOLUME ["/a b"," /c "]
VOLUME /a "/b c"
VOLUME []
USER a b
USER $X
WORKDIR a⏎WORKDIR b/../c
WORKDIR /⏎WORKDIR x
WORKDIR $X
STOPSIGNAL sigterm
STOPSIGNAL 0
STOPSIGNAL SIGFOO
STOPSIGNAL RTMIN+3
CMD a b
CMD []
CMD
CMD ["a","b"] x
CMD ["a",1]
CMD [a]
ENTRYPOINT x
CMD a⏎ENTRYPOINT b
ENTRYPOINT b⏎CMD a
ENTRYPOINT
ENTRYPOINT []
LABEL
LABEL a
LABEL a b c
LABEL a=b c
LABEL "a b"=c
LABEL a='b
ENV a=1 b
HEALTHCHECK NONE
HEALTHCHECK CMD
HEALTHCHECK --interval=5s --retries=2 CMD x
HEALTHCHECK --interval=5 CMD x
HEALTHCHECK --foo=0 CMD x
ONBUILD RUN x
ONBUILD FROM x
SHELL sh
SHELL ["sh"]
FOO
ARG TARGETPLATFORM=x
ARG TARGETARCH=foo⏎LABEL a=$TARGETARCH
COPY a
COPY --chmod=99 a /x
COPY --chmod=755 a /x
COPY --from= a /x
COPY --bogus a /x
ADD --from=x a /x
RUN --bogus x
LABEL a=${x-y}
LABEL a=${x+y}
LABEL a=${x:0:2}
LABEL a=${x^^}
LABEL a=${x
FROM
FROM scratch AS
FROM scratch AS a b
FROM scratch as a⏎LABEL x=y
\
\⏎LABEL a=b
LABEL a=b \⏎# comment⏎⏎  # indented\⏎ c=d
LABEL a=b\\
LABEL a=1 \
LABEL a='x\⏎y'
LABEL a=b # c=d
label A=b⏎LaBeL c=d
LABEL a=b\ ⏎ c=d
LABEL -- a=b""".splitlines()
WHOLE = r"""# escape=`⏎FROM scratch⏎LABEL a=b `⏎ c=d\
# syntax=x⏎# escape=`⏎FROM scratch⏎LABEL a=b `⏎ c=d
# escape=x⏎FROM scratch⏎LABEL a=b
# escape=`⏎# escape=`⏎FROM scratch⏎LABEL a=b
  # ESCAPE = ` foo⏎FROM scratch⏎LABEL a=b `⏎ c=d
# x
ARG A=scratch⏎FROM $A⏎LABEL a=b
ARG A⏎FROM $A⏎LABEL a=b
FROM scratch AS a⏎LABEL x=1⏎FROM a⏎LABEL y=2
FROM scratch AS a⏎ENV X=1⏎FROM a⏎ARG X=2⏎LABEL y=$X
FROM scratch AS a⏎CMD x⏎LABEL q=1⏎FROM a⏎ENTRYPOINT y
FROM scratch AS a⏎COPY a /f⏎FROM scratch⏎COPY --from=a /f /g
FROM scratch AS a⏎COPY a /f⏎FROM scratch⏎COPY --from=0 /f /g
FROM scratch AS a⏎COPY a /f⏎FROM scratch AS a⏎COPY b /f⏎FROM scratch⏎COPY --from=a /f /g
FROM scratch⏎COPY a /f⏎FROM 0⏎COPY b /g
FROM scratch AS a⏎COPY a /f⏎FROM 0⏎COPY b /g
FROM scratch⏎COPY --from=0 /f /g
FROM scratch AS unused⏎COPY nothere /x⏎FROM scratch⏎LABEL a=b
FROM scratch AS a⏎VOLUME /v⏎WORKDIR /w⏎USER u⏎EXPOSE 1⏎STOPSIGNAL 9⏎FROM a⏎EXPOSE 2⏎VOLUME /y⏎WORKDIR z""".splitlines()


@pytest.mark.parametrize("text", [f"FROM scratch⏎{body}⏎" for body in BODIES] + WHOLE)
def test_files_are_accepted_and_mean_what_buildah_says(buildah: Buildah, text: str) -> None:
    text, files = text.replace("⏎", "\n"), names("a", "b")
    built, found = buildah.config(text, files), ours(text, files)
    assert (built is None) == (found is None)
    if built is not None:
        assert same_form(found.canonical[-1]["config"]) == built


@pytest.mark.parametrize(
    "text",
    ["\ufeffFROM scratch\r\nLABEL a=b \\\r\n c=d\r\n", "\ufeff#escape=`\nFROM scratch\nLABEL a=b `\n c=d"],
)
def test_byte_order_marks_and_line_ends_are_read_as_buildah_reads_them(buildah: Buildah, text: str) -> None:
    built = buildah.config(text)
    assert built is not None
    assert same_form(ours(text).canonical[-1]["config"]) == built


def test_the_last_of_two_stages_with_one_name_counts(buildah: Buildah) -> None:
    text = "FROM scratch AS s\nCOPY a /f\nFROM scratch AS s\nCOPY b /f\nFROM scratch\nCOPY --from=s /f /g\n"
    built = buildah.files(text, names("a", "b"))
    assert built is not None
    assert built == {"g": "b"}
    assert [entry.path for entry in ours(text, names("a", "b")).context] == ["b"]
