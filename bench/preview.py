"""How long a pull request waits for its preview: from the push until the daemon's comment and statuses are there.

Belongs here: a daemon of its own process, a Git server and a forge on loopback, and pushes one after the other.
Does not belong here: what a preview says.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

from bench import repository
from bench.measure import described, machine, spread
from bench.repository import process_git
from tests.servers.daemon import DaemonProcess
from tests.servers.forge import REPOSITORY, PullRequest, TestForge, running
from tests.servers.git_http import git_http

_LIMIT: Final = 600.0
_PAUSE: Final = 0.005
"""Seconds between two looks at the forge's state, which is in this process."""
_SECRET: Final = b"secret-of-the-webhook"


@dataclass
class Place:
    """What a daemon process needs to know of where it is, as `tests.servers.stage` has it."""

    root: Path
    config: Path
    env: dict[str, str]


class Author:
    """Pushes to pull request 7 of a repository of so many pools, and tells the daemon."""

    def __init__(self, root: Path, pools: int, forge: TestForge) -> None:
        self.bare, self.work = root / "machine-os.git", root / "work"
        self.path = f"pools/{repository.pool_name(pools // 2)}/files/arm64/tuning.conf"
        self.forge = forge
        process_git(root, "clone", "--quiet", str(self.bare), str(self.work))

    def push(self, turn: int) -> str:
        """One more commit that changes a file; returns it."""
        (self.work / self.path).write_text(f"# arm64\npreview = {turn}\n")
        who = ("-c", "user.name=Ada Admin", "-c", "user.email=ada@example.com")
        process_git(self.work, *who, "commit", "--quiet", "--all", "--message", f"Tune {turn}")
        head = process_git(self.work, "rev-parse", "HEAD")
        process_git(self.work, "push", "--quiet", "origin", "HEAD:refs/pull/7/head")
        self.forge.pulls[7] = PullRequest(7, head)
        return head

    def tell(self, address: str) -> None:
        """Deliver the webhook that a forge sends after a push."""
        signature = hmac.new(_SECRET, b"{}", hashlib.sha256).hexdigest()
        headers = {"X-GitHub-Event": "pull_request", "X-Hub-Signature-256": f"sha256={signature}"}
        asked = urllib.request.Request(f"http://{address}/hook/github", b"{}", headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310  (ours)
            answer.read()

    def wait(self, head: str) -> tuple[float, float]:
        """When the comment was there, and when the last status was."""
        until = monotonic() + _LIMIT
        commented = 0.0
        while monotonic() < until:
            with self.forge.lock:
                if not commented and any(head[:12] in said.body for said in self.forge.comments):
                    commented = monotonic()
                states = {one.context: one.state for one in self.forge.set if one.commit == head}
            if commented and states.get("reconciler/default") == "success":
                return commented, monotonic()
            sleep(_PAUSE)
        raise RuntimeError(f"there was no preview within {_LIMIT:g} s")


def measured(pools: int, runs: int, root: Path) -> dict[str, Any]:
    """Push so many times to a repository of so many pools; the first preview, which fetches all, is apart."""
    root.mkdir()
    repository.create(root / "machine-os.git", pools)
    repository.record(root / "machine-os.git")
    with ExitStack() as stack:
        forge = stack.enter_context(running("github"))
        git = stack.enter_context(git_http(root))
        author = Author(root, pools, forge)
        place = _configured(root, forge, f"{git.url}/{author.bare.name}")
        daemon = stack.enter_context(DaemonProcess(place))  # type: ignore[arg-type]  # a part of it is enough
        address = daemon.address
        daemon.wait_for_event("planned")
        comments, ends = [], []
        for turn in range(runs + 1):
            began = monotonic()
            head = author.push(turn)
            author.tell(address)
            commented, ended = author.wait(head)
            comments.append(commented - began)
            ends.append(ended - began)
    return {
        "pools": pools,
        "first_s": round(comments[0], 3),
        "comment_s": spread(comments[1:]),
        "comment_p95_s": round(_p95(comments[1:]), 3),
        "statuses_s": spread(ends[1:]),
        "statuses_p95_s": round(_p95(ends[1:]), 3),
    }


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def _configured(root: Path, forge: TestForge, url: str) -> Place:
    (root / "token").write_text(forge.token)
    (root / "hook-secret").write_bytes(_SECRET)
    config = root / "reconciler-config.yaml"
    named = f"type: github, url: {forge.url}, repository: {REPOSITORY}, tokenFile: token"
    config.write_text(
        "apiVersion: reconciler.machineos.dev/v1alpha1\n"
        "kind: ReconcilerConfig\n"
        f"source: {{url: {url}, interval: 1h, resync: 1h}}\n"
        f"forge: {{{named}}}\n"
        "preview: {interval: 1h, perAuthor: 1000}\n"
        'web: {listen: "127.0.0.1:0", webhooks: [{type: github, secretFiles: [hook-secret]}]}\n'
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "XDG_CACHE_HOME": str(root / "cache")}
    return Place(root, config, env)


def table(result: Mapping[str, Any]) -> str:
    """The result for people."""
    lines = [
        described(result),
        "",
        "| pools | first preview, s | comment: median, s | comment: p95, s | all statuses: p95, s |",
        "|--:|--:|--:|--:|--:|",
    ]
    for one in result["preview"]:
        cells = [
            one["first_s"], one["comment_s"]["median"], one["comment_p95_s"], one["statuses_p95_s"],
        ]  # fmt: skip
        lines.append(f"| {one['pools']} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    return "\n".join(lines)


def main(words: Sequence[str]) -> None:
    """Parse, run, show."""
    parser = argparse.ArgumentParser(prog="python -m bench.preview", description="From push to preview.")
    parser.add_argument("--pools", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--runs", type=int, default=20, help="pushes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    chosen = parser.parse_args(words)
    result: dict[str, Any] = {
        "benchmark": "preview", "machine": machine(["git"]), "runs": chosen.runs, "preview": [],
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as root:
        for pools in chosen.pools:
            result["preview"].append(measured(pools, chosen.runs, Path(root) / str(pools)))
    print(table(result))
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
