"""The port, on all three forges: what it asks for, and what it makes of the answers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reconciler.adapters.forge import Gitea, GitHub, GitLab, HttpForge
from reconciler.core.comment import LIMITS
from reconciler.errors import ForgeError
from reconciler.ports import Request
from reconciler.ports.forge import Pull, State, Status
from tests.adapters.forge.conftest import DIALECTS, HEAD, PULL, Connect
from tests.adapters.registry.support import Answer, scripted
from tests.servers.forge import PullRequest, Reply, TestForge
from tests.servers.forge_actions import User

GREEN = Status("reconciler/default", State.SUCCESS, "0 of 2 images would be built.")


def test_a_pull_request_is_read(client: HttpForge, forge: TestForge) -> None:
    where = "refs/merge-requests" if forge.kind == "gitlab" else "refs/pull"
    author = "mallory" if forge.kind == "github" else "8"
    assert client.pull(7) == replace(PULL, author=author, ref=f"{where}/7/head")
    forge.pulls[8] = PullRequest(
        8, HEAD, "Other", "stable", open=False, fork=True, labels=("os", "a, b"), branch="x/y"
    )
    other = Pull(8, "Other", HEAD, "stable", is_open=False, is_fork=True, author=author, branch="x/y")
    labels = frozenset({"os", "a, b"})
    assert client.pull(8) == replace(other, labels=labels, ref=f"{where}/8/head")
    forge.pulls[8] = replace(forge.pulls[8], merged="3" * 40)
    merged = client.pull(8)
    assert (merged.merged, merged.branch) == ("3" * 40, "x/y")


def test_all_open_pull_requests_into_a_branch_are_listed(client: HttpForge, forge: TestForge) -> None:
    del forge.pulls[7]
    for number in range(1, 251):
        forge.pulls[number] = PullRequest(
            number, HEAD, target="stable" if number % 50 == 3 else "main", open=number % 50 != 4
        )
    wanted = [number for number in range(250, 0, -1) if number % 50 not in (3, 4)]
    assert [pull.number for pull in client.pulls("main")] == wanted
    assert len(forge.asked) == (5 if forge.kind == "gitea" else 3)
    assert {pull.target for pull in client.pulls("stable")} == {"stable"}


def test_one_odd_pull_request_does_not_hide_the_others(client: HttpForge, forge: TestForge) -> None:
    forge.pulls[8] = PullRequest(8, HEAD)
    list(client.pulls("main"))
    listed = forge.exchanges[-1][1].body
    odd = [{**listed[0], "number": 9, "iid": 9, "sha": None, "head": None}, "?", listed[0], *listed]
    forge.answer(Reply(200, odd), "GET /")
    assert [pull.number for pull in client.pulls("main")] == [8, 7]


@pytest.mark.parametrize("head", ["", "main", "--upload-pack=x", HEAD[:39], HEAD.upper() + "A", f"{HEAD}\n"])
def test_a_head_that_is_no_commit_is_refused(connect: Connect, forge: TestForge, head: str) -> None:
    said = {"number": 7, "iid": 7, "title": "", "state": "open", "sha": head, "target_branch": "main"}
    said |= {"head": {"sha": head}, "base": {"ref": "main"}}
    with scripted(lambda _: Answer(200, json.dumps(said).encode())) as server:
        with pytest.raises(ForgeError, match="no commit as 'sha'"):
            connect(f"http://{server.host}").pull(7)
        assert forge.asked == []


def test_a_comment_is_made_found_and_edited_in_place(client: HttpForge, forge: TestForge) -> None:
    made = client.create_comment(7, "one\ntwo\n")
    assert made.author == client.who()
    client.edit_comment(7, made.id, "three\n")
    assert [(c.id, c.author, c.body.strip()) for c in client.comments(7)] == [(made.id, made.author, "three")]
    assert forge.comments[0].edits == 1


def test_all_comments_are_read_however_many_pages_there_are(client: HttpForge, forge: TestForge) -> None:
    ids = [forge.say(f"comment {n}", forge.other).id for n in range(250)]
    assert [comment.id for comment in client.comments(7)] == ids
    asked = [line for line in forge.lines() if "comments" in line or "notes" in line]
    assert len(asked) == (1 if forge.kind == "gitea" else 3)


def test_authors_are_told_apart(client: HttpForge, forge: TestForge) -> None:
    forge.say("by another", forge.other)
    forge.say("by a look-alike", User(9, f"{forge.user.login}-"))
    forge.say("ours")
    assert [c.body for c in client.comments(7) if c.author == client.who()] == ["ours"]


def test_what_the_forge_itself_says_is_no_comment(client: HttpForge, forge: TestForge) -> None:
    forge.say("changed the title", system=True)
    assert list(client.comments(7)) == []


def test_it_is_asked_once_who_we_are(client: HttpForge, forge: TestForge) -> None:
    assert {client.who() for _ in range(3)} == {client.who()}
    assert forge.lines() == ["GET /user"]


@pytest.mark.parametrize("forge", ["github"], indirect=True)
def test_an_app_learns_its_name_another_way(client: HttpForge, forge: TestForge) -> None:
    forge.is_app, forge.user = True, User(41898282, "GitHub-Actions[bot]")
    assert client.who() == "github-actions[bot]"
    assert client.create_comment(7, "hello").author == "github-actions[bot]"
    assert forge.lines()[:2] == ["GET /user", "POST /graphql"]


@pytest.mark.parametrize("forge", ["github"], indirect=True)
def test_a_deleted_account_is_nobody(client: HttpForge, forge: TestForge) -> None:
    forge.say("by a ghost", User(10137, ""))
    assert [c.author for c in client.comments(7)] == [""]


def test_a_status_is_set_and_read_back(client: HttpForge, forge: TestForge) -> None:
    for state in State:
        client.set_status(PULL, Status("reconciler/default", state, state.value))
    red = Status("reconciler/default", State.FAILURE, "failure")
    assert client.statuses(PULL) == (red,)
    client.set_status(PULL, Status("reconciler/default/worker", State.PENDING, ""))
    assert set(client.statuses(PULL)) == {red, Status("reconciler/default/worker", State.PENDING, "")}
    assert client.statuses(replace(PULL, head="f" * 40)) == ()
    assert forge.standing()["reconciler/default"] == ("failed" if forge.kind == "gitlab" else "failure")


@pytest.mark.parametrize("head", ["a" * 40, HEAD])
def test_a_status_names_the_branch_where_that_is_asked_for(
    client: HttpForge, forge: TestForge, head: str
) -> None:
    """GitLab keeps statuses by branch, and finds none of its own for what only a fork has."""
    forge.pulls[8] = PullRequest(8, head, fork=True, branch="their/branch")
    pull = client.pull(8)
    for state in (State.PENDING, State.PENDING, State.SUCCESS):
        client.set_status(pull, Status("reconciler/default", state, ""))
    sent = [asked.body for asked in forge.asked if asked.method == "POST"]
    members = {"github": {"context"}, "gitea": {"context"}, "gitlab": {"name", "ref"}}[forge.kind]
    assert all(set(body) == {"state", "description"} | members for body in sent)
    assert all(body.get("ref", "their/branch") == "their/branch" for body in sent)
    assert [status.state for status in client.statuses(pull)] == [State.SUCCESS]


@pytest.mark.parametrize("forge", ["gitlab"], indirect=True)
def test_merge_requests_of_one_commit_have_statuses_of_their_own(client: HttpForge, forge: TestForge) -> None:
    forge.pulls[8] = PullRequest(8, HEAD, fork=True, branch="other")
    client.set_status(PULL, Status("reconciler/default", State.PENDING, ""))
    client.set_status(client.pull(8), GREEN)
    client.set_status(PULL, Status("reconciler/default", State.PENDING, ""))
    assert [status.state for status in client.statuses(PULL)] == [State.PENDING]
    assert client.statuses(client.pull(8)) == (GREEN,)


@pytest.mark.parametrize("forge", ["gitlab"], indirect=True)
def test_a_branch_whose_name_is_too_long_is_not_named(client: HttpForge, forge: TestForge) -> None:
    for length in (255, 256):
        client.set_status(replace(PULL, branch="ä" * length), GREEN)
    assert ["ref" in asked.body for asked in forge.asked] == [True, False]
    forge.pulls[8] = PullRequest(8, "a" * 40, fork=True, branch="x" * 256)
    with pytest.raises(ForgeError, match="404 References for commit Not Found"):
        client.set_status(client.pull(8), GREEN)


def test_the_last_of_many_statuses_counts(client: HttpForge, forge: TestForge) -> None:
    for number in range(130):
        client.set_status(PULL, Status(f"reconciler/{number % 120}", State.SUCCESS, str(number)))
    found = {status.context: status.description for status in client.statuses(PULL)}
    assert len(found) == 120
    assert (found["reconciler/5"], found["reconciler/15"]) == ("125", "15")
    assert any("page=2" in asked.query for asked in forge.asked)


def test_a_status_that_somebody_else_has_set_is_not_ours(client: HttpForge, forge: TestForge) -> None:
    client.set_status(PULL, GREEN)
    ours, forge.user = forge.user, forge.other
    client.set_status(PULL, GREEN)
    forge.user = ours
    assert client.statuses(PULL) == ()


def test_to_set_what_is_set_is_no_error(client: HttpForge) -> None:
    """GitLab refuses it; then it is asked whether it is so."""
    for _ in range(2):
        client.set_status(PULL, Status("reconciler/default", State.PENDING, "wait"))
    assert [status.state for status in client.statuses(PULL)] == [State.PENDING]


def test_a_long_description_is_cut_to_what_is_taken(client: HttpForge) -> None:
    client.set_status(PULL, Status("reconciler/default", State.SUCCESS, "x" * 500))
    assert client.statuses(PULL)[0].description == "x" * 140


def test_a_comment_above_the_limit_is_not_sent(client: HttpForge, forge: TestForge) -> None:
    made = client.create_comment(7, "ä" * (client.comment_limit // 2))
    forge.asked.clear()
    with pytest.raises(ForgeError, match="bytes is more than"):
        client.create_comment(7, "ä" * (client.comment_limit // 2) + "x")
    with pytest.raises(ForgeError, match="bytes is more than"):
        client.edit_comment(7, made.id, "x" * (client.comment_limit + 1))
    assert forge.asked == []


def test_comments_are_made_for_the_limit_that_is_held() -> None:
    assert {name: dialect.comment_limit for name, dialect in DIALECTS.items()} == LIMITS


def test_every_request_is_told_of(connect: Connect) -> None:
    told: list[Request] = []
    client = connect(on_request=told.append)
    client.pull(7)
    client.set_status(PULL, GREEN)
    with pytest.raises(ForgeError):
        client.pull(9)
    assert told == [
        Request("forge", "GET", "200"),
        Request("forge", "POST", "201"),
        Request("forge", "GET", "404"),
    ]


@pytest.mark.parametrize("dialect", [GitHub, GitLab, Gitea])
@pytest.mark.parametrize(
    "name", ["", "acme", "acme/", "/os", "acme/..", "acme/o s", "acme/os?x", "a/../../user", "a/%2e"]
)
def test_a_repository_that_has_no_place_in_a_url_is_refused(
    dialect: type[GitHub] | type[GitLab] | type[Gitea], name: str
) -> None:
    with pytest.raises(ForgeError, match="is no repository's name"):
        dialect(name)


def test_only_gitlab_has_groups_in_groups() -> None:
    assert GitLab("a/b/c").pull(1).path == "/projects/a%2Fb%2Fc/merge_requests/1"
    for dialect in (GitHub, Gitea):
        with pytest.raises(ForgeError, match="on this forge"):
            dialect("a/b/c")


def test_what_is_no_commit_is_refused(client: HttpForge, forge: TestForge) -> None:
    with pytest.raises(ForgeError, match="not the full id"):
        client.set_status(replace(PULL, head="main/../../x"), GREEN)
    with pytest.raises(ForgeError, match="not the full id"):
        client.statuses(replace(PULL, head="HEAD"))
    assert not any("statuses" in line for line in forge.lines())
