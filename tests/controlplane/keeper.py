"""Runs one program for as long as its own standard input stays open.

A stand-alone script, `keeper.py PROGRAM [ARGUMENT…]`, so that it starts fast. Whoever starts it holds the other end of
a pipe; however that process ends, the kernel closes the pipe, and the program is killed with its process group.
(PR_SET_PDEATHSIG alone would not do: it strikes when the *thread* that started the program ends, and tests restart
servers from threads.) Should the keeper itself be killed, the program dies too. Not for programs that start daemons.

The exit status is the program's, or 128 plus the signal that ended it.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""


def start(argv: list[str]) -> int:
    """Start the program, which dies with this process; returns its number."""
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):  # it has done so itself, and runs the program already
            os.setpgid(pid, pid)
        return pid
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.getppid() == keeper:  # else it died before the kernel knew that we care
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.execvp(argv[0], argv)  # noqa: S606  (no shell is wanted)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def main(argv: list[str]) -> int:
    """Keep the program running until it ends, or nobody holds our standard input any more."""
    pid = start(argv)
    ended = os.pidfd_open(pid)
    watch = select.poll()
    watch.register(0, select.POLLHUP | select.POLLIN)
    watch.register(ended, select.POLLIN)
    if ended not in dict(watch.poll()):
        os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
