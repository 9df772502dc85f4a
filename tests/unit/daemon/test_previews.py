"""Which pull requests get a preview and when, what their comments say, and what becomes of them."""

from __future__ import annotations

import pytest

from reconciler.core.comment import marker
from reconciler.daemon.gate import Gate
from reconciler.daemon.inbox import Trigger
from reconciler.errors import ForgeError, GitError, GitUnavailable
from reconciler.ports.forge import Comment, State
from tests.unit.daemon.previews_scene import NO_FORGE, TEXT, Scene

WORKER = {"worker/files/a": "2"}
INFRA = {"infra/files/a": "2"}


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_open_pull_request_is_shown_once(scene: Scene) -> None:
    head = scene.propose(7, WORKER)
    scene.run(600)
    assert scene.body(7).startswith(f"{marker()}\n### 2 of 4 images would be built\n")
    assert scene.forge.done == [
        "pending reconciler/default",
        "pending reconciler/default/worker",
        "pending reconciler/default/infra",
        "comment on 7",
        "success reconciler/default/worker",
        "success reconciler/default/infra",
        "success reconciler/default",
    ]
    assert scene.state(head) is State.SUCCESS
    assert scene.told == [("repo", "created")]
    assert 9 <= scene.forge.looks <= 11


def test_a_push_is_shown_in_the_same_comment(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.at(30, lambda: scene.propose(7, {**WORKER, **INFRA}))
    scene.at(31, lambda: scene.previewer.look(Trigger.WEBHOOK))
    scene.run(32)
    assert "### 4 of 4 images" in scene.body(7)
    assert len(scene.forge.said[7]) == 1
    assert [outcome for _, outcome in scene.told] == ["created", "updated"]


def test_strangers_are_not_shown_unless_that_is_wanted() -> None:
    for gate, shown in ((Gate(), False), (Gate(forks=True), True)):
        scene = Scene(gate)
        scene.propose(7, WORKER, is_fork=True)
        scene.run()
        assert (7 in scene.forge.said) is shown
        assert bool(scene.forge.done) is shown
        assert ("refs/pull/7/head" in scene.repository.fetched) is shown


def test_a_label_lets_a_pull_request_in() -> None:
    scene = Scene(Gate(label="preview"))
    scene.propose(7, WORKER, labels=frozenset({"previews", "os"}))
    scene.at(10, lambda: scene.propose(8, WORKER, labels=frozenset({"preview", "os"})))
    scene.run(100)
    assert scene.forge.said.keys() == {8}


def test_other_branches_are_left_alone(scene: Scene) -> None:
    scene.propose(7, WORKER, target="stable")
    scene.run(100)
    assert scene.forge.done == []


def test_nobody_causes_more_previews_than_he_may() -> None:
    scene = Scene(per_author=2)
    for number in (3, 4, 5, 6):
        scene.propose(number, WORKER, author="mallory")
    scene.propose(2, WORKER, author="ada")
    scene.at(500, lambda: seen.append(scene.previewer.report))
    seen = [scene.previewer.report]
    scene.run(1000)
    assert scene.forge.said.keys() == {2, 5, 6}
    assert (seen[-1].open, seen[-1].shown, seen[-1].waiting) == (5, 3, 2)
    scene.run(3700)  # the restart forgets, and after an hour there is room again
    assert scene.forge.said.keys() == {2, 3, 4, 5, 6}


def test_another_base_is_no_push(scene: Scene) -> None:
    """Everybody's allowance is for pushes, and nobody is told `pending` because somebody else merged."""
    scene = Scene(per_author=1)
    scene.propose(7, WORKER)
    scene.at(100, lambda: scene.push({"worker/files/b": "new"}))
    scene.at(200, lambda: scene.push({"notes.txt": "other"}))
    scene.run(400)
    assert "### 2 of 4 images" in scene.body(7)
    assert scene.forge.done.count("pending reconciler/default") == 1
    assert [outcome for _, outcome in scene.told] == ["created", "updated", "unchanged"]


def test_a_base_that_changes_what_would_be_built_is_shown(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.at(100, lambda: scene.push({"worker/files/a": "2"}))
    scene.run(300)
    assert "### 0 of 4 images" in scene.body(7)


def test_status_files_are_no_reason_to_plan_again(scene: Scene) -> None:
    scene.propose(7, WORKER)
    for at in (100, 200, 300):
        scene.at(at, lambda at=at: scene.push({"status/other.yaml": str(at)}))  # type: ignore[misc]
    scene.run(500)
    assert [outcome for _, outcome in scene.told] == ["created"]


def test_the_commits_that_it_was_made_of_are_named(scene: Scene) -> None:
    head = scene.propose(7, WORKER)
    base = scene.push({"notes.txt": "other"})
    scene.run()
    foot = scene.body(7).rpartition("---\n")[2]
    assert f"Head `{head[:12]}` merged into `{base[:12]}`" in foot
    assert f"git merge --quiet --no-edit {head}\nreconciler plan --base {base} --head HEAD" in foot


def test_a_conflict_is_said_and_forgotten_when_it_is_gone(scene: Scene) -> None:
    head = scene.propose(7, WORKER)
    scene.at(99, lambda: scene.repository.conflicts.add(head))
    scene.at(100, lambda: scene.push({"notes.txt": "1"}))
    scene.at(200, lambda: scene.push({"notes.txt": "2"}))
    seen: list[tuple[State, str]] = []
    scene.at(290, lambda: seen.append((scene.state(head), scene.notes(7))))
    scene.at(299, scene.repository.conflicts.clear)
    scene.at(300, lambda: scene.push({"notes.txt": "3"}))
    scene.run(400)
    assert seen[0][0] is State.FAILURE
    assert seen[0][1].startswith(f"**No plan could be made of `{head[:12]}`**, so this is an earlier one: ``")
    assert "conflicts with" in seen[0][1]
    assert scene.forge.done.count("failure reconciler/default") == 1  # not once more for another base
    assert scene.state(head) is State.SUCCESS
    assert scene.notes(7) == ""


def test_what_goes_wrong_with_one_keeps_nobody_else_waiting(scene: Scene) -> None:
    heads = {number: scene.propose(number, WORKER) for number in (5, 6, 7, 8)}
    scene.repository.errors["refs/pull/8/head"] = [ValueError("a bug of ours: /secret/path")]
    scene.repository.errors["refs/pull/7/head"] = [GitError("/var/cache says no")]
    scene.forge.errors["comment on 6"] = [ForgeError("it is locked")]
    reports = []
    scene.at(50, lambda: reports.append(scene.previewer.report))
    scene.run(300)
    assert scene.forge.said.keys() == {5}
    assert [text.partition(":")[0] for text in reports[0].problems] == [
        "pull request 6",
        "pull request 7",
        "pull request 8",
    ]
    assert reports[0].problem is None
    for number in (7, 8):  # and nothing of the machine is said in public
        said = scene.forge.shown[heads[number]]["reconciler/default"]
        assert (said.state, said.description) in (
            (State.FAILURE, "no plan could be made: GitFailed"),
            (State.FAILURE, "no plan could be made: InternalError"),
        )


def test_statuses_that_are_refused_keep_no_comment_back(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither for a plan nor for there being none; it is told once, and a problem until they are taken."""
    head = scene.propose(7, WORKER)
    scene.forge.errors["status of 7"] = [ForgeError("not there", hint="ask") for _ in range(4)]
    seen: list[tuple[str, tuple[str, ...]]] = []
    for at in (50, 199, 399):
        scene.at(at, lambda: seen.append((scene.notes(7), scene.previewer.report.problems)))
    scene.at(99, lambda: scene.repository.conflicts.add(head))
    scene.at(100, lambda: scene.push({"notes.txt": "1"}))
    scene.at(199.5, lambda: seen.append(("", tuple(scene.forge.done))))
    scene.at(300, lambda: scene.propose(7, {**WORKER, **INFRA}))
    scene.run(400)
    (first, refused), (second, unplanned), (_, done), (third, problems) = seen
    assert (first, refused) == ("", ("pull request 7: not there",))
    assert second.startswith("**No plan could be made of")
    assert [text.partition(" conflicts")[0] for text in unplanned] == [f"pull request 7: {head[:12]}"]
    assert done == ("comment on 7", "edit on 7")
    assert (third, problems) == ("", ())
    assert scene.forge.done[-1] == "success reconciler/default"
    assert [text for text in caplog.messages if "statuses" in text] == [
        "not all statuses are taken: not there"
    ]


def test_git_that_lags_behind_the_forge_is_asked_again(scene: Scene) -> None:
    head = scene.propose(7, WORKER)
    scene.repository.refs["refs/pull/7/head"] = scene.base
    scene.at(4, lambda: scene.repository.refs.update({"refs/pull/7/head": head}))
    scene.at(30, lambda: seen.append(dict(scene.forge.said)))
    seen: list[object] = []
    scene.run(31)
    assert scene.forge.said.keys() == {7}
    assert seen[0]
    assert scene.told[0] == ("repo", "failed")


def test_what_cannot_be_fetched_is_tried_again_with_pauses(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.repository.errors["refs/pull/7/head"] = [GitUnavailable("too slow")] * 3
    scene.run(40)
    assert scene.forge.said.keys() == {7}
    assert scene.repository.fetched.count("refs/pull/7/head") == 4
    assert scene.forge.done.count("pending reconciler/default") == 1


def test_a_forge_that_does_not_answer_is_a_problem_until_it_does(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.forge.errors["pulls"] = [NO_FORGE] * 4
    reports = []
    for at in (5, 200):
        scene.at(at, lambda: reports.append(scene.previewer.report))
    scene.run(201)
    assert reports[0].problem is not None
    assert (reports[0].problem.reason, reports[0].problem.message) == ("ForgeUnavailable", NO_FORGE.message)
    assert reports[1].problem is None
    assert scene.forge.said.keys() == {7}
    assert scene.forge.looks < 20


def test_a_bug_does_not_end_the_thread(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.fails_to_open = [ValueError("a bug"), GitError("no folder")]
    scene.forge.errors["pulls"] = [KeyError("another")]
    scene.run(400)
    assert scene.forge.said.keys() == {7}
    assert scene.workplaces == 3


def test_a_forge_that_lags_behind_its_own_webhook_is_asked_again(scene: Scene) -> None:
    scene.at(10, lambda: scene.previewer.look(Trigger.WEBHOOK))
    scene.at(13, lambda: scene.propose(7, WORKER))
    scene.run(20)
    assert scene.forge.said.keys() == {7}
    assert scene.forge.looks < 12


def test_others_that_touch_the_same_pools_are_named(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.propose(8, {**WORKER, **INFRA})
    scene.propose(9, {"notes.txt": "other"})
    scene.run()
    assert scene.notes(7) == "Also open, and touching the same pools: #8 (`worker`)."
    assert scene.notes(8) == "Also open, and touching the same pools: #7 (`worker`)."
    assert scene.notes(9) == ""
    edits = [what for what in scene.forge.done if what.startswith("edit")]
    assert edits in (["edit on 7"], ["edit on 8"])


def test_one_that_is_closed_is_not_named_any_more(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.propose(8, WORKER)
    scene.at(100, lambda: scene.forge.open.pop(8))
    scene.run(300)
    assert scene.notes(7) == ""
    assert scene.notes(8) != ""  # nobody looks there any more


def test_merge_requests_have_another_sign() -> None:
    scene = Scene(kind="gitlab")
    scene.propose(7, WORKER)
    scene.propose(8, WORKER)
    scene.run()
    assert "!8 (`worker`)" in scene.notes(7)


def test_how_long_it_took_before_is_what_is_expected(scene: Scene) -> None:
    scene.propose(7, {**WORKER, **INFRA})
    for seconds in (60, 660, 640, 9000):
        scene.durations.built("worker", "amd64", seconds, "succeeded")
    scene.durations.built("worker", "arm64", 20, "succeeded")
    scene.durations.built("infra", "arm64", 300, "definition")
    scene.at(90, lambda: scene.durations.built("infra", "arm64", 300, "succeeded"))
    scene.run(200)
    assert "| `infra` | build [1] | build [1] |" in scene.body(7)
    assert "| `worker` | build ~11 min [2] | build ~1 min [2] |" in scene.body(7)
    said = "Going by earlier builds, about 12 minutes of building, and 2 images that nobody knows that of."
    assert scene.notes(7) == said
    scene.propose(7, INFRA)
    scene.run()  # by another process, which knows what the first one saw
    assert "build ~5 min" in scene.body(7)


def test_merged_as_previewed(scene: Scene) -> None:
    scene.propose(7, WORKER)
    merged: list[str] = []
    scene.at(100, lambda: merged.append(scene.merge(7)))
    scene.at(101, lambda: scene.previewer.planned(scene.plan(merged[0])))
    scene.run(110)
    assert scene.notes(7).startswith(f"**Merged as `{merged[0][:12]}`: as previewed**, in the plan at ")
    assert "(4 build)" in scene.notes(7)
    assert scene.body(7).startswith(f"{marker()}\n### 2 of 4 images would be built\n")


def test_a_merge_is_closed_out_by_another_process_too(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.run()
    merged = scene.merge(7)
    scene.run(100)
    assert "Merged as" not in scene.notes(7)  # nothing was planned yet
    later = scene.push({"notes.txt": "other"})
    scene.previewer.planned(scene.plan(later))
    scene.run()
    assert f"**Merged as `{merged[:12]}`: as previewed**" in scene.notes(7)


def test_merged_onto_something_else(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.run()
    base = scene.push({"infra/files/a": "3", "worker/files/b": "new"})
    merged = scene.merge(7)
    scene.previewer.planned(scene.plan(merged))
    scene.run()
    said = scene.notes(7)
    assert f"**Merged as `{merged[:12]}`: not as previewed**" in said
    assert "other definitions: `worker`." in said
    assert f"It was merged into `{base[:12]}`, and had been previewed on `{scene.base[:12]}`." in said


def test_merged_with_others_after_it(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.run()
    merged = scene.merge(7)
    later = scene.push({"infra/files/a": "3"})
    scene.previewer.planned(scene.plan(later))
    scene.run()
    said = scene.notes(7)
    assert f"**Merged as `{merged[:12]}`: its own pools as previewed**" in said
    assert said.endswith("other pools are not. Other commits came before the daemon planned.")


def test_merged_right_after_a_push(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.run()
    head = scene.propose(7, {"worker/files/a": "3"})
    merged = scene.merge(7)
    scene.previewer.planned(scene.plan(merged))
    scene.run()
    assert f"Its last push, `{head[:12]}`, was not previewed." in scene.notes(7)


def test_one_that_is_closed_without_a_merge_is_left_as_it_is(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.run()
    body = scene.body(7)
    del scene.forge.open[7]
    scene.previewer.planned(scene.plan(scene.base))
    scene.run(300)
    assert scene.body(7) == body


def test_what_somebody_else_says_is_never_touched(scene: Scene) -> None:
    forged = Comment(1, "mallory", f"{marker()}\n### 0 of 2 images would be built")
    scene.forge.said[7] = [forged]
    scene.propose(7, WORKER)
    scene.run()
    assert scene.forge.said[7][0] == forged
    assert scene.forge.said[7][1].author == "us"


def test_a_restart_edits_nothing(scene: Scene) -> None:
    scene.propose(7, WORKER)
    scene.propose(8, WORKER)
    scene.run()
    before = {number: scene.body(number) for number in (7, 8)}
    scene.forge.done.clear()
    scene.run()
    assert {number: scene.body(number) for number in (7, 8)} == before
    assert scene.forge.done == []


def test_what_was_kept_may_be_anything(scene: Scene) -> None:
    scene.propose(7, WORKER)
    for text in (b"", b"[]", b'{"promises": {"x": 1}, "seconds": {}}', b'{"promises": {"7": {}}}', b"\xff"):
        scene.memory.values["previews of repo"] = text
        scene.run()
    assert scene.forge.said.keys() == {7}


def test_the_pull_request_that_records_images_gets_no_preview(scene: Scene) -> None:
    scene.propose(7, {"status/worker.yaml": "x"}, author="us")
    scene.propose(8, WORKER, author="us")
    scene.propose(9, {"status/worker.yaml": "x"}, author="mallory")
    scene.run(200)
    assert scene.forge.said.keys() == {8, 9}


def test_a_comment_has_room_for_all_its_notes() -> None:
    scene = Scene()
    scene.forge.comment_limit = 16_384
    files: dict[str, str] = {f"worker/files/{'x' * 80}{n}": "1" for n in range(300)}
    for number in range(1, 31):
        scene.propose(number, {**files, "worker/Containerfile": TEXT + f"COPY files /x{number}\n"})
    scene.run(100)
    assert scene.forge.said.keys() == set(range(1, 31))
    assert "and 9 more" in scene.notes(1)


def test_an_hour_without_pull_requests_costs_a_look_a_minute(scene: Scene) -> None:
    scene.run(3600)
    assert 55 <= scene.forge.looks <= 65
    assert scene.repository.reads == 0  # nothing but the tip is looked up


def test_many_webhooks_are_one_look_a_second(scene: Scene) -> None:
    for n in range(1000):
        scene.at(10 + n / 100, lambda: scene.previewer.look(Trigger.WEBHOOK))
    scene.run(30)
    assert 10 <= scene.forge.looks <= 18
