"""What git's complaints mean: who can do something about it, and what.

Belongs here: reading standard error, making it fit for people, and choosing the error and its hint.
Does not belong here: running git.

The phrases are those of git 2.30 and later in the C locale, of libcurl and of OpenSSH.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from reconciler.errors import GitError, GitUnavailable


class CommandFailed(GitError):
    """Git itself gave up, for a reason that a damaged repository could explain."""


@dataclass(frozen=True, slots=True)
class _Meaning:
    phrase: re.Pattern[str]
    hint: str
    error: type[GitError]


def _meaning(phrase: str, hint: str, error: type[GitError] = GitError) -> _Meaning:
    return _Meaning(re.compile(phrase, re.IGNORECASE), hint, error)


# The first that matches counts. What is certain to be permanent comes first, because ssh and git add general
# sentences ("Could not read from remote repository", "hung up") to every failure.
_MEANINGS: Final = (
    _meaning(
        r"host key verification failed|no .* host key is known",
        "add the server's key to `known_hosts`: in the folder of credentials, or else this account's",
    ),
    _meaning(
        r"load key .*: (error in libcrypto|invalid format)",
        "`identity` is not a private key that ssh can read: copy the whole file, first and last line too",
    ),
    _meaning(
        r"permission denied|authentication failed|could not read (username|password)|returned error: 40[13]",
        "check that the credentials are right and may read (and, for write-back, push to) the repository",
    ),
    _meaning(
        r"returned error: 404|repository .* (not found|does not exist)"
        r"|does not appear to be a git repository",
        "check the address, and that the credentials may see the repository",
    ),
    _meaning(
        r"cannot run ssh|ssh: (command )?not found|unable to find remote helper|is not a git command",
        "install what git needs for this kind of address: an ssh client, or git's support for https",
    ),
    _meaning(
        r"dubious ownership",
        "the repository belongs to another account; make its owner the account that runs this",
    ),
    _meaning(
        r"returned error: 30\d|unable to update url base from redirection",
        "use the address that the server redirects to",
    ),
    _meaning(
        r"(certificate|server) verification failed|certificate (problem|verify)|verifying certificate",
        "add the authority that signed the server's certificate to this machine's trust store, or as `ca.crt` to"
        " the folder of credentials",
    ),
    _meaning(
        r"problem with the ssl ca cert|error setting certificate|error (adding|reading) (trust|ca cert)",
        "write certificates in PEM form into `ca.crt` of the folder of credentials; without one, mend this machine's"
        " trust store",
    ),
    _meaning(r"couldn't find remote ref", "check the name of the branch or tag"),
    _meaning(
        r"fsck error|fsckobjects",
        "an object in the history is malformed and was not accepted; `git fsck` shows it",
    ),
    _meaning(
        r"shallow (roots|update)",
        "the remote repository is itself incomplete: run `git fetch --unshallow` there",
        CommandFailed,
    ),
    _meaning(
        r"no space left|disk quota|cannot allocate memory|too many open files|resource temporarily",
        "free disk space or memory on this machine",
        GitUnavailable,
    ),
    _meaning(
        # Said before git blames the connection for it ("invalid index-pack output").
        r"error: packfile |differ in contents|unable to rename temporary|loose object \S+ .*is corrupt",
        "the repository on this machine is damaged: clone it again",
        CommandFailed,
    ),
    _meaning(
        r"could not resolve|name or service not known|temporary failure|network is unreachable"
        r"|no route to host|connection (refused|timed out|reset|closed|was reset)|failed to connect"
        r"|couldn't connect|closed by remote host|operation too slow|timed out|early eof|hung up"
        r"|unexpected disconnect|broken pipe|empty reply|rpc failed|returned error: (408|429|5\d\d)"
        r"|invalid index-pack output|ssl_|gnutls_|recv failure|send failure|unable to access",
        "the server could not be reached or broke off; this is tried again",
        GitUnavailable,
    ),
)

_USERINFO: Final = re.compile(r"(://)[^/@\s'\"]*@")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MOMENT: Final = re.compile(r" after \d+ (ms|milliseconds)\b")
"""libcurl measures; a complaint that is the same one has to read the same, to be told once."""
_LINES: Final = 8
_WIDTH: Final = 400


def mask(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Take user information out of every URL in `text`, and each of `secrets` wherever it stands."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return _USERINFO.sub(r"\1***@", text)


def readable(raw: bytes, secrets: tuple[str, ...] = ()) -> str:
    """Bytes from git or from a server as lines for people: masked, short, and without control characters."""
    lines = [_CONTROL.sub(" ", line).rstrip()[:_WIDTH] for line in raw.decode("utf-8", "replace").split("\n")]
    return mask("\n".join([line for line in lines if line][-_LINES:]), secrets)


def failure(stderr: bytes, about: str, secrets: tuple[str, ...] = ()) -> GitError:
    """The error for a git that failed with `stderr` on the repository `about`.

    Lines that start with `remote:` are what a server says; it does not decide how we react.
    """
    text = _MOMENT.sub("", readable(stderr, secrets))
    own = "\n".join(line for line in text.splitlines() if not line.startswith("remote:"))
    message = mask(f"git failed on {about}: {text or 'it did not say why'}", secrets)
    for meaning in _MEANINGS:
        if meaning.phrase.search(own):
            return meaning.error(message, hint=meaning.hint)
    return CommandFailed(message)


def said(stdout: bytes, stderr: bytes, secrets: tuple[str, ...] = ()) -> str:
    """What the server said about a push: its messages, and its reason for refusing the branch.

    `stdout` is that of `git push --porcelain`, where a refused ref is `!`, tab, `from:to`, tab, `[what]
    (why)`.
    """
    messages = [
        line[7:].strip()
        for line in stderr.decode("utf-8", "replace").split("\n")
        if line.startswith("remote:")
    ]
    reasons = [
        line.split("\t")[-1]
        for line in stdout.decode("utf-8", "replace").split("\n")
        if line.startswith("!\t")
    ]
    return readable("\n".join([*messages, *reasons]).encode(), secrets)
