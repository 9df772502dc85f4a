"""Credentials from the files that docker, podman and Kubernetes keep them in.

Belongs here: reading such a file and finding the entry for a repository. Does not belong here: sending
credentials.

The formats are described in containers-auth.json(5), docker's `config.json` and Kubernetes' secret types
`kubernetes.io/dockerconfigjson` and (for a file called `.dockercfg`) `kubernetes.io/dockercfg`. Credential
helpers are programs of the file's author; they are never run.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reconciler.adapters.registry.place import Place, canonical_host
from reconciler.adapters.registry.problems import Refusal
from reconciler.redaction import Redactor

_LIMIT: Final = 1024 * 1024
_HALF: Final = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can escape and no encoding has: it cannot be sent."""
_NO_HELPERS: Final = "use a file that holds the credentials themselves, as podman login --authfile writes it"


@dataclass(frozen=True, slots=True)
class Credential:
    """What to log in with, and the `key` it was found under. Its secrets never show in a repr."""

    key: str
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class _Content:
    """One reading of the file, keys in canonical spelling."""

    entries: Mapping[str, object] = field(default_factory=dict, repr=False)
    helpers: Mapping[str, object] = field(default_factory=dict)
    store: str = ""


class AuthFile:
    """An auth file, read again whenever it has changed. No file at all knows nobody."""

    def __init__(self, path: Path | None, redactor: Redactor | None = None) -> None:
        self._path = path
        self._redactor = redactor or Redactor()
        self._read: tuple[object, _Content] = (None, _Content())

    def find(self, place: Place) -> Credential | None:
        """The credential with the longest matching key: the repository, a parent of it, or the host.

        Raises Refusal when the file cannot be read, or leaves the answer to a credential helper.
        """
        content = self._content()
        for key in _candidates(place):
            if key in content.helpers:
                raise self._delegated(place, str(content.helpers[key]))
            if key not in content.entries:
                continue
            found = self._credential(key, content.entries[key])
            if found is None and content.store:
                raise self._delegated(place, content.store)
            if found is not None:
                self._redactor.add(found.password, found.identity_token)
                return found
        return None

    def hint(self, place: Place) -> str:
        """Where was looked for credentials for a place, and what to do when it was in vain."""
        if self._path is None:
            return "no auth file is configured: name one as registry.authFile"
        if not self._path.exists():
            return f"the auth file {self._path} does not exist"
        found = self.find(place)
        if found is None:
            return f"{self._path} has no credentials for {place} nor for {place.host}"
        return (
            f"the credentials under {found.key!r} in {self._path} were used; check them and what they may do"
        )

    def _content(self) -> _Content:
        if self._path is None:
            return _Content()
        try:
            state = self._path.stat()
            # Kubernetes swaps a link to change a mounted secret: then the inode is another.
            version = (state.st_mtime_ns, state.st_size, state.st_ino)
            if self._read[0] != version:
                with self._path.open("rb") as file:
                    self._read = (version, self._parsed(file.read(_LIMIT + 1)))
        except FileNotFoundError:
            return _Content()
        except OSError as error:
            raise Refusal(f"the auth file {self._path} cannot be read: {error.strerror}") from error
        return self._read[1]

    def _parsed(self, data: bytes) -> _Content:
        try:
            document = json.loads(data) if len(data) <= _LIMIT else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise Refusal(f"the auth file {self._path} is not a JSON object of at most {_LIMIT} bytes")
        if self._path is not None and self._path.name == ".dockercfg":
            document = {"auths": document}
        store = document.get("credsStore")
        return _Content(
            entries=_canonical(self._mapping(document, "auths")),
            helpers=_canonical(self._mapping(document, "credHelpers")),
            store=store if isinstance(store, str) else "",
        )

    def _mapping(self, document: Mapping[str, object], name: str) -> Mapping[str, object]:
        value = document.get(name) or {}
        if not isinstance(value, dict):
            raise Refusal(f"{name!r} in the auth file {self._path} is not an object")
        return value

    def _credential(self, key: str, entry: object) -> Credential | None:
        """The entry's credential; None when it is empty, as docker leaves it when a store holds the
        secret."""
        if not isinstance(entry, dict):
            raise self._malformed(key)
        words = {name: entry.get(name) or "" for name in ("auth", "username", "password", "identitytoken")}
        if not all(isinstance(word, str) and not _HALF.search(word) for word in words.values()):
            raise self._malformed(key)
        username, password = words["username"], words["password"]
        if words["auth"]:
            username, password = self._decoded(key, words["auth"])
        if words["identitytoken"]:
            return Credential(key, username=username, identity_token=words["identitytoken"])
        return Credential(key, username=username, password=password) if username else None

    def _decoded(self, key: str, auth: str) -> tuple[str, str]:
        try:
            plain = base64.b64decode(auth, validate=True).decode("utf-8")
        except ValueError:
            # Not chained: a UnicodeDecodeError carries the bytes it failed on.
            raise self._malformed(key) from None
        username, colon, password = plain.partition(":")
        if not colon:
            raise self._malformed(key)
        # docker pads short passwords with NUL bytes.
        return username, password.strip("\0")

    def _malformed(self, key: str) -> Refusal:
        return Refusal(
            f"the entry {key!r} in the auth file {self._path} is malformed",
            hint="it needs 'auth' (base64 of user:password), 'username' and 'password', or 'identitytoken'",
        )

    def _delegated(self, place: Place, helper: str) -> Refusal:
        return Refusal(
            f"the auth file {self._path} leaves credentials for {place.host} to the credential helper"
            f" {helper!r}, and helpers are not run",
            hint=_NO_HELPERS,
        )


def _candidates(place: Place) -> Iterator[str]:
    """Keys that can speak for a place, the most specific first."""
    parts = [place.host, *place.path.split("/")]
    for count in range(len(parts), 0, -1):
        yield "/".join(parts[:count])


def _canonical(mapping: Mapping[str, object]) -> dict[str, object]:
    """The mapping with canonical keys; where two keys come to the same, the one written canonically wins."""
    loose = {_key(key): value for key, value in mapping.items()}
    return loose | {key: value for key, value in mapping.items() if _key(key) == key}


def _key(written: str) -> str:
    """A key as docker or podman wrote it, as `host` or `host/prefix`.

    A key that is a URL means its whole host, as `https://index.docker.io/v1/` does.
    """
    bare = written.removeprefix("https://").removeprefix("http://")
    host, _, path = bare.strip("/").partition("/")
    host = canonical_host(host)
    is_url = bare != written or (host == "docker.io" and path in ("v1", "v2"))
    return f"{host}/{path}" if path and not is_url else host
