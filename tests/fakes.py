"""Fakes of our own ports, in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import IO

from reconciler.core.catalogue import Snapshot, documents
from reconciler.core.inputs import digest_of
from reconciler.core.model import Arch, Needs, TreeEntry
from reconciler.errors import GitError, ReconcilerError, RegistryError
from reconciler.ports import Build, BuildRequest, Cause, Manifest, Phase, PushOutcome, PushResult, Refusal

Files = Mapping[str, bytes | str]
"""Path → content; a `str` that begins with `->` is a symbolic link to the rest."""


def oid_of(content: bytes) -> str:
    """Git's id of a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324  (Git's own hash)


def entries(files: Files) -> tuple[TreeEntry, ...]:
    """A tree as Git would list it."""
    return tuple(
        sorted(
            TreeEntry(path, _mode(text), oid_of(_bytes(text)), len(_bytes(text)))
            for path, text in files.items()
        )
    )


def snapshot(files: Files, commit: str = "0" * 40) -> Snapshot:
    """A commit as the core gets it."""
    tree = entries(files)
    contents = blobs(files)
    return Snapshot(commit, tree, {e.oid: contents[e.oid] for e in documents(tree)})


def blobs(files: Files) -> dict[str, bytes]:
    """All contents by object id."""
    return {oid_of(_bytes(text)): _bytes(text) for text in files.values()}


def _mode(text: bytes | str) -> str:
    return "120000" if isinstance(text, str) and text.startswith("->") else "100644"


def _bytes(text: bytes | str) -> bytes:
    return text.removeprefix("->").encode() if isinstance(text, str) else text


@dataclass
class FakeObjects:
    """Implements `ports.Objects` over a straight line of commits, oldest first."""

    commits: list[Files] = field(default_factory=list)
    reads: int = 0

    def add(self, files: Files) -> str:
        """A commit on top; returns its id."""
        self.commits.append(files)
        return self.resolve(str(len(self.commits)))

    def resolve(self, revision: str) -> str:
        """Commits are numbered from 1."""
        return f"{int(revision):040x}"

    def _files(self, commit: str) -> Files:
        number = int(commit, 16)
        if not 1 <= number <= len(self.commits):
            raise GitError(f"no commit {commit}")
        return self.commits[number - 1]

    def tree(
        self, commit: str, under: str = "", only: Collection[str] | None = None
    ) -> tuple[TreeEntry, ...]:
        """Entries below a folder."""
        self.reads += 1
        files = self._below(commit, under)
        if only is not None:
            files = {p: t for p, t in files.items() if any(p == o or p.startswith(f"{o}/") for o in only)}
        return entries(files)

    def changes(self, old: str, new: str, under: str = "") -> frozenset[str]:
        """Paths that differ."""
        before, after = set(entries(self._below(old, under))), set(entries(self._below(new, under)))
        return frozenset(entry.path for entry in before ^ after)

    def _below(self, commit: str, under: str) -> Files:
        above = f"{under}/" if under else ""
        return {p.removeprefix(above): t for p, t in self._files(commit).items() if p.startswith(above)}

    def blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """From any commit."""
        known = {oid_of(_bytes(text)): _bytes(text) for files in self.commits for text in files.values()}
        for oid in dict.fromkeys(oids):
            yield oid, known[oid]

    def committed_at(self, commit: str) -> int:
        """A second per commit."""
        return int(commit, 16)

    def has(self, commit: str) -> bool:
        """Whether it was added."""
        return 1 <= int(commit, 16) <= len(self.commits)

    def history(self, commit: str, path: str) -> tuple[str, ...]:
        """Commits that changed a path, or anything below it, newest first."""
        found: list[str] = []
        before: dict[str, bytes | str] = {}
        for number, files in enumerate(self.commits[: int(commit, 16)], 1):
            now = {p: text for p, text in files.items() if p == path or p.startswith(f"{path}/")}
            if now != before:
                found.append(f"{number:040x}")
            before = now
        return tuple(reversed(found))

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Along the line."""
        return int(older, 16) <= int(newer, 16)

    def parents(self, commit: str) -> tuple[str, ...]:
        """The one before."""
        number = int(commit, 16)
        return (f"{number - 1:040x}",) if number > 1 else ()


@dataclass
class FakeRepository(FakeObjects):
    """Implements `ports.Repository` over the same line of commits, which is its only branch."""

    pushes: int = 0

    def heads(self, revisions: Collection[str]) -> Mapping[str, str]:
        """The latest commit, whatever is asked for."""
        return dict.fromkeys(revisions, self.resolve(str(len(self.commits))))

    def head(self, revision: str) -> str:
        """The latest commit."""
        return self.heads([revision])[revision]

    def fetch(self, revision: str) -> str:
        """All is here."""
        return self.head(revision)

    def commit(self, parent: str, changes: Mapping[str, bytes | None], message: str, date: int) -> str:  # noqa: ARG002
        """Written, and not on the branch yet."""
        files = dict(self._files(parent))
        for path, content in changes.items():
            if content is None:
                files.pop(path, None)
            else:
                files[path] = content
        self.pending = files
        return f"{len(self.commits) + 1:040x}"

    def push(self, branch: str, commit: str) -> PushResult:  # noqa: ARG002
        """Put the written commit on top."""
        self.pushes += 1
        self.add(self.pending)
        return PushResult(PushOutcome.DONE)

    def replace(self, branch: str, commit: str, known: str) -> PushResult:  # noqa: ARG002
        """There is no second branch here, and nobody may make one."""
        return PushResult(PushOutcome.REFUSED, "this repository has one branch")


@dataclass
class FakeClock:
    """Implements `ports.Clock`: time passes when somebody sleeps."""

    time: float = 1_000_000.0

    def now(self) -> float:
        """What time it is."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.time += seconds


