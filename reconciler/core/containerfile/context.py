"""Which files of a build context an instruction takes.

Belongs here: globs, folders, symbolic links and ignore rules, over a list of Git tree entries.
Does not belong here: variables in source names (`evaluate`), reading blobs.
Rules observed in buildah's `add.go` and `copier/copier.go`, and tried with buildah 1.28.2.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.core.containerfile.globs import BadPattern, Glob, has_wildcard
from reconciler.core.containerfile.ignore import IgnoreRules
from reconciler.core.model import TreeEntry

_MAX_LINKS: Final = 16


@dataclass(frozen=True, slots=True)
class ContextTree:
    """A build context: `entries` relative to its root, `links` from a symbolic link's path to its target,
    `lfs` the ids of objects that are Git LFS pointers, and the ignore rules that apply."""

    entries: tuple[TreeEntry, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    lfs: frozenset[str] = frozenset()
    ignore: IgnoreRules = field(default_factory=IgnoreRules)


class SourceError(ValueError):
    """A source that takes nothing, or something that cannot be built from. Second argument: a hint."""


def clean_source(source: str) -> str:
    """A source's path below the context: `..` cannot leave it, '' is the context itself, written `.`."""
    return posixpath.normpath("/" + source).lstrip("/") or "."


class Context:
    """A context with an index of its folders, for one Containerfile."""

    def __init__(self, tree: ContextTree) -> None:
        self._tree = tree
        self._entries = {entry.path: entry for entry in tree.entries}
        self._folders: dict[str, dict[str, None]] = {"": {}}
        for entry in tree.entries:
            self._add(entry.path)
        self._memo: dict[str, frozenset[str]] = {}
        self._takes: dict[tuple[str, ...], frozenset[str]] = {}

    def _add(self, path: str) -> None:
        """Index a path below all its folders."""
        while path:
            folder, _, name = path.rpartition("/")
            known = folder in self._folders
            self._folders.setdefault(folder, {})[name] = None
            if known:
                return
            path = folder

    def everything(self) -> frozenset[str]:
        """Every path, whatever the ignore rules say."""
        return frozenset(self._entries)

    def entry(self, path: str) -> TreeEntry:
        """The entry at a path that this context gave."""
        return self._entries[path]

    def fault_of(self, path: str) -> tuple[str, str] | None:
        """Why an entry that is taken cannot be built from, with a hint; None when it can."""
        entry = self._entries[path]
        if entry.is_submodule:
            return (
                f"{path} is a submodule, which is not read",
                "copy its files into the repository, or leave it out",
            )
        if entry.is_file and entry.oid in self._tree.lfs:
            return (
                f"{path} is a Git LFS pointer, not the file itself",
                "keep the file in Git, or leave it out",
            )
        if entry.is_symlink and self._leaves(path):
            target = self._tree.links.get(path, "")
            return (
                f"{path} is a link to {target[:200]!r}, outside the context",
                "make it relative and point inside",
            )
        return None

    def _leaves(self, path: str) -> bool:
        """Whether a link's target, taken literally, lies outside the context."""
        target = self._tree.links.get(path, "")
        if not target or target.startswith("/"):
            return True
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        return joined == ".." or joined.startswith("../")

    def below(self, folder: str) -> frozenset[str] | None:
        """Every path at or below a folder, ignore rules aside; None when it leads over links or is not
        there.
        """
        folder = "" if folder == "." else folder
        if not folder:
            return self.everything()
        if folder in self._entries:
            return None if self._entries[folder].is_symlink else frozenset([folder])
        if folder not in self._folders:
            return None
        return frozenset(path for path in self._entries if path.startswith(f"{folder}/"))

    def take(self, sources: list[str]) -> frozenset[str]:
        """The paths that the sources of one COPY or ADD take, in the form `clean_source` gives them.

        Raises SourceError where the builder finds nothing.
        """
        if tuple(sources) in self._takes:
            return self._takes[tuple(sources)]
        taken: set[str] = set()
        matches = {source: self._match(source, taken) for source in sources}
        if not any(matches.values()):
            raise self._nothing(sources[0])
        for source, paths in matches.items():
            if not paths:
                if not has_wildcard(source):
                    raise self._nothing(source)
                continue
            # Not `any(...)`: every match is taken.
            if not [True for path in paths if self._take(path, taken)]:
                raise self._nothing(source)
        self._takes[tuple(sources)] = frozenset(taken)
        return self._takes[tuple(sources)]

    def files(self, sources: list[str]) -> list[str] | None:
        """The files that the sources of one COPY name, each by the path that the builder finds it by, when `take` has
        accepted them; None where one brings a folder or nothing, or is found by a name that is a pattern itself.
        """
        found: list[str] = []
        for source in sources:
            paths = self._match(source, set())
            if any(self._real(path, set()) not in self._entries for path in paths):
                return None
            left = [path for path in paths if not self._tree.ignore.excludes(path)]
            if not left or any(has_wildcard(path) or "\\" in path for path in left):
                return None
            found += left
        return found

    def _nothing(self, source: str) -> SourceError:
        ignored = (
            f"is it ignored by {self._tree.ignore.path}?" if self._tree.ignore.rules else "is it in Git?"
        )
        return SourceError(f"no such file in the context: {source!r}", ignored)

    def _match(self, source: str, links: set[str]) -> list[str]:
        """The paths that a source names, sorted. Links passed on the way are added to `links`."""
        if source == ".":
            return [""]
        found = [""]
        for name in source.split("/"):
            step: dict[str, None] = {}
            for folder in found:
                real = self._resolve(folder, links)
                if real is None or real not in self._folders:
                    continue
                for child in self._children(real, name):
                    step[f"{folder}/{child}" if folder and child else folder or child] = None
            found = list(step)
        return sorted(found)

    def _children(self, folder: str, pattern: str) -> Iterator[str]:
        """Names in a folder that match one part of a source."""
        names = self._folders[folder]
        if pattern == "**":
            yield ""
            for path in self._folders:
                if path.startswith(f"{folder}/") if folder else path:
                    yield path.removeprefix(f"{folder}/") if folder else path
        elif has_wildcard(pattern) or "\\" in pattern:
            try:
                glob = Glob(pattern)
            except BadPattern as error:
                raise SourceError(f"bad pattern {pattern!r}: {error}", "correct the pattern") from error
            yield from (name for name in names if glob.matches(name))
        elif pattern in names:
            yield pattern

    def _resolve(self, path: str, links: set[str]) -> str | None:
        """Where a path leads when every link is followed, '' for the root; None when nowhere in the context.

        Like in a chroot, absolute targets and `..` stay inside.
        """
        if path in self._folders or (path in self._entries and not self._entries[path].is_symlink):
            return path
        parts = [part for part in reversed(path.split("/")) if part]
        real = ""
        followed = 0
        while parts:
            part = parts.pop()
            if part == "..":
                real = real.rpartition("/")[0]
                continue
            here = f"{real}/{part}" if real else part
            entry = self._entries.get(here)
            if entry is not None and entry.is_symlink:
                links.add(here)
                followed += 1
                target = self._tree.links.get(here, "")
                if followed > _MAX_LINKS or not target:
                    return None
                real = "" if target.startswith("/") else real
                parts += [part for part in reversed(target.split("/")) if part not in ("", ".")]
            elif entry is None and here not in self._folders:
                return None
            else:
                real = here
        return real

    def _take(self, path: str, taken: set[str]) -> bool:
        """Add what one matched path brings; say whether the builder counts that as something."""
        rules = self._tree.ignore
        real = self._real(path, taken)
        folder = real in self._folders
        excluded = bool(path) and rules.excludes(path)
        if excluded and not (folder and rules.names(path)):
            return False
        if not folder:
            if rules.excludes(real):
                # Only a link gets here: it is not ignored itself, and what it leads to is.
                raise self._nothing(path)
            taken.add(real)
            return True
        below = self._walk(real)
        taken |= below
        return bool(below) or not excluded

    def _real(self, path: str, taken: set[str]) -> str:
        """Where a named source leads. A link that leads nowhere is an error, as it is for the builder."""
        links: set[str] = set()
        real = self._resolve(path, links)
        bad = next((link for link in sorted(links) if self._leaves(link)), None)
        if bad is not None:
            message, hint = self.fault_of(bad) or ("", "")
            raise SourceError(message, hint)
        if real is None:
            raise SourceError(f"{path} is a link that leads nowhere in the context", "correct the link")
        taken |= links
        return real

    def _walk(self, folder: str) -> frozenset[str]:
        """The files below a folder that the ignore rules leave in."""
        known = self._memo.get(folder)
        if known is not None:
            return known
        rules = self._tree.ignore
        found: set[str] = set()
        queue = [folder]
        while queue:
            here = queue.pop()
            for name in self._folders[here]:
                path = f"{here}/{name}" if here else name
                excluded = rules.excludes(path)
                if path in self._folders:
                    if not excluded or rules.descends(path):
                        queue.append(path)
                elif not excluded:
                    found.add(path)
        self._memo[folder] = frozenset(found)
        return self._memo[folder]
