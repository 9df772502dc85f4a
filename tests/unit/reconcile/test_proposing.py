"""Write-back as a pull request: opened, updated in place, merged in any way, declined, and broken off anywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.core.plan import Action
from reconciler.core.proposal import key_in
from reconciler.core.status import write_status
from reconciler.errors import ForgeError, GitError
from reconciler.ports import PushOutcome, PushResult
from reconciler.ports.cluster import BuildState
from reconciler.ports.forge import Stage
from reconciler.reconcile import pending
from reconciler.reconcile.history import History
from reconciler.reconcile.state import State
from reconciler.reconcile.trust import authored
from tests.unit.definitions import mosc
from tests.unit.reconcile.bench import BASE, actions
from tests.unit.reconcile.origin import BRANCH, Proposed
from tests.unit.reconcile.test_cluster import FakeCluster, FakeReporter

WAYS = ("squash", "rebase", "merge")


@pytest.fixture
def bench(tmp_path: Path) -> Proposed:
    return Proposed(tmp_path)


def digest(image: str) -> str:
    return image.partition("@")[2]


def test_a_protected_branch_gets_a_request_and_nothing_else(bench: Proposed) -> None:
    main = bench.origin.tip("main")
    result = bench.built()
    assert (result.problems, result.sound, result.settled) == ((), True, True)
    assert (result.written.proposed.did, result.written.commit, result.written.records) == ("opened", "", ())
    assert bench.origin.tip("main") == main
    record = bench.origin.record(BRANCH)
    assert record is not None
    (pull,) = bench.forge.pulls
    assert pull.title == "Update worker"
    for entry in record.architectures:
        assert digest(entry.image)[:15] in pull.body
    assert main in pull.body
    assert bench.tag() is None
    assert {(image.state, image.why) for image in result.images} == {
        (State.TO_MERGE, "waiting for the merge of #1")
    }
    assert result.heads[BRANCH] == bench.origin.tip(BRANCH)
    shown = bench.look()
    assert {image.state for image in shown.images} == {State.TO_MERGE}
    assert shown.ask is not None
    assert shown.ask.why == "waiting for the merge of #1"


def test_a_pass_that_finds_all_as_it_should_be_changes_nothing(bench: Proposed) -> None:
    bench.built()
    tip, body = bench.origin.tip(BRANCH), bench.forge.pulls[0].body
    for _ in range(2):
        again = bench.pass_()
        assert (again.written.proposed.did, actions(again)) == ("", {Action.REUSE})
    assert (bench.origin.tip(BRANCH), bench.forge.pulls[0].body) == (tip, body)
    assert bench.forge.did == ["open"]
    assert bench.started == 2


@pytest.mark.parametrize("way", WAYS)
def test_however_it_is_merged_nothing_is_rebuilt_and_the_tag_follows(bench: Proposed, way: str) -> None:
    bench.built()
    proposed = bench.origin.record(BRANCH)
    authors = bench.origin.commit({"p/notes.txt": "nothing that goes in"})
    bench.pass_()
    bench.origin.merge(way)
    bench.forge.end(Stage.MERGED)
    result = bench.pass_()
    assert authored(bench.mirror, result.plan.head, "status") == authors, "a merge is nobody's work"
    assert (actions(result), result.problems) == ({Action.REUSE}, ())
    assert bench.origin.record("main") == proposed
    assert proposed is not None
    assert bench.tag() == digest(proposed.image)
    assert result.written.tagged == ("worker",)
    assert {image.state for image in result.images} == {State.CURRENT}
    again = bench.pass_()
    assert (again.written.tagged, again.written.proposed.did) == ((), "")
    assert (bench.started, len(bench.forge.pulls)) == (2, 1)
    assert bench.look().ask is None


def test_a_cluster_is_given_what_was_merged(bench: Proposed) -> None:
    reporter = FakeReporter()
    bench.cluster, bench.reporters = FakeCluster(), (reporter,)
    bench.built()
    assert {report.image for report in reporter.told} == {""}
    bench.origin.merge("squash")
    bench.forge.end(Stage.MERGED)
    bench.pass_()
    record = bench.origin.record("main")
    assert record is not None
    assert (reporter.told[-1].image, reporter.told[-1].state) == (record.image, BuildState.SUCCEEDED)


def test_locked_bases_stay_as_proposed_while_it_waits(bench: Proposed) -> None:
    locked = mosc("worker", annotations="reconciler.machineos.dev/bases: locked")
    bench.origin.commit({"p/os.yaml": locked})
    bench.built()
    record = bench.origin.record(BRANCH)
    assert record is not None
    bench.push_base("second")
    bench.built()
    assert bench.origin.record(BRANCH) == record
    assert bench.started == 2
    bench.origin.commit({"p/files/arm64/x": "new"})
    bench.built()
    later = bench.origin.record(BRANCH)
    assert later is not None
    assert [entry.bases for entry in later.architectures] == [entry.bases for entry in record.architectures]
    assert bench.started == 3


def test_an_image_that_waits_is_found_though_its_tag_is_gone(bench: Proposed) -> None:
    bench.built()
    bench.origin.merge("squash")
    bench.forge.end(Stage.MERGED)
    bench.origin.commit({"p/files/arm64/x": "new"})
    bench.built()
    for repository, tag in list(bench.registry.manifests):
        if tag.startswith("worker-"):
            del bench.registry.manifests[repository, tag]
    assert actions(bench.pass_()) == {Action.REUSE}
    assert bench.started == 3


def test_what_somebody_recorded_since_counts_more_than_what_was_proposed(bench: Proposed) -> None:
    bench.built()
    branches, path = (BRANCH, "main"), "status"

    def found() -> pending.Pending:
        tip = bench.mirror.fetch("main")
        return pending.find(bench.forge, bench.mirror, History(bench.mirror), branches, (tip, path))

    record = bench.origin.record(BRANCH)
    assert record is not None
    assert found().records == {"worker": record}
    bench.origin.commit({"p/notes.txt": "nothing that goes in"})
    assert found().records == {"worker": record}
    bench.origin.commit({"status/worker.yaml": write_status(replace(record, instance="other")).decode()})
    assert (found().records, found().request) == ({}, bench.forge.pulls[0])


def test_a_newer_commit_updates_branch_and_request_in_place(bench: Proposed) -> None:
    bench.built()
    first, first_record, body = (
        bench.origin.tip(BRANCH),
        bench.origin.record(BRANCH),
        bench.forge.pulls[0].body,
    )
    main = bench.origin.commit({"p/files/arm64/x": "new"})
    building = bench.pass_()
    assert building.in_flight
    assert bench.origin.run("rev-parse", f"{bench.origin.tip(BRANCH)}^", cwd=bench.origin.bare) == main
    assert bench.origin.record(BRANCH) == first_record, "it stays while its next version is built"
    assert bench.forge.pulls[0].stage is Stage.OPEN
    result = bench.built()
    assert result.written.proposed.did == "updated"
    assert bench.started == 3
    assert bench.origin.run("rev-parse", f"{bench.origin.tip(BRANCH)}^", cwd=bench.origin.bare) == main
    assert bench.origin.tip(BRANCH) != first
    assert bench.forge.pulls[0].body != body
    assert len(bench.forge.pulls) == 1


def test_a_commit_that_changes_no_image_rebases_the_branch_and_no_record(bench: Proposed) -> None:
    bench.built()
    before = bench.origin.record(BRANCH)
    main = bench.origin.commit({"p/notes.txt": "nothing that goes in"})
    bench.built()
    assert bench.origin.record(BRANCH) == before
    assert bench.origin.run("rev-parse", f"{bench.origin.tip(BRANCH)}^", cwd=bench.origin.bare) == main
    assert (bench.started, len(bench.forge.pulls)) == (2, 1)


def test_a_second_pool_joins_the_request(bench: Proposed) -> None:
    bench.built()
    files = {"q/os.yaml": mosc("infra"), "q/Containerfile": f"FROM {BASE}:1\nCOPY x /\n", "q/x": "x"}
    bench.origin.commit(files)
    bench.built()
    assert bench.forge.pulls[0].title == "Update infra, worker"
    assert None not in (bench.origin.record(BRANCH, "infra"), bench.origin.record(BRANCH, "worker"))
    assert len(bench.forge.pulls) == 1


def test_tags_follow_what_was_merged_while_the_next_images_wait(bench: Proposed) -> None:
    bench.built()
    bench.origin.merge("squash")
    bench.forge.end(Stage.MERGED)
    bench.pass_()
    merged = bench.tag()
    assert merged is not None
    bench.origin.commit({"p/files/arm64/x": "new"})
    bench.built()
    assert len(bench.forge.pulls) == 2
    manifest = bench.registry.manifests["registry.example.com/os/worker", "digest-" + merged[7:]]
    bench.registry.put(
        "registry.example.com/os/worker", "latest", replace(manifest, digest="sha256:" + "0" * 64)
    )
    assert bench.tag() != merged, "somebody moved it"
    bench.pass_()
    assert bench.tag() == merged


def test_a_request_closed_by_a_person_stays_closed_until_something_changes(bench: Proposed) -> None:
    bench.built()
    bench.forge.end(Stage.CLOSED)
    tip = bench.origin.tip(BRANCH)
    result = bench.pass_()
    expected = "#1 was closed without a merge: reopen it, or change what is to be built"
    assert {image.why for image in result.images} == {expected}
    bench.origin.commit({"p/notes.txt": "nothing that goes in"})
    bench.pass_()
    shown = bench.look()
    assert shown.ask is not None
    assert (shown.ask.why, shown.ask.declined) == (expected, True)
    assert {image.state for image in shown.images} == {State.TO_MERGE}
    assert (bench.forge.did, bench.origin.tip(BRANCH), bench.tag()) == (["open"], tip, None)
    assert bench.started == 2
    bench.origin.commit({"p/files/arm64/x": "new"})
    bench.built()
    assert [pull.stage for pull in bench.forge.pulls] == [Stage.CLOSED, Stage.OPEN]


def test_a_request_that_is_reopened_goes_on(bench: Proposed) -> None:
    bench.built()
    bench.forge.end(Stage.CLOSED)
    bench.pass_()
    bench.forge.end(Stage.OPEN)
    result = bench.pass_()
    assert {image.why for image in result.images} == {"waiting for the merge of #1"}
    assert len(bench.forge.pulls) == 1


def test_it_is_closed_when_nothing_is_left_to_record(bench: Proposed) -> None:
    """Somebody committed the record by hand; what we close ourselves is no no to these images."""
    bench.built()
    record = bench.origin.record(BRANCH)
    assert record is not None
    bench.origin.commit({"status/worker.yaml": write_status(record).decode()})
    result = bench.pass_()
    assert (result.written.proposed.did, result.problems) == ("closed", ())
    assert bench.forge.pulls[0].stage is Stage.CLOSED
    assert key_in(bench.forge.pulls[0].body) == ""
    assert bench.tag() == digest(record.image)
    bench.origin.run("rm", "--quiet", "status/worker.yaml")
    bench.origin.run("commit", "--quiet", "--message", "Lose it")
    bench.origin.run("push", "--quiet", "origin", "HEAD:main")
    bench.pass_()
    assert [pull.stage for pull in bench.forge.pulls] == [Stage.CLOSED, Stage.OPEN]
    assert bench.started == 2


def test_a_merge_while_it_is_being_closed_is_no_problem(bench: Proposed) -> None:
    bench.built()
    bench.origin.merge("squash")  # and the forge notices a moment later
    forge, revise = bench.forge, bench.forge.revise

    def late(number: int, title: str, body: str, *, close: bool = False) -> object:
        forge.end(Stage.MERGED)
        return revise(number, title, body, close=close)

    forge.revise = late  # type: ignore[assignment,method-assign]
    assert bench.pass_().problems == ()


def test_a_crash_between_push_and_open_makes_one_request(bench: Proposed) -> None:
    propose = bench.forge.propose

    def die(*_: object) -> object:
        raise KeyboardInterrupt

    bench.forge.propose = die  # type: ignore[assignment,method-assign]
    with pytest.raises(KeyboardInterrupt):
        bench.built()
    tip = bench.origin.tip(BRANCH)
    assert tip
    bench.forge.propose = propose  # type: ignore[method-assign]
    assert bench.pass_().written.proposed.did == "opened"
    assert (bench.origin.tip(BRANCH), bench.forge.did) == (tip, ["open"])


def test_a_lost_answer_makes_one_request(bench: Proposed) -> None:
    bench.forge.lose = 1
    result = bench.built()
    assert result.hindered, "it is tried again"
    assert bench.pass_().problems == ()
    assert bench.forge.did == ["open"]


def test_a_deleted_branch_is_pushed_again(bench: Proposed) -> None:
    bench.built()
    tip = bench.origin.tip(BRANCH)
    bench.origin.run("push", "--quiet", "origin", f":{BRANCH}")
    bench.pass_()
    assert bench.origin.tip(BRANCH) == tip


def test_what_somebody_else_pushed_to_the_branch_is_overwritten(bench: Proposed) -> None:
    bench.built()
    tip = bench.origin.tip(BRANCH)
    bench.origin.run("fetch", "--quiet", "origin")
    bench.origin.run("checkout", "--quiet", "-B", "other", f"origin/{BRANCH}")
    (bench.origin.work / "status/worker.yaml").write_text("nonsense\n")
    bench.origin.run("commit", "--quiet", "--all", "--message", "Mine")
    bench.origin.run("push", "--quiet", "origin", f"HEAD:{BRANCH}")
    bench.pass_()
    assert bench.origin.tip(BRANCH) == tip


def test_a_forge_that_is_down_stops_no_build_and_writes_nothing(bench: Proposed) -> None:
    bench.forge.down = True
    result = bench.built()
    assert [error.reason for error in result.problems] == ["ForgeUnavailable"]
    assert (bench.started, bench.origin.tip(BRANCH), result.hindered) == (2, "", True)
    bench.forge.down = False
    assert bench.pass_().written.proposed.did == "opened"


def test_without_a_request_the_refusal_names_the_way_out(tmp_path: Path) -> None:
    bench = Proposed(tmp_path, proposal="")
    (problem,) = bench.built().problems
    assert isinstance(problem, GitError)
    assert "GH006: Protected branch" in problem.message
    assert "writeBack.pullRequest" in problem.hint


def test_a_branch_that_cannot_be_pushed_is_told(bench: Proposed) -> None:
    bench.place = replace(bench.place, proposal="reconciler/default/main")
    (bench.origin.bare / "refs/heads").mkdir(exist_ok=True)
    bench.origin.run(
        "push", "--quiet", "origin", "HEAD:refs/heads/reconciler"
    )  # a branch where a folder must be
    (problem,) = bench.built().problems
    assert "writeBack.pullRequest.branch" in problem.hint
    assert bench.forge.pulls == []


def test_a_head_that_moves_before_the_push_is_planned_again(bench: Proposed) -> None:
    bench.pass_()
    bench.end_builds()
    heads, moved = bench.mirror.heads, list[str]()

    def moving(revisions: object) -> object:
        if not moved:
            moved.append(bench.origin.commit({"p/files/arm64/x": "new"}))
        return heads(revisions)  # type: ignore[arg-type]

    bench.mirror.heads = moving  # type: ignore[assignment,method-assign]
    result = bench.pass_()
    assert (result.written.overtaken, result.settled) == (True, False)
    assert (bench.forge.pulls, bench.origin.tip(BRANCH)) == ([], "")


def test_only_what_was_looked_at_is_overwritten(bench: Proposed) -> None:
    bench.built()
    tip, main = bench.origin.tip(BRANCH), bench.origin.tip("main")
    assert bench.mirror.replace(BRANCH, main, "").outcome is PushOutcome.MOVED
    assert bench.mirror.replace(BRANCH, main, main).outcome is PushOutcome.MOVED
    assert bench.origin.tip(BRANCH) == tip
    assert bench.mirror.replace(BRANCH, main, tip) == PushResult(PushOutcome.DONE, "")
    assert bench.mirror.replace(BRANCH, main, tip).outcome is PushOutcome.DONE, "it is so already"


def test_an_epoch_goes_on_while_its_images_wait(bench: Proposed) -> None:
    """The annotation that began it may go before the merge: removing one begins nothing."""
    plain = mosc("worker")
    bench.origin.commit({"p/os.yaml": mosc("worker", annotations='reconciler.machineos.dev/refresh: "1"')})
    bench.built()
    record = bench.origin.record(BRANCH)
    assert record is not None
    bench.origin.commit({"p/os.yaml": plain})
    bench.built()
    assert bench.origin.record(BRANCH) == record
    assert bench.started == 2


def test_errors_of_the_forge_are_problems_of_the_pass(bench: Proposed) -> None:
    def refuse(*_: object) -> object:
        raise ForgeError("not allowed")

    bench.forge.propose = refuse  # type: ignore[assignment,method-assign]
    (problem,) = bench.built().problems
    assert problem.message == "not allowed"
