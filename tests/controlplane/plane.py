"""The control plane: its servers with their options, its accounts, its namespaces and kinds.

Belongs here: what makes a cluster without kubelets. Does not belong here: where the programs come from (`programs`),
how one runs (`server`), and when tests get one (`fixtures`).

Who may do what is decided by RBAC alone. Everybody bears a token: the admin, the controllers and the scheduler one from
a file, service accounts one that the API server issues. Client certificates would not get through a proxy that ends
TLS, so there are none.
"""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx
import yaml

from reconciler import process
from reconciler.core.model import Arch
from tests.controlplane import nodes
from tests.controlplane.api import Api, ApiError
from tests.controlplane.programs import Programs, Unavailable
from tests.controlplane.server import PATIENCE, Server
from tests.servers.proxy import FaultProxy
from tests.servers.registry import self_signed

PROJECT: Final = Path(__file__).parents[2]
UPSTREAM_CRDS: Final = PROJECT.parent / "shared" / "upstream-crds"
OUR_CRDS: Final = PROJECT / "deploy" / "base" / "crds"
ADMIN: Final = "admin"
_GROUPS: Final = {
    ADMIN: "system:masters",
    # Its controllers would each have an account of their own; here they share one that may do everything.
    "system:kube-controller-manager": "system:masters",
    "system:kube-scheduler": "",
}
# No node-lifecycle: nobody sends heart-beats, and nodes are to stay ready.
_CONTROLLERS: Final = (
    "job-controller",
    "garbage-collector-controller",
    "ttl-after-finished-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "pod-garbage-collector-controller",
    "taint-eviction-controller",
    "clusterrole-aggregation-controller",
)
_TRIES: Final = 5
_TOKEN_SECONDS: Final = 24 * 3600


