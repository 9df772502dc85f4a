"""A stage whose servers are reached through fault proxies.

Belongs here: putting a proxy in front. Does not belong here: faults, and what should come of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers.git_http import git_http
from tests.servers.proxy import FaultProxy
from tests.servers.registry import Certificate, RegistryServer
from tests.servers.stage import Stage


@contextmanager
def git_behind_proxy(stage: Stage, *, tls: Certificate | None = None) -> Iterator[FaultProxy]:
    """Let the reconciler reach the repository over smart HTTP through a proxy. Its author reaches it as before."""
    with (
        git_http(stage.root) as server,
        FaultProxy(server.url.removeprefix("http://"), http=True, tls=tls) as proxy,
    ):
        address = f"http{'s' if tls else ''}://{proxy.host}/{stage.bare.name}"
        stage.config.write_text(stage.config.read_text().replace(str(stage.bare), address))
        yield proxy


@contextmanager
def registry_behind_proxy(registry: RegistryServer) -> Iterator[FaultProxy]:
    """A proxy in front of a registry: `Stage(root, registry, proxy.host)` knows the registry by its address."""
    with FaultProxy(registry.host, http=True) as proxy:
        yield proxy


def tune(stage: Stage, text: str, arch: str = "amd64", pool: str = "worker") -> str:
    """Change what an image is made of, and push it; returns the commit."""
    (stage.work / "pools" / pool / "files" / arch / "tuning.conf").write_text(text)
    return stage.commit(f"Tune {pool} on {arch}")
