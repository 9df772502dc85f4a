"""Speaking to the remote repository: each call with the credentials of that moment, and told about when it has ended.

Belongs here: `git ls-remote`, `git fetch` and `git push`, and what their failures mean.
Does not belong here: what is asked for and when (`mirror`), and where credentials come from (`credentials`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from reconciler.adapters.git.command import Git
from reconciler.adapters.git.credentials import Access, Credentials
from reconciler.adapters.git.failures import said
from reconciler.adapters.git.revisions import is_commit
from reconciler.adapters.git.url import Remote
from reconciler.core.model import COMMIT
from reconciler.errors import GitError, GitUnavailable, Timeout
from reconciler.ports import OnRequest, Request
from reconciler.process import Finished

PEELED: Final = "^{}"
"""What git adds to the name of an annotated tag to say what it marks in the end."""

_MANY: Final = 200
"""Names more than these are picked out here: git compares every ref with every one of them."""
# Of git, over both versions of its protocol, and of JGit.
_NOT_GIVEN: Final = re.compile(rb"not our ref|unadvertised object|want \S+ not valid")


@dataclass(frozen=True, slots=True)
class Pushed:
    """How a push ended: what the server said about it, and the error when git calls it failed."""

    message: str
    error: GitError | None


@dataclass(frozen=True, slots=True)
class Transport:
    """One remote repository. `git` is how git is called, without access to anything; `writing` is used for pushes,
    and `reading` for all when there is no other. Without either, what the address itself holds is used."""

    remote: Remote
    git: Git
    on_request: OnRequest
    reading: Credentials | None = None
    writing: Credentials | None = None

    def refs(self, names: Collection[str], *, as_writer: bool = False) -> Mapping[str, str]:
        """Those of the refs, given by their full names, that the remote has now, with their ids, and for annotated
        tags also what they mark (`refs/tags/…^{}`). One git, whatever their number.

        Raises GitUnavailable, GitError.
        """
        wanted = {*names, *(f"{name}{PEELED}" for name in names if name.startswith("refs/tags/"))}
        # With these a server of our time sends nothing else, pull requests for example.
        asked = {name.split("/")[1] for name in names}
        kinds = [f"--{kind}" for kind in sorted(asked)] if asked <= {"heads", "tags"} else []
        patterns = sorted(wanted) if len(wanted) <= _MANY else []
        # Without the mirror: looking must work whatever state that is in.
        git = replace(self.git, git_dir=Path("/dev/null"))
        done, error, _ = self._call(git, self._side(as_writer), "ls-remote", *kinds, after=patterns)
        if error is not None:
            raise error
        found = {}
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            oid, _, name = line.partition("\t")
            if name in wanted:  # a pattern also matches longer names that end like it
                if not COMMIT.fullmatch(oid):
                    raise GitError(f"{self.remote} has object ids of a kind that is not supported: {oid}")
                found[name] = oid
        return found

    def fetch(self, git: Git, source: str, target: str) -> None:
        """Bring what `source`, a ref of the remote or a commit, needs, and let our ref `target` hold it.

        Raises GitUnavailable, GitError, CommandFailed when the mirror may be to blame.
        """
        # The plus lets our own ref follow a branch that was rewritten. It touches nothing on the remote.
        spec = f"+{source}:{target}"
        options = ("--quiet", "--no-tags", "--no-write-fetch-head")
        done, error, _ = self._call(git, self.reading, "fetch", *options, after=[spec])
        if error is not None and is_commit(source) and _NOT_GIVEN.search(done.stderr):
            raise GitError(
                f"{self.remote} does not give out the commit {source}",
                hint="check the id; a server may also give out only what branches and tags point to: watch one of"
                " those, or allow it there (uploadpack.allowReachableSHA1InWant)",
            ) from error
        if error is not None:
            raise error

    def push(self, commit: str, ref: str, lease: str | None = None) -> Pushed:
        """Ask the remote to move a ref forward to a commit; with a `lease`, whatever the ref was, if it is that commit
        now ('' for not being there). Raises GitError when there are no usable credentials."""
        side = self._side(as_writer=True)
        options = ["--porcelain", "--no-verify"]
        if lease is not None:
            options.append(f"--force-with-lease={ref}:{lease}")
        try:
            done, error, secrets = self._call(self.git, side, "push", *options, after=[f"{commit}:{ref}"])
        except GitUnavailable as unavailable:
            return Pushed("", unavailable)
        return Pushed(said(done.stdout, done.stderr, secrets), error)

    def _side(self, as_writer: bool) -> Credentials | None:
        return (self.writing or self.reading) if as_writer else self.reading

    def _call(
        self, git: Git, credentials: Credentials | None, *command: str, after: Collection[str]
    ) -> tuple[Finished, GitError | None, tuple[str, ...]]:
        """Run a git command that speaks to the remote: how it ended, what that means, and what was secret.

        Raises GitUnavailable at the time limit. The server side of a local repository is started by git itself and
        refuses one that another account owns. The operator named this one, so it is told not to. That text is
        constant: it passes through a shell.
        """
        options: tuple[str, ...] = ()
        if self.remote.is_local:
            side = "receive-pack" if command[0] == "push" else "upload-pack"
            options = (f"--{side}=git -c 'safe.directory=*' {side}",)
        with self._access(credentials) as access:
            able = replace(
                git, protocols=self.remote.protocol, environment=access.environment, secrets=access.secrets
            )
            try:
                done = able.run(*command, *options, "--", self.remote.address, *after)
            except Timeout as error:
                self.on_request(Request("git", command[0], "unavailable"))
                raise GitUnavailable(
                    f"{self.remote} did not answer within {git.timeout:g} s",
                    hint="the server or the network is slow or stuck; this is tried again",
                ) from error
        failed = able.failed(done) if done.status else None
        outcome = "unavailable" if isinstance(failed, GitUnavailable) else "refused" if failed else "ok"
        self.on_request(Request("git", command[0], outcome))
        if failed is not None and outcome == "refused" and failed.hint and credentials is not None:
            failed.hint += f"; the credentials are in {str(credentials.folder)!r}"
        return done, failed, access.secrets

    @contextmanager
    def _access(self, credentials: Credentials | None) -> Iterator[Access]:
        if credentials is None:
            yield Access(self.remote.environment, self.remote.secrets)
        else:
            with credentials.access(self.remote) as access:
                yield access
