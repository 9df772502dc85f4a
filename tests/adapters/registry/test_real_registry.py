"""The adapter against a real registry."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from reconciler.adapters.registry import HttpRegistry
from reconciler.errors import RegistryError, RegistryUnavailable
from reconciler.ports import OCI_INDEX, Manifest
from tests.adapters.registry.conftest import Connect
from tests.adapters.registry.support import Image, StillClock, digest, image, index, manifest_of, upload_blobs
from tests.servers.registry import Certificate, RegistryServer, docker_registry, self_signed

pytestmark = pytest.mark.tools

ABSENT = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with docker_registry(tmp_path_factory.mktemp("plain")) as server:
        yield server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with docker_registry(tmp_path_factory.mktemp("guarded"), htpasswd=("robot", "a:b c")) as server:
        yield server


@pytest.fixture(scope="module")
def secure(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with docker_registry(tmp_path_factory.mktemp("secure"), tls=certificate) as server:
        yield server


@pytest.fixture
def registry(running: RegistryServer, connect: Connect) -> HttpRegistry:
    return connect(running.host)


def seed(client: HttpRegistry, server: RegistryServer, path: str, made: Image) -> str:
    """Put an image into a repository; returns the repository."""
    with httpx.Client(base_url=f"http://{server.host}") as raw:
        upload_blobs(raw, f"/v2/{path}", made)
    client.put(f"{server.host}/{path}", made.manifest.digest, made.manifest)
    return f"{server.host}/{path}"


def log_in(path: Path, host: str, user: str, password: str) -> Path:
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    path.write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    return path


def test_an_image_comes_back_as_it_was_put(registry: HttpRegistry, running: RegistryServer) -> None:
    made = image("round-trip")
    repository = seed(registry, running, "round/trip", made)
    registry.put(repository, "v1", made.manifest)
    for reference in (made.manifest.digest, "v1"):
        assert registry.digest(repository, reference) == made.manifest.digest
        assert registry.manifest(repository, reference) == made.manifest
    assert registry.blob(repository, made.config, 4096) == made.blobs[made.config]
    assert registry.has_blob(repository, made.config)


def test_what_is_not_there(registry: HttpRegistry, running: RegistryServer) -> None:
    repository = seed(registry, running, "not/there", image("not-there"))
    for name in (repository, f"{running.host}/never/heard/of"):
        for reference in ("absent", ABSENT):
            assert registry.digest(name, reference) is None
            assert registry.manifest(name, reference) is None
        assert not registry.has_blob(name, ABSENT)
        with pytest.raises(RegistryError, match=f"blob {name}@{ABSENT}: there is no such blob"):
            registry.blob(name, ABSENT, 4096)


def test_an_index_is_put_by_digest_and_by_tag(registry: HttpRegistry, running: RegistryServer) -> None:
    one, two = image("index-1"), image("index-2")
    repository = seed(registry, running, "an/index", one)
    seed(registry, running, "an/index", two)
    made = index(one, two)
    registry.put(repository, made.digest, made)
    registry.put(repository, "multi", made)
    found = registry.manifest(repository, "multi")
    assert found == made
    assert found.media_type == OCI_INDEX
    assert registry.digest(repository, "multi") == made.digest


def test_an_index_over_an_absent_image_is_refused(registry: HttpRegistry, running: RegistryServer) -> None:
    repository = seed(registry, running, "half/index", image("half-1"))
    made = index(image("half-1"), image("half-2"))
    with pytest.raises(RegistryError, match=rf"{repository}:multi: .* answered 400 .*MANIFEST") as error:
        registry.put(repository, "multi", made)
    assert not isinstance(error.value, RegistryUnavailable)
    assert registry.digest(repository, "multi") is None


def test_a_deleted_manifest_is_gone(registry: HttpRegistry, running: RegistryServer) -> None:
    made = image("deleted")
    repository = seed(registry, running, "to/delete", made)
    registry.put(repository, "v1", made.manifest)
    url = f"http://{running.host}/v2/to/delete/manifests/{made.manifest.digest}"
    assert httpx.delete(url).status_code == 202
    for reference in (made.manifest.digest, "v1"):
        assert registry.digest(repository, reference) is None
        assert registry.manifest(repository, reference) is None


def test_a_manifest_that_is_not_what_it_says_is_not_sent(
    registry: HttpRegistry, running: RegistryServer
) -> None:
    made = image("liar")
    repository = seed(registry, running, "a/liar", made)
    lying = Manifest(ABSENT, made.manifest.media_type, made.manifest.content)
    for reference, manifest in (
        ("v1", lying),
        (ABSENT, lying),
        (ABSENT, made.manifest),
    ):
        with pytest.raises(RegistryError, match="has another digest"):
            registry.put(repository, reference, manifest)
    huge = manifest_of({"padding": "x" * (4 * 1024 * 1024)})
    with pytest.raises(RegistryError, match="more than 4194304 bytes"):
        registry.put(repository, "v1", huge)
    assert registry.digest(repository, "v1") is None


def test_a_blob_above_the_limit_is_refused(registry: HttpRegistry, running: RegistryServer) -> None:
    layer = random.Random(1).randbytes(300_000)  # noqa: S311
    repository = seed(registry, running, "big/blob", image("big-blob", layer))
    assert registry.blob(repository, digest(layer), 300_000) == layer
    with pytest.raises(RegistryError, match="larger than 299999 bytes"):
        registry.blob(repository, digest(layer), 299_999)


def test_content_that_rotted_in_the_registry_is_noticed(
    registry: HttpRegistry, running: RegistryServer
) -> None:
    made = image("rotten")
    repository = seed(registry, running, "rotten/blob", made)
    stored = running.root / "storage/docker/registry/v2/blobs/sha256"
    for name in (made.config, made.manifest.digest):
        data = stored / name[7:9] / name[7:] / "data"
        data.write_bytes(data.read_bytes().replace(b"e", b"E"))
    with pytest.raises(RegistryError, match="have the digest"):
        registry.blob(repository, made.config, 4096)
    with pytest.raises(RegistryError):
        registry.manifest(repository, made.manifest.digest)


def test_copying_within_a_registry_mounts(registry: HttpRegistry, running: RegistryServer) -> None:
    made = image("mounted", b"one layer", b"another layer")
    source = seed(registry, running, "mount/from", made)
    target = f"{running.host}/mount/to"
    registry.copy(source, made.manifest.digest, target)
    assert registry.manifest(target, made.manifest.digest) == made.manifest
    assert all(registry.has_blob(target, name) for name in made.blobs)
    log = running.log.read_text()
    assert "POST /v2/mount/to/blobs/uploads/?mount=" in log
    assert "PUT /v2/mount/to/blobs/uploads/" not in log


def test_copying_to_another_registry_streams(
    registry: HttpRegistry, running: RegistryServer, connect: Connect, tmp_path: Path
) -> None:
    large = random.Random(2).randbytes(3_000_000)  # noqa: S311
    made = image("streamed", large, b"", b"small")
    source = seed(registry, running, "stream/from", made)
    with docker_registry(tmp_path) as other:
        client = connect(running.host, other.host)
        target = f"{other.host}/stream/to"
        client.copy(source, made.manifest.digest, target)
        assert client.manifest(target, made.manifest.digest) == made.manifest
        assert {name: client.blob(target, name, 4_000_000) for name in made.blobs} == made.blobs
        client.copy(source, made.manifest.digest, target)
        log = other.log.read_text()
    uploads = [line for line in log.splitlines() if '"PUT /v2/stream/to/blobs/uploads/' in line]
    assert len(uploads) == len(made.blobs), "the second copy found everything there"


def test_copying_needs_a_single_image_that_is_there(registry: HttpRegistry, running: RegistryServer) -> None:
    one = image("no-copy")
    repository = seed(registry, running, "no/copy", one)
    made = index(one)
    registry.put(repository, made.digest, made)
    with pytest.raises(RegistryError, match="an index, not a single image"):
        registry.copy(repository, made.digest, f"{running.host}/no/target")
    with pytest.raises(RegistryError, match="there is no such image"):
        registry.copy(repository, ABSENT, f"{running.host}/no/target")
    with pytest.raises(RegistryError, match="not a sha256 digest"):
        registry.copy(repository, "latest", f"{running.host}/no/target")


def test_a_source_that_rotted_is_not_copied(
    registry: HttpRegistry, running: RegistryServer, connect: Connect, tmp_path: Path
) -> None:
    layer = random.Random(3).randbytes(200_000)  # noqa: S311
    made = image("rotten-source", layer)
    source = seed(registry, running, "rotten/source", made)
    name = digest(layer)[7:]
    data = running.root / "storage/docker/registry/v2/blobs/sha256" / name[:2] / name / "data"
    data.write_bytes(layer[:-1] + b"?")
    with docker_registry(tmp_path) as other:
        client = connect(running.host, other.host)
        target = f"{other.host}/rotten/target"
        with pytest.raises(RegistryError, match=r"copying blob .*holds other content under this digest"):
            client.copy(source, made.manifest.digest, target)
        assert not client.has_blob(target, digest(layer))
        assert client.digest(target, made.manifest.digest) is None


def test_a_registry_that_comes_back_is_found_again(
    clock: StillClock, connect: Connect, tmp_path: Path
) -> None:
    made = image("back")
    with docker_registry(tmp_path) as server:
        client = connect(server.host)
        repository = seed(client, server, "come/back", made)
        server.kill()
        with pytest.raises(
            RegistryUnavailable, match=r"cannot be reached: .*Connection refused.*tried 4 times"
        ):
            client.digest(repository, made.manifest.digest)
        server.start()
        assert client.manifest(repository, made.manifest.digest) == made.manifest
    assert len(clock.slept) == 3


def test_a_password_with_a_colon_works(
    guarded: RegistryServer,
    connect: Connect,
    tmp_path: Path,
    registry: HttpRegistry,
    running: RegistryServer,
) -> None:
    made = image("login")
    source = seed(registry, running, "log/in", made)
    file = log_in(tmp_path / "auth.json", guarded.host, "robot", "a:b c")
    client = connect(guarded.host, running.host, auth_file=file)
    target = f"{guarded.host}/log/in"
    client.copy(source, made.manifest.digest, target)
    assert client.manifest(target, made.manifest.digest) == made.manifest


def test_a_denial_says_which_file_was_looked_in(
    guarded: RegistryServer, connect: Connect, tmp_path: Path
) -> None:
    repository = f"{guarded.host}/log/in"
    file = log_in(tmp_path / "auth.json", "other.example.com", "robot", "a:b c")
    with pytest.raises(RegistryError, match=rf"{repository}:v1: .* answered 401") as error:
        connect(guarded.host, auth_file=file).digest(repository, "v1")
    assert error.value.hint == f"{file} has no credentials for {repository} nor for {guarded.host}"

    log_in(file, guarded.host, "robot", "hunter2")
    with pytest.raises(RegistryError, match="answered 401") as error:
        connect(guarded.host, auth_file=file).manifest(repository, "v1")
    assert f"the credentials under {guarded.host!r} in {file} were used" in error.value.hint
    shown = f"{error.value!r} {error.value.hint} {error.value.__cause__!r}"
    assert "hunter2" not in shown
    assert base64.b64encode(b"robot:hunter2").decode() not in shown


def test_a_corrected_file_counts_at_once(guarded: RegistryServer, connect: Connect, tmp_path: Path) -> None:
    repository = f"{guarded.host}/log/in"
    file = log_in(tmp_path / "auth.json", guarded.host, "robot", "wrong")
    client = connect(guarded.host, auth_file=file)
    with pytest.raises(RegistryError):
        client.digest(repository, "absent")
    log_in(file, guarded.host, "robot", "a:b c")
    assert client.digest(repository, "absent") is None


def test_an_unknown_certificate_is_refused_with_the_ways_out(
    secure: RegistryServer, connect: Connect, clock: StillClock
) -> None:
    with pytest.raises(RegistryError, match="is not trusted: self-signed certificate") as error:
        connect().digest(f"{secure.host}/os", "v1")
    assert not isinstance(error.value, RegistryUnavailable)
    assert "CA" in error.value.hint
    assert f"add {secure.host!r} to registry.insecure" in error.value.hint
    assert clock.slept == []


def test_a_configured_ca_is_trusted(
    secure: RegistryServer, connect: Connect, certificate: Certificate
) -> None:
    assert connect(ca_file=certificate.cert).digest(f"{secure.host}/os", "v1") is None


def test_a_renewed_ca_file_is_read_again(
    secure: RegistryServer, connect: Connect, certificate: Certificate, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_bytes(self_signed(tmp_path).cert.read_bytes())
    client = connect(ca_file=bundle)
    with pytest.raises(RegistryError, match="is not trusted"):
        client.digest(f"{secure.host}/os", "v1")
    bundle.write_bytes(certificate.cert.read_bytes())
    with pytest.raises(RegistryError, match="is not trusted"):
        client.digest(f"{secure.host}/os", "v1")
    assert client.digest(f"{secure.host}/os", "v1") is None


@pytest.mark.parametrize("content", [None, b"not a certificate"])
def test_a_bad_ca_file_is_named(
    secure: RegistryServer, connect: Connect, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RegistryError, match=f"the CA file {path} cannot be read"):
        connect(ca_file=path).digest(f"{secure.host}/os", "v1")


def test_an_insecure_registry_that_turns_to_tls_is_found_again(
    connect: Connect, certificate: Certificate, tmp_path: Path
) -> None:
    with docker_registry(tmp_path) as plain:
        client = connect(plain.host)
        assert client.digest(f"{plain.host}/os", "v1") is None
    port = int(plain.host.rpartition(":")[2])
    with docker_registry(tmp_path, tls=certificate, port=port) as secure:
        with pytest.raises(RegistryError, match="answered 400"):
            client.digest(f"{secure.host}/os", "v1")
        assert client.digest(f"{secure.host}/os", "v1") is None


def test_an_insecure_registry_may_have_any_certificate(
    secure: RegistryServer,
    connect: Connect,
    registry: HttpRegistry,
    running: RegistryServer,
) -> None:
    made = image("unverified")
    source = seed(registry, running, "un/verified", made)
    client = connect(secure.host, running.host)
    client.copy(source, made.manifest.digest, f"{secure.host}/un/verified")
    assert client.digest(f"{secure.host}/un/verified", made.manifest.digest) == made.manifest.digest
    assert "TLS" not in running.log.read_text()


def test_plain_http_needs_permission(running: RegistryServer, connect: Connect) -> None:
    with pytest.raises(RegistryError, match="does not speak HTTPS") as error:
        connect().digest(f"{running.host}/os", "v1")
    assert f"add {running.host!r} to registry.insecure" in error.value.hint


def test_tags_are_listed(registry: HttpRegistry, running: RegistryServer) -> None:
    made = image("tagged")
    repository = seed(registry, running, "many/tags", made)
    wanted = [f"worker-amd64-{n:016x}" for n in range(7)]
    for tag in wanted:
        registry.put(repository, tag, made.manifest)
    assert sorted(registry.tags(repository)) == wanted
    assert registry.tags(f"{running.host}/no/such") == ()
