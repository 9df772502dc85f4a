from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from reconciler.adapters.registry.auth_file import AuthFile, Credential
from reconciler.adapters.registry.place import Place
from reconciler.adapters.registry.problems import Refusal


def auth(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def write(tmp_path: Path, document: object, name: str = "auth.json") -> AuthFile:
    path = tmp_path / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return AuthFile(path)


def user(file: AuthFile, repository: str) -> str | None:
    found = file.find(Place.parse(repository))
    return found.username if found else None


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        ("registry.example.com/os/worker", "exact"),
        ("registry.example.com/os/worker2", "prefix"),
        ("registry.example.com/os/worker/arm64", "exact"),
        ("registry.example.com/other", "host"),
        ("registry.example.com:5000/os", "port"),
        ("REGISTRY.example.com/other", "host"),
        ("other.example.com/os", None),
    ],
)
def test_the_longest_key_that_is_a_whole_prefix_wins(
    tmp_path: Path, repository: str, expected: str | None
) -> None:
    keys = {
        "registry.example.com": "host",
        "registry.example.com/os": "prefix",
        "registry.example.com/os/worker": "exact",
        "registry.example.com:5000": "port",
    }
    file = write(tmp_path, {"auths": {key: auth(name, "x") for key, name in keys.items()}})
    assert user(file, repository) == expected


@pytest.mark.parametrize(
    "key",
    [
        "https://index.docker.io/v1/",
        "index.docker.io/v1/",
        "https://index.docker.io/v2/",
        "index.docker.io",
        "docker.io",
        "registry-1.docker.io",
    ],
)
@pytest.mark.parametrize(
    "repository", ["docker.io/library/fedora", "docker.io/fedora", "index.docker.io/acme/os"]
)
def test_docker_hub_is_one_registry_by_all_its_names(tmp_path: Path, key: str, repository: str) -> None:
    assert user(write(tmp_path, {"auths": {key: auth("hub", "x")}}), repository) == "hub"


def test_a_key_that_is_a_url_means_its_host(tmp_path: Path) -> None:
    file = write(tmp_path, {"auths": {"https://registry.example.com/v1/": auth("url", "x")}})
    assert user(file, "registry.example.com/os/worker") == "url"


def test_a_canonical_key_beats_its_legacy_spelling(tmp_path: Path) -> None:
    auths = {"docker.io": auth("new", "x"), "https://index.docker.io/v1/": auth("old", "x")}
    assert user(write(tmp_path, {"auths": auths}), "docker.io/acme/os") == "new"


@pytest.mark.parametrize("password", ["a:b:c", "", "pässword", ":"])
def test_only_the_first_colon_splits(tmp_path: Path, password: str) -> None:
    file = write(tmp_path, {"auths": {"r.example.com": auth("me", password)}})
    assert file.find(Place.parse("r.example.com/os")) == Credential(
        "r.example.com", username="me", password=password
    )


def test_padding_of_nul_bytes_is_dropped(tmp_path: Path) -> None:
    found = write(tmp_path, {"auths": {"r.example.com": auth("me", "secret\0\0")}}).find(
        Place.parse("r.example.com/os")
    )
    assert found is not None
    assert found.password == "secret"


def test_username_and_password_count_without_auth(tmp_path: Path) -> None:
    file = write(tmp_path, {"auths": {"r.example.com": {"username": "me", "password": "pw"}}})
    found = file.find(Place.parse("r.example.com/os"))
    assert found == Credential("r.example.com", username="me", password="pw")


def test_an_identity_token_replaces_the_password(tmp_path: Path) -> None:
    entry = {**auth("<token>", "ignored"), "identitytoken": "refresh"}
    found = write(tmp_path, {"auths": {"r.example.com": entry}}).find(Place.parse("r.example.com/os"))
    assert found == Credential("r.example.com", username="<token>", identity_token="refresh")


def test_secrets_stay_out_of_the_repr() -> None:
    shown = repr(Credential("host", username="robot", password="hunter2", identity_token="refresh"))
    assert shown == "Credential(key='host')"


def test_a_dockercfg_has_no_auths_around_it(tmp_path: Path) -> None:
    file = write(tmp_path, {"r.example.com": auth("legacy", "x")}, ".dockercfg")
    assert user(file, "r.example.com/os") == "legacy"


