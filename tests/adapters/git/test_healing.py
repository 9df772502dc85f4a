from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.adapters.git.command import Git
from reconciler.adapters.git.mirror import Mirror
from reconciler.adapters.git.store import Store
from reconciler.errors import Disposition, GitError, GitUnavailable, Timeout
from reconciler.ports import PushOutcome
from tests.adapters.git.support import commit, git, hook, place, remote_with, truncate_pack


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return remote_with(tmp_path, {"a": b"1", "dir/b": b"22"})[0]


def lose_pack(repository: Path) -> None:
    for pack in (repository / "objects" / "pack").glob("*.pack"):
        pack.unlink()


def lose_objects(repository: Path) -> None:
    shutil.rmtree(repository / "objects")
    (repository / "objects").mkdir()


def corrupt_a_byte(repository: Path) -> None:
    for pack in (repository / "objects" / "pack").glob("*.pack"):
        pack.chmod(0o600)
        content = bytearray(pack.read_bytes())
        for at in range(12, len(content) - 20):
            content[at] ^= 0xFF
        pack.write_bytes(content)


def break_head(repository: Path) -> None:
    (repository / "HEAD").write_bytes(b"\0\0\0")


def break_config(repository: Path) -> None:
    (repository / "config").write_bytes(b"[core\n")


def break_ref(repository: Path) -> None:
    for ref in (repository / "refs" / "reconciler").iterdir():
        ref.write_bytes(b"")


def remove(repository: Path) -> None:
    shutil.rmtree(repository)


def remove_all(repository: Path) -> None:
    shutil.rmtree(repository.parents[1])


