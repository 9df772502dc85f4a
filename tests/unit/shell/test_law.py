"""The law, on real shells: what is left of a text does what the text does, so equal rests mean equal results."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.core.model import Arch
from tests.unit.shell.scripts import World, Writer
from tests.unit.shell.texts import left

UNKNOWN = ("amd64", "x", "", "a b", "arm64")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World.make(tmp_path_factory.mktemp("shells"))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), arch=st.sampled_from([Arch.AMD64, Arch.ARM64]), bare=st.booleans())
def test_what_is_left_does_the_same(world: World, seed: int, arch: Arch, *, bare: bool) -> None:
    random = Random(seed)  # noqa: S311  (no secret)
    text = Writer(random).text()
    rest = left(text, arch)
    if rest is None:
        return
    shell, unknown = random.choice(world.shells), random.choice(UNKNOWN)
    whole = world.run(shell, text, arch, unknown, bare=bare)
    assert world.run(shell, rest, arch, unknown, bare=bare) == whole, rest
    assert left(rest, arch) is not None


def test_an_edit_that_leaves_the_rest_alone_changes_nothing(world: World) -> None:
    """Edits in one place of a text: where the rests are equal, so are the results; and both cases are frequent."""
    seen: Counter[bool] = Counter()
    for seed in range(40):
        random = Random(seed)  # noqa: S311  (no secret)
        text = Writer(random).text()
        marks = [word for word in dict.fromkeys(text.split()) if word.startswith("t") and word[1:].isdigit()]
        if not marks:
            continue
        mark = random.choice(marks)
        edited = " ".join("edited" if word == mark else word for word in text.split(" "))
        arch = random.choice([Arch.AMD64, Arch.ARM64])
        rests = left(text, arch), left(edited, arch)
        if edited == text or None in rests:
            continue
        same = rests[0] == rests[1]
        seen[same] += 1
        shell, unknown = random.choice(world.shells), random.choice(UNKNOWN)
        results = [world.run(shell, one, arch, unknown, bare=False) for one in (text, edited)]
        assert not same or results[0] == results[1], text
    assert seen[True] > 3
    assert seen[False] > 3
