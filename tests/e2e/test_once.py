"""The main job with a real registry, real buildah and a real repository: commit → builds → index → status commit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from reconciler.core.names import keep_tag
from tests.e2e.conftest import write_pool
from tests.servers.stage import Stage

pytestmark = pytest.mark.tools

ALL = ["amd64", "arm64", "ppc64le", "s390x"]


def builds(stage: Stage) -> list[str]:
    """Tags of arch images that were pushed, in order: one per build, since the reconciler only adds `digest-…`."""
    return [t for t in stage.pushed_images() if not t.startswith(("digest-", "sha256:", "latest", "1"))]


def index_of(stage: Stage, pool: str) -> dict[str, str]:
    """Architecture → digest of the index that a pool's status names."""
    index = stage.manifest(stage.record(pool).image)
    assert index["mediaType"] == "application/vnd.oci.image.index.v1+json"
    return {m["platform"]["architecture"]: m["digest"] for m in index["manifests"]}


def test_the_first_commit_builds_everything_and_a_second_run_changes_nothing(stage: Stage) -> None:
    stage.create_repository()
    said = stage.once()
    assert said.status == 0, said
    assert "14 built, 0 reused" in said.out
    two = ["amd64", "arm64"]
    expected = {"worker": ALL, "infra": ALL, "edge": two, "storage": two, "appliance": two}
    for pool, architectures in expected.items():
        record = stage.record(pool)
        children = index_of(stage, pool)
        assert list(children) == architectures
        assert {e.arch.value: e.image.partition("@")[2] for e in record.architectures} == children
        repository = f"{stage.registry.host}/os/{pool}"
        for arch, digest in children.items():
            assert stage.image_config(f"{repository}@{digest}")["architecture"] == arch
            assert stage.manifest(f"{repository}:{keep_tag(digest)}")
        digest = record.image.partition("@")[2]
        assert stage.manifest(f"{repository}:{keep_tag(digest)}") == stage.manifest(f"{repository}:latest")

    tip, pushes = stage.tip(), stage.pushed_images()
    again = stage.once()
    assert again.status == 0
    assert "0 built, 14 reused, nothing to write." in again.out
    assert (stage.tip(), stage.pushed_images()) == (tip, pushes)
    status = stage.reconciler("status", "--config", str(stage.config), "--output", "json")
    assert status.status == 0
    schema = json.loads((Path(__file__).parents[2] / "schemas/status.json").read_text())
    Draft202012Validator(schema).validate(json.loads(status.out))


