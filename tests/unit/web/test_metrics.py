from __future__ import annotations

import re
from collections import Counter
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from reconciler import __version__
from reconciler.core.model import Arch
from reconciler.daemon.observer import Observer
from reconciler.daemon.observer import Outcome as PassOutcome
from reconciler.ports import Cause, Request
from reconciler.reconcile.state import State
from reconciler.settings import WebhookType
from reconciler.web import metrics as module
from reconciler.web.metrics import IMAGE_STATES, PASS_OUTCOMES, Metrics
from reconciler.web.webhook import Outcome

Labels = frozenset[tuple[str, str]]


def families(metrics: Metrics) -> dict[str, Metric]:
    """As Prometheus reads them."""
    return {family.name: family for family in text_string_to_metric_families(metrics.text().decode())}


def series(metrics: Metrics, name: str) -> dict[Labels, float]:
    """Every sample of this name."""
    found = [
        sample for family in families(metrics).values() for sample in family.samples if sample.name == name
    ]
    assert len({frozenset(sample.labels.items()) for sample in found}) == len(found), (
        "a series is there twice"
    )
    return {frozenset(sample.labels.items()): sample.value for sample in found}


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return series(metrics, name).get(frozenset(labels.items()))


def exercised() -> Metrics:
    """Everything has happened once."""
    metrics = Metrics(["east", "west"])
    metrics.request(Request("git", "ls-remote", "ok"))
    metrics.request(Request("registry", "PUT", "201"))
    metrics.request(Request("kubernetes", "list nodes", "200"))
    metrics.request(Request("forge", "POST", "201"))
    metrics.previewed("east", 0.4, "updated")
    metrics.passed("east", 0.2, "settled")
    metrics.polled("east")
    metrics.succeeded("east", 1_700_000_000.5)
    metrics.built("worker", "arm64", 420.0, "succeeded")
    metrics.avoided("worker", "amd64", 3)
    metrics.webhook("github", "accepted")
    metrics.state("east", {("worker", "arm64"): "current", ("worker", "amd64"): "to build"}, 4, 2)
    metrics.nodes("east", {("worker", "done"): 4})
    return metrics


EXPECTED = {
    "reconciler_build_info": ("gauge", {"version"}),
    "reconciler_git_requests": ("counter", {"operation", "outcome"}),
    "reconciler_registry_requests": ("counter", {"method", "code"}),
    "reconciler_kubernetes_requests": ("counter", {"verb", "code"}),
    "reconciler_forge_requests": ("counter", {"method", "code"}),
    "reconciler_preview_duration_seconds": ("histogram", {"repository", "outcome"}),
    "reconciler_webhooks": ("counter", {"type", "outcome"}),
    "reconciler_reconcile_duration_seconds": ("histogram", {"repository", "outcome"}),
    "reconciler_polls": ("counter", {"repository"}),
    "reconciler_last_success_timestamp_seconds": ("gauge", {"repository"}),
    "reconciler_build_duration_seconds": ("histogram", {"arch", "outcome"}),
    "reconciler_builds": ("counter", {"pool", "arch", "outcome"}),
    "reconciler_builds_avoided": ("counter", {"pool", "arch"}),
    "reconciler_queue_depth": ("gauge", {"repository"}),
    "reconciler_builds_running": ("gauge", {"repository"}),
    "reconciler_image_state": ("gauge", {"repository", "pool", "arch", "state"}),
    "reconciler_nodes": ("gauge", {"repository", "pool", "state"}),
}


def test_these_are_the_metrics() -> None:
    ours = {name: found for name, found in families(exercised()).items() if name.startswith("reconciler_")}
    assert {
        name: (found.type, {label for sample in found.samples for label in sample.labels} - {"le"})
        for name, found in ours.items()
    } == EXPECTED


def test_each_is_documented_and_named_as_prometheus_wants_it() -> None:
    for name, found in families(exercised()).items():
        if not name.startswith("reconciler_"):
            continue
        assert re.fullmatch(r"[A-Z][^\n]{20,120}\.", found.documentation), name
        for sample in found.samples:
            assert re.fullmatch(r"[a-z_]+", sample.name)
            assert (found.type == "counter") == sample.name.endswith("_total")
        if "duration" in name or "timestamp" in name:
            assert name.endswith("_seconds")