@dataclass
class FakeBuilder:
    """Implements `ports.Builder`: builds run until the test ends them."""

    clock: FakeClock = field(default_factory=FakeClock)
    requests: dict[str, BuildRequest] = field(default_factory=dict)
    known: dict[str, Build] = field(default_factory=dict)
    ended: Event = field(default_factory=Event)

    def refusal(self, arch: Arch, needs: Needs) -> Refusal | None:  # noqa: ARG002  (it builds everything)
        """Nothing is refused."""
        return None

    def ensure(self, request: BuildRequest) -> None:
        """Start it, once."""
        if request.name not in self.known:
            self.requests[request.name] = request
            self.known[request.name] = Build(
                request.name, request.pool, request.arch, Phase.RUNNING, annotations=request.annotations
            )

    def end(self, name: str, cause: Cause | None = None) -> None:
        """End a build, well or by a cause."""
        phase = Phase.FAILED if cause else Phase.SUCCEEDED
        request = self.requests[name]
        self.known[name] = Build(
            name,
            request.pool,
            request.arch,
            phase,
            cause=cause,
            finished=self.clock.now(),
            annotations=request.annotations,
        )
        self.ended.set()

    def builds(self) -> tuple[Build, ...]:
        """All of them."""
        return tuple(self.known.values())

    glance = builds

    def discard(self, names: Collection[str]) -> None:
        """Forget them; what was requested stays known to the test."""
        for name in names:
            self.known.pop(name, None)

    def wait(self, seconds: float) -> bool:
        """Until the test ends a build."""
        if not self.ended.wait(seconds):
            return False  # and no clearing: one may end this very moment
        self.ended.clear()
        return True

    def close(self) -> None:
        """Nothing to free."""


@dataclass
class FakeRegistry:
    """Implements `ports.Registry` over dictionaries; `error` is raised by every request when it is set."""

    manifests: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    stored: dict[tuple[str, str], bytes] = field(default_factory=dict)
    error: ReconcilerError | None = None
    requests: int = 0

    def add(self, repository: str, tag: str, media_type: str, content: bytes) -> str:
        """Store a manifest under a tag and its digest; returns the digest."""
        manifest = Manifest(digest_of(content), media_type, content)
        self.manifests[repository, tag] = self.manifests[repository, manifest.digest] = manifest
        return manifest.digest

    def add_blob(self, repository: str, content: bytes) -> str:
        """Store a blob; returns its digest."""
        self.stored[repository, digest_of(content)] = content
        return digest_of(content)

    def _ask(self) -> None:
        self.requests += 1
        if self.error:
            raise self.error

    def digest(self, repository: str, reference: str) -> str | None:
        """Behind a reference."""
        self._ask()
        found = self.manifests.get((repository, reference))
        return found.digest if found else None

    def manifest(self, repository: str, reference: str) -> Manifest | None:
        """As stored."""
        self._ask()
        return self.manifests.get((repository, reference))

    def blob(self, repository: str, digest: str, limit: int) -> bytes:
        """As stored."""
        self._ask()
        content = self.stored.get((repository, digest))
        if content is None or len(content) > limit:
            raise RegistryError(f"no blob {digest}")
        return content

    def has_blob(self, repository: str, digest: str) -> bool:
        """Whether it is stored."""
        self._ask()
        return (repository, digest) in self.stored

    def put_blob(self, repository: str, content: IO[bytes]) -> str:
        """Store."""
        self._ask()
        content.seek(0)
        held = content.read()
        self.stored[repository, digest_of(held)] = held
        return digest_of(held)

    def tags(self, repository: str) -> tuple[str, ...]:
        """All of them."""
        self._ask()
        return tuple(sorted(t for r, t in self.manifests if r == repository and not t.startswith("sha256:")))

    def put(self, repository: str, reference: str, manifest: Manifest) -> None:
        """Store."""
        self._ask()
        self.manifests[repository, reference] = self.manifests[repository, manifest.digest] = manifest

    def copy(self, source: str, digest: str, target: str) -> None:
        """Copy everything: contents are shared anyway."""
        self._ask()
        self.put(target, digest, self.manifests[source, digest])
        for (repository, blob), content in list(self.stored.items()):
            if repository == source:
                self.stored[target, blob] = content
