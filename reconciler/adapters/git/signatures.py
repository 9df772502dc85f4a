"""Whether a commit is signed by somebody who is trusted.

Belongs here: the folder of trusted keys, taking a commit apart into what was signed and the signature, and choosing who
checks it. Does not belong here: the check itself (`openpgp`, `sshsig`), and which commits must be signed.

`git verify-commit` is not used: it takes several signatures for one text, and which program judges them, with which
settings, is up to configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final

from reconciler.adapters.git import mounted
from reconciler.adapters.git.objects import GitObjects
from reconciler.adapters.git.openpgp import Keyring
from reconciler.adapters.git.runner import Runner
from reconciler.adapters.git.sshsig import Signers
from reconciler.errors import GitError

_WANTED: Final = "`*.asc` (armored OpenPGP public keys) or `*.sshpub` (SSH public keys)"
_OPENPGP: Final = ("PGP SIGNATURE", "PGP MESSAGE")
_SSH: Final = "SSH SIGNATURE"
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z ]+)-----\n.*\n-----END \1-----", re.DOTALL)


class GitSignatures:
    """Implements `ports.Signatures` for the commits of `objects`, with the keys in the folder `keys`.

    The folder is read at each call, so a key that is added or removed counts at once. `env` is what gpg and ssh-keygen
    find themselves by (PATH); they are needed only when a signature and a key of their kind meet. `timeout` is in
    seconds, for each call of theirs. May be used from any thread.
    """

    def __init__(self, objects: GitObjects, keys: Path, env: Mapping[str, str], timeout: float = 60) -> None:
        self._objects = objects
        self._folder = keys
        self._runner = Runner(env, timeout)
        self._lock = Lock()
        self._keyring: tuple[str, Keyring] | None = None

    def keys(self) -> str:
        """An id of the keys in the folder: a hash of their files. Raises GitError when there are none."""
        return _digest(self._read())

    def problem(self, commit: str) -> str:
        """Why a commit's signature does not count, to be read after the commit's name; '' when it does.

        Raises GitError when there is no such commit or no usable key, ToolMissing, Timeout.
        """
        files = self._read()
        payload, signatures = split(self._objects.commit_object(commit))
        if not signatures:
            return "is not signed"
        if len(signatures) > 1 or signatures[0].count(b"-----BEGIN ") > 1:
            return "has more than one signature, of which none counts"
        block = _BLOCK.fullmatch(signatures[0].strip())
        kind = block[1].decode("ascii") if block else ""
        if kind in _OPENPGP:
            wanted = {name: content for name, content in files.items() if name.endswith(".asc")}
            if not wanted:
                return "is signed with OpenPGP, and no OpenPGP key is trusted"
            return self._keys_of(wanted).problem(payload, signatures[0])
        if kind == _SSH:
            wanted = {name: content for name, content in files.items() if name.endswith(".sshpub")}
            if not wanted:
                return "is signed with SSH, and no SSH key is trusted"
            return Signers.read(wanted, self._folder, self._runner).problem(payload, signatures[0])
        return "has a signature that is neither OpenPGP's nor SSH's"

    def _read(self) -> Mapping[str, bytes]:
        try:
            files = mounted.read(self._folder, lambda name: name.endswith((".asc", ".sshpub")))
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = f"the folder of trusted keys {str(self._folder)!r} does not exist"
            raise GitError(missing, hint=f"give it {_WANTED}") from error
        except OSError as error:
            raise GitError(
                f"the trusted keys in {str(self._folder)!r} cannot be read: {error.strerror}",
                hint="let the account that runs this read them",
            ) from error
        if not files:
            raise GitError(
                f"the folder of trusted keys {str(self._folder)!r} holds no key", hint=f"give it {_WANTED}"
            )
        return files

    def _keys_of(self, files: Mapping[str, bytes]) -> Keyring:
        """The keyring of these files, made when they are not those of the last time."""
        wanted = _digest(files)
        with self._lock:
            if self._keyring is None or self._keyring[0] != wanted:
                self._keyring = wanted, Keyring.read(files, self._folder, self._runner)
            return self._keyring[1]


def split(commit: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """What was signed, which is the commit without its signatures, and the signatures.

    A commit of a repository that is moving to SHA-256 has one more, over its other form: it counts as one here.
    """
    head, blank, message = commit.partition(b"\n\n")
    kept: list[bytes] = []
    signatures: list[list[bytes]] = []
    inside = False
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        if name in (b"gpgsig", b"gpgsig-sha256"):
            inside = True
            signatures.append([value])
        elif inside and line.startswith(b" "):
            signatures[-1].append(line[1:])
        else:
            inside = False
            kept.append(line)
    return b"\n".join(kept) + blank + message, tuple(b"\n".join([*lines, b""]) for lines in signatures)


def _digest(files: Mapping[str, bytes]) -> str:
    listing = [f"{name}\0{sha256(content).hexdigest()}\0" for name, content in sorted(files.items())]
    return sha256("".join(listing).encode("utf-8", "surrogateescape")).hexdigest()
