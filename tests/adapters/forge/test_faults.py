"""What forges do when they cannot, will not, or are not what they seem."""

from __future__ import annotations

import email.utils
import json

import pytest

from reconciler.adapters.forge import HttpForge
from reconciler.adapters.forge.retry import BUDGET, TRIES
from reconciler.adapters.forge.wire import api_url
from reconciler.errors import Disposition, ForgeError, ForgeUnavailable
from reconciler.ports.forge import State, Status
from tests.adapters.forge.conftest import DIALECTS, HEAD, PULL, Connect
from tests.adapters.registry.support import Answer, StillClock, scripted, silent_port
from tests.servers.forge import REPOSITORY, Reply, TestForge

GREEN = Status("reconciler/default", State.SUCCESS, "nothing to build")
BUSY = Reply(502, {"message": "Bad Gateway"})
GONE = Reply(hang_up=True)


@pytest.mark.parametrize("fault", [BUSY, Reply(500, b"<html>"), Reply(408), Reply(409), Reply(429), GONE])
def test_what_passes_is_waited_for(
    client: HttpForge, forge: TestForge, clock: StillClock, fault: Reply
) -> None:
    forge.answer(fault, times=TRIES - 1)
    assert client.pull(7).head == HEAD
    assert len(clock.slept) == TRIES - 1


def test_what_does_not_pass_is_given_up(client: HttpForge, forge: TestForge, clock: StillClock) -> None:
    forge.answer(BUSY, times=99)
    with pytest.raises(
        ForgeUnavailable, match=r"pull request 7: .* answered 502 .*Bad Gateway.*tried 4 times"
    ) as caught:
        client.pull(7)
    assert caught.value.disposition is Disposition.RETRY
    assert len(forge.asked) == TRIES
    assert sum(clock.slept) < BUDGET


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 422, 501])
def test_a_no_is_not_asked_again(client: HttpForge, forge: TestForge, clock: StillClock, status: int) -> None:
    forge.answer(Reply(status, {"message": "No.\x1b[31m", "errors": [{"message": "never"}, "nor now"]}))
    with pytest.raises(
        ForgeError, match=rf"answered {status} to GET .*\(No. \[31m; never; nor now\)"
    ) as caught:
        client.pull(7)
    assert not isinstance(caught.value, ForgeUnavailable)
    assert (len(forge.asked), clock.slept) == (1, [])


@pytest.mark.parametrize("status", [403, 429])
def test_a_forge_that_names_a_time_gets_it(
    client: HttpForge, forge: TestForge, clock: StillClock, status: int
) -> None:
    forge.answer(Reply(status, {"message": "slow down"}, {"Retry-After": "77"}))
    at = email.utils.formatdate(clock.now() + 77 + 33, usegmt=True)
    forge.answer(Reply(status, {"message": "slow down"}, {"Retry-After": at}))
    client.pull(7)
    assert clock.slept == [77.0, 33.0]


@pytest.mark.parametrize(
    ("status", "prefix"), [(403, "X-RateLimit"), (429, "X-RateLimit"), (429, "RateLimit")]
)
def test_a_spent_budget_is_waited_for_until_it_is_renewed(
    client: HttpForge, forge: TestForge, clock: StillClock, status: int, prefix: str
) -> None:
    headers = {f"{prefix}-Remaining": "0", f"{prefix}-Reset": str(int(clock.now()) + 100)}
    forge.answer(Reply(status, {"message": "API rate limit exceeded"}, headers))
    client.pull(7)
    assert clock.slept == [101.0]


def test_a_secondary_limit_that_says_no_time_is_given_a_minute(
    client: HttpForge, forge: TestForge, clock: StillClock
) -> None:
    forge.answer(
        Reply(
            403, {"message": "You have exceeded a secondary rate limit."}, {"X-RateLimit-Remaining": "4000"}
        )
    )
    client.set_status(PULL, GREEN)
    assert clock.slept == [60.0]


def test_a_forge_that_wants_us_to_wait_for_an_hour_is_left_alone(
    client: HttpForge, forge: TestForge, clock: StillClock
) -> None:
    forge.answer(Reply(429, {"message": "later"}, {"Retry-After": "3600"}))
    with pytest.raises(ForgeUnavailable, match="asks to wait 3600 s"):
        client.pull(7)
    assert (len(forge.asked), clock.slept) == (1, [])


def test_a_comment_whose_answer_got_lost_is_made_once(client: HttpForge, forge: TestForge) -> None:
    for after in (GONE, BUSY):
        forge.comments.clear()
        forge.say("a preview\n\nof something", forge.other)
        line = "notes" if forge.kind == "gitlab" else "comments"
        forge.answer(
            after, f"POST /{'merge_requests' if forge.kind == 'gitlab' else 'issues'}/7/{line}", after=True
        )
        made = client.create_comment(7, "a preview\n\nof something")
        assert [said.user for said in forge.comments] == [forge.other, forge.user]
        assert made.id == forge.comments[1].id


