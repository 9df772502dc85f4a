"""The Git server fails, and is there again: rows 3, 4, 5, 7, 8 and 9 of the fault matrix, by whole runs of `once`.

What single calls do about it is held by the adapter's tests: `tests/adapters/git/test_mirror.py` (statuses, refusals,
rewritten branches), `test_push.py` (lost replies before and after the branch moved, refusals, server locks, stalls,
racing pushers), `test_healing.py` (every kind of damage and of lock), `test_failures.py` (whose fault a complaint is).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.git.support import gone, hook
from tests.e2e.faulty import git_behind_proxy, tune
from tests.e2e.promises import Promises, mirrors
from tests.servers.faults import RESET, Answer, Cut, Delay, DropReply, End, Refuse
from tests.servers.git_http import issued_certificate
from tests.servers.proxy import FaultProxy
from tests.servers.stage import Said, Stage

pytestmark = pytest.mark.tools

PUSH = ("POST", "git-receive-pack")


@pytest.fixture
def alone(stage: Stage, definitions: Path) -> Stage:
    """A stage with one pool of one architecture."""
    (definitions / "reconciler.yaml").write_text(
        "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\narchitectures: [amd64]\n"
    )
    stage.create_repository(definitions)
    return stage


@pytest.fixture
def server(alone: Stage) -> Iterator[FaultProxy]:
    """What stands between the reconciler and the repository."""
    with git_behind_proxy(alone) as proxy:
        yield proxy


@pytest.fixture
def promises(alone: Stage, server: FaultProxy) -> Promises:  # noqa: ARG001  (from here on through the proxy)
    """Everything was built once, and is as it should be."""
    kept = Promises(alone)
    said = alone.once()
    assert said.status == 0, said
    kept.check()
    return kept


def settled(stage: Stage) -> Said:
    """Run once, well."""
    said = stage.once()
    assert said.status == 0, said
    return said


# -- row 3


def test_a_server_that_is_away_changes_nothing_and_is_found_again(
    alone: Stage, server: FaultProxy, promises: Promises
) -> None:
    tune(alone, "new\n")
    before = alone.tip(), promises.builds()
    for fault in (Refuse(), RESET, Cut(after=20), Answer(503), Answer(429, {"Retry-After": "1"})):
        if isinstance(fault, Answer):
            server.on(fault, times=None)
        else:
            server.fault = fault
        count = len(server.requests())
        said = alone.once()
        assert said.status == 1, fault
        assert server.host in said.err, fault
        # A head of HTTP that is cut looks to git like an old server without any branch.
        assert "tried again" in said.err or isinstance(fault, Cut), said
        assert "Traceback" not in said.err, said.err
        assert (alone.tip(), promises.builds()) == before, fault
        assert len(server.requests()) - count <= 3, f"{fault}: {server.requests()[count:]}"
        server.heal()
    assert "1 built" in settled(alone).out
    promises.check()


def test_a_slow_server_is_waited_for(alone: Stage, server: FaultProxy, promises: Promises) -> None:
    tune(alone, "new\n")
    server.fault = Delay(0.2)
    settled(alone)
    promises.check()


def test_a_certificate_that_nobody_vouches_for_changes_nothing(alone: Stage, tmp_path: Path) -> None:
    authority, certificate = issued_certificate(tmp_path / "certificates")
    credentials = alone.root / "credentials"
    credentials.mkdir()
    with git_behind_proxy(alone, tls=certificate):
        text = alone.config.read_text().replace(
            "branch: main}", f"branch: main, credentials: {credentials}}}"
        )
        alone.config.write_text(text)
        promises = Promises(alone)
        before = alone.tip()
        for content in (None, certificate.key.read_text()):
            if content:
                (credentials / "ca.crt").write_text(content)
            said = alone.once()
            assert said.status == 1
            assert "certificate" in said.err, said
            assert (alone.tip(), promises.builds()) == (before, {})
        (credentials / "ca.crt").write_text(authority.read_text())
        settled(alone)
        promises.check()


@pytest.mark.parametrize("fault", [Answer(503), Answer(500), Cut(after=30, how=End.RESET)])
def test_a_server_that_goes_before_the_push_costs_no_build(
    alone: Stage, server: FaultProxy, promises: Promises, fault: Answer | Cut
) -> None:
    tune(alone, "new\n")
    server.on(fault, path="service=git-receive-pack", times=None)
    tip, images = alone.tip(), alone.manifest(f"{alone.host}/os/worker:latest")
    assert alone.once().status == 1
    assert (alone.tip(), alone.manifest(f"{alone.host}/os/worker:latest")) == (tip, images)
    server.heal()
    assert "0 built, 1 reused" in settled(alone).out
    promises.check()


# -- row 4


def test_a_server_that_stalls_in_the_middle_of_a_pack_is_left(
    alone: Stage, server: FaultProxy, promises: Promises
) -> None:
    # Half a minute: git's own limit for a silent connection, which no test can shorten.
    noise = random.Random(1).randbytes(300_000)  # noqa: S311  (hides nothing, and does not get smaller)
    (alone.work / "pools/worker/files/amd64/noise").write_bytes(noise)
    alone.commit("Add something large")
    before = alone.tip(), promises.builds()
    server.on(Cut(after=100_000, how=End.SILENCE), "POST", "git-upload-pack", times=None)
    said = alone.once()
    assert said.status == 1
    assert server.host in said.err
    assert gone(str(alone.root / "cache")), "a git process was left behind"
    assert (alone.tip(), promises.builds()) == before
    server.heal()
    settled(alone)
    promises.check()
    assert not list((alone.root / "cache").rglob("tmp_*"))


# -- row 5


def test_a_push_whose_reply_is_lost_is_recognised(
    alone: Stage, server: FaultProxy, promises: Promises
) -> None:
    tune(alone, "one\n")
    server.on(DropReply(), *PUSH)
    settled(alone)
    assert len(promises.commits()) == 2
    tune(alone, "two\n")
    hook(alone.bare, "post-receive", "kill -9 $PPID")
    settled(alone)
    (alone.bare / "hooks/post-receive").unlink()
    assert len(promises.commits()) == 3
    assert len(server.requests(*PUSH)) == 3
    assert "nothing to write" in settled(alone).out
    promises.check()


def test_a_push_that_nobody_can_be_asked_about_is_recognised_by_the_next_run(
    alone: Stage, server: FaultProxy, promises: Promises
) -> None:
    tune(alone, "new\n")
    server.on(DropReply(then=lambda: server.on(Answer(502), times=None)), *PUSH)
    said = alone.once()
    assert said.status == 1
    assert "502" in said.err
    assert len(promises.commits()) == 2, "the branch moved"
    latest = alone.manifest(f"{alone.host}/os/worker:latest")
    server.heal()
    assert "0 built, 1 reused" in settled(alone).out
    assert alone.manifest(f"{alone.host}/os/worker:latest") != latest, "the tag follows the commit"
    assert len(promises.commits()) == 2
    promises.check()


# -- row 7


def test_a_history_that_was_rewritten_is_derived_again_and_rebuilds_nothing(
    alone: Stage, server: FaultProxy, promises: Promises
) -> None:
    tune(alone, "new\n")
    settled(alone)
    built, old = promises.builds(), alone.record("worker")
    # The author takes back the status and rewrites every commit before it.
    alone.git("fetch", "--quiet")
    alone.git("checkout", "--quiet", "--orphan", "again")
    alone.git("rm", "--quiet", "-r", "--cached", "--ignore-unmatch", "status")
    alone.git("commit", "--quiet", "--message", "Begin again")
    alone.git("push", "--quiet", "--force", "origin", "again:main")
    print(settled(alone))
    promises.check(rewritten=1)
    assert promises.builds() == built
    assert alone.record("worker").image == old.image
    assert alone.run("git", "--git-dir", str(alone.bare), "rev-list", "--count", "main").strip() == "2"
    assert "nothing to write" in settled(alone).out
    assert server.requests(*PUSH)


def test_a_deleted_branch_is_an_error_and_nothing_else(
    alone: Stage, server: FaultProxy, promises: Promises
) -> None:
    built, tip = promises.builds(), alone.tip()
    count = len(server.requests(*PUSH))
    ref = ["git", "--git-dir", str(alone.bare), "update-ref"]
    alone.run(*ref, "-d", "refs/heads/main")
    said = alone.once()
    assert said.status == 1
    assert "has no branch 'main'" in said.err
    assert len(server.requests(*PUSH)) == count, "nobody asked for the branch to be made again"
    alone.run(*ref, "--create-reflog", "refs/heads/main", tip)
    assert "nothing to write" in settled(alone).out
    promises.check()
    assert promises.builds() == built


# -- row 8


def test_locks_and_damage_in_the_mirror_cost_nothing_but_a_transfer(
    alone: Stage, server: FaultProxy, promises: Promises
) -> None:
    (mirror,) = mirrors(alone)
    for number, damage in enumerate(("locks", "pack", "refs", "everything")):
        if damage == "locks":
            for name in ("packed-refs.lock", "config.lock", "shallow.lock", "HEAD.lock"):
                (mirror / name).touch()
            for ref in [path for path in (mirror / "refs").rglob("*") if path.is_file()]:
                ref.with_name(f"{ref.name}.lock").touch()
        elif damage == "pack":
            for pack in mirror.glob("objects/pack/*.pack"):
                pack.chmod(0o600)
                os.truncate(pack, pack.stat().st_size // 2)
        elif damage == "refs":
            for path in (mirror / "refs").rglob("*"):
                if path.is_file():
                    path.write_text("nonsense\n")
        else:
            alone.run("rm", "-rf", str(mirror.parent))
        tune(alone, f"{number}\n")
        assert "1 built" in settled(alone).out, damage
    fetches = len(server.requests("POST", "git-upload-pack"))
    assert "nothing to write" in settled(alone).out
    assert len(server.requests("POST", "git-upload-pack")) - fetches <= 2, "what was healed is whole"
    promises.check()


def test_a_lock_on_the_server_is_waited_for_within_limits(
    alone: Stage, server: FaultProxy, promises: Promises
) -> None:
    tune(alone, "new\n")
    lock = alone.bare / "refs/heads/main.lock"
    tip = alone.tip()
    lock.touch()
    count = len(server.requests(*PUSH))
    said = alone.once()
    assert said.status == 1
    assert "Traceback" not in said.err
    assert alone.tip() == tip
    assert len(server.requests(*PUSH)) - count <= 25
    lock.unlink()
    assert "0 built, 1 reused" in settled(alone).out
    promises.check()


# -- row 9


def test_a_protected_branch_is_asked_once_a_run_and_another_one_is_taken(
    alone: Stage, server: FaultProxy, promises: Promises
) -> None:
    hook(alone.bare, "update", '[ "$1" != refs/heads/main ] || { echo main is protected; exit 1; }')
    alone.git("config", "core.hooksPath", "/dev/null")
    tuned = (alone.work / "pools/worker/files/amd64/tuning.conf").write_text("new\n")
    assert tuned
    alone.git("commit", "--quiet", "--all", "--message", "Tune")
    alone.git("pull", "--quiet", "--rebase")
    (alone.bare / "hooks/update").chmod(0o600)
    alone.git("push", "--quiet", "origin", "main")
    (alone.bare / "hooks/update").chmod(0o755)
    tip = alone.tip()
    for _ in range(2):
        count = len(server.requests(*PUSH))
        said = alone.once()
        assert said.status == 1
        assert "main does not take the status commit" in said.err
        assert "main is protected" in said.err
        assert len(server.requests(*PUSH)) - count == 1
        assert alone.tip() == tip
    alone.config.write_text(alone.config.read_text() + "writeBack: {branch: machine-os/status}\n")
    settled(alone)
    assert alone.tip() == tip
    promises.check_builds()
    record = alone.record("worker", "machine-os/status")
    assert alone.manifest(f"{alone.host}/os/worker:latest") == alone.manifest(record.image)
    assert "nothing to write" in settled(alone).out
