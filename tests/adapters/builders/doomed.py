"""A daemon that will be killed: `python -m … DIRECTORY IMAGE BASE DIGEST MARKER` builds until then."""

from __future__ import annotations

import sys
from pathlib import Path

from reconciler.adapters.builders.attempt import LocalOptions
from reconciler.adapters.builders.local import LocalBuilder
from reconciler.core.model import Base
from tests.adapters.builders.conftest import ENV
from tests.adapters.builders.world import PATIENCE, Recipe, Tree, WallClock

if __name__ == "__main__":
    directory, image, ref, digest, marker = sys.argv[1:]
    tree = Tree()
    options = LocalOptions(Path(directory), ENV, insecure=frozenset({ref.split("/", 1)[0]}))
    builder = LocalBuilder(tree, options, WallClock())
    text = f"FROM {ref}\nRUN setsid sleep {marker} & sleep {marker}\n"
    builder.ensure(Recipe(text, bases=(Base(ref, digest),)).request(tree, "doomed", image))
    builder.wait(PATIENCE)
