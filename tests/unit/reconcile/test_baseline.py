"""A plan that takes over what an earlier one found is the plan that reads everything."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.engine import VERSION
from reconciler.core.model import Arch, Base, TreeEntry
from reconciler.core.plan import Action, Plan, PoolPlan
from reconciler.core.status import ArchRecord, PoolRecord, write_status
from reconciler.reconcile.baseline import LIMIT, Baseline, Standing, Touched
from reconciler.reconcile.history import History
from reconciler.reconcile.preview import Preview
from reconciler.reconcile.targets import Scope
from tests.fakes import FakeObjects
from tests.unit.definitions import config, mosc

TEXT = "FROM quay.io/os/base:1\nARG TARGETARCH\nCOPY files/${TARGETARCH} /etc/\n"
FIRST = f"{1:040x}"
REFRESH = "reconciler.machineos.dev/refresh"
SUSPEND = "reconciler.machineos.dev/suspend: 'true'"


@dataclass
class KeptInMemory:
    """Implements `ports.Kept`."""

    values: dict[str, bytes] = field(default_factory=dict)

    def get(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """What was put."""
        return {key: self.values[key] for key in keys if key in self.values}

    def put(self, values: Mapping[str, bytes]) -> None:
        """For as long as this lives."""
        self.values |= values

    @property
    def baselines(self) -> list[str]:
        """The keys of baselines."""
        return [key for key in self.values if key.startswith("baseline/")]


@dataclass
class Listing(FakeObjects):
    """Remembers what was listed: None for a whole tree."""

    listed: list[Collection[str] | None] = field(default_factory=list)

    def tree(
        self, commit: str, under: str = "", only: Collection[str] | None = None
    ) -> tuple[TreeEntry, ...]:
        """As the fake, remembered."""
        self.listed.append(only)
        return super().tree(commit, under, only)


def definition_of(objects: FakeObjects, commit: str, pool: str, arch: Arch) -> str:
    history = History(objects)
    found = history.pool(commit, pool)
    return history.inputs(found, arch, "").definition if found else "sha256:" + "0" * 64


def status(pool: str, definition: str, epoch: str = "", arch: Arch = Arch.AMD64) -> bytes:
    image = f"registry.example.com/os/{pool}@sha256:"
    bases = (Base("quay.io/os/base:1", "sha256:" + "b" * 64),)
    entry = ArchRecord(arch, image + "1" * 64, "sha256:" + "2" * 64, definition, f"{1:040x}", epoch, bases)
    return write_status(PoolRecord(pool, "default", VERSION, image + "3" * 64, f"{1:040x}", (entry,)))


def pool_files(pool: str, folder: str) -> dict[str, bytes | str]:
    return {
        f"{folder}/os.yaml": mosc(pool),
        f"{folder}/Containerfile": TEXT,
        f"{folder}/files/amd64/x": "1",
        f"{folder}/files/arm64/x": "1",
    }


START: dict[str, bytes | str] = {
    "reconciler.yaml": config(),
    **pool_files("a", "p/a"),
    **pool_files("inner", "p/a/inner"),
    **pool_files("b", "p/b"),
    **pool_files("c", "p/c"),
}
# The definition digest that pools of START have: so a record can be of their very images.
BUILT = {
    name: definition_of(FakeObjects([START]), f"{1:040x}", name, Arch.AMD64)
    for name in ("a", "inner", "b", "c")
}
Edits = list[tuple[str, list[bytes | str | None]]]
"""Paths, and what may be written there; None removes the file."""


def edits_of(pool: str, folder: str) -> Edits:
    definitions: list[bytes | str | None] = [
        mosc(pool),
        mosc(pool, annotations=f"{REFRESH}: x"),
        mosc(pool, annotations=f"{REFRESH}: y"),
        mosc(pool, annotations=SUSPEND),
        mosc(pool, push="registry.example.com/os/c:latest"),
        mosc(pool, push="registry.example.com/moved:1"),
        mosc("c"),
        mosc("renamed"),
        mosc(pool) + "  unknown: 1\n",
        "a: [",
        None,
    ]
    records: list[bytes | str | None] = [
        status(pool, BUILT[pool]),
        status(pool, BUILT[pool], "n=1&refresh=x"),
        status(pool, "sha256:" + "9" * 64, "n=4&refresh=z"),
        "a: [",
        None,
    ]
    stolen = mosc("new", push="registry.example.com/os/c:latest")
    return [
        (f"{folder}/files/arm64/x", ["1", "2", "3", None, "->../amd64/x"]),
        (f"{folder}/Containerfile", [TEXT, TEXT + "ENV A=1\n", "# why\n" + TEXT, "NONSENSE\n", None]),
        (f"{folder}/Containerfile.arm64", [TEXT + "ENV B=1\n", None]),
        (f"{folder}/.containerignore", ["files/arm64\n", None]),
        (f"{folder}/notes.yaml", ["kind: Other\n", "a: [", "kind: MachineConfig\nrole: c\na: [", None]),
        (f"{folder}/two.yml", [mosc("c"), mosc("new"), stolen, None]),
        (f"{folder}/os.yaml", definitions),
        (f"status/{pool}.yaml", records),
    ]


EDITS: Edits = [
    *edits_of("a", "p/a"),
    *edits_of("b", "p/b"),
    *edits_of("inner", "p/a/inner"),
    ("reconciler.yaml", [config(), config("amd64"), config(rest="statusPath: p/b/files\n"), None]),
    ("reconciler.yaml", [config(rest="exclude: [p/c]\n"), config(rest="probes: opaque\n")]),
    ("README.md", ["hello", "again"]),
    ("more.yaml", ["kind: Other\n", mosc("new"), "a: [", None]),
    ("p/a/status", ["x", None]),
    ("status/sub/a.yaml", [status("a", BUILT["a"]), None]),
]
SCOPES = [Scope(), Scope(), Scope(), Scope(architectures=(Arch.ARM64,)), Scope(fallback=(Arch.S390X,))]

wild = st.sampled_from(EDITS).flatmap(lambda edit: st.tuples(st.just(edit[0]), st.sampled_from(edit[1])))
# Most commits are no trouble; where they all were, there would seldom be a baseline.
calm = st.sampled_from(
    [
        (path, content)
        for path, contents in EDITS
        for content in contents[:3]
        if path.endswith(("/x", "file", "md")) or path.startswith("status/") or REFRESH in str(content)
    ]
)
edits = st.one_of(calm, calm, calm, calm, wild)


@st.composite
def repositories(draw: st.DrawFn) -> FakeObjects:
    """A few commits, each some edits away from the one before, or back at an earlier one."""
    objects = Listing()
    objects.add(START)
    for changed in draw(st.lists(st.lists(edits, min_size=1, max_size=3), min_size=1, max_size=4)):
        files = dict(draw(st.sampled_from(objects.commits)))
        for path, content in changed:
            files.pop(path, None)
            if content is not None:
                files[path] = content
        objects.add(files)
    return objects


@settings(deadline=None, max_examples=200)
@given(repositories(), st.data())
def test_the_plan_with_a_baseline_is_the_plan_without(objects: FakeObjects, data: st.DataObject) -> None:
    kept = KeptInMemory()
    number = st.integers(1, len(objects.commits))
    first = f"{data.draw(number):040x}"
    plan(objects, kept, first, first, worth=1)
    for _ in range(data.draw(st.integers(2, 5))):
        base, head = (f"{data.draw(number):040x}" for _ in range(2))
        scope = data.draw(st.sampled_from(SCOPES))
        found = Preview(History(objects, kept=kept), scope, worth=1).plan(head, base)
        assert found == Preview(History(objects), scope).plan(head, base)


def many(pools: int = 60) -> dict[str, bytes | str]:
    files: dict[str, bytes | str] = {"reconciler.yaml": config(), "README.md": "hello"}
    for number in range(pools):
        files |= pool_files(f"n{number:03}", f"pools/n{number:03}")
    return files


def plan(objects: FakeObjects, kept: KeptInMemory, head: str, base: str, worth: int = 50) -> Plan:
    return Preview(History(objects, kept=kept), Scope(), worth=worth).plan(head, base)


@pytest.fixture
def kept() -> KeptInMemory:
    return KeptInMemory()


@pytest.fixture
def objects(kept: KeptInMemory) -> Listing:
    """A repository of many pools, one commit of which was planned."""
    made = Listing()
    first = made.add(many())
    plan(made, kept, first, first)
    made.listed.clear()
    return made


def test_only_what_a_change_may_concern_is_read(objects: Listing, kept: KeptInMemory) -> None:
    head = objects.add(many() | {"pools/n030/files/arm64/x": "2"})
    made = plan(objects, kept, head, FIRST)
    assert made.summary == {Action.BUILD: 1, Action.REUSE: 119, Action.BLOCKED: 0, Action.DROP: 0}
    assert [pool.name for pool in made.pools] == [f"n{number:03}" for number in range(60)]
    assert None not in objects.listed, "no whole tree"
    assert {path for only in objects.listed if only for path in only} == {
        "reconciler.yaml",
        "pools/n030",
        "n030.yaml",
    }


def test_the_base_may_differ_from_the_baseline_too(objects: Listing, kept: KeptInMemory) -> None:
    base = objects.add(many() | {"pools/n001/files/arm64/x": "2", "README.md": "changed"})
    head = objects.add(dict(objects.commits[-1]) | {"pools/n002/files/amd64/x": "2"})
    made = plan(objects, kept, head, base)
    assert made.summary[Action.BUILD] == 1
    assert None not in objects.listed
    assert made == Preview(History(objects), Scope()).plan(head, base)


def test_a_damaged_baseline_costs_time_only(objects: Listing, kept: KeptInMemory) -> None:
    head = objects.add(many() | {"pools/n030/files/arm64/x": "2"})
    truth = plan(objects, KeptInMemory(), head, FIRST)
    (key,) = kept.baselines
    whole = kept.values[key]
    for damaged in (b"", b"{}", b"[1,2,[]]", whole[:-10], whole.replace(FIRST.encode(), b"f" * 40)):
        kept.values[key] = damaged
        objects.listed.clear()
        assert plan(objects, kept, head, FIRST) == truth
        assert None in objects.listed


def test_other_questions_have_other_baselines(objects: Listing, kept: KeptInMemory) -> None:
    for scope in (Scope(architectures=(Arch.AMD64,)), Scope(fallback=(Arch.AMD64,))):
        objects.listed.clear()
        Preview(History(objects, kept=kept), scope).plan(FIRST, FIRST)
        assert None in objects.listed
    objects.listed.clear()
    Preview(History(objects, kept=kept, repository="elsewhere"), Scope()).plan(FIRST, FIRST)
    assert None in objects.listed
    assert len(kept.baselines) == 4


def test_no_baseline_of_what_was_asked_in_part_or_has_faults(kept: KeptInMemory) -> None:
    broken = FakeObjects([many() | {"pools/n000/os.yaml": "a: ["}])
    plan(broken, kept, FIRST, FIRST)
    whole = FakeObjects([many()])
    Preview(History(whole, kept=kept), Scope(pools=frozenset({"n001"}))).plan(FIRST, FIRST)
    Preview(History(whole, kept=kept), Scope()).plan(FIRST)
    small = FakeObjects([many(49)])
    plan(small, kept, FIRST, FIRST)
    assert not kept.baselines
    plan(whole, kept, FIRST, FIRST)
    assert kept.baselines


def test_what_is_wrong_with_a_pool_is_said_every_time(kept: KeptInMemory) -> None:
    silent = FakeObjects([{path: text for path, text in START.items() if path != "reconciler.yaml"}])
    first = plan(silent, kept, FIRST, FIRST, worth=1)
    assert len(first.errors) == 4
    assert kept.baselines
    assert plan(silent, kept, FIRST, FIRST, worth=1) == first


def test_a_status_path_that_moves_has_a_past_of_its_own(kept: KeptInMemory) -> None:
    objects = FakeObjects([START | {"other/a.yaml": status("a", BUILT["a"], "n=3&refresh=z")}, START])
    base = f"{2:040x}"
    plan(objects, kept, base, base, worth=1)
    head = objects.add(START | {"reconciler.yaml": config(rest="statusPath: other\n")})
    made = plan(objects, kept, head, base, worth=1)
    assert made == plan(objects, KeptInMemory(), head, base)
    assert made.pools[0].cells[0].definition != BUILT["a"], "it is in the epoch that was recorded there"


def test_a_baseline_too_far_away_is_replaced(objects: Listing, kept: KeptInMemory) -> None:
    changed = {f"pools/n{number:03}/files/arm64/x": "2" for number in range(LIMIT + 1)}
    far = objects.add(many() | changed)
    plan(objects, kept, far, FIRST)
    assert None in objects.listed
    objects.listed.clear()
    assert plan(objects, kept, far, far).summary[Action.REUSE] == 120
    assert None not in objects.listed


def standings(**folders: str) -> Iterator[Standing]:
    for name, folder in folders.items():
        yield Standing(name, folder, f"registry.example.com/{name}:1", True, PoolPlan(name, folder, ()))


BASELINE = Baseline(FIRST, "status", tuple(standings(a="p/a", inner="p/a/inner", b="p/b", c="p/c")))


@pytest.mark.parametrize(
    ("paths", "pools"),
    [
        ([], set()),
        (["README.md", "p/readme"], set()),
        (["p/b/x"], {"b"}),
        (["p/b/deep/er/x.yaml"], {"b"}),
        (["p/bb"], set()),
        (["p/a/x"], {"a", "inner"}),
        (["p/a/inner/x"], {"a", "inner"}),
        (["p/c/os.yml", "p/b/Containerfile"], {"b", "c"}),
        (["reconciler.yaml"], None),
        (["p/b/x", "reconciler.yaml"], None),
    ],
)
def test_which_pools_a_path_may_concern(paths: list[str], pools: set[str] | None) -> None:
    for base, head in ((paths, []), ([], paths), (paths, paths)):
        found = BASELINE.touched(base, head, past=True)
        assert (None if found is None else set(found.pools)) == pools


def test_documents_elsewhere_may_define_a_pool_and_are_read() -> None:
    paths = ["p/new/os.yaml", "x.yml", "x.txt", "p/b/x.yaml"]
    found = BASELINE.touched(paths, [], past=False)
    assert found is not None
    assert found.pools == {"b"}
    assert found.paths == ("reconciler.yaml", "p/b", "p/new/os.yaml", "x.yml")
    assert BASELINE.touched([], [f"{number}.yaml" for number in range(LIMIT + 1)], past=False) is None


def test_a_status_file_concerns_its_pool_where_it_is_that_of_the_head() -> None:
    found = BASELINE.touched(["status/c.yaml"], ["status/b.yaml", "status/unknown.yaml", "status"], past=True)
    assert found == Touched(frozenset({"b"}), frozenset({"p/b"}))
    assert found.paths == ("reconciler.yaml", "p/b")


def test_what_is_not_known_of_a_pool_is_worked_out_each_time() -> None:
    unknown = Standing("d", "p/d", "r.io/d:1", True, None)
    unrecorded = Standing("e", "p/e", "r.io/e:1", False, PoolPlan("e", "p/e/os.yaml", ()))
    baseline = Baseline(FIRST, "status", (*BASELINE.pools, unknown, unrecorded))
    for past, pools in ((False, {"d"}), (True, {"d", "e"})):
        found = baseline.touched([], [], past=past)
        assert found is not None
        assert found.pools == pools
        assert {plan.name for plan in baseline.others(found)} == {"a", "inner", "b", "c", "e"} - pools


def test_a_pool_at_the_root_leaves_nothing_to_take_over() -> None:
    baseline = Baseline(FIRST, "status", (*standings(root=""),))
    assert baseline.touched([], [], past=False) == Touched(frozenset(), frozenset())
    assert baseline.touched([], ["x"], past=False) is None
