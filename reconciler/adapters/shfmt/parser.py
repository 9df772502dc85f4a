"""Syntax trees of shell texts, by shfmt (package shfmt-py).

Belongs here: running the program within bounds. Does not belong here: reading the tree (`core.shell.reader`).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final

from reconciler import process
from reconciler.core.shell import Dialect, bounded
from reconciler.errors import ToolMissing

_LANGUAGES: Final = {Dialect.SH: "posix", Dialect.BASH: "bash"}
_PACKAGE: Final = "shfmt-py"
_SECONDS: Final = 20.0
_MAX_OUTPUT: Final = 64 * 1024 * 1024
"""Bytes of a tree: about 400 for each of the text's, and more with depth."""


class ShfmtParser:
    """Implements `ports.ShellParser`.

    `program` is the path of shfmt; `keep` is how many answers stay in memory.
    """

    def __init__(self, program: Path, *, keep: int = 64) -> None:
        self._program = program
        self._keep = keep
        self._answers: OrderedDict[tuple[str, Dialect], object | None] = OrderedDict()

    def tree(self, text: str, dialect: Dialect) -> object | None:
        """The tree of a text, as JSON; None when shfmt refuses it, or it is beyond bounds. Raises ToolMissing."""
        key = (text, dialect)
        if key in self._answers:
            self._answers.move_to_end(key)
            return self._answers[key]
        found = self._parse(text, dialect) if bounded(text) else None
        self._answers[key] = found
        if len(self._answers) > self._keep:
            self._answers.popitem(last=False)
        return found

    def _parse(self, text: str, dialect: Dialect) -> object | None:
        argv = (str(self._program), "--to-json", "-ln", _LANGUAGES[dialect])
        output = self._output(argv, text.encode())
        if output is None:
            return None
        try:
            found: object = json.loads(output)
        except (ValueError, RecursionError):
            return None  # nested deeper than anybody reads
        return found

    def _output(self, argv: tuple[str, ...], source: bytes) -> bytes | None:
        """What the program prints; None when it fails, prints too much or takes too long."""
        child = process.start(argv, env={}, stdin=PIPE, stderr=DEVNULL)
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with process.deadline(child, _SECONDS):
                with suppress(BrokenPipeError):
                    child.stdin.write(source)  # fits into the pipe: `bounded` sees to it
                    child.stdin.close()
                output: bytes = child.stdout.read(_MAX_OUTPUT + 1)
                if len(output) > _MAX_OUTPUT:
                    return None
                return output if child.wait() == 0 else None
        finally:
            process.kill(child)


def edition() -> str:
    """Which parser this is: part of the engine's version, since another one may read a text otherwise.

    Raises ToolMissing.
    """
    try:
        return f"{_PACKAGE}-{version(_PACKAGE)}"
    except PackageNotFoundError as error:
        raise _missing() from error


def installed() -> Path:
    """Where pip put the program: no other shfmt will do, because digests depend on how it reads.

    Raises ToolMissing.
    """
    try:
        listed = files(_PACKAGE) or ()
    except PackageNotFoundError:
        listed = ()
    for one in listed:
        if one.name == "shfmt":
            return Path(str(one.locate())).resolve()
    raise _missing()


def _missing() -> ToolMissing:
    return ToolMissing(f"the package {_PACKAGE} is not installed", hint=f"pip install {_PACKAGE}")
