"""What holds after every run, whatever went wrong in it: the oracle O1 to O4 and O6 of the fault matrix.

Belongs here: looking at Git and the registry from outside, with other code than that which wrote there.
Does not belong here: provoking anything. O5 (handles, memory) is for who watches a long-lived process.

O1  every pool and architecture at the head has an image, named in Git, that was built from the inputs it has now
O2  for each inputs one build, and one digest
O3  every digest in Git, and every tag, leads to a whole image of the right architecture
O4  status commits: in a line, none forced, none twice, and nobody else's work lost
O6  no secret where somebody may read it
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import threading
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import yaml

from reconciler import process
from tests.servers.stage import Stage

Cell = tuple[str, str]
"""A pool and one of its architectures."""

_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_ARCH_TAG: Final = re.compile(r".+-(?:amd64|arm64|ppc64le|s390x)-[0-9a-f]{16}")
_PUSH: Final = re.compile(r'"PUT /v2/(\S+)/manifests/(\S+) HTTP/1\.1" 201 ')
_AUTHOR: Final = "reconciler"
_ASKED: Final = "reconciler.machineos.dev/architectures"


class Promises:
    """Watches a stage whose repository exists, from now on.

    `branch` is the one that is reconciled, `status` the one with the status files. `login` is for a registry that
    demands one. The registry is asked itself, whatever stands in front of it.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        branch: str = "main",
        status: str = "",
        login: tuple[str, str] | None = None,
    ) -> None:
        self._stage = stage
        self._branch = branch
        self._status = status or branch
        self._url = f"http://{stage.registry.host}/v2"
        self._login = login
        self._offset = len(stage.registry.log.read_text())
        self._git("config", "core.logAllRefUpdates", "true")
        self._start = self._git("rev-parse", self._status)

    def check(
        self,
        *,
        apart_from: Collection[str] = (),
        built_again: Mapping[Cell, int] = {},
        rewritten: int = 0,
    ) -> None:
        """All of O1 to O4. `apart_from` are pools that cannot be up to date; `built_again` says how often the image of
        a cell was pushed more than once, for a reason; `rewritten` how often the test itself forced the branch."""
        self.check_delivery(apart_from)
        self.check_tags()
        self.check_builds(built_again)
        self.check_commits(rewritten)

    # -- O1, O3

    def check_delivery(self, apart_from: Collection[str] = ()) -> None:
        """O1, and O3 for what Git names."""
        wanted = {cell for cell in self.wanted() if cell[0] not in apart_from}
        assert wanted, "a head that defines nothing proves nothing"
        plan = self._plan()
        records = {pool: self._record(pool) for pool in sorted({pool for pool, _ in wanted})}
        found = set()
        for pool, record in records.items():
            children = self._children(record["image"])
            named = {entry["arch"]: entry["image"] for entry in record["architectures"]}
            assert children == named, f"the index of {pool} has {children}, not {named}"
            for entry in record["architectures"]:
                cell = plan[pool, entry["arch"]]
                assert cell["input"] == entry["input"], f"{pool} {entry['arch']} is of other inputs: {cell}"
                if self._status == self._branch:  # a preview reads the branch it is of
                    used = cell["action"], cell["image"]
                    assert used == ("reuse", entry["image"]), f"{pool} {entry['arch']}: {cell}"
                found.add((pool, entry["arch"]))
            push = self._definitions()[pool]["spec"]["renderedImagePushSpec"]
            tagged, _ = self._manifest(*_split(push))
            assert tagged == record["image"].partition("@")[2], f"{push} does not name what Git names"
        assert found == wanted, f"{wanted - found} is missing, {found - wanted} was not asked for"

    def wanted(self) -> set[Cell]:
        """The pools and architectures at the head, read from the files by other code than the reconciler's."""
        settings = yaml.safe_load(self._git("show", f"{self._branch}:reconciler.yaml"))
        found = set()
        for pool, definition in self._definitions().items():
            own = definition["metadata"].get("annotations", {}).get(_ASKED, "")
            for arch in filter(None, re.split(r"[,\s]+", own)) if own else settings["architectures"]:
                found.add((pool, arch))
        return found

    def check_tags(self) -> None:
        """O3 for whatever has a tag, wanted or not: its image is all there."""
        for repository in self._get("_catalog").json()["repositories"]:
            listed = self._get(f"{repository}/tags/list", missing=True)
            for tag in listed.json().get("tags") or ():
                _, content = self._manifest(f"any/{repository}", tag)
                self._check_whole(f"any/{repository}", content)

    def _definitions(self) -> dict[str, dict[str, Any]]:
        """The definitions at the head by pool."""
        found = {}
        for path in self._git("ls-tree", "-r", "--name-only", self._branch).splitlines():
            if not path.endswith(".yaml") or path.startswith("status/"):
                continue
            for document in yaml.safe_load_all(self._git("show", f"{self._branch}:{path}")):
                if document["kind"] == "MachineOSConfig":
                    found[document["spec"]["machineConfigPool"]["name"]] = document
        return found

    def _plan(self) -> dict[Cell, dict[str, Any]]:
        """What a preview of the head says, with today's bases: the one place where the reconciler's word is taken."""
        options = ("--head", self._branch, "--resolve-bases", "--config", str(self._stage.config))
        said = self._stage.reconciler("plan", "--repo", str(self._stage.bare), *options, "--output", "json")
        pools = json.loads(said.out)["pools"]
        return {(pool["name"], arch): cell for pool in pools for arch, cell in pool["architectures"].items()}

    def _record(self, pool: str) -> dict[str, Any]:
        document = yaml.safe_load(self._git("show", f"{self._status}:status/{pool}.yaml"))
        status: dict[str, Any] = document["status"]
        return status

    def _children(self, image: str) -> dict[str, str]:
        """Architecture → image of an index, each of them whole and of that architecture."""
        repository, digest = _split(image)
        found, index = self._manifest(repository, digest)
        assert (found, index["mediaType"]) == (digest, _INDEX), f"{image} is no index: {index}"
        children = {}
        for child in index["manifests"]:
            arch = child["platform"]["architecture"]
            of, manifest = self._manifest(repository, child["digest"])
            assert self._check_whole(repository, manifest) == arch, f"{of} is not of {arch}"
            assert arch not in children, f"{image} has {arch} twice"
            children[arch] = f"{repository}@{of}"
        return children

    def _check_whole(self, repository: str, manifest: dict[str, Any]) -> str:
        """See that all an image consists of is there; says of which architecture it is ('' for an index)."""
        if "manifests" in manifest:
            for child in manifest["manifests"]:
                self._check_whole(repository, self._manifest(repository, child["digest"])[1])
            return ""
        name = repository.partition("/")[2]
        blob = self._get(f"{name}/blobs/{manifest['config']['digest']}").content
        assert _digest(blob) == manifest["config"]["digest"], (
            f"{repository}: a config is not what it should be"
        )
        for layer in manifest["layers"]:
            content = self._get(f"{name}/blobs/{layer['digest']}").content
            assert (_digest(content), len(content)) == (layer["digest"], layer["size"]), (
                f"{repository}: {layer}"
            )
        arch: str = json.loads(blob)["architecture"]
        return arch

    def _manifest(self, repository: str, reference: str) -> tuple[str, dict[str, Any]]:
        """A manifest and its digest. The registry's own host is asked, whatever `repository` says."""
        name = repository.partition("/")[2]
        answer = self._get(f"{name}/manifests/{reference}")
        digest = _digest(answer.content)
        assert digest == reference or not reference.startswith("sha256:"), (
            f"{repository}@{reference} is {digest}"
        )
        return digest, json.loads(answer.content)

    def _get(self, path: str, *, missing: bool = False) -> httpx.Response:
        accept = {"Accept": f"{_INDEX}, {_MANIFEST}, */*"}
        answer = httpx.get(f"{self._url}/{path}", headers=accept, auth=self._login, timeout=30)
        assert answer.status_code == 200 or (missing and answer.status_code == 404), (
            f"{path}: {answer.status_code} {answer.text}"
        )
        return answer

    # -- O2

    def builds(self) -> Counter[tuple[str, str]]:
        """How often each repository's tag of an architecture's image was pushed, since the beginning."""
        text = self._stage.registry.log.read_text()[self._offset :]
        return Counter((name, tag) for name, tag in _PUSH.findall(text) if _ARCH_TAG.fullmatch(tag))

    def check_builds(self, built_again: Mapping[Cell, int] = {}) -> None:
        """O2: no inputs were built twice, and none came to two digests."""
        more: Counter[Cell] = Counter()
        for (name, tag), count in self.builds().items():
            pool, arch, _ = tag.rsplit("-", 2)
            more[pool, arch] += count - 1
            # The registry's own files: which digests a tag ever had (docs of `distribution`, spec of its storage).
            tags = (
                self._stage.registry.root
                / "storage/docker/registry/v2/repositories"
                / name
                / "_manifests/tags"
            )
            digests = sorted(path.name for path in (tags / tag / "index/sha256").glob("*"))
            assert len(digests) <= 1, f"{name}:{tag} was {digests}"
        assert +more == Counter(built_again), f"built more than once: {+more}"

    # -- O4

    def commits(self) -> list[str]:
        """The status commits since the beginning, oldest first."""
        found = self._git("rev-list", "--reverse", f"--author=^{_AUTHOR} <", f"{self._start}..{self._status}")
        return found.split()

    def check_commits(self, rewritten: int = 0) -> None:
        """O4."""
        span = f"{self._start}..{self._status}" if not rewritten else self._status
        assert self._git("rev-list", "--min-parents=2", span) == "", "a merge"
        states = []
        for commit in self.commits():
            paths = self._git("diff-tree", "-r", "--no-commit-id", "--name-only", commit).splitlines()
            assert paths, f"{commit} changes nothing"
            assert all(path.startswith("status/") for path in paths), f"{commit} changes {paths}"
            message = self._git("show", "--no-patch", "--format=%B", commit)
            (source,) = re.findall(r"^Reconciler-Source-Commit: ([0-9a-f]{40})$", message, re.MULTILINE)
            states.append((source, self._git("ls-tree", commit, "status")))
        assert len(set(states)) == len(states), f"one state was committed twice: {states}"
        assert len(self._forced()) == rewritten, f"the branch was forced: {self._forced()}"

    def _forced(self) -> list[tuple[str, str]]:
        """Moves of the branch that left a commit behind, or deleted it: from the server's log of the branch."""
        log = self._stage.bare / "logs/refs/heads" / self._status
        moves = [line.split(" ")[:2] for line in log.read_text().splitlines()] if log.exists() else []
        return [(old, new) for old, new in moves if set(old) != {"0"} and not self._is_ancestor(old, new)]

    def _is_ancestor(self, older: str, newer: str) -> bool:
        argv = ["git", "--git-dir", str(self._stage.bare), "merge-base", "--is-ancestor", older, newer]
        return process.run(argv, env=self._stage.env, timeout=60).status == 0

    def _git(self, *words: str) -> str:
        return self._stage.run("git", "--git-dir", str(self._stage.bare), *words).strip()