def test_only_what_changed_is_built(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    assert stage.once().status == 0
    before = index_of(stage, "worker")
    assert len(builds(stage)) == 2

    tuning = stage.work / "pools/worker/files/arm64/tuning.conf"
    tuning.write_text("vm.swappiness=10\n")
    changed = stage.commit("Tune arm64")
    said = stage.once()
    assert "pools/worker/files/arm64/tuning.conf" in said.out
    after = index_of(stage, "worker")
    assert after["amd64"] == before["amd64"]
    assert after["arm64"] != before["arm64"]
    assert len(builds(stage)) == 3
    assert [e.source_commit == changed for e in stage.record("worker").architectures] == [False, True]

    tip = stage.tip()
    containerfile = stage.work / "pools/worker/Containerfile"
    containerfile.write_text("# reviewed\n" + containerfile.read_text())
    commented = stage.commit("Comment")
    assert stage.once().status == 0
    assert stage.tip() == commented != tip
    assert len(builds(stage)) == 3

    stage.git("revert", "--no-edit", changed)
    stage.push()
    assert stage.once().status == 0
    assert index_of(stage, "worker") == before
    assert len(builds(stage)) == 3


def test_a_lost_status_file_is_restored_without_building(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    assert stage.once().status == 0
    written = stage.show("status/worker.yaml")
    stage.git("pull", "--quiet", "--rebase")
    (stage.work / "status/worker.yaml").unlink()
    stage.commit("Lose the status")
    pushes = stage.pushed_images()
    assert stage.once().status == 0
    assert stage.show("status/worker.yaml") == written
    assert stage.pushed_images() == pushes


def test_a_lost_commit_is_made_again_with_the_same_id(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    start = stage.tip()
    assert stage.once().status == 0
    written, pushes = stage.tip(), stage.pushed_images()
    assert written != start
    stage.run("git", "--git-dir", str(stage.bare), "update-ref", "refs/heads/main", start)
    shutil.rmtree(stage.root / "cache")
    assert stage.once().status == 0
    assert stage.tip() == written
    assert stage.pushed_images() == pushes


def test_a_failing_build_keeps_the_old_image_and_stops_nobody(stage: Stage, definitions: Path) -> None:
    write_pool(definitions, "infra")
    stage.create_repository(definitions)
    assert stage.once().status == 0
    infra = stage.show("status/infra.yaml")
    with (stage.work / "pools/infra/Containerfile").open("a") as file:
        file.write('RUN ["/no-such-program"]\n')
    metadata = stage.work / "pools/infra/machineosconfig.yaml"
    metadata.write_text(
        metadata.read_text().replace(
            "{name: infra}\nspec",
            "{name: infra, annotations: {reconciler.machineos.dev/architectures: amd64}}\nspec",
        )
    )
    (stage.work / "pools/worker/files/amd64/tuning.conf").write_text("new\n")
    stage.commit("Break infra, change worker")
    said = stage.once()
    assert said.status == 1
    assert "infra amd64: build failed" in said.err
    log = next(line.split("log: ")[1] for line in said.err.splitlines() if "log: " in line)
    assert "no-such-program" in Path(log).read_text()
    assert stage.show("status/infra.yaml") == infra
    assert stage.manifest(f"{stage.registry.host}/os/infra:latest") == stage.manifest(
        stage.record("infra").image
    )
    worker = stage.git("log", "-1", "--format=%H", "--", "pools/worker")
    assert worker in [e.source_commit for e in stage.record("worker").architectures]


def test_a_status_file_edited_by_hand_is_not_believed(stage: Stage, definitions: Path) -> None:
    write_pool(definitions, "infra", "FROM registry.example.com/os/base:1\nCOPY files/ /etc/\n")
    stage.create_repository(definitions)
    assert stage.once().status == 0
    honest, pushes = stage.show("status/worker.yaml"), stage.pushed_images()
    worker, infra = stage.record("worker"), stage.record("infra")
    other = next(e.image for e in infra.architectures if e.arch.value == "amd64")
    mine = next(e for e in worker.architectures if e.arch.value == "amd64")
    start = stage.git("rev-list", "--max-parents=0", "HEAD")
    stage.git("commit", "--quiet", "--allow-empty", "--message", "Another commit")
    another = stage.git("rev-parse", "HEAD")
    edits = {
        "another repository": (mine.image, other),
        "another image": (mine.image.partition("@")[2], other.partition("@")[2]),
        "another commit": (start, another),
    }
    for title, (old, new) in edits.items():
        stage.git("pull", "--quiet", "--rebase")
        status = stage.work / "status/worker.yaml"
        status.write_text(status.read_text().replace(old, new))
        stage.commit(title)
        said = stage.once()
        assert said.status == 0, title
        assert "status/worker.yaml: warning: the record of amd64" in said.err, title
        assert stage.show("status/worker.yaml") == honest, title
        assert builds(stage) == [t for t in pushes if t in builds(stage)], title


def test_a_changed_push_repository_copies_and_builds_nothing(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    assert stage.once().status == 0
    before, built = index_of(stage, "worker"), builds(stage)
    definition = stage.work / "pools/worker/machineosconfig.yaml"
    definition.write_text(definition.read_text().replace("os/worker:latest", "teams/blue/worker:stable"))
    stage.commit("Push elsewhere")
    said = stage.once()
    assert said.status == 0, said
    assert index_of(stage, "worker") == before
    assert stage.record("worker").image.startswith(f"{stage.registry.host}/teams/blue/worker@")
    assert stage.manifest(f"{stage.registry.host}/teams/blue/worker:stable")
    assert [t for t in builds(stage) if t.startswith("worker-")] == built


def test_a_moved_base_rebuilds_and_an_equal_one_does_not(
    stage: Stage, definitions: Path, tmp_path: Path
) -> None:
    stage.create_repository(definitions)
    assert stage.once().status == 0
    before, count = index_of(stage, "worker"), len(builds(stage))
    stage.build_base()
    assert stage.once().status == 0
    assert index_of(stage, "worker") == before

    other = tmp_path / "other-base"
    shutil.copytree(Path("examples-repo/base"), other, symlinks=True)
    (other / "rootfs/usr/lib/os-release").write_text("ID=newer\n")
    stage.build_base(context=other)
    plan = ["plan", "--repo", str(stage.bare), "--resolve-bases", "--config", str(stage.config)]
    assert "2 of 2 images" in stage.reconciler(*plan).out
    said = stage.once()
    assert said.status == 0, said
    assert "os/base:1 moved" in said.out
    assert "0 of 2 images" in stage.reconciler(*plan).out
    assert not set(index_of(stage, "worker").values()) & set(before.values())
    assert len(builds(stage)) == count + 2
    stage.build_base()
    assert stage.once().status == 0
    assert index_of(stage, "worker") == before, "the base moved back, and so did the images"
    assert len(builds(stage)) == count + 2


def test_a_base_without_the_architecture_blocks_it_and_says_so(stage: Stage, definitions: Path) -> None:
    write_pool(definitions, "infra", "FROM registry.example.com/os/base:none\nCOPY files/ /\n")
    stage.create_repository(definitions)
    said = stage.once()
    assert said.status == 1
    assert "base:none does not exist" in said.out
    assert list(index_of(stage, "worker")) == ["amd64", "arm64"]


def test_a_hostile_file_blocks_its_own_pool_only(stage: Stage, definitions: Path) -> None:
    write_pool(definitions, "infra")
    stage.create_repository(definitions)
    assert stage.once().status == 0
    infra = stage.show("status/infra.yaml")
    (stage.work / "pools/infra/machineosconfig.yaml").write_text("[" * 60_000)
    (stage.work / "pools/worker/files/arm64/tuning.conf").write_text("changed\n")
    stage.commit("Nest deeply")
    said = stage.once()
    assert said.status == 1
    assert "pools/infra/machineosconfig.yaml" in said.err
    assert stage.show("status/infra.yaml") == infra
    assert len(builds(stage)) == 5


def test_without_a_registry_nothing_is_concluded(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    assert stage.once().status == 0
    tip, built = stage.tip(), builds(stage)
    stage.registry.stop()
    said = stage.once()
    assert said.status == 1
    assert stage.registry.host in said.out + said.err
    assert stage.tip() == tip
    stage.registry.start()
    assert stage.once().status == 0
    assert builds(stage) == built


def test_a_branch_that_takes_no_commit_is_named(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    hook = stage.bare / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho protected branch >&2\nexit 1\n")
    hook.chmod(0o755)
    said = stage.once()
    assert said.status == 1
    assert "main does not take the status commit" in said.err
    assert "protected branch" in said.err
    hook.unlink()
    built = builds(stage)
    assert stage.once().status == 0
    assert builds(stage) == built


def test_another_branch_takes_the_status_and_is_read_from(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    head = stage.tip()
    stage.config.write_text(stage.config.read_text() + "writeBack: {branch: deployed}\n")
    assert stage.once().status == 0
    assert stage.tip() == head
    written = stage.show("status/worker.yaml", "deployed")
    again = stage.once()
    assert "nothing to write" in again.out
    assert stage.show("status/worker.yaml", "deployed") == written
    tuning = stage.work / "pools/worker/files/amd64/tuning.conf"
    tuning.write_text("new\n")
    stage.commit("Tune")
    assert "1 built, 1 reused" in stage.once().out
    log = stage.run("git", "--git-dir", str(stage.bare), "log", "--format=%an", "deployed", "--", "status")
    assert log.split() == ["reconciler", "reconciler"]


def test_a_folder_of_a_repository_is_a_repository_of_its_own(stage: Stage, definitions: Path) -> None:
    shutil.copytree(definitions, definitions / "clusters/east")
    stage.create_repository(definitions)
    stage.config.write_text(
        stage.config.read_text().replace("branch: main}", "branch: main, path: clusters/east}")
    )
    assert stage.once().status == 0
    assert b"kind: MachineOSImage" in stage.show("clusters/east/status/worker.yaml")
    assert "nothing to write" in stage.once().out
