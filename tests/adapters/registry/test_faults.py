"""Registries and networks that misbehave in ways a real registry cannot be made to."""

from __future__ import annotations

import gzip
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from reconciler.adapters.registry.auth import Authorizer
from reconciler.adapters.registry.auth_file import AuthFile
from reconciler.adapters.registry.place import Place
from reconciler.adapters.registry.problems import Refusal, Transient
from reconciler.adapters.registry.transport import Call, Transport
from reconciler.adapters.registry.wire import Wire
from reconciler.errors import RegistryError, RegistryUnavailable
from reconciler.ports import OCI_INDEX, OCI_MANIFEST, Manifest
from tests.adapters.registry.conftest import Connect
from tests.adapters.registry.support import (
    Answer,
    Asked,
    ScriptedServer,
    StillClock,
    digest,
    image,
    index,
    scripted,
    silent_port,
)

MADE = image("faults")
OTHER = image("other")
ABSENT = "sha256:" + "0" * 64


def stored(manifest: Manifest, **headers: str) -> Answer:
    own = {"Content-Type": manifest.media_type, "Docker-Content-Digest": manifest.digest}
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(200, manifest.content, {k: v for k, v in {**own, **changed}.items() if v})


OK = stored(MADE.manifest)


def in_turn(server: ScriptedServer, answers: Iterable[Answer], then: Answer = OK) -> None:
    """Give these answers first, and then always the last one."""
    left = list(answers)
    server.script = lambda _: left.pop(0) if left else then


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 522])
def test_a_transient_status_is_tried_again(
    server: ScriptedServer, connect: Connect, clock: StillClock, status: int
) -> None:
    in_turn(server, [Answer(status)] * 3)
    assert connect(server.host).manifest(f"{server.host}/os", "v1") == MADE.manifest
    assert len(clock.slept) == 3


@pytest.mark.parametrize("status", [400, 403, 405, 410, 418, 501])
def test_a_refusal_is_final_and_quotes_the_registry(
    server: ScriptedServer, connect: Connect, clock: StillClock, status: int
) -> None:
    body = b'{"errors": [{"code": "DENIED", "message": "not for you"}, {"code": "X"}, 7]}'
    in_turn(server, [], Answer(status, body))
    with pytest.raises(
        RegistryError, match=rf"{server.host}/os:v1: .* {status} .*\(DENIED: not for you; X\)"
    ) as e:
        connect(server.host).manifest(f"{server.host}/os", "v1")
    assert not isinstance(e.value, RegistryUnavailable)
    assert (len(server.of("GET")), clock.slept) == (1, [])


def test_a_registry_that_stays_down_is_unavailable(server: ScriptedServer, connect: Connect) -> None:
    in_turn(server, [], Answer(503, b"<html>down</html>", {"Content-Type": "text/html"}))
    with pytest.raises(RegistryUnavailable, match=r"503 Service Unavailable \(tried 4 times\)"):
        connect(server.host).digest(f"{server.host}/os", "v1")
    assert len(server.of("HEAD")) == 4


@pytest.mark.parametrize(
    ("value", "waited"),
    [("17", 17.0), ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0)],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(
    server: ScriptedServer, connect: Connect, clock: StillClock, status: int, value: str, waited: float
) -> None:
    in_turn(server, [Answer(status, headers={"Retry-After": value})])
    connect(server.host).digest(f"{server.host}/os", "v1")
    assert clock.slept == [waited]


def test_retry_after_beyond_patience_is_reported(
    server: ScriptedServer, connect: Connect, clock: StillClock
) -> None:
    in_turn(server, [], Answer(429, headers={"Retry-After": "21600"}))
    with pytest.raises(RegistryUnavailable, match=r"429 .*asks to wait 21600 s \(tried once\)"):
        connect(server.host).digest(f"{server.host}/os", "v1")
    assert clock.slept == []


