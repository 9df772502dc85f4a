"""Errors and faults: what went wrong, what the user does next, and what the loop does next.

Belongs here: the base error, its few families, and `Fault`, the value for a mistake in somebody's input.
Does not belong here: printing, retrying, or any knowledge of the libraries whose exceptions adapters translate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar


class Disposition(StrEnum):
    """What the reconcile loop does about an error; retry policy is decided from this and nowhere else."""

    RETRY = "retry"
    """The world was in the way (network, disk, a busy server): try again, with back-off."""
    WAIT = "wait"
    """Trying again cannot help until somebody changes Git, the configuration or the machine."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One mistake in a file that a user wrote.

    `path` is relative to the repository (or as the user named the file), `line` counts from 1 and is 0 when the
    fault belongs to the whole file. `hint` says what to do about it.
    """

    path: str
    line: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class ReconcilerError(Exception):
    """Base of every expected error: a message, a hint, and a disposition.

    Anything raised that is not one of these is a bug in the reconciler.
    """

    reason: ClassVar[str] = "Error"
    """Stable CamelCase word for events, metrics and conditions."""
    disposition: ClassVar[Disposition] = Disposition.WAIT
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Interrupted(Exception):
    """The work is over, between two steps: somebody asked for that, or its time is up. What was done stands.

    No `ReconcilerError`, so that nobody takes it for the failure of one pool and goes on with the next.
    """


class InvalidInput(ReconcilerError):
    """Files a user wrote have faults; all of them are carried, sorted by place."""

    reason = "InvalidInput"

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults))
        super().__init__("\n".join(map(str, self.faults)))


class ToolMissing(ReconcilerError):
    """A program that the chosen adapter needs is not on this machine."""

    reason = "ToolMissing"


class Timeout(ReconcilerError):
    """An external call was ended because it took longer than its limit."""

    reason = "Timeout"
    disposition = Disposition.RETRY


class GitError(ReconcilerError):
    """Git refused something that trying again will not change (bad URL, no permission, unknown revision)."""

    reason = "GitFailed"


class GitUnavailable(GitError):
    """The Git server could not be reached or did not answer properly."""

    reason = "GitUnavailable"
    disposition = Disposition.RETRY


class MergeConflict(GitError):
    """Two commits change the same in different ways. The message names files, and nothing of the machine."""

    reason = "MergeConflict"


class UnverifiedCommit(ReconcilerError):
    """A commit that must be signed by somebody who is trusted is not: it changes nothing."""

    reason = "UnverifiedCommit"


class Defect(ReconcilerError):
    """A bug of ours, met while one pool was worked on: that pool waits, the others go on."""

    reason = "InternalError"


class RegistryError(ReconcilerError):
    """The registry refused a request that trying again will not change (denied, invalid manifest)."""

    reason = "RegistryRefused"


class RegistryUnavailable(RegistryError):
    """The registry could not be reached, or kept answering with a transient status."""

    reason = "RegistryUnavailable"
    disposition = Disposition.RETRY


class ClusterError(ReconcilerError):
    """The API server refused a request that trying again will not change (not allowed, invalid object)."""

    reason = "ClusterRefused"


class ClusterUnavailable(ClusterError):
    """The API server could not be reached, or did not answer properly."""

    reason = "ClusterUnavailable"
    disposition = Disposition.RETRY


class Conflict(ClusterError):
    """Somebody else changed an object between our look at it and our change."""

    reason = "Conflict"
    disposition = Disposition.RETRY


class ForgeError(ReconcilerError):
    """The forge refused a request that trying again will not change (no such pull request, not allowed)."""

    reason = "ForgeRefused"


class ForgeUnavailable(ForgeError):
    """The forge could not be reached, asked us to wait for long, or kept answering with a transient status."""

    reason = "ForgeUnavailable"
    disposition = Disposition.RETRY
