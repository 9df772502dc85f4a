from __future__ import annotations

import json

import pytest

from reconciler.adapters.registry.content import Blob, blobs_of, verified_manifest
from reconciler.adapters.registry.problems import Refusal
from reconciler.ports import DOCKER_INDEX, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST
from tests.adapters.registry.support import digest, image, index, manifest_of

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


@pytest.mark.parametrize("media_type", [OCI_INDEX, OCI_MANIFEST, DOCKER_INDEX, DOCKER_MANIFEST])
@pytest.mark.parametrize(
    ("written", "declared"),
    [
        (True, "{}"),
        (False, "{}"),
        (True, "{}; charset=utf-8"),
        (True, ""),
        (True, "application/json"),
        (True, "text/plain; charset=utf-8"),
    ],
)
def test_the_media_type_comes_from_header_or_body(media_type: str, written: bool, declared: str) -> None:
    content = json.dumps({"mediaType": media_type} if written else {}).encode()
    headers = {"content-type": declared.format(media_type), "docker-content-digest": digest(content)}
    found = verified_manifest("latest", headers, content)
    assert (found.digest, found.media_type, found.content) == (digest(content), media_type, content)


@pytest.mark.parametrize(
    ("content", "declared", "message"),
    [
        (b'{"mediaType": "%s"}' % OCI_INDEX.encode(), OCI_MANIFEST, "but it calls itself"),
        (b'{"mediaType": 7}', OCI_MANIFEST, "but it calls itself 7"),
        (b"{}", "application/vnd.docker.distribution.manifest.v1+prettyjws", "not a known kind"),
        (b'{"mediaType": "%s"}' % OCI_INDEX.encode(), "text/html", "not a known kind"),
        (b"{}", "application/json", "not a known kind"),
        (b"[]", OCI_MANIFEST, "not a JSON object"),
        (b"<html>", OCI_MANIFEST, "not a JSON object"),
        (b"[" * 200_000, OCI_MANIFEST, "not a JSON object"),
        (b'{"manifests": [], "layers": []}', OCI_MANIFEST, "ambiguous"),
        (b'{"manifests": [], "config": {}}', OCI_INDEX, "ambiguous"),
    ],
)
def test_what_is_no_manifest(content: bytes, declared: str, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        verified_manifest("latest", {"content-type": declared}, content)


@pytest.mark.parametrize(("reference", "header"), [("latest", A), (A, ""), (A, digest(b"{}"))])
def test_bytes_that_are_not_what_was_asked_for(reference: str, header: str) -> None:
    with pytest.raises(Refusal, match=f"have the digest {digest(b'{}')}, not {A}"):
        verified_manifest(reference, {"content-type": OCI_MANIFEST, "docker-content-digest": header}, b"{}")


def test_blobs_are_named_once_and_config_first() -> None:
    entry = {"digest": A, "size": 1}
    found = blobs_of(manifest_of({"config": entry, "layers": [{"digest": B, "size": 2}, entry]}))
    assert found == (Blob(A, 1), Blob(B, 2))


@pytest.mark.parametrize(
    "bad",
    [
        None,
        {},
        {"digest": A},
        {"digest": A, "size": -1},
        {"digest": A, "size": True},
        {"digest": A, "size": "1"},
        {"digest": "sha512:" + "a" * 128, "size": 1},
        {"digest": A + "/../x", "size": 1},
    ],
)
def test_a_blob_needs_digest_and_size(bad: object) -> None:
    with pytest.raises(Refusal, match="without a sha256 digest and a size"):
        blobs_of(manifest_of({"config": {"digest": A, "size": 1}, "layers": [bad]}))


def test_only_single_images_have_blobs() -> None:
    with pytest.raises(Refusal, match="an index"):
        blobs_of(index(image("x")))
    with pytest.raises(Refusal, match="no list of layers"):
        blobs_of(manifest_of({"config": {"digest": A, "size": 1}}))
