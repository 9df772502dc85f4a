"""Folders of MachineConfigs, and the root file system tree that each gives.

To write the trees anew, run the module: `python -m tests.unit.machineconfig.test_golden`. Then read what changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.machineconfig.listing import listed

CASES = sorted(path for path in Path(__file__).with_name("golden").iterdir() if path.is_dir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_tree(case: Path) -> None:
    assert listed(case) == (case / "expected.txt").read_text()


if __name__ == "__main__":
    for folder in CASES:
        (folder / "expected.txt").write_text(listed(folder))
