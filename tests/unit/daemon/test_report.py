from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from reconciler.core.model import Arch
from reconciler.core.plan import Plan
from reconciler.core.status import PoolRecord
from reconciler.daemon.report import Previews, Problem, Report, changes, document
from reconciler.errors import Fault, GitUnavailable, RegistryUnavailable, UnverifiedCommit
from reconciler.ports import Cause, Phase
from reconciler.reconcile.pending import Ask
from reconciler.reconcile.proposing import Proposed
from reconciler.reconcile.reconciler import Result
from reconciler.reconcile.rollout import Nodes, Progress
from reconciler.reconcile.state import Image, State
from reconciler.reconcile.writing import Written
from tests.unit.daemon.scene import A, B, build, result

SCHEMA = json.loads((Path(__file__).parents[3] / "schemas" / "daemon-status.json").read_text())
DIGEST = "sha256:" + "d" * 64
FULL = Result(
    Plan(None, A, (), errors=(Fault("a.yaml", 3, "is wrong", "mend it"),)),
    written=Written(B, (PoolRecord("worker", "default", "1", f"r@{DIGEST}", A, ()),), ("worker",)),
    warnings=(Fault("status/a.yaml", 0, "is odd"),),
    problems=(RegistryUnavailable("busy", hint="wait"), RegistryUnavailable("denied")),
    images=(
        Image("worker", Arch.AMD64, State.CURRENT, f"r@{DIGEST}"),
        Image("worker", Arch.ARM64, State.BLOCKED, why="no such file"),
    ),
)
NO_ANSWER = GitUnavailable("no answer", hint="look at the network")


def test_a_new_report_knows_nothing_and_is_not_ready() -> None:
    report = Report("repo")
    assert not report.ready
    assert report.trouble is None


def test_a_pass_that_went_through_says_everything() -> None:
    report = Report("repo").after(FULL, 1000.0)
    assert report.ready
    assert (report.head, report.at, report.written) == (A, 1000.0, B)
    assert report.problems == ("busy (wait)", "denied")
    assert [str(fault) for fault in report.faults] == [
        "a.yaml:3: is wrong (mend it)",
        "status/a.yaml: is odd",
    ]
    assert report.images == FULL.images


def test_the_last_commit_made_stays_known() -> None:
    assert Report("repo").after(FULL, 1000.0).after(result(), 1001.0).written == B


def test_a_problem_keeps_the_time_at_which_it_began_as_long_as_it_is_the_same() -> None:
    report = Report("repo").troubled(NO_ANSWER, 10.0).troubled(NO_ANSWER, 20.0)
    assert report.problem == Problem("GitUnavailable", "no answer", "look at the network", 10.0)
    other = report.troubled(GitUnavailable("refused"), 30.0)
    assert other.problem
    assert other.problem.since == 30.0


def test_what_polls_run_into_ends_with_the_next_poll_and_what_passes_run_into_with_a_pass() -> None:
    unverified = UnverifiedCommit("is not signed")
    report = Report("repo").troubled(unverified, 10.0).cut_off(NO_ANSWER, 20.0)
    assert report.trouble
    assert report.trouble.message == "is not signed"
    assert report.reached().trouble == report.problem
    assert report.reached().reached() == report.reached()
    gone = report.after(result(), 30.0)
    assert gone.problem is None
    assert gone.trouble
    assert gone.trouble.message == "no answer"
    assert gone.reached().trouble is None


def test_a_repository_that_was_ready_stays_so() -> None:
    assert Report("repo").after(result(), 1.0).troubled(NO_ANSWER, 2.0).ready


def test_builds_are_shown_as_they_are_now() -> None:
    images = (
        Image("worker", Arch.AMD64, State.QUEUED),
        Image("worker", Arch.ARM64, State.QUEUED),
        Image("worker", Arch.S390X, State.FAILED),
    )
    builds = [
        build("a", Phase.RUNNING, Arch.AMD64),
        build("b", Phase.PENDING, Arch.ARM64),
        build("c", Phase.RUNNING, Arch.S390X),
    ]
    report = replace(Report("repo"), images=images).with_builds(iter(builds))
    assert [image.state for image in report.images] == [State.BUILDING, State.QUEUED, State.FAILED]
    assert report.builds == tuple(builds)
    assert report.with_builds(builds) == report


def test_changes_tell_only_what_is_new(caplog: pytest.LogCaptureFixture) -> None:
    before = Report("repo")
    after = before.after(FULL, 1.0)
    found = list(changes(before, after, FULL))
    assert [(level, text) for level, text, _ in found] == [
        (logging.WARNING, "busy (wait)"),
        (logging.WARNING, "denied"),
        (logging.WARNING, "a.yaml:3: is wrong (mend it)"),
        (logging.WARNING, "status/a.yaml: is odd"),
        (logging.WARNING, "no such file"),
        (logging.INFO, "committed"),
        (logging.INFO, "tagged"),
    ]
    again = replace(FULL, written=Written())
    assert list(changes(after, after.after(again, 2.0), again)) == []
    # Each must be a possible log line: some names of fields belong to the log itself.
    for level, text, fields in found:
        logging.getLogger("test").log(level, text, extra=fields)
    assert caplog.records