def test_connections_that_break_are_tried_again(
    server: ScriptedServer, connect: Connect, clock: StillClock
) -> None:
    in_turn(server, [Answer(silent=True), Answer(200, OK.body[:10], OK.headers, length=len(OK.body))])
    assert connect(server.host).manifest(f"{server.host}/os", "v1") == MADE.manifest
    assert len(clock.slept) == 2


def test_a_half_open_peer_does_not_hold_us(connect: Connect, clock: StillClock) -> None:
    with silent_port() as host, pytest.raises(RegistryUnavailable, match="no answer in time"):
        connect().digest(f"{host}/os", "v1")
    assert len(clock.slept) == 3


def test_an_answer_that_stops_half_way_does_not_hold_us(server: ScriptedServer, connect: Connect) -> None:
    # The connection stays open, but what was announced never comes.
    def script(_: Asked) -> Answer:
        return Answer(200, OK.body[:10], {**OK.headers, "Connection": "keep-alive"}, length=4096)

    server.script = script
    with pytest.raises(RegistryUnavailable, match="broke off its answer"):
        connect(server.host).manifest(f"{server.host}/os", "v1")


def test_a_trickle_ends_when_its_time_is_up(
    server: ScriptedServer, connect: Connect, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = lambda _: OK
    client = connect(server.host)

    def an_hour_later() -> float:
        clock.time += 3600
        return clock.time

    monkeypatch.setattr(clock, "now", an_hour_later)
    with pytest.raises(RegistryUnavailable, match="sends too slowly: not done after 60 s"):
        client.manifest(f"{server.host}/os", "v1")


@pytest.mark.parametrize(
    ("reference", "headers"),
    [
        ("v1", {"Docker_Content_Digest": ABSENT}),
        (OTHER.manifest.digest, {}),
        (OTHER.manifest.digest, {"Docker_Content_Digest": OTHER.manifest.digest}),
        (OTHER.manifest.digest, {"Docker_Content_Digest": ""}),
    ],
)
def test_a_lie_about_a_digest_is_noticed(
    server: ScriptedServer, connect: Connect, reference: str, headers: Mapping[str, str]
) -> None:
    server.script = lambda _: stored(MADE.manifest, **headers)
    with pytest.raises(RegistryError, match=f"have the digest {MADE.manifest.digest}, not"):
        connect(server.host).manifest(f"{server.host}/os", reference)


@pytest.mark.parametrize("claim", ["", "sha512:" + "a" * 128, "nonsense"])
def test_without_a_usable_digest_header_the_bytes_decide(
    server: ScriptedServer, connect: Connect, claim: str
) -> None:
    server.script = lambda _: stored(MADE.manifest, Docker_Content_Digest=claim)
    client = connect(server.host)
    assert client.digest(f"{server.host}/os", "v1") == MADE.manifest.digest
    assert client.digest(f"{server.host}/os", MADE.manifest.digest) == MADE.manifest.digest


def test_a_head_that_answers_for_another_digest_does_not_count(
    server: ScriptedServer, connect: Connect
) -> None:
    server.script = lambda _: OK
    with pytest.raises(RegistryError, match=f"not {OTHER.manifest.digest}"):
        connect(server.host).digest(f"{server.host}/os", OTHER.manifest.digest)


def test_a_media_type_that_disagrees_is_refused(server: ScriptedServer, connect: Connect) -> None:
    server.script = lambda _: stored(MADE.manifest, Content_Type=OCI_INDEX)
    with pytest.raises(RegistryError, match="but it calls itself"):
        connect(server.host).manifest(f"{server.host}/os", "v1")


@pytest.mark.parametrize("length", [None, 10**12])
def test_a_huge_manifest_is_not_read(server: ScriptedServer, connect: Connect, length: int | None) -> None:
    huge = b"x" * (4 * 1024 * 1024 + 1)
    server.script = lambda _: Answer(200, huge, OK.headers, length=length)
    with pytest.raises(RegistryError, match="larger than 4194304 bytes"):
        connect(server.host).manifest(f"{server.host}/os", "v1")


def test_a_compressed_answer_is_never_expanded(server: ScriptedServer, connect: Connect) -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    server.script = lambda _: Answer(200, bomb, {**OK.headers, "Content-Encoding": "gzip"})
    with pytest.raises(RegistryError, match="compresses its answer although asked not to"):
        connect(server.host).manifest(f"{server.host}/os", "v1")
    assert server.of("GET")[0].headers["accept-encoding"] == "identity"


def test_all_kinds_of_manifest_are_accepted(server: ScriptedServer, connect: Connect) -> None:
    server.script = lambda _: OK
    client = connect(server.host)
    client.digest(f"{server.host}/os", "v1")
    client.manifest(f"{server.host}/os", "v1")
    (head,), (get,) = server.of("HEAD"), server.of("GET")
    assert head.headers["accept"] == get.headers["accept"]
    assert {OCI_INDEX, OCI_MANIFEST} < set(get.headers["accept"].split(", "))
    assert len(get.headers["accept"].split(", ")) == 4


class Store:
    """Manifests by reference, with faults to order: `lose` puts take effect without an answer, `fail` ones do
    not, and `hide` reads find nothing."""

    def __init__(self, server: ScriptedServer, *, lose: int = 0, fail: int = 0, hide: int = 0) -> None:
        self.lose, self.fail, self.hide = lose, fail, hide
        self.content: dict[str, bytes] = {}
        server.script = self.answer

    def answer(self, asked: Asked) -> Answer:
        reference = asked.path.rpartition("/")[2]
        if asked.method != "PUT":
            self.hide -= 1
            found = None if self.hide >= 0 else self.content.get(reference)
            if found is None:
                return Answer(404)
            return Answer(200, found, {"Content-Type": OCI_MANIFEST, "Docker-Content-Digest": digest(found)})
        self.fail -= 1
        if self.fail >= 0:
            return Answer(502)
        self.content[reference] = asked.body
        self.lose -= 1
        return Answer(silent=True) if self.lose >= 0 else Answer(201)


@pytest.mark.parametrize("reference", ["v1", MADE.manifest.digest])
def test_a_put_whose_answer_is_lost_is_not_repeated(
    server: ScriptedServer, connect: Connect, reference: str
) -> None:
    store = Store(server, lose=1)
    connect(server.host).put(f"{server.host}/os", reference, MADE.manifest)
    assert len(server.of("PUT")) == 1
    assert store.content == {reference: MADE.manifest.content}


def test_a_put_that_failed_is_repeated(server: ScriptedServer, connect: Connect) -> None:
    store = Store(server, fail=2)
    connect(server.host).put(f"{server.host}/os", "v1", MADE.manifest)
    assert len(server.of("PUT")) == 3
    assert store.content == {"v1": MADE.manifest.content}


def test_a_put_sends_the_bytes_and_their_type(server: ScriptedServer, connect: Connect) -> None:
    Store(server)
    connect(server.host).put(f"{server.host}/os", "v1", MADE.manifest)
    (put,) = server.of("PUT")
    assert (put.path, put.body) == ("/v2/os/manifests/v1", MADE.manifest.content)
    assert put.headers["content-type"] == OCI_MANIFEST


def test_what_was_put_may_show_up_late(server: ScriptedServer, connect: Connect, clock: StillClock) -> None:
    Store(server, hide=2)
    connect(server.host).put(f"{server.host}/os", "v1", MADE.manifest)
    assert (len(server.of("PUT")), len(clock.slept)) == (1, 2)


def test_what_was_put_must_show_up(server: ScriptedServer, connect: Connect) -> None:
    Store(server, hide=99)
    with pytest.raises(RegistryUnavailable, match="stored, but is not there when read back"):
        connect(server.host).put(f"{server.host}/os", "v1", MADE.manifest)


def test_a_tag_that_somebody_else_moves_is_noticed(server: ScriptedServer, connect: Connect) -> None:
    server.script = lambda asked: Answer(201) if asked.method == "PUT" else OK
    with pytest.raises(RegistryUnavailable, match=f"but {MADE.manifest.digest} is there when read back"):
        connect(server.host).put(f"{server.host}/os", "v1", OTHER.manifest)


def test_a_manifest_that_reads_back_as_another_type_is_noticed(
    server: ScriptedServer, connect: Connect
) -> None:
    content = b'{"schemaVersion": 2, "manifests": []}'
    put = Manifest(digest(content), OCI_INDEX, content)
    other = Manifest(put.digest, index().media_type.replace("oci.image.index.v1+json", "x"), content)
    server.script = lambda asked: (
        Answer(201)
        if asked.method == "PUT"
        else stored(other, Content_Type="application/vnd.docker.distribution.manifest.list.v2+json")
    )
    with pytest.raises(RegistryError, match="but reads back as"):
        connect(server.host).put(f"{server.host}/os", "v1", put)


class Target:
    """A repository that takes uploads, with faults to order by method and how often."""

    def __init__(self, server: ScriptedServer, faults: Mapping[str, list[Answer]]) -> None:
        self.faults = {method: list(answers) for method, answers in faults.items()}
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        server.script = self.answer

    def answer(self, asked: Asked) -> Answer:
        name = asked.path.rpartition("/")[2]
        if self.faults.get(asked.method):
            fault = self.faults[asked.method].pop(0)
            if fault.silent:
                self.take(asked)
            return fault
        if asked.method == "POST":
            return Answer(202, headers={"Location": "/v2/to/blobs/uploads/1?_state=x"})
        if asked.method == "PUT":
            self.take(asked)
            return Answer(201)
        if "/blobs/" in asked.path:
            return Answer(200) if name in self.blobs else Answer(404)
        found = self.manifests.get(name)
        return Answer(404) if found is None else Answer(200, found, {"Content-Type": OCI_MANIFEST})

    def take(self, asked: Asked) -> None:
        if "digest" in asked.query:
            self.blobs[asked.query["digest"][0]] = asked.body
        elif asked.method == "PUT":
            self.manifests[asked.path.rpartition("/")[2]] = asked.body


def source(server: ScriptedServer, *faults: Answer) -> None:
    left = list(faults)

    def script(asked: Asked) -> Answer:
        if "/manifests/" in asked.path:
            return OK
        return left.pop(0) if left else Answer(200, MADE.blobs[asked.path.rpartition("/")[2]])

    server.script = script


@pytest.mark.parametrize(
    "faults",
    [
        {"POST": [Answer(503), Answer(silent=True)]},
        {"PUT": [Answer(500)]},
        {"PUT": [Answer(silent=True)]},
        {"HEAD": [Answer(504)]},
    ],
)
def test_an_upload_survives_faults_of_the_target(
    server: ScriptedServer, connect: Connect, faults: Mapping[str, list[Answer]]
) -> None:
    with scripted() as other:
        source(server)
        target = Target(other, faults)
        connect(server.host, other.host).copy(f"{server.host}/from", MADE.manifest.digest, f"{other.host}/to")
    assert target.blobs == MADE.blobs
    assert target.manifests == {MADE.manifest.digest: MADE.manifest.content}


def test_an_upload_whose_answer_is_lost_is_not_repeated(server: ScriptedServer, connect: Connect) -> None:
    with scripted() as other:
        source(server)
        Target(other, {"PUT": [Answer(silent=True)]})
        connect(server.host, other.host).copy(f"{server.host}/from", MADE.manifest.digest, f"{other.host}/to")
        uploads = [asked for asked in other.of("PUT") if "/blobs/" in asked.path]
    assert len(uploads) == len(MADE.blobs)


def test_an_upload_survives_faults_of_the_source(server: ScriptedServer, connect: Connect) -> None:
    with scripted() as other:
        source(server, Answer(503), Answer(200, b"{", length=len(MADE.blobs[MADE.config])))
        target = Target(other, {})
        connect(server.host, other.host).copy(f"{server.host}/from", MADE.manifest.digest, f"{other.host}/to")
    assert target.blobs == MADE.blobs


@pytest.mark.parametrize(
    "body", [b"", b"short", b"x" * 200_000, b"x" * len(MADE.blobs[MADE.config])], ids=len
)
def test_a_source_with_other_content_is_refused(
    server: ScriptedServer, connect: Connect, body: bytes
) -> None:
    with scripted() as other:
        source(server, Answer(200, body))
        target = Target(other, {})
        with pytest.raises(RegistryError, match="holds other content under this digest") as error:
            connect(server.host, other.host).copy(
                f"{server.host}/from", MADE.manifest.digest, f"{other.host}/to"
            )
    assert not isinstance(error.value, RegistryUnavailable)
    assert (target.blobs, target.manifests) == ({}, {})


def test_an_upload_that_is_cut_short_lets_go_of_its_source(server: ScriptedServer, clock: StillClock) -> None:
    let_go = []

    def body() -> Generator[bytes, None, None]:
        try:
            while True:
                yield b"x" * 65_536
        finally:
            let_go.append(True)

    wire = Wire(clock, frozenset({server.host}), None, 5.0)
    transport = Transport(wire, Authorizer(wire, AuthFile(None), clock), clock)
    call = Call(
        "PUT", Place.parse(f"{server.host}/os"), "x", body=body, headers={"Content-Length": "999999999"}
    )
    # The error is kept, and with it everything that its traceback holds on to.
    with pytest.raises((Refusal, Transient)) as error:
        transport.attempt(call)
    assert let_go == [True], error
    wire.close()


def test_a_refused_mount_becomes_an_upload(server: ScriptedServer, connect: Connect) -> None:
    target = Target(server, {"POST": [Answer(403)]})
    plain = target.answer

    def script(asked: Asked) -> Answer:
        if asked.path.startswith("/v2/from/manifests/"):
            return OK
        if asked.path.startswith("/v2/from/"):
            return Answer(200, MADE.blobs[asked.path.rpartition("/")[2]])
        return plain(asked)

    server.script = script
    connect(server.host).copy(f"{server.host}/from", MADE.manifest.digest, f"{server.host}/to")
    assert target.blobs == MADE.blobs
    first, second, third = server.of("POST")
    assert ("mount" in first.query, "mount" in second.query, "mount" in third.query) == (True, False, True)


@pytest.mark.parametrize("headers", [{}, {"Location": ""}, {"Location": "http://x:port/"}])
def test_an_upload_that_leads_nowhere(
    server: ScriptedServer, connect: Connect, headers: Mapping[str, str]
) -> None:
    with scripted() as other:
        source(server)
        Target(other, {"POST": [Answer(202, headers=headers)]})
        with pytest.raises(RegistryError, match="without saying where to"):
            connect(server.host, other.host).copy(
                f"{server.host}/from", MADE.manifest.digest, f"{other.host}/to"
            )


def test_redirects_end(server: ScriptedServer, connect: Connect) -> None:
    server.script = lambda asked: Answer(302, headers={"Location": asked.path})
    with pytest.raises(RegistryError, match="redirects us more than 5 times"):
        connect(server.host).manifest(f"{server.host}/os", "v1")
    assert len(server.of("GET")) == 6


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "ftp://example.com/y",
        "https:///x",
        "http://[bad",
        "http://a..b/",
        "http://xn--a/",
        f"http://{'a' * 64}.example.com/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1%00.example.com/",
    ],
)
def test_a_redirect_must_lead_to_a_web_address(
    server: ScriptedServer, connect: Connect, clock: StillClock, location: str
) -> None:
    server.script = lambda _: Answer(302, headers={"Location": location})
    with pytest.raises(RegistryError, match=r"no usable address|an impossible name"):
        connect(server.host).manifest(f"{server.host}/os", "v1")
    assert clock.slept == []


