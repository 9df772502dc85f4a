"""Kernel arguments of MachineConfigs as the file from which bootc takes them.

Sources: the Machine Config Operator's `pkg/daemon/update.go` (nextArg, parseKernelArguments: an item may hold several
arguments, parted by white space outside of double quotes, as the kernel's `lib/cmdline.c` parts them); bootc
`docs/src/building/kernel-arguments.md` and `crates/lib/src/bootc_kargs.rs` (`/usr/lib/bootc/kargs.d/*.toml` in order of
their names, key `kargs`, a list of strings).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

PATH: Final = "/usr/lib/bootc/kargs.d/50-machineconfig.toml"

_ARGUMENT: Final = re.compile(r'(?:[^\s"]|"[^"]*")+', re.ASCII)


def arguments(items: Iterable[str]) -> tuple[str, ...]:
    """Single arguments, in order; repeated ones stay (`console=` may be given twice)."""
    return tuple(found for item in items for found in _ARGUMENT.findall(item))


def toml(found: Iterable[str]) -> bytes:
    """The file that holds them."""
    # A JSON string of text without control characters is a TOML basic string.
    lines = [f"  {json.dumps(text, ensure_ascii=False)},\n" for text in found]
    return f"kargs = [\n{''.join(lines)}]\n".encode()
