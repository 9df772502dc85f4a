"""Golden folders of MachineConfigs, built by real buildah: what each changes on a base image.

To write the trees anew, run the module: `python -m tests.adapters.machineconfig.test_trees`. Then read what changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from reconciler.core.machineconfig.stage import Stage, stage
from tests.adapters.machineconfig.base import TREE, folder
from tests.adapters.machineconfig.images import Images, Node, changes
from tests.unit.machineconfig.listing import GOLDEN, layer_in

pytestmark = pytest.mark.tools

CASES = sorted(path.parent for path in GOLDEN.glob("*/image.txt"))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    found = Images(tmp_path_factory.mktemp("images"))
    found.base("base", TREE)
    found.base("shellless", [("/usr", folder())], ())
    return found


@pytest.fixture(scope="module")
def base(images: Images) -> Mapping[str, Node]:
    return images.tree("base")


def staged(case: Path) -> Stage:
    return stage(layer_in(case), "localhost/base", None)


def built(case: Path, images: Images, base: Mapping[str, Node]) -> str:
    """What the stage changes, or what it says when it refuses."""
    done = images.stage(staged(case))
    if done.status:
        said = [line for line in done.complaint.splitlines() if line.startswith("machineconfig: ")]
        return "".join(f"{line}\n" for line in ("refused", *said))
    return changes(base, images.built())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_image(case: Path, images: Images, base: Mapping[str, Node]) -> None:
    assert built(case, images, base) == (case / "image.txt").read_text()


def sound() -> Iterator[Path]:
    """The folders that give a layer."""
    for case in sorted(GOLDEN.iterdir()):
        if not (case / "expected.txt").read_text().startswith("fault "):
            yield case


@pytest.mark.parametrize("case", ["base-replaced", "units"])
def test_the_same_stage_gives_the_same_image(case: str, images: Images) -> None:
    ids = set()
    for _ in range(2):
        done = images.stage(staged(GOLDEN / case))
        assert done.status == 0, done.complaint
        ids.add(done.stdout.splitlines()[-1])
    assert len(ids) == 1


def test_a_users_text_goes_on_from_it(images: Images, base: Mapping[str, Node]) -> None:
    """As a build of its own or in one file: both give the same."""
    mine = "FROM configs AS final\nRUN cat /etc/a >/etc/final\n"
    first = staged(GOLDEN / "pool-worker")
    assert images.stage(first).status == 0
    apart = images.build(mine, images.root / "tmp", "--tag=localhost/final")
    assert apart.status == 0, apart.complaint
    one = changes(base, images.tree("final"))
    assert images.stage(replace(first, text=first.text + mine)).status == 0
    assert changes(base, images.built()) == one
    assert "/etc/final\n  |worker-a\n" in one


@pytest.mark.parametrize("case", ["files-encodings", "units-also"])
def test_a_base_without_a_shell_takes_files_and_units_of_the_layers_own(case: str, images: Images) -> None:
    layer = replace(layer_in(GOLDEN / case), enabled=(), disabled=())
    done = images.stage(stage(layer, "localhost/shellless", None))
    assert done.status == 0, done.complaint
    assert {entry.path for entry in layer.entries} <= images.built().keys()


def test_no_folder_is_left_out() -> None:
    assert list(sound()) == CASES


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        made = Images(Path(place))
        made.base("base", TREE)
        before = made.tree("base")
        for found in sound():
            (found / "image.txt").write_text(built(found, made, before))