# -- O6


def spellings(secret: str) -> tuple[bytes, ...]:
    """A secret as it is, in a URL, and as any part of base64 text: a header has the user in front of the password."""
    plain = secret.encode()
    found = [plain, quote(secret, safe="").encode()]
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + plain)
        # What its neighbours decide at both ends is left out.
        found.append(text[4 if shift else 0 : len(text) - (4 if (shift + len(plain)) % 3 else 0)])
    assert min(map(len, found)) >= 8, "too short to be told from chance"
    return tuple(dict.fromkeys(found))


def leaks(stage: Stage, secrets: Iterable[str], *, holders: Collection[Path] = ()) -> list[str]:
    """Where below the stage a secret can be read: files, Git objects, what images consist of. `holders` are the files
    and folders that have it by right."""
    sought = [spelling for secret in secrets for spelling in spellings(secret)]
    found = []
    for path in sorted(stage.root.rglob("*")):
        if path.is_symlink() or not path.is_file() or any(path.is_relative_to(holder) for holder in holders):
            continue
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # a build ended
            continue
        found += [f"{path}: {kind}" for kind, text in _readings(content) if _has(text, sought)]
    for repository in (stage.bare, *mirrors(stage)):
        argv = ["git", "--git-dir", str(repository), "cat-file", "--batch-all-objects", "--batch"]
        if _has(process.run(argv, env=stage.env, timeout=60).stdout, sought):
            found.append(f"{repository}: an object")
    return found


