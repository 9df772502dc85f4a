"""Which well-known programs a text may put another program in the place of.

Belongs here: a look at words, for texts that run before the one that is evaluated; it has to see through any shell
text, so it errs to the side of seeing a replacement. Does not belong here: reading syntax (`reader`).
Names that are put together while the text runs are seen by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

PROBES: Final = frozenset(["uname", "arch", "dpkg", "rpm", "apk"])
SHELLS: Final = frozenset(["sh", "bash", "dash", "ash", "busybox"])

_TOKEN: Final = re.compile(r"[;&|(){}\n`]+|[<>]+&?|[^\s;&|(){}`<>]+")
_BREAK: Final = frozenset(";&|(){}\n`")
# After these a command's name follows.
_OPENERS: Final = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "do",
        "while",
        "until",
        "!",
        "time",
        "exec",
        "env",
        "sudo",
        "nohup",
        "command",
    ]
)
# What they are given are packages, accounts' shells or text, not places to put a program.
_MANAGERS: Final = frozenset(
    ["apt", "apt-get", "dnf", "yum", "microdnf", "zypper", "rpm", "dpkg", "apk", "rpm-ostree"]
)
_MENTION: Final = _MANAGERS | {"useradd", "usermod", "adduser", "chsh", "echo", "printf"}
# They put nothing anywhere; what they remove or enter matters only where programs are found.
_HARMLESS_ELSEWHERE: Final = frozenset(
    ["rm", "rmdir", "mkdir", "cd", "ls", "[", "test", "find", "chmod", "chown", "cat", "du"]
)
_PROGRAM_FOLDERS: Final = frozenset(["bin", "sbin"])


def replaced(text: str) -> frozenset[str]:
    """Names of probes and shells that the text may replace, add, move or remove."""
    return frozenset(_replaced(text))


def _replaced(text: str) -> Iterator[str]:
    command, redirected = "", False
    for token in _TOKEN.findall(text):
        if token[0] in _BREAK:
            command, redirected = "", False
        elif token[0] in "<>":
            redirected = ">" in token
        else:
            word = token.strip("\"'\\")
            folder, _, name = word.rpartition("/")
            if redirected:
                redirected = False
            elif not command:
                if word not in _OPENERS and "=" not in word and not word.startswith("-"):
                    command = name
                continue
            elif command in _MENTION or word.startswith("#!"):
                continue
            elsewhere = folder and folder.rpartition("/")[2] not in _PROGRAM_FOLDERS
            if elsewhere and command in _HARMLESS_ELSEWHERE:
                continue
            if name in PROBES or name in SHELLS:
                yield name
