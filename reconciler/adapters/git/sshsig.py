"""SSH signatures, judged by ssh-keygen with our keys alone.

Belongs here: reading public keys, and what ssh-keygen's answers mean.
Does not belong here: where keys and signatures come from.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

from reconciler.adapters.git.runner import Runner
from reconciler.errors import GitError

_HINT: Final = "install OpenSSH's client (ssh-keygen, 8.2 or newer) to verify SSH signatures"
_ANYBODY: Final = "trusted"
"""Keys are trusted alike, whoever they belong to, so they all get one name."""
_NAMESPACE: Final = "git"
"""What git signs for: a signature that the same key made for anything else does not count."""
_KEY: Final = re.compile(r"(ssh-\S+|ecdsa-sha2-\S+|sk-\S+)\s+([A-Za-z0-9+/]+=*)(?:\s.*)?")
_GOOD: Final = re.compile(r'Good "git" signature with \S+ key (SHA256:\S+)')


@dataclass(frozen=True, slots=True)
class Signers:
    """Trusted public keys, each as its type and its base64."""

    keys: tuple[tuple[str, str], ...]
    runner: Runner

    @classmethod
    def read(cls, files: Mapping[str, bytes], folder: Path, runner: Runner) -> Self:
        """Read public keys, one a line as ssh-keygen writes them; `folder` is for messages. Raises GitError for a line
        that is none, and for a file without any."""
        keys: list[tuple[str, str]] = []
        for name, content in files.items():
            before = len(keys)
            for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
                text = line.strip()
                if not text or text.startswith("#"):
                    continue
                match = _KEY.fullmatch(text)
                if match is None or not _agrees(match[1], match[2]):
                    raise _no_key(f"line {number} of {name!r}", folder)
                keys.append((match[1], match[2]))
            if len(keys) == before:
                raise _no_key(repr(name), folder)
        return cls(tuple(keys), runner)

    def problem(self, payload: bytes, signature: bytes) -> str:
        """Why a signature of `payload` does not count, '' when it does. Raises ToolMissing, Timeout."""
        with TemporaryDirectory(prefix="reconciler-") as folder:
            home = Path(folder)
            allowed, signed = home / "allowed_signers", home / "signature"
            allowed.write_text("".join(f"{_ANYBODY} {kind} {key}\n" for kind, key in self.keys))
            signed.write_bytes(signature)
            common = ("-n", _NAMESPACE, "-s", str(signed))
            verify = ("ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", _ANYBODY, *common)
            if self.runner.run(*verify, home=home, hint=_HINT, stdin=payload).status == 0:
                return ""
            check = ("ssh-keygen", "-Y", "check-novalidate", *common)
            done = self.runner.run(*check, home=home, hint=_HINT, stdin=payload)
        good = _GOOD.search(done.stdout.decode("utf-8", "replace"))
        if done.status == 0 and good:
            return f"is signed by the unknown SSH key {good[1]}"
        return "has a bad SSH signature"


def _agrees(kind: str, key: str) -> bool:
    """Whether the base64 of a key holds a key of that kind: it begins with the kind's name, after its length."""
    try:
        raw = b64decode(key, validate=True)
    except ValueError:
        return False
    return raw.startswith(len(kind).to_bytes(4, "big") + kind.encode())


def _no_key(where: str, folder: Path) -> GitError:
    return GitError(
        f"{where} in the folder of trusted keys {str(folder)!r} is no SSH public key",
        hint="write the content of a `.pub` file there, one key a line and without options",
    )