def test_what_is_counted() -> None:
    metrics = exercised()
    assert value(metrics, "reconciler_git_requests_total", operation="ls-remote", outcome="ok") == 1
    assert value(metrics, "reconciler_registry_requests_total", method="PUT", code="201") == 1
    metrics.request(Request("kubernetes", "steal secrets", "200"))
    assert value(metrics, "reconciler_kubernetes_requests_total", verb="list", code="200") == 1
    assert value(metrics, "reconciler_kubernetes_requests_total", verb="other", code="200") == 1
    assert value(metrics, "reconciler_forge_requests_total", method="POST", code="201") == 1
    metrics.request(Request("forge", "STEAL", "a lot"))
    assert value(metrics, "reconciler_forge_requests_total", method="other", code="other") == 1
    assert (
        value(metrics, "reconciler_preview_duration_seconds_count", repository="east", outcome="updated") == 1
    )
    assert value(metrics, "reconciler_webhooks_total", type="github", outcome="accepted") == 1
    assert value(metrics, "reconciler_polls_total", repository="east") == 1
    assert value(metrics, "reconciler_last_success_timestamp_seconds", repository="east") == 1_700_000_000.5
    took = "reconciler_reconcile_duration_seconds"
    assert value(metrics, f"{took}_sum", repository="east", outcome="settled") == 0.2
    assert value(metrics, f"{took}_bucket", repository="east", outcome="settled", le="0.1") == 0
    assert value(metrics, f"{took}_bucket", repository="east", outcome="settled", le="0.25") == 1
    took = "reconciler_build_duration_seconds"
    assert value(metrics, f"{took}_sum", arch="arm64", outcome="succeeded") == 420
    assert value(metrics, "reconciler_builds_total", pool="worker", arch="arm64", outcome="succeeded") == 1
    assert value(metrics, "reconciler_builds_avoided_total", pool="worker", arch="amd64") == 3
    assert value(metrics, "reconciler_queue_depth", repository="east") == 4
    assert value(metrics, "reconciler_builds_running", repository="east") == 2
    assert value(metrics, "reconciler_build_info", version=__version__) == 1


def test_every_image_is_in_one_state() -> None:
    metrics = exercised()
    images = {"repository": "east", "pool": "worker"}
    assert series(metrics, "reconciler_image_state") == {
        frozenset({**images, "arch": "amd64", "state": "to_build"}.items()): 1,
        frozenset({**images, "arch": "arm64", "state": "current"}.items()): 1,
    }
    metrics.state("east", {("worker", "amd64"): "building"}, 0, 1)
    assert series(metrics, "reconciler_image_state") == {
        frozenset({**images, "arch": "amd64", "state": "building"}.items()): 1
    }


def test_nodes_are_counted_by_pool_and_state() -> None:
    metrics = exercised()
    metrics.nodes("east", {("worker", "done"): 3, ("worker", "failed"): 1, ("worker", "dancing"): 1})
    assert value(metrics, "reconciler_nodes", repository="east", pool="worker", state="failed") == 1
    assert value(metrics, "reconciler_nodes", repository="east", pool="worker", state="other") == 1
    metrics.nodes("east", {("worker", "done"): 4})
    labels = {"repository": "east", "pool": "worker", "state": "done"}
    assert series(metrics, "reconciler_nodes") == {frozenset(labels.items()): 4}


def test_what_has_not_happened_yet_is_zero() -> None:
    metrics = Metrics(["east"])
    for name in ("reconciler_polls_total", "reconciler_queue_depth", "reconciler_builds_running"):
        assert series(metrics, name) == {frozenset({("repository", "east")}): 0}
    assert series(metrics, "reconciler_last_success_timestamp_seconds") == {}


def test_the_words_are_those_of_the_daemon() -> None:
    assert {outcome.value for outcome in PassOutcome} == PASS_OUTCOMES
    metrics = Metrics(["east"])
    observer: Observer = metrics
    for state in State:
        observer.state("east", {("worker", "arm64"): state}, 0, 0)
        ((labels, _),) = series(metrics, "reconciler_image_state").items()
        assert dict(labels)["state"] == state.replace(" ", "_")
    for outcome in ("succeeded", *Cause):
        observer.built("worker", "arm64", 1, outcome)
        assert value(metrics, "reconciler_builds_total", pool="worker", arch="arm64", outcome=outcome) == 1


def test_unknown_words_make_no_series() -> None:
    metrics = Metrics(["east"])
    for number in range(50):
        word = f"word-{number}"
        metrics.request(Request("git", word, word))
        metrics.request(Request("registry", word, word))
        metrics.request(Request("ldap", word, word))
        metrics.passed(word, 1, word)
        metrics.polled(word)
        metrics.succeeded(word, 1)
        metrics.built("worker", word, 1, word)
        metrics.avoided("worker", word)
        metrics.state(word, {("worker", word): word}, 1, 1)
    for name in EXPECTED:
        if name != "reconciler_build_info":
            labels = [sample.labels for sample in families(metrics)[name].samples]
            words = {text for label in labels for key, text in label.items() if key != "le"}
            assert words <= {"other", "east", "worker"}, name


def test_http_status_codes_are_labels_and_nothing_like_them_is() -> None:
    metrics = Metrics([])
    for outcome in ("200", "599", "unavailable", "600", "99", "2000", "200\n", "٢٠٠"):
        metrics.request(Request("registry", "GET", outcome))
    assert {dict(labels)["code"] for labels in series(metrics, "reconciler_registry_requests_total")} == {
        "200", "599", "unavailable", "other",
    }  # fmt: skip


