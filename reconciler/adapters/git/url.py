"""Addresses of remote repositories: which are accepted, and how git gets them without their credentials.

Belongs here: parsing an address that the operator configured.
Does not belong here: talking to it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, Self
from urllib.parse import SplitResult, unquote, urlsplit

from reconciler.adapters.git.failures import mask
from reconciler.errors import GitError

_HINT: Final = "use https://host/path, ssh://user@host/path, user@host:path, file:///path or an absolute path"
# Neither a user nor a host may start with a dash: ssh would take it for an option.
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*")
# A second @ or a protocol's name means that somebody wrote a URL and left something out.
_SCP: Final = re.compile(
    r"(?!(?:https?|ssh|git|file):)"
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*@)?(?:[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])"
    r":[^-:\s@][^\s@]*"
)
_UNPRINTABLE: Final = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote repository: `address` as git gets it, `protocol` as `GIT_ALLOW_PROTOCOL` names it.

    User and password of an https address are not part of `address`, which everybody on the machine could
    read in the list of processes. They travel in git's environment instead.
    """

    address: str
    protocol: str
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read https, ssh, scp form (`user@host:path`), file and absolute paths; http only for the loopback.

        Raises GitError for anything else, without repeating credentials.
        """
        if text.startswith("/") and not re.search(r"[\x00-\x1f\x7f]", text):
            return cls(text, "file")
        if _UNPRINTABLE.search(text):
            raise _refused(text, "it contains white space or control characters")
        if "://" in text:
            return cls._from_url(text)
        if _SCP.fullmatch(text):
            return cls(text, "ssh")
        raise _refused(text, "it is neither a URL, nor user@host:path, nor an absolute path")

    @classmethod
    def _from_url(cls, text: str) -> Self:
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise _refused(text, "its host or port cannot be read") from error
        if parts.query or parts.fragment or "?" in text or "#" in text:
            raise _refused(text, "it has a query or a fragment")
        if parts.scheme == "file":
            if parts.netloc or not parts.path.startswith("/"):
                raise _refused(text, "a file address has three slashes and an absolute path")
            return cls(text, "file")
        if not _HOST.fullmatch(host):
            raise _refused(text, "it has no valid host name")
        if not parts.path.strip("/"):
            raise _refused(text, "it names a server but no repository")
        if parts.scheme == "ssh":
            return cls._from_ssh(text, parts)
        if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host)):
            where = f"[{host}]" if ":" in host else host
            address = f"{parts.scheme}://{where}{'' if port is None else f':{port}'}{parts.path}"
            return cls(address, parts.scheme, unquote(parts.username or ""), unquote(parts.password or ""))
        if parts.scheme == "http":
            raise _refused(text, "http is not encrypted and accepted for this machine only")
        raise _refused(text, f"{parts.scheme!r} is not a supported protocol")

    @classmethod
    def _from_ssh(cls, text: str, parts: SplitResult) -> Self:
        if parts.password is not None:
            raise _refused(text, "ssh takes no password; use a key")
        if parts.username is not None and not _USER.fullmatch(parts.username):
            raise _refused(text, "it has no valid user name")
        return cls(text, "ssh")

    @property
    def is_local(self) -> bool:
        """Whether the repository lies on this machine, so that git starts its server side itself."""
        return self.protocol == "file"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never show in a message."""
        if not self.user and not self.password:
            return ()
        return (self.password or self.user, self._basic)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that give git the credentials, for this address and no other."""
        if not self.user and not self.password:
            return {}
        return {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"http.{self.address}.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Basic {self._basic}",
        }

    @property
    def _basic(self) -> str:
        return b64encode(f"{self.user}:{self.password}".encode()).decode()

    def __str__(self) -> str:
        return mask(self.address)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refused(text: str, reason: str) -> GitError:
    # An address that could not be parsed may hold a password anywhere before its last @.
    shown = text if "@" not in text else "***@" + text.rsplit("@", 1)[1]
    return GitError(f"{shown!r} is not an address of a Git repository: {reason}", hint=_HINT)
