"""One pull request per branch and target, whatever gets lost on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.adapters.forge import HttpForge
from reconciler.errors import ForgeError, ForgeUnavailable
from reconciler.ports.forge import Proposal, Stage
from tests.servers.forge import PullRequest, Reply, TestForge

BRANCH = "reconciler/default/main"


def other(forge: TestForge, number: int, **how: object) -> None:
    """Put a pull request there that somebody opened."""
    forge.pulls[number] = replace(PullRequest(number, "4" * 40, branch=BRANCH), **how)  # type: ignore[arg-type]


def ours(forge: TestForge) -> list[PullRequest]:
    """Those from the branch."""
    return [pull for pull in forge.pulls.values() if pull.branch == BRANCH]


def test_one_is_opened_edited_found_and_closed(client: HttpForge, forge: TestForge) -> None:
    assert client.proposal(BRANCH, "main") is None
    assert client.past_proposal(BRANCH, "main") is None
    made = client.propose(BRANCH, "main", "Update worker", "one\ntwo\n")
    assert made.stage is Stage.OPEN
    assert made.name == ("!8" if forge.kind == "gitlab" else "#8")
    assert made.url.endswith("/8")
    found = client.proposal(BRANCH, "main")
    assert found is not None
    assert (found.number, found.title, found.body.split()) == (8, "Update worker", ["one", "two"])
    edited = client.revise(8, "Update infra", "three")
    assert (edited.title, edited.body.strip(), edited.stage) == ("Update infra", "three", Stage.OPEN)
    client.revise(8, "Update infra", "over", close=True)
    assert client.proposal(BRANCH, "main") is None
    past = client.past_proposal(BRANCH, "main")
    assert past is not None
    assert (past.stage, past.body.strip()) == (Stage.CLOSED, "over")


def test_only_ours_is_found(client: HttpForge, forge: TestForge) -> None:
    """Anybody can call the branch of a fork like that, and a request may be for another target."""
    other(forge, 20, fork=True)
    other(forge, 21, target="release")
    other(forge, 22, branch=f"{BRANCH}-2")
    assert client.proposal(BRANCH, "main") is None
    other(forge, 9)
    found = client.proposal(BRANCH, "main")
    assert found is not None
    assert found.number == 9


def test_of_those_that_are_past_the_last_counts(client: HttpForge, forge: TestForge) -> None:
    other(forge, 9, open=False, merged="5" * 40)
    other(forge, 12, open=False)
    other(forge, 13, open=False, target="release")
    assert _past(client).stage is Stage.CLOSED
    other(forge, 14, open=False, merged="5" * 40)
    assert (_past(client).number, _past(client).stage) == (14, Stage.MERGED)


def _past(client: HttpForge) -> Proposal:
    found = client.past_proposal(BRANCH, "main")
    assert found is not None
    return found


def test_more_than_a_page_of_others_hides_nothing(client: HttpForge, forge: TestForge) -> None:
    other(forge, 8)
    for number in range(100, 260):
        forge.pulls[number] = PullRequest(number, "4" * 40, branch="change")
    found = client.proposal(BRANCH, "main")
    assert found is not None
    assert found.number == 8


@pytest.mark.parametrize("lost", [Reply(0, hang_up=True), Reply(502, {"message": "proxy"})])
def test_a_lost_answer_makes_no_second_one(client: HttpForge, forge: TestForge, lost: Reply) -> None:
    path = "merge_requests" if forge.kind == "gitlab" else "pulls"
    forge.answer(lost, f"POST /{path}", after=True)
    assert client.propose(BRANCH, "main", "Update worker", "text").number == 8
    assert len(ours(forge)) == 1
    assert forge.rules[0].left == 0


def test_an_answer_that_never_comes_is_looked_for_at_the_end(client: HttpForge, forge: TestForge) -> None:
    path = "merge_requests" if forge.kind == "gitlab" else "pulls"
    away = Reply(503, {"message": "later"})
    forge.answer(away, f"POST /{path}", times=3)
    forge.answer(Reply(0, hang_up=True), f"POST /{path}", after=True)
    assert client.propose(BRANCH, "main", "Update worker", "text").number == 8
    assert len(ours(forge)) == 1


def test_somebody_who_was_faster_is_joined(client: HttpForge, forge: TestForge) -> None:
    other(forge, 9, title="By hand")
    assert client.propose(BRANCH, "main", "Update worker", "text").title == "By hand"
    assert len(ours(forge)) == 1


def test_what_is_refused_is_told(client: HttpForge, forge: TestForge) -> None:
    forge.tip_of = lambda _: ""
    with pytest.raises(ForgeError, match="opening a pull request from reconciler/default/main into main"):
        client.propose(BRANCH, "main", "Update worker", "text")
    with pytest.raises(ForgeError, match="is more than"):
        client.propose(BRANCH, "main", "Update worker", "x" * (client.comment_limit + 1))
    with pytest.raises(ForgeError, match="editing pull request 99"):
        client.revise(99, "a", "b")


def test_a_forge_that_is_down_is_told_so(client: HttpForge, forge: TestForge) -> None:
    forge.answer(Reply(503, {"message": "later"}), times=50)
    with pytest.raises(ForgeUnavailable):
        client.proposal(BRANCH, "main")