DAMAGES = [
    truncate_pack,
    lose_pack,
    lose_objects,
    corrupt_a_byte,
    break_head,
    break_config,
    break_ref,
    remove,
    remove_all,
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_damaged_mirror_is_made_anew(
    server: Path, tmp_path: Path, damage: Callable[[Path], None], restarted: bool
) -> None:
    cache = tmp_path / "cache"
    mirror = Mirror(str(server), cache)
    head = mirror.fetch("main")
    damage(place(cache))
    if restarted:
        mirror = Mirror(str(server), cache)
    assert mirror.fetch("main") == head
    entries = mirror.tree(head)
    assert dict(mirror.blobs(e.oid for e in entries)).keys() == {e.oid for e in entries}
    made = mirror.commit(head, {"s": b"1"}, "Record", 1)
    assert mirror.history(made, "s") == (made,)
    assert git(place(cache), "fsck", "--connectivity-only", "--no-dangling") == ""


READS: list[Callable[[Mirror, str], object]] = [
    lambda mirror, head: mirror.tree(head),
    lambda mirror, head: mirror.tree(head, "dir"),
    lambda mirror, head: mirror.history(head, "a"),
    lambda mirror, head: mirror.committed_at(head),
    lambda mirror, head: mirror.is_ancestor(head, head),
    lambda mirror, head: mirror.has(head),
    lambda mirror, head: mirror.commit(head, {"s": b"1"}, "Record", 1),
]


@pytest.mark.parametrize("damage", [truncate_pack, corrupt_a_byte, remove_all])
@pytest.mark.parametrize("read", range(len(READS)))
def test_whatever_runs_into_damage_heals_it(
    server: Path, tmp_path: Path, damage: Callable[[Path], None], read: int
) -> None:
    mirror = Mirror(str(server), tmp_path / "cache")
    head = mirror.fetch("main")
    before = READS[read](mirror, head)
    damage(place(tmp_path / "cache"))
    assert READS[read](mirror, head) == before


def test_blobs_go_on_after_healing(server: Path, tmp_path: Path) -> None:
    author = tmp_path / "author"
    commit(author, {f"f{n}": os.urandom(200_000) for n in range(5)})
    git(author, "push", "--quiet", "origin", "HEAD:main")
    mirror = Mirror(str(server), tmp_path / "cache")
    oids = [entry.oid for entry in mirror.tree(mirror.fetch("main"))]
    blobs = mirror.blobs(oids)
    found = [next(blobs)]
    truncate_pack(place(tmp_path / "cache"))
    found += blobs
    assert [oid for oid, _ in found] == oids


def test_damage_that_cannot_be_healed_now_is_healed_later(server: Path, tmp_path: Path) -> None:
    mirror = Mirror(str(server), tmp_path / "cache")
    head = mirror.fetch("main")
    truncate_pack(place(tmp_path / "cache"))
    server.rename(tmp_path / "away")
    with pytest.raises(GitError):
        mirror.tree(head)
    (tmp_path / "away").rename(server)
    assert mirror.fetch("main") == head
    assert len(mirror.tree(head)) == 2


def test_a_sound_mirror_is_not_made_anew(server: Path, tmp_path: Path) -> None:
    mirror = Mirror(str(server), tmp_path / "cache")
    unpushed = mirror.commit(mirror.fetch("main"), {"s": b"1"}, "Record", 1)
    with pytest.raises(GitError):
        mirror.tree("1" * 40)
    with pytest.raises(GitError):
        list(mirror.blobs(["1" * 40]))
    with pytest.raises(GitError):
        mirror.fetch("nope")
    assert mirror.has(unpushed)


def test_locks_and_halves_that_a_killed_git_left(server: Path, tmp_path: Path) -> None:
    mirror = Mirror(str(server), tmp_path / "cache")
    mirror.fetch("main")
    repository = place(tmp_path / "cache")
    ref = next((repository / "refs" / "reconciler").iterdir())
    (repository / "objects" / "ab").mkdir(exist_ok=True)
    left = [
        ref.with_suffix(".lock"),
        repository / "packed-refs.lock",
        repository / "config.lock",
        repository / "shallow.lock",
        repository / "HEAD.lock",
        repository / "objects" / "pack" / "tmp_pack_x",
        repository / "objects" / "ab" / "tmp_obj_x",
    ]
    for path in left:
        path.touch()
    head = commit(tmp_path / "author", {"a": b"2"})
    git(tmp_path / "author", "push", "--quiet", "origin", "HEAD:main")
    assert mirror.fetch("main") == head
    assert not [path for path in left if path.exists()]


PROGRAM = """
import pathlib, sys, time
from reconciler.adapters.git.mirror import Mirror
url, cache, action = sys.argv[1:]
mirror = Mirror(url, pathlib.Path(cache), 30)
print("ready", flush=True)
if action == "commit":
    head = mirror.fetch("main")
    for turn in range(10 ** 6):
        mirror.commit(head, {f"s/{n}": b"%d" % turn for n in range(20)}, "Record", turn)
        print("made", flush=True)
        time.sleep(0.05)
else:
    mirror.fetch("main")
"""


def another(server: Path, cache: Path, action: str) -> subprocess.Popen[bytes]:
    """Another reconciler at work on the same cache."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(server), str(cache), action],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("pause", [0.0, 0.013, 0.027])
def test_killed_in_the_middle_of_a_commit(server: Path, tmp_path: Path, pause: float) -> None:
    with another(server, tmp_path / "cache", "commit") as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(pause)
        process.kill()
    mirror = Mirror(str(server), tmp_path / "cache")
    made = mirror.commit(mirror.fetch("main"), {"s/0": b"x"}, "Record", 1)
    assert len(mirror.tree(made)) == 3
    assert not list((tmp_path / "cache").rglob("tmp_obj*"))


def test_a_git_that_outlives_its_killed_reconciler_keeps_the_lock(server: Path, tmp_path: Path) -> None:
    git(
        server, "config", "uploadpack.packObjectsHook", "x"
    )  # ignored: only protected configuration may name it
    head = commit(tmp_path / "author", {"big": os.urandom(1000)})
    git(tmp_path / "author", "push", "--quiet", "origin", "HEAD:main")
    cache = tmp_path / "cache"
    Mirror(str(server), cache)
    lock = next(cache.glob("*/lock"))
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        child = subprocess.Popen(["sleep", "60"], pass_fds=[held.fileno()])
    try:
        with pytest.raises(Timeout) as caught:
            Mirror(str(server), cache, timeout=0.3)
        assert caught.value.hint
        assert caught.value.disposition is Disposition.RETRY
        assert str(cache) in caught.value.message
    finally:
        child.kill()
        child.wait()
    assert Mirror(str(server), cache, timeout=30).fetch("main") == head


def test_what_a_writer_starts_keeps_the_lock_by_itself(tmp_path: Path) -> None:
    folder, listing = tmp_path / "store", tmp_path / "listing"
    lock = folder / "lock"
    with Store(folder, Git(Store.git_dir(folder), 30)).locked() as git:
        assert git.run("-c", f"alias.list=!ls -l /proc/self/fd > {listing}; true", "list").status == 0
        with lock.open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert str(lock) in listing.read_text()
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_writers_in_two_processes_take_turns(server: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with another(server, cache, "commit") as process:
        mirror = Mirror(str(server), cache)
        head = mirror.fetch("main")
        for turn in range(5):
            mirror.commit(head, {"mine": b"%d" % turn}, "Record", turn)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    assert git(place(cache), "fsck", "--no-dangling") == ""


def test_a_cache_that_cannot_be_written(server: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(GitError, match="cannot be used") as caught:
        Mirror(str(server), tmp_path / "file" / "cache")
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_a_fetch_cut_short_leaves_nothing_half(server: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    author = tmp_path / "author"
    head = commit(author, {f"f{n}": os.urandom(30_000) for n in range(20)})
    git(author, "push", "--quiet", "origin", "HEAD:main")
    hasty = Mirror(str(server), cache, timeout=0.05)
    for _ in range(3):
        try:
            hasty.fetch("main")
        except (GitUnavailable, Timeout):
            continue
    patient = Mirror(str(server), cache)
    assert patient.fetch("main") == head
    assert len(list(patient.blobs(e.oid for e in patient.tree(head)))) == 22


def test_hooks_in_the_mirror_are_never_run(server: Path, tmp_path: Path) -> None:
    mirror = Mirror(str(server), tmp_path / "cache")
    trap = tmp_path / "trapped"
    for name in ("reference-transaction", "pre-push", "post-receive"):
        hook(place(tmp_path / "cache"), name, f"touch {trap}")
    made = mirror.commit(mirror.fetch("main"), {"s": b"1"}, "Record", 1)
    mirror.push("main", made)
    assert not trap.exists()


def test_a_commit_that_was_lost_with_the_mirror_is_not_called_refused(server: Path, tmp_path: Path) -> None:
    mirror = Mirror(str(server), tmp_path / "cache")
    head = mirror.fetch("main")
    made = mirror.commit(head, {"s": b"1"}, "Record", 1)
    truncate_pack(place(tmp_path / "cache"))
    assert mirror.tree(head)
    with pytest.raises(GitUnavailable, match="was lost"):
        mirror.push("main", made)
    assert mirror.push("main", mirror.commit(head, {"s": b"1"}, "Record", 1)).outcome is PushOutcome.DONE


def test_what_somebody_else_mended_counts_as_mended(server: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    one, two = Mirror(str(server), cache), Mirror(str(server), cache)
    head = one.fetch("main")
    blobs = one.blobs(entry.oid for entry in one.tree(head))
    truncate_pack(place(cache))
    assert two.fetch("main") == head
    assert two.tree(head)
    assert len(dict(blobs)) == 2
