"""The kernel calls that a container is made of, which Python's library does not offer.

Belongs here: mounts, namespaces, capabilities and process attributes by ctypes. Does not belong here: what a
container looks like (`rootfs`, `supervisor`).
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path
from typing import Final

MS_RDONLY: Final = 0x1
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_REMOUNT: Final = 0x20
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000
MNT_DETACH: Final = 0x2
"""From linux/mount.h."""

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWPID: Final = 0x20000000
"""From linux/sched.h."""

_PR_SET_PDEATHSIG: Final = 1
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
"""From linux/prctl.h."""

_VFS_CAP_REVISION_2: Final = 0x02000000
_VFS_CAP_EFFECTIVE: Final = 0x1
"""From linux/capability.h."""

_MOUNT_SETATTR: Final = 442
_ATTR_RDONLY: Final = 0x1
_AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
"""mount_setattr(2), the same on all architectures, from Linux 5.12."""

_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41, "ppc64le": 203, "s390x": 217}

CAPABILITIES: Final = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip
"""Names by number, from linux/capability.h, spelled as Kubernetes does."""

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError."""
    result = _LIBC.mount(
        source.encode(), bytes(target), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None
    )
    _check(result, f"mount {kind or source} at {target}")


def bind(source: Path, target: Path, *, read_only: bool, flags: int = 0) -> None:
    """Make `source` appear at `target`, read-only or writable whatever it was. Raises OSError."""
    mount(str(source), target, flags=MS_BIND)
    mount("none", target, flags=MS_REMOUNT | MS_BIND | flags | (MS_RDONLY if read_only else 0))


def protect() -> None:
    """Make every mount of this mount namespace read-only and its own. Raises OSError."""
    attributes = struct.pack("<4Q" if sys.byteorder == "little" else ">4Q", _ATTR_RDONLY, 0, MS_PRIVATE, 0)
    number, here = _MOUNT_SETATTR, _AT_FDCWD
    size = ctypes.c_size_t(len(attributes))
    _check(_LIBC.syscall(number, here, b"/", _AT_RECURSIVE, attributes, size), "mount_setattr")


def restrict(target: Path, flags: int = 0) -> None:
    """Make an existing mount read-only, with these flags besides. Raises OSError."""
    mount("none", target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | flags)


def detach(target: Path) -> None:
    """Take a mount away from the tree; it ends with its last user. Raises OSError."""
    _check(_LIBC.umount2(bytes(target), MNT_DETACH), f"umount {target}")


def unshare(flags: int) -> None:
    """unshare(2). Raises OSError."""
    _check(_LIBC.unshare(flags), "unshare")


def pivot_root(new: Path, old: Path) -> None:
    """Make `new`, a mount, the root, and put the old one at `old`, below it. Raises OSError."""
    number = _PIVOT_ROOT[platform.machine()]
    _check(_LIBC.syscall(number, bytes(new), bytes(old)), "pivot_root")


def die_with_parent(signal: int) -> None:
    """Have the kernel send this process a signal when the thread that forked it ends. Raises OSError."""
    _prctl(_PR_SET_PDEATHSIG, signal)


def forbid_new_privileges() -> None:
    """No program that is executed from now on gains anything by set-user-ID or file capabilities. Raises OSError."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def bound_capabilities(names: frozenset[str]) -> None:
    """Nothing executed from now on gets capabilities beyond these. Raises OSError."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for number in range(last + 1):
        if number >= len(CAPABILITIES) or CAPABILITIES[number] not in names:
            _prctl(_PR_CAPBSET_DROP, number)


def grant(program: Path, capability: str) -> None:
    """Give a program one capability, permitted and effective, in place of set-user-ID. Raises OSError."""
    mask = 1 << CAPABILITIES.index(capability)
    program.chmod(0o755)
    value = struct.pack("<5I", _VFS_CAP_REVISION_2 | _VFS_CAP_EFFECTIVE, mask & 0xFFFFFFFF, 0, mask >> 32, 0)
    os.setxattr(program, "security.capability", value)


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _check(_LIBC.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")