class ControlPlane:
    """One control plane with its files, logs and credentials below `root`. Starts when entered, and is gone after.

    Raises RuntimeError with the end of a server's log when one does not start.
    """

    def __init__(self, root: Path, programs: Programs) -> None:
        self.root = root
        self.programs = programs
        self._tokens = {user: secrets.token_urlsafe(24) for user in _GROUPS}
        self._clients = ExitStack()
        self._started: list[Server] = []
        self._port = 0

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process. Safe to repeat."""
        self._clients.close()
        for server in reversed(self._started):
            server.kill()
        shutil.rmtree(self.root / "etcd", ignore_errors=True)  # 64 MiB even when empty

    def revive(self) -> None:
        """Start again what a test has killed."""
        for server in self._started:
            if not server.is_running:
                server.start()

    # -- how it is reached

    @property
    def address(self) -> str:
        """`127.0.0.1:PORT` of the API server."""
        return f"127.0.0.1:{self._port}"

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://{self.address}"

    @property
    def ca_file(self) -> Path:
        """What the API server's certificate is checked against: itself."""
        return self.certificate.cert

    def kubeconfig(self, user: str = ADMIN, *, server: str = "") -> Path:
        """A kubeconfig of the admin; `server` is another URL than the API server's own, such as a proxy's."""
        return self._kubeconfig(user, self._tokens[user], server=server)

    def kubeconfig_for(
        self, service_account: str, namespace: str, *, server: str = "", seconds: int = _TOKEN_SECONDS
    ) -> Path:
        """A kubeconfig of a service account that exists, with that namespace; its token is good for `seconds`."""
        token = self.token(service_account, namespace, seconds)
        user = f"system:serviceaccount:{namespace}:{service_account}"
        return self._kubeconfig(user, token, server=server, namespace=namespace)

    def token(self, service_account: str, namespace: str, seconds: int = _TOKEN_SECONDS) -> str:
        """A token for a service account that exists; the API server issues none for less than 600 seconds."""
        asked = self.api.create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token",
            {"spec": {"expirationSeconds": seconds}},
        )
        token: str = asked["status"]["token"]
        return token

    def api_for(self, service_account: str, namespace: str) -> Api:
        """The API as a service account sees it."""
        return self._client(self.token(service_account, namespace))

    def api_at(self, server: str) -> Api:
        """The API as the admin sees it at another URL, such as a proxy's."""
        return self._client(self._tokens[ADMIN], server)

    def proxy(self) -> FaultProxy:
        """A proxy before the API server that knows every exchange; enter it, and give its address to kubeconfigs."""
        trusting = ssl.create_default_context(cafile=str(self.ca_file))
        return FaultProxy(self.address, http=True, tls=self.certificate, target_tls=trusting)

    def kubectl(self, *words: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """Run kubectl, as admin unless told otherwise; returns what it prints. Raises RuntimeError with its words."""
        argv = [str(self.programs.kubectl), f"--kubeconfig={kubeconfig or self.kubeconfig()}", *words]
        env = {"PATH": os.environ["PATH"], "HOME": str(self.root)}
        done = process.run(
            argv, env=env, timeout=PATIENCE, stdin=stdin.encode() if stdin is not None else None
        )
        if done.status:
            raise RuntimeError(f"kubectl {' '.join(words)} failed:\n{done.complaint}")
        return done.stdout.decode()

    # -- what is in it

    def apply(self, text: str, namespace: str = "default") -> list[dict[str, Any]]:
        """Apply every document of a YAML text as admin; returns the objects."""
        return self.api.apply(text, namespace)

    def add_node(
        self,
        name: str,
        arch: Arch,
        *,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        kubelet_port: int = 10250,
    ) -> dict[str, Any]:
        """Register a ready worker of an architecture. `taints` as in a Node: `{"key", "value", "effect"}`."""
        return nodes.add_node(
            self.api, name, arch, labels=labels or {}, taints=taints, kubelet_port=kubelet_port
        )

    def remove_node(self, name: str) -> None:
        """Delete a node and the pods on it. Safe to repeat."""
        nodes.remove_node(self.api, name)

    def create_namespace(self, name: str = "") -> str:
        """Create a namespace and wait until pods can be made in it; returns its name, a new one unless given."""
        name = name or f"test-{secrets.token_hex(5)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.api.create("/api/v1/namespaces", body)
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        self._wait(f"ServiceAccount default of {name}", lambda: self.api.find(account) is not None)
        return name

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace with all in it, without waiting for the end. Pods go at once: no kubelet would confirm."""
        with suppress(ApiError):
            self.api.delete(f"/api/v1/namespaces/{name}")
            self.api.delete(f"/api/v1/namespaces/{name}/pods", grace=0)

    def install_upstream(self) -> list[str]:
        """Install the upstream CRDs; returns their names. Raises Unavailable when they are not on this machine."""
        if not UPSTREAM_CRDS.is_dir():
            raise Unavailable(f"the upstream CRDs are not here: there is no folder {UPSTREAM_CRDS}")
        return self._install(UPSTREAM_CRDS)

    def install_ours(self) -> list[str]:
        """Install the project's CRDs, as far as there are any; returns their names."""
        return self._install(OUR_CRDS)

    def _install(self, folder: Path) -> list[str]:
        made = [crd for path in sorted(folder.glob("*.yaml")) for crd in self.apply(path.read_text())]
        for crd in made:
            self._wait(f"kind {crd['spec']['names']['kind']}", lambda crd=crd: self._serves(crd))  # type: ignore[misc]
        return [crd["metadata"]["name"] for crd in made]

    def _serves(self, crd: Mapping[str, Any]) -> bool:
        """Whether every version of a kind can be read; that is a moment after the CRD is established."""
        spec = crd["spec"]
        versions = [version["name"] for version in spec["versions"] if version["served"]]
        paths = [f"/apis/{spec['group']}/{version}/{spec['names']['plural']}" for version in versions]
        return all(self.api.find(path) is not None for path in paths)

    # -- starting it

    def _start(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        keys = self.root / "service-accounts"
        keys.mkdir(exist_ok=True)
        self.certificate = self_signed(self.root)
        self._signing = self_signed(keys)
        rows = [f'{token},{user},{user},"{_GROUPS[user]}"\n' for user, token in self._tokens.items()]
        (self.root / "tokens.csv").write_text("".join(rows))
        self.etcd = self._somewhere(self._etcd)
        self.apiserver = self._somewhere(self._apiserver)
        self.api = self._client(self._tokens[ADMIN])
        self.controller_manager = self._somewhere(self._controller_manager)
        self.scheduler = self._somewhere(self._scheduler)
        self.create_namespace("tests-ready")  # the controllers work
        self.delete_namespace("tests-ready")

    def _run(self, server: Server) -> Server:
        self._started.append(server)
        server.start()
        return server

    def _somewhere(self, make: Callable[[int], Server]) -> Server:
        """Start a server at a free port; somebody may take it before the server does, so try again."""
        for left in reversed(range(_TRIES)):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            try:
                return self._run(make(port))
            except RuntimeError as error:
                if left == 0 or "address already in use" not in str(error):
                    raise
        raise AssertionError("unreachable")

    def _etcd(self, port: int) -> Server:
        self._etcd_url = url = f"http://127.0.0.1:{port}"
        argv = [
            str(self.programs.etcd),
            f"--data-dir={self.root / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            "--listen-peer-urls=http://127.0.0.1:0",
        ]
        return Server(argv, self.root / "etcd.log", lambda: _answers(f"{url}/health"))

    def _apiserver(self, port: int) -> Server:
        self._port = port
        argv = [
            str(self.programs.apiserver),
            f"--etcd-servers={self._etcd_url}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/24",
            f"--cert-dir={self.root}",
            f"--tls-cert-file={self.certificate.cert}",
            f"--tls-private-key-file={self.certificate.key}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.root / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._signing.cert}",
            f"--service-account-signing-key-file={self._signing.key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--allow-privileged=true",
            "--shutdown-delay-duration=0s",
        ]
        return Server(
            argv, self.root / "kube-apiserver.log", lambda: _answers(f"{self.server}/readyz", self.ca_file)
        )

    def _controller_manager(self, port: int) -> Server:
        return self._client_server(
            "kube-controller-manager",
            self.programs.controller_manager,
            port,
            [
                f"--controllers={','.join(_CONTROLLERS)}",
                f"--service-account-private-key-file={self._signing.key}",
                f"--root-ca-file={self.ca_file}",
            ],
        )

    def _scheduler(self, port: int) -> Server:
        return self._client_server("kube-scheduler", self.programs.scheduler, port, [])

    def _client_server(self, name: str, program: Path, port: int, options: Sequence[str]) -> Server:
        """A server that works through the API, as the account of its name, and reports its own health."""
        argv = [
            str(program),
            f"--kubeconfig={self.kubeconfig(f'system:{name}')}",
            "--leader-elect=false",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--authentication-skip-lookup=true",
            f"--tls-cert-file={self.certificate.cert}",
            f"--tls-private-key-file={self.certificate.key}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            *options,
        ]
        url = f"https://127.0.0.1:{port}/healthz"
        return Server(argv, self.root / f"{name}.log", lambda: _answers(url, self.ca_file))

    # -- credentials

    def _client(self, token: str, server: str = "") -> Api:
        made = Api(server or self.server, self.ca_file, token)
        self._clients.callback(made.close)
        return made

    def _kubeconfig(self, user: str, token: str, *, server: str, namespace: str = "default") -> Path:
        authority = base64.b64encode(self.ca_file.read_bytes()).decode()
        cluster = {"server": server or self.server, "certificate-authority-data": authority}
        found = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [
                {"name": "tests", "context": {"cluster": "tests", "user": user, "namespace": namespace}}
            ],
        }
        folder = self.root / "kubeconfigs"
        folder.mkdir(exist_ok=True)
        port = (server or self.server).rpartition(":")[2]
        path = folder / f"{user.replace(':', '-')}-{port}.yaml"
        path.touch(0o600)
        path.write_text(yaml.safe_dump(found, sort_keys=False))
        return path

    def _wait(self, what: str, look: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not look():
            if time.monotonic() > until:
                logs = "".join(f"\n--- {server.log}\n{server.tail()}" for server in self._started)
                raise RuntimeError(f"{what}: not within {PATIENCE:g} s{logs}")
            time.sleep(0.05)


def _answers(url: str, ca_file: Path | None = None) -> bool:
    """Whether health is reported there. Asked without credentials, which health is open to."""
    context = ssl.create_default_context(cafile=str(ca_file)) if ca_file else False
    try:
        return httpx.get(url, verify=context, timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
