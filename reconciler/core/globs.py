"""Path patterns, as `.gitignore` reads them, without its `!`, `[…]` and `\\`.

Belongs here: whether a pattern takes a path. No regular expressions: patterns come from a repository, and
the time must stay within pattern length times path length.
Does not belong here: which patterns are allowed where (`documents`), and the ignore files of a build
context, which follow other rules.
"""

from __future__ import annotations


def matches(pattern: str, path: str) -> bool:
    """Whether `pattern` takes the file at `path` (relative, `/` between the parts), itself or by a folder
    above it.

    `*` and `?` stay within one part of the path; `**` as a whole part stands for any number of parts. A
    pattern with a slash before its end starts at the root; one without matches in any folder. A slash at the
    end: folders only.
    """
    wanted = _parts(pattern)
    states = _reach(wanted, {0})
    for part in path.split("/"):
        stay = {i for i in states if wanted[i] == "**"}
        step = {i + 1 for i in states - stay if _takes(wanted[i], part)}
        states = _reach(wanted, stay | step)
        if len(wanted) in states:
            return True
    return False


def _parts(pattern: str) -> list[str]:
    parts = pattern.strip("/").split("/")
    if "/" not in pattern.rstrip("/"):
        parts.insert(0, "**")
    if parts[-1] == "**":
        parts.append("*")  # what is inside the folder, and not the folder's own name
    if pattern.endswith("/"):
        parts += ["**", "*"]
    return parts


def _reach(wanted: list[str], states: set[int]) -> set[int]:
    """The states, with those that `**` reaches by standing for nothing."""
    reached = set(states)
    for i in states:
        while i < len(wanted) and wanted[i] == "**":
            i += 1
            if i in reached:
                break  # what it reaches is there, or will be: a long row of `**` is walked once
            reached.add(i)
    return reached


def _takes(pattern: str, part: str) -> bool:
    """Match one part of a path; on a mismatch only the last `*` may take one character more."""
    p = i = 0
    star, resume = -1, 0
    while i < len(part):
        if p < len(pattern) and pattern[p] == "*":
            star, resume = p, i
            p += 1
        elif p < len(pattern) and pattern[p] in ("?", part[i]):
            p += 1
            i += 1
        elif star >= 0:
            resume += 1
            p, i = star + 1, resume
        else:
            return False
    return all(char == "*" for char in pattern[p:])
