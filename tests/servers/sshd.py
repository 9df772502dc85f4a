"""A Git server over SSH (Debian's `openssh-server`) on a free loopback port, for tests.

Belongs here: starting and ending it, its keys, and what each key may do. Does not belong here: the repositories.

It runs as the account of the tests, root or not, and lets only that account in, by these keys and for git alone.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler import process

_PATIENCE = 15.0
_TRIES = 5
_SETTINGS = """\
ListenAddress 127.0.0.1:{port}
HostKey {root}/host_key
AuthorizedKeysFile {root}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv GIT_PROTOCOL
LogLevel VERBOSE
"""
# The key's line names what it may do; git's server side gets its one argument quoted by the client.
_COMMAND = """\
#!/bin/sh
echo "$1 $SSH_ORIGINAL_COMMAND" >>'{root}/requests'
case "$1 $SSH_ORIGINAL_COMMAND" in
"read git-upload-pack '"* | "write git-upload-pack '"*) ;;
"write git-receive-pack '"*) while [ -e '{root}/hold' ]; do sleep 0.05; done ;;
*) echo "this key may not do that: $SSH_ORIGINAL_COMMAND" >&2; exit 1 ;;
esac
PATH='{path}' HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export PATH HOME GIT_CONFIG_NOSYSTEM GIT_CONFIG_GLOBAL
eval "set -- $SSH_ORIGINAL_COMMAND"
exec git -c safe.directory='*' "${{1#git-}}" "$2"
"""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key pair in files, as `ssh-keygen` makes it."""

    private: Path

    @property
    def public(self) -> str:
        """The public key, on a line."""
        return self.private.with_name(f"{self.private.name}.pub").read_text().strip()


def key_pair(directory: Path, name: str, *, kind: str = "ed25519", passphrase: str = "") -> KeyPair:
    """Make a new key pair."""
    directory.mkdir(parents=True, exist_ok=True)
    made = directory / name
    _run("ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", name, "-f", str(made))
    return KeyPair(made)


class SshServer:
    """One server. `allow` says what the bearer of a key may do."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "sshd.log"
        self.port = 0
        self._host_key = key_pair(root, "host_key")
        self._keys: dict[str, str] = {}
        self._process: process.Popen[bytes] | None = None

    def url(self, repository: Path) -> str:
        """The address of a repository on this machine."""
        return f"ssh://{pwd.getpwuid(os.getuid()).pw_name}@127.0.0.1:{self.port}{repository}"

    @property
    def known_hosts(self) -> str:
        """The line by which a client knows this server."""
        return f"[127.0.0.1]:{self.port} {self._host_key.public}\n"

    @property
    def requests(self) -> list[str]:
        """What was asked for: `read` or `write`, as the key may, and the command."""
        log = self.root / "requests"
        return log.read_text().splitlines() if log.exists() else []

    def allow(self, key: KeyPair, right: str) -> None:
        """Let the bearer of a key `read` or `write`; counts from the next connection on."""
        self._keys[key.public] = right
        self._write_keys()

    def forbid(self, key: KeyPair) -> None:
        """Let nobody in with this key any more."""
        del self._keys[key.public]
        self._write_keys()

    def hold(self) -> None:
        """Make pushes wait until `release`."""
        (self.root / "hold").touch()

    def release(self) -> None:
        """Let them go on."""
        (self.root / "hold").unlink(missing_ok=True)

    def start(self) -> None:
        """Start it and wait until it listens."""
        self._write_keys()
        command = self.root / "command"
        command.write_text(_COMMAND.format(root=self.root, path=os.environ["PATH"]))
        command.chmod(0o755)
        if os.getuid() == 0:
            # Where root's sshd locks up the part of itself that speaks to strangers; empty by its own rule.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for _ in range(_TRIES):
            if self._started():
                return
        raise RuntimeError(f"sshd did not start:\n{self.log.read_text()}")

    def kill(self) -> None:
        """End it, and every connection. Safe to repeat."""
        self.release()
        if self._process is not None:
            process.kill(self._process)
            self._process = None

    def _started(self) -> bool:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        config = self.root / "sshd_config"
        config.write_text(_SETTINGS.format(root=self.root, port=self.port))
        with self.log.open("wb") as log:
            # Called by its whole path, because it starts itself anew for each connection.
            self._process = process.start(
                [_program(), "-D", "-e", "-f", str(config)],
                env={"PATH": os.environ["PATH"]},
                stdout=log.fileno(),
                stderr=log.fileno(),
            )
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until and self._process.poll() is None:
            if b"Server listening" in self.log.read_bytes():
                return True
            time.sleep(0.02)
        self.kill()
        return False

    def _write_keys(self) -> None:
        command = self.root / "command"
        lines = [f'restrict,command="{command} {right}" {key}\n' for key, right in self._keys.items()]
        (self.root / "authorized_keys").write_text("".join(lines))


@contextmanager
def ssh_server(directory: Path) -> Iterator[SshServer]:
    """Run a server with its files in a new folder below `directory`."""
    root = directory / f"sshd-{time.monotonic_ns()}"
    root.mkdir(parents=True)
    server = SshServer(root)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def _program() -> str:
    found = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise RuntimeError("there is no sshd here: run tests/install-tools.sh test")
    return found


def _run(*argv: str) -> None:
    done = process.run(argv, env={"PATH": os.environ["PATH"]}, timeout=_PATIENCE)
    if done.status:
        raise RuntimeError(f"{argv[0]} failed:\n{done.complaint}")
