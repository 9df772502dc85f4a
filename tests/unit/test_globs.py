from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.globs import matches
from reconciler.process import run


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("a.yaml", "a.yaml", True),
        ("a.yaml", "x/y/a.yaml", True),
        ("a.yaml", "a.yaml.bak", False),
        ("/a.yaml", "a.yaml", True),
        ("/a.yaml", "x/a.yaml", False),
        ("*.yaml", "x/a.yaml", True),
        ("*.yaml", "x/a.yml", False),
        ("x/*.yaml", "x/a.yaml", True),
        ("x/*.yaml", "x/y/a.yaml", False),
        ("x/*.yaml", "w/x/a.yaml", False),
        ("x/*", "x/y/a.yaml", True),
        ("x", "x/y/a.yaml", True),
        ("x/", "x/y/a.yaml", True),
        ("x/", "w/x/a.yaml", True),
        ("x/", "w/x", False),
        ("x/y/", "w/x/y/a", False),
        ("x/**", "x/y/z/a", True),
        ("x/**", "x", False),
        ("x/**/a", "x/a", True),
        ("x/**/a", "x/y/z/a", True),
        ("x/**/a", "w/x/a", False),
        ("**/a", "a", True),
        ("**/a", "x/y/a", True),
        ("**", "a", True),
        ("**/", "a", False),
        ("**/", "x/a", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a?c", "a/c", False),
        ("a**c", "abbc", True),
        ("a**c", "ab/c", False),
        ("*", "x/y", True),
        ("a*b*c", "aXbYbZc", True),
        ("a*b*c", "aXbYbZ", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
    ],
)
def test_matches(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


@pytest.mark.parametrize(
    ("pattern", "path"), [("*a" * 500 + "b", "a" * 5000), ("**/a/" * 300 + "b", "a/" * 2000 + "c")]
)
def test_hostile_patterns_end(pattern: str, path: str) -> None:
    assert not matches(pattern, path)


def test_git_agrees(tmp_path: Path) -> None:
    """What we say is what git says of the same line in a .gitignore."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    run(["git", "init", "-q", str(tmp_path)], env=env, timeout=30)
    patterns = [
        "a",
        "/a",
        "a/",
        "*",
        "*.b",
        "a/b",
        "a/*",
        "a/**",
        "**/b",
        "a/**/b",
        "?",
        "a?",
        "*a*",
        "**",
        "**/a/",
        "a**b",
    ]
    paths = [
        "a",
        "b",
        "ab",
        "a/b",
        "b/a",
        "a/a/b",
        "a/b/b",
        "b/a/b",
        "x.b",
        "b/x.b",
        "a/x/y/b",
        "axb",
        "c/axb/b",
    ]
    for pattern in patterns:
        (tmp_path / ".gitignore").write_text(f"{pattern}\n")
        asked = "\n".join(paths).encode()
        argv = ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin"]
        ignored = set(run(argv, env=env, timeout=30, stdin=asked).stdout.decode().split())
        assert {path for path in paths if matches(pattern, path)} == ignored, pattern


@given(st.text("ab*?/", max_size=12), st.text("ab/", max_size=12))
@settings(deadline=None)
def test_any_pattern_ends(pattern: str, path: str) -> None:
    assert matches(pattern, path) in (True, False)


@given(st.lists(st.text("ab.", min_size=1, max_size=3), min_size=1, max_size=4))
@settings(deadline=None)
def test_a_path_matches_itself_and_everything(parts: list[str]) -> None:
    path = "/".join(parts)
    assert matches(path, path)
    assert matches("**", path)
    assert matches(f"/{path}", f"{path}/below")
