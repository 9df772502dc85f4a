"""What becomes of a build's output."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from reconciler.adapters.builders import console
from reconciler.adapters.builders.console import Console


def test_steps_are_followed_in_whatever_pieces_they_arrive(tmp_path: Path) -> None:
    output = Console(tmp_path / "x.log")
    seen = []
    for piece in (
        b"==> pulling b\n",
        b"STE",
        b"P 1/2: FROM b\nhello",
        b"\n[1/2] STEP 2/2: RUN \x1b[1mx\x1b[0m\r\n",
    ):
        output.feed(piece)
        seen.append(output.step)
    output.feed(b"==> the definition cannot be built")
    output.close()
    assert seen == ["pulling b", "pulling b", "STEP 1/2: FROM b", "[1/2] STEP 2/2: RUN x"]
    assert (output.step, output.instruction) == ("the definition cannot be built", "[1/2] STEP 2/2: RUN x")
    assert output.tail().splitlines()[-3:] == [
        "hello",
        "[1/2] STEP 2/2: RUN x",
        "==> the definition cannot be built",
    ]
    assert b"\x1b[1mx" in output.path.read_bytes()


def test_messages_stay_small_and_plain_whatever_is_printed(tmp_path: Path) -> None:
    output = Console(tmp_path / "x.log")
    output.feed(b"\n\n" + b"x" * 5_000_000)
    output.feed(b"\nbar 1%\rbar 100%\r\n\x1b]0;title\x07\xff\x00\x9b31m\n" + b"y" * 1000 + b"\n" * 50)
    output.close()
    lines = output.tail().splitlines()
    assert [len(line) for line in lines] == [400, 8, 5, 400]
    assert lines[1:3] == ["bar 100%", "\ufffd\ufffd31m"]


def test_a_log_has_a_limit(tmp_path: Path) -> None:
    output = Console(tmp_path / "x.log")
    for _ in range(20):
        output.feed(b"z" * 2**20)
    output.feed(b"\nSTEP 1/1: still followed\n")
    output.close()
    assert output.path.read_bytes()[2**24 :] == b"\n[log cut after 16777216 bytes]\n"
    assert output.step == "STEP 1/1: still followed"


def test_a_log_never_writes_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "x.log").symlink_to(target)
    output = Console(tmp_path / "x.log")
    output.feed(b"new\n")
    output.close()
    assert target.read_text() == "kept"
    assert (tmp_path / "x.log").read_text() == "new\n"


def test_builds_of_one_name_in_two_builders_both_get_a_log(tmp_path: Path) -> None:
    def use(_: int) -> None:
        Console(tmp_path / "x.log").close()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(use, range(2000)))
    assert [path.name for path in tmp_path.iterdir()] == ["x.log"]


def test_the_newest_hundred_logs_are_kept(tmp_path: Path) -> None:
    for at in range(103):
        log = tmp_path / f"{at}.log"
        log.touch()
        os.utime(log, (at, at))
    (tmp_path / "other").touch()
    console.prune(tmp_path, {tmp_path / "0.log"})
    assert {path.name for path in tmp_path.iterdir()} == {
        "other",
        "0.log",
        *(f"{at}.log" for at in range(3, 103)),
    }
