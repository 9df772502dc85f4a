"""Storing a blob of our own: on a real registry, and through trouble."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.errors import RegistryError
from tests.adapters.registry.conftest import Connect
from tests.adapters.registry.support import Answer, Asked, ScriptedServer, digest, image
from tests.servers.registry import docker_registry

CONTENT = b"some content" * 100_000


@pytest.fixture
def host(tmp_path: Path) -> Iterator[str]:
    with docker_registry(tmp_path) as server:
        yield server.host


@pytest.mark.tools
@pytest.mark.parametrize("content", [b"", b"x", CONTENT])
def test_a_blob_is_stored_and_found(connect: Connect, host: str, content: bytes) -> None:
    client = connect(host)
    file = io.BytesIO(content)
    file.read()  # wherever the file stands
    stored = client.put_blob(f"{host}/a/b", file)
    assert stored == digest(content)
    assert client.has_blob(f"{host}/a/b", stored)
    assert client.blob(f"{host}/a/b", stored, len(content) + 1) == content


@pytest.mark.tools
def test_blobs_and_a_manifest_make_an_image(connect: Connect, host: str) -> None:
    client, made = connect(host), image("one", CONTENT)
    for content in made.blobs.values():
        client.put_blob(f"{host}/a/b", io.BytesIO(content))
    client.put(f"{host}/a/b", "one", made.manifest)
    assert client.digest(f"{host}/a/b", "one") == made.manifest.digest


def test_what_is_there_is_not_sent_again(connect: Connect, server: ScriptedServer) -> None:
    server.script = lambda asked: Answer(200 if asked.method == "HEAD" else 500)
    assert connect(server.host).put_blob(f"{server.host}/a/b", io.BytesIO(b"x")) == digest(b"x")
    assert {asked.method for asked in server.asked if asked.path != "/v2/"} == {"HEAD"}


def test_an_upload_that_breaks_off_is_begun_again(connect: Connect, server: ScriptedServer) -> None:
    tries: list[bytes] = []

    def answer(asked: Asked) -> Answer:
        if asked.method == "POST":
            return Answer(202, headers={"Location": "/v2/a/b/blobs/uploads/1?state=s"})
        if asked.method != "PUT":
            return Answer(404)
        tries.append(asked.body)
        return Answer(503 if len(tries) == 1 else 201)

    server.script = answer
    connect(server.host).put_blob(f"{server.host}/a/b", io.BytesIO(CONTENT))
    assert tries == [CONTENT, CONTENT]


def test_a_refusal_is_told(connect: Connect, server: ScriptedServer) -> None:
    server.script = lambda asked: Answer(404 if asked.method == "HEAD" else 403)
    with pytest.raises(RegistryError, match="storing blob"):
        connect(server.host).put_blob(f"{server.host}/a/b", io.BytesIO(b"x"))
