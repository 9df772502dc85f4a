"""What each verb sends, and what becomes of each answer."""

from __future__ import annotations

import json

import pytest

from reconciler.adapters.cluster.kinds import CONFIG_MAPS, NODES, PODS
from reconciler.errors import ClusterError, ClusterUnavailable, Conflict, Disposition
from reconciler.ports import Request
from reconciler.ports.cluster import Kind
from tests.adapters.cluster import server as fake
from tests.adapters.cluster.server import ApiServer
from tests.adapters.cluster.support import TOKEN, Sleeper, add_node, client

MAPS = fake.CONFIG_MAPS
UNKNOWN = Kind("example.com", "v1", "widgets", "Widget")


def test_one_object_is_as_the_server_has_it(server: ApiServer) -> None:
    made = server.put(MAPS, "one", data={"a": "b"}, newField={"nobody": ["knows", 1, None]})
    assert client(server.url).get(CONFIG_MAPS, "one", "builds") == made


def test_what_is_not_there_is_none(server: ApiServer) -> None:
    api = client(server.url)
    assert api.get(CONFIG_MAPS, "one", "builds") is None
    assert api.get(UNKNOWN, "one", "builds") is None
    assert api.patch(CONFIG_MAPS, "one", {"data": {}}, "builds") is None
    api.delete(CONFIG_MAPS, "one", "builds")
    assert list(api.list(UNKNOWN)) == []


def test_every_request_bears_the_token_and_a_name(server: ApiServer) -> None:
    client(server.url).get(NODES, "n")
    headers = server.asked[0].headers
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert headers["user-agent"].startswith("machine-os-reconciler")


def test_a_connection_is_used_again(server: ApiServer) -> None:
    api = client(server.url)
    add_node(server, "n", "amd64")
    api.get(NODES, "n")
    api.get(NODES, "none")
    api.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, "builds")
    list(api.list(NODES))
    assert len({asked.port for asked in server.asked}) == 1


def test_a_name_cannot_lead_elsewhere(server: ApiServer) -> None:
    assert client(server.url).get(CONFIG_MAPS, "../secrets/x?y", "builds") is None
    assert server.asked[0].path == f"{MAPS}/..%2Fsecrets%2Fx%3Fy"
    with pytest.raises(ValueError, match="without a name"):
        client(server.url).delete(CONFIG_MAPS, "", "builds")


def test_a_long_list_comes_in_pages_and_says_what_its_items_are(server: ApiServer) -> None:
    for number in range(1201):
        add_node(server, f"n{number:04}", "amd64")
    found = list(client(server.url).list(NODES, labels="a=b,c in (d)"))
    assert [item["metadata"]["name"] for item in found] == [f"n{number:04}" for number in range(1201)]
    assert {(item["kind"], item["apiVersion"]) for item in found} == {("Node", "v1")}
    asked = server.requests("GET", fake.NODES, limit="100", labelSelector="a=b,c in (d)")
    assert [a.query.get("continue") for a in asked] == [None, *map(str, range(100, 1201, 100))]


def test_a_list_that_the_server_forgot_begins_anew_without_repeating(server: ApiServer) -> None:
    for number in range(700):
        add_node(server, f"n{number:04}", "amd64")
    server.expire_pages = 1
    found = [item["metadata"]["name"] for item in client(server.url).list(NODES)]
    assert found == [f"n{number:04}" for number in range(700)]
    assert [a.query.get("continue") for a in server.asked] == [
        None,
        "100",
        None,
        *map(str, range(100, 700, 100)),
    ]


def test_a_list_that_the_server_always_forgets_ends(server: ApiServer) -> None:
    for number in range(501):
        add_node(server, f"n{number:04}", "amd64")
    server.expire_pages = 1000
    with pytest.raises(ClusterUnavailable, match="forgot"):
        list(client(server.url).list(NODES))
    assert len(server.asked) == 6


def test_creating_says_who_did_it_and_what_is_there_already_is_none(server: ApiServer) -> None:
    api = client(server.url)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "b"}}
    made = api.create(CONFIG_MAPS, body, "builds")
    assert made is not None
    assert made["metadata"]["uid"]
    (asked,) = server.requests("POST", MAPS)
    assert (asked.body, asked.query) == (body, {"fieldManager": "machine-os-reconciler"})
    assert api.create(CONFIG_MAPS, body, "builds") is None


def test_a_conflict_that_is_no_object_of_that_name_is_one(server: ApiServer) -> None:
    server.answer(f"POST {MAPS}", 409, {"reason": "Conflict", "message": "the quota was modified"})
    with pytest.raises(Conflict, match="the quota was modified") as caught:
        client(server.url).create(CONFIG_MAPS, {"metadata": {"name": "one"}}, "builds")
    assert caught.value.disposition is Disposition.RETRY


def test_creating_where_there_is_no_place_is_refused(server: ApiServer) -> None:
    with pytest.raises(ClusterError, match=f"create widgets: the API server {server.url} answered 404"):
        client(server.url).create(UNKNOWN, {"metadata": {"name": "one"}}, "builds")


def test_a_patch_is_a_merge_patch_of_ours(server: ApiServer) -> None:
    server.put(MAPS, "one", data={"a": "b", "c": "d"})
    changed = client(server.url).patch(CONFIG_MAPS, "one", {"data": {"a": None, "e": "f"}}, "builds")
    assert changed is not None
    assert changed["data"] == {"c": "d", "e": "f"}
    (asked,) = server.requests("PATCH", f"{MAPS}/one")
    assert asked.headers["content-type"] == "application/merge-patch+json"
    assert asked.query == {"fieldManager": "machine-os-reconciler"}


