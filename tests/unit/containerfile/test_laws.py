"""Laws of the canonical form: what may not reach a digest, and that each architecture has a digest of its own.

All through the plan of a commit, as a preview makes it, over commits in memory.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.adapters.shfmt import ShfmtParser, installed
from reconciler.core.containerfile import parse, specialise
from reconciler.core.engine import Engine
from reconciler.core.inputs import canonical_json
from reconciler.core.model import Arch
from reconciler.errors import InvalidInput
from reconciler.process import run
from reconciler.reconcile.history import History
from reconciler.reconcile.preview import Preview
from reconciler.reconcile.targets import Scope
from tests.fakes import FakeObjects, Files
from tests.unit.containerfile.samples import NAME, context, names
from tests.unit.definitions import config, mosc

ROOT = Path(__file__).parents[3]
REALISTIC = sorted((ROOT / "tests/adapters/containerfiles").glob("*.containerfile"))
TREE = context(
    {
        **names(
            "build.sh",
            "go.mod",
            "go.sum",
            "html/a",
            "config/b.yml",
            "entrypoint.sh",
            "overrides.tar.gz",
            "drop",
        ),
        **names("system_files/etc/x", "files/common/a", *(f"files/{arch}/a" for arch in Arch)),
        ".containerignore": "drop\n",
    }
)
OWN = (Arch.ARM64, Arch.S390X)
"""Architectures with an entry of their own; the others share the one for all."""
TEXT = """\
ARG BASE=quay.io/os/base:1
FROM ${BASE} AS build
ARG TARGETARCH
COPY files/${TARGETARCH}/ /etc/
RUN case "$TARGETARCH" in amd64) echo is-amd64 ;; arm64) echo is-arm64 ;; \
    ppc64le) echo is-ppc64le ;; s390x) echo is-s390x ;; esac
FROM ${BASE}
COPY --from=build --chmod=0644 /etc/x /etc/x
ENV A="1  2" B='x' \\
    C=$TARGETARCH
