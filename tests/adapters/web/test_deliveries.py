from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler.settings import WebhookType
from reconciler.web.webhook import Hook
from tests.adapters.web.support import CANARY, Daemon, Served, secret_file, served
from tests.unit.web.senders import BODY, NOW, SENDERS, Sender, generic, github, gitlab_signed

ALL = pytest.mark.parametrize("sender", SENDERS, ids=str)


def hook(sender: Sender, *paths: Path, source: str = "east") -> Hook:
    return Hook(source, sender.type, paths)


def deliver(web: Served, sender: Sender, secret: str = "", identity: str = "id-1", body: bytes = BODY) -> int:
    web.clock.time = NOW
    headers = sender.sign(secret or sender.secret, body, identity)
    return web.ask("POST", f"/hook/{sender.type}", headers, body).status


@ALL
def test_a_signed_push_is_a_look(sender: Sender, tmp_path: Path) -> None:
    with served((hook(sender, secret_file(tmp_path, sender.secret)),)) as web:
        assert deliver(web, sender) == 202
        assert web.daemon.looks == ["east"]
        assert web.metric(f'reconciler_webhooks_total{{outcome="accepted",type="{sender.type}"}}') == 1


@ALL
def test_a_badly_signed_one_is_none(sender: Sender, tmp_path: Path) -> None:
    with served((hook(sender, secret_file(tmp_path, sender.secret)),)) as web:
        assert deliver(web, sender, sender.other) == 401
        assert web.ask("POST", f"/hook/{sender.type}", {}, BODY).status == 401
        assert web.daemon.looks == []
        assert web.metric(f'reconciler_webhooks_total{{outcome="unsigned",type="{sender.type}"}}') == 2


@ALL
def test_while_a_secret_is_replaced_both_count(sender: Sender, tmp_path: Path) -> None:
    old = secret_file(tmp_path, sender.secret, "old")
    new = secret_file(tmp_path, sender.other, "new")
    with served((hook(sender, old, new),)) as web:
        assert deliver(web, sender, sender.secret, "id-1") == 202
        assert deliver(web, sender, sender.other, "id-2") == 202
        assert web.daemon.looks == ["east", "east"]


@ALL
def test_a_replaced_secret_counts_at_once(sender: Sender, tmp_path: Path) -> None:
    path = secret_file(tmp_path, sender.secret)
    with served((hook(sender, path),)) as web:
        assert deliver(web, sender, sender.secret, "id-1") == 202
        secret_file(tmp_path, sender.other)
        assert deliver(web, sender, sender.secret, "id-2") == 401
        assert deliver(web, sender, sender.other, "id-3") == 202


