from __future__ import annotations

from threading import Barrier, Thread

import pytest

from reconciler.daemon.inbox import Inbox, Trigger
from tests.unit.daemon.scene import PATIENCE, together


def test_everything_that_is_pending_is_taken_at_once_and_only_once() -> None:
    inbox = Inbox()
    for trigger in (Trigger.POLL, Trigger.ASKED, Trigger.POLL):
        inbox.put(trigger)
    assert inbox.take(PATIENCE) == {Trigger.POLL, Trigger.ASKED}
    assert inbox.take(0) == frozenset()


@pytest.mark.parametrize("seconds", [0.0, -5.0, 0.01])
def test_when_there_is_nothing_the_wait_ends(seconds: float) -> None:
    assert Inbox().take(seconds) == frozenset()


def test_a_reader_that_waits_is_woken() -> None:
    inbox, taken = Inbox(), list[frozenset[Trigger]]()
    reader = Thread(target=lambda: taken.append(inbox.take(PATIENCE)), daemon=True)
    reader.start()
    inbox.put(Trigger.WEBHOOK)
    reader.join(PATIENCE)
    assert taken == [{Trigger.WEBHOOK}]


def test_closing_wakes_the_reader_too_and_nobody_waits_any_more() -> None:
    inbox, taken = Inbox(), list[frozenset[Trigger]]()
    reader = Thread(target=lambda: taken.append(inbox.take(PATIENCE)), daemon=True)
    reader.start()
    inbox.close()
    reader.join(PATIENCE)
    assert taken == [frozenset()]
    assert inbox.take(10 * PATIENCE) == frozenset()


def test_what_was_put_before_the_end_can_still_be_taken() -> None:
    inbox = Inbox()
    inbox.put(Trigger.BUILD)
    inbox.close()
    assert inbox.take(PATIENCE) == {Trigger.BUILD}


def test_no_trigger_is_lost_between_many_writers_and_one_reader() -> None:
    inbox, rounds = Inbox(), 200
    triggers = list(Trigger)
    begin = Barrier(len(triggers) + 1, timeout=PATIENCE)
    missed = []

    def write(trigger: Trigger) -> None:
        for _ in range(rounds):
            begin.wait()
            inbox.put(trigger)

    def read() -> None:
        for number in range(rounds):
            begin.wait()
            wanted = set(triggers)
            while wanted and (found := inbox.take(PATIENCE)):
                wanted -= found
            if wanted:
                missed.append((number, wanted))

    together(read, *(lambda one=one: write(one) for one in triggers))
    assert missed == []
    assert inbox.take(0) == frozenset()


def test_nothing_piles_up_while_nobody_reads() -> None:
    inbox = Inbox()

    def write() -> None:
        for _ in range(1000):
            inbox.put(Trigger.WEBHOOK)

    together(*[write] * 4)
    assert inbox.take(0) == {Trigger.WEBHOOK}
    assert inbox.take(0) == frozenset()
