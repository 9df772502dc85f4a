"""Reading `WWW-Authenticate`: how a registry wants us to log in.

Belongs here: the header's grammar (RFC 9110, section 11.6.1). Does not belong here: answering the challenge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_LIMIT: Final = 8192
_PART: Final = re.compile(
    r"""(?P<name>[A-Za-z0-9_-]+)[ \t]*=[ \t]*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s,"]+))"""
    r"""|(?P<scheme>[A-Za-z0-9_-]+)"""
)


class Scheme(StrEnum):
    """The ways to log in that registries use."""

    BASIC = "basic"
    BEARER = "bearer"


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a registry asks for. `realm` is the token server's URL and `service` its name for the registry;
    both matter for Bearer only."""

    scheme: Scheme
    realm: str = ""
    service: str = ""


def parse_challenges(headers: Iterable[str]) -> Challenge | None:
    """The challenge to answer among those in all `WWW-Authenticate` headers; None when none is understood.

    Bearer wins over Basic: a registry that offers both gives a token less power than a password has.
    """
    found: dict[str, dict[str, str]] = {}
    for header in headers:
        parameters: dict[str, str] = {}
        for part in _PART.finditer(header[:_LIMIT]):
            if part["scheme"]:
                parameters = found.setdefault(part["scheme"].lower(), {})
            else:
                value = part["bare"] or re.sub(r"\\(.)", r"\1", part["quoted"] or "")
                parameters.setdefault(part["name"].lower(), value)
    bearer = found.get(Scheme.BEARER)
    if bearer and bearer.get("realm"):
        return Challenge(Scheme.BEARER, bearer["realm"], bearer.get("service", ""))
    return Challenge(Scheme.BASIC) if Scheme.BASIC in found else None