@ALL
@pytest.mark.parametrize("content", [None, "", " \n", "x" * 70_000])
def test_without_a_secret_nobody_gets_in(
    sender: Sender, content: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_text(content)
    unsigned = dict.fromkeys(sender.sign(sender.secret, BODY, "id"), "")
    keyless = github("", BODY, "id") | generic("", BODY, "id")
    with served((hook(sender, path),)) as web:
        assert deliver(web, sender) == 503
        for headers in ({}, unsigned, keyless):
            assert web.ask("POST", f"/hook/{sender.type}", headers, BODY).status == 503
        assert web.daemon.looks == []
    (said,) = {record.getMessage() for record in caplog.records if record.levelno == logging.ERROR}
    assert str(path) in said


def test_an_unusable_signing_token_is_no_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = secret_file(tmp_path, f"whsec_{CANARY} is not base64")
    with served((Hook("east", WebhookType.GITLAB, (path,)),)) as web:
        headers = {"X-Gitlab-Token": f"whsec_{CANARY} is not base64"}
        assert web.ask("POST", "/hook/gitlab", headers, BODY).status == 503
        assert web.daemon.looks == []
    assert "no signing token" in caplog.text
    assert CANARY not in caplog.text


def test_no_secret_file_at_all_lets_nobody_in() -> None:
    sender = SENDERS[0]
    with served((hook(sender),)) as web:
        assert deliver(web, sender) == 503


@ALL
def test_a_missing_secret_does_not_shut_out_the_other(sender: Sender, tmp_path: Path) -> None:
    paths = tmp_path / "gone", secret_file(tmp_path, sender.secret)
    with served((hook(sender, *paths),)) as web:
        assert deliver(web, sender) == 202
        assert deliver(web, sender, sender.other, "id-2") == 503


@pytest.mark.parametrize(
    ("sender", "event"),
    [("github", "create"), ("github", "delete"), ("gitea", "create"), ("gitlab-token", "Tag Push Hook"),
     ("gitlab-token", "System Hook")],
)  # fmt: skip
def test_other_events_that_move_heads(sender: str, event: str, tmp_path: Path) -> None:
    assert outcome_of(sender, event, tmp_path) == ["east"]


@pytest.mark.parametrize(
    ("sender", "event"),
    [("github", "ping"), ("github", "star"), ("gitea", "issues"), ("gitlab-token", "Note Hook")],
)
def test_events_that_move_nothing(sender: str, event: str, tmp_path: Path) -> None:
    assert outcome_of(sender, event, tmp_path) == []


@pytest.mark.parametrize(
    ("sender", "event"),
    [("github", "pull_request"), ("gitea", "pull_request"), ("gitea", "pull_request_sync"),
     ("gitlab-token", "Merge Request Hook")],
)  # fmt: skip
def test_events_of_pull_requests(sender: str, event: str, tmp_path: Path) -> None:
    daemon = Daemon(pulls=[])
    assert outcome_of(sender, event, tmp_path, daemon) == []
    assert daemon.pulls == ["east"]
    assert outcome_of(sender, event, tmp_path) == []  # where nobody shows previews
    assert outcome_of(sender, "push hook" if sender == "gitlab-token" else "push", tmp_path, daemon) == [
        "east"
    ]
    assert daemon.pulls == ["east"]  # a push is a look at everything, which is not told twice


def outcome_of(name: str, event: str, tmp_path: Path, daemon: Daemon | None = None) -> list[str]:
    sender = next(one for one in SENDERS if one.name == name)
    with served((hook(sender, secret_file(tmp_path, sender.secret)),), daemon=daemon) as web:
        headers = sender.sign(sender.secret, BODY, "id-1")
        headers = {key: event if key.endswith("-Event") else value for key, value in headers.items()}
        assert web.ask("POST", f"/hook/{sender.type}", headers, BODY).status == 202
        return web.daemon.looks


def test_a_ping_is_answered_to_who_knows_the_secret_only(tmp_path: Path) -> None:
    sender = SENDERS[0]
    with served((hook(sender, secret_file(tmp_path, sender.secret)),)) as web:
        headers = sender.sign(sender.secret, BODY, "id-1") | {"X-GitHub-Event": "ping"}
        got = web.ask("POST", "/hook/github", headers, BODY)
        assert (got.status, got.body) == (202, b"pong")
        assert web.ask("POST", "/hook/github", {"X-GitHub-Event": "ping"}, BODY).status == 401


@ALL
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe\x00 no UTF-8", b"payload=%7B%7D", b"[" * 100_000, b'{"ref": "refs/heads/evil"}'],
)
def test_the_body_is_a_hint_whatever_it_says(sender: Sender, body: bytes, tmp_path: Path) -> None:
    with served((hook(sender, secret_file(tmp_path, sender.secret)),)) as web:
        assert deliver(web, sender, body=body) == 202
        assert web.daemon.looks == ["east"]


@ALL
def test_a_delivery_counts_once(sender: Sender, tmp_path: Path) -> None:
    with served((hook(sender, secret_file(tmp_path, sender.secret)),)) as web:
        assert [deliver(web, sender) for _ in range(5)] == [202] * 5
        assert web.daemon.looks == ["east"]
        assert deliver(web, sender, identity="id-2") == 202
        assert web.daemon.looks == ["east", "east"]
        assert web.metric(f'reconciler_webhooks_total{{outcome="replayed",type="{sender.type}"}}') == 4


def test_an_id_that_was_refused_is_not_used_up(tmp_path: Path) -> None:
    sender = SENDERS[0]
    with served((hook(sender, secret_file(tmp_path, sender.secret)),)) as web:
        assert deliver(web, sender, sender.other) == 401
        assert deliver(web, sender) == 202
        assert web.daemon.looks == ["east"]


def test_without_ids_every_delivery_counts(tmp_path: Path) -> None:
    sender = SENDERS[-1]
    headers = generic(sender.secret, BODY, "")
    del headers["Idempotency-Key"]
    with served((hook(sender, secret_file(tmp_path, sender.secret)),)) as web:
        assert [web.ask("POST", "/hook/generic", headers, BODY).status for _ in range(2)] == [202, 202]
        assert web.daemon.looks == ["east", "east"]


def test_copies_at_the_same_time_count_once(tmp_path: Path) -> None:
    sender = SENDERS[0]
    with served((hook(sender, secret_file(tmp_path, sender.secret)),)) as web:
        with ThreadPoolExecutor(16) as pool:
            assert set(pool.map(lambda _: deliver(web, sender), range(64))) == {202}
        assert web.daemon.looks == ["east"]


def test_the_secret_tells_which_source_is_meant(tmp_path: Path) -> None:
    sender = SENDERS[0]
    east = hook(sender, secret_file(tmp_path, sender.secret, "east"))
    west = hook(sender, secret_file(tmp_path, sender.other, "west"), source="west")
    both = hook(sender, secret_file(tmp_path, sender.other, "both"), source="both")
    with served((east, west, both)) as web:
        assert deliver(web, sender, sender.secret, "id-1") == 202
        assert web.daemon.looks == ["east"]
        assert deliver(web, sender, sender.other, "id-2") == 202
        assert web.daemon.looks == ["east", "both", "west"]


def test_senders_do_not_open_each_others_doors(tmp_path: Path) -> None:
    secret = "the same for both"
    hooks = (
        Hook("east", WebhookType.GITHUB, (secret_file(tmp_path, secret, "one"),)),
        Hook("west", WebhookType.GITLAB, (secret_file(tmp_path, secret, "two"),)),
    )
    with served(hooks) as web:
        assert web.ask("POST", "/hook/gitlab", github(secret, BODY, "id"), BODY).status == 401
        assert web.ask("POST", "/hook/github", {"X-Gitlab-Token": secret}, BODY).status == 401
        assert web.daemon.looks == []


def test_an_old_signed_delivery_is_refused(tmp_path: Path) -> None:
    sender = next(one for one in SENDERS if one.name == "gitlab-signed")
    with served((hook(sender, secret_file(tmp_path, sender.secret)),)) as web:
        web.clock.time = NOW + 3600
        assert web.ask("POST", "/hook/gitlab", gitlab_signed(sender.secret, BODY, "x"), BODY).status == 401
        web.clock.time = NOW + 60
        assert web.ask("POST", "/hook/gitlab", gitlab_signed(sender.secret, BODY, "x"), BODY).status == 202


class Failing(Daemon):
    """Cannot be asked for a look at first."""

    def look_now(self, source: str) -> None:
        if not self.unwell:
            super().look_now(source)
        else:
            raise RuntimeError(self.unwell)


def test_a_delivery_whose_look_failed_may_come_again(tmp_path: Path) -> None:
    sender = SENDERS[0]
    daemon = Failing(unwell="not now")
    with served((hook(sender, secret_file(tmp_path, sender.secret)),), daemon=daemon) as web:
        assert deliver(web, sender) == 500
        daemon.unwell = ""
        assert deliver(web, sender) == 202
        assert web.daemon.looks == ["east"]


@ALL
def test_no_secret_is_told(sender: Sender, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with served((hook(sender, secret_file(tmp_path, sender.secret)),)) as web:
        for secret, identity in ((sender.secret, "a"), (sender.secret, "a"), (sender.other, "b")):
            deliver(web, sender, secret, identity)
        told = web.metrics.text().decode() + web.redactor.clean(caplog.text)
        assert web.redactor.clean(f"<{sender.secret}>") == "<***>"
    for secret in (sender.secret, sender.other):
        assert secret not in caplog.text
        assert secret not in told
