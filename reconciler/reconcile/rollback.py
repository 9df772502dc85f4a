"""Where a pool's definition goes back to, and which files that takes.

Belongs here: reading that from what is recorded and defined. Does not belong here: changing files and committing (the
Git adapter does, as the author it is run by).
"""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.core.catalogue import Catalogue
from reconciler.errors import Fault, GitError, InvalidInput
from reconciler.reconcile.history import History


@dataclass(frozen=True, slots=True)
class Way:
    """`folders` of the repository, '' for its root, become what they were at `commit`; `spared` lies below the root and
    stays."""

    commit: str
    folders: tuple[str, ...]
    spared: str


def way(history: History, head: str, pool: str, to: str | None = None) -> Way:
    """How a pool goes back: to commit `to`, or to the one that led to the image before the one that is recorded.

    Raises InvalidInput when there is nothing to go back to, or other pools would go back as well, and GitError.
    """
    now = history.catalogue(head)
    if pool not in now.by_name:
        if doubts := now.doubts_about(pool):
            raise InvalidInput(doubts)
        known = ", ".join(sorted(now.by_name)) or "none"
        raise GitError(f"pool {pool} is not defined at {head[:12]}", hint=f"pools that are: {known}")
    commit = to or _before(history, head, now, pool)
    then = history.catalogue(commit)
    if pool not in then.by_name:
        problem = f"pool {pool} is not defined soundly at {commit[:12]}"
        raise GitError(problem, hint="name another commit with --to")
    folders = {found.by_name[pool].folder for found in (now, then)}
    for found in (now, then):
        _alone(history, pool, found, folders)
    spared = history.path(now.config.status_path)
    return Way(commit, tuple(sorted(history.path(folder).rstrip("/") for folder in folders)), spared)


def _before(history: History, head: str, now: Catalogue, pool: str) -> str:
    """The source commit of the image before the one that is recorded."""
    status = now.config.status_path
    record = history.records(head, status, [pool]).pools.get(pool)
    place = history.path(status, f"{pool}.yaml")
    if record is None:
        hint = "pull the branch that the reconciler commits to, or name a commit with --to"
        raise InvalidInput([Fault(place, 0, f"no image is recorded at {head[:12]}", hint)])
    for earlier in history.earlier(head, status, pool):
        if earlier.image != record.image:
            return earlier.source_commit
    raise InvalidInput([Fault(place, 0, "no earlier image is recorded", "name a commit with --to")])


def _alone(history: History, pool: str, found: Catalogue, folders: set[str]) -> None:
    """Raise when others would go back too."""
    faults = [
        Fault(
            history.path(other.definition.path),
            other.definition.line,
            f"pool {other.name} lies in the folder of pool {pool}, and would go back with it",
            "use git revert, and choose there what goes back",
        )
        for other in found.pools
        if other.name != pool and any(_within(other.definition.path, folder) for folder in folders)
    ]
    if faults:
        raise InvalidInput(faults)


def _within(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")
