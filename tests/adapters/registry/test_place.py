from __future__ import annotations

import pytest

from reconciler.adapters.registry.place import Place, checked_reference
from reconciler.errors import RegistryError

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("repository", "name", "address"),
    [
        ("registry.example.com/os/worker", "registry.example.com/os/worker", "registry.example.com"),
        ("127.0.0.1:5000/os", "127.0.0.1:5000/os", "127.0.0.1:5000"),
        ("[::1]:5000/os", "[::1]:5000/os", "[::1]:5000"),
        ("localhost/os", "localhost/os", "localhost"),
        ("docker.io/acme/os", "docker.io/acme/os", "registry-1.docker.io"),
        ("docker.io/fedora", "docker.io/library/fedora", "registry-1.docker.io"),
        ("index.docker.io/fedora", "docker.io/library/fedora", "registry-1.docker.io"),
    ],
)
def test_where_a_repository_is(repository: str, name: str, address: str) -> None:
    place = Place.parse(repository)
    assert (str(place), place.address) == (name, address)


@pytest.mark.parametrize(
    "repository",
    [
        "",
        "fedora",
        "acme/os",
        "registry.example.com",
        "registry.example.com/",
        "registry.example.com/os:tag",
        f"registry.example.com/os@{DIGEST}",
        "registry.example.com/../admin",
        "registry.example.com/os?x=1",
        "registry.example.com/os#x",
        "user@registry.example.com/os",
        "registry.example.com/os\r\nHost: other",
        "https://registry.example.com/os",
    ],
)
def test_nothing_strange_gets_into_a_url(repository: str) -> None:
    with pytest.raises(RegistryError):
        Place.parse(repository)


@pytest.mark.parametrize("reference", ["latest", "v1.2-3_x", "_", "a" * 128, DIGEST])
def test_references(reference: str) -> None:
    assert checked_reference(reference) == reference


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "-x",
        ".x",
        "a" * 129,
        "a/b",
        "a b",
        "../x",
        "sha256:abc",
        "sha512:" + "a" * 128,
        DIGEST + "0",
        "x\n",
    ],
)
def test_what_is_no_reference(reference: str) -> None:
    with pytest.raises(RegistryError, match="neither a tag nor a sha256 digest"):
        checked_reference(reference)


def test_scopes_and_full_references() -> None:
    place = Place.parse("docker.io/fedora")
    assert place.scope("pull") == "repository:library/fedora:pull"
    assert place.at("42") == "docker.io/library/fedora:42"
    assert place.at(DIGEST) == f"docker.io/library/fedora@{DIGEST}"
