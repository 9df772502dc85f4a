"""Random shell texts that branch on the architecture, and the real shells that run them."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from random import Random

from reconciler.core.model import Arch

VALUES = ("amd64", "arm64", "x86_64", "aarch64", "x")
WORDS = (
    '"$TARGETARCH"', "$TARGETARCH", "${TARGETARCH}", '"${TARGETARCH:-amd64}"', "\"$TARGETARCH\"''",
    '"$A"', "$A", '"$B"', "$B", '"$U"', "$U", '"${U:-x}"', '"${A:=x}"', '"${U:+$A}"',
    '"$(uname -m)"', "$(uname -m)", '"`uname -m`"', '"$(arch)"', '"$(dpkg --print-architecture)"',
    "$(apk --print-arch)",
    '"$(rpm --eval %_arch)"', '"$(echo amd64)"', "'amd64'", 'a"rm"64', '"x-$TARGETARCH"', "a*", "''",
)  # fmt: skip
PATTERNS = (
    "amd64",
    "arm64",
    "x86_64",
    "aarch64",
    "a*",
    "*64",
    "?md64",
    "*",
    '"amd64"',
    '"$A"',
    "$U",
    "[ax]*",
    "x-*",
)
ODD = (
    "f() { A=arm64; }; f", "eval A=arm64", "unset A", "IFS=6", "PATH=$PWD/other:$PATH", "alias true=false",
    "read A < in",
    'echo "$?" >> log', "readonly A", "trap 'echo t >> log' EXIT", "exec 2>> log", "set -x", "{ set -x; } 2>> log",
    "TARGETARCH=arm64 :", "A=arm64 true", "export TARGETARCH=arm64", "export A=$U", "printf 'a%n' A >> log",
    "uname() { echo x; }", "e'v'al A=arm64", ": ${TARGETARCH:=x}", ': "${B:=arm64}"', "set -o posix", "exit",
    "export A=$U TARGETARCH", "set -u", "set +e", "set -f", 'printf "$U" >> log', "test $U", "[ $U ]", "[ $A $U ]",
    "command -v uname > /dev/null", "wait", "cd .", "umask 022", "echo $((A=1)) >> log", "getopts a A",
)  # fmt: skip


class Writer:
    """Writes one random text."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.tokens = 0

    def text(self) -> str:
        """A text of a few statements."""
        lead = self.random.choice(("", "", "set -e; ", "set -eu; ", "A=amd64; ", "B=$(uname -m); "))
        return lead + self.list(3, self.random.randint(1, 5))

    def list(self, depth: int, count: int) -> str:
        """Statements after one another."""
        separator = self.random.choice(("; ", "; ", "\n", " ;  "))
        return separator.join(self.chain(depth) for _ in range(count))

    def chain(self, depth: int) -> str:
        """One to three statements joined by && and ||."""
        found = self.piece(depth)
        while self.random.random() < 0.3:
            found += self.random.choice((" && ", " || ")) + self.piece(depth)
        return found

    def word(self) -> str:
        """A word, of a known value more often than not."""
        return self.random.choice(WORDS if self.random.random() < 0.6 else VALUES)

    def test(self) -> str:
        """A command that is mostly there for its status."""
        a, b, c = self.word(), self.word(), self.word()
        value = self.random.choice(VALUES)
        return self.random.choice((
            f"[ {a} = {value} ]", f"[ {a} = {b} ]", f"[ {a} != {value} ]", f"test {a} = {b}", f"[ -n {a} ]",
            f"[ -z {a} ]", f"[ ! {a} = {b} ]", f"! [ {a} = {value} ]", f"[ {a} == {value} ]", f"[[ {a} == {value} ]]",
            f"[[ {a} != {value} ]]", f"[ {a} = {value} -o {b} = {c} ]", f"[ {a} = {value} -a {b} != {c} ]", "true",
            "false", ":", "[ -e yes ]", "[ -e no ]", f"[ {a} ]", "! true", "(exit 3)", f"[ {a} = {value} ] > out",
        ))  # fmt: skip

    def act(self) -> str:
        """A command that leaves a trace."""
        self.tokens += 1
        token, name = f"t{self.tokens}", self.random.choice("AB")
        return self.random.choice((
            f"echo {token} >> log", f"echo {token} >> log", f'echo {token} "$A" "$B" >> log', f"{name}={self.word()}",
            f"{name}={self.word()}", f"{name}={self.random.choice(VALUES)}", f"export {name}={self.word()}",
            f"{name}={self.word()} tool {token}", f"tool {token}", f"cat <<E >> log\n{token} $A\nE\n:",
            f"echo {token} $(echo {self.word()}) >> log", "exit 4", "exit 0", "set -e",
        ))  # fmt: skip

    def piece(self, depth: int) -> str:
        """One command, of any kind."""
        if depth == 0 or self.random.random() < 0.35:
            if self.random.random() < 0.012:
                return self.random.choice(ODD)
            return self.random.choice((self.act, self.act, self.test))()
        return self.random.choice((self.branch, self.branch, self.case, self.case, self.nest))(depth - 1)

    def branch(self, depth: int) -> str:
        """An `if`."""
        condition = self.test() if self.random.random() < 0.7 else self.chain(0)
        found = f"if {condition}; then {self.body(depth)}"
        if self.random.random() < 0.3:
            found += f"elif {self.test()}; then {self.body(depth)}"
        if self.random.random() < 0.5:
            found += f"else {self.body(depth)}"
        return f"{found}fi"

    def case(self, depth: int) -> str:
        """A `case`."""
        arms = []
        for _ in range(self.random.randint(1, 3)):
            pattern = "|".join(self.random.choice(PATTERNS) for _ in range(self.random.randint(1, 2)))
            arms.append(
                f"{pattern}) {self.body(depth) if self.random.random() < 0.9 else ''};;".replace(
                    ") ;;", ") ;;"
                )
            )
        return f"case {self.word()} in {' '.join(arms)} esac".replace("; ;;", " ;;").replace(";;;", ";;")

    def body(self, depth: int) -> str:
        """A short list, closed."""
        return self.list(depth, self.random.randint(1, 2)) + "\n"

    def nest(self, depth: int) -> str:
        """Everything that holds a list."""
        body, value = self.body(depth), self.random.choice(VALUES)
        return self.random.choice((
            f"{{ {body}}}", f"( {body})", f"{{ {body}}} >> log", f"for i in 1 2; do {body}done", f"! {{ {body}}}",
            f"echo a | {{ {body}}}", f"{{ {body}}} | cat >> log", f"A=$({body})", f"{{ {body}}} < in",
            f"{{ {body}}} < missing",
            f"for i in 1 2; do {body}break\ndone", f"for A in {value} x; do {body}done", f"{{ {body}}} & wait",
            f"while {self.test()}; do {body}break\ndone", f"until [ -e yes ]; do {body}done",
            f'echo "$({body})" >> log', f"{{ {body}}} 2> /dev/null", f"{{ {body}}} > out 2>&1",
        ))  # fmt: skip


