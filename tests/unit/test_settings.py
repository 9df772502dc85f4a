from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.core.model import Arch
from reconciler.errors import InvalidInput
from reconciler.process import run
from reconciler.settings import (
    Address,
    BuilderSettings,
    BuilderType,
    ClusterMode,
    ClusterSettings,
    Delivery,
    ForgeSettings,
    ForgeType,
    JobSettings,
    PreviewSettings,
    Privilege,
    RegistrySettings,
    Settings,
    Source,
    StorageDriver,
    Toleration,
    Vanished,
    Verification,
    Verify,
    Web,
    Webhook,
    WebhookType,
    WriteBack,
    read_settings,
)
from tests.unit.documents.cases import Bad, Good, changed
from tests.unit.documents.settings_cases import (
    BAD_BRANCHES,
    BAD_SETTINGS,
    CLUSTER,
    DAEMON,
    GOOD_BRANCHES,
    GOOD_SETTINGS,
    PREVIEW,
    REQUESTS,
    SETTINGS,
)


def read(text: str) -> Settings:
    return read_settings(text.encode(), "reconciler-config.yaml")


def test_all_that_a_configuration_says() -> None:
    assert read(SETTINGS) == Settings(
        source=Source("https://git.example.com/acme/machine-os.git", "main", path="clusters/east"),
        write_back=WriteBack("status"),
        instance="default",
        registry=RegistrySettings(("127.0.0.1:5000",), "auth.json", "/etc/ca.pem"),
        builder=BuilderSettings(BuilderType.LOCAL, 2, StorageDriver.VFS, 7200.0),
        cluster=ClusterSettings(ClusterMode.NONE),
        architectures=(Arch.AMD64, Arch.ARM64),
        deliver=(Delivery.COMMIT,),
        web=Web(Address("127.0.0.1", 8080)),
    )


def test_every_key_but_the_url_has_a_default() -> None:
    """The defaults of the file and those of the values are the same ones."""
    url = "https://git.example.com/acme/machine-os.git"
    assert read(SETTINGS[: SETTINGS.index("  branch")]) == Settings(Source(url), WriteBack("main"))


def test_status_goes_to_the_source_branch() -> None:
    text = changed(changed(SETTINGS, "branch: main", "branch: release"), "{branch: status}", "{}")
    assert read(text).write_back.branch == "release"


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1.0), ("90s", 90.0), ("5m", 300.0), ("1h", 3600.0), ("2d", 172800.0)]
)
def test_durations_are_seconds(text: str, seconds: float) -> None:
    assert read(changed(SETTINGS, "60s", text)).source.interval == seconds


def test_an_ipv6_address_has_no_brackets() -> None:
    assert read(changed(SETTINGS, '"127.0.0.1:8080"', '"[::1]:80"')).web == Web(Address("::1", 80))


def test_all_that_a_cluster_may_be_asked() -> None:
    found = read(CLUSTER)
    assert found.cluster == ClusterSettings(
        ClusterMode.KUBECONFIG, "kube/config", "east", "machine-os", Vanished.DROP
    )
    assert found.builder.type is BuilderType.JOB
    assert found.builder.job == JobSettings(
        image="quay.io/buildah/stable:v1.41.0",
        service_account="builder",
        privilege=Privilege.ROOT,
        tolerations=(
            Toleration("dedicated", "Equal", "builds", "NoSchedule"),
            Toleration(operator="Exists"),
        ),
        node_selector=(("example.com/builds", "yes"),),
        requests=(("cpu", "2"),),
        limits=(("memory", "8Gi"),),
        runtime_class="kata",
        priority_class="low",
        attempts=3,
        ttl=7 * 86400.0,
        staging="registry.example.com/os/staging",
        trust_bundle="ca",
    )
    assert found.deliver == tuple(Delivery)
    assert found.write_back.manifests == "manifests/east"


def test_all_that_a_daemon_may_be_told() -> None:
    found = read(DAEMON)
    assert found.source == Source(
        "https://git.example.com/acme/machine-os.git",
        tag="v4.20.1",
        interval=5.0,
        resync=3600.0,
        deadline=300.0,
        credentials="/etc/secrets/read",
        verify=Verify(Verification.ALL, "keys", "1" * 40),
    )
    assert found.source.revision == "refs/tags/v4.20.1"
    assert found.write_back == WriteBack("status", "/etc/secrets/push", "Bump $pools ($count) for $$1")
    assert found.web == Web(
        Address("127.0.0.1", 8080),
        (
            Webhook(WebhookType.GITHUB, ("/etc/hooks/new", "/etc/hooks/old")),
            Webhook(WebhookType.GENERIC, ("hook",)),
        ),
    )


