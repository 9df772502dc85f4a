"""Who we are, from each place that says it, and what becomes of it with time."""

from __future__ import annotations

import base64
import json
import os
import stat
import textwrap
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import Configuration

from reconciler.adapters.cluster.api import KubernetesApi
from reconciler.adapters.cluster.connect import Connection, connect, in_cluster
from reconciler.adapters.cluster.kinds import NODES
from reconciler.adapters.cluster.login import Login
from reconciler.errors import ClusterError, ClusterUnavailable
from reconciler.redaction import MASK, Redactor
from reconciler.settings import ClusterMode, ClusterSettings
from tests.adapters.cluster.server import ApiServer
from tests.adapters.cluster.support import QUICK, Sleeper
from tests.servers.proxy import FaultProxy
from tests.servers.registry import Certificate, self_signed

PLACE = "/api/v1/nodes/n"
POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """What the kubelet mounts into a pod."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("pod-token-1\n")
    (folder / "namespace").write_text("the-pods\n")
    (folder / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    return folder


def kubeconfig(
    path: Path,
    url: str,
    user: Mapping[str, Any] | None = None,
    *,
    namespace: str = "theirs",
    authority: str = "",
) -> Path:
    """Write one with a single context."""
    context = {"cluster": "c", "user": "u"} | ({"namespace": namespace} if namespace else {})
    ca = {"certificate-authority": authority} if authority else {}
    found = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "first",
        "clusters": [{"name": "c", "cluster": {"server": url} | ca}],
        "users": [{"name": "u", "user": dict(user or {"token": "file-token-1"})}],
        "contexts": [
            {"name": "first", "context": context},
            {"name": "other", "context": {**context, "namespace": "others"}},
        ],
    }
    path.write_text(yaml.safe_dump(found))
    return path


def opened(
    path: Path, redactor: Redactor | None = None, *, context: str = "", namespace: str = ""
) -> Connection:
    where = ClusterSettings(ClusterMode.KUBECONFIG, str(path), context, namespace)
    return connect(where, dict(os.environ), redactor or Redactor())


def api_of(connection: Connection, redactor: Redactor | None = None) -> KubernetesApi:
    return KubernetesApi(connection, Sleeper(), redactor or Redactor(), limits=QUICK)


def certificate(folder: Path) -> Certificate:
    folder.mkdir()
    return self_signed(folder)


def tokens(server: ApiServer) -> list[str]:
    return [asked.headers.get("authorization", "") for asked in server.asked]


# -- in a pod


def test_a_pod_speaks_as_its_service_account(account: Path) -> None:
    login = in_cluster(POD, account)
    redactor = Redactor()
    session = Connection(lambda: login, redactor).session()
    assert (session.host, session.namespace) == ("https://10.96.0.1:443", "the-pods")
    assert session.headers["Authorization"] == "bearer pod-token-1"
    assert "pod-token-1" not in redactor.clean("with pod-token-1 in it")
    assert login.configuration.ssl_ca_cert == str(account / "ca.crt")
    assert login.configuration.verify_ssl


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_what_is_no_pod_is_said(account: Path, missing: str) -> None:
    (account / missing).unlink()
    with pytest.raises(ClusterError, match="does not run in a pod") as caught:
        in_cluster(POD, account)
    assert "kubeconfig" in caught.value.hint
    with pytest.raises(ClusterError, match="does not run in a pod"):
        in_cluster({}, account)


def test_an_ipv6_service_has_brackets(account: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert in_cluster(environ, account).configuration.host == "https://[fd00::1]:6443"


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_file_that_is_replaced_counts_at_once(account: Path, name: str) -> None:
    now = [0.0]
    connection = Connection(lambda: in_cluster(POD, account), Redactor(), monotonic=lambda: now[0])
    first = connection.session()
    assert connection.session() is first
    now[0] += 11
    assert connection.session() is first
    fresh = account / "fresh"
    fresh.write_text("pod-token-2")
    fresh.replace(account / name)
    second = connection.session()
    assert second is not first
    assert connection.session() is second
    if name == "token":
        assert second.headers["Authorization"] == "bearer pod-token-2"


def test_a_login_that_fails_leaves_the_one_that_is_good(account: Path) -> None:
    now = [0.0]
    connection = Connection(lambda: in_cluster(POD, account), Redactor(), monotonic=lambda: now[0])
    first = connection.session()
    now[0] += 11
    (account / "token").unlink()
    assert connection.session() is first
    (account / "token").write_text("pod-token-3")
    assert connection.session() is first, "not at every request"
    now[0] += 11
    assert connection.session().headers["Authorization"] == "bearer pod-token-3"


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "gr\u00fc\u00df"])
def test_a_token_that_is_none_is_not_sent_and_not_shown(account: Path, token: str) -> None:
    (account / "token").write_text(token)
    with pytest.raises(ClusterError) as caught:
        Connection(lambda: in_cluster(POD, account), Redactor()).session()
    assert token not in caught.value.message


# -- time


def test_a_session_ends_with_its_hour_and_with_its_login() -> None:
    clock = {"monotonic": 0.0, "now": 5000.0}
    made: list[Login] = []

    def log_in() -> Login:
        made.append(Login(Configuration(host="http://h"), expires=clock["now"] + 600))
        return made[-1]

    connection = Connection(
        log_in, Redactor(), now=lambda: clock["now"], monotonic=lambda: clock["monotonic"]
    )
    first = connection.session()
    clock["monotonic"] += 3000
    assert connection.session() is first
    clock["monotonic"] += 601
    second = connection.session()
    assert second is not first
    clock["now"] += 530
    clock["monotonic"] += 20
    assert connection.session() is second
    clock["now"] += 20
    assert connection.session() is not second
    assert len(made) == 3


def test_a_login_that_fails_is_not_tried_at_every_request() -> None:
    now = [0.0]
    tries = []

    def log_in() -> Login:
        tries.append(now[0])
        raise ClusterUnavailable("the plugin failed", hint="look")

    connection = Connection(log_in, Redactor(), monotonic=lambda: now[0])
    for _ in range(5):
        with pytest.raises(ClusterUnavailable, match="the plugin failed") as caught:
            connection.session()
        assert caught.value.hint == "look"
        now[0] += 4
    assert tries == [0.0, 12.0]


# -- refused


def test_a_token_that_is_not_accepted_is_read_again(server: ApiServer, tmp_path: Path) -> None:
    now = [0.0]
    names = iter(["old", "new", "newest"])
    connection = Connection(
        lambda: Login(Configuration(host=server.url, api_key={"BearerToken": f"Bearer {next(names)}-token"})),
        Redactor(),
        monotonic=lambda: now[0],
    )
    api = api_of(connection)
    api.get(NODES, "n")
    now[0] += 60
    server.answer(f"GET {PLACE}", 401)
    assert api.get(NODES, "n") is None
    assert tokens(server) == ["Bearer old-token", "Bearer old-token", "Bearer new-token"]
    server.answer(f"GET {PLACE}", 401)
    with pytest.raises(ClusterError, match="401"):
        api.get(NODES, "n")
    assert tokens(server)[3:] == ["Bearer new-token"], "a login was made a moment ago"
    del tmp_path


def test_a_server_that_nobody_vouches_for_gets_no_token(server: ApiServer, tmp_path: Path) -> None:
    with FaultProxy(server.host, tls=certificate(tmp_path / "theirs")) as secure:
        path = kubeconfig(
            tmp_path / "config",
            f"https://127.0.0.1:{secure.port}",
            authority=str(certificate(tmp_path / "ours").cert),
        )
        with pytest.raises(
            ClusterUnavailable, match=r"cannot be trusted.*CERTIFICATE_VERIFY_FAILED"
        ) as caught:
            api_of(opened(path)).get(NODES, "n")
    assert "certificate authority" in caught.value.hint
    assert server.asked == []


@pytest.mark.parametrize("same", [True, False])
def test_a_certificate_authority_that_is_replaced_is_read_again(
    server: ApiServer, tmp_path: Path, same: bool
) -> None:
    """In its file, or by another login: of a kubeconfig's own data, say."""
    now = [0.0]
    old, new = certificate(tmp_path / "old"), certificate(tmp_path / "new")
    authorities = [old.cert, old.cert if same else new.cert]
    with FaultProxy(server.host, tls=new) as secure:
        url = f"https://127.0.0.1:{secure.port}"
        connection = Connection(
            lambda: Login(Configuration(host=url, ssl_ca_cert=str(authorities.pop(0)))),
            Redactor(),
            monotonic=lambda: now[0],
        )
        api = api_of(connection)
        with pytest.raises(ClusterUnavailable, match="cannot be trusted"):
            api.get(NODES, "n")
        if same:
            old.cert.write_bytes(new.cert.read_bytes())
        now[0] += 11
        assert api.get(NODES, "n") is None