@pytest.mark.parametrize("host", ["registry..example.com", "registry.example.com:99999"])
def test_a_host_that_cannot_be_is_refused(connect: Connect, host: str) -> None:
    with pytest.raises(RegistryError, match="no usable address"):
        connect().digest(f"{host}/os", "v1")


def test_a_write_is_not_redirected(server: ScriptedServer, connect: Connect) -> None:
    server.script = lambda _: Answer(307, headers={"Location": "/v2/other/manifests/v1"})
    with pytest.raises(RegistryError, match="answered 307"):
        connect(server.host).put(f"{server.host}/os", "v1", MADE.manifest)
    assert [asked.path for asked in server.of("PUT")] == ["/v2/os/manifests/v1"]


def test_cookies_are_not_kept(server: ScriptedServer, connect: Connect) -> None:
    server.script = lambda _: stored(MADE.manifest, Set_Cookie="session=1; Path=/")
    client = connect(server.host)
    client.manifest(f"{server.host}/os", "v1")
    client.manifest(f"{server.host}/os", "v1")
    assert all("cookie" not in asked.headers for asked in server.asked)


def test_an_insecure_registry_is_asked_how_it_speaks_once(server: ScriptedServer, connect: Connect) -> None:
    server.script = lambda _: OK
    client = connect(server.host)
    for _ in range(3):
        client.digest(f"{server.host}/os", "v1")
    assert [asked.path for asked in server.asked].count("/v2/") == 1


