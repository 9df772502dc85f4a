"""The registry fails, loses something or is tampered with: rows 19 to 22 of the fault matrix, by whole runs of `once`.

What single requests do about it is held by the adapter's tests: `tests/adapters/registry/test_faults.py` (statuses,
Retry-After, broken and half-open connections, lost replies, tags that move), `test_login.py` (tokens that expire while
reading, uploading and mounting), `test_retry.py` (budgets), `test_real_registry.py` (deleted and rotten content).
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from reconciler import process
from tests.e2e.faulty import git_behind_proxy, registry_behind_proxy, tune
from tests.e2e.promises import Promises, arguments_watched, check_secrets
from tests.servers.faults import Action, Answer, Before, Cut, DropReply, Refuse, Toward
from tests.servers.proxy import FaultProxy
from tests.servers.registry import docker_registry
from tests.servers.stage import Said, Stage

pytestmark = pytest.mark.tools

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ROBOT = ("robot", "canary-tulip-86361")
PASS = Before(lambda: None)
"""Lets an exchange through that a later rule is not for."""


@dataclass(frozen=True)
class Front:
    """A stage with one pool of two architectures, whose registry is reached through a proxy only."""

    stage: Stage
    proxy: FaultProxy
    promises: Promises

    def settled(self) -> Said:
        """Run once, well."""
        said = self.stage.once()
        assert said.status == 0, said
        return said

    def url(self, reference: str) -> str:
        """A manifest at the registry itself."""
        return f"http://{self.stage.registry.host}/v2/os/worker/manifests/{reference}"

    def read(self, reference: str) -> bytes:
        """A manifest's bytes."""
        return (
            httpx.get(self.url(reference), headers={"Accept": f"{INDEX}, {MANIFEST}"})
            .raise_for_status()
            .content
        )

    def write(self, reference: str, content: bytes) -> None:
        """Store a manifest, as anybody may who can push."""
        kind = json.loads(content)["mediaType"]
        httpx.put(self.url(reference), content=content, headers={"Content-Type": kind}).raise_for_status()

    def delete(self, digest: str) -> None:
        """Delete a manifest, and with it its tags."""
        httpx.delete(self.url(digest)).raise_for_status()

    def crash(self) -> None:
        """Kill the registry in the middle of what it does, and start it again."""
        self.stage.registry.kill()
        self.stage.registry.start()

    def collect(self) -> None:
        """Have the registry throw away what has no tag, and every blob that nothing needs then. The bases are
        somebody else's, who keeps them."""
        registry = self.stage.registry
        base = f"http://{registry.host}/v2/os/base/manifests"
        index = httpx.get(f"{base}/1", headers={"Accept": INDEX}).raise_for_status().json()
        for child in index["manifests"]:
            one = httpx.get(
                f"{base}/{child['digest']}", headers={"Accept": child["mediaType"]}
            ).raise_for_status()
            kept = f"{base}/{child['platform']['architecture']}"
            httpx.put(
                kept, content=one.content, headers={"Content-Type": child["mediaType"]}
            ).raise_for_status()
        registry.stop()
        argv = ["docker-registry", "garbage-collect", "--delete-untagged", str(registry.root / "config.yml")]
        done = process.run(argv, env={**self.stage.env, "OTEL_TRACES_EXPORTER": "none"}, timeout=60)
        assert done.status == 0, done.complaint
        registry.start()

    def child(self, arch: str) -> str:
        """The digest that Git names for an architecture."""
        entries = self.stage.record("worker").architectures
        return next(entry.image.partition("@")[2] for entry in entries if entry.arch == arch)


@pytest.fixture
def unused(tmp_path: Path, base_storage: Path, definitions: Path) -> Iterator[Front]:
    """Nothing was done yet."""
    with docker_registry(tmp_path) as registry:
        shutil.copytree(base_storage, registry.root / "storage", dirs_exist_ok=True)
        with registry_behind_proxy(registry) as proxy:
            stage = Stage(tmp_path, registry, proxy.host)
            stage.create_repository(definitions)
            yield Front(stage, proxy, Promises(stage))


@pytest.fixture
def front(unused: Front) -> Front:
    """Everything was built once, and is as it should be."""
    unused.settled()
    unused.promises.check()
    return unused


# -- row 19


def test_a_busy_registry_is_waited_for(front: Front) -> None:
    usual = len(front.proxy.requests())  # for a run with nothing to compare with
    tune(front.stage, "new\n")
    busy = (
        ("GET", "/manifests/", Answer(503)),
        ("HEAD", "/manifests/digest-", Answer(500)),
        ("PUT", "/manifests/worker-amd64-", Answer(429, {"Retry-After": "1"})),
        ("POST", "/blobs/uploads/", Answer(502)),
        ("PUT", "/manifests/digest-", Answer(429, {"Retry-After": "1"})),
        ("PUT", "/manifests/digest-", PASS),  # the image, and then
        ("PUT", "/manifests/digest-", Answer(504)),  # the index
        ("PUT", "/manifests/latest", Answer(503, {"Retry-After": "1"})),
    )
    for method, path, answer in busy:
        front.proxy.on(answer, method, path)
    count = len(front.proxy.requests())
    front.settled()
    assert len(front.proxy.requests()) - count < 2 * usual + 3 * len(busy)
    front.promises.check()


