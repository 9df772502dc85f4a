"""Token servers, and what must never be sent to anyone."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from reconciler.errors import RegistryError, RegistryUnavailable
from reconciler.ports import OCI_MANIFEST
from tests.adapters.registry.conftest import Connect
from tests.adapters.registry.support import Answer, Asked, ScriptedServer, StillClock, digest, image, scripted
from tests.servers.registry import self_signed

MADE = image("login")
OK = Answer(
    200,
    MADE.manifest.content,
    {"Content-Type": OCI_MANIFEST, "Docker-Content-Digest": MADE.manifest.digest},
)
PASSWORD = "hunter2:with:colons"
REFRESH = "refresh-me-not"


class TokenRegistry:
    """A registry and its token server in one script: tokens are numbered, and `valid` says which are good."""

    def __init__(self, server: ScriptedServer, realm: str = "") -> None:
        self.issued = 0
        self.valid: set[str] = set()
        self.lifetime: object = 300
        self.field = "token"
        realm = realm or f"http://{server.host}/token"
        challenge = f'Bearer realm="{realm}",service="the registry",scope="repository:other:*"'
        self.denied = Answer(401, b'{"errors": [{"code": "UNAUTHORIZED"}]}', {"WWW-Authenticate": challenge})
        self.server = server
        server.script = self.answer

    def answer(self, asked: Asked) -> Answer:
        if asked.path == "/token":
            return self.token()
        token = asked.authorization.removeprefix("Bearer ")
        return OK if token in self.valid else self.denied

    def token(self) -> Answer:
        self.issued += 1
        name = f"secret-token-{self.issued}"
        self.valid.add(name)
        return Answer(200, json.dumps({self.field: name, "expires_in": self.lifetime}).encode())

    @property
    def token_requests(self) -> list[Asked]:
        return [asked for asked in self.server.asked if asked.path == "/token"]


def log_in(path: Path, key: str, **entry: str) -> Path:
    path.write_text(json.dumps({"auths": {key: entry or {"username": "robot", "password": PASSWORD}}}))
    return path


@pytest.fixture
def tokens(server: ScriptedServer) -> TokenRegistry:
    return TokenRegistry(server)


def test_a_token_is_fetched_for_one_repository_and_kept(
    server: ScriptedServer, tokens: TokenRegistry, connect: Connect, tmp_path: Path
) -> None:
    client = connect(server.host, auth_file=log_in(tmp_path / "auth.json", server.host))
    for _ in range(3):
        assert client.manifest(f"{server.host}/os", "v1") == MADE.manifest
    (asked,) = tokens.token_requests
    assert asked.query == {"service": ["the registry"], "scope": ["repository:os:pull"], "account": ["robot"]}
    assert asked.authorization == "Basic " + base64.b64encode(f"robot:{PASSWORD}".encode()).decode()
    assert [a.authorization for a in server.of("GET") if a.path != "/token"] == [
        "",
        *["Bearer secret-token-1"] * 3,
    ]


def test_pulling_and_pushing_are_different_tokens(
    server: ScriptedServer, tokens: TokenRegistry, connect: Connect
) -> None:
    client = connect(server.host)
    plain = tokens.answer
    server.script = lambda asked: Answer(201) if asked.method == "PUT" else plain(asked)
    client.manifest(f"{server.host}/os", "v1")
    client.put(f"{server.host}/os", "v1", MADE.manifest)
    client.manifest(f"{server.host}/other", "v1")
    assert [asked.query["scope"] for asked in tokens.token_requests] == [
        ["repository:os:pull"],
        ["repository:os:pull,push"],
        ["repository:other:pull"],
    ]
    assert all(not asked.authorization and "account" not in asked.query for asked in tokens.token_requests)


def test_a_mount_asks_for_both_repositories_at_once(
    server: ScriptedServer, tokens: TokenRegistry, connect: Connect
) -> None:
    plain = tokens.answer

    def script(asked: Asked) -> Answer:
        good = plain(asked)
        if good is not OK:
            return good
        if asked.method == "POST":
            return Answer(201)
        if asked.method == "PUT":
            return Answer(201)
        return Answer(404) if "/to/blobs/" in asked.path else good

    server.script = script
    connect(server.host).copy(f"{server.host}/from", MADE.manifest.digest, f"{server.host}/to")
    assert ["repository:from:pull", "repository:to:pull,push"] in [
        asked.query["scope"] for asked in tokens.token_requests
    ]
    mounts = [asked for asked in server.of("POST") if asked.path == "/v2/to/blobs/uploads/"]
    assert {mount.query["mount"][0] for mount in mounts} == set(MADE.blobs)
    assert all(mount.query["from"] == ["from"] for mount in mounts)


@pytest.mark.parametrize(
    ("lifetime", "later", "fetched"),
    [
        (300, 280, 1),
        (300, 291, 2),
        (None, 49, 1),
        (None, 51, 2),
        (4, 1, 1),
        (4, 3, 2),
        (-5, 49, 1),
        ("x", 49, 1),
    ],
)
def test_tokens_are_renewed_before_they_expire(
    server: ScriptedServer,
    tokens: TokenRegistry,
    connect: Connect,
    clock: StillClock,
    lifetime: object,
    later: float,
    fetched: int,
) -> None:
    tokens.lifetime = lifetime
    client = connect(server.host)
    client.digest(f"{server.host}/os", "v1")
    clock.time += later
    client.digest(f"{server.host}/os", "v1")
    assert tokens.issued == fetched


def test_an_expired_token_is_renewed_once(
    server: ScriptedServer, tokens: TokenRegistry, connect: Connect, clock: StillClock
) -> None:
    client = connect(server.host)
    client.manifest(f"{server.host}/os", "v1")
    tokens.valid.clear()
    assert client.manifest(f"{server.host}/os", "v1") == MADE.manifest
    assert (tokens.issued, clock.slept) == (2, [])


def test_a_token_that_does_not_help_ends_it(
    server: ScriptedServer, tokens: TokenRegistry, connect: Connect, clock: StillClock
) -> None:
    plain = tokens.answer
    server.script = lambda asked: plain(asked) if asked.path == "/token" else tokens.denied
    with pytest.raises(RegistryError, match=r"os:v1: .* answered 401 Unauthorized \(UNAUTHORIZED\)") as error:
        connect(server.host).manifest(f"{server.host}/os", "v1")
    assert "registry.authFile" in error.value.hint
    assert (tokens.issued, clock.slept) == (1, [])


def test_an_identity_token_is_exchanged_by_post(
    server: ScriptedServer, tokens: TokenRegistry, connect: Connect, tmp_path: Path
) -> None:
    tokens.field = "access_token"
    file = log_in(tmp_path / "auth.json", server.host, identitytoken=REFRESH)
    assert connect(server.host, auth_file=file).digest(f"{server.host}/os", "v1") == MADE.manifest.digest
    (asked,) = tokens.token_requests
    assert (asked.method, asked.authorization, asked.query) == ("POST", "", {})
    assert parse_qs(asked.body.decode()) == {
        "grant_type": ["refresh_token"],
        "service": ["the registry"],
        "client_id": ["machine-os-reconciler"],
        "scope": ["repository:os:pull"],
        "refresh_token": [REFRESH],
    }


def test_an_identity_token_is_no_password(server: ScriptedServer, connect: Connect, tmp_path: Path) -> None:
    server.script = lambda _: Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
    file = log_in(tmp_path / "auth.json", server.host, identitytoken=REFRESH)
    with pytest.raises(RegistryError, match="has an identity token") as error:
        connect(server.host, auth_file=file).digest(f"{server.host}/os", "v1")
    assert REFRESH not in str(error.value)


def test_credentials_are_not_shown_before_they_are_asked_for(
    server: ScriptedServer, connect: Connect, tmp_path: Path
) -> None:
    server.script = lambda _: OK
    file = log_in(tmp_path / "auth.json", server.host)
    connect(server.host, auth_file=file).digest(f"{server.host}/os", "v1")
    assert all(not asked.authorization for asked in server.asked)


def test_a_helper_matters_only_when_its_host_asks(
    server: ScriptedServer, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "auth.json"
    file.write_text(json.dumps({"credHelpers": {server.host: "gcloud"}}))
    server.script = lambda _: OK
    client = connect(server.host, auth_file=file)
    assert client.digest(f"{server.host}/os", "v1") == MADE.manifest.digest
    server.script = lambda _: Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
    with pytest.raises(RegistryError, match="helper 'gcloud', and helpers are not run"):
        client.digest(f"{server.host}/os", "v1")


@pytest.mark.parametrize(
    ("status", "unavailable"), [(400, False), (401, False), (403, False), (302, False), (503, True)]
)
def test_a_token_server_that_refuses(
    server: ScriptedServer,
    tokens: TokenRegistry,
    connect: Connect,
    tmp_path: Path,
    status: int,
    unavailable: bool,
) -> None:
    plain = tokens.answer

    def script(asked: Asked) -> Answer:
        if asked.path != "/token":
            return plain(asked)
        echo = f"error: denied, error_description: {asked.authorization} {PASSWORD}"
        return Answer(
            status, json.dumps({"error": "denied", "details": echo}).encode(), {"Location": "http://x"}
        )

    server.script = script
    file = log_in(tmp_path / "auth.json", server.host)
    with pytest.raises(RegistryError, match=rf"the token server .* answered {status}") as error:
        connect(server.host, auth_file=file).digest(f"{server.host}/os", "v1")
    assert isinstance(error.value, RegistryUnavailable) is unavailable
    shown = f"{error.value!r} {error.value.hint} {error.value.__cause__!r}"
    assert "denied" in shown
    assert "hunter2" not in shown
    assert base64.b64encode(f"robot:{PASSWORD}".encode()).decode() not in shown


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"token": 7}',
        b'{"token": ""}',
        b'{"token": "a\\nb"}',
        b'{"token": "\\u00e9"}',
        b"[" * 200_000,
    ],
)
def test_an_unusable_token_is_said_to_be(
    server: ScriptedServer, tokens: TokenRegistry, connect: Connect, body: bytes
) -> None:
    plain = tokens.answer
    server.script = lambda asked: Answer(200, body) if asked.path == "/token" else plain(asked)
    with pytest.raises(RegistryError, match="without a usable token"):
        connect(server.host).digest(f"{server.host}/os", "v1")


@pytest.mark.parametrize("realm", ["token", "/token", "ftp://x/token", "http://[bad/token", "https:///token"])
def test_a_realm_must_be_a_url(server: ScriptedServer, connect: Connect, realm: str) -> None:
    TokenRegistry(server, realm)
    with pytest.raises(RegistryError):
        connect(server.host).digest(f"{server.host}/os", "v1")


def test_a_realm_on_another_host_gets_this_registrys_credentials_only(
    server: ScriptedServer, connect: Connect, tmp_path: Path
) -> None:
    with scripted() as elsewhere:
        tokens = TokenRegistry(server, f"http://{elsewhere.host}/token")
        elsewhere.script = lambda _: tokens.token()
        file = tmp_path / "auth.json"
        entry = {"username": "robot", "password": PASSWORD}
        other = {"username": "other", "password": "never-send-this"}
        file.write_text(json.dumps({"auths": {server.host: entry, elsewhere.host: other}}))
        client = connect(server.host, auth_file=file)
        assert client.digest(f"{server.host}/os", "v1") == MADE.manifest.digest
        (asked,) = elsewhere.asked
    assert base64.b64decode(asked.authorization.removeprefix("Basic ")).decode() == f"robot:{PASSWORD}"


def test_what_a_registry_echoes_is_not_repeated(
    server: ScriptedServer, tokens: TokenRegistry, connect: Connect
) -> None:
    plain = tokens.answer

    def script(asked: Asked) -> Answer:
        if plain(asked) is not OK:
            return plain(asked)
        return Answer(400, f"you sent {asked.authorization}\x1b[31m".encode(), {"Content-Type": "text/plain"})

    server.script = script
    with pytest.raises(RegistryError, match=r"you sent Bearer \[removed\] \[31m\)$") as error:
        connect(server.host).manifest(f"{server.host}/os", "v1")
    assert "secret-token" not in f"{error.value!r} {error.value.__cause__!r}"


def test_a_redirected_read_leaves_credentials_behind(
    server: ScriptedServer, connect: Connect, tmp_path: Path
) -> None:
    blob = b"stored elsewhere"

    def script(asked: Asked) -> Answer:
        if not asked.authorization:
            return Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        if asked.path == "/elsewhere":
            return Answer(307, headers={"Location": f"http://{storage.host}/data?signature=1"})
        return Answer(302, headers={"Location": "/elsewhere"})

    file = log_in(tmp_path / "auth.json", server.host)
    with scripted(lambda _: Answer(200, blob)) as storage:
        server.script = script
        assert connect(server.host, auth_file=file).blob(f"{server.host}/os", digest(blob), 100) == blob
        (asked,) = storage.asked
    assert asked.query == {"signature": ["1"]}
    assert "authorization" not in asked.headers
    assert "cookie" not in asked.headers
    assert all(a.authorization for a in server.of("GET")[1:])


def test_an_upload_elsewhere_leaves_credentials_behind(
    server: ScriptedServer, connect: Connect, tmp_path: Path
) -> None:
    def script(asked: Asked) -> Answer:
        if not asked.authorization:
            return Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        if asked.method == "POST":
            return Answer(202, headers={"Location": f"http://{storage.host}/up?_state=a%3D%3D&x"})
        if asked.path.startswith("/v2/to/blobs/"):
            return Answer(404)
        if "/blobs/" in asked.path:
            return Answer(200, MADE.blobs[asked.path.rpartition("/")[2]])
        return Answer(201) if asked.method == "PUT" else OK

    file = log_in(tmp_path / "auth.json", server.host)
    with scripted(lambda _: Answer(201)) as storage:
        server.script = script
        client = connect(server.host, auth_file=file)
        client.copy(f"{server.host}/from", MADE.manifest.digest, f"{server.host}/to")
        uploads = storage.asked
    assert {digest(asked.body) for asked in uploads} == set(MADE.blobs)
    for asked in uploads:
        assert asked.query == {"_state": ["a=="], "digest": [digest(asked.body)]}
        assert "authorization" not in asked.headers


def test_a_token_that_expires_before_an_upload_is_renewed_for_it(
    server: ScriptedServer, tokens: TokenRegistry, connect: Connect, clock: StillClock
) -> None:
    plain = tokens.answer
    taken: dict[str, bytes] = {}

    def script(asked: Asked) -> Answer:
        good = plain(asked)
        if good is not OK:
            return good
        if asked.method == "POST":
            tokens.valid.clear()
            return Answer(202, headers={"Location": "/v2/to/blobs/uploads/1"})
        if asked.method == "PUT":
            taken[asked.query["digest"][0] if asked.query else "manifest"] = asked.body
            return Answer(201)
        if asked.path.startswith("/v2/to/blobs/"):
            return Answer(404)
        if "/blobs/" in asked.path:
            return Answer(200, MADE.blobs[asked.path.rpartition("/")[2]])
        return good

    server.script = script
    connect(server.host).copy(f"{server.host}/from", MADE.manifest.digest, f"{server.host}/to")
    assert taken == {**MADE.blobs, "manifest": MADE.manifest.content}
    assert clock.slept == []


def test_the_insecure_list_speaks_for_its_own_hosts_only(server: ScriptedServer, connect: Connect) -> None:
    with pytest.raises(RegistryError, match="does not speak HTTPS"):
        connect("other.example.com").digest(f"{server.host}/os", "v1")
    assert server.asked == []


@pytest.mark.tools
@pytest.mark.parametrize("way", ["realm", "redirect", "upload"])
def test_a_secure_registry_cannot_lead_us_into_the_clear(
    server: ScriptedServer, connect: Connect, tmp_path: Path, way: str
) -> None:
    clear = f"http://{server.host}/token"

    def script(asked: Asked) -> Answer:
        if way == "realm":
            return Answer(401, headers={"WWW-Authenticate": f'Bearer realm="{clear}"'})
        if way == "redirect":
            return Answer(307, headers={"Location": clear})
        if asked.method == "POST":
            return Answer(202, headers={"Location": clear})
        return Answer(404) if "/blobs/" in asked.path else OK

    certificate = self_signed(tmp_path)
    with scripted(script, certificate) as secure:
        file = log_in(tmp_path / "auth.json", secure.host)
        # Even when the host in the clear is listed itself: what counts is the registry that is asked.
        client = connect(server.host, auth_file=file, ca_file=certificate.cert)
        with pytest.raises(RegistryError, match=rf"sends us to http://{server.host}, which is not HTTPS"):
            client.copy(f"{secure.host}/from", MADE.manifest.digest, f"{secure.host}/to")
    assert server.asked == []
