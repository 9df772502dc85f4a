"""Runs the containers of one pod, and sees to it that nothing of it outlives the process that asked for it.

A program of its own, `python -m tests.nodes.supervisor PARENT`. From standard input it reads the length of a plan, a
line, then the plan (`plan`), then commands; it tells what happens on standard output. Both are lines of JSON:

    in   {"stop": SECONDS}                  SIGTERM to every container, SIGKILL after so long
    out  {"event": "started", "container": NAME, "at": TIME}
    out  {"event": "ended", "container": NAME, "status": EXIT, "reason": …, "message": …, "started": …, "at": TIME}
    out  {"event": "overfull", "volume": NAME}     an emptyDir holds more than it may
    out  {"event": "broken", "message": TEXT}       the pod could not be set up
    out  {"event": "done"}

Four layers, each with a reason. The outer process is what the caller started: the kernel kills it when the caller's
thread ends (PR_SET_PDEATHSIG). Its child, process 1 of a PID namespace, is the supervisor proper: when it ends,
by whatever cause, the kernel kills all below it, and all mounts go with the last of them. For every container it forks
a keeper, which copies output to the log, and the keeper forks the container's own process 1, in mount and PID
namespaces of its own: as in a cluster, a program there that handles no SIGTERM does not get it.
Does not belong here: what a container is to be (`resolve`), what that means for the pod's status (`status`).
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from tests.nodes import linux, rootfs, volumes
from tests.nodes.plan import Container, PodPlan

TICK: Final = 0.2
"""Seconds between looks at limits."""
MESSAGE_LIMIT: Final = 4096
LOG_LIMIT: Final = 2048
LOG_LINES: Final = 80
"""Bytes and lines of a termination message, as the kubelet takes them from its file and from a log."""
CANNOT_START: Final = 128
"""The exit status that container runtimes give what could not be started."""


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True)
class Running:
    """A container that was started: its keeper, the pipe the keeper reports by, and the program once it is known."""

    container: Container
    keeper: int
    reports: IO[bytes]
    pid: int = 0
    started: str = ""


class Supervisor:
    """The inner process: it carries out one plan."""

    def __init__(self, plan: PodPlan) -> None:
        self._plan = plan
        self._folder = Path(plan.directory)
        self._volumes = self._folder / "volumes"
        self._messages = self._folder / "messages"
        self._running: dict[int, Running] = {}
        self._commands = b""
        self._stopping = False
        self._kill_at: float | None = None
        self._selector = selectors.DefaultSelector()
        self._full: str = ""

    def run(self) -> None:
        """The pod from its first container to its last."""
        try:
            self._prepare()
        except OSError as error:
            say(event="broken", message=str(error))
            return
        os.set_blocking(0, False)
        self._selector.register(0, selectors.EVENT_READ)
        for container in self._plan.init_containers:
            if not self._go((container,)):
                return
        self._go(self._plan.containers)

    def _prepare(self) -> None:
        linux.mount("none", Path("/"), flags=linux.MS_REC | linux.MS_PRIVATE)
        linux.mount("tmpfs", self._folder, "tmpfs", data="mode=0755")
        for name in ("volumes", "messages", "shm", "roots"):
            (self._folder / name).mkdir()
        linux.mount("tmpfs", self._folder / "shm", "tmpfs", data="mode=1777,size=64m")
        linux.mount("proc", Path("/proc"), "proc")  # of our own PID namespace
        volumes.create(self._plan.volumes, self._volumes, self._plan.fs_group)

    def _go(self, containers: tuple[Container, ...]) -> bool:
        """Run these at the same time to their end. Says whether the pod may go on."""
        ok = True
        for container in containers:
            if not self._stopping:
                self._start(container)
        while self._running:
            for key, _ in self._selector.select(TICK):
                if key.fd == 0:
                    self._obey()
                elif (status := self._hear(self._running[key.fd])) is not None:
                    ok = ok and status == 0
            self._watch()
        return ok and not self._stopping

    def _start(self, container: Container) -> None:
        message = self._messages / container.name
        message.touch()
        message.chmod(0o666)
        root = self._folder / "roots" / container.name
        root.mkdir()
        reader, writer = os.pipe()
        keeper = os.fork()
        if keeper == 0:
            os.close(reader)
            _finally_leave(lambda: _keep(container, self._folder, os.fdopen(writer, "w", buffering=1)))
        os.close(writer)
        self._running[reader] = Running(container, keeper, os.fdopen(reader, "rb"))
        self._selector.register(reader, selectors.EVENT_READ)

    def _hear(self, running: Running) -> int | None:
        """One report of a keeper; returns the exit status of a container that has ended."""
        report = json.loads(running.reports.readline() or '{"error": "its keeper was killed"}')
        if "pid" in report:
            running.pid, running.started = report["pid"], now()
            if self._stopping:
                self._signal(running, signal.SIGTERM)
            say(event="started", container=running.container.name, at=running.started)
            return None
        reader = running.reports.fileno()
        self._selector.unregister(reader)
        del self._running[reader]
        running.reports.close()
        os.waitpid(running.keeper, 0)
        if running.pid:  # an orphan now, and ours: ended, unless its keeper was killed
            self._signal(running, signal.SIGKILL)
            os.waitpid(running.pid, 0)
        status: int = report.get("status", CANNOT_START)
        failed = "error" in report
        reason = "StartError" if failed else "Completed" if status == 0 else "Error"
        say(
            event="ended",
            container=running.container.name,
            status=status,
            reason=reason,
            message=report["error"] if failed else self._message(running.container, status),
            started=running.started or now(),
            at=now(),
        )
        return status

    def _message(self, container: Container, status: int) -> str:
        data = _tail(self._messages / container.name, MESSAGE_LIMIT)
        if not data and status != 0 and container.message_from_log:
            lines = _tail(Path(container.log), LOG_LIMIT).splitlines(keepends=True)
            data = b"".join(lines[-LOG_LINES:])
        return data.decode("utf-8", "replace")

    def _obey(self) -> None:
        """Take what was said to us; silence for ever means that nobody is there any more."""
        data = os.read(0, 65536)
        if not data:
            os._exit(1)
        self._commands += data
        *lines, self._commands = self._commands.split(b"\n")
        for line in lines:
            self._stop(float(json.loads(line)["stop"]))

    def _stop(self, grace: float) -> None:
        """A later, shorter grace counts; SIGTERM is sent once."""
        until = time.monotonic() + grace
        self._kill_at = until if self._kill_at is None else min(self._kill_at, until)
        if not self._stopping:
            self._stopping = True
            for running in self._running.values():
                self._signal(running, signal.SIGTERM)

    def _watch(self) -> None:
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            for running in self._running.values():
                self._signal(running, signal.SIGKILL)
        full = None if self._full else volumes.overfull(self._plan.volumes, self._volumes)
        if full is not None:
            self._full = full.name
            say(event="overfull", volume=full.name)
            self._stop(0)

    @staticmethod
    def _signal(running: Running, number: signal.Signals) -> None:
        if running.pid:
            os.kill(running.pid, number)  # nobody but us reaps it, so the number is still its own


def _keep(container: Container, folder: Path, reports: IO[str]) -> None:
    """The keeper: start the program, copy what it prints, report how it ended, and leave it to be reaped."""
    output, writer = os.pipe()
    fault, complain = os.pipe()
    log = os.open(container.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWPID)  # from now on our root moves with the program's
    program = os.fork()
    if program == 0:
        _become(container, folder, writer, complain)
    os.close(writer)
    os.close(complain)
    with os.fdopen(fault, "rb") as pipe:
        complaint = pipe.read().decode()
    if complaint:
        os.waitpid(program, 0)
        reports.write(json.dumps({"error": complaint}) + "\n")
        return
    reports.write(json.dumps({"pid": program}) + "\n")
    while data := os.read(output, 65536):
        os.write(log, data)
    ended = os.waitid(os.P_PID, program, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    status = ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status
    reports.write(json.dumps({"status": status}) + "\n")


def _become(container: Container, folder: Path, output: int, complain: int) -> None:
    """The container's process 1: make its world, give up what it may not have, and run the program."""
    try:
        os.setsid()
        name = container.name
        rootfs.enter(
            folder / "roots" / name, container, folder / "volumes", folder / "shm", folder / "messages" / name
        )
        os.chdir(_folder(Path(container.cwd)))
        env = dict(container.env)
        home, gid, groups = _account(container.uid)
        env.setdefault("HOME", home)
        gid = gid if container.gid is None else container.gid
        null = os.open("/dev/null", os.O_RDONLY)
        os.fchown(output, container.uid, gid)
        for old, new in ((null, 0), (output, 1), (output, 2)):
            os.dup2(old, new)
        os.umask(0o022)
        _give_up(container, gid, sorted({*groups, *container.groups}))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(container.argv[0], container.argv, env)  # noqa: S606  (no shell is wanted)
    except BaseException as error:
        os.write(complain, f"{container.argv[0]}: {error}".encode())
    finally:
        os._exit(CANNOT_START)


