"""A real repository with a protected branch, and a forge in memory that merges into it.

Belongs here: what authors, reviewers and the forge do. Does not belong here: what the reconciler does.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from reconciler import process
from reconciler.adapters.git.mirror import Mirror
from reconciler.core.status import PoolRecord, read_status
from reconciler.errors import ForgeError, ForgeUnavailable
from reconciler.ports.cluster import Cluster, Reporter
from reconciler.ports.forge import Proposal, Stage
from reconciler.reconcile.history import History
from reconciler.reconcile.planning import Place, World
from reconciler.reconcile.reconciler import Reconciler, Result, Survey
from reconciler.reconcile.targets import Scope
from tests.fakes import Files
from tests.unit.reconcile.bench import FILES, Bench

BRANCH = "reconciler/default/main"
_REFUSE_MAIN = """\
#!/bin/sh
while read -r old new ref; do
  [ "$ref" = refs/heads/main ] || continue
  [ -n "$ALLOWED" ] && continue
  echo "GH006: Protected branch update failed for refs/heads/main." >&2
  exit 1
done
"""


class Origin:
    """The remote, with an author's clone of it."""

    def __init__(self, root: Path) -> None:
        self.bare, self.work = root / "origin.git", root / "work"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "GIT_CONFIG_NOSYSTEM": "1",
            "ALLOWED": "1",
            **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        self.run("init", "--quiet", "--bare", "--initial-branch=main", str(self.bare), cwd=root)
        self.run("clone", "--quiet", str(self.bare), str(self.work), cwd=root)
        self.commit(FILES)
        hook = self.bare / "hooks" / "pre-receive"
        hook.write_text(_REFUSE_MAIN)
        hook.chmod(0o755)

    def run(self, *words: str, cwd: Path | None = None) -> str:
        """Run git in the clone."""
        done = process.run(["git", *words], env=self.env, timeout=60, cwd=cwd or self.work)
        assert done.status == 0, done.complaint
        return done.stdout.decode().strip()

    def commit(self, files: Files) -> str:
        """Let an author, who may, push files to main."""
        if self.tip("main"):
            self.run("fetch", "--quiet", "origin")
            self.run("checkout", "--quiet", "-B", "main", "origin/main")
        for path, text in files.items():
            (self.work / path).parent.mkdir(parents=True, exist_ok=True)
            (self.work / path).write_text(str(text))
        self.run("add", "--all")
        self.run("commit", "--quiet", "--message", "Change")
        self.run("push", "--quiet", "origin", "HEAD:main")
        return self.tip("main")

    def tip(self, branch: str) -> str:
        """The commit at a branch's tip; '' for no such branch."""
        argv = [
            "git",
            "--git-dir",
            str(self.bare),
            "rev-parse",
            "--verify",
            "--quiet",
            f"refs/heads/{branch}",
        ]
        return process.run(argv, env=self.env, timeout=60).stdout.decode().strip()

    def merge(self, way: str, branch: str = BRANCH) -> None:
        """Merge a branch as a forge does."""
        self.run("fetch", "--quiet", "origin")
        self.run("checkout", "--quiet", "-B", "main", "origin/main")
        if way == "squash":
            self.run("merge", "--quiet", "--squash", f"origin/{branch}")
            self.run("commit", "--quiet", "--message", "Update (#1)")
        elif way == "rebase":
            self.run("cherry-pick", "--no-gpg-sign", f"origin/{branch}")
            self.run("commit", "--quiet", "--amend", "--no-edit", "--date=2020-01-01T00:00:00Z")
        else:
            self.run("merge", "--quiet", "--no-ff", "--message", "Merge", f"origin/{branch}")
        self.run("push", "--quiet", "origin", "HEAD:main")

    def record(self, branch: str, pool: str = "worker") -> PoolRecord | None:
        """A pool's status file on a branch."""
        path = f"status/{pool}.yaml"
        argv = ["git", "--git-dir", str(self.bare), "show", f"refs/heads/{branch}:{path}"]
        done = process.run(argv, env=self.env, timeout=60)
        return None if done.status else read_status(done.stdout, path)


class FakeForge:
    """Implements `ports.forge.Proposals`; refuses what a forge refuses. `down` lets every request fail, and `lose` the
    answers to so many."""

    comment_limit = 65_536

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self.pulls: list[Proposal] = []
        self.did: list[str] = []
        self.down = False
        self.lose = 0

    def _find(self, *, past: bool) -> Proposal | None:
        if self.down:
            raise ForgeUnavailable("the forge is down")
        found = [pull for pull in self.pulls if (pull.stage is Stage.OPEN) != past]
        return found[-1] if found else None

    def proposal(self, branch: str, target: str) -> Proposal | None:
        """The open one."""
        assert (branch, target) == (BRANCH, "main")
        return self._find(past=False)

    def past_proposal(self, branch: str, target: str) -> Proposal | None:
        """The last other one."""
        assert (branch, target) == (BRANCH, "main")
        return self._find(past=True)

    def propose(self, branch: str, target: str, title: str, body: str) -> Proposal:
        """Open one."""
        assert self._find(past=False) is None
        assert self._origin.tip(branch) != self._origin.tip(target) != ""
        number = len(self.pulls) + 1
        self.pulls.append(Proposal(number, f"#{number}", title, body, Stage.OPEN, f"https://f/{number}"))
        self.did.append("open")
        if self.lose:
            self.lose -= 1
            raise ForgeUnavailable("no answer")
        return self.pulls[-1]

    def revise(self, number: int, title: str, body: str, *, close: bool = False) -> Proposal:
        """Edit one."""
        pull = self.pulls[number - 1]
        if close and pull.stage is not Stage.OPEN:
            raise ForgeError("it is not open")
        stage = Stage.CLOSED if close else pull.stage
        self.pulls[number - 1] = replace(pull, title=title, body=body, stage=stage)
        self.did.append("close" if close else "edit")
        return self.pulls[number - 1]

    def end(self, stage: Stage) -> None:
        """Let a person merge or close the open one; what a merge does to the repository is done elsewhere."""
        self.pulls[-1] = replace(self.pulls[-1], stage=stage)


class Proposed(Bench):
    """The bench with a real repository, where nobody but authors may push to main."""

    def __init__(self, root: Path, *, proposal: str = BRANCH) -> None:
        super().__init__()
        self.origin = Origin(root)
        self.forge = FakeForge(self.origin)
        self.mirror = Mirror(str(self.origin.bare), root / "mirrors")
        self.place = Place("main", "main", proposal=proposal)
        self.cluster: Cluster | None = None
        self.reporters: tuple[Reporter, ...] = ()

    def daemon(self) -> Reconciler:
        """One that has just started."""
        world = World(
            repository=self.mirror,
            registry=self.registry,
            builder=self.builder,
            clock=self.clock,
            history=History(self.mirror),
            place=self.place,
            scope=Scope(),
            forge=self.forge,
            cluster=self.cluster,
            reporters=self.reporters,
        )
        return Reconciler(world)

    def pass_(self) -> Result:
        """One pass."""
        return self.daemon().run_pass()

    def built(self) -> Result:
        """Passes until no build is in flight."""
        while (result := self.pass_()).in_flight:
            self.end_builds()
        return result

    def look(self) -> Survey:
        """What `status` shows."""
        return self.daemon().look()

    def tag(self) -> str | None:
        """The digest that the pool's tag names."""
        return self.registry.digest("registry.example.com/os/worker", "latest")
