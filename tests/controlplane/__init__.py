"""A real Kubernetes control plane on loopback, for tests: etcd, API server, controllers and scheduler; no kubelet.

In a test, by fixtures (a folder's conftest.py imports them, see `fixtures`):

    @pytest.mark.cluster
    def test_pinned(plane: ControlPlane, namespace: str) -> None:
        plane.add_node("a", Arch.ARM64)
        plane.api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", {...})

What there is:

- `plane`: one ControlPlane per session. `namespace`: a new namespace per test, deleted after it, where pods can be made
  at once. `nodes`: one node per architecture, for this test. `upstream_crds`: the upstream CRDs are installed. Project
  CRDs (`deploy/base/crds`) always are.
- `plane.api`: JSON client of the admin; `get, list, create, put, patch, delete` on paths, `apply` of YAML. What the
  server refuses is an ApiError with `status` and `reason`. `plane.api_for(service_account, namespace)`: another's.
- `plane.kubeconfig()` and `plane.kubeconfig_for(service_account, namespace)`: files, self-contained, with a bearer
  token. `server=` names another address, such as that of a fault proxy.
- `plane.proxy()`: a FaultProxy before the API server that reads every exchange (`http=True`): it ends the client's TLS
  with the API server's own certificate and opens TLS to it anew. Tokens pass; so does nothing else, and nothing else
  is used. `plane.kubeconfig(server=f"https://{proxy.host}")` then goes through it.
- `plane.add_node(name, arch, labels=…, taints=…, kubelet_port=…)`, `plane.remove_node(name)`. A node is Ready and stays
  so: no controller watches heart-beats. `kubelet_port` is where the API server asks for logs (HTTPS on 127.0.0.1).
- `plane.apiserver.kill()` and `.start()`: the API server crashes, and is back at the same address. The others alike:
  `etcd`, `controller_manager`, `scheduler`.
- `plane.kubectl(*words)`: kubectl as admin.

Without pytest: `with ControlPlane(folder, programs.find()) as plane:`. For people: `python -m tests.controlplane up`.
Everything ends when the process that started it ends, kill -9 included.

Modules: `programs` (where the binaries come from), `kept` and `keeper` (processes that die with us), `server` (one of
the four), `plane`, `api`, `nodes`, `fixtures`.
"""

from tests.controlplane.api import Api, ApiError
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import Programs, Unavailable

__all__ = ["Api", "ApiError", "ControlPlane", "Programs", "Unavailable"]
