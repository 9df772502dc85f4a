"""OpenPGP signatures, judged by gpg with our keys alone.

Belongs here: the keyring, and what gpg's status lines mean (GnuPG's doc/DETAILS).
Does not belong here: where keys and signatures come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

from reconciler.adapters.git.runner import Runner
from reconciler.errors import GitError
from reconciler.process import Finished

_HINT: Final = "install GnuPG (gpg) to verify OpenPGP signatures"
_PUBLIC: Final = b"-----BEGIN PGP PUBLIC KEY BLOCK-----"
_RING: Final = "pubring.kbx"
_OPTIONS: Final = (
    "--no-options",
    "--batch",
    "--no-tty",
    # Nothing is started that would outlive the call, and nothing is looked up elsewhere.
    "--no-autostart",
    "--disable-dirmngr",
    "--no-auto-key-retrieve",
    "--no-auto-key-locate",
    "--no-auto-check-trustdb",
    # Whoever is in this keyring is trusted: that is what the folder of keys says.
    "--trust-model=always",
    "--status-fd=1",
)
_VERDICTS: Final = ("GOODSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG", "BADSIG", "ERRSIG")
_NO_KEY: Final = "9"
"""Why gpg could not check a signature: it has no such key."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """Trusted keys as gpg keeps them, and their fingerprints."""

    content: bytes = field(repr=False)
    fingerprints: frozenset[str]
    runner: Runner

    @classmethod
    def read(cls, files: Mapping[str, bytes], folder: Path, runner: Runner) -> Self:
        """Import armored public keys; `folder` is for messages. Raises GitError for a file without any, ToolMissing,
        Timeout."""
        fingerprints: set[str] = set()
        with _home() as home:
            for name, content in files.items():
                if _PUBLIC not in content or b"PRIVATE KEY" in content:
                    raise _no_key(name, folder, "it must hold public keys alone")
                done = runner.run(
                    "gpg", *_OPTIONS, "--import",
                    home=home, hint=_HINT, stdin=content,
                )  # fmt: skip
                found = {words[2] for words in _statuses(done) if words[0] == "IMPORT_OK"}
                if not found:
                    raise _no_key(name, folder, done.complaint or "gpg finds no key in it")
                fingerprints |= found
            return cls((home / _RING).read_bytes(), frozenset(fingerprints), runner)

    def problem(self, payload: bytes, signature: bytes) -> str:
        """Why a detached signature of `payload` does not count, '' when it does. Raises ToolMissing, Timeout."""
        with _home() as home:
            (home / _RING).write_bytes(self.content)
            (home / "signature").write_bytes(signature)
            done = self.runner.run(
                "gpg", *_OPTIONS, "--verify", "--", str(home / "signature"), "-",
                home=home, hint=_HINT, stdin=payload,
            )  # fmt: skip
        return self._verdict(done)

    def _verdict(self, done: Finished) -> str:
        statuses = _statuses(done)
        verdicts = [words for words in statuses if words[0] in _VERDICTS]
        if len(verdicts) > 1:
            return "has more than one signature, of which none counts"
        if not verdicts:
            return "has a signature that gpg cannot read"
        word, key, *rest = [*verdicts[0], ""]
        if word == "ERRSIG" and rest[4:5] == [_NO_KEY]:
            return f"is signed by the unknown OpenPGP key {rest[5] if len(rest) > 6 else key}"
        problems = {
            "BADSIG": f"has a bad signature: the OpenPGP key {key} did not sign this",
            "EXPSIG": f"has a signature by the OpenPGP key {key} that has expired",
            "EXPKEYSIG": f"is signed by the OpenPGP key {key}, which has expired",
            "REVKEYSIG": f"is signed by the OpenPGP key {key}, which was revoked",
        }
        if word in problems:
            return problems[word]
        # The last word is the primary key's fingerprint; the signature may be a subkey's.
        valid = [words[-1] for words in statuses if words[0] == "VALIDSIG"]
        if word == "GOODSIG" and done.status == 0 and len(valid) == 1 and valid[0] in self.fingerprints:
            return ""
        return f"has a signature by the OpenPGP key {key} that gpg does not accept"


def _statuses(done: Finished) -> list[list[str]]:
    prefix = "[GNUPG:] "
    lines = done.stdout.decode("utf-8", "replace").split("\n")
    return [
        words for line in lines if line.startswith(prefix) and (words := line.removeprefix(prefix).split())
    ]


@contextmanager
def _home() -> Iterator[Path]:
    """A home folder for one call. The empty file keeps newer versions from handing keys to a daemon (keyboxd)."""
    with TemporaryDirectory(prefix="reconciler-") as folder:
        home = Path(folder)
        (home / "common.conf").touch()
        yield home


def _no_key(name: str, folder: Path, why: str) -> GitError:
    return GitError(
        f"{name!r} in the folder of trusted keys {str(folder)!r} is no OpenPGP public key: {why}",
        hint="write what `gpg --armor --export KEY` prints there",
    )
