"""Real builds with buildah, pushed to a real registry."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.core.model import Arch, Base
from reconciler.ports import Cause, Phase
from tests.adapters.builders.conftest import Bench
from tests.adapters.builders.world import File, Recipe, ended, pull, push_index, running, until

pytestmark = pytest.mark.tools

Shell = Callable[[Arch], Base]


def test_builds_and_pushes_every_architecture(bench: Bench) -> None:
    builder = bench.builder()
    for arch in Arch:
        recipe = Recipe(
            "FROM scratch\nARG TARGETARCH\nCOPY etc /etc\nLABEL arch=$TARGETARCH\n",
            {"etc/motd": b"hello\n", "etc/run.sh": ("100755", b"#!/bin/sh\n")},
            arch,
            annotations={
                "reconciler.machineos.dev/input": " sha256:1 \\n ",
                "bases": '[{"ref": "a=b"}]',
                "none": "",
            },
        )
        builder.ensure(recipe.request(bench.tree, f"build-{arch}", bench.image(f"every-{arch}")))
    for arch, build in zip(Arch, ended(builder, *(f"build-{arch}" for arch in Arch)), strict=True):
        assert (build.phase, build.message, build.arch) == (Phase.SUCCEEDED, "", arch)
        assert 0 < build.started <= build.finished
        image = pull(f"{bench.registry}/os/every-{arch}", "new")
        assert image.digest == build.digest
        assert (image.config["architecture"], image.config["os"]) == (arch, "linux")
        assert image.config["config"]["Labels"] == {"arch": arch}
        assert image.manifest["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
        assert image.manifest["annotations"] == {
            "reconciler.machineos.dev/input": " sha256:1 \\n ",
            "bases": '[{"ref": "a=b"}]',
            "none": "",
            "org.opencontainers.image.base.digest": "",
            "org.opencontainers.image.base.name": "",
        }
        assert image.content["etc/motd"] == b"hello\n"
        assert [image.files[name].mode & 0o7777 for name in ("etc/motd", "etc/run.sh")] == [0o644, 0o755]
    assert [path.name for path in bench.directory.iterdir()] == ["logs"]


def test_the_same_request_gives_the_same_digest(bench: Bench, shell: Shell) -> None:
    base = shell(Arch.AMD64)
    recipe = Recipe(
        f"FROM {base.ref} AS tools\nARG B=2 A=1\nARG D=4\nARG C=3\nENV Q=1 P=2\nRUN echo $A$B$C$D > /made\n"
        f"FROM {base.ref}\nCOPY --from=tools /made /made\nCOPY . /all\nLABEL z=1 y=2 x=3\nUSER 5\n",
        {"a": b"a", "b/c": b"c", "link": ("120000", b"b/c")},
        bases=(base,),
        annotations={"k": "v"},
    )
    digests = set()
    for attempt in range(3):
        builder = bench.builder(directory=bench.directory / str(attempt))
        builder.ensure(recipe.request(bench.tree, f"same-{attempt}", bench.image(f"same-{attempt}")))
        (build,) = ended(builder, f"same-{attempt}")
        assert build.phase is Phase.SUCCEEDED, build.message
        digests.add(build.digest)
    assert len(digests) == 1
    config = pull(f"{bench.registry}/os/same-0", "new").config
    assert config["created"] == "1970-01-01T00:00:00Z"
    assert config["history"], "bootc needs it"


def test_bases_stay_pinned_when_their_tags_move(bench: Bench, shell: Shell) -> None:
    base = shell(Arch.AMD64)
    repository = f"{bench.registry}/base/{Arch.AMD64}"
    index = push_index(repository, "index", {Arch.AMD64: base.digest})
    builder = bench.builder()
    for tag in ("moved", "latest"):
        mover = Recipe("FROM scratch\nCOPY who /who\n", {"who": b"moved\n"})
        builder.ensure(mover.request(bench.tree, f"move-{tag}", f"{repository}:{tag}"))
    assert [build.phase for build in ended(builder, "move-moved", "move-latest")] == [Phase.SUCCEEDED] * 2
    names = (f"{repository}:moved", repository, f"{repository}@{index}", f"{repository}:any@{index}")
    froms = "".join(f"FROM {name} AS from{at}\nRUN cp /who /from{at}\n" for at, name in enumerate(names))
    mounts = "".join(
        f"COPY --from={name} /who /copy{at}\n"
        f"RUN --mount=type=bind,from={name},target=/m cp /m/who /mount{at}\n"
        f"COPY --from=from{at} /from{at} /from{at}\n"
        for at, name in enumerate(names)
    )
    text = f"ARG TAG=moved\n{froms}FROM {repository}:$TAG\nRUN cp /who /arg\n{mounts}"
    recipe = Recipe(text, bases=tuple(Base(name, base.digest) for name in names))
    builder.ensure(recipe.request(bench.tree, "pinned", bench.image("pinned")))
    (build,) = ended(builder, "pinned")
    assert build.phase is Phase.SUCCEEDED, build.message
    content = pull(f"{bench.registry}/os/pinned", "new").content
    places = ["arg", *(f"{kind}{at}" for kind in ("from", "copy", "mount") for at in range(len(names)))]
    assert {place: content[place] for place in places} == dict.fromkeys(places, b"pinned\n")


@pytest.mark.parametrize("use", ["FROM {}", "FROM scratch\nCOPY --from={} /who /who"])
def test_an_image_that_nobody_pinned_is_never_pulled(bench: Bench, shell: Shell, use: str) -> None:
    builder = bench.builder()
    builder.ensure(
        Recipe(use.format(shell(Arch.AMD64).ref)).request(bench.tree, "loose", bench.image("loose"))
    )
    (build,) = ended(builder, "loose")
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.DEFINITION)


@pytest.mark.parametrize("arch", [arch for arch in Arch if arch is not Arch.AMD64])
@pytest.mark.usefixtures("foreign")
def test_runs_programs_of_foreign_architectures(bench: Bench, shell: Shell, arch: Arch) -> None:
    base = shell(arch)
    builder = bench.builder()
    recipe = Recipe(f"FROM {base.ref}\nRUN uname -m > /machine\n", arch=arch, bases=(base,))
    builder.ensure(recipe.request(bench.tree, "run", bench.image(f"run-{arch}")))
    (build,) = ended(builder, "run")
    assert build.phase is Phase.SUCCEEDED, build.message
    image = pull(f"{bench.registry}/os/run-{arch}", "new")
    assert image.content["machine"].decode().strip() == arch.machine
    assert image.config["architecture"] == arch


def test_a_failing_step_is_the_definitions_fault(bench: Bench, shell: Shell) -> None:
    base = shell(Arch.AMD64)
    builder = bench.builder()
    recipe = Recipe(f"FROM {base.ref}\nRUN echo \033[31mwrong && false\nRUN echo never\n", bases=(base,))
    builder.ensure(recipe.request(bench.tree, "bad", bench.image("bad")))
    (build,) = ended(builder, "bad")
    assert (build.phase, build.cause, build.digest) == (Phase.FAILED, Cause.DEFINITION, "")
    assert build.message.startswith("STEP 2/3: RUN echo wrong && false failed\n")
    assert "\nwrong\n" in build.message
    log = Path(build.log).read_text()
    assert "wrong" in log
    assert "never" not in log


def test_a_containerfile_that_cannot_be_parsed_is_the_definitions_fault(bench: Bench) -> None:
    builder = bench.builder()
    builder.ensure(Recipe("FROM scratch\nNONSENSE\n").request(bench.tree, "bad", bench.image("bad")))
    (build,) = ended(builder, "bad")
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.DEFINITION)
    assert "NONSENSE" in build.message


def test_a_network_failure_in_a_step_is_the_infrastructures_fault(bench: Bench, shell: Shell) -> None:
    base = shell(Arch.AMD64)
    builder = bench.builder()
    recipe = Recipe(f"FROM {base.ref}\nRUN /bin/busybox wget -O /x http://127.0.0.1:1/\n", bases=(base,))
    builder.ensure(recipe.request(bench.tree, "net", bench.image("net")))
    (build,) = ended(builder, "net")
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE)
    assert build.message.startswith("the network failed\n")


def test_an_unreachable_registry_is_the_infrastructures_fault(bench: Bench) -> None:
    builder = bench.builder(insecure=frozenset({"127.0.0.1:1"}))
    missing = Base("127.0.0.1:1/base:1", "sha256:" + "0" * 64)
    builder.ensure(Recipe("FROM scratch\n").request(bench.tree, "push", "127.0.0.1:1/os:new"))
    builder.ensure(Recipe("FROM a\n", bases=(missing,)).request(bench.tree, "pull", "127.0.0.1:1/os:new"))
    push, fetch = ended(builder, "push", "pull")
    assert (push.cause, fetch.cause) == (Cause.INFRASTRUCTURE, Cause.INFRASTRUCTURE)
    assert push.message.startswith("cannot push to 127.0.0.1:1/os:new\n")
    assert fetch.message.startswith(f"cannot pull 127.0.0.1:1/base@{missing.digest}\n")


def test_symlinks_are_passed_on(bench: Bench) -> None:
    builder = bench.builder()
    files: dict[str, File] = {
        "etc/a": b"a",
        "etc/l": ("120000", b"../other/../etc/a"),
        "dangling": ("120000", b"nowhere"),
    }
    builder.ensure(
        Recipe("FROM scratch\nCOPY . /\n", files).request(bench.tree, "links", bench.image("links"))
    )
    (build,) = ended(builder, "links")
    assert build.phase is Phase.SUCCEEDED, build.message
    found = pull(f"{bench.registry}/os/links", "new").files
    assert {name: found[name].linkname for name in found if found[name].type == tarfile.SYMTYPE} == {
        "etc/l": "../other/../etc/a",
        "dangling": "nowhere",
    }


def test_a_symlink_out_of_the_context_is_refused_by_name(bench: Bench) -> None:
    builder = bench.builder()
    files: dict[str, File] = {"ok": b"", "etc/l": ("120000", b"../../x")}
    builder.ensure(Recipe("FROM scratch\nCOPY ok /\n", files).request(bench.tree, "out", bench.image("out")))
    (build,) = ended(builder, "out")
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.DEFINITION)
    assert "etc/l" in build.message


def test_only_the_given_ignore_rules_count(bench: Bench) -> None:
    builder = bench.builder()
    files = {"a": b"", "b": b"", ".containerignore": b"a\n", ".dockerignore": b"a\n"}
    for name, rules in (("some", "b\n"), ("none", "")):
        recipe = Recipe("FROM scratch\nCOPY . /\n", files, ignorefile=rules)
        builder.ensure(recipe.request(bench.tree, name, bench.image(f"ignore-{name}")))
    assert [build.message for build in ended(builder, "some", "none")] == ["", ""]
    found = {name: set(pull(f"{bench.registry}/os/ignore-{name}", "new").files) for name in ("some", "none")}
    assert found == {"some": set(files) - {"b"}, "none": set(files)}


def test_annotations_that_fit_no_line_are_refused(bench: Bench) -> None:
    builder = bench.builder()
    recipe = Recipe("FROM scratch\n", annotations={"epoch": "a\nb"})
    builder.ensure(recipe.request(bench.tree, "lines", bench.image("lines")))
    (build,) = ended(builder, "lines")
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.DEFINITION)
    assert "epoch" in build.message


def test_builds_run_side_by_side_and_are_asked_for_once(bench: Bench, shell: Shell) -> None:
    base = shell(Arch.AMD64)
    builder = bench.builder(concurrency=2)
    recipe = Recipe(f"FROM {base.ref}\nRUN sleep 86391\n", bases=(base,))
    for name in ("one", "two", "three"):
        builder.ensure(recipe.request(bench.tree, name, bench.image("side")))
        builder.ensure(recipe.request(bench.tree, name, bench.image("other")))
    until(lambda: len(running("86391")) == 2, "two sleeping steps")
    until(lambda: sum("RUN sleep" in build.step for build in builder.builds()) == 2, "two steps shown")
    assert {build.name: (build.phase, build.step) for build in builder.builds()} == {
        "one": (Phase.RUNNING, "STEP 2/2: RUN sleep 86391"),
        "two": (Phase.RUNNING, "STEP 2/2: RUN sleep 86391"),
        "three": (Phase.PENDING, ""),
    }
    assert not builder.wait(0)
    builder.close()
    assert builder.wait(0)
    assert not builder.wait(0)
    assert {build.cause for build in builder.builds()} == {Cause.INFRASTRUCTURE}
    assert running("86391") == []
    assert [path.name for path in bench.directory.iterdir()] == ["logs"]


def test_a_build_ends_at_its_deadline_with_all_it_started(bench: Bench, shell: Shell) -> None:
    base = shell(Arch.AMD64)
    builder = bench.builder(timeout=3.0)
    recipe = Recipe(f"FROM {base.ref}\nRUN setsid sleep 86392 & sleep 86392\n", bases=(base,))
    builder.ensure(recipe.request(bench.tree, "slow", bench.image("slow")))
    (build,) = ended(builder, "slow")
    assert (build.phase, build.cause) == (Phase.FAILED, Cause.INFRASTRUCTURE)
    assert build.message == (
        "the build took longer than 3 s, at: STEP 2/2: RUN setsid sleep 86392 & sleep 86392"
    )
    assert running("86392") == []


def test_daemons_of_a_step_do_not_outlive_the_build(bench: Bench, shell: Shell) -> None:
    base = shell(Arch.AMD64)
    builder = bench.builder()
    recipe = Recipe(f"FROM {base.ref}\nRUN setsid sleep 86393 & :\n", bases=(base,))
    builder.ensure(recipe.request(bench.tree, "daemon", bench.image("daemon")))
    (build,) = ended(builder, "daemon")
    assert build.phase is Phase.SUCCEEDED, build.message
    assert running("86393") == []


def test_a_name_that_could_leave_the_directory_is_a_bug(bench: Bench) -> None:
    builder = bench.builder()
    with pytest.raises(ValueError, match=r"\.\./x"):
        builder.ensure(Recipe("FROM scratch\n").request(bench.tree, "../x", bench.image("x")))