def test_a_registry_that_asks_for_too_much_patience_is_left_alone(front: Front) -> None:
    tune(front.stage, "new\n")
    tip, built = front.stage.tip(), front.promises.builds()
    front.proxy.on(Answer(429, {"Retry-After": "3600"}), path="/v2/os/", times=None)
    count = len(front.proxy.requests())
    said = front.stage.once()
    assert said.status == 1
    assert "asks to wait 3600 s" in said.out + said.err
    assert len(front.proxy.requests()) - count <= 6, front.proxy.requests()[count:]
    assert (front.stage.tip(), front.promises.builds()) == (tip, built)
    front.proxy.heal()
    assert "1 built, 1 reused" in front.settled().out
    front.promises.check()


def test_a_login_that_is_refused_from_now_on_changes_nothing_and_is_shown_nowhere(
    tmp_path: Path, base_storage: Path, definitions: Path
) -> None:
    with docker_registry(tmp_path, htpasswd=ROBOT) as registry:
        shutil.copytree(base_storage, registry.root / "storage", dirs_exist_ok=True)
        with registry_behind_proxy(registry) as proxy:
            stage = Stage(tmp_path, registry, proxy.host)
            stage.create_repository(definitions)
            login = tmp_path / "auth.json"
            token = base64.b64encode(":".join(ROBOT).encode()).decode()
            login.write_text(json.dumps({"auths": {proxy.host: {"auth": token}}}))
            text = stage.config.read_text()
            stage.config.write_text(text.replace("registry: {", f"registry: {{authFile: {login}, "))
            promises = Promises(stage, login=ROBOT)
            with arguments_watched(stage, [ROBOT[1]]):
                said = stage.once()
            assert said.status == 0, said
            promises.check()

            login.write_text(json.dumps({"auths": {proxy.host: {"auth": token[:-4] + "AAAA"}}}))
            tip = stage.tip()
            tune(stage, "new\n")
            refused = stage.once()
            assert refused.status == 1
            assert "401" in refused.out + refused.err
            assert promises.commits()[-1] == tip
            login.unlink()
            check_secrets(stage, [ROBOT[1], token], [said.out, said.err, refused.out, refused.err])


# -- row 20


def test_a_registry_that_crashes_at_any_write_ends_with_whole_images(front: Front) -> None:
    crashes = []

    def crash() -> None:
        front.crash()
        crashes.append(True)

    begun = Cut(after=5, toward=Toward.SERVER, then=crash)
    done = DropReply(then=crash)
    again = 0
    moments: tuple[tuple[Action, str, str, int], ...] = (
        (begun, "PATCH", "/blobs/uploads/", 0),
        (done, "PUT", "/blobs/uploads/", 0),
        (begun, "PUT", "/manifests/worker-amd64-", 0),
        (done, "PUT", "/manifests/worker-amd64-", 0),
        (done, "PUT", "/manifests/digest-", 0),  # the image
        (begun, "PUT", "/manifests/digest-", 1),  # the index
        (done, "PUT", "/manifests/digest-", 1),
        (begun, "PUT", "/manifests/latest", 0),
        (done, "PUT", "/manifests/latest", 0),
    )
    for number, (action, method, path, earlier) in enumerate(moments):
        tune(front.stage, f"{number}\n")
        if earlier:
            front.proxy.on(PASS, method, path, times=earlier)
        front.proxy.on(action, method, path)
        if front.stage.once().status:
            front.settled()
        assert len(crashes) == number + 1
        # buildah cannot know that what it pushed has arrived, and pushes the same bytes again.
        again += (action, path) == (done, "/manifests/worker-amd64-")
        front.promises.check(built_again={("worker", "amd64"): again} if again else {})
        front.proxy.heal()


def test_a_registry_that_stays_away_moves_nothing(front: Front) -> None:
    tune(front.stage, "new\n")
    tip, latest = front.stage.tip(), front.read("latest")
    front.proxy.on(Before(front.stage.registry.kill), "PUT", "/manifests/digest-")
    said = front.stage.once()
    assert said.status == 1
    assert front.proxy.host in said.out + said.err
    assert front.stage.tip() == tip
    front.stage.registry.start()
    assert front.read("latest") == latest
    assert "0 built, 2 reused" in front.settled().out
    front.promises.check()