def test_no_file_knows_nobody(tmp_path: Path) -> None:
    assert user(AuthFile(None), "r.example.com/os") is None
    assert user(AuthFile(tmp_path / "absent.json"), "r.example.com/os") is None


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = write(tmp_path, {"auths": {"r.example.com": auth("one", "x")}})
    assert user(file, "r.example.com/os") == "one"
    replacement = tmp_path / "next.json"
    replacement.write_text(json.dumps({"auths": {"r.example.com": auth("two", "x")}}))
    state = (tmp_path / "auth.json").stat()
    # The same size and date: only the inode tells, as when Kubernetes swaps a mounted secret.
    os.utime(replacement, ns=(state.st_atime_ns, state.st_mtime_ns))
    replacement.rename(tmp_path / "auth.json")
    assert user(file, "r.example.com/os") == "two"
    (tmp_path / "auth.json").unlink()
    assert user(file, "r.example.com/os") is None


@pytest.mark.parametrize(
    "document",
    [
        {"credHelpers": {"r.example.com": "gcloud"}},
        {"credHelpers": {"r.example.com": "gcloud"}, "auths": {"r.example.com": auth("me", "x")}},
        {"credHelpers": {"r.example.com/os": "gcloud"}, "auths": {"r.example.com": auth("me", "x")}},
        {"credsStore": "gcloud", "auths": {"r.example.com": {}}},
    ],
)
def test_a_helper_is_named_and_not_run(tmp_path: Path, document: object) -> None:
    file = write(tmp_path, document)
    with pytest.raises(Refusal, match=r"helper 'gcloud', and helpers are not run") as refusal:
        file.find(Place.parse("r.example.com/os"))
    assert "--authfile" in refusal.value.hint


def test_a_helper_for_another_host_is_no_matter(tmp_path: Path) -> None:
    document = {
        "credHelpers": {"gcr.io": "gcloud"},
        "credsStore": "desktop",
        "auths": {"r.example.com": auth("me", "x"), "hub.example.com": {}},
    }
    file = write(tmp_path, document)
    assert user(file, "r.example.com/os") == "me"
    assert user(file, "unknown.example.com/os") is None


def test_a_more_specific_login_beats_the_hosts_helper(tmp_path: Path) -> None:
    document = {
        "credHelpers": {"r.example.com": "gcloud"},
        "auths": {"r.example.com/os": auth("me", "x")},
    }
    assert user(write(tmp_path, document), "r.example.com/os/worker") == "me"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "is not a JSON object"),
        ("[]", "is not a JSON object"),
        ("[" * 100_000, "is not a JSON object"),
        ({"auths": ["hunter2"]}, "'auths' in the auth file .* is not an object"),
        ({"auths": {"r.example.com": "hunter2"}}, "entry 'r.example.com' .* is malformed"),
        ({"auths": {"r.example.com": {"auth": "hunter2!"}}}, "entry 'r.example.com' .* is malformed"),
        ({"auths": {"r.example.com": {"auth": 7}}}, "entry 'r.example.com' .* is malformed"),
        (
            {"auths": {"r.example.com": {"auth": base64.b64encode(b"hunter2").decode()}}},
            "entry 'r.example.com' .* is malformed",
        ),
        (
            {"auths": {"r.example.com": {"auth": base64.b64encode(b"hunter2:\xff").decode()}}},
            "entry 'r.example.com' .* is malformed",
        ),
    ],
)
def test_a_malformed_file_says_where_and_shows_no_secret(
    tmp_path: Path, document: object, message: str
) -> None:
    file = write(tmp_path, document)
    with pytest.raises(Refusal, match=message) as refusal:
        file.find(Place.parse("r.example.com/os"))
    assert "auth.json" in refusal.value.message
    assert "hunter2" not in refusal.value.message + refusal.value.hint
    assert refusal.value.__cause__ is None


def test_a_malformed_entry_of_another_host_is_no_matter(tmp_path: Path) -> None:
    file = write(tmp_path, {"auths": {"bad.example.com": 7, "r.example.com": auth("me", "x")}})
    assert user(file, "r.example.com/os") == "me"


def test_an_unreadable_file_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be read: Is a directory"):
        AuthFile(tmp_path).find(Place.parse("r.example.com/os"))


def test_hints_say_where_was_looked(tmp_path: Path) -> None:
    place = Place.parse("r.example.com/os/worker")
    assert "registry.authFile" in AuthFile(None).hint(place)
    assert "does not exist" in AuthFile(tmp_path / "absent").hint(place)
    file = write(tmp_path, {"auths": {"other.example.com": auth("me", "pw")}})
    assert file.hint(place).endswith("has no credentials for r.example.com/os/worker nor for r.example.com")
    file = write(tmp_path, {"auths": {"r.example.com/os": auth("me", "hunter2")}})
    assert "'r.example.com/os'" in file.hint(place)
    assert "hunter2" not in file.hint(place)
