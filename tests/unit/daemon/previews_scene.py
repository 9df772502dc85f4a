"""A forge and a repository with pull requests, in memory, and a previewer whose hours pass in no time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.core.plan import Plan
from reconciler.daemon.durations import Durations
from reconciler.daemon.gate import Allowance, Gate, Rules
from reconciler.daemon.leash import Leash
from reconciler.daemon.previews import Previewer, Workplace
from reconciler.errors import ForgeError, ForgeUnavailable, GitError, MergeConflict
from reconciler.ports.forge import Comment, Pull, State, Status
from reconciler.reconcile.history import History
from reconciler.reconcile.preview import Preview
from reconciler.reconcile.previewing import Desk
from reconciler.reconcile.targets import Scope
from tests.fakes import FakeObjects, Files
from tests.unit.daemon.scene import Hours, WaitingInbox
from tests.unit.definitions import config, mosc

TEXT = "FROM quay.io/os/base:1\nCOPY files /etc/\n"
MAIN: Files = {
    "reconciler.yaml": config(),
    "worker/os.yaml": mosc("worker"),
    "worker/Containerfile": TEXT,
    "worker/files/a": "1",
    "infra/os.yaml": mosc("infra"),
    "infra/Containerfile": TEXT,
    "infra/files/a": "1",
    "notes.txt": "nobody copies me",
}


class PullRequests(FakeObjects):
    """Implements `ports.PullRequests`. Merging adds the files that a head changes to those of the base; heads and bases
    that are in `conflicts` conflict."""

    def __init__(self) -> None:
        super().__init__()
        self.refs: dict[str, str] = {}
        self.first: dict[str, str] = {}
        self.made: dict[tuple[str, str], str] = {}
        self.conflicts: set[str] = set()
        self.errors: dict[str, list[Exception]] = {}
        self.fetched: list[str] = []
        self.lines: dict[str, tuple[str, ...]] = {}

    def fetch(self, revision: str) -> str:
        """What it is now."""
        self.fetched.append(revision)
        if self.errors.get(revision):
            raise self.errors[revision].pop(0)
        if revision not in self.refs:
            raise GitError(f"there is no {revision}")
        return self.refs[revision]

    def merge(self, ours: str, theirs: str) -> str:
        """A commit with both."""
        if theirs in self.conflicts:
            raise MergeConflict(f"{theirs[:12]} conflicts with {ours[:12]} in 'a`b'")
        if self.first[theirs] == ours:
            return theirs
        if (ours, theirs) not in self.made:
            before, mine, theirs_ = (self._files(c) for c in (self.first[theirs], ours, theirs))
            files = {**mine, **{path: text for path, text in theirs_.items() if before.get(path) != text}}
            self.made[ours, theirs] = self.add(files)
        return self.made[ours, theirs]

    def parents(self, commit: str) -> tuple[str, ...]:
        """As was said."""
        return self.lines.get(commit, ())


@dataclass
class FakeForge:
    """Implements `ports.forge.Forge`; `errors` are raised one by one by calls whose name they are for."""

    open: dict[int, Pull] = field(default_factory=dict)
    said: dict[int, list[Comment]] = field(default_factory=dict)
    shown: dict[str, dict[str, Status]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    errors: dict[str, list[Exception]] = field(default_factory=dict)
    comment_limit: int = 65_536
    meanwhile: Callable[[], object] = lambda: None
    looks: int = 0

    def who(self) -> str:
        """Us."""
        return "us"

    def pull(self, number: int) -> Pull:
        """Any that there ever was."""
        self._fail("pull")
        if number not in self.open:
            raise ForgeError(f"there is no pull request {number}")
        return self.open[number]

    def pulls(self, target: str) -> Iterator[Pull]:
        """The open ones."""
        self.looks += 1
        self._fail("pulls")
        self.meanwhile()
        found = sorted(self.open.values(), key=lambda pull: -pull.number)
        return iter([pull for pull in found if pull.is_open and pull.target == target])

    def comments(self, number: int) -> Iterator[Comment]:
        """All of them."""
        return iter(list(self.said.get(number, ())))

    def create_comment(self, number: int, body: str) -> Comment:
        """One of ours."""
        self._fail(f"comment on {number}")
        assert len(body.encode()) <= self.comment_limit
        self.done.append(f"comment on {number}")
        said = self.said.setdefault(number, [])
        said.append(Comment(number * 100 + len(said), "us", body, f"https://forge/{number}"))
        return said[-1]

    def edit_comment(self, number: int, comment: int, body: str) -> Comment:
        """In place."""
        self._fail(f"edit on {number}")
        assert len(body.encode()) <= self.comment_limit
        self.done.append(f"edit on {number}")
        said = self.said[number]
        index = next(i for i, one in enumerate(said) if one.id == comment and one.author == "us")
        said[index] = replace(said[index], body=body.replace("\n", "\r\n"))
        return said[index]

    def statuses(self, pull: Pull) -> tuple[Status, ...]:
        """Those set last."""
        return tuple(self.shown.get(pull.head, {}).values())

    def set_status(self, pull: Pull, status: Status) -> None:
        """As told."""
        self._fail(f"status of {pull.number}")
        self.done.append(f"{status.state} {status.context}")
        self.shown.setdefault(pull.head, {})[status.context] = status

    def _fail(self, name: str) -> None:
        if self.errors.get(name):
            raise self.errors[name].pop(0)


@dataclass
class Memory:
    """Implements `ports.Kept`."""

    values: dict[str, bytes] = field(default_factory=dict)

    def get(self, keys: Any) -> Mapping[str, bytes]:
        """What there is."""
        return {key: self.values[key] for key in keys if key in self.values}

    def put(self, values: Mapping[str, bytes]) -> None:
        """All."""
        self.values.update(values)


class Scene:
    """One repository whose main has two pools."""

    def __init__(self, gate: Gate | None = None, per_author: int = 30, kind: str = "github") -> None:
        self.hours = Hours()
        self.forge, self.repository, self.memory = FakeForge(), PullRequests(), Memory()
        self.base = self.repository.refs["main"] = self.repository.add(MAIN)
        self.told: list[tuple[str, str]] = []
        self.workplaces = 0
        self.fails_to_open: list[Exception] = []
        self._gate, self._per_author, self._kind = gate or Gate(), per_author, kind
        self.restart()

    def restart(self) -> None:
        """Another process, that knows what was kept."""
        self.leash = Leash(lambda: self.hours.now)
        self.durations = Durations()
        self.previewer = Previewer(
            "repo",
            self._workplace,
            Rules(self._gate, Allowance(self._per_author)),
            self.hours.clock,
            self.leash,
            self.durations,
            lambda repository, _, outcome: self.told.append((repository, outcome)),
            WaitingInbox(self.hours),
        )

    @contextmanager
    def _workplace(self) -> Iterator[Workplace]:
        self.workplaces += 1
        if self.fails_to_open:
            raise self.fails_to_open.pop(0)
        history = History(self.repository)
        desk = Desk(self.repository, history, self.forge, "main", self._kind, "default", Scope)
        yield Workplace(desk, self.memory)

    def propose(self, number: int, files: Files, **parts: Any) -> str:
        """Push the head of a pull request on what main is now, and open it."""
        base = self.repository.refs["main"]
        head = self.repository.add({**self.repository._files(base), **files})
        self.repository.first[head] = base
        ref = f"refs/pull/{number}/head"
        self.repository.refs[ref] = head
        known = {"target": "main", "author": "ada", "ref": ref, "is_open": True, "is_fork": False}
        self.forge.open[number] = Pull(number, "", head, **{**known, **parts})
        return head

    def push(self, files: Files) -> str:
        """A commit on main."""
        main = self.repository._files(self.repository.refs["main"])
        self.repository.refs["main"] = self.repository.add({**main, **files})
        return self.repository.refs["main"]

    def merge(self, number: int) -> str:
        """Merge a pull request into main as it is now."""
        pull, base = self.forge.open[number], self.repository.refs["main"]
        made = self.repository.merge(base, pull.head)
        if made == pull.head:
            made = self.repository.add(self.repository._files(made))
        self.repository.lines[made] = (base, pull.head)
        self.repository.refs["main"] = made
        self.forge.open[number] = replace(pull, is_open=False, merged=made)
        return made

    def plan(self, commit: str) -> Plan:
        """What the daemon does at a commit."""
        return Preview(History(self.repository), Scope()).plan(commit)

    def at(self, seconds: float, event: Callable[[], object]) -> None:
        """Let something happen, counted from now."""
        self.hours.at(self.hours.now + seconds, event)

    def run(self, seconds: float = 1.0) -> None:
        """Let it work for so long, and end it as a killed process ends; what it knows is gone but for what is kept."""
        self.at(seconds, self.previewer.end)
        self.previewer.run()
        self.restart()

    def body(self, number: int) -> str:
        """What our comment says."""
        return self.forge.said[number][0].body.replace("\r\n", "\n")

    def notes(self, number: int) -> str:
        """What it says beside its plan."""
        _, found, rest = self.body(number).partition("/notes -->\n")
        return rest.partition("\n\n<!--")[0] if found else ""

    def state(self, head: str, pool: str = "") -> State:
        """What a status of ours says."""
        return self.forge.shown[head]["reconciler/default" + (f"/{pool}" if pool else "")].state


NO_FORGE = ForgeUnavailable("it does not answer", hint="wait")
