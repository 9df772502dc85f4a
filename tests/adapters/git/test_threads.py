"""One mirror, shared by the threads of a daemon."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from reconciler.adapters.git.command import Git
from reconciler.adapters.git.mirror import Mirror
from reconciler.adapters.git.store import Store
from reconciler.errors import GitUnavailable
from reconciler.ports import PushOutcome
from tests.adapters.git.support import commit, git, place, remote_with, truncate_pack, until
from tests.servers.git_http import git_http


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return remote_with(tmp_path, {"a": b"1", "dir/b": b"22"})[0]


def test_threads_may_share_a_mirror(server: Path, tmp_path: Path) -> None:
    mirror = Mirror(str(server), tmp_path / "cache")
    head = mirror.fetch("main")
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda: made.append(mirror.commit(head, {"s": b"1"}, "Record", 1)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(made)) == 1


def test_threads_share_a_mirror_that_is_lost_under_them(server: Path, tmp_path: Path) -> None:
    author, cache = tmp_path / "author", tmp_path / "cache"
    for branch in ("one", "two", "three"):
        commit(author, {"a": branch.encode()})
        git(author, "push", "--quiet", "origin", f"HEAD:{branch}")
    mirror = Mirror(str(server), cache)
    problems: list[BaseException] = []
    begun = threading.Barrier(5)
    turns: list[str] = []

    def work(branch: str) -> None:
        try:
            begun.wait(30)
            for turn in range(6):
                head = mirror.fetch(branch)
                entries = mirror.tree(head)
                assert dict(mirror.blobs(e.oid for e in entries)).keys() == {e.oid for e in entries}
                assert mirror.heads([branch]) == {branch: head}
                while True:
                    made = mirror.commit(mirror.fetch(branch), {"s": b"%d" % turn}, "Record", turn)
                    try:
                        if mirror.push(branch, made).outcome is PushOutcome.DONE:
                            break
                    except GitUnavailable:  # the commit was lost with the mirror before it was pushed
                        continue
                assert mirror.fetch(branch) == made
                assert mirror.parents(made)
                turns.append(branch)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=[branch]) for branch in ("main", "one", "two", "three")]
    for thread in threads:
        thread.start()
    begun.wait(30)
    lost = 0
    while any(thread.is_alive() for thread in threads):
        # Not while the last loss is being mended: what is lost again at once is an error.
        if len(turns) >= 8 * (lost + 1) - 4 and list(cache.rglob("*.pack")):
            truncate_pack(place(cache))
            lost += 1
        time.sleep(0.005)
    for thread in threads:
        thread.join()
    assert problems == []
    assert lost
    assert git(place(cache), "fsck", "--no-dangling") == ""


def test_a_reader_waits_for_another_thread_to_mend(server: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with git_http(tmp_path) as web:
        mirror = Mirror(f"{web.url}/{server.name}", cache)
        head = mirror.fetch("main")
        truncate_pack(place(cache))
        web.requests.clear()
        web.held = "git-upload-pack"
        found: list[object] = []
        problems: list[BaseException] = []

        def read() -> None:
            try:
                found.append(mirror.tree(head))
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        threads[0].start()
        assert until(lambda: bool(web.requests))  # the mirror is empty now, and being filled
        threads[1].start()
        time.sleep(0.5)
        web.held = ""
        for thread in threads:
            thread.join()
    assert problems == []
    assert found[0] == found[1]


def test_writers_in_two_threads_take_turns(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    inside: list[str] = []
    stores = [Store(folder, Git(Store.git_dir(folder), 30)) for _ in range(2)]

    def work(number: int) -> None:
        for _ in range(5):
            with stores[number % 2].locked():
                inside.append(f"in {number}")
                time.sleep(0.01)
                inside.append(f"out {number}")

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(inside) == 40
    for begin, end in zip(inside[::2], inside[1::2], strict=True):
        assert (begin[:2], end[:3], begin[3:]) == ("in", "out", end[4:])
