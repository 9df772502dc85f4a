"""Runs one program and sees to it that nothing of it outlives the process that asked for it.

A stand-alone script, `guard.py PARENT LOCK PROGRAM [ARGUMENT…]`: it imports nothing of the package, so that
it starts fast and needs no import path. `RUN` steps may call setsid or leave daemons behind, and the parent
may get SIGKILL; so killing a process group is not enough. The guard adopts orphans (PR_SET_CHILD_SUBREAPER),
and the kernel tells it when its parent dies (PR_SET_PDEATHSIG). Whatever ends first, parent or program, ends
all descendants.

The kernel sends that signal when the *thread* that started the guard ends, so that thread has to wait for it.
LOCK is held (flock) until the last descendant is gone, for whoever wants to clean up after a killed parent.
The exit status is the program's, or 128 plus the signal that ended it, or the guard.
"""

import ctypes
import fcntl
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""From linux/prctl.h."""

STOP = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


def prctl(option: int, value: int) -> None:
    """Set a process attribute. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def descendants() -> list[int]:
    """Every process below this one, as /proc shows it now."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The program's name, in parentheses, may hold anything: count from its last parenthesis.
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue  # it ended meanwhile
        children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), ()))
    for pid in found:  # grows while it is walked
        found += children.get(pid, ())
    return found


def end_descendants() -> None:
    """Kill until none is left. Orphans of those killed become our children, so the next round finds them."""
    while True:
        for pid in descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        time.sleep(0.01)


def start(argv: list[str]) -> int:
    """Start the program with plain signal handling; it dies at once should the guard itself be killed."""
    pid = os.fork()
    if pid:
        return pid
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvp(argv[0], argv)  # noqa: S606  (no shell is wanted)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def wait(program: int) -> int:
    """Wait until the program ends or a signal says stop; return the exit status to report."""
    while True:
        received = signal.sigwait({signal.SIGCHLD, *STOP})
        if received in STOP:
            return 128 + received
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == program:
                    code = os.waitstatus_to_exitcode(ended[1])
                    return code if code >= 0 else 128 - code
        except ChildProcessError:
            continue


def main(parent: int, lock: str, argv: list[str]) -> int:
    """Run the program under guard; return its exit status."""
    # Blocked, signals wait for sigwait: none can be lost between two instructions.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *STOP})
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return 128 + signal.SIGTERM  # it died before the kernel knew that we care
    holder = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(holder, fcntl.LOCK_EX)
    status = wait(start(argv))
    end_descendants()
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