def test_names_are_checked_before_anything_is_sent(server: ScriptedServer, connect: Connect) -> None:
    client = connect(server.host)
    with pytest.raises(RegistryError, match="not a fully qualified"):
        client.digest(f"{server.host}/os?x=1", "v1")
    with pytest.raises(RegistryError, match="neither a tag nor"):
        client.manifest(f"{server.host}/os", "../../token")
    with pytest.raises(RegistryError, match="not a sha256 digest"):
        client.has_blob(f"{server.host}/os", "uploads")
    assert server.asked == []


def test_closing_twice_is_fine(server: ScriptedServer, connect: Connect) -> None:
    server.script = lambda _: OK
    client = connect(server.host)
    client.digest(f"{server.host}/os", "v1")
    client.close()
    client.close()


def test_threads_share_a_client(server: ScriptedServer, connect: Connect) -> None:
    server.script = lambda _: OK
    client = connect(server.host)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda n: client.manifest(f"{server.host}/os", f"v{n}"), range(40)))
    assert found == [MADE.manifest] * 40


@pytest.mark.parametrize("proxy", ["ftp://user:hunter2@proxy.example.com", "http://user:hunter2@proxy:port"])
def test_an_unusable_proxy_is_said_to_be(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(RegistryError, match="names a proxy that cannot be used") as error:
        connect().digest("registry.example.com/os", "v1")
    assert "hunter2" not in str(error.value) + error.value.hint


def test_loopback_is_not_behind_a_proxy(
    server: ScriptedServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    server.script = lambda _: OK
    assert connect(server.host).digest(f"{server.host}/os", "v1") == MADE.manifest.digest


def test_tags_are_read_page_by_page_while_the_registry_says_there_is_more(
    server: ScriptedServer, connect: Connect
) -> None:
    link = {"Link": '</v2/os/tags/list?n=2&last=b>; rel="next"'}
    pages = [Answer(200, b'{"name": "os", "tags": ["a", "b"]}', link), Answer(200, b'{"tags": ["b", "c"]}')]
    in_turn(server, pages)
    assert connect(server.host).tags(f"{server.host}/os") == ("a", "b", "c")
    assert server.of("GET")[-1].query["last"] == ["b"]


@pytest.mark.parametrize("body", [b"[]", b"{", b"7"])
def test_a_list_of_tags_that_is_none(server: ScriptedServer, connect: Connect, body: bytes) -> None:
    in_turn(server, [], Answer(200, body))
    with pytest.raises(RegistryError, match="cannot be read"):
        connect(server.host).tags(f"{server.host}/os")
