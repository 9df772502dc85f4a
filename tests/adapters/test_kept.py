"""The file of finished analysis: whatever happens to it costs time and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reconciler.adapters.git.objects import LocalObjects
from reconciler.adapters.kept import KeptInFile
from reconciler.core.catalogue import FileReading
from reconciler.core.inputs import Analysis
from reconciler.core.model import Arch, Base, Dialect, Needs
from reconciler.core.plan import Action, Cell, PoolPlan
from reconciler.core.status import ArchRecord, PoolRecord
from reconciler.errors import Fault
from reconciler.reconcile import keeping
from reconciler.reconcile.baseline import Baseline, Standing
from reconciler.reconcile.history import History
from reconciler.reconcile.preview import Preview
from reconciler.reconcile.targets import Scope
from tests.adapters.git.support import clone_of, commit
from tests.fakes import FakeObjects
from tests.unit.definitions import config, mosc

FILES = {
    "reconciler.yaml": config(),
    "p/os.yaml": mosc("worker"),
    "p/Containerfile": "FROM quay.io/os/base:1\n",
}


def test_what_was_put_is_there_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kept.sqlite"
    values = {f"key {n}": b"\0%d" % n for n in range(1200)}
    with KeptInFile(path, "1") as kept:
        kept.put(values)
        kept.put({"key 1": b"new"})
    with KeptInFile(path, "1") as kept:
        assert kept.get(values.keys() | {"unknown"}) == values | {"key 1": b"new"}


def test_it_may_be_used_from_any_thread(tmp_path: Path) -> None:
    with KeptInFile(tmp_path / "kept.sqlite", "1") as kept:

        def use(number: int) -> bytes | None:
            kept.put({f"key {number}": b"%d" % number})
            return kept.get([f"key {number}"]).get(f"key {number}")

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(use, range(200))) == [b"%d" % number for number in range(200)]


def test_another_edition_of_the_code_finds_nothing(tmp_path: Path) -> None:
    with KeptInFile(tmp_path / "k", "1") as one, KeptInFile(tmp_path / "k", "2") as two:
        one.put({"a": b"1"})
        assert two.get(["a"]) == {}
        assert one.get(["a"]) == {"a": b"1"}


def test_a_damaged_file_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    path.write_bytes(b"this is no database at all" * 100)
    with KeptInFile(path, "1") as kept:
        kept.put({"a": b"1"})
        assert kept.get(["a"]) == {"a": b"1"}


def test_a_value_whose_bytes_tipped_over_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    value = b"sha256:0123456789"
    with KeptInFile(path, "1") as kept:
        kept.put({"a": value, "b": b"whole", "c": b""})
    with sqlite3.connect(path) as connection:
        (stored,) = connection.execute("SELECT value FROM kept WHERE key = '1/a'").fetchone()
    assert value in stored
    for at in range(len(stored)):
        damaged = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
        for content in (damaged, stored[:at], "text"):
            with sqlite3.connect(path) as connection:
                connection.execute("UPDATE kept SET value = ? WHERE key = '1/a'", (content,))
            with KeptInFile(path, "1") as kept:
                assert kept.get(["a", "b", "c"]) == {"b": b"whole", "c": b""}


def test_a_place_that_cannot_be_used_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with KeptInFile(tmp_path / "file" / "kept.sqlite", "1") as kept:
        kept.put({"a": b"1"})
        assert kept.get(["a"]) == {}


def test_two_at_once_do_no_harm(tmp_path: Path) -> None:
    with KeptInFile(tmp_path / "k", "1") as one, KeptInFile(tmp_path / "k", "1") as two:
        one.put({"a": b"1"})
        two.put({"b": b"2"})
        assert one.get(["a", "b"]) == two.get(["a", "b"]) == {"a": b"1", "b": b"2"}


@dataclass
class Counting(FakeObjects):
    """Counts the blobs that are read."""

    read: int = 0

    def blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """As the fake, counted."""
        wanted = list(oids)
        self.read += len(wanted)
        return super().blobs(wanted)


def test_an_unchanged_definition_is_not_analysed_again(tmp_path: Path) -> None:
    objects = Counting()
    head = objects.add(FILES)

    def digests() -> list[str]:
        with KeptInFile(tmp_path / "kept", "1") as kept:
            history = History(objects, kept=kept)
            (pool,) = history.catalogue(head).pools
            return [history.inputs(pool, arch, "").definition for arch in Arch]

    first, objects.read = digests(), 0
    assert digests() == first
    assert objects.read == 1, "reconciler.yaml alone is read again"
    (tmp_path / "kept").unlink()
    assert digests() == first


def test_a_real_repository_is_planned_from_what_was_kept_as_without(tmp_path: Path) -> None:
    work = clone_of(tmp_path / "work")
    files = {f"clusters/one/{path}": str(text).encode() for path, text in FILES.items()}
    other = {"clusters/one/q/os.yaml": mosc("infra", inline="FROM quay.io/os/base:1\n").encode()}
    first = commit(work, files | other | {"clusters/two/reconciler.yaml": b"a: ["})
    second = commit(work, {"clusters/one/p/Containerfile": b"FROM quay.io/os/base:2\n", "README.md": b"x"})
    third = commit(
        work, {"clusters/one/new/os.yaml": mosc("new", inline="FROM quay.io/os/base:1\n").encode()}
    )
    objects = LocalObjects.open(work / "clusters" / "one")
    for base, head, builds in ((first, first, 0), (first, second, 2), (second, first, 2), (second, third, 2)):
        with KeptInFile(tmp_path / "kept", "1") as kept:
            history = History(objects, objects.prefix, kept=kept)
            made = Preview(history, Scope(), worth=1).plan(head, base)
        assert made == Preview(History(objects, objects.prefix), Scope()).plan(head, base)
        assert made.summary[Action.BUILD] == builds
        assert not made.errors


def test_another_engine_finds_nothing_of_this_one() -> None:
    objects = FakeObjects()
    (pool,) = History(objects).catalogue(objects.add(FILES)).pools
    assert keeping.pool_key(pool, "1") != keeping.pool_key(pool, "2")


@given(st.binary(max_size=300))
def test_anything_else_in_the_file_counts_as_absent(content: bytes) -> None:
    assert keeping.read_reading(content) is None or content.strip() == b"[]"
    assert isinstance(keeping.read_analyses(content), dict)
    assert keeping.read_baseline(content) is None


def test_an_analysis_comes_back_as_it_was() -> None:
    needs = Needs(True, ("BUILDARCH",), (Dialect((1, 33), "p", 3, "a heredoc"),))
    made = Analysis(
        Arch.S390X, "sha256:1", (("q.io/a:1", Arch.AMD64),), True, needs, ("V",), (Fault("p", 1, "m", "h"),)
    )
    assert keeping.read_analyses(keeping.write_analyses({Arch.S390X: made})) == {Arch.S390X: made}


def test_a_reading_comes_back_as_it_was() -> None:
    files = {
        "os.yaml": mosc("w", inline="FROM q.io/a:1\n", annotations="reconciler.machineos.dev/refresh: x")
    }
    objects = FakeObjects()
    (pool,) = History(objects).catalogue(objects.add(files)).pools
    reading = FileReading((pool.definition,))
    content = keeping.write_reading(reading)
    assert content is not None
    assert keeping.read_reading(content) == reading


def test_a_baseline_comes_back_as_it_was() -> None:
    cell = Cell(Arch.ARM64, Action.REUSE, (), "sha256:1", "sha256:1", None, "r.io/w@sha256:2")
    bare = Cell(Arch.AMD64, Action.REUSE, (), "sha256:1", "sha256:1")
    folder = "p/\udcff"  # a name that is not UTF-8
    warnings = (Fault(folder, 1, "m", "h"),)
    plan = PoolPlan("w", f"{folder}/os.yaml", (bare, cell), warnings)
    made = Baseline(
        "1" * 40,
        "status",
        (
            Standing("w", folder, "r.io/w:1", True, plan),
            Standing("x", "q", "r.io/x:1", False, PoolPlan("x", "q/os.yaml", ())),
            Standing("y", "r", "r.io/y:1", False, None),
        ),
        frozenset({"w", "y"}),
        frozenset({"machines/a.yaml"}),
    )
    assert keeping.read_baseline(keeping.write_baseline(made)) == made


def test_a_baseline_has_a_key_of_all_that_it_depends_on() -> None:
    asked = [
        ("r", "f", "e", both, fallback) for both in ((), (Arch.AMD64,)) for fallback in ((), (Arch.AMD64,))
    ]
    asked += [("s", "f", "e", (), ()), ("r", "g", "e", (), ()), ("r", "f", "d", (), ())]
    keys = {keeping.baseline_key(*one) for one in asked}
    keys |= {keeping.baseline_key("r", "f", "e", (), (), cluster) for cluster in ("", "x")}
    assert len(keys) == len(asked) + 1


def test_a_record_comes_back_as_it_was() -> None:
    entry = ArchRecord(Arch.AMD64, "r@sha256:1", "i", "d", "c", "n=1", (Base("q.io/a:1", "sha256:2"),))
    record = PoolRecord("w", "default", "1", "r@sha256:3", "c", (entry,))
    assert keeping.read_record(keeping.write_record(record)) == record
    assert keeping.read_record(b"{}") is None
