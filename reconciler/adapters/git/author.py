"""Making a commit in somebody's own clone, as they would by hand: with their name, signature and hooks.

Belongs here: changing files of a work tree and committing them. Does not belong here: what they become, and the
reconciler's own commits, which no configuration of an account has any say in (`commits`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from reconciler import process
from reconciler.adapters.git.discovery import HINT_PLACE, find
from reconciler.errors import GitError
from reconciler.process import Finished

_SECONDS: Final = 600.0
"""Somebody may have to touch a key or type a passphrase."""
_ELSEWHERE: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_LITERAL_PATHSPECS")
"""What git sets for its hooks: it would be another repository, or another index of this one."""


class Author:
    """The clone that the folder `path` lies in, used with the account's own settings. `env` is its environment.

    Raises GitError when there is none with files.
    """

    def __init__(self, path: Path, env: Mapping[str, str]) -> None:
        place = find(path, 60)
        if place is None or place.top is None:
            raise GitError(f"{str(path)!r} is not in a clone with files", hint=HINT_PLACE)
        self._top = place.top
        self._env = {name: value for name, value in env.items() if name not in _ELSEWHERE}

    def restore(self, commit: str, folders: Sequence[str], spared: str, message: str) -> tuple[str, ...]:
        """Make folders (paths below the clone's top, '' for that itself) what they were at `commit`, all but `spared`,
        and commit that. Returns the paths that changed; nothing is committed when there are none.

        Raises GitError when there is something in these folders that is not committed, or git refuses; then
        everything is as it was. Raises Timeout, ToolMissing.
        """
        paths = [f":(top,literal){folder}" for folder in folders]
        if spared:
            paths.append(f":(top,exclude,literal){spared}")
        dirty = self._output("status", "--porcelain", "--untracked-files=all", "--", *paths).splitlines()
        if dirty:
            what = ", ".join(line[3:] for line in dirty[:3]) + ("…" if len(dirty) > 3 else "")
            raise GitError(f"not committed yet: {what}", hint="commit it, or put it aside with git stash -u")
        changed = self._output("diff", "--name-only", "-z", "--no-renames", "HEAD", commit, "--", *paths)
        names = tuple(filter(None, changed.split("\0")))
        if names:
            try:
                self._output("restore", f"--source={commit}", "--staged", "--worktree", "--", *paths)
                self._output("commit", "--quiet", f"--message={message}", "--only", "--", *paths)
            except BaseException:
                self._run("restore", "--source=HEAD", "--staged", "--worktree", "--", *paths)
                raise
        return names

    def _output(self, *words: str) -> str:
        done = self._run(*words)
        if done.status != 0:
            said = (done.stderr + done.stdout).decode("utf-8", "replace").strip()
            raise GitError(f"git {words[0]} failed: {said[-2000:]}")
        return done.stdout.decode("utf-8", "surrogateescape")

    def _run(self, *words: str) -> Finished:
        return process.run(["git", *words], env=self._env, timeout=_SECONDS, cwd=self._top)
