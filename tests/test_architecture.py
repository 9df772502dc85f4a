"""The layout of DESIGN §12, held by the code's own imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "reconciler"

LEVELS = {
    "errors": 0,
    "core": 1,
    "redaction": 1,
    "ports": 2,
    "settings": 2,
    "process": 2,
    "adapters": 3,
    "reconcile": 3,
    "daemon": 4,
    "web": 4,
    "cli": 5,
    "__main__": 6,
}
OUTSIDE = {
    "errors": set(),
    "core": {"yaml", "pydantic", "pydantic_core", "deepdiff"},
    "redaction": set(),
    "ports": set(),
    "settings": {"pydantic", "pydantic_core"},
    "process": set(),
    "adapters.builders": set(),
    "adapters.clock": set(),
    "adapters.cluster": {"kubernetes", "urllib3"},
    "adapters.delivery": set(),
    "adapters.forge": {"httpx"},
    "adapters.git": {"git"},
    "adapters.registry": {"httpx"},
    "reconcile": set(),
    "daemon": {"apscheduler"},
    "web": {"starlette", "uvicorn", "prometheus_client"},
    "cli": {"click", "rich"},
    "__main__": set(),
}
# What makes a module impure: these belong to the shell around the core.
IMPURE = {"os", "io", "pathlib", "random", "secrets", "socket", "subprocess", "tempfile", "time", "uuid"}
# The guard is a program of its own: it outlives our process, so it may not depend on anything of it.
PROGRAMS = {"adapters.builders.guard"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            yield name, ast.parse(path.read_text(), str(path))


def imports(tree: ast.Module) -> Iterator[str]:
    """Every module a tree imports, wherever in it, as a full dotted name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where things come from"
            assert node.module
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                # Of `from package import part` only the part is meant when it is a module itself.
                yield whole if _is_module(whole) else node.module


def _is_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").exists()


def unit(module: str) -> str:
    """`adapters.git` for everything in that adapter; the top-level name for all else."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "adapters" and len(parts) > 1 else parts[0]


MODULES = dict(modules())


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_down(name: str) -> None:
    mine = unit(name)
    for imported in imports(MODULES[name]):
        if not imported.startswith("reconciler."):
            continue
        other = unit(imported.removeprefix("reconciler."))
        if other == mine or (other not in OUTSIDE and other.split(".")[0] not in LEVELS):
            continue
        below = LEVELS[other.split(".")[0]] < LEVELS[mine.split(".")[0]]
        assert below, f"{name} imports {imported}, which is not below it"


@pytest.mark.parametrize("name", MODULES)
def test_outside_packages_stay_in_their_unit(name: str) -> None:
    allowed = OUTSIDE.get(unit(name), set())
    for imported in imports(MODULES[name]):
        top = imported.split(".")[0]
        if top != "reconciler" and top not in sys.stdlib_module_names:
            assert top in allowed, f"{name} imports {top}; only its adapter may"


@pytest.mark.parametrize("name", [n for n in MODULES if unit(n) in ("core", "errors", "ports")])
def test_the_core_is_pure(name: str) -> None:
    touched = {imported.split(".")[0] for imported in imports(MODULES[name])} & IMPURE
    assert not touched, f"{name} imports {touched}"
    asks_the_clock = [
        n.lineno
        for n in ast.walk(MODULES[name])
        if isinstance(n, ast.Attribute) and n.attr in ("now", "today", "utcnow")
    ]
    assert not asks_the_clock, f"{name} reads the clock in lines {asks_the_clock}"


def test_only_one_door_to_other_programs() -> None:
    users = {name for name, tree in MODULES.items() if "subprocess" in set(imports(tree))}
    constants_only = {name for name in users if name != "process" and not _starts_programs(MODULES[name])}
    assert users - constants_only - PROGRAMS == {"process"}


def _starts_programs(tree: ast.Module) -> bool:
    """Whether a module uses more of subprocess than the names of its streams."""
    names = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "subprocess"
    }
    return not names <= {"PIPE", "DEVNULL", "STDOUT", "Popen"} or any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == "subprocess.Popen" for node in ast.walk(tree)
    )


@pytest.mark.parametrize(
    "name", [n for n in MODULES if unit(n) not in ("cli", "__main__") and n not in PROGRAMS]
)
def test_only_the_command_line_prints_exits_and_reads_the_environment(name: str) -> None:
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "exit", "quit", "input"), f"{name}:{node.lineno}"
        if isinstance(node, ast.Attribute):
            assert ast.unparse(node) not in ("os.environ", "os.getenv", "sys.exit", "sys.argv"), (
                f"{name}:{node.lineno}"
            )


def test_no_import_cycles() -> None:
    graph = {
        name: {
            other
            for imported in imports(tree)
            if (other := imported.removeprefix("reconciler.")) in MODULES and other != name
        }
        for name, tree in MODULES.items()
    }
    # A package's __init__ gathers its parts, and its parts import each other, never the package.
    assert list(TopologicalSorter(graph).static_order())


def test_the_top_level_is_as_designed() -> None:
    listed = {
        "pyproject.toml", "reconciler", "schemas", "examples-repo", "tests", "Containerfile", "README.md", "deploy",
        "bench", "Makefile", "CHANGELOG.md", "LICENSE",
    }  # fmt: skip
    tracked = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    made_by_tools = {name for name in tracked if name.endswith(".egg-info") or name in ("build", "dist")}
    assert tracked - made_by_tools <= listed