LABEL version=7 kind="a b"
CMD ["/sbin/init"]
"""
Document = dict[str, Any]


def entry(arch: Arch | None, text: str) -> Document:
    return {"containerfileArch": arch.upstream if arch else "NoArch", "content": text}


def definition() -> Document:
    """A MachineOSConfig as a mapping; its YAML is JSON, so that the order of keys is ours to choose."""
    return {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineOSConfig",
        "metadata": {"name": "worker", "labels": {"a": "b", "c": "d"}},
        "spec": {
            "machineConfigPool": {"name": "worker"},
            "imageBuilder": {"imageBuilderType": "Job"},
            "renderedImagePushSecret": {"name": "push"},
            "renderedImagePushSpec": "registry.example.com/os/worker:latest",
            "containerFile": [entry(None, TEXT), *(entry(arch, f"{TEXT}USER {arch}\n") for arch in OWN)],
        },
    }


def repository(document: Document | str) -> dict[str, bytes | str]:
    """A repository whose definition has all its texts inline."""
    return {
        "reconciler.yaml": config(", ".join(Arch)),
        "p/os.yaml": document if isinstance(document, str) else json.dumps(document),
        "p/unused": "nothing copies me",
        **{f"p/files/{arch}/x": arch.value for arch in Arch},
    }


@cache
def engine() -> Engine:
    return Engine(trees=ShfmtParser(installed()).tree)


def digests(files: Files) -> dict[Arch, str]:
    """The definition digest of each architecture, as a preview gives it."""
    objects = FakeObjects()
    plan = Preview(History(objects, engine=engine()), Scope()).plan(objects.add(files))
    assert not plan.errors
    (pool,) = plan.pools
    found = {cell.arch: cell.definition for cell in pool.cells}
    assert set(found) == set(Arch)
    return {arch: digest for arch, digest in found.items() if digest is not None}


@cache
def unchanged() -> Mapping[Arch, str]:
    return digests(repository(definition()))


def test_every_architecture_has_a_digest_of_its_own() -> None:
    assert len(set(unchanged().values())) == len(Arch)


# What may not reach a digest.


@pytest.mark.parametrize("path", REALISTIC, ids=lambda path: path.stem)
def test_specialising_twice_gives_the_same_whatever_is_done_in_between(path: Path) -> None:
    file = parse(path.read_text(encoding="utf-8"), NAME)

    def canonical(arch: Arch) -> bytes:
        try:
            recipe = specialise(file, arch, TREE)
        except InvalidInput as error:
            return str(error).encode()
        return canonical_json([recipe.canonical, [entry.path for entry in recipe.context]])

    first = [canonical(arch) for arch in Arch]
    again = [canonical(arch) for arch in reversed(Arch)]
    assert first == again[::-1]


def everything() -> str:
    """All digests here, and the whole canonical form of every realistic file, as one line."""
    found: list[list[Any]] = [sorted(unchanged().items())]
    for path in REALISTIC:
        for arch in Arch:
            try:
                recipe = specialise(parse(path.read_text(encoding="utf-8"), NAME), arch, TREE)
                found.append([path.stem, canonical_json(recipe.canonical).decode(), str(recipe)])
            except InvalidInput as error:
                found.append([path.stem, str(error)])
    return json.dumps(found)


def test_the_order_of_hashes_does_not_reach_the_bytes() -> None:
    program = "from tests.unit.containerfile.test_laws import everything; print(everything())"
    outputs = set()
    for seed in ("0", "1", "2"):
        env = {
            "PYTHONPATH": str(ROOT),
            "PATH": "/usr/bin:/bin",
            "PYTHONHASHSEED": seed,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        finished = run([sys.executable, "-c", program], env=env, timeout=120, cwd=ROOT)
        assert (finished.status, finished.stderr) == (0, b"")
        outputs.add(finished.stdout)
    (output,) = outputs
    assert dict(json.loads(output)[0]) == unchanged()


def shuffled(draw: st.DrawFn, value: Any, at: str = "") -> Any:
    """The same document with its keys in another order, and the entries of `containerFile`, which is a map."""
    if isinstance(value, dict):
        return {key: shuffled(draw, value[key], key) for key in draw(st.permutations(sorted(value)))}
    if at == "containerFile":
        return [shuffled(draw, item) for item in draw(st.permutations(value))]
    return value


@given(st.composite(shuffled)(definition()))
@settings(max_examples=25, deadline=None)
def test_order_of_keys_and_of_architectures_changes_nothing(document: Document) -> None:
    assert digests(repository(document)) == unchanged()


@st.composite
def dressed(draw: st.DrawFn, text: str) -> str:
    """The same program: comments, blank lines, white space, continuations and the case of keywords differ."""
    lines: list[str] = []
    continues = False
    for line in text.splitlines():
        lines += draw(st.sampled_from([[], [], ["# note"], ["", "\t# FROM x \\"], ["   "]]))
        if not continues:
            keyword, _, rest = line.partition(" ")
            spelt = draw(st.sampled_from([keyword, keyword.lower(), keyword.title()]))
            gap = draw(st.sampled_from([" ", "   ", "\t", " \\\n", " \\ \n# note\n\n"]))
            line = draw(st.sampled_from(["", "  ", "\t"])) + spelt + gap + rest
        continues = line.endswith("\\")
        lines.append(line + draw(st.sampled_from(["", " ", "\t "])))
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n# the end\n"]))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_comments_white_space_and_case_change_nothing(data: st.DataObject) -> None:
    document = definition()
    for item in document["spec"]["containerFile"]:
        text = data.draw(dressed(item["content"]))
        item["content"] = data.draw(st.sampled_from([text, text.replace("\n", "\r\n"), "\ufeff" + text]))
    assert digests(repository(document)) == unchanged()


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("p/os.yaml", r"\A", "# note\n---\n"),
        ("p/os.yaml", r"\Z", "\n# note\n"),
        ("p/os.yaml", r'"labels": \{.*?\}', '"labels": {}'),
        ("p/os.yaml", r'"name": "push"', '"name": "other"'),
        ("p/os.yaml", r"os/worker:latest", "elsewhere/worker:1"),
        ("p/unused", r"me", "you"),
        ("reconciler.yaml", r"\Z", "include: ['p/']\n# note\n"),
    ],
)
def test_what_is_no_input_changes_nothing(path: str, old: str, new: str) -> None:
    files = repository(definition())
    before = files[path]
    assert isinstance(before, str)
    files[path] = re.sub(old, new, before, count=1)
    assert files[path] != before
    assert digests(files) == unchanged()


def test_inline_entries_and_files_are_one() -> None:
    files = repository(mosc("worker")) | {"p/Containerfile": TEXT}
    files |= {f"p/Containerfile.{arch}": f"{TEXT}USER {arch}\n" for arch in OWN}
    assert digests(files) == unchanged()


# Each architecture has its own inputs.


def own_file(files: dict[str, bytes | str], _: Document, arch: Arch) -> None:
    files[f"p/files/{arch}/x"] = "changed"


def new_file(files: dict[str, bytes | str], _: Document, arch: Arch) -> None:
    files[f"p/files/{arch}/new"] = "new"


def own_branch(_: dict[str, bytes | str], document: Document, arch: Arch) -> None:
    for item in document["spec"]["containerFile"]:
        item["content"] = item["content"].replace(f"echo is-{arch}", f"echo changed-{arch}")


def own_entry(files: dict[str, bytes | str], document: Document, arch: Arch) -> None:
    """Changes the architecture's entry, or gives it a file of its own (upstream allows four entries)."""
    items = document["spec"]["containerFile"]
    found = next((item for item in items if item["containerfileArch"] == arch.upstream), None)
    if found is None:
        files[f"p/Containerfile.{arch}"] = items[0]["content"] + "ENV OWN=1\n"
    else:
        found["content"] += "ENV OWN=1\n"


EDITS = st.tuples(st.sampled_from([own_file, new_file, own_branch, own_entry]), st.sampled_from(list(Arch)))


@given(st.lists(EDITS, max_size=3, unique_by=lambda edit: (edit[0].__name__, edit[1])))
@settings(max_examples=60, deadline=None)
def test_changing_the_inputs_of_some_architectures_changes_their_digests_and_no_others(
    edits: list[Any],
) -> None:
    document = definition()
    files = repository(document)
    for edit, arch in edits:
        edit(files, document, arch)
    after = digests(files | {"p/os.yaml": json.dumps(document)})
    changed = {arch for arch in Arch if after[arch] != unchanged()[arch]}
    assert changed == {arch for _, arch in edits}


@pytest.mark.parametrize("arch", Arch)
@pytest.mark.parametrize("edit", [own_file, new_file, own_branch, own_entry])
def test_one_edit_of_one_architecture(edit: Any, arch: Arch) -> None:
    document = definition()
    files = repository(document)
    edit(files, document, arch)
    after = digests(files | {"p/os.yaml": json.dumps(document)})
    assert {one for one in Arch if after[one] != unchanged()[one]} == {arch}


def test_a_change_for_all_changes_all() -> None:
    document = definition()
    for item in document["spec"]["containerFile"]:
        item["content"] = item["content"].replace("version=7", "version=8")
    after = digests(repository(document))
    assert all(after[arch] != unchanged()[arch] for arch in Arch)
