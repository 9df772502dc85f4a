from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reconciler.settings import WebhookType
from reconciler.web.limits import Limits
from reconciler.web.webhook import Hook
from tests.adapters.web.support import CANARY, Daemon, eventually, served

HASTY = Limits(answer=0.2)


def test_a_daemon_that_is_well() -> None:
    with served() as web:
        for path in ("/healthz", "/readyz"):
            got = web.ask("GET", path)
            assert (got.status, got.body) == (200, b"ok")
            assert web.ask("HEAD", path).status == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_daemon_that_is_not_says_why(path: str) -> None:
    daemon = Daemon(unwell="no pass since 10 minutes", unready="the first pass has not ended")
    with served(daemon=daemon) as web:
        got = web.ask("GET", path)
        assert got.status == 503
        assert got.body.decode() == (daemon.unwell if path == "/healthz" else daemon.unready)
        daemon.unwell = daemon.unready = ""
        assert web.ask("GET", path).status == 200


class Hanging(Daemon):
    """Never answers one of the questions until it is let go."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self.let_go, self.asked = Event(), 0
        setattr(self, question, self._hang)

    def _hang(self) -> str:
        self.asked += 1
        self.let_go.wait()
        return ""


@pytest.mark.parametrize(("question", "path"), [("live", "/healthz"), ("ready", "/readyz")])
def test_a_daemon_that_does_not_answer_is_unwell_and_holds_up_no_other_page(question: str, path: str) -> None:
    daemon = Hanging(question)
    with served(limits=HASTY, daemon=daemon) as web:
        try:
            for _ in range(3):
                got = web.ask("GET", path)
                assert (got.status, got.body) == (503, b"no answer within 0.2 s")
            assert daemon.asked == 1
            other = "/readyz" if path == "/healthz" else "/healthz"
            assert web.ask("GET", other).status == 200
            assert web.ask("GET", "/metrics").status == 200
            daemon.let_go.set()
            assert eventually(lambda: web.ask("GET", path).status == 200)
        finally:
            daemon.let_go.set()


def test_however_many_ask_at_once_all_are_answered() -> None:
    daemon = Hanging("live")
    with ThreadPoolExecutor(32) as pool, served(daemon=daemon) as web:
        answers = [pool.submit(web.ask, "GET", "/healthz") for _ in range(32)]
        assert eventually(lambda: daemon.asked == 1)
        daemon.let_go.set()
        assert {answer.result().status for answer in answers} == {200}


def test_a_hanging_status_is_given_up_too() -> None:
    daemon = Hanging("status")
    with served(limits=HASTY, daemon=daemon) as web:
        try:
            assert web.ask("GET", "/status").status == 503
            assert web.ask("GET", "/healthz").status == 200
        finally:
            daemon.let_go.set()


def test_metrics_are_what_prometheus_reads() -> None:
    with served() as web:
        web.metrics.polled("east")
        got = web.ask("GET", "/metrics")
        assert got.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = {family.name for family in text_string_to_metric_families(got.body.decode())}
        assert {"reconciler_polls", "process_open_fds", "python_info", "reconciler_build_info"} <= families


def test_the_status_is_json() -> None:
    shown = {"repositories": [{"name": "east", "head": None, "builds": (1, 2.5, True)}]}
    with served(daemon=Daemon(shown=shown)) as web:
        got = web.ask("GET", "/status")
        assert got.headers["content-type"] == "application/json"
        assert json.loads(got.body) == {
            "repositories": [{"name": "east", "head": None, "builds": [1, 2.5, True]}]
        }


def test_no_page_tells_a_secret() -> None:
    said = f"could not reach https://user:{CANARY}@git.example.com"
    key = f"-----BEGIN PRIVATE KEY-----\n{CANARY}"
    daemon = Daemon(unwell=said, unready=said, shown={"why": [said, {CANARY: key}], "after": "the key"})
    with served(daemon=daemon) as web:
        web.redactor.add(CANARY)
        for path in ("/healthz", "/readyz", "/status"):
            got = web.ask("GET", path)
            assert CANARY.encode() not in got.body
            assert b"git.example.com" in got.body
        assert json.loads(web.ask("GET", "/status").body)["after"] == "the key"


def test_a_status_that_fails_is_one_answer_and_one_record(caplog: pytest.LogCaptureFixture) -> None:
    with served(daemon=Daemon(shown={"odd": object()})) as web:
        got = web.ask("GET", "/status")
        assert (got.status, got.body) == (500, b"Internal Server Error")
        assert web.ask("GET", "/healthz").status == 200
    assert [record.exc_info is not None for record in caplog.records if record.levelno >= logging.ERROR] == [
        True
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/healthz/",
        "/metrics/x",
        "//healthz",
        "/hook/",
        "/hook/github",
        "/hook/bitbucket",
        "/hook/gitea/",
        "/%00",
        "/%ff%fe",
        "/..%2fstatus",
        "/" + "a" * 4000,
    ],
)
def test_everything_else_is_not_there(path: str) -> None:
    hook = Hook("east", WebhookType.GITEA, ())
    with served((hook,)) as web:
        for method in ("GET", "POST"):
            got = web.ask(method, path)
            assert (got.status, got.body) == (404, b"Not Found")
            assert got.headers["content-type"].startswith("text/plain")


def test_the_wrong_method_is_refused() -> None:
    hook = Hook("east", WebhookType.GITEA, ())
    with served((hook,)) as web:
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
            got = web.ask(method, "/hook/gitea")
            assert (got.status, got.headers["allow"]) == (405, "POST")
        for path in ("/healthz", "/readyz", "/metrics", "/status"):
            assert web.ask("POST", path).status == 405


def test_what_every_answer_says_and_does_not_say() -> None:
    hook = Hook("east", WebhookType.GITEA, ())
    with served((hook,), daemon=Daemon(unwell="tired")) as web:
        answers = [
            web.ask("GET", "/healthz"),
            web.ask("GET", "/readyz"),
            web.ask("GET", "/metrics"),
            web.ask("GET", "/status"),
            web.ask("GET", "/nothing"),
            web.ask("PUT", "/hook/gitea"),
            web.ask("POST", "/hook/gitea", body=b"x"),
        ]
    assert [got.status for got in answers] == [503, 200, 200, 200, 404, 405, 503]
    for got in answers:
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["cache-control"] == "no-store"
        assert got.headers["content-security-policy"].startswith("default-src 'none'")
        assert got.headers["referrer-policy"] == "no-referrer"
        assert not {"server", "x-powered-by"} & set(got.headers)
        assert b"uvicorn" not in got.body.lower()
