"""Real repositories for tests of the Git adapter, made by the git of this machine, and servers for them."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@example.com",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@example.com",
}


def git(where: Path, *arguments: str, stdin: bytes = b"", date: int = 1_700_000_000) -> str:
    """Run git in a folder as a person would; its output without the last line end."""
    dates = {"GIT_AUTHOR_DATE": f"@{date} +0000", "GIT_COMMITTER_DATE": f"@{date} +0000"}
    done = subprocess.run(
        ["git", *arguments],
        cwd=where,
        env=ENVIRONMENT | dates,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")


def clone_of(where: Path) -> Path:
    """An empty repository with a work tree."""
    where.mkdir(parents=True)
    git(where, "init", "--quiet", "-b", "main")
    return where


def bare(where: Path) -> Path:
    """An empty bare repository."""
    where.mkdir(parents=True)
    git(where, "init", "--quiet", "--bare", "-b", "main")
    return where


def commit(
    where: Path, files: Mapping[str, bytes | None], message: str = "change", date: int = 1_700_000_000
) -> str:
    """Write files into a work tree (None removes one) and commit all of it."""
    for name, content in files.items():
        path = where / name
        if content is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--allow-empty", "-m", message, date=date)
    return git(where, "rev-parse", "HEAD")


def remote_with(where: Path, files: Mapping[str, bytes]) -> tuple[Path, Path]:
    """A bare repository with one commit on `main`, and a clone to change it from."""
    server, author = bare(where / "server.git"), clone_of(where / "author")
    commit(author, files)
    git(author, "remote", "add", "origin", str(server))
    git(author, "push", "--quiet", "origin", "main")
    return server, author


def hook(repository: Path, name: str, script: str) -> None:
    """Install a hook into a git directory."""
    path = repository / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def children() -> set[int]:
    """The processes below this one that are still there, zombies included."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found |= {int(pid) for pid in (task / "children").read_text().split()}
        except FileNotFoundError:
            continue
    return found


def descriptors() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


def processes_with(text: str) -> list[str]:
    """Command lines on this machine that contain `text`, this process and its pytest left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found


def gone(text: str) -> bool:
    """Whether no command line contains `text`, after giving what was just killed a moment to disappear."""
    until = time.monotonic() + 5
    while processes_with(text) and time.monotonic() < until:
        time.sleep(0.02)
    return not processes_with(text)


class GitHttp(BaseHTTPRequestHandler):
    """git-http-backend(1) behind a plain HTTP server, with a fault on demand."""

    root: Path
    authorization: str = ""
    status: int = 0
    seen: list[str]

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        given = self.headers.get("Authorization", "")
        self.seen.append(given)
        if self.status or (self.authorization and given != self.authorization):
            self.send_response(self.status or 401)
            if not self.status:
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        environment = {
            **ENVIRONMENT,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_USER": "someone",
            "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run(
            ["git", "http-backend"], env=environment, input=body, capture_output=True, timeout=30, check=False
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextmanager
def http_server(root: Path) -> Iterator[tuple[str, type[GitHttp]]]:
    """Serve the repositories below `root` on loopback: the server's address, and its handler to arrange faults."""
    handler = type("Handler", (GitHttp,), {"root": root, "seen": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", handler
        finally:
            server.shutdown()
            thread.join()