def test_nodes_are_told_of_when_they_fail_and_stay_known_until_they_are_looked_at_again() -> None:
    counts = {Progress.DONE: 2, Progress.FAILED: 1}
    failing = replace(FULL, nodes=(Nodes("worker", counts, ("node c is Degraded: full",)),))
    before = Report("repo").after(FULL, 1.0)
    after = before.after(failing, 2.0)
    told = (logging.WARNING, "node c is Degraded: full", {"pool": "worker"})
    assert told in list(changes(before, after, failing))
    later = after.after(replace(FULL, nodes=None), 3.0)
    assert later.nodes == after.nodes
    assert told not in list(changes(after, later, FULL))
    (shown,) = document([later], 1, "1")["repositories"][0]["nodes"]
    assert shown == {
        "pool": "worker",
        "done": 2,
        "pending": 0,
        "failed": 1,
        "problems": ["node c is Degraded: full"],
    }
    Draft202012Validator(SCHEMA).validate(document([later], 1, "1"))
    whole = replace(FULL, nodes=(Nodes("worker", {Progress.DONE: 3}),))
    mended = later.after(whole, 4.0)
    assert (logging.INFO, "no node of the pool fails any more", {"pool": "worker"}) in list(
        changes(later, mended, whole)
    )


ASK = Ask(12, "#12", "https://forge.example.com/12", frozenset({"worker"}))


def asking(ask: Ask, did: str = "") -> Result:
    """A pass that had to do with a pull request."""
    return replace(FULL, written=Written(proposed=Proposed(ask, B, did)), problems=(), images=())


def test_a_pull_request_is_told_of_when_it_is_opened_or_declined_and_shown_as_long_as_it_waits() -> None:
    known = Report("repo").after(FULL, 1.0)
    opened = known.after(asking(ASK, "opened"), 2.0)
    ((_, text, fields),) = changes(known, opened, asking(ASK, "opened"))
    assert (text, fields["request"], fields["pools"]) == ("opened a pull request", "#12", ["worker"])
    assert opened.ask == ASK
    waits = opened.after(asking(ASK), 3.0)
    assert list(changes(opened, waits, asking(ASK))) == []
    no = asking(replace(ASK, declined=True))
    declined = waits.after(no, 4.0)
    ((level, text, _),) = changes(waits, declined, no)
    assert (level, text.startswith("#12 was closed without a merge")) == (logging.WARNING, True)
    assert list(changes(declined, declined.after(no, 5.0), no)) == []
    closed = replace(ASK, pools=frozenset())
    assert declined.after(asking(closed, "closed"), 6.0).ask is None


def test_an_image_is_told_again_when_it_fails_for_another_reason() -> None:
    known = Report("repo").after(FULL, 1.0)
    other = replace(
        FULL, written=Written(), images=(Image("worker", Arch.ARM64, State.BLOCKED, why="no space"),)
    )
    assert [text for _, text, _ in changes(known, known.after(other, 2.0), other)] == ["no space"]


def test_the_end_of_a_problem_is_told() -> None:
    before = Report("repo").troubled(NO_ANSWER, 1.0)
    ((level, text, fields),) = changes(before, before.after(result(), 2.0), result())
    assert (level, text, fields) == (logging.INFO, "recovered", {"from": "no answer"})


@pytest.mark.parametrize(
    "report",
    [
        Report("repo"),
        Report("repo").after(FULL, 1.0),
        Report("repo").after(FULL, 1.0).troubled(NO_ANSWER, 2.0),
        Report("repo").cut_off(NO_ANSWER, 2.0),
        Report("repo", previews=Previews()),
        Report("repo", previews=Previews(5.0, 3, 1, 1, Problem("a", "b", "c", 4.0), ("pull request 7: no",))),
        Report("repo").after(asking(ASK, "opened"), 1.0),
        Report("repo").with_builds(
            [build("a"), build("b", Phase.FAILED, cause=Cause.DEFINITION, finished=3.0)]
        ),
    ],
    ids=["new", "passed", "troubled", "cut off", "no previews yet", "previews", "asking", "building"],
)
def test_every_document_is_as_its_schema_says(report: Report) -> None:
    value = json.loads(json.dumps(document([report, replace(report, name="other")], 7, "1.0")))
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(value)] == []
    one, other = value["repositories"]
    assert (one["name"], other["name"]) == ("repo", "other")
    trouble = report.trouble
    assert one["problem"] == (
        trouble
        and {
            "reason": trouble.reason,
            "message": trouble.message,
            "hint": trouble.hint,
            "since": trouble.since,
        }
    )