def _give_up(container: Container, gid: int, groups: list[int]) -> None:
    names = frozenset(container.capabilities)
    linux.bound_capabilities(names)
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(
        container.uid, container.uid, container.uid
    )  # root gets all that is left, at exec; others lose all
    if container.no_new_privileges:
        linux.forbid_new_privileges()


def _folder(path: Path) -> Path:
    """A working folder, made if it is not there, as container runtimes do."""
    path.mkdir(parents=True, exist_ok=True)
    return path


def _account(uid: int) -> tuple[str, int, list[int]]:
    """Home, primary group and further groups that the container's own /etc says a user has."""
    for line in Path("/etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if len(fields) == 7 and fields[2] == str(uid):
            name, gid, home = fields[0], int(fields[3]), fields[5]
            groups = [row.split(":") for row in Path("/etc/group").read_text().splitlines()]
            return home, gid, [int(row[2]) for row in groups if len(row) == 4 and name in row[3].split(",")]
    return "/", 0, []


def _tail(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
            return file.read(limit)
    except FileNotFoundError:
        return b""


def say(**event: Any) -> None:
    """Tell what happened. Whoever should hear it may be gone; then so are we, soon."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main(parent: int) -> int:
    """The outer process; returns when the pod has ended and every process of it is gone."""
    linux.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return 1  # it died before the kernel knew that we care
    plan = _plan()
    linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS)
    inner = os.fork()
    if inner == 0:
        _finally_leave(lambda: _supervise(plan))
    _, status = os.waitpid(inner, 0)
    return abs(os.waitstatus_to_exitcode(status))


def _supervise(plan: PodPlan) -> None:
    linux.die_with_parent(signal.SIGKILL)
    socket.sethostname(plan.hostname)
    Supervisor(plan).run()
    say(event="done")


def _finally_leave(work: Callable[[], None]) -> NoReturn:
    """Do what a forked process is for, and end: never return into the code of its parent."""
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _plan() -> PodPlan:
    """The plan, and no byte more: commands follow it."""
    length = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        length += byte
    text = bytearray()
    while len(text) < int(length):
        if not (data := os.read(0, int(length) - len(text))):
            raise EOFError("the plan ends early")
        text += data
    return PodPlan.from_json(text.decode())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