def test_a_comment_that_never_came_is_made_again(client: HttpForge, forge: TestForge) -> None:
    forge.answer(GONE, "POST ", times=2)
    client.create_comment(7, "a preview")
    assert [said.body for said in forge.comments] == ["a preview"]


def test_a_comment_that_came_with_the_last_try_is_found(client: HttpForge, forge: TestForge) -> None:
    forge.answer(GONE, "POST ", times=TRIES - 1)
    forge.answer(GONE, "POST ", after=True)
    assert client.create_comment(7, "a preview").id == forge.comments[0].id


def test_a_page_that_fails_is_asked_for_again_and_none_is_read_twice(
    client: HttpForge, forge: TestForge
) -> None:
    for number in range(120):
        forge.say(str(number))
    forge.rules.clear()
    found = client.comments(7)
    first = next(found)
    forge.answer(BUSY, "GET ")
    assert [first.body, *(c.body for c in found)] == [str(n) for n in range(120)]


def test_a_list_without_end_is_left(client: HttpForge, forge: TestForge) -> None:
    forge.answer(Reply(200, [], {"Link": '</x?page=2>; rel="next"'}), times=999)
    with pytest.raises(ForgeError, match="more than 200 pages"):
        list(client.comments(7))
    assert len(forge.asked) == 200


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[1", b"[" * 100_000, b"{}", b"[]", b"null", b'{"number": true}']
)
def test_an_answer_that_is_none_is_said_to_be(connect: Connect, body: bytes) -> None:
    with scripted(lambda _: Answer(200, body)) as server, pytest.raises(ForgeError, match="its answer"):
        connect(f"http://{server.host}").pull(7)


@pytest.mark.parametrize("entry", [None, 1, [], {}, {"id": "1"}, {"id": True}])
def test_a_list_of_other_things_is_refused(connect: Connect, entry: object) -> None:
    with scripted(lambda _: Answer(200, json.dumps([entry]).encode())) as server:
        client = connect(f"http://{server.host}")
        with pytest.raises(ForgeError, match="has no 'id' that can be read"):
            list(client.comments(7))
    with (
        scripted(lambda _: Answer(200, b'{"message": "hello"}')) as server,
        pytest.raises(ForgeError, match="no list"),
    ):
        list(connect(f"http://{server.host}").comments(7))


def test_an_endless_answer_is_not_read_to_its_end(connect: Connect) -> None:
    with scripted(lambda _: Answer(200, b" " * (33 << 20))) as server:
        with pytest.raises(ForgeError, match="larger than"):
            connect(f"http://{server.host}").pull(7)
        assert len(server.asked) == 1


def test_a_compressed_answer_is_refused(connect: Connect) -> None:
    with (
        scripted(lambda _: Answer(200, b"x", {"Content-Encoding": "gzip"})) as server,
        pytest.raises(ForgeError, match="compresses"),
    ):
        connect(f"http://{server.host}").pull(7)


def test_silence_is_not_waited_for(connect: Connect) -> None:
    with silent_port() as host, pytest.raises(ForgeUnavailable, match="no answer in time"):
        connect(f"http://{host}", timeout=0.2).pull(7)


def test_a_repository_that_was_renamed_is_followed_on_the_same_forge(
    client: HttpForge, forge: TestForge
) -> None:
    dialect = DIALECTS[forge.kind](REPOSITORY)
    old = forge.url + dialect.pull(7).path
    forge.answer(Reply(301, {"message": "Moved Permanently"}, {"Location": old}))
    assert client.pull(7).head == HEAD
    to = forge.url + dialect.set_status(PULL, GREEN).path
    forge.answer(Reply(307, {"message": "Temporary Redirect"}, {"Location": to}), "POST ")
    client.set_status(PULL, GREEN)
    assert len(forge.set) == 1


def test_a_write_is_not_made_a_read_by_a_redirect(client: HttpForge, forge: TestForge) -> None:
    forge.answer(Reply(302, {}, {"Location": forge.url + "/user"}), "POST ")
    with pytest.raises(ForgeError, match="answered 302"):
        client.set_status(PULL, GREEN)


def test_redirects_that_lead_nowhere_or_in_a_circle_end(client: HttpForge, forge: TestForge) -> None:
    forge.answer(Reply(301, {}))
    with pytest.raises(ForgeError, match="without saying where to"):
        client.pull(7)
    forge.answer(Reply(301, {}, {"Location": forge.url + "/user"}), times=9)
    with pytest.raises(ForgeError, match="more than 3 times"):
        client.pull(7)


@pytest.mark.parametrize(
    "url",
    [
        "http://git.example.com/api/v4", "ftp://127.0.0.1", "git.example.com", "/api", "https://", "https://[",
        "https://x:99999", "https://a b", "https://\ud800", "https://user:secret@git.example.com", "https://x/#y",
        "https://git.example.com/?private_token=secret",
    ],
)  # fmt: skip
def test_a_url_that_no_token_may_be_sent_to_is_refused(url: str) -> None:
    with pytest.raises(ForgeError) as caught:
        api_url(url)
    assert "secret" not in f"{caught.value} {caught.value.hint}"
