"""Reading binfmt_misc as the kernel does."""

from __future__ import annotations

import pytest

from reconciler.adapters.builders import binfmt
from reconciler.core.model import Arch
from tests.servers.binfmt import DIRECTORY
from tests.servers.foreign import busybox

FOREIGN = [arch for arch in Arch if arch is not Arch.AMD64]


@pytest.mark.tools
@pytest.mark.usefixtures("foreign")
def test_real_entries_run_their_architecture_and_no_other() -> None:
    registered = {entry.name: entry for entry in binfmt.entries(DIRECTORY)}
    for arch in FOREIGN:
        entry = registered[f"qemu-{arch.machine}"]
        assert "F" in entry.flags
        assert [entry.matches(busybox(other)[:128]) for other in Arch] == [other is arch for other in Arch]
        assert binfmt.obstacle(arch, DIRECTORY) == ""


@pytest.mark.tools
@pytest.mark.parametrize("arch", list(Arch))
def test_the_header_that_is_asked_about_is_that_of_real_programs(arch: Arch) -> None:
    real = bytearray(busybox(arch)[:24])
    real[7] = 0  # the ABI: "System V" and "GNU/Linux" are both Linux
    executable = 2
    assert binfmt.header(arch, executable)[:24] == bytes(real)


def test_an_entry_without_a_mask_compares_every_bit() -> None:
    entry = binfmt.parse("x", "enabled\ninterpreter /x\nflags: \noffset 2\nmagic 0102\n")
    assert entry == binfmt.Entry("x", "/x", "", 2, b"\1\2", b"\xff\xff")
    assert entry.matches(b"..\1\2")
    assert not entry.matches(b"..\1\3")
    assert not entry.matches(b"..\1")
