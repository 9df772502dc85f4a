from __future__ import annotations

import pytest

from reconciler.core.catalogue import Catalogue, read
from reconciler.core.model import Arch
from reconciler.errors import InvalidInput
from tests.fakes import Files, blobs, snapshot
from tests.unit.definitions import config, mosc

FROM = "FROM quay.io/os/base:1\n"


def catalogue(files: Files) -> Catalogue:
    return read(snapshot(files))


def said(files: Files) -> list[str]:
    return [str(fault) for fault in catalogue(files).faults]


def test_a_definition_is_found_anywhere_with_the_files_beside_it() -> None:
    found = catalogue(
        {
            "a/b/os.yml": mosc("worker"),
            "a/b/Containerfile": FROM,
            "a/b/Containerfile.arm64": FROM,
            "a/b/files/x": "x",
            "a/other": "not its context",
        }
    )
    (pool,) = found.pools
    assert (pool.name, pool.folder) == ("worker", "a/b")
    assert set(pool.sources) == {None, Arch.ARM64}
    assert [e.path for e in pool.context] == ["Containerfile", "Containerfile.arm64", "files/x", "os.yml"]
    assert pool.source(Arch.S390X) is pool.sources[None]
    assert not found.faults


def test_inline_text_keeps_its_line() -> None:
    (pool,) = catalogue({"os.yaml": mosc("worker", inline=FROM)}).pools
    source = pool.source(Arch.AMD64)
    assert source is not None
    assert mosc("worker", inline=FROM).splitlines()[source.line - 1].strip() == FROM.strip()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"p/a.yaml": mosc("w", inline=FROM), "p/Containerfile": FROM}, "a second Containerfile for all"),
        ({"p/a.yaml": mosc("w")}, "pool w has no Containerfile"),
        ({"p/a.yaml": mosc("w"), "p/Containerfile": "->../x"}, "links are not followed"),
        ({"p/a.yaml": mosc("w"), "p/Containerfile": FROM, "p/Containerfile.x86_64": FROM}, "name it Container"),
        ({"p/a.yaml": mosc("w", inline=FROM), "q/a.yaml": mosc("w", inline=FROM)}, "pool w has two definitions"),
        (
            {"p/a.yaml": mosc("a", inline=FROM, push="r.io/x:1"), "q/a.yaml": mosc("b", inline=FROM, push="r.io/x:1")},
            "r.io/x:1 is pushed to by two pools",
        ),
        (
            {"p/a.yaml": mosc("a"), "p/b.yaml": mosc("b"), "p/Containerfile": FROM},
            "has Containerfiles but more than one definition",
        ),
        ({"a.yaml": "->b.yaml"}, None),
        ({"a.yaml": mosc("w", inline=FROM).replace("openshift.io/v1", "openshift.io/v1alpha1")}, "v1alpha1"),
        ({"reconciler.yaml": "kind: RepositoryConfig\n---\nkind: RepositoryConfig\n"}, "exactly one document"),
        ({"a.yaml": b"x" * (1 << 20) + b"x"}, "too large"),
    ],
)  # fmt: skip
def test_faults_between_files(files: Files, message: str | None) -> None:
    found = said(files)
    if message is None:
        assert not found
    else:
        assert any(message in fault for fault in found), found


def test_the_status_path_is_neither_definition_nor_context() -> None:
    found = catalogue(
        {
            "os.yaml": mosc("worker"),
            "Containerfile": FROM,
            "status/worker.yaml": "[",
            "status/x": "x",
            "statuses": "y",
        }
    )
    assert not found.faults
    assert [e.path for e in found.pools[0].context] == ["Containerfile", "os.yaml", "statuses"]


def test_excluded_files_are_not_read_as_definitions_but_can_be_copied() -> None:
    found = catalogue(
        {
            "reconciler.yaml": config(rest='exclude: ["**/templates/**"]\n'),
            "p/os.yaml": mosc("worker", inline=FROM),
            "p/templates/x.yaml": "{{ not yaml",
        }
    )
    assert not found.faults
    assert "templates/x.yaml" in {e.path for e in found.pools[0].context}


