"""The root file system of a container: this machine's programs and settings, copied on write, and nothing else of it.

There are no images here. A container sees /usr, /etc and the library folders of this machine through an overlay whose
upper half is in memory, and empty folders where a small image has them; never the machine's /home, /tmp, /run or
/var. It is all made inside the container's mount namespace, where everything of the machine is read-only before
anything else is done: nothing of this is ever seen outside, or stays, even where this code is wrong.
Does not belong here: namespaces and processes (`supervisor`), what is in a volume (`volumes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.nodes import linux
from tests.nodes.plan import Container, Mount

HOST: Final = Path("/.host")
"""Where the machine's own root is until the container starts."""
_UPPER: Final = Path("/.upper")
_SHARED: Final = ("usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FOLDERS: Final = {
    "dev": 0o755, "home": 0o755, "mnt": 0o755, "opt": 0o755, "proc": 0o555, "root": 0o700, "run": 0o755,
    "run/lock": 0o755, "srv": 0o755, "sys": 0o555, "tmp": 0o1777, "var": 0o755, "var/cache": 0o755,
    "var/lib": 0o755, "var/log": 0o755, "var/spool": 0o755, "var/tmp": 0o1777,
}  # fmt: skip
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS: Final = {
    "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}  # fmt: skip
_READ_ONLY: Final = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_MASKED: Final = ("kcore", "keys", "timer_list", "sched_debug")
"""What container runtimes withhold of /proc: it would change or show the machine itself."""
_SECURE: Final = linux.MS_NOSUID | linux.MS_NOEXEC | linux.MS_NODEV


def enter(root: Path, container: Container, volumes: Path, shm: Path, message: Path) -> None:
    """Make a root file system and go there for good. The caller is in mount and PID namespaces of its own.

    `root` is a folder that serves as mount point, `volumes` has the pod's volumes by name, `shm` is its /dev/shm, and
    `message` the file for the termination message. Raises OSError.
    """
    linux.protect()  # first of all: whatever is wrong below, nothing of the machine can be written to
    linux.mount("tmpfs", root, "tmpfs", data="mode=0755")
    (root / HOST.name).mkdir()
    linux.pivot_root(root, root / HOST.name)
    _share()
    _write(container.files)
    for program, capability in container.file_capabilities.items():
        linux.grant(Path(program), capability)
    _special(_outside(shm))
    for mount in sorted(container.mounts, key=lambda mount: len(Path(mount.path).parts)):
        _mount(mount, _outside(volumes))
    linux.bind(_outside(message), _place(Path(container.message_path), folder=False), read_only=False)
    linux.detach(HOST)
    HOST.rmdir()
    if container.read_only_root:
        for name in ("", *_SHARED):
            folder = Path("/", name)
            if folder.is_mount() and not folder.is_symlink():
                linux.restrict(folder)


def _outside(path: Path) -> Path:
    """A path of the machine, as it is found from inside."""
    return HOST / path.relative_to("/")


def _share() -> None:
    """The machine's folders, writable without changing them, and the empty ones beside."""
    _UPPER.mkdir()
    linux.mount("tmpfs", _UPPER, "tmpfs", data="mode=0755")
    for name in _SHARED:
        theirs, ours = HOST / name, Path("/", name)
        if theirs.is_symlink():
            ours.symlink_to(theirs.readlink())
        elif theirs.is_dir():
            ours.mkdir()
            upper, work = _UPPER / name, _UPPER / f"{name}.work"
            upper.mkdir()
            work.mkdir()
            linux.mount("overlay", ours, "overlay", data=f"lowerdir={theirs},upperdir={upper},workdir={work}")
    linux.detach(_UPPER)
    _UPPER.rmdir()
    for name, mode in _FOLDERS.items():
        folder = Path("/", name)
        folder.mkdir()
        folder.chmod(mode)
    Path("/var/run").symlink_to("/run")
    Path("/var/lock").symlink_to("/run/lock")
    for name in ("resolv.conf", "hosts", "localtime"):
        _settle(Path("/etc", name))


def _settle(path: Path) -> None:
    """Copy a file that the machine only links to from /etc, often from /run."""
    theirs = HOST / path.relative_to("/")
    if theirs.is_symlink():
        target = theirs.readlink()
        real = _outside(target) if target.is_absolute() else theirs.parent / target
        if real.is_file():
            content = real.read_bytes()
            path.unlink()
            path.write_bytes(content)


def _write(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)


def _special(shm: Path) -> None:
    """What the kernel shows: /proc of this PID namespace, /sys to read, and the usual devices."""
    linux.mount("proc", Path("/proc"), "proc", _SECURE)
    for name in _READ_ONLY:
        path = Path("/proc", name)
        if path.exists():
            linux.bind(path, path, read_only=True, flags=_SECURE)
    linux.mount("sysfs", Path("/sys"), "sysfs", _SECURE | linux.MS_RDONLY)
    dev = Path("/dev")
    linux.mount("tmpfs", dev, "tmpfs", linux.MS_NOSUID | linux.MS_NOEXEC, "mode=0755,size=64k")
    for name in _DEVICES:
        (dev / name).touch()
        linux.bind(HOST / "dev" / name, dev / name, read_only=True)  # of a device only its node
    (dev / "pts").mkdir()
    options = "newinstance,ptmxmode=0666,mode=0620,gid=5"
    linux.mount("devpts", dev / "pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, options)
    (dev / "shm").mkdir()
    linux.bind(shm, dev / "shm", read_only=False)
    for name, target in _LINKS.items():
        (dev / name).symlink_to(target)
    for name in _MASKED:
        path = Path("/proc", name)
        if path.exists():
            linux.bind(dev / "null", path, read_only=True)


def _mount(mount: Mount, volumes: Path) -> None:
    """Put a volume, or a part of it, in its place. Raises OSError, FileNotFoundError for a part that is not there."""
    volume = volumes / mount.volume
    source = volume / mount.sub_path
    if mount.sub_path:
        if not source.exists() and not mount.read_only:
            source.mkdir(parents=True)
        source = source.resolve(strict=True)  # a link within the volume; nothing else links there
        source.relative_to(volume)
    target = _place(Path(mount.path), folder=source.is_dir())
    linux.bind(source, target, read_only=mount.read_only)


def _place(path: Path, *, folder: bool) -> Path:
    """A mount point, made if it is not there."""
    (path if folder else path.parent).mkdir(parents=True, exist_ok=True)
    if not folder and not path.exists():
        path.touch()
    return path
