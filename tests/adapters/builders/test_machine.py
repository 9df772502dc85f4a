"""What the local builder refuses, and what it says then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.adapters.builders.machine import Host, Machine
from reconciler.core.model import Arch, Dialect, Needs
from reconciler.ports import Refusal

ARM64 = (
    "enabled\ninterpreter /usr/bin/qemu-aarch64\nflags: {flags}\noffset 0\n"
    "magic 7f454c460201010000000000000000000200b700\n"
    "mask ffffffffffffff00fffffffffffffffffeffffff\n"
)
RUNS = Needs(runs=True)
HEREDOC = Dialect((1, 33), "pools/a/Containerfile", 7, "a heredoc")


def machine(
    tmp_path: Path,
    *,
    buildah: str | None = "1.28.2",
    entry: str = "",
    user: int = 0,
    programs: tuple[str, ...] = (),
) -> Machine:
    """A machine with just these programs and binfmt_misc entries."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    if buildah is not None:
        (binaries / "buildah").write_text(f"#!/bin/sh\necho 'buildah version {buildah} (image-spec 1.1.0)'\n")
    for program in programs:
        (binaries / program).touch()
    for file in binaries.iterdir():
        file.chmod(0o755)
    misc = tmp_path / "proc/sys/fs/binfmt_misc"
    misc.mkdir(parents=True)
    (misc / "status").write_text("enabled\n")
    (misc / "register").write_text("")
    if entry:
        (misc / "qemu-aarch64").write_text(entry)
    return Machine(Host("x86_64", user, tmp_path / "proc"), {"PATH": str(binaries)})


def asked(found: Machine, arch: Arch, needs: Needs) -> Refusal:
    refusal = found.refusal(arch, needs)
    assert refusal is not None
    return refusal


@pytest.mark.parametrize(
    "needs", [Needs(), RUNS, Needs(foreign=("BUILDARCH",)), Needs(dialect=(Dialect((1, 28), "", 1, ""),))]
)
def test_its_own_architecture_is_built(tmp_path: Path, needs: Needs) -> None:
    assert machine(tmp_path).refusal(Arch.AMD64, needs) is None


def test_copying_needs_no_emulation(tmp_path: Path) -> None:
    assert machine(tmp_path).refusal(Arch.S390X, Needs()) is None


@pytest.mark.parametrize("flags", ["F", "POCF"])
def test_foreign_programs_run_with_a_fixed_interpreter(tmp_path: Path, flags: str) -> None:
    found = machine(tmp_path, entry=ARM64.format(flags=flags))
    assert found.refusal(Arch.ARM64, RUNS) is None
    assert "s390x" in asked(found, Arch.S390X, RUNS).message


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("", "no interpreter for arm64"),
        (ARM64.format(flags="F").replace("enabled", "disabled"), "no interpreter for arm64"),
        (ARM64.format(flags="F").replace("b700", "f300"), "no interpreter for arm64"),
        (
            ARM64.format(flags="F").replace("mask fffe", "mask ffff").replace("feffffff", "ffffffff"),
            "no interpreter",
        ),
        ("enabled\ninterpreter /x\nflags: F\nextension .arm\n", "no interpreter for arm64"),
        (ARM64.format(flags="OC"), "qemu-aarch64, /usr/bin/qemu-aarch64) is registered without the flag F"),
    ],
)
def test_run_for_a_foreign_architecture_needs_emulation(tmp_path: Path, entry: str, said: str) -> None:
    refusal = asked(machine(tmp_path, entry=entry), Arch.ARM64, RUNS)
    assert said in refusal.message
    assert "qemu-user-static" in refusal.hint


@pytest.mark.parametrize("state", ["disabled\n", None])
def test_emulation_that_is_switched_off_or_not_mounted_does_not_count(
    tmp_path: Path, state: str | None
) -> None:
    found = machine(tmp_path, entry=ARM64.format(flags="F"))
    status = tmp_path / "proc/sys/fs/binfmt_misc/status"
    status.unlink()
    if state:
        status.write_text(state)
    assert "binfmt_misc" in asked(found, Arch.ARM64, RUNS).message


def test_what_reads_differently_abroad_is_named(tmp_path: Path) -> None:
    refusal = asked(machine(tmp_path), Arch.ARM64, Needs(foreign=("a/Containerfile:3: BUILDARCH", "a:4: x")))
    assert "a/Containerfile:3: BUILDARCH, a:4: x" in refusal.message
    assert "arm64" in refusal.hint


def test_all_reasons_are_given_at_once(tmp_path: Path) -> None:
    needs = Needs(runs=True, foreign=("BUILDARCH",), dialect=(HEREDOC,))
    refusal = asked(machine(tmp_path, user=1000), Arch.ARM64, needs)
    assert [word in refusal.message for word in ("BUILDARCH", "heredoc", "interpreter", "newuidmap")] == [
        True
    ] * 4


def test_a_newer_dialect_names_place_and_versions(tmp_path: Path) -> None:
    refusal = asked(machine(tmp_path), Arch.AMD64, Needs(dialect=(HEREDOC,)))
    assert refusal.message == "pools/a/Containerfile:7: a heredoc needs buildah 1.33, here is 1.28.2"


@pytest.mark.parametrize("version", ["1.33.0", "1.39.3", "1.40.0-dev", "2.0.0"])
def test_a_new_enough_buildah_builds_it(tmp_path: Path, version: str) -> None:
    assert machine(tmp_path, buildah=version).refusal(Arch.AMD64, Needs(dialect=(HEREDOC,))) is None


@pytest.mark.parametrize("version", ["1.19.6", "1.27.4"])
def test_an_old_buildah_is_refused(tmp_path: Path, version: str) -> None:
    refusal = asked(machine(tmp_path, buildah=version), Arch.AMD64, Needs())
    assert refusal.message == f"buildah {version} is too old"
    assert "1.28" in refusal.hint


def test_a_missing_buildah_is_refused_until_it_is_installed(tmp_path: Path) -> None:
    found = machine(tmp_path, buildah=None)
    refusal = asked(found, Arch.AMD64, Needs())
    assert "buildah" in refusal.message
    assert "install" in refusal.hint
    os.symlink("/bin/true", tmp_path / "bin/buildah")
    assert "buildah --version" in asked(found, Arch.AMD64, Needs()).message
    os.unlink(tmp_path / "bin/buildah")
    (tmp_path / "bin/buildah").write_text("#!/bin/sh\necho buildah version 1.39.3\n")
    (tmp_path / "bin/buildah").chmod(0o755)
    assert found.refusal(Arch.AMD64, Needs()) is None


def test_without_root_it_takes_the_programs_for_user_namespaces(tmp_path: Path) -> None:
    refusal = asked(machine(tmp_path, user=1000, programs=("newgidmap",)), Arch.AMD64, Needs())
    assert "there is no newuidmap" in refusal.message
    assert "/etc/subuid" in refusal.hint
    whole = tmp_path / "whole"
    whole.mkdir()
    assert machine(whole, user=1000, programs=("newuidmap", "newgidmap")).refusal(Arch.AMD64, Needs()) is None


def test_a_machine_of_another_kind_is_foreign_to_all(tmp_path: Path) -> None:
    machine(tmp_path)
    riscv = Machine(Host("riscv64", 0, tmp_path / "proc"), {"PATH": str(tmp_path / "bin")})
    assert riscv.refusal(Arch.AMD64, Needs()) is None
    assert "on riscv64" in asked(riscv, Arch.AMD64, RUNS).message