def test_a_broken_file_holds_back_the_pools_it_could_belong_to_and_no_other() -> None:
    found = catalogue(
        {
            "p/os.yaml": mosc("worker", inline=FROM),
            "p/extra.yaml": "a: [",
            "q/os.yaml": mosc("infra", inline=FROM),
            "r/os.yaml": mosc("edge", inline=FROM),
            "extra.yaml": "kind: MachineConfig\nrole: edge\na: [",
        }
    )
    assert found.doubts_about("worker")
    assert found.doubts_about("edge")
    assert not found.doubts_about("infra")
    assert len(found.doubts_about("recorded-once")) == len(found.faults) == 2
    assert not found.clean


def test_a_faulty_definition_breaks_the_pool_it_names() -> None:
    found = catalogue(
        {
            "p/os.yaml": mosc("worker", inline=FROM) + "  unknown: 1\n",
            "q/os.yaml": mosc("infra", inline=FROM),
        }
    )
    assert set(found.broken) == {"worker"}
    assert [p.name for p in found.pools] == ["infra"]


def test_a_list_as_kubectl_exports_it_is_read_item_by_item() -> None:
    listed = (
        "apiVersion: v1\nkind: List\nitems:\n"
        "- apiVersion: machineconfiguration.openshift.io/v1\n"
        "  kind: MachineConfig\n"
        "  metadata: {name: 10-a, labels: {machineconfiguration.openshift.io/role: worker}}\n"
        "- apiVersion: machineconfiguration.openshift.io/v1\n"
        "  kind: MachineConfig\n"
        "  metadata: {name: 20-b, labels: {machineconfiguration.openshift.io/role: worker}}\n"
        "  spec: {what: 1}\n"
        f"- {mosc('worker').strip().replace(chr(10), chr(10) + '  ')}\n"
    )
    found = catalogue({"all.yaml": listed, "Containerfile": FROM})
    assert [pool.name for pool in found.pools] == ["worker"]
    machines = found.supply.documents
    assert [(one.name, one.at.line) for one in machines.configs] == [("10-a", 4)]
    assert [(one.name, one.faults[0].line) for one in machines.broken] == [("20-b", 10)]


def test_contexts_of_neighbours_with_similar_names_stay_apart() -> None:
    found = catalogue(
        {
            "p/os.yaml": mosc("a", inline=FROM),
            "p/x": "x",
            "p-2/os.yaml": mosc("b", inline=FROM),
            "p0/os.yaml": mosc("c", inline=FROM),
            "p.d/y": "y",
        }
    )
    assert {p.name: [e.path for e in p.context] for p in found.pools} == {
        "a": ["os.yaml", "x"],
        "b": ["os.yaml"],
        "c": ["os.yaml"],
    }


def test_a_git_lfs_pointer_is_known_for_what_it_is() -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 12345\n"
    files = {"os.yaml": mosc("worker", inline=FROM), "big": pointer, "small": "x"}
    (pool,) = catalogue(files).pools
    assert len(pool.context_tree(Arch.AMD64, blobs(files)).lfs) == 1


def test_ignore_rules_are_found_for_inline_text_as_for_a_file() -> None:
    rules = {"Containerfile.dockerignore": "x\n", ".dockerignore": "y\n"}
    both: tuple[Files, ...] = (
        {"os.yaml": mosc("w", inline=FROM), **rules},
        {"os.yaml": mosc("w"), "Containerfile": FROM, **rules},
    )
    for files in both:
        (pool,) = catalogue(files).pools
        assert pool.ignore_file(Arch.AMD64, blobs(files)) == ("Containerfile.dockerignore", "x\n")


def test_a_containerfile_that_is_no_text_is_a_fault_of_its_own() -> None:
    files: Files = {"p/a.yaml": mosc("w"), "p/Containerfile": b"FROM x\n\xff"}
    (pool,) = catalogue(files).pools
    with pytest.raises(InvalidInput, match="p/Containerfile:2: is not UTF-8"):
        pool.text(Arch.AMD64, blobs(files))


def test_a_broken_reconciler_yaml_holds_back_every_pool() -> None:
    found = catalogue({"reconciler.yaml": "architectures: [", "p/os.yaml": mosc("worker", inline=FROM)})
    assert found.doubts_about("worker") == found.faults
    assert found.faults
