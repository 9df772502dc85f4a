"""What is posted on a pull request, in which order, and what is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from reconciler.core.model import Arch
from reconciler.core.plan import Action, Cell, Plan, PoolPlan, Reason
from reconciler.errors import Fault, ForgeError, ForgeUnavailable
from reconciler.ports.forge import DESCRIPTION, Comment, Pull, State, Status
from reconciler.reconcile.posting import MOST_POOLS, Posted, Posting, Result, aggregate, verdicts

HEAD, BASE = "a" * 40, "b" * 40
MARKER = "<!-- reconciler/preview:v1:default:/ -->"
BODY = f"{MARKER}\n### 1 of 2 images would be built\n"


@dataclass
class FakeForge:
    """Implements `ports.forge.Forge`, remembers what was done in which order, and breaks off where it is told to. It
    refuses statuses by their context, alone or with their state, and to show any."""

    said: list[Comment] = field(default_factory=list)
    shown: dict[str, Status] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    head: str = HEAD
    breaks_at: int = -1
    refuses: frozenset[str] = frozenset()
    comment_limit: int = 65_536

    def who(self) -> str:
        return "us"

    def pull(self, number: int) -> Pull:
        return Pull(number, "", self.head, "main", is_open=True, is_fork=False)

    def pulls(self, target: str) -> Iterator[Pull]:  # noqa: ARG002
        return iter([self.pull(7)])

    def comments(self, number: int) -> Iterator[Comment]:  # noqa: ARG002
        return iter(list(self.said))

    def create_comment(self, number: int, body: str) -> Comment:  # noqa: ARG002
        self._do("comment")
        self.said.append(Comment(len(self.said) + 1, "us", body, "https://forge/1"))
        return self.said[-1]

    def edit_comment(self, number: int, comment: int, body: str) -> Comment:  # noqa: ARG002
        self._do(f"edit {comment}")
        index = next(i for i, said in enumerate(self.said) if said.id == comment)
        self.said[index] = replace(self.said[index], body=body)
        return self.said[index]

    def statuses(self, pull: Pull) -> tuple[Status, ...]:
        if "statuses" in self.refuses:
            raise ForgeError("they are secret")
        return tuple(self.shown.values()) if pull.head == HEAD else ()

    def set_status(self, pull: Pull, status: Status) -> None:
        assert pull.head == HEAD
        self._do(f"{status.context} {status.state}")
        if {status.context, f"{status.context} {status.state}"} & self.refuses:
            raise ForgeError(f"no {status.context}")
        self.shown[status.context] = status

    def _do(self, what: str) -> None:
        if len(self.done) == self.breaks_at:
            raise ForgeUnavailable("gone")
        self.done.append(what)


def cell(action: Action, arch: Arch = Arch.AMD64) -> Cell:
    return Cell(arch, action, (Reason("recipe", "changed", "because"),), "sha256:" + "0" * 64)


def pool(name: str, *actions: Action) -> PoolPlan:
    cells = tuple(cell(action, arch) for action, arch in zip(actions, Arch, strict=False))
    return PoolPlan(name, f"pools/{name}/machineosconfig.yaml", cells)


def plan(*pools: PoolPlan, errors: tuple[Fault, ...] = ()) -> Plan:
    return Plan(BASE, HEAD, pools, errors=errors)


def posting(forge: FakeForge) -> Posting:
    return Posting(forge, forge.pull(7), MARKER, "default")


def post(forge: FakeForge, made: Plan) -> Result:
    one = posting(forge)
    one.start()
    return one.finish(BODY, made)


GOOD = plan(pool("infra", Action.REUSE), pool("worker", Action.BUILD, Action.REUSE))
BAD = plan(pool("infra", Action.REUSE), pool("worker", Action.BLOCKED))


def test_everything_is_pending_until_the_comment_is_there_and_the_aggregate_is_last() -> None:
    forge = FakeForge()
    result = post(forge, GOOD)
    assert forge.done == [
        "reconciler/default pending",
        "reconciler/default/worker pending",
        "reconciler/default/infra pending",
        "comment",
        "reconciler/default/worker success",
        "reconciler/default/infra success",
        "reconciler/default success",
    ]
    assert (result.posted, result.url, result.left) == (Posted.CREATED, "https://forge/1", 0)
    assert [s.description for s in result.statuses] == [
        "1 of 3 images would be built.", "build amd64; reuse arm64", "reuse amd64",
    ]  # fmt: skip


def test_failures_are_known_before_anything_is_good() -> None:
    forge = FakeForge()
    posting(forge).finish(BODY, BAD)
    ended = [line for line in forge.done if not line.endswith("pending")]
    assert ended == [
        "comment",
        "reconciler/default/worker failure",
        "reconciler/default/infra success",
        "reconciler/default failure",
    ]


@pytest.mark.parametrize("made", [GOOD, BAD])
@pytest.mark.parametrize("breaks_at", range(7))
def test_whatever_breaks_off_leaves_no_success_too_many(made: Plan, breaks_at: int) -> None:
    """The aggregate is good only when all of a good preview is there, and doing it again ends the same."""
    forge = FakeForge(breaks_at=breaks_at)
    with pytest.raises(ForgeUnavailable):
        post(forge, made)
    whole = forge.shown.get(aggregate("default"))
    assert whole is None or whole.state is State.PENDING
    if not forge.said:
        assert not any(status.state is State.SUCCESS for status in forge.shown.values())
    forge.breaks_at = -1
    post(forge, made)
    assert {s.context: s.state for s in forge.shown.values()} == {
        s.context: s.state for s in verdicts(made, "default")
    }
    assert [said.body for said in forge.said] == [BODY]


@pytest.mark.parametrize(
    ("refuses", "done", "stand"),
    [
        pytest.param(
            {"reconciler/default", "statuses"},
            [
                "reconciler/default pending",
                "reconciler/default pending",
                "comment",
                "reconciler/default failure",
            ],
            [],
            id="all: nothing but the aggregate is tried",
        ),
        pytest.param(
            {"reconciler/default pending"},
            [
                "reconciler/default pending",
                "reconciler/default pending",
                "comment",
                "reconciler/default failure",
            ],
            ["reconciler/default"],
            id="that it is pending: how it ended may be taken",
        ),
        pytest.param(
            {"reconciler/default/worker"},
            [
                "reconciler/default pending",
                "reconciler/default/worker pending",
                "reconciler/default/infra pending",
                "comment",
                "reconciler/default/infra success",
                "reconciler/default failure",
            ],
            ["reconciler/default", "reconciler/default/infra"],
            id="one pool: the others end",
        ),
    ],
)
def test_statuses_that_are_refused_keep_no_comment_back(
    refuses: set[str], done: list[str], stand: list[str]
) -> None:
    forge = FakeForge(refuses=frozenset(refuses))
    one = posting(forge)
    one.start()
    result = one.finish(BODY, BAD)
    assert forge.done == done
    assert result.posted is Posted.CREATED
    assert [status.context for status in result.statuses] == stand
    assert one.refused is not None
    assert one.refused.message.startswith("no reconciler/default")


def test_statuses_that_may_not_be_read_are_all_said_again() -> None:
    forge = FakeForge(refuses=frozenset({"statuses"}))
    for _ in range(2):
        forge.done.clear()
        one = posting(forge)
        one.finish(BODY, GOOD)
        assert [line for line in forge.done if line != "comment"] == [
            "reconciler/default pending",
            "reconciler/default/worker pending",
            "reconciler/default/infra pending",
            "reconciler/default/worker success",
            "reconciler/default/infra success",
            "reconciler/default success",
        ]
        assert one.refused is not None


def test_the_same_preview_again_says_nothing_new() -> None:
    forge = FakeForge()
    posting(forge).finish(BODY, GOOD)
    forge.done.clear()
    assert posting(forge).finish(BODY, GOOD).posted is Posted.UNCHANGED
    assert forge.done == []
    post(forge, GOOD)
    assert forge.done == ["reconciler/default pending", "reconciler/default success"]


def test_a_status_that_changes_takes_the_aggregate_back_first() -> None:
    forge = FakeForge()
    posting(forge).finish(BODY, GOOD)
    forge.done.clear()
    posting(forge).finish(BODY, BAD)
    assert forge.done[0] == "reconciler/default pending"
    assert forge.done[-2:] == ["reconciler/default/worker failure", "reconciler/default failure"]


@pytest.mark.parametrize("kept", [BODY.replace("\n", "\r\n"), BODY.strip(), f"\n{BODY}\n\n"])
def test_what_forges_do_to_a_text_is_no_change(kept: str) -> None:
    forge = FakeForge([Comment(1, "us", kept)])
    assert posting(forge).finish(BODY, GOOD).posted is Posted.UNCHANGED


def test_another_preview_replaces_the_text_in_place() -> None:
    forge = FakeForge([Comment(1, "them", "hello"), Comment(2, "us", f"{MARKER}\nold")])
    assert posting(forge).finish(BODY, GOOD).posted is Posted.UPDATED
    assert [said.body for said in forge.said] == ["hello", BODY]


@pytest.mark.parametrize(
    "theirs",
    [
        Comment(1, "them", BODY),
        Comment(1, "", BODY),
        Comment(1, "us ", BODY),
        Comment(1, "us", f"> {BODY}"),
        Comment(1, "us", f"look:\n{BODY}"),
        Comment(1, "us", f"{MARKER} more\n"),
        Comment(1, "us", BODY.replace("default:/", "other:/")),
        Comment(1, "us", BODY.replace("default:/", "default:clusters/east/")),
    ],
)
def test_only_our_own_comment_with_our_own_marker_is_touched(theirs: Comment) -> None:
    forge = FakeForge([theirs])
    assert posting(forge).finish(BODY, GOOD).posted is Posted.CREATED
    assert forge.said[0] == theirs
    assert not any(line.startswith("edit") for line in forge.done)


def test_of_several_comments_the_oldest_is_kept_and_the_others_say_so() -> None:
    said = [
        Comment(9, "us", f"{MARKER}\nthird"),
        Comment(4, "us", f"{MARKER}\nfirst", "https://forge/4"),
        Comment(5, "them", f"{MARKER}\nnot ours"),
        Comment(7, "us", f"{MARKER}\nsecond"),
    ]
    forge = FakeForge(said)
    posting(forge).finish(BODY, GOOD)
    bodies = {comment.id: comment.body for comment in forge.said}
    assert (bodies[4], bodies[5]) == (BODY, f"{MARKER}\nnot ours")
    assert all(
        "[an earlier comment](https://forge/4)" in bodies[n] and MARKER not in bodies[n] for n in (7, 9)
    )
    forge.done.clear()
    assert posting(forge).finish(BODY, GOOD).posted is Posted.UNCHANGED
    assert not any(line.startswith("edit") for line in forge.done)


def test_a_push_in_the_meantime_leaves_the_comment_alone() -> None:
    forge = FakeForge([Comment(1, "us", f"{MARKER}\nof the newer commit")])
    one = posting(forge)
    forge.head = "c" * 40
    assert one.finish(BODY, GOOD).posted is Posted.SUPERSEDED
    assert forge.said[0].body == f"{MARKER}\nof the newer commit"
    assert forge.shown[aggregate("default")].state is State.SUCCESS


def test_a_pool_that_left_the_preview_does_not_stay_pending() -> None:
    gone = Status("reconciler/default/gone", State.PENDING, "")
    other = Status("reconciler/other/gone", State.PENDING, "")
    forge = FakeForge(shown={gone.context: gone, other.context: other})
    posting(forge).finish(BODY, GOOD)
    assert forge.shown[gone.context].state is State.SUCCESS
    assert forge.shown[other.context] == other


def test_of_very_many_pools_those_with_something_to_say_have_a_status() -> None:
    quiet = [pool(f"a{n:03}", Action.REUSE) for n in range(100)]
    made = plan(*quiet, pool("broken", Action.BLOCKED), pool("moved", Action.BUILD))
    forge = FakeForge()
    result = posting(forge).finish(BODY, made)
    shown = [status.context for status in result.statuses]
    assert shown[:3] == ["reconciler/default", "reconciler/default/broken", "reconciler/default/moved"]
    assert (len(shown), result.left) == (MOST_POOLS + 1, 102 - MOST_POOLS)
    assert forge.shown[aggregate("default")].state is State.FAILURE


def test_a_fault_fails_the_pool_it_is_in_and_the_whole() -> None:
    fault = Fault("pools/worker/Containerfile", 3, "unknown instruction")
    whole, *pools = verdicts(replace(GOOD, errors=(fault,)), "default")
    assert {s.context.rpartition("/")[2]: s.state for s in pools} == {
        "worker": State.FAILURE,
        "infra": State.SUCCESS,
    }
    assert (whole.state, whole.description) == (State.FAILURE, "1 fault; 1 of 3 images would be built.")


def test_a_plan_of_nothing_but_faults_is_a_failure() -> None:
    (whole,) = verdicts(plan(errors=(Fault("x.yaml", 1, "no YAML"),)), "default")
    assert whole.state is State.FAILURE


def test_names_are_short_enough_and_stay_different() -> None:
    long = [pool("x" * 250 + str(n), Action.BUILD) for n in range(2)]
    contexts = [status.context for status in verdicts(plan(*long), "default")]
    assert len(set(contexts)) == 3
    assert max(map(len, contexts)) <= 200


def test_a_description_is_one_short_line() -> None:
    made = replace(GOOD, removed=("a\nb\x1b[31m", "z" * 300))
    said = verdicts(made, "default")[0].description
    assert said.isprintable()
    assert len(said) == DESCRIPTION
    assert said.endswith("…")


def test_no_plan_is_a_failure() -> None:
    forge = FakeForge()
    posting(forge).fail("no plan could be made: GitFailed")
    assert forge.shown[aggregate("default")].state is State.FAILURE


def test_amending_changes_our_comment_and_nothing_else() -> None:
    forge = FakeForge(said=[Comment(1, "them", BODY)])
    assert not posting(forge).amend(lambda text: f"{text}more")
    assert (forge.said, forge.done) == ([Comment(1, "them", BODY)], [])
    post(forge, GOOD)
    forge.done.clear()
    assert posting(forge).amend(lambda text: f"{text}more")
    assert [said.body for said in forge.said] == [BODY, f"{BODY}more"]
    assert posting(forge).amend(lambda text: f"{text}\r\n")  # what a forge would not tell from what is there
    assert forge.done == ["edit 2"]
