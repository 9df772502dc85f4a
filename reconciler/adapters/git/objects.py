"""Reading commits, trees and blobs of a repository on this machine.

Belongs here: the `Objects` port over git's plumbing, which no local configuration changes.
Does not belong here: anything that writes, or speaks to another machine.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from pathlib import Path
from typing import Final, Self

from reconciler.adapters.git.command import Git, Stream
from reconciler.adapters.git.discovery import HINT_PLACE, find
from reconciler.adapters.git.failures import CommandFailed
from reconciler.core.model import COMMIT, TreeEntry
from reconciler.errors import GitError

HISTORY_LIMIT: Final = 200
LISTING_LIMIT: Final = 64 << 20
"""Bytes of a listing that are read: some 600,000 files. A few nested trees can name billions of paths."""

# No checkout could hold these. Git refuses to fetch them; a local repository may still have been made to.
_IMPOSSIBLE: Final = re.compile(r"(?:^|/)(?:\.{0,2}|\.git)(?:/|$)", re.IGNORECASE)
_HINT_INCOMPLETE: Final = "this clone lacks objects: run `git fetch --unshallow`, or clone without --filter"


class GitObjects:
    """The `Objects` port over any git directory.

    File names are bytes to Git. They are decoded as UTF-8; bytes that are not become lone surrogates
    (`surrogateescape`), so that no name is lost and `os.fsencode` gives the bytes back.
    """

    def __init__(self, git: Git) -> None:
        self._git = git

    def resolve(self, revision: str) -> str:
        """The commit that `revision` names, in any spelling git knows. Raises GitError when there is none."""
        asked = self._git.run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
        )
        found = asked.stdout.decode("utf-8", "replace").strip()
        if asked.status == 0 and COMMIT.fullmatch(found):
            return found
        if not self._git.output("rev-list", "--max-count=1", "--all"):
            raise GitError("the repository has no commits yet", hint="commit something first")
        shallow = self._git.output("rev-parse", "--is-shallow-repository") == b"true"
        raise GitError(
            f"there is no commit {revision!r} in this repository",
            hint="this is a shallow clone: run `git fetch --unshallow`, or fetch that revision"
            if shallow
            else "check the spelling, or fetch it first",
        )

    def tree(
        self, commit: str, under: str = "", only: Collection[str] | None = None
    ) -> tuple[TreeEntry, ...]:
        """Every blob, link and submodule below `under`, sorted by path; with `only`, just those files and what is below
        those folders. An absent folder is empty.

        Raises GitError for an unknown commit, an unreadable tree, and for one that no checkout could hold.
        """
        treeish = self._folder(commit_id(commit), under)
        parts = [] if only is None else [folder_path(path) for path in only]
        if treeish is None or (only is not None and not parts):
            return ()
        chosen = [] if "" in parts else parts
        with self._git.stream("ls-tree", "-r", "-z", "-l", "--full-tree", treeish, "--", *chosen) as listing:
            records = listing.everything(LISTING_LIMIT).split(b"\0")
        entries = sorted(map(_entry, records[:-1]), key=attrgetter("path"))
        for before, entry in zip([None, *entries], entries, strict=False):
            if _IMPOSSIBLE.search(entry.path) or (before is not None and before.path == entry.path):
                raise _impossible(commit, entry.path)
        return tuple(entries)

    def changes(self, old: str, new: str, under: str = "") -> frozenset[str]:
        """The paths below `under` whose entries differ, relative to it. Nothing that this repository configures hides
        one: renames are two paths, and submodules count.

        Raises GitError when a commit is unknown or lacks the folder, and for a path that no checkout could hold.
        """
        trees = [self._folder(commit_id(commit), under) for commit in (old, new)]
        if None in trees:
            raise GitError(f"there is no folder {under!r} in {old} or in {new}")
        options = ("-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none")
        with self._git.stream("diff-tree", *options, *filter(None, trees), "--") as listing:
            names = listing.everything(LISTING_LIMIT).split(b"\0")
        paths = frozenset(name.decode("utf-8", "surrogateescape") for name in names[:-1])
        for path in paths:
            if _IMPOSSIBLE.search(path):
                raise _impossible(f"{old} or {new}", path)
        return paths

    def _folder(self, commit: str, under: str) -> str | None:
        """What to list for `under`. Looked up by path, because `commit:path` has a syntax of its own."""
        path = folder_path(under)
        if not path:
            return commit
        found = self._git.output("ls-tree", "-z", "--full-tree", commit, "--", path)
        if found.count(b"\0") > 1:
            raise _impossible(commit, path)  # named twice: which of them it is nobody can say
        kind, oid = (found.split(b"\t", 1)[0].split() or [b"", b"", b""])[1:]
        return oid.decode() if kind == b"tree" else None

    def blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Each distinct blob with its bytes, read from one child when asked for. Raises GitError, Timeout."""
        wanted = tuple(dict.fromkeys(oids))
        for oid in wanted:
            if not COMMIT.fullmatch(oid):
                raise GitError(f"{oid!r} is not the id of an object")
        if not wanted:
            return
        with self._git.stream("cat-file", "--batch", "--buffer", stdin="\n".join(wanted).encode()) as answers:
            for oid in wanted:
                yield oid, _blob(answers, oid)

    def committed_at(self, commit: str) -> int:
        """The committer's date in seconds since the epoch. Raises GitError for an unknown commit."""
        line = self._git.output("rev-list", "--max-count=1", "--timestamp", commit_id(commit), "--")
        return int(line.split()[0])

    def has(self, commit: str) -> bool:
        """Whether the commit is here. Raises GitError when a damaged repository cannot tell."""
        if not COMMIT.fullmatch(commit):
            return False
        asked = self._git.run("cat-file", "--batch-check=%(objecttype)", stdin=commit.encode())
        if asked.status or b"error:" in asked.stderr:
            raise self._git.failed(asked)
        missing = asked.stdout.endswith(b" missing\n")
        if missing and self._git.run("cat-file", "-e", commit).status == 0:  # listed, but not legible
            raise CommandFailed(f"the commit {commit} is damaged", hint="clone the repository again")
        return asked.stdout == b"commit\n"

    def history(self, commit: str, path: str) -> tuple[str, ...]:
        """Commits reachable from `commit` that changed `path`, newest first, at most 200.

        With `--full-history`: git's default follows only the parent that a merge agrees with, and would lose
        the versions of a file that another branch replaced. So a merge counts when it differs from any of its
        parents. Raises GitError for an unknown commit.
        """
        listed = self._git.output(
            "rev-list",
            f"--max-count={HISTORY_LIMIT}",
            "--full-history",
            "--date-order",
            commit_id(commit),
            "--",
            path,
        )
        return tuple(listed.decode().split())

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether `newer` contains `older`; a commit that is not here is contained in nothing.

        Raises GitError when `newer` is unknown.
        """
        asked = self._git.run("merge-base", "--is-ancestor", commit_id(older), commit_id(newer))
        if asked.status in (0, 1):
            return asked.status == 0
        if GitObjects.has(self, older) or not GitObjects.has(self, newer):
            raise self._git.failed(asked)
        return False

    def parents(self, commit: str) -> tuple[str, ...]:
        """The commits that a commit was made on, in its own order, as it says itself: no graft and no shallow boundary
        counts. Raises GitError for an unknown commit."""
        lines = self.commit_object(commit).split(b"\n")[1:]  # the first one names the tree
        found = takewhile(lambda line: line.startswith(b"parent "), lines)
        return tuple(line.removeprefix(b"parent ").decode("ascii") for line in found)

    def commit_object(self, commit: str) -> bytes:
        """A commit as it is stored: header, an empty line, message. Raises GitError for an unknown commit."""
        answer = self._git.output("cat-file", "--batch", stdin=commit_id(commit).encode())
        facts, _, content = answer.partition(b"\n")
        if facts.split()[1:2] != [b"commit"]:
            raise CommandFailed(f"there is no commit {commit} here", hint="check the id, or fetch it first")
        return content


class LocalObjects(GitObjects):
    """Any repository on this machine, read only: a clone, a linked work tree, a bare repository.

    Nothing that its configuration names is executed: no hook, no filter, no monitor, no transport.
    `prefix` is where the folder that was opened lies in the repository, '' at its top; `git_dir` is the repository's
    own folder.
    """

    def __init__(self, git: Git, prefix: str = "") -> None:
        super().__init__(git)
        self.prefix = prefix
        self.git_dir = git.git_dir

    @classmethod
    def open(cls, path: Path, timeout: float = 60) -> Self:
        """The repository that the folder `path` belongs to; each call of git may take `timeout` seconds.

        Raises GitError when there is none, and ToolMissing without git.
        """
        place = find(path, timeout)
        if place is None:
            raise GitError(f"{str(path)!r} is not in a Git repository", hint=HINT_PLACE)
        return cls(Git(place.git_dir, timeout), place.prefix)


def commit_id(text: str) -> str:
    """`text`, a full commit id. Raises GitError for all else: it must not reach git in an id's place."""
    if not COMMIT.fullmatch(text):
        raise GitError(f"{text!r} is not the id of a commit")
    return text