def test_pools_that_are_gone_take_their_series_with_them() -> None:
    metrics = Metrics(["east", "west"])
    for pool in ("worker", "infra"):
        metrics.built(pool, "arm64", 1, "definition")
        metrics.avoided(pool, "arm64")
    metrics.state("east", {("worker", "arm64"): "failed", ("infra", "arm64"): "current"}, 0, 0)
    metrics.state("west", {("infra", "arm64"): "current"}, 0, 0)
    assert pools(metrics) == {"worker", "infra"}
    metrics.state("east", {}, 0, 0)
    assert pools(metrics) == {"infra"}
    metrics.state("west", {}, 0, 0)
    assert pools(metrics) == set()
    metrics.built("infra", "arm64", 1, "definition")
    assert value(metrics, "reconciler_builds_total", pool="infra", arch="arm64", outcome="definition") == 1


def pools(metrics: Metrics) -> set[str]:
    return {
        sample.labels["pool"]
        for family in families(metrics).values()
        for sample in family.samples
        if "pool" in sample.labels
    }


def test_however_many_pools_there_are_the_series_are_not_endless() -> None:
    metrics = Metrics(["east"])
    cells = {(f"pool-{number:05}", arch.value): "current" for number in range(3000) for arch in Arch}
    for pool, arch in cells:
        metrics.built(pool, arch, 1, "succeeded")
        metrics.avoided(pool, arch)
    metrics.state("east", cells, 0, 0)
    for name in ("reconciler_builds_total", "reconciler_builds_avoided_total", "reconciler_image_state"):
        found = series(metrics, name)
        assert len(found) == 5_000 + len(Arch), name
        assert sum(found.values()) == len(cells), "what has no series of its own is counted all the same"
    assert len(pools(metrics)) == 1251


def test_a_pool_may_be_called_other() -> None:
    metrics = Metrics(["east"])
    metrics.state("east", {("other", "arm64"): "current", ("worker", "arm64"): "current"}, 0, 0)
    assert pools(metrics) == {"other", "worker"}


words = st.text(max_size=12)
cells = st.dictionaries(
    st.tuples(words, st.sampled_from([*Arch, "sparc"])), st.sampled_from([*IMAGE_STATES, "odd"]), max_size=6
)


@settings(max_examples=50)
@given(states=st.lists(st.tuples(st.sampled_from(["east", "west"]), cells), min_size=1, max_size=6))
def test_the_last_state_of_each_repository_is_what_shows(
    states: list[tuple[str, dict[tuple[str, str], str]]],
) -> None:
    """Whatever pools are called: quotes, line ends and all."""
    metrics = Metrics(["east", "west"])
    for repository, found in states:
        for pool, arch in found:
            metrics.built(pool, arch, 1, "succeeded")
        metrics.state(repository, found, 0, 0)
    expected: Counter[Labels] = Counter()
    for repository, found in dict(states).items():
        for (pool, arch), state in found.items():
            labels = {
                "repository": repository,
                "pool": pool,
                "arch": arch if arch in set(Arch) else "other",
                "state": state if state in IMAGE_STATES else "other",
            }
            expected[frozenset(labels.items())] += 1
    assert series(metrics, "reconciler_image_state") == expected
    wanted = {pool for found in dict(states).values() for pool, _ in found}
    assert {dict(labels)["pool"] for labels in series(metrics, "reconciler_builds_total")} <= wanted


def test_every_webhook_outcome_and_type_is_a_plain_word() -> None:
    metrics = Metrics([])
    for sender in WebhookType:
        for outcome in Outcome:
            metrics.webhook(sender, outcome)
    assert len(series(metrics, "reconciler_webhooks_total")) == len(WebhookType) * len(Outcome)
    assert all(re.fullmatch(r"[a-z-]+", word) for word in (*WebhookType, *Outcome, *PASS_OUTCOMES))


def test_scrapes_while_everything_changes() -> None:
    metrics = Metrics(["east"])
    failures: list[Exception] = []

    def work(start: int) -> None:
        try:
            for number in range(start, start + 200):
                metrics.built(f"pool-{number}", "arm64", 1, "succeeded")
                metrics.state("east", {(f"pool-{number % 7}", "arm64"): "current"}, number, 0)
                metrics.passed("east", 1, "settled")
        except Exception as error:
            failures.append(error)

    threads = [Thread(target=work, args=(start,)) for start in (0, 1000, 2000)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        families(metrics)
    for thread in threads:
        thread.join()
    assert not failures
    assert (
        value(metrics, "reconciler_reconcile_duration_seconds_count", repository="east", outcome="settled")
        == 600
    )


def test_when_a_series_began_is_not_told() -> None:
    assert b"_created" not in exercised().text()


@pytest.mark.parametrize("name", ["process_open_fds", "process_resident_memory_bytes", "python_info"])
def test_the_process_is_measured_too(name: str) -> None:
    (found,) = series(Metrics([]), name).values()
    assert found > 0


def test_the_content_type_is_that_of_the_text() -> None:
    assert module.CONTENT_TYPE.startswith("text/plain; version=0.0.4")