@pytest.mark.parametrize("what", ["cert_file", "ssl_ca_cert"])
def test_a_file_that_is_not_there_is_an_error_of_ours(server: ApiServer, tmp_path: Path, what: str) -> None:
    with FaultProxy(server.host, tls=self_signed(tmp_path)) as secure:
        made = Configuration(host=f"https://127.0.0.1:{secure.port}", **{what: str(tmp_path / "none")})
        with pytest.raises(ClusterError):
            api_of(Connection(lambda: Login(made), Redactor())).get(NODES, "n")


# -- kubeconfigs


def test_a_kubeconfig_says_where_who_and_which_namespace(server: ApiServer, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", server.url)
    redactor = Redactor()
    connection = opened(path, redactor)
    api_of(connection).get(NODES, "n")
    assert tokens(server) == ["Bearer file-token-1"]
    assert connection.namespace == "theirs"
    assert opened(path, context="other").namespace == "others"
    assert opened(path, namespace="ours").namespace == "ours"
    assert "file-token-1" not in redactor.clean("file-token-1")
    connection.close()


def test_a_namespace_that_nobody_names_is_asked_for(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "http://h", namespace="")
    with pytest.raises(ClusterError, match="no namespace") as caught:
        _ = opened(path).namespace
    assert caught.value.hint == "set cluster.namespace"


def test_the_usual_places_are_those_of_kubectl(server: ApiServer, tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube" / "config", server.url, namespace="home")
    one = kubeconfig(tmp_path / "one", server.url, namespace="first")
    two = kubeconfig(tmp_path / "two", server.url, namespace="second")
    usual = ClusterSettings(mode=ClusterMode.KUBECONFIG)
    assert connect(usual, {"HOME": str(tmp_path)}, Redactor()).namespace == "home"
    several = {"HOME": str(tmp_path), "KUBECONFIG": f"{tmp_path}/none:{one}:{two}"}
    assert connect(usual, several, Redactor()).namespace == "first"


def test_a_changed_kubeconfig_counts(server: ApiServer, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", server.url)
    connection = opened(path)
    first = connection.session()
    kubeconfig(path, server.url, {"token": "file-token-22"})
    connection._tried -= 60  # the last login was a minute ago
    assert connection.session().headers["Authorization"] == "Bearer file-token-22"
    assert first.headers["Authorization"] == "Bearer file-token-1"


def test_a_token_file_counts_from_the_kubeconfigs_folder_and_may_change(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("mounted-1")
    connection = opened(kubeconfig(tmp_path / "config", "http://h", {"tokenFile": "token"}))
    assert connection.session().headers["Authorization"] == "Bearer mounted-1"
    (tmp_path / "token").write_text("mounted-22")
    connection._tried -= 60
    assert connection.session().headers["Authorization"] == "Bearer mounted-22"


def test_a_password_is_a_secret(tmp_path: Path) -> None:
    redactor = Redactor()
    user = {"username": "me", "password": "open sesame"}
    session = opened(kubeconfig(tmp_path / "config", "http://h", user), redactor).session()
    assert base64.b64decode(session.headers["Authorization"].split()[1]) == b"me:open sesame"
    assert "sesame" not in redactor.clean("open sesame")


ODD = {
    "empty": "",
    "a list": "[1, 2]",
    "no context": "{}",
    "no YAML": "a: [",
    "contexts that are none": "current-context: x\ncontexts: 3\n",
    "no such cluster": """
        current-context: x
        contexts: [{name: x, context: {cluster: none, user: u}}]
        users: [{name: u, user: {token: s3cr3t-1}}]
        clusters: []""",
    "no cluster": """
        current-context: x
        contexts: [{name: x, context: {user: u}}]
        users: [{name: u, user: {token: s3cr3t-1}}]
        clusters: [{name: c, cluster: {server: "http://h"}}]""",
    "a user of the wrong shape": """
        current-context: x
        contexts: [{name: x, context: {cluster: c, user: u}}]
        users: [{name: u, token: s3cr3t-1}]
        clusters: [{name: c, cluster: {server: "http://h"}}]""",
    "no name": "users: [{user: {token: s3cr3t-1}}]",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_an_odd_kubeconfig_is_an_error_without_its_secrets(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(textwrap.dedent(text))
    with pytest.raises(ClusterError) as caught:
        opened(path).session()
    assert type(caught.value) is ClusterError
    assert str(path) in caught.value.message
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_no_kubeconfig_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="there is no kubeconfig") as caught:
        opened(tmp_path / "none").session()
    assert "cluster.kubeconfig" in caught.value.hint


def test_no_cluster_is_said() -> None:
    with pytest.raises(ClusterError, match="no cluster is configured"):
        connect(ClusterSettings(), {}, Redactor())


def test_an_auth_provider_is_refused(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "http://h", {"auth-provider": {"name": "oidc", "config": {}}})
    with pytest.raises(ClusterError, match="auth-provider") as caught:
        opened(path).session()
    assert "exec plugin" in caught.value.hint


# -- plugins


def plugin(folder: Path, script: str, **more: Any) -> dict[str, Any]:
    """A user whose credentials a program makes."""
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", **more}}


def credential(**status: str) -> str:
    found = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return json.dumps(found)


def test_a_plugin_is_run_as_kubectl_runs_it(server: ApiServer, tmp_path: Path) -> None:
    script = (
        f"""printf '%s' "$1 $STAGE $KUBERNETES_EXEC_INFO" > seen; echo '{credential(token="made-token-1")}'"""
    )
    user = plugin(
        tmp_path,
        script,
        args=["get-token"],
        env=[{"name": "STAGE", "value": "test"}],
        provideClusterInfo=True,
    )
    redactor = Redactor()
    api_of(opened(kubeconfig(tmp_path / "config", server.url, user), redactor)).get(NODES, "n")
    assert tokens(server) == ["Bearer made-token-1"]
    word, stage, info = (tmp_path / "seen").read_text().split(" ", 2)
    assert (word, stage) == ("get-token", "test")
    told = json.loads(info)
    assert told["apiVersion"] == "client.authentication.k8s.io/v1"
    assert told["spec"] == {"interactive": False, "cluster": {"server": server.url}}
    assert redactor.clean("made-token-1") == MASK


def test_a_plugins_certificate_is_used(tmp_path: Path) -> None:
    status = credential(clientCertificateData="CERT\n", clientKeyData="KEY of mine\n")
    (tmp_path / "answer").write_text(status)
    login_files = []
    user = plugin(tmp_path, "cat answer")
    path = kubeconfig(tmp_path / "config", "https://h", user)
    redactor = Redactor()
    session = opened(path, redactor).session()
    assert "mine" not in redactor.clean("KEY of mine")
    pool = session.rest.pool_manager.connection_pool_kw
    login_files += [Path(pool["cert_file"]).read_text(), Path(pool["key_file"]).read_text()]
    assert login_files == ["CERT\n", "KEY of mine\n"]
    assert stat.S_IMODE(Path(pool["key_file"]).stat().st_mode) == 0o600


def test_a_plugins_token_is_made_anew_before_it_ends(tmp_path: Path) -> None:
    (tmp_path / "answer").write_text(credential(token="t-1", expirationTimestamp="2001-01-01T00:10:00Z"))
    path = kubeconfig(tmp_path / "config", "http://h", plugin(tmp_path, "cat answer"))
    connection = opened(path)
    assert connection.session().expires == 978307800.0
    (tmp_path / "answer").write_text(credential(token="t-2", expirationTimestamp="2999-01-01T00:10:00Z"))
    connection._tried -= 60
    assert connection.session().headers["Authorization"] == "Bearer t-2"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'sign in first' >&2; exit 7", "failed with 7: sign in first"),
        ("echo hello", "did not print an ExecCredential"),
        ("echo '{\"status\": []}'", "did not print an ExecCredential"),
        ("echo '{\"status\": {}}'", "neither a token nor a certificate"),
    ],
)
def test_a_plugin_that_fails_is_worth_another_try(tmp_path: Path, script: str, said: str) -> None:
    path = kubeconfig(tmp_path / "config", "http://h", plugin(tmp_path, script))
    with pytest.raises(ClusterUnavailable, match=said):
        opened(path).session()


def test_a_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.adapters.cluster.kubeconfig._PLUGIN_SECONDS", 0.5)
    path = kubeconfig(tmp_path / "config", "http://h", plugin(tmp_path, "echo $$ > pid; sleep 1000"))
    with pytest.raises(ClusterUnavailable, match=r"ended after 0.5 s"):
        opened(path).session()
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_plugin_that_is_missing_says_how_to_get_it(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "v1", "command": "no-such-plugin", "installHint": "pip install it"}}
    with pytest.raises(ClusterError, match="no-such-plugin is not here") as caught:
        opened(kubeconfig(tmp_path / "config", "http://h", user)).session()
    assert caught.value.hint == "pip install it"


def test_a_plugin_that_may_not_be_run_is_said(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("no program")
    user = {"exec": {"apiVersion": "v1", "command": "./plain"}}
    with pytest.raises(ClusterError, match="cannot be run: Permission denied"):
        opened(kubeconfig(tmp_path / "config", "http://h", user)).session()