def folder_path(under: str) -> str:
    """`under` without needless parts, '' for the root. Raises GitError when it leads out."""
    parts = [part for part in under.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise GitError(f"{under!r} is not a folder inside the repository", hint="leave out '..'")
    return "/".join(parts)


def _impossible(commit: str, path: str) -> GitError:
    return GitError(
        f"commit {commit} names {path!r}, which no folder could hold",
        hint="the tree was made by hand; remove that path from it",
    )


@lru_cache(maxsize=1 << 16)  # two commits that are compared share nearly all of theirs
def _entry(record: bytes) -> TreeEntry:
    """One record of `ls-tree -l`: mode, type, id, size, tab, path. The size of a submodule is `-`."""
    facts, _, path = record.partition(b"\t")
    mode, _, oid, size = facts.decode("ascii").split()
    name = path.decode("utf-8", "surrogateescape")
    if size == "BAD":
        raise CommandFailed(f"the content of {name!r} is missing", hint=_HINT_INCOMPLETE)
    return TreeEntry(name, mode, oid, 0 if size == "-" else int(size))


def _blob(answers: Stream, oid: str) -> bytes:
    """One answer of `cat-file --batch`: id, type and size on a line, the content, a line end."""
    answer = answers.line().decode("utf-8", "replace").split()
    if len(answer) != 3:
        raise CommandFailed(f"the object {oid} is missing", hint=_HINT_INCOMPLETE)
    if answer[1] != "blob":
        raise GitError(f"the object {oid} is a {answer[1]}, not the content of a file")
    content = answers.exactly(int(answer[2]))
    answers.exactly(1)
    return content
