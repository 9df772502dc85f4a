"""The test forge itself: what GitLab is strict about, where none of our requests gets to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.forge import BASES, Asked, PullRequest, Reply, TestForge, running

OWN, FORKED = "a" * 40, "b" * 40


@pytest.fixture
def forge() -> Iterator[TestForge]:
    """With a merge request from a branch of the project, and one from a fork."""
    with running("gitlab") as one:
        one.pulls[7] = PullRequest(7, OWN)
        one.pulls[8] = PullRequest(8, FORKED, fork=True, branch="theirs")
        yield one


def ask(forge: TestForge, method: str, path: str, query: str = "", **body: Any) -> Reply:
    headers = {"authorization": f"Bearer {forge.token}"}
    at = f"{BASES['gitlab']}/projects/acme%2Fmachine-os{path}"
    return forge.serve(Asked(method, at, query, headers, body if method != "GET" else None))


def test_a_status_without_a_branch_goes_to_one_of_the_project(forge: TestForge) -> None:
    assert ask(forge, "POST", f"/statuses/{OWN}", state="pending").status == 201
    refused = ask(forge, "POST", f"/statuses/{FORKED}", state="pending")
    assert (refused.status, refused.body) == (404, {"message": "404 References for commit Not Found"})
    assert ask(forge, "POST", f"/statuses/{FORKED}", state="pending", ref="theirs").status == 201
    assert ask(forge, "POST", f"/statuses/{FORKED}", state="success").status == 201
    assert [one.ref for one in forge.set] == ["change", "theirs", "theirs"]
    assert forge.faults == []


def test_statuses_are_kept_by_branch(forge: TestForge) -> None:
    for ref in ("one", "other"):
        assert ask(forge, "POST", f"/statuses/{OWN}", state="pending", ref=ref, name="x").status == 201
        assert ask(forge, "POST", f"/statuses/{OWN}", state="pending", ref=ref, name="x").status == 400
    listed = ask(forge, "GET", f"/repository/commits/{OWN}/statuses")
    assert len(listed.body) == 2
    assert len(ask(forge, "GET", f"/repository/commits/{OWN}/statuses", "ref=one").body) == 1


def test_what_was_skipped_has_ended(forge: TestForge) -> None:
    for _ in range(2):
        assert ask(forge, "POST", f"/statuses/{OWN}", state="skipped", context="x").status == 201
    assert [one.context for one in forge.set] == ["x", "x"]
    assert forge.faults == []


@pytest.mark.parametrize("member", ["ref", "target_url", "description", "name", "context"])
def test_what_a_status_says_is_short(forge: TestForge, member: str) -> None:
    for length in (255, 256):
        ask(forge, "POST", f"/statuses/{OWN}", **{"state": "success", member: "x" * length})
        assert len(forge.faults) == length - 255


def test_an_edit_changes_something(forge: TestForge) -> None:
    ask(forge, "PUT", "/merge_requests/7", title="Other")
    assert forge.faults == []
    ask(forge, "PUT", "/merge_requests/7")
    assert len(forge.faults) == 1


@pytest.mark.parametrize("query", ["", "&per_page=100"])
def test_a_page_has_twenty_entries_unless_asked_for_more(forge: TestForge, query: str) -> None:
    for number in range(10, 40):
        forge.pulls[number] = PullRequest(number, OWN)
    assert len(ask(forge, "GET", "/merge_requests", f"state=opened{query}").body) == (32 if query else 20)
