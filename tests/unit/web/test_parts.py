"""The small parts: what is remembered, held back, given up, and read from files."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from pathlib import Path
from threading import Event
from threading import enumerate as enumerate_threads

import pytest

from reconciler.settings import WebhookType
from reconciler.web.pools import OTHER, Pools
from reconciler.web.protocol import Exit
from reconciler.web.question import NoAnswer, Question
from reconciler.web.secret_files import NoSecret, read_secret
from reconciler.web.sparing import Sparing
from reconciler.web.webhook import Deliveries

GITHUB, GITLAB = WebhookType.GITHUB, WebhookType.GITLAB


def test_a_delivery_is_known_by_sender_source_and_id() -> None:
    seen = Deliveries(10)
    seen.add(GITHUB, "east", b"1")
    assert seen.has(GITHUB, "east", b"1")
    for other in ((GITLAB, "east", b"1"), (GITHUB, "west", b"1"), (GITHUB, "east", b"2")):
        assert not seen.has(*other)


def test_no_more_deliveries_are_remembered_than_there_is_room_for() -> None:
    seen = Deliveries(100)
    for number in range(10_000):
        seen.add(GITHUB, "east", b"%d" % number + b"x" * 30_000)
        assert seen.has(GITHUB, "east", b"0" + b"x" * 30_000), "what keeps coming is not forgotten"
    assert len(seen) == 100
    assert not seen.has(GITHUB, "east", b"5000" + b"x" * 30_000)


def test_what_is_remembered_does_not_grow_with_the_ids() -> None:
    seen = Deliveries(10)
    seen.add(GITHUB, "east", b"x" * 30_000)
    ((key, _),) = seen._seen.items()
    assert sys.getsizeof(key) < 100


def test_a_delivery_without_an_id_is_never_known() -> None:
    seen = Deliveries(10)
    seen.add(GITHUB, "east", b"")
    assert not seen.has(GITHUB, "east", b"")
    assert len(seen) == 0


def record(
    message: str, *args: object, level: int = logging.WARNING, error: bool = False
) -> logging.LogRecord:
    info = (ValueError, ValueError("x"), None) if error else None
    return logging.LogRecord("n", level, "p", 1, message, args, info)


def test_the_same_is_said_once_in_a_while() -> None:
    now = [100.0]
    sparing = Sparing(60, lambda: now[0])
    assert sparing.filter(record("refused %s", "a"))
    assert not sparing.filter(record("refused %s", "a"))
    assert sparing.filter(record("refused %s", "b"))
    now[0] += 59
    assert not sparing.filter(record("refused %s", "a"))
    now[0] += 1
    assert sparing.filter(record("refused %s", "a"))
    assert not sparing.filter(record("refused %s", "a"))


def test_what_is_no_complaint_or_a_fault_of_ours_is_always_said() -> None:
    sparing = Sparing(60, lambda: 0.0)
    for _ in range(3):
        assert sparing.filter(record("accepted", level=logging.INFO))
        assert sparing.filter(record("failed", level=logging.ERROR, error=True))


def test_many_different_complaints_take_no_more_room() -> None:
    sparing = Sparing(60, lambda: 0.0)
    for number in range(10_000):
        assert sparing.filter(record("refused %s", number))
    assert len(sparing._said) <= 256


def test_pools_find_room_when_others_are_gone() -> None:
    pools = Pools(["east"], 2)
    assert [pools.label(pool) for pool in ("a", "b", "c", "a")] == ["a", "b", OTHER, "a"]
    assert pools.settle("east", {"b", "c"}) == ["a"]
    assert [pools.label(pool) for pool in ("c", "d")] == ["c", OTHER]


def test_a_new_pool_stays_until_all_repositories_have_spoken() -> None:
    pools = Pools(["east", "west"], 10)
    pools.label("new")
    assert pools.settle("east", set()) == []
    assert pools.settle("east", set()) == []
    assert pools.settle("west", set()) == ["new"]


def test_a_known_pool_is_gone_with_its_last_repository() -> None:
    pools = Pools(["east", "west"], 10)
    pools.label("both")
    assert pools.settle("west", {"both"}) == []
    assert pools.settle("east", {"both"}) == []
    assert pools.settle("west", set()) == []
    assert pools.settle("east", set()) == ["both"]


def test_a_call_is_made_anew_for_who_asks_later() -> None:
    numbers = iter(range(10))

    async def ask() -> list[int]:
        question = Question(lambda: next(numbers), 30)
        return [await question.ask() for _ in range(3)]

    assert asyncio.run(ask()) == [0, 1, 2]


def test_the_error_of_a_call_is_raised() -> None:
    def fail() -> None:
        raise TimeoutError("the call's own")

    with pytest.raises(TimeoutError, match="own"):
        asyncio.run(Question(fail, 30).ask())


def test_all_who_ask_while_a_call_lasts_share_it() -> None:
    let_go, calls = Event(), []

    def hang() -> str:
        calls.append(1)
        let_go.wait()
        return "done"

    async def ask() -> None:
        hasty, patient = Question(hang, 0.05), Question(hang, 30)
        for _ in range(3):
            with pytest.raises(NoAnswer, match="no answer within"):
                await hasty.ask()
        assert len(calls) == 1
        waiting = [asyncio.ensure_future(patient.ask()) for _ in range(10)]
        await asyncio.sleep(0)
        let_go.set()
        assert await asyncio.gather(*waiting) == ["done"] * 10
        assert len(calls) == 2

    asyncio.run(asyncio.wait_for(ask(), 30))


@pytest.mark.parametrize("loop_goes_on", [True, False])
def test_an_error_that_comes_when_all_have_given_up_harms_nobody(
    loop_goes_on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    let_go, ended = Event(), Event()

    def hang() -> None:
        let_go.wait()
        ended.set()
        raise ValueError("nobody hears this")

    async def ask() -> None:
        with pytest.raises(NoAnswer):
            await Question(hang, 0.05).ask()
        if loop_goes_on:
            let_go.set()
            while any(thread.name == "web-call" for thread in enumerate_threads()):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0)

    asyncio.run(ask())
    let_go.set()
    assert ended.wait(30)
    gc.collect()
    assert not caplog.records


class Line(asyncio.Transport):
    """A transport that remembers what was done with it."""

    def __init__(self, *, broken: bool = False) -> None:
        super().__init__()
        self.broken, self.done = broken, list[str]()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.done.append(f"write {bytes(data).decode()}")

    def resume_reading(self) -> None:
        self.done.append("read")

    def write_eof(self) -> None:
        if self.broken:
            raise OSError("not connected")
        self.done.append("eof")

    def close(self) -> None:
        self.done.append("close")

    def abort(self) -> None:
        self.done.append("abort")

    def is_closing(self) -> bool:
        return "close" in self.done or "abort" in self.done


def test_a_connection_is_closed_on_our_side_first_and_once() -> None:
    line = Line()
    way_out = Exit(line)
    way_out.write(b"answer")
    assert not way_out.is_closing()
    way_out.close()
    assert way_out.is_closing()
    way_out.write(b"more")
    way_out.close()
    assert line.done == ["write answer", "read", "eof"]


def test_a_connection_that_is_gone_is_not_closed_again() -> None:
    line = Line()
    way_out = Exit(line)
    way_out.finish()
    way_out.close()
    assert line.done == ["close"]


def test_a_peer_that_vanished_is_left_at_once() -> None:
    line = Line(broken=True)
    Exit(line).close()
    assert line.done == ["read", "abort"]


def test_a_secret_is_what_a_file_says_without_its_last_newline(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    for content in (b"s3cret", b"s3cret\n", b"s3cret\r\n", b"  s3cret \n\n"):
        path.write_bytes(content)
        assert read_secret(path) == b"s3cret"
    path.write_bytes(b"\xff two words\n")
    assert read_secret(path) == b"\xff two words"


def test_a_file_without_a_secret_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b" \n")
    (tmp_path / "large").write_bytes(b"x" * 70_000)
    (tmp_path / "folder").mkdir()
    for name, problem in (
        ("gone", "No such file"), ("folder", "Is a directory"), ("empty", "empty"), ("large", "larger than"),
    ):  # fmt: skip
        with pytest.raises(NoSecret, match=problem) as caught:
            read_secret(tmp_path / name)
        assert str(tmp_path / name) in caught.value.message
        assert caught.value.hint
