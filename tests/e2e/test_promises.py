"""The oracle finds what it is there to find."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import httpx
import pytest

from reconciler import process
from tests.e2e.promises import Promises, arguments_watched, check_secrets, leaks
from tests.servers.stage import Stage

pytestmark = pytest.mark.tools

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CANARY = "canary/hunter2:canary"


@pytest.fixture
def kept(stage: Stage, definitions: Path) -> Promises:
    """A stage on which everything is as it should be."""
    (definitions / "reconciler.yaml").write_text(
        "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\narchitectures: [amd64]\n"
    )
    stage.create_repository(definitions)
    promises = Promises(stage)
    assert stage.once().status == 0
    promises.check()
    assert len(promises.commits()) == len(promises.builds()) == 1
    return promises


def put(stage: Stage, reference: str, content: bytes, kind: str = MANIFEST) -> None:
    url = f"http://{stage.registry.host}/v2/os/worker/manifests/{reference}"
    httpx.put(url, content=content, headers={"Content-Type": kind}).raise_for_status()


def manifest(stage: Stage, reference: str) -> bytes:
    url = f"http://{stage.registry.host}/v2/os/worker/manifests/{reference}"
    return httpx.get(url, headers={"Accept": f"{MANIFEST}, {INDEX}"}).raise_for_status().content


def test_a_head_that_was_not_worked_on(stage: Stage, kept: Promises) -> None:
    (stage.work / "pools/worker/files/amd64/tuning.conf").write_text("new\n")
    stage.commit("Tune")
    with pytest.raises(AssertionError, match="is of other inputs"):
        kept.check_delivery()
    (stage.work / "reconciler.yaml").write_text(
        "apiVersion: reconciler.machineos.dev/v1alpha1\nkind: RepositoryConfig\narchitectures: [amd64, arm64]\n"
    )
    stage.git("rm", "--quiet", "-r", "pools/worker/files/arm64")
    stage.commit("Ask for one more than can be built")
    assert kept.wanted() == {("worker", "amd64"), ("worker", "arm64")}
    with pytest.raises(AssertionError):
        kept.check_delivery()
    with pytest.raises(AssertionError, match="proves nothing"):
        kept.check_delivery(apart_from=["worker"])


def test_an_image_that_is_not_whole(stage: Stage, kept: Promises) -> None:
    (child,) = stage.record("worker").architectures
    content = manifest(stage, child.image.partition("@")[2])
    put(stage, "latest", content)
    with pytest.raises(AssertionError, match="does not name what Git names"):
        kept.check_delivery()
    kept.check_tags()
    url = f"http://{stage.registry.host}/v2/os/worker/manifests/{child.image.partition('@')[2]}"
    httpx.delete(url).raise_for_status()
    with pytest.raises(AssertionError, match="404"):
        kept.check_delivery()
    with pytest.raises(AssertionError, match="404"):
        kept.check_tags()


def test_a_build_too_many(stage: Stage, kept: Promises) -> None:
    (child,) = stage.record("worker").architectures
    tag = f"worker-amd64-{child.input.removeprefix('sha256:')[:16]}"
    content = manifest(stage, tag)
    put(stage, tag, content)
    with pytest.raises(AssertionError, match="built more than once"):
        kept.check_builds()
    kept.check_builds({("worker", "amd64"): 1})
    put(stage, tag, content.replace(b'"schemaVersion":2', b'"schemaVersion": 2'))
    with pytest.raises(AssertionError, match=f"os/worker:{tag} was"):
        kept.check_builds({("worker", "amd64"): 2})


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("git commit -q --allow-empty -m x", "changes nothing"),
        ("echo >more && git add more && git commit -q -m x", "changes .*more"),
        ("git rm -q status/worker.yaml && git commit -q -m 'Reconciler-Source-Commit: '$(git rev-parse HEAD^) &&"
         " git checkout -q HEAD^ status && git commit -q -m 'Reconciler-Source-Commit: '$(git rev-parse HEAD^^)",
         "committed twice"),
        ("git checkout -q -b side HEAD^ && git commit -q --allow-empty -m x && git merge -q -m x origin/main",
         "a merge"),
        ("git reset -q --hard HEAD^", "was forced"),
    ],
)  # fmt: skip
def test_commits_that_must_not_be(stage: Stage, kept: Promises, script: str, said: str) -> None:
    stage.git("pull", "--quiet", "--rebase")
    stage.env["GIT_AUTHOR_NAME"] = "reconciler"
    stage.run("sh", "-ec", script, cwd=stage.work)
    stage.git("push", "--quiet", "--force", "origin", "HEAD:main")
    with pytest.raises(AssertionError, match=said):
        kept.check_commits()


def test_a_deleted_branch_was_forced(stage: Stage, kept: Promises) -> None:
    tip = stage.tip()
    for move in (["-d", "refs/heads/main"], ["refs/heads/main", tip]):
        stage.run("git", "--git-dir", str(stage.bare), "update-ref", "--create-reflog", *move)
    kept.check_commits()  # git forgets a deleted branch's log; what is there again is all there
    stage.run("git", "--git-dir", str(stage.bare), "update-ref", "refs/heads/main", f"{tip}^")
    with pytest.raises(AssertionError, match="was forced"):
        kept.check_commits()
    kept.check_commits(rewritten=1)


def test_secrets_wherever_they_are(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    assert leaks(stage, [CANARY]) == []
    header = base64.b64encode(f"robot:{CANARY}x".encode())
    for number, content in enumerate(
        (CANARY.encode(), b"canary%2Fhunter2%3Acanary", b"Basic " + header, gzip.compress(CANARY.encode()))
    ):
        place = stage.root / f"file-{number}"
        place.write_bytes(b"so: " + content if number < 3 else content)
        with pytest.raises(AssertionError, match=f"file-{number}"):
            check_secrets(stage, [CANARY])
        check_secrets(stage, [CANARY], holders=[place])
        place.unlink()
    with pytest.raises(AssertionError, match="a secret in: so: canary"):
        check_secrets(stage, [CANARY], ["nothing", f"so: {CANARY}"])
    (stage.work / "note").write_text(CANARY)
    stage.commit("Leak")
    assert leaks(stage, [CANARY], holders=[stage.work]) == [f"{stage.bare}: an object"]


def test_secrets_among_arguments(stage: Stage, definitions: Path) -> None:
    stage.create_repository(definitions)
    waiting = ["git", f"--git-dir={stage.bare}", "-c", "alias.wait=!sleep 1", "wait"]
    with arguments_watched(stage, [CANARY]):
        process.run(waiting, env=stage.env, timeout=9)
    with pytest.raises(AssertionError, match="canary"), arguments_watched(stage, [CANARY]):
        process.run([*waiting, CANARY], env=stage.env, timeout=9)
    with pytest.raises(AssertionError, match="nothing proved"), arguments_watched(stage, [CANARY]):
        pass
