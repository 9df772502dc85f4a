"""Which heads are refused, over histories in memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import GitError, UnverifiedCommit
from reconciler.reconcile.history import History
from reconciler.reconcile.planning import Place, World
from reconciler.reconcile.reconciler import Reconciler
from reconciler.reconcile.targets import Scope
from reconciler.reconcile.trust import Checked, Trust, authored, stands_for
from tests.fakes import FakeObjects
from tests.unit.definitions import config
from tests.unit.reconcile.bench import FILES, Bench


class Graph(FakeObjects):
    """Commits with any parents, which are known only by what they change. Implements the part of `ports.Objects` that
    trust asks."""

    def __init__(self) -> None:
        super().__init__()
        self.made_on: dict[str, tuple[str, ...]] = {}
        self.changed: dict[str, frozenset[str]] = {}
        self.compared = 0

    def make(self, parents: Collection[str], *paths: str) -> str:
        """A commit that changes some paths, as its first parent has them; returns its id."""
        commit = f"{len(self.made_on) + 1:040x}"
        self.made_on[commit] = tuple(parents)
        self.changed[commit] = frozenset(paths)
        return commit

    def parents(self, commit: str) -> tuple[str, ...]:
        """As made."""
        return self.made_on[commit]

    def changes(self, old: str, new: str, under: str = "") -> frozenset[str]:
        """Between a commit and its first parent."""
        assert self.made_on[new][0] == old
        assert not under
        self.compared += 1
        return self.changed[new]

    def has(self, commit: str) -> bool:
        """Whether it was made."""
        return commit in self.made_on

    def is_ancestor(self, older: str, newer: str) -> bool:
        """By walking."""
        return older in self.below(newer)

    def below(self, commit: str) -> set[str]:
        """A commit with all that it is made on."""
        found: set[str] = set()
        pending = [commit]
        while pending:
            one = pending.pop()
            if one not in found:
                found.add(one)
                pending += self.made_on[one]
        return found


@dataclass
class FakeSignatures:
    """Implements `ports.Signatures`: commits and who signed them, and whose signatures count."""

    signed: dict[str, str] = field(default_factory=dict)
    trusted: set[str] = field(default_factory=lambda: {"alice"})
    asked: list[str] = field(default_factory=list)
    error: GitError | None = None

    def keys(self) -> str:
        """Changes with who is trusted."""
        if self.error:
            raise self.error
        return ",".join(sorted(self.trusted))

    def problem(self, commit: str) -> str:
        """Why not."""
        self.asked.append(commit)
        if commit not in self.signed:
            return "is not signed"
        return "" if self.signed[commit] in self.trusted else "is signed by somebody who is not trusted"


class Case:
    """A history and who signed what in it."""

    def __init__(self, checked: Checked = Checked.HEAD) -> None:
        self.graph = Graph()
        self.signatures = FakeSignatures()
        self.trust = Trust(self.graph, self.signatures, checked)

    def commit(self, *paths: str, on: Collection[str] = (), by: str = "") -> str:
        """A commit on others, signed by somebody."""
        made = self.graph.make(on, *paths)
        if by:
            self.signatures.signed[made] = by
        return made

    def line(self, *signers: str) -> list[str]:
        """One commit after the other, each of an author, signed by these ('' for nobody)."""
        found: list[str] = []
        for signer in signers:
            found.append(self.commit("p/Containerfile", on=found[-1:], by=signer))
        return found

    def refusal(self, head: str, status: str = "status", folder: str = "") -> str:
        """Why a head is refused, '' when it is not."""
        try:
            self.trust.check(head, status, folder)
        except UnverifiedCommit as error:
            return error.message
        return ""


@pytest.fixture(params=list(Checked))
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


@pytest.fixture
def head_only() -> Case:
    return Case(Checked.HEAD)


@pytest.fixture
def whole() -> Case:
    return Case(Checked.ALL)


# -- heads


def test_a_head_that_somebody_trusted_signed_is_accepted(case: Case) -> None:
    assert case.refusal(case.commit("a", by="alice")) == ""


@pytest.mark.parametrize(("signer", "why"), [("", "is not signed"), ("mallory", "not trusted")])
def test_an_unsigned_head_is_refused_and_named(case: Case, signer: str, why: str) -> None:
    *_, head = case.line("alice", signer)
    refusal = case.refusal(head)
    assert refusal.startswith(f"commit {head[:12]} ")
    assert why in refusal


def test_a_refusal_says_what_follows_and_what_to_do(case: Case) -> None:
    (head,) = case.line("")
    with pytest.raises(UnverifiedCommit, match="nothing is changed") as refused:
        case.trust.check(head, "status")
    assert "source.verify.keys" in refused.value.hint


def test_status_commits_on_top_of_a_signed_one_are_fine(case: Case) -> None:
    (head,) = case.line("alice")
    for number in range(5):
        head = case.commit(f"status/pool-{number}.yaml", on=[head])
        assert case.refusal(head) == ""


def test_status_commits_on_top_of_an_unsigned_one_do_not_hide_it(case: Case) -> None:
    (unsigned,) = case.line("")
    head = case.commit("status/a.yaml", on=[unsigned])
    assert unsigned[:12] in case.refusal(head)


@pytest.mark.parametrize(
    "paths",
    [
        ["status/a.yaml", "p/Containerfile"],
        ["statuses/a.yaml"],
        ["status"],
        ["a/status/a.yaml"],
        ["status.yaml"],
        [],
    ],
)
def test_a_commit_that_changes_more_than_status_files_must_be_signed(case: Case, paths: list[str]) -> None:
    (signed,) = case.line("alice")
    assert case.refusal(case.commit(*paths, on=[signed]))


def test_the_merge_of_a_pull_request_of_ours_is_nobodys_work(case: Case) -> None:
    base, newer = case.line("alice", "alice")
    side = case.commit("status/a.yaml", "status/b.yaml", on=[base])
    merge = case.commit("status/a.yaml", on=[newer, side])
    assert stands_for(case.graph, merge, "status") == newer
    assert authored(case.graph, merge, "status") == newer
    assert case.refusal(merge) == ""
    assert case.refusal(case.commit("status/b.yaml", on=[merge])) == ""


def test_a_merge_that_brings_more_than_status_files_must_be_signed(case: Case) -> None:
    base, newer = case.line("alice", "alice")
    side = case.commit("status/a.yaml", on=[base])
    assert case.refusal(case.commit("status/a.yaml", "p/Containerfile", on=[newer, side]))
    assert case.refusal(case.commit(on=[newer, side]))


def test_a_merge_cannot_bring_back_what_an_old_commit_said(case: Case) -> None:
    """Its tree is that of the old commit, which is signed; the newest one it only has as a parent."""
    old, newest = case.line("alice", "alice")
    back = case.commit("status/a.yaml", on=[old, newest])
    assert stands_for(case.graph, back, "status") == ""
    assert back[:12] in case.refusal(back)
    above = case.commit("status/a.yaml", on=[newest])
    assert case.refusal(case.commit("status/a.yaml", on=[old, above]))


def test_a_first_commit_is_no_status_commit(case: Case) -> None:
    assert case.refusal(case.commit("status/a.yaml"))


def test_below_a_signed_head_only_the_mode_all_looks(head_only: Case, whole: Case) -> None:
    for case, refused in ((head_only, False), (whole, True)):
        unsigned, head = case.line("", "alice")
        assert bool(case.refusal(head)) is refused
        if refused:
            assert f"commit {unsigned[:12]}, which {head[:12]} is made on," in case.refusal(head)


def test_both_sides_of_a_merge_are_looked_at(whole: Case) -> None:
    (base,) = whole.line("alice")
    good = whole.commit("a", on=[base], by="alice")
    bad = whole.commit("b", on=[base])
    merge = whole.commit("a", on=[good, bad], by="alice")
    assert bad[:12] in whole.refusal(merge)
    assert whole.refusal(good) == ""


def test_status_commits_in_between_need_no_signature(whole: Case) -> None:
    (first,) = whole.line("alice")
    ours = whole.commit("status/a.yaml", on=[first])
    assert whole.refusal(whole.commit("a", on=[ours], by="alice")) == ""


# -- since


def test_everything_up_to_a_commit_is_trusted_when_somebody_says_so(whole: Case) -> None:
    _, since, later, head = whole.line("", "", "alice", "alice")
    assert whole.refusal(head)
    whole.trust.since = since
    assert whole.refusal(head) == ""
    assert whole.refusal(later) == ""
    assert whole.refusal(since) == ""


def test_what_is_later_than_that_must_be_signed(whole: Case) -> None:
    since, unsigned, head = whole.line("", "", "alice")
    whole.trust.since = since
    assert unsigned[:12] in whole.refusal(head)


def test_an_old_unsigned_commit_that_is_merged_later_is_trusted_only_if_that_contains_it(whole: Case) -> None:
    old, since = whole.line("", "")
    whole.trust.since = since
    side = whole.commit("x", on=[old])
    assert side[:12] in whole.refusal(whole.commit("x", on=[since, side], by="alice"))
    assert whole.refusal(whole.commit("x", on=[since, old], by="alice")) == ""


def test_a_commit_that_is_not_there_is_trusted_with_nothing(whole: Case) -> None:
    unsigned, head = whole.line("", "alice")
    whole.trust.since = "f" * 40
    assert unsigned[:12] in whole.refusal(head)


def test_what_is_before_it_is_not_even_looked_at(whole: Case) -> None:
    *old, since, head = whole.line(*["alice"] * 50, "alice")
    whole.trust.since = since
    assert whole.refusal(head) == ""
    assert whole.signatures.asked == [head]
    assert old


# -- what is remembered


def test_what_was_found_good_is_not_looked_at_again(case: Case) -> None:
    *_, head = case.line("alice", "alice", "alice")
    assert case.refusal(head) == ""
    case.signatures.asked.clear()
    assert case.refusal(head) == ""
    later = case.commit("a", on=[head], by="alice")
    assert case.refusal(later) == ""
    assert case.signatures.asked == [later]


def test_changed_keys_forget_what_was_good(case: Case) -> None:
    case.signatures.trusted = {"alice", "bob"}
    *_, head = case.line("alice", "bob")
    assert case.refusal(head) == ""
    case.signatures.trusted = {"alice"}
    assert case.refusal(head)
    case.signatures.trusted = {"alice", "bob"}
    assert case.refusal(head) == ""


def test_a_refused_commit_is_looked_at_again_each_time(case: Case) -> None:
    *_, head = case.line("alice", "")
    assert case.refusal(head)
    case.signatures.signed[head] = "alice"
    assert case.refusal(head) == ""


def test_while_an_ancestor_is_in_doubt_so_is_everything_on_top_of_it(whole: Case) -> None:
    *_, unsigned, middle, head = whole.line("alice", "", "alice", "alice")
    for one in (head, middle, head, unsigned):
        assert whole.refusal(one)


def test_without_keys_nothing_is_accepted_from_memory(case: Case) -> None:
    (head,) = case.line("alice")
    assert case.refusal(head) == ""
    case.signatures.error = GitError("the folder of trusted keys does not exist")
    with pytest.raises(GitError, match="does not exist"):
        case.refusal(head)


# -- the status folder


def test_a_commit_that_names_another_status_folder_cannot_excuse_itself(case: Case) -> None:
    (signed,) = case.line("alice")
    sly = case.commit("reconciler.yaml", "p/Containerfile", on=[signed])
    assert sly[:12] in case.refusal(sly, status="p")
    on_top = case.commit("p/Containerfile", on=[sly])
    assert sly[:12] in case.refusal(on_top, status="p")


def test_what_was_put_below_an_old_status_folder_is_not_excused_below_a_new_one(whole: Case) -> None:
    (signed,) = whole.line("alice")
    planted = whole.commit("status/evil/os.yaml", on=[signed])
    assert whole.refusal(planted) == ""  # nobody reads a definition there
    moved = whole.commit("reconciler.yaml", on=[planted], by="alice")
    assert planted[:12] in whole.refusal(moved, status="state")  # now it would be one, and nobody signed it


def test_the_head_of_a_repository_that_is_reconciled_must_be_signed_whatever_it_says_of_its_status() -> None:
    bench = Bench()
    signatures = FakeSignatures({bench.repository.resolve("1"): "alice"})
    trust = Trust(bench.repository, signatures)
    world = World(
        bench.repository,
        bench.registry,
        bench.builder,
        bench.clock,
        History(bench.repository),
        Place("main", "main"),
        Scope(),
        trust,
    )
    reconciler = Reconciler(world)
    while reconciler.run_pass().in_flight:
        bench.end_builds()
    assert "status/worker.yaml" in bench.repository.commits[-1]  # its own commit on top is accepted
    assert reconciler.run_pass().sound
    before = dict(bench.builder.requests)
    bench.commit({**FILES, "reconciler.yaml": config(rest="statusPath: p\n"), "p/files/amd64/x": "evil"})
    with pytest.raises(UnverifiedCommit):
        reconciler.run_pass()
    bench.commit({**FILES, "p/files/amd64/x": "evil"})
    with pytest.raises(UnverifiedCommit):
        reconciler.run_pass()
    assert bench.builder.requests == before


# -- a folder of a shared repository


def test_status_commits_of_a_daemon_with_another_folder_are_no_obstacle(case: Case) -> None:
    signed = case.commit("east/p/Containerfile", by="alice")
    other = case.commit("west/status/a.yaml", on=[signed])
    assert case.refusal(other, "east/status", "east") == ""
    assert case.refusal(case.commit("east/status/b.yaml", on=[other]), "east/status", "east") == ""
    assert case.refusal(other, "west/status", "west") == ""


@pytest.mark.parametrize("path", ["east/p/Containerfile", "east", "east/statuses/a"])
def test_what_changes_the_own_folder_must_be_signed(case: Case, path: str) -> None:
    signed = case.commit("east/p/Containerfile", by="alice")
    assert case.refusal(case.commit("west/x", path, on=[signed]), "east/status", "east")


def test_another_folder_forgets_what_was_good(whole: Case) -> None:
    first = whole.commit("a", by="alice")
    unsigned = whole.commit("west/x", on=[first])
    head = whole.commit("east/x", on=[unsigned], by="alice")
    assert whole.refusal(head, "east/status", "east") == ""
    assert unsigned[:12] in whole.refusal(head, "west/status", "west")


# -- against a model


@dataclass(frozen=True)
class Drawn:
    """A history by chance: for each commit its parents (as numbers of earlier ones), its paths, and its signer."""

    commits: tuple[tuple[tuple[int, ...], tuple[str, ...], str], ...]
    since: int


PATHS = ("status/a.yaml", "status/b.yaml", "p/x", "reconciler.yaml")


@st.composite
def histories(draw: st.DrawFn) -> Drawn:
    commits = []
    for number in range(draw(st.integers(1, 12))):
        parents = draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else []
        paths = draw(st.lists(st.sampled_from(PATHS), max_size=2, unique=True))
        commits.append((tuple(parents), tuple(paths), draw(st.sampled_from(["alice", "alice", "bob", ""]))))
    return Drawn(tuple(commits), draw(st.integers(-1, len(commits) - 1)))


def built(drawn: Drawn, checked: Checked) -> tuple[Case, list[str]]:
    case, ids = Case(checked), list[str]()
    for parents, paths, signer in drawn.commits:
        ids.append(case.commit(*paths, on=[ids[one] for one in parents], by=signer))
    case.trust.since = ids[drawn.since] if drawn.since >= 0 else ""
    return case, ids


def acceptable(case: Case, head: str, trusted: set[str]) -> bool:
    """The rule, told in another way: look at every commit that matters."""
    graph, signed = case.graph, case.signatures.signed

    def only_status(commit: str) -> bool:
        paths = graph.changed[commit]
        return bool(paths) and all(path.startswith("status/") for path in paths)

    def made_for(commit: str) -> str:
        while len(graph.made_on[commit]) == 1 and only_status(commit):
            (commit,) = graph.made_on[commit]
        return commit

    def ours(commit: str) -> bool:
        first, *merged = graph.made_on[commit] or ("",)
        return bool(first) and only_status(commit) and {made_for(one) for one in merged} <= graph.below(first)

    def good(commit: str) -> bool:
        return signed.get(commit) in trusted or bool(since and commit in graph.below(since))

    since = case.trust.since
    while ours(head):
        head = graph.made_on[head][0]
    if case.trust.checked is Checked.HEAD:
        return good(head)
    spared = graph.below(since) if since else set()
    found, pending = True, [head]
    seen: set[str] = set()
    while pending:
        one = pending.pop()
        if one in seen or one in spared:
            continue
        seen.add(one)
        found = found and (good(one) or (ours(one) and one != head))
        pending += graph.made_on[one]
    return found


@given(
    histories(), st.sampled_from(Checked), st.lists(st.tuples(st.integers(0, 11), st.booleans()), max_size=12)
)
def test_memory_never_changes_a_verdict_and_the_verdict_is_the_rule(
    drawn: Drawn, checked: Checked, looks: list[tuple[int, bool]]
) -> None:
    case, ids = built(drawn, checked)
    for number, both in looks:
        head = ids[number % len(ids)]
        case.signatures.trusted = {"alice", "bob"} if both else {"alice"}
        assert (case.refusal(head) == "") is acceptable(case, head, case.signatures.trusted)


# -- the latest commit of an author


def test_the_latest_commit_of_an_author_is_below_the_status_commits() -> None:
    case = Case()
    (first,) = case.line("alice")
    ours = case.commit("status/a.yaml", on=[first])
    head = case.commit("status/b.yaml", on=[ours])
    assert authored(case.graph, head, "status") == first
    assert authored(case.graph, first, "status") == first
    assert authored(case.graph, head, "elsewhere") == head


def test_from_head_to_head_only_what_is_new_is_looked_at() -> None:
    case = Case()
    (head,) = case.line("alice")
    history = History(case.graph)
    first = head
    for _ in range(200):
        head = case.commit("status/a.yaml", on=[head])
        assert history.authored(head, "status") == first
        history.settle()
    assert case.graph.compared <= 2 * 200
    assert history.remembered <= 2


def test_what_is_remembered_holds_for_one_status_folder_only() -> None:
    case = Case()
    (first,) = case.line("alice")
    head = case.commit("status/a.yaml", on=[first])
    history = History(case.graph)
    assert history.authored(head, "status") == first
    assert history.authored(head, "state") == head
    assert history.authored(head, "status") == first


@given(histories(), st.lists(st.integers(0, 11), max_size=12))
def test_memory_never_changes_the_author(drawn: Drawn, looks: list[int]) -> None:
    case, ids = built(drawn, Checked.HEAD)
    history = History(case.graph)
    for number in looks:
        head = ids[number % len(ids)]
        assert history.authored(head, "status") == authored(case.graph, head, "status")
