"""Names: which registry, which repository, and what each is called in a URL, an auth file and a message.

Belongs here: parsing and spelling names. Does not belong here: speaking to anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from reconciler.core.model import DIGEST, ImageRef
from reconciler.errors import RegistryError

_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")

_HUB: Final = "docker.io"
_HUB_API: Final = "registry-1.docker.io"
_HUB_NAMES: Final = frozenset({_HUB, _HUB_API, "index.docker.io"})


def canonical_host(host: str) -> str:
    """A registry's host in one spelling: lower case, and one name for all that Docker Hub is called."""
    lowered = host.lower()
    return _HUB if lowered in _HUB_NAMES else lowered


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A repository: the registry's host (with its port if one is given) and the path there."""

    host: str
    path: str

    @classmethod
    def parse(cls, repository: str) -> Self:
        """Read `host[:port]/path`.

        Docker Hub keeps names without a slash under `library/`. Raises RegistryError for anything else, so
        that nothing strange gets into a URL.
        """
        try:
            ref = ImageRef.parse(repository)
        except ValueError as error:
            raise RegistryError(str(error)) from error
        if str(ref) != f"{repository}:latest":
            raise RegistryError(f"{repository!r} is not the name of a repository without tag and digest")
        host, _, path = ref.repository.partition("/")
        host = canonical_host(host)
        if host == _HUB and "/" not in path:
            path = f"library/{path}"
        return cls(host, path)

    @property
    def address(self) -> str:
        """The host that answers for this registry."""
        return _HUB_API if self.host == _HUB else self.host

    def at(self, reference: str) -> str:
        """The full image reference, for messages."""
        return f"{self}@{reference}" if is_digest(reference) else f"{self}:{reference}"

    def scope(self, actions: str) -> str:
        """The token scope for `actions` (`pull` or `pull,push`) here."""
        return f"repository:{self.path}:{actions}"

    def __str__(self) -> str:
        return f"{self.host}/{self.path}"


def is_digest(reference: str) -> bool:
    """Whether a reference is a sha256 digest; no other algorithm is spoken here."""
    return DIGEST.fullmatch(reference) is not None


def checked_reference(reference: str) -> str:
    """The reference itself. Raises RegistryError when it is neither a tag nor a sha256 digest."""
    if is_digest(reference) or _TAG.fullmatch(reference):
        return reference
    raise RegistryError(f"{reference!r} is neither a tag nor a sha256 digest")
