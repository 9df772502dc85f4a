"""Credentials for a remote repository, from a folder of files with the key names of Flux's Git Secrets.

Belongs here: reading such a folder at each use, judging it, and handing what it holds to git and ssh.
Does not belong here: addresses (`url`), and running git.

What is handed over is a nameless file in memory, which only this account can open and which is gone with this process:
nothing secret stands in an argument, in the environment, or on a disk. Git's own way for passwords, GIT_ASKPASS, puts
the user name into the arguments of the program that it asks, and some servers take a token for a user name.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reconciler.adapters.git import mounted
from reconciler.adapters.git.command import SSH
from reconciler.adapters.git.url import Remote
from reconciler.errors import GitError
from reconciler.redaction import Redactor

WEB_KEYS: Final = ("username", "password", "bearerToken", "ca.crt")
SSH_KEYS: Final = ("identity", "known_hosts")

_HINT_WEB: Final = (
    "the files `username` and `password`, or `bearerToken`; and `ca.crt` for an authority of your own"
)
_HINT_SSH: Final = "the files `identity` (a private key without a passphrase) and `known_hosts`"
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_LIKE_A_TOKEN: Final = 20
"""Some servers take a token for a user name. Names are shorter, and masking them would mask half of every log."""
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")
_OPENSSH: Final = b"openssh-key-v1\0"


@dataclass(frozen=True, slots=True)
class Access:
    """What lets one git in: variables on top of its fixed environment, and what must never show in a message."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Credentials:
    """A folder of credentials, such as a mounted Secret. `redactor` is told of everything secret that is read."""

    folder: Path
    redactor: Redactor | None = None

    @contextmanager
    def access(self, remote: Remote) -> Iterator[Access]:
        """Access to a remote with what the folder holds now; good while the block lasts.

        Raises GitError when the folder cannot be read, or holds nothing that suits the address.
        """
        if remote.is_local:
            raise GitError(
                f"{remote} lies on this machine, and git takes no credentials for it",
                hint="leave the credentials out, or use an https or ssh address",
            )
        with ExitStack() as stack:
            yield (self._ssh if remote.protocol == "ssh" else self._web)(remote, stack)

    def _web(self, remote: Remote, stack: ExitStack) -> Access:
        """By a configuration file: for this address and no other, whatever a server says."""
        files = self._read(WEB_KEYS, remote, _HINT_WEB)
        header, secrets = self._authorization(files)
        settings = [f"extraHeader = {_quoted(f'Authorization: {header}')}"] if header else []
        if authority := files.get("ca.crt"):
            if _CERTIFICATE not in authority:
                raise self._wrong(
                    "ca.crt", "holds no certificate", "write the authority's certificate in PEM form"
                )
            settings.append(f"sslCAInfo = {_quoted(stack.enter_context(in_memory(authority)))}")
        text = "\n\t".join([f"[http {_quoted(remote.address)}]", *settings, ""])
        place = stack.enter_context(in_memory(text.encode("utf-8", "surrogateescape")))
        return Access({"GIT_CONFIG_GLOBAL": place}, secrets)

    def _authorization(self, files: Mapping[str, bytes]) -> tuple[str, tuple[str, ...]]:
        """The header's value, '' for none, and what of it is secret."""
        found = [name for name in ("username", "password", "bearerToken") if name in files]
        values = {name: self._line(name, files[name]) for name in found}
        if found == ["bearerToken"]:
            token = values["bearerToken"]
            if not _TOKEN.fullmatch(token):
                raise self._wrong("bearerToken", "is not one token", "write the token alone")
            return f"Bearer {token}", self._told(token)
        if found == ["username", "password"]:
            name, password = values["username"], values["password"]
            basic = b64encode(f"{name}:{password}".encode()).decode()
            also = [name] if len(name) >= _LIKE_A_TOKEN else []
            return f"Basic {basic}", self._told(password, basic, *also)
        if found:
            raise GitError(
                f"the folder of credentials {self._name} holds {_listed(found)}, which do not go together",
                hint=f"give it {_HINT_WEB}; with a token as `password`, any user name will do for most servers",
            )
        return "", ()

    def _ssh(self, remote: Remote, stack: ExitStack) -> Access:
        """By a command line that names files in memory: ssh refuses a key that others may read, and a mounted Secret
        often lets them. Only this key and these hosts count, whatever the account and the machine have."""
        files = self._read(SSH_KEYS, remote, _HINT_SSH)
        if "known_hosts" not in files:
            raise self._wrong(
                "known_hosts", "is missing", "write what `ssh-keyscan HOST` prints there, once checked"
            )
        if "identity" not in files:
            raise self._wrong("identity", "is missing", "put a private key there")
        try:
            # ssh wants line ends as Unix has them, the last one too; what was pasted into a Secret often has not.
            key = files["identity"].decode("ascii").replace("\r\n", "\n").strip() + "\n"
        except UnicodeDecodeError:
            key = ""
        if not _PRIVATE_KEY.search(key):
            raise self._wrong(
                "identity", "is not a private key", "it begins with -----BEGIN … PRIVATE KEY-----"
            )
        if _is_locked(key):
            hint = "nobody is there to type it: make a key without one (ssh-keygen -N '')"
            raise self._wrong("identity", "is protected by a passphrase", hint)
        secrets = self._told("\n".join(line for line in key.splitlines() if not line.startswith("-----")))
        identity, hosts = (stack.enter_context(in_memory(c)) for c in (key.encode(), files["known_hosts"]))
        command = (
            f"{SSH} -oIdentitiesOnly=yes -oIdentityAgent=none -oPasswordAuthentication=no"
            f" -oGlobalKnownHostsFile=/dev/null -oUserKnownHostsFile={hosts} -i {identity}"
        )
        return Access({"GIT_SSH_COMMAND": command}, secrets)

    def _read(self, names: Sequence[str], remote: Remote, wanted: str) -> Mapping[str, bytes]:
        """Those of the files that are there, and say something."""
        try:
            files = mounted.read(self.folder, lambda name: name in names)
            others = sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise GitError(
                f"the folder of credentials {self._name} does not exist", hint=f"give it {wanted}"
            ) from error
        except OSError as error:
            raise GitError(
                f"the credentials in {self._name} cannot be read: {error.strerror}",
                hint="let the account that runs this read them (for a Secret: fsGroup, defaultMode)",
            ) from error
        empty = next((name for name, content in files.items() if not content.strip()), "")
        if empty:
            raise self._wrong(empty, "is empty", "write it anew, or remove it")
        if not files:
            raise GitError(
                f"the folder of credentials {self._name} holds {_listed(others) or 'nothing'}, and so nothing"
                f" for an {remote.protocol} address",
                hint=f"give it {wanted}",
            )
        return files

    def _line(self, name: str, content: bytes) -> str:
        """A file of one line, with or without its end."""
        try:
            text = content.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            text = "\n"
        if _UNPRINTABLE.search(text):
            raise self._wrong(name, "is not one line of text", "write nothing else into it, in UTF-8")
        return text

    def _told(self, *secrets: str) -> tuple[str, ...]:
        if self.redactor is not None:
            self.redactor.add(*secrets)
        return secrets

    def _wrong(self, name: str, problem: str, hint: str) -> GitError:
        return GitError(f"`{name}` in the folder of credentials {self._name} {problem}", hint=hint)

    @property
    def _name(self) -> str:
        return repr(str(self.folder))


@contextmanager
def in_memory(content: bytes) -> Iterator[str]:
    """The path of a file in memory that only this account can open, while the block lasts."""
    with open(os.memfd_create("reconciler"), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        # Not /proc/self: ssh closes all that it inherits, and opens this as any other file.
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"


def _quoted(text: str) -> str:
    """As git-config(1) reads it, in a value and in a subsection's name."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _is_locked(key: str) -> bool:
    """Whether a private key needs a passphrase: PEM says so, OpenSSH's own form names a cipher (PROTOCOL.key)."""
    lines = key.splitlines()
    if any("ENCRYPTED" in line for line in lines if "-----" in line or ":" in line):
        return True
    try:
        raw = b64decode("".join(line for line in lines if "-----" not in line))
    except ValueError:
        return False  # not legible: ssh says so
    name = raw.removeprefix(_OPENSSH)
    return name != raw and name[4:8] != b"none"
