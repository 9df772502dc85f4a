"""Short ways to evaluate shell texts in tests, with the real parser."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.adapters.shfmt import ShfmtParser, installed
from reconciler.core.model import Arch
from reconciler.core.shell import Dialect, Known, specialise

PARSER = ShfmtParser(installed(), keep=512)


def left(
    text: str,
    arch: Arch = Arch.AMD64,
    dialect: Dialect = Dialect.SH,
    *,
    probes: bool = True,
    traced: bool = False,
    more: Mapping[str, str] | None = None,
) -> str | None:
    """What is left of a text; None when it is kept whole."""
    variables = {"TARGETARCH": arch.value, "TARGETOS": "linux", **(more or {})}
    return specialise(PARSER.tree(text, dialect), text, Known(variables, arch, probes, dialect, traced))


def lines(text: str, arch: Arch = Arch.AMD64, dialect: Dialect = Dialect.SH) -> str | None:
    """The same on one line."""
    found = left(text, arch, dialect)
    return None if found is None else " ; ".join(found.split("\n"))