def mirrors(stage: Stage) -> list[Path]:
    """The reconciler's own copies of repositories."""
    return sorted(path for path in (stage.root / "cache").rglob("*.git") if path.is_dir())


def _readings(content: bytes) -> Iterator[tuple[str, bytes]]:
    yield "as it is", content
    if content.startswith(b"\x1f\x8b"):
        try:
            yield "unpacked", gzip.decompress(content)
        except (EOFError, OSError, zlib.error):
            return  # a part of an upload


def _has(content: bytes, sought: Iterable[bytes]) -> bool:
    return any(spelling in content for spelling in sought)


def check_secrets(
    stage: Stage, secrets: Collection[str], texts: Iterable[str] = (), *, holders: Collection[Path] = ()
) -> None:
    """O6: for what lies below the stage, and for texts such as the output of commands and metrics."""
    found = leaks(stage, secrets, holders=holders)
    assert not found, f"a secret in: {found}"
    for text in texts:
        for secret in secrets:
            assert not _has(text.encode(), spellings(secret)), f"a secret in: {text}"


@contextmanager
def arguments_watched(stage: Stage, secrets: Collection[str]) -> Iterator[None]:
    """O6 for command lines: look at all processes of the machine again and again while the block runs, which has to run
    git for the stage."""
    sought = [spelling for secret in secrets for spelling in spellings(secret)]
    seen: set[bytes] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.002):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(path.read_bytes())
                except OSError:
                    continue  # it ended meanwhile

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(30)
    ours = str(stage.root).encode()
    assert any(line.startswith(b"git\0") and ours in line for line in seen), "nothing seen, so nothing proved"
    found = [line for line in seen if _has(line, sought)]
    assert not found, f"a secret in: {found}"


def _split(image: str) -> tuple[str, str]:
    """Repository and reference of `repository@digest` or `repository:tag`."""
    repository, at, digest = image.partition("@")
    if at:
        return repository, digest
    repository, _, tag = image.rpartition(":")
    return repository, tag


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