@dataclass(frozen=True)
class World:
    """A folder with stand-ins for the probes and for one tool, and the shells that run in it."""

    folder: Path
    shells: tuple[tuple[str, ...], ...]

    @classmethod
    def make(cls, folder: Path) -> World:
        """Needs dash and bash."""
        for arch in Arch:
            for missing in ("", "-bare"):
                place = folder / f"bin-{arch}{missing}"
                place.mkdir(parents=True)
                for name in ("uname", "arch", "dpkg", "rpm", "apk"):
                    if name == "uname" or not missing:
                        _script(place / name, f"echo {arch.debian if name == 'dpkg' else arch.machine}")
                _script(place / "tool", 'echo "tool $1 ${A-} ${B-}" >> log')
                cat = shutil.which("cat")
                assert cat
                (place / "cat").symlink_to(cat)
        return cls(folder, (("dash",), ("bash", "--posix")))

    def run(
        self, shell: tuple[str, ...], text: str, arch: Arch, unknown: str, *, bare: bool
    ) -> tuple[object, ...]:
        """Everything that a text leaves behind: files, output, status."""
        place = self.folder / "work"
        shutil.rmtree(place, ignore_errors=True)
        (place / "other").mkdir(parents=True)
        (place / "yes").touch()
        (place / "in").write_text("arm64\n")
        _script(place / "other" / "uname", "echo s390x")
        program = shutil.which(shell[0])
        assert program
        path = self.folder / f"bin-{arch}{'-bare' if bare else ''}"
        env = {"PATH": str(path), "TARGETARCH": arch.value, "TARGETOS": "linux", "U": unknown}
        done = subprocess.run(
            ["sh", *shell[1:], "-c", text],
            executable=program, cwd=place, env=env, capture_output=True, timeout=20, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        files = {
            str(one.relative_to(place)): one.read_bytes() for one in sorted(place.rglob("*")) if one.is_file()
        }
        return done.returncode != 0, done.stdout, tuple(files.items())


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
