"""The stage `configs` as text: equal for equal layers, safe whatever a name holds, and small enough for every builder.
What it builds is in tests/adapters/machineconfig."""

from __future__ import annotations

import io
import shlex
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.containerfile import parse
from reconciler.core.documents import MachineConfigPolicy
from reconciler.core.machineconfig import Entry, KernelType, Kind, Layer
from reconciler.core.machineconfig.stage import FOLDER, Stage, stage, wants_extensions
from reconciler.core.machineconfig.stage_shell import quoted, run
from tests.unit.machineconfig.encodings import Wanted, file_sets, repositories
from tests.unit.machineconfig.listing import GOLDEN, layer_in, layer_of

SOUND = sorted(path.parent for path in GOLDEN.glob("*/image.txt"))


def built(layer: Layer) -> Stage:
    return stage(layer, "quay.io/os/base:1", "quay.io/os/extensions:1")


@settings(max_examples=60, deadline=None)
@given(st.data(), file_sets)
def test_the_same_files_give_the_same_stage(data: st.DataObject, files: list[Wanted]) -> None:
    one, other = (layer_of(data.draw(repositories(files))) for _ in range(2))
    image = MachineConfigPolicy.IMAGE
    assert one.canonical(image) == other.canonical(image)
    assert built(one) == built(other)
    with tarfile.open(fileobj=io.BytesIO(built(one).files[0].content)) as archive:
        found = {f"/{info.name}": (info, archive.extractfile(info)) for info in archive}
    assert found.keys() == {file.path for file in files}
    for file in files:
        info, content = found[file.path]
        assert info.isreg()
        assert info.mode == file.mode
        assert info.mtime == 0
        assert (info.uid, info.gid) == tuple(x if isinstance(x, int) else 0 for x in (file.user, file.group))
        assert content is not None
        assert content.read() == file.data


@pytest.mark.parametrize("case", SOUND, ids=lambda case: case.name)
def test_the_text_is_a_stage_and_takes_nothing_but_its_folder(case: Path) -> None:
    found = built(layer_in(case))
    text = parse(f"{found.text}FROM configs AS final\n", "Containerfile")
    assert [part.name for part in text.stages] == ["configs", "final"]
    assert not text.globals
    assert not any(one.heredocs for part in text.stages for one in part.body)
    assert all(file.path.startswith(f"{FOLDER}/") for file in found.files)
    sources = {one.words[0] for one in text.stages[0].body if one.keyword == "ADD"}
    assert sources == {file.path for file in found.files}


@given(st.one_of(st.text(st.characters(exclude_categories=["Cc", "Cs"])), st.text("<'\" \\$x", max_size=12)))
def test_a_word_stays_a_word_and_begins_no_heredoc(text: str) -> None:
    assert shlex.split(quoted(text)) == [text]
    assert "<<" not in quoted(text)


@given(st.lists(st.integers(1, 40_000), max_size=12))
def test_instructions_stay_small_and_keep_order(sizes: list[int]) -> None:
    commands = [f"{i}{'x' * size}" for i, size in enumerate(sizes)]
    found = list(run(["used() { :; }", "unused() { :; }"], commands))
    parts = [text.removeprefix("RUN set -eu; \\\n    umask 022; \\\n    ") for text in found]
    assert "; \\\n    ".join(part.rstrip("\n") for part in parts) == "; \\\n    ".join(commands)
    assert all(len(text) < 40_000 + (32 << 10) for text in found)


def test_functions_come_where_they_are_used() -> None:
    functions = ["inner() { :; }", 'outer() { inner "$1"; }', "other() { :; }"]
    assert "".join(run(functions, ["outer '/x'"])).count("() {") == 2
    assert "() {" not in "".join(run(functions, ["rm -rf -- '/inner/outer/other'"]))


def test_a_large_layer_fits() -> None:
    long = "/etc/" + "/".join("d" * 200 for _ in range(15))
    entries = tuple(Entry(f"{long}/{i}", Kind.DIRECTORY, 0o700, "core", "core") for i in range(400))
    found = built(Layer(entries))
    assert max(map(len, found.text.splitlines())) < 64 << 10
    assert max(map(len, found.text.split("\nRUN "))) < 128 << 10
    assert found.text.count("folder '") == 400


def test_nothing_is_the_base_image() -> None:
    assert built(Layer()) == Stage("FROM quay.io/os/base:1 AS configs\n")


def test_who_wants_the_extensions_image() -> None:
    assert not wants_extensions(Layer())
    for layer in (Layer(extensions=("sysstat",)), Layer(kernel_type=KernelType.REALTIME)):
        assert wants_extensions(layer)
        assert "from=quay.io/os/extensions:1," in built(layer).text
        assert "mount" not in stage(layer, "base", None).text


def test_a_name_of_the_layer_cannot_become_a_command() -> None:
    hurt = "/etc/'; touch /hurt; echo '"
    layer = Layer((Entry(hurt, Kind.DIRECTORY, 0o755, None, None),), removals=(hurt,), unmasked=(hurt,))
    lines = [line for line in built(layer).text.splitlines() if "hurt" in line]
    assert len(lines) == 4
    for line in lines:
        assert hurt in shlex.split(line.rstrip("\\ ").removesuffix(";"))
