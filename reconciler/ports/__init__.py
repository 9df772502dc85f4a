"""What the reconcile pass needs from the world, as Protocols, and the values that cross these borders.

Belongs here: one Protocol per outside thing and the frozen values in its signatures.
Does not belong here: any implementation, or a type of an outside library.
Every method may raise the `ReconcilerError`s its docstring names, and nothing else that is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO, Protocol

from reconciler.core.machineconfig.stage import Stage
from reconciler.core.model import Arch, Base, Needs, TreeEntry
from reconciler.core.shell import Dialect


class Objects(Protocol):
    """Read access to the objects of one Git repository. Never a work tree."""

    def resolve(self, revision: str) -> str:
        """The 40-digit id of the commit that `revision` names. Raises GitError when there is none."""

    def tree(
        self, commit: str, under: str = "", only: Collection[str] | None = None
    ) -> tuple[TreeEntry, ...]:
        """All blobs, links and submodules of a commit below the folder `under`, sorted by path.

        Paths are relative to `under`. A folder that does not exist is empty. With `only`, just those files and what is
        below those folders.
        """

    def changes(self, old: str, new: str, under: str = "") -> frozenset[str]:
        """The paths below `under` that one of two commits has and the other has not, or has otherwise; relative to
        `under`. Raises GitError when that cannot be told, because a commit or the folder is not here."""

    def blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Each distinct blob with its bytes, one in memory at a time."""

    def committed_at(self, commit: str) -> int:
        """The committer's date in seconds since the epoch."""

    def has(self, commit: str) -> bool:
        """Whether the commit's objects are here."""

    def history(self, commit: str, path: str) -> tuple[str, ...]:
        """Commits reachable from `commit` that changed `path`, newest first; capped at 200."""

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether `newer` contains `older`."""

    def parents(self, commit: str) -> tuple[str, ...]:
        """The commits that a commit was made on, in its own order; none for a first one."""


class Signatures(Protocol):
    """Says whether commits are signed by somebody who is trusted."""

    def keys(self) -> str:
        """An id of the keys that are trusted now: it changes when they do. Raises GitError."""

    def problem(self, commit: str) -> str:
        """Why the signature of a commit that is here does not count; '' when it does. Raises GitError, ToolMissing."""


class Kept(Protocol):
    """Keeps bytes between runs of the same code. They may vanish at any time: they are never needed, only quicker."""

    def get(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """What is kept of these keys."""

    def put(self, values: Mapping[str, bytes]) -> None:
        """Keep values; failing to is no error."""


class PullRequests(Objects, Protocol):
    """A mirror of one remote repository that brings pull requests here, and never writes anything there."""

    def fetch(self, revision: str) -> str:
        """Bring here what a branch, a commit, or `refs/pull/…` is now, and return its commit.

        Raises GitUnavailable, GitError.
        """

    def merge(self, ours: str, theirs: str) -> str:
        """The commit that merging `theirs` into `ours` makes, here only; one of the two when it contains the other.

        The same call gives the same id. Raises MergeConflict, GitError.
        """


class PushOutcome(StrEnum):
    """What the remote branch looks like after a push, as the remote itself says."""

    DONE = "done"
    MOVED = "moved"
    """Somebody else was faster: fetch, recompute, try again."""
    REFUSED = "refused"
    """The server does not let us: a protected branch, a hook, no permission."""


@dataclass(frozen=True, slots=True)
class PushResult:
    """`message` is what the server said, for people."""

    outcome: PushOutcome
    message: str = ""


class Repository(Objects, Protocol):
    """A mirror of one remote repository, with write-back by plumbing.

    A revision is the name of a branch, `refs/tags/…`, or the id of a commit.
    """

    def heads(self, revisions: Collection[str]) -> Mapping[str, str]:
        """The commits that remote revisions stand for now, without those that the remote does not have: one round
        trip for all, no objects. A tag is the commit it marks; a commit id is itself, and is not looked for.

        Raises GitUnavailable, GitError.
        """

    def head(self, revision: str) -> str:
        """As `heads`, for one. Raises GitError also when it does not exist."""

    def fetch(self, revision: str) -> str:
        """Bring a revision's objects here and return its commit. Free when that is here already."""

    def commit(self, parent: str, changes: Mapping[str, bytes | None], message: str, date: int) -> str:
        """Write a commit that adds or replaces the given files (None removes one) on `parent`.

        Author, committer and dates are fixed by the arguments, so the same call gives the same id. Returns `parent`
        when nothing changes.
        """

    def push(self, branch: str, commit: str) -> PushResult:
        """Move the remote branch forward to `commit`, never otherwise; then ask the remote what became of it."""

    def replace(self, branch: str, commit: str, known: str) -> PushResult:
        """Let the remote branch, which is ours alone, be `commit`, whatever it was; but only if it is still `known`, ''
        for not being there. Then ask the remote what became of it."""


OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest or index, as bytes. `digest` is always that of `content`."""

    digest: str
    media_type: str
    content: bytes

    @property
    def is_index(self) -> bool:
        """A list over several images."""
        return self.media_type in (OCI_INDEX, DOCKER_INDEX)


class Registry(Protocol):
    """Container registries. A repository is `host[:port]/path`; a reference is a tag or a digest."""

    def digest(self, repository: str, reference: str) -> str | None:
        """The digest behind a reference, by HEAD; None when there is nothing."""

    def manifest(self, repository: str, reference: str) -> Manifest | None:
        """The manifest's bytes, verified against their digest; None when there is nothing.

        Raises RegistryUnavailable, RegistryError.
        """

    def blob(self, repository: str, digest: str, limit: int) -> bytes:
        """A small blob (an image's config), verified. Raises RegistryError when absent or above `limit` bytes."""

    def has_blob(self, repository: str, digest: str) -> bool:
        """Whether the repository holds the blob, by HEAD."""

    def put_blob(self, repository: str, content: IO[bytes]) -> str:
        """Store what a file holds as a blob, unless it is there, and return its digest."""

    def put(self, repository: str, reference: str, manifest: Manifest) -> None:
        """Store a manifest under a tag or under its digest, and verify by reading back."""

    def tags(self, repository: str) -> tuple[str, ...]:
        """The tags of a repository, as many as it is reasonable to ask for; none when it does not exist."""

    def copy(self, source: str, digest: str, target: str) -> None:
        """Copy a single image (its blobs by mount where the registry can, else streamed) between repositories."""


class Phase(StrEnum):
    """Where a build stands, in MachineOSBuild's words."""

    PENDING = "Prepared"
    """It waits for its turn."""
    RUNNING = "Building"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Cause(StrEnum):
    """Why a build failed: decides whether trying again by ourselves makes sense."""

    DEFINITION = "definition"
    INFRASTRUCTURE = "infrastructure"
    MISSING = "missing"
    """Something that a person has to supply is not there, as a Secret: until it is, the build is blocked."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """Everything a builder needs to make and push one single-architecture image.

    `containerfile` is the text to build; `context` the only files the build may see (paths relative to the context
    root); `ignorefile` the effective ignore rules. `image` is `repository:tag` to push to. `work` names the pool's work
    that it is part of, as `PoolReport.work` does. `push_secret` and `pull_secret` name Secrets of a cluster with
    credentials for the image's repository and for the bases; '' for none. `configs` is what the image `configs` is
    built from, before the text that starts from it; None where none does.
    """

    name: str
    pool: str
    arch: Arch
    containerfile: str
    ignorefile: str
    context: tuple[TreeEntry, ...]
    bases: tuple[Base, ...]
    image: str
    annotations: Mapping[str, str]
    work: str = ""
    push_secret: str = ""
    pull_secret: str = ""
    configs: Stage | None = None


@dataclass(frozen=True, slots=True)
class Build:
    """What a builder says about one build. `digest` is a hint: the registry is asked. Times in epoch seconds.
    `annotations` are those of its request: they say what it builds from, to an engine with other digests too."""

    name: str
    pool: str
    arch: Arch
    phase: Phase
    step: str = ""
    digest: str = ""
    cause: Cause | None = None
    message: str = ""
    log: str = ""
    started: float = 0.0
    finished: float = 0.0
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why this builder cannot build something, and what would help."""

    message: str
    hint: str = ""


class Builder(Protocol):
    """Builds images; level-based: ask for what should exist, look at what does."""

    def refusal(self, arch: Arch, needs: Needs) -> Refusal | None:
        """Why a recipe with these needs cannot be built here, or None."""

    def ensure(self, request: BuildRequest) -> None:
        """Make sure a build of this name is under way or has ended. A second call with the same name does nothing."""

    def builds(self) -> tuple[Build, ...]:
        """All builds this builder knows, running and ended."""

    def glance(self) -> tuple[Build, ...]:
        """What `builds` returned last, or knows without asking anybody: for showing, not for deciding."""

    def discard(self, names: Collection[str]) -> None:
        """Nobody wants these builds any more: end those that run, drop those that wait, forget those that ended."""

    def wait(self, seconds: float) -> bool:
        """Block until some build has ended since the last call, at most `seconds`; say whether one has."""

    def close(self) -> None:
        """End every running build and free what it used."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call to another system, when it has ended. `system` is `git` or `registry`; `operation` what was asked in
    that system's own words (`ls-remote`, `PUT`); `outcome` an HTTP status, or `ok`, `refused`, `unavailable`."""

    system: str
    operation: str
    outcome: str


OnRequest = Callable[[Request], None]
"""Is told of every call. Must be quick, and may be called from any thread."""


class Clock(Protocol):
    """Time, so that tests can say what time it is."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class ShellParser(Protocol):
    """Parses shell text."""

    def tree(self, text: str, dialect: Dialect) -> object | None:
        """The text's syntax tree as shfmt's typed JSON; None when it is no program of that dialect.

        Raises ToolMissing.
        """