def test_all_that_a_pull_request_needs() -> None:
    found = read(REQUESTS)
    assert found.write_back == WriteBack("status", proposal="bot/images")
    url = "https://gitlab.example.com/api/v4"
    assert found.forge == ForgeSettings(ForgeType.GITLAB, url, "os/east/machine-os", "token")


def test_all_that_previews_may_be_told() -> None:
    found = read(PREVIEW)
    assert found.preview == PreviewSettings(30.0, True, "show it", 5)
    assert found.forge is not None
    usual = changed(PREVIEW, "interval: 30s, forks: true, label: show it, perAuthor: 5", "")
    assert read(usual).preview == PreviewSettings(60.0, False, "", 30)
    assert read(SETTINGS).preview is None


def test_the_branch_of_a_pull_request_tells_daemons_apart() -> None:
    usual = changed(REQUESTS, "branch: bot/images", "")
    texts = [
        usual,
        changed(usual, "branch: status, ", ""),
        changed(usual, ", path: clusters/east", ""),
        changed(usual, "clusters/east", "clusters/west"),
        usual + "instance: east\n",
    ]
    names = [read(text).write_back.proposal for text in texts]
    assert len(set(names)) == len(names)
    assert names[2] == "reconciler/default/status"
    assert names[0].startswith("reconciler/default.")
    assert read(SETTINGS).write_back.proposal == ""


def test_the_source_is_one_revision() -> None:
    assert read(SETTINGS).source.revision == "main"
    assert read(changed(DAEMON, "tag: v4.20.1", f"commit: {'a' * 40}")).source.revision == "a" * 40


@pytest.mark.parametrize("case", GOOD_SETTINGS, ids=lambda case: case.name)
def test_accepts(case: Good) -> None:
    assert read(case.text).source.url


@pytest.mark.parametrize("case", BAD_SETTINGS, ids=lambda case: case.name)
def test_refuses(case: Bad) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(case.text)
    (fault,) = caught.value.faults
    assert (fault.path, fault.line) == ("reconciler-config.yaml", case.line)
    assert case.message in fault.message


@pytest.mark.parametrize(
    "case",
    [c for c in BAD_SETTINGS if c.name.startswith("url") and "secret" in c.name],
    ids=lambda case: case.name,
)
def test_messages_never_repeat_a_credential(case: Bad) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(case.text)
    assert "secret" not in str(caught.value)


def test_every_fault_is_told_at_once() -> None:
    text = SETTINGS
    for old, new in (
        ("branch: main", "brunch: main"),
        ("60s", "soon"),
        ("[commit]", "[nodepool]"),
        ("web:", "wep:"),
    ):
        text = changed(text, old, new)
    with pytest.raises(InvalidInput) as caught:
        read(text)
    assert [(fault.line, fault.hint) for fault in caught.value.faults] == [
        (5, "did you mean branch?"),
        (7, "write it like 90s, 5m, 1h or 7d, and not zero"),
        (14, "this comes with a later release"),
        (15, "did you mean web?"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no document of kind ReconcilerConfig"),
        (changed(SETTINGS, "v1alpha1", "v1"), "holds no document of kind ReconcilerConfig"),
        (SETTINGS + "---\n" + SETTINGS, "holds more than one document of kind ReconcilerConfig"),
        (SETTINGS + "instance: other\n", "key 'instance' is given twice"),
        (changed(SETTINGS, "{mode: none}", "&c {mode: none}"), "anchor '&c' is not allowed"),
    ],
)
def test_a_file_holds_one_configuration(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(text)


def test_git_agrees_on_branch_names() -> None:
    env = {"PATH": "/usr/bin:/bin"}
    for names, accepted in ((GOOD_BRANCHES, True), (BAD_BRANCHES, False)):
        for escaped in names:
            name = escaped.encode().decode("unicode_escape") if "\\" in escaped else escaped
            # outside a repository git takes HEAD here, and refuses it where a branch is made
            argv = ["git", "check-ref-format", "--branch", name]
            finished = run(argv, env=env, timeout=30, cwd=Path("/"))
            assert (finished.status == 0 and name not in ("HEAD", "@")) is accepted, name
