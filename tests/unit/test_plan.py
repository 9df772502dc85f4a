from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.core.containerfile import ContextTree, IgnoreRules, Recipe, parse, specialise
from reconciler.core.inputs import Analysis, Inputs, canonical_json, digest_of
from reconciler.core.model import Arch, Base
from reconciler.core.plan import Action, Cell, Image, Plan, PoolPlan, Reason, Target, decide

OBSTACLE = Reason("bases", "missing", "gone")
BASE = Base("quay.io/a/b:1", "sha256:" + "1" * 64)


def recipe(text: str = "FROM quay.io/a/b:1\nRUN true\n", arch: Arch = Arch.AMD64) -> Recipe:
    context = ContextTree(entries=(), links={}, lfs=frozenset(), ignore=IgnoreRules.parse(""))
    return specialise(parse(text, "Containerfile"), arch, context)


def target(bases: tuple[Base, ...] | None = (BASE,), epoch: str = "") -> Target:
    return Target("worker", Arch.AMD64, Inputs.of(Analysis.of(recipe()), epoch), bases)


def image_of(wanted: Target, name: str = "r@sha256:0") -> Image:
    assert wanted.definition
    return Image(name, wanted.definition, wanted.input, "status")


def test_equal_inputs_are_reused() -> None:
    assert decide(target(), [image_of(target())]) == (Action.REUSE, image_of(target()))


def test_nothing_that_exists_means_build() -> None:
    assert decide(target(), []) == (Action.BUILD, None)


def test_a_moved_base_means_build_even_with_an_equal_definition() -> None:
    moved = target((replace(BASE, digest="sha256:" + "2" * 64),))
    assert decide(moved, [image_of(target())])[0] is Action.BUILD


def test_locked_bases_reuse_what_was_built_from_older_ones() -> None:
    moved = target((replace(BASE, digest="sha256:" + "2" * 64),))
    assert decide(moved, [image_of(target())], locked=True)[0] is Action.REUSE


def test_offline_the_definition_decides() -> None:
    assert decide(target(None), [image_of(target())])[0] is Action.REUSE


def test_an_unresolved_base_concludes_nothing() -> None:
    unknown = replace(target(None), obstacles=(OBSTACLE,))
    assert decide(unknown, [image_of(target())]) == (Action.BLOCKED, None)


def test_an_invalid_definition_is_blocked_whatever_exists() -> None:
    broken = Target("worker", Arch.AMD64, None, obstacles=(OBSTACLE,))
    assert decide(broken, [image_of(target())], locked=True) == (Action.BLOCKED, None)


def test_another_epoch_is_another_image() -> None:
    assert decide(target(epoch="n=2"), [image_of(target(epoch="n=1"))])[0] is Action.BUILD


def test_architectures_never_share_an_image() -> None:
    arm = Target("worker", Arch.ARM64, Inputs.of(Analysis.of(recipe(arch=Arch.ARM64))), (BASE,))
    assert decide(arm, [image_of(target())])[0] is Action.BUILD


@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_bases_does_not_matter(names: list[str]) -> None:
    bases = [Base(name, f"sha256:{name * 64}") for name in "abcd"]
    shuffled = [Base(name, f"sha256:{name * 64}") for name in names]
    inputs = Inputs.of(Analysis.of(recipe()))
    assert inputs.input(bases) == inputs.input(shuffled)


def test_the_plan_digest_is_of_definitions_alone() -> None:
    def plan(action: Action, definition: str, image: str | None) -> Plan:
        cell = Cell(Arch.AMD64, action, (), definition, None, None, image)
        return Plan(None, "0" * 40, (PoolPlan("worker", "a.yaml", (cell,)),))

    assert plan(Action.BUILD, "sha256:1", None).digest == plan(Action.REUSE, "sha256:1", "x").digest
    assert plan(Action.BUILD, "sha256:1", None).digest != plan(Action.BUILD, "sha256:2", None).digest


def test_the_summary_names_every_action() -> None:
    assert dict(Plan(None, "0" * 40, ()).summary) == dict.fromkeys(Action, 0)


@given(st.text())
def test_the_definition_digest_is_that_of_canonical_json(epoch: str) -> None:
    analysis = Analysis.of(recipe())
    document = {"architecture": "amd64", "content": analysis.content, "refresh": epoch}
    assert Inputs.of(analysis, epoch).definition == digest_of(canonical_json(document))