def test_a_patch_of_a_part_goes_there(server: ApiServer) -> None:
    told: list[Request] = []
    client(server.url, told=told).patch(NODES, "n", {"status": {}}, subresource="status")
    assert server.asked[0].path == f"{fake.NODES}/n/status"
    assert told == [Request("kubernetes", "patch nodes/status", "404")]


def test_a_patch_of_another_version_is_a_conflict(server: ApiServer) -> None:
    server.put(MAPS, "one")
    patch = {"metadata": {"resourceVersion": "1", "ownerReferences": []}}
    with pytest.raises(Conflict, match="has been modified"):
        client(server.url).patch(CONFIG_MAPS, "one", patch, "builds")


def test_deleting_takes_what_is_owned_and_only_the_one_that_is_meant(server: ApiServer) -> None:
    uid = server.put(MAPS, "one")["metadata"]["uid"]
    api = client(server.url)
    api.delete(CONFIG_MAPS, "one", "builds", uid="another")
    assert "one" in server.objects[MAPS]
    api.delete(CONFIG_MAPS, "one", "builds", uid=uid)
    assert "one" not in server.objects[MAPS]
    asked = server.requests("DELETE", f"{MAPS}/one")[-1]
    assert asked.body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": uid},
    }


def test_a_conflict_in_deleting_whichever_it_is_is_one(server: ApiServer) -> None:
    server.answer(f"DELETE {MAPS}/one", 409, {"message": "the storage is being migrated"})
    with pytest.raises(Conflict, match="being migrated"):
        client(server.url).delete(CONFIG_MAPS, "one", "builds")


def test_the_end_of_a_log_is_text_and_bounded(server: ApiServer) -> None:
    place = "/api/v1/namespaces/builds/pods/p/log"
    server.texts[place] = "gebaut \N{CHECK MARK}\n".encode() + b"\xff"
    assert (
        client(server.url).log("builds", "p", "build", 20)
        == "gebaut \N{CHECK MARK}\n\N{REPLACEMENT CHARACTER}"
    )
    (asked,) = server.requests("GET", place)
    assert asked.query == {"container": "build", "tailLines": "20", "limitBytes": str(1 << 20)}


def test_of_a_log_that_is_too_long_it_is_the_end_that_counts(server: ApiServer) -> None:
    place = "/api/v1/namespaces/builds/pods/p/log"
    server.texts[place] = b"x" * (1 << 20)
    client(server.url).log("builds", "p", "build", 200)
    assert [a.query["tailLines"] for a in server.requests("GET", place)] == ["200", "25", "3", "1"]


@pytest.mark.parametrize("status", [400, 404])
def test_a_log_that_is_not_there_is_empty(server: ApiServer, status: int) -> None:
    server.answer("GET /api/v1/namespaces/builds/pods/p/log", status, {"message": "is waiting to start"})
    assert client(server.url).log("builds", "p", "build", 20) == ""


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "credentials"), (403, "deploy/"), (422, ""), (405, ""), (501, "")]
)
def test_a_refusal_says_what_the_server_said_and_is_not_repeated(
    server: ApiServer, status: int, hint: str
) -> None:
    said = 'nodes is forbidden: User "x" cannot list resource "nodes"'
    for _ in range(2):  # the second is for credentials that are tried anew
        server.answer(f"GET {fake.NODES}", status, {"kind": "Status", "message": said})
    with pytest.raises(
        ClusterError, match=f"list nodes: the API server {server.url} answered {status}"
    ) as caught:
        list(client(server.url).list(NODES))
    assert type(caught.value) is ClusterError
    assert said in caught.value.message
    assert hint in caught.value.hint
    assert len(server.asked) == 1


def test_what_the_server_says_is_one_line_without_secrets(server: ApiServer) -> None:
    said = f"no\x1b[31m\n{'x' * 5000} Authorization: Bearer {TOKEN}"
    server.answer(f"GET {fake.NODES}/n", 422, {"message": f"Authorization: Bearer {TOKEN} {said}"})
    with pytest.raises(ClusterError) as caught:
        client(server.url).get(NODES, "n")
    assert TOKEN not in caught.value.message
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 700


def test_every_call_is_told_with_its_outcome(server: ApiServer) -> None:
    told: list[Request] = []
    api = client(server.url, told=told)
    server.answer(f"GET {fake.NODES}", 503)
    list(api.list(NODES))
    api.create(CONFIG_MAPS, {"metadata": {"name": "one"}}, "builds")
    api.delete(CONFIG_MAPS, "one", "builds")
    api.log("builds", "p", "c", 1)
    assert [(request.operation, request.outcome) for request in told] == [
        ("list nodes", "503"),
        ("list nodes", "200"),
        ("create configmaps", "201"),
        ("delete configmaps", "200"),
        ("get pods/log", "404"),
    ]
    assert {request.system for request in told} == {"kubernetes"}


def test_a_list_of_odd_things_is_no_crash(server: ApiServer) -> None:
    server.texts["/api/v1/namespaces/builds/pods"] = json.dumps({"items": None, "metadata": None}).encode()
    assert list(client(server.url).list(PODS, "builds")) == []


def test_a_redirect_is_not_followed_with_our_token(server: ApiServer) -> None:
    with ApiServer().running() as other:
        server.answer(f"GET {fake.NODES}/n", 307, Location=f"{other.url}{fake.NODES}/n")
        with pytest.raises(ClusterError, match="answered 307"):
            client(server.url, Sleeper()).get(NODES, "n")
        assert other.asked == []