def test_a_git_server_that_goes_while_images_are_pushed_costs_no_build(front: Front) -> None:
    tip = tune(front.stage, "new\n")
    with git_behind_proxy(front.stage) as git:

        def leave() -> None:
            git.fault = Refuse()

        front.proxy.on(Before(leave), "PUT", "/manifests/worker-amd64-")
        said = front.stage.once()
        assert said.status == 1
        assert git.host in said.err
        assert front.stage.tip() == tip
        git.heal()
        assert "0 built, 2 reused" in front.settled().out
        front.promises.check()


# -- row 21


def test_collecting_garbage_takes_nothing_that_git_or_its_history_names(front: Front) -> None:
    first = front.stage.record("worker")
    changed = tune(front.stage, "new\n", "arm64")
    front.settled()
    front.collect()
    front.promises.check()
    built = front.promises.builds()
    front.stage.git("revert", "--no-edit", changed)
    front.stage.push()
    assert "0 built, 2 reused" in front.settled().out
    assert front.stage.record("worker").image == first.image
    front.promises.check()
    assert front.promises.builds() == built


def test_an_image_that_was_deleted_and_collected_is_built_again_alone(front: Front) -> None:
    written = front.stage.show("status/worker.yaml")
    front.delete(front.child("arm64"))
    front.collect()
    said = front.settled()
    assert "1 built, 1 reused" in said.out
    assert "its recorded image is gone" in said.out
    assert front.stage.show("status/worker.yaml") == written, "the same inputs give the same digest"
    front.promises.check(built_again={("worker", "arm64"): 1})


def test_an_image_that_is_collected_before_it_is_published_is_built_again(front: Front) -> None:
    tune(front.stage, "new\n")
    tip = front.stage.tip()

    def lose() -> None:
        tags = [tag for _, tag in front.promises.builds() if tag.startswith("worker-amd64-")]
        new = httpx.head(front.url(tags[-1]), headers={"Accept": MANIFEST}).headers["Docker-Content-Digest"]
        front.delete(new)
        front.collect()

    front.proxy.on(Before(lose), "PUT", "/manifests/digest-")
    said = front.stage.once()
    assert said.status == 1, said
    assert front.stage.tip() == tip
    front.promises.check_tags()
    assert "1 built, 1 reused" in front.settled().out
    front.promises.check(built_again={("worker", "amd64"): 1})


# -- row 22


def test_tags_that_somebody_moves_decide_nothing(front: Front) -> None:
    tip, latest = front.stage.tip(), front.read("latest")
    tags = {
        arch: next(t for _, t in front.promises.builds() if f"-{arch}-" in t) for arch in ("amd64", "arm64")
    }
    wrong = front.read(tags["amd64"])
    assert wrong != front.read(tags["arm64"])
    built = front.promises.builds()
    front.write("latest", wrong)
    front.write(tags["arm64"], wrong)
    assert "0 built, 2 reused" in front.settled().out
    assert front.stage.tip() == tip
    assert front.read("latest") == latest, "the tag follows Git again"
    front.promises.check_delivery()
    front.promises.check_commits()

    # Nor when there is no record to believe instead.
    front.stage.git("pull", "--quiet", "--rebase")
    written = front.stage.show("status/worker.yaml")
    (front.stage.work / "status/worker.yaml").unlink()
    front.stage.commit("Lose the status")
    assert "0 built, 2 reused" in front.settled().out
    assert front.stage.show("status/worker.yaml") == written
    front.promises.check_delivery()
    assert front.promises.builds() == built + type(built)({("os/worker", tags["arm64"]): 1})


def test_an_image_of_another_architecture_under_the_right_name_is_refused(front: Front) -> None:
    tune(front.stage, "new\n", "arm64")
    tip = front.stage.tip()
    options = ("--resolve-bases", "--config", str(front.stage.config), "--output", "json")
    said = front.stage.reconciler("plan", "--repo", str(front.stage.bare), "--head", "main", *options)
    cell: dict[str, Any] = json.loads(said.out)["pools"][0]["architectures"]["arm64"]
    forged = json.loads(front.read(front.child("amd64")))
    forged["annotations"] |= {
        "reconciler.machineos.dev/input": cell["input"],
        "reconciler.machineos.dev/definition": cell["definition"],
    }
    tag = f"worker-arm64-{cell['input'].removeprefix('sha256:')[:16]}"
    front.write(tag, json.dumps(forged).encode())
    for _ in range(2):
        refused = front.stage.once()
        assert refused.status == 1
        assert "is an image for linux/amd64, not linux/arm64" in refused.err
        assert front.stage.tip() == tip
    front.promises.check_tags()
    answer = httpx.head(front.url(tag), headers={"Accept": MANIFEST})
    front.delete(answer.headers["Docker-Content-Digest"])
    assert "1 built, 1 reused" in front.settled().out
    front.promises.check(built_again={("worker", "arm64"): 1})
